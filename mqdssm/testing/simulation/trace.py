"""Violations of a run, and descriptions for its trace.

The trace describes events and messages briefly.
"""

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Final

from mqdssm.model.guid import Guid
from mqdssm.model.hresults import name_of
from mqdssm.model.propids import Propid
from mqdssm.model.seqnum import MAX

_GUID_CHARS: Final = 4
_SILENT: Final = frozenset({"site_id", "known_purged_seq_number", "object_type_of"})
_STATUSES: Final = frozenset({"status", "result"})
_ITEMS_MAX: Final = 12
_SHORT: Final = {
    "partition_id": "P",
    "previous_seq_number": "prev",
    "seq_number": "#",
    "purged_seq_number": "purged",
}


class Violation(Exception):  # noqa: N818  the summary of runs calls it a violation
    """An engine or a store broke a property that every run must have."""


def describe(value: object) -> str:
    """Describe a value briefly.

    Only fields that differ from their defaults are shown, and of GUIDs the first digits.
    """
    if isinstance(value, Guid):
        return str(value)[:_GUID_CHARS]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return "MAX" if value == MAX else str(int(value))
    if is_dataclass(value) and not isinstance(value, type):
        return _describe_fields(value)
    if isinstance(value, tuple | list):
        return _describe_items(value)
    return repr(value)


def _describe_items(items: tuple[object, ...] | list[object]) -> str:
    if items and all(
        isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Propid) for item in items
    ):
        texts = [f"{item[0].name}={describe(item[1])}" for item in items if item[1] not in {0, "", b"", ()}]  # type: ignore[index]
        return "{" + " ".join(texts) + "}"
    texts = [describe(item) for item in items[:_ITEMS_MAX]]
    more = f" … {len(items)}" if len(items) > _ITEMS_MAX else ""
    return "[" + ", ".join(texts) + more + "]"


def _describe_fields(value: object) -> str:
    texts = []
    for field in fields(value):  # type: ignore[arg-type]
        content = getattr(value, field.name)
        default = None if field.default is MISSING else field.default
        if field.name in _SILENT or content == default or content is None:
            continue
        text = name_of(content) if field.name in _STATUSES and isinstance(content, int) else describe(content)
        texts.append(f"{_SHORT.get(field.name, field.name)}={text}")
    return f"{type(value).__name__}({' '.join(texts)})"
