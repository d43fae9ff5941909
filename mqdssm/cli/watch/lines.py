"""Changes as lines: JSON for programs, columns for people."""

import json
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.objects import display
from mqdssm.model.safe_text import escape_json

if TYPE_CHECKING:
    from datetime import datetime

    from mqdssm.model.watching import AttributeChange, ObjectChange

SHOWN_CHARS_MAX: Final = 60
"""Maximum characters of a value in a line for people; JSON has all of them."""
_UNKNOWN: Final = "(not kept)"
_NOTHING: Final = "(none)"


def format_status(stamp: "tuple[str, datetime]", event: str, **more: str) -> str:
    """Return a JSON line on the status of the watch."""
    name, time = stamp
    document = {"id": name, "time": _format_time(time), "event": event, **more}
    return escape_json(json.dumps(document, ensure_ascii=False))


def _format_time(time: "datetime") -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_of(change: "ObjectChange") -> str:
    """Format a change as one line of JSON.

    Unknown values are left out; a missing value is null.
    """
    document = {
        "id": change.id,
        "time": None if change.time is None else _format_time(change.time),
        "event": change.event.value,
        "type": change.type,
        "dn": change.dn,
        "guid": None if change.guid is None else str(change.guid),
        "changes": {
            name: _convert_sides(change, name, attribute_change)
            for name, attribute_change in change.changes.items()
        },
    }
    return escape_json(json.dumps(document, ensure_ascii=False))


def _convert_sides(change: "ObjectChange", name: str, attribute_change: "AttributeChange") -> dict[str, Any]:
    from mqdssm.model.watching import UNKNOWN

    sides = {"old": attribute_change.old, "new": attribute_change.new}
    return {
        side: _convert_value(change, name, value) for side, value in sides.items() if value is not UNKNOWN
    }


def _convert_value(change: "ObjectChange", name: str, value: Any) -> Any:
    """Return a value in the JSON form of its element."""
    if value is None:
        return None
    if name in change.element.adm_names():
        field = change.element.field_name(name)
        return json.loads(change.element.from_directory({field: value}).to_json(memory=False))[name]
    return _convert_ldap_value(value)


def _convert_ldap_value(value: Any) -> Any:
    from base64 import b64encode

    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, tuple | list):
        return [_convert_ldap_value(item) for item in value]
    return value


def text_of(change: "ObjectChange") -> str:
    """Format a change as one line for people."""
    texts = [
        f"{name}: {_format_change(change, name, attribute_change)}"
        for name, attribute_change in change.changes.items()
    ]
    return "  ".join(
        (f"{change.event.value:7}", f"{change.type:13}", change.dn, *(["; ".join(texts)] * bool(texts)))
    )


def _format_change(change: "ObjectChange", name: str, attribute_change: "AttributeChange") -> str:
    from mqdssm.model.watching import ChangeEvent

    if change.event is ChangeEvent.CREATED:
        return _text_of(change, name, attribute_change.new)
    if change.event is ChangeEvent.DELETED:
        return _text_of(change, name, attribute_change.old)
    return f"{_text_of(change, name, attribute_change.old)} → {_text_of(change, name, attribute_change.new)}"


def _text_of(change: "ObjectChange", name: str, value: Any) -> str:
    from mqdssm.model.watching import UNKNOWN
    from mqdssm.tables import table_of

    if value is UNKNOWN:
        return _UNKNOWN
    if value is None or value in ("", b"", ()):
        return _NOTHING
    row = table_of(change.element).by_adm.get(name)
    text = display.text_of(row, value) if row is not None else _format_ldap_value(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"


def _format_ldap_value(value: Any) -> str:
    plain = _convert_ldap_value(value)
    return ", ".join(map(str, plain)) if isinstance(plain, list) else str(plain)
