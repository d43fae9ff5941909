"""Recorded attributes ("bodies") of watched objects, and the values in changes.

A body has the attributes that are not as by default, in the form of the element's JSON, so that a state file
can hold it. Of octets (security descriptors, certificates, keys) only a digest is kept (decision W5).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from mqdssm.events.attribute_plan import Value
from mqdssm.model.base import DirectoryObject
from mqdssm.model.watching import LDAP_MARK, UNKNOWN, WATCHED_TYPES, AttributeChange
from mqdssm.tables import table_of
from mqdssm.tables.syntax import Kind

Body: TypeAlias = Mapping[str, Any]
"""Attribute -> its value as JSON has it."""

FULL_PATH: Final = "FullPath"
"""Name under which a changed DN is reported, also for Enterprise, which has no such attribute."""
BESIDE_THE_BODY: Final = frozenset({"Identifier", FULL_PATH, "DirectoryPath"})
"""Attributes that follow from the object's GUID and DN, which are recorded anyway."""
_DIGEST: Final = "sha256"
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Object as it was read (decision W2).

    Attributes:
        key: tells it apart from all others, for ever.
        type: of the object: a key of `WATCHED_TYPES`.
        dn: as the server wrote it.
        guid: its objectGUID as text; None if none can be read.
        body: the remembered values.
        version: of its entry, as `TouchedEntry.version`.
        whole: the values of which the body has a digest.
        is_damaged: its name is no distinguished name, so nothing else was read.
    """

    key: str
    type: str
    dn: str
    guid: str | None
    body: Body
    version: str = ""
    whole: Mapping[str, Any] = field(default_factory=dict)
    is_damaged: bool = False


def body_of(element: DirectoryObject) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the body of an element, and its digests (decision W5).

    Digests stand for some values of the body.
    """
    populated = element.model_fields_set
    fields = {
        field: (name, octets)
        for field, name, default, octets in _fields_of(element.element_name)
        if field in populated and getattr(element, field) != default
    }
    plain = element.model_dump(mode="json", include=set(fields))
    body: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for python_name, (name, octets) in fields.items():
        if octets:
            body[name] = _digest_of(json.dumps(plain[python_name]).encode())
            whole[name] = getattr(element, python_name)
        else:
            body[name] = plain[python_name]
    return body, whole


@cache
def _fields_of(table: str) -> tuple[tuple[str, str, Any, bool], ...]:
    """Return field, name, default, and True for digests, of each attribute of a body."""
    element_table = table_of(table)
    return tuple(
        (row.field, row.adm, _default_of(element_table.element, row.adm), row.kind is Kind.BYTES)
        for row in element_table.rows
        if row.adm not in BESIDE_THE_BODY
    )


def add_ldap(
    body: dict[str, Any], whole: dict[str, Any], names: Sequence[str], values: Sequence[Value]
) -> None:
    """Add attributes that the model does not have, under `LDAP_MARK`.

    Octets are written as in decision W5.
    """
    for name, value in zip(names, values, strict=True):
        items = [value] if isinstance(value, bytes) else sorted(value or ())
        if not items:
            continue
        marked = LDAP_MARK + name
        texts = [_decode_text(item) for item in items]
        if None in texts:
            body[marked], whole[marked] = _digest_of(b"\0".join(items)), tuple(items)
        else:
            body[marked] = texts


def make_attribute_change(
    type_name: str, name: str, old: Any, new: Any, whole: Mapping[str, Any]
) -> AttributeChange:
    """Return the old and new value of an attribute, in the form of the element (W5).

    Args:
        type_name: of the object.
        name: of the attribute.
        old: of a body, `ABSENT` or `DEFAULT`.
        new: of a body, `ABSENT` or `DEFAULT`.
        whole: the values of which the new body has a digest.
    """
    return AttributeChange(
        _restore_value(type_name, name, old),
        whole[name] if name in whole else _restore_value(type_name, name, new),
    )


ABSENT: Final = _ABSENT
"""Marker in place of a body's value: the object does not exist."""
DEFAULT: Final = object()
"""Marker in place of a body's value: the attribute has its default."""


def _restore_value(type_name: str, name: str, plain: Any) -> Any:
    if plain is ABSENT:
        return None
    if isinstance(plain, dict) and set(plain) == {_DIGEST}:
        return UNKNOWN
    element = WATCHED_TYPES[type_name]
    if name.startswith(LDAP_MARK) or name not in element.adm_names():
        return None if plain is DEFAULT else tuple(plain) if isinstance(plain, list) else plain
    if plain is DEFAULT:
        return _default_of(element, name)
    try:
        read = element.from_json(json.dumps({name: plain}))
    except ValueError:  # elements hold what a directory has, also what nobody may write
        return plain
    return getattr(read, element.field_name(name))


def _default_of(element: type[DirectoryObject], name: str) -> Any:
    return element.model_fields[element.field_name(name)].default


def has_digest(body: str) -> bool:
    """Return True if the text of a body may contain a digest."""
    return f'"{_DIGEST}"' in body


def _digest_of(octets: bytes) -> dict[str, str]:
    return {_DIGEST: hashlib.sha256(octets).hexdigest()}


def _decode_text(octets: bytes) -> str | None:
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None
