"""Changes of entries, performed or refused as in slapd.

See [RFC4511] 4.6 to 4.9 and [RFC4512] 2.4.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

from mqdssm.directory.requests import ChangeType, Modification
from mqdssm.model.dn import DN
from mqdssm.testing.ldap.rules import (
    CLASSES,
    OBJECT_CLASS,
    TYPES,
    find_structural_class,
    format_name,
    list_allowed,
    spell_types,
)
from mqdssm.testing.ldap.tree import Attributes

STRUCTURAL: Final = "structuralobjectclass"


class LdapCode(IntEnum):
    """Result codes of the simulated directory ([RFC4511] 4.1.9, [RFC4528])."""

    SUCCESS = 0
    PROTOCOL_ERROR = 2
    SIZE_LIMIT_EXCEEDED = 4
    UNAVAILABLE_CRITICAL_EXTENSION = 12
    NO_SUCH_ATTRIBUTE = 16
    UNDEFINED_ATTRIBUTE_TYPE = 17
    CONSTRAINT_VIOLATION = 19
    ATTRIBUTE_OR_VALUE_EXISTS = 20
    INVALID_ATTRIBUTE_SYNTAX = 21
    NO_SUCH_OBJECT = 32
    INVALID_DN_SYNTAX = 34
    UNWILLING_TO_PERFORM = 53
    NAMING_VIOLATION = 64
    OBJECT_CLASS_VIOLATION = 65
    NOT_ALLOWED_ON_NON_LEAF = 66
    ENTRY_ALREADY_EXISTS = 68
    OBJECT_CLASS_MODS_PROHIBITED = 69
    OTHER = 80
    AFFECTS_MULTIPLE_DSAS = 71
    ASSERTION_FAILED = 122


class LdapRefusal(Exception):  # noqa: N818  it is a result for the client
    """Result of a refused request.

    Attributes:
        code: the result code.
        text: the diagnostic message.
        matched: the deepest entry that exists, where the result says so.
    """

    def __init__(self, code: LdapCode, text: str = "", *, matched: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.matched = matched


@lru_cache(maxsize=4096)
def parse_name(text: str) -> DN:
    """Parse a DN, and return it as the server spells it.

    Raises:
        LdapRefusal: it is no DN, or has unknown attribute types.
    """
    try:
        return spell_types(DN.parse(text))
    except (ValueError, KeyError):
        raise LdapRefusal(LdapCode.INVALID_DN_SYNTAX, "invalid DN") from None


def check_values(attribute: str, values: Sequence[bytes], op: ChangeType = ChangeType.ADD) -> None:
    """Raise LdapRefusal for values that an attribute cannot have in any entry.

    Raises:
        LdapRefusal: the values are invalid; slapd checks this before it reads the entry.
    """
    kind = TYPES.get(attribute.lower())
    if kind is None:
        raise LdapRefusal(LdapCode.UNDEFINED_ATTRIBUTE_TYPE, f"{attribute}: attribute type undefined")
    normal = [kind.normalize(value) for value in values]
    if None in normal:
        at = normal.index(None)
        raise LdapRefusal(LdapCode.INVALID_ATTRIBUTE_SYNTAX, f"{kind.name}: value #{at} invalid per syntax")
    if op is ChangeType.DELETE or len(values) <= 1:
        return
    if kind.single:
        raise LdapRefusal(LdapCode.CONSTRAINT_VIOLATION, f"{kind.name}: multiple values provided")
    if len(set(normal)) < len(normal):
        raise LdapRefusal(LdapCode.ATTRIBUTE_OR_VALUE_EXISTS, f"{kind.name}: a value provided more than once")


def check_writable(attribute: str) -> None:
    """Raise LdapRefusal for an operational attribute, which only the server writes.

    Raises:
        LdapRefusal: the attribute is operational.
    """
    kind = TYPES[attribute.lower()]
    if kind.operational:
        raise LdapRefusal(LdapCode.CONSTRAINT_VIOLATION, f"{kind.name}: no user modification allowed")


def make_attributes(name: DN, raw_attributes: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
    """Return the attributes of a new entry: the given ones, and values of its RDN.

    Raises:
        LdapRefusal: the entry would break the schema.
    """
    attributes = {
        attribute.lower(): convert_values(attribute, values) for attribute, values in raw_attributes.items()
    }
    for kind, value in name.rdn:
        _add_to(attributes, kind.lower(), [value.encode()], silently=True)
    check_entry(name, attributes)
    return attributes


def modify(name: DN, attributes: Attributes, changes: Iterable[Modification]) -> dict[str, list[bytes]]:
    """Return the attributes of an entry after a modify operation.

    Raises:
        LdapRefusal: a change is impossible, or the entry would break the schema.
    """
    result = {attribute: list(values) for attribute, values in attributes.items()}
    for change in changes:
        key = change.attribute.lower()
        if change.op is ChangeType.ADD:
            _add_to(result, key, change.values)
        elif change.op is ChangeType.DELETE:
            _delete_from(result, key, change.values)
        elif change.op is ChangeType.REPLACE:
            result.pop(key, None)
            if change.values:
                result[key] = convert_values(key, change.values)
        else:
            raise LdapRefusal(LdapCode.PROTOCOL_ERROR, "unrecognized modify operation")
    check_entry(name, result)
    return result


def rename(old: DN, new: DN, attributes: Attributes, *, deletes_old: bool) -> dict[str, list[bytes]]:
    """Return the attributes of an entry after a rename.

    Raises:
        LdapRefusal: the entry would break the schema.
    """
    result = {attribute: list(values) for attribute, values in attributes.items()}
    if deletes_old:
        for kind, value in old.rdn:
            _delete_from(result, kind.lower(), [value.encode()])
    for kind, value in new.rdn:
        _add_to(result, kind.lower(), [value.encode()], silently=True)
    check_entry(new, result)
    return result


def convert_values(attribute: str, values: Sequence[bytes]) -> list[bytes]:
    """Return values as the server stores them: DNs in the server's spelling."""
    if not TYPES[attribute.lower()].names:
        return list(values)
    return [format_name(parse_name(value.decode())).encode() for value in values]


def _add_to(
    attributes: dict[str, list[bytes]], key: str, values: Sequence[bytes], *, silently: bool = False
) -> None:
    entry_values = attributes.setdefault(key, [])
    normalize = TYPES[key].normalize
    normalized_values = {normalize(item) for item in entry_values}
    for count, value in enumerate(convert_values(key, values)):
        if normalize(value) not in normalized_values:
            entry_values.append(value)
        elif not silently:
            raise LdapRefusal(
                LdapCode.ATTRIBUTE_OR_VALUE_EXISTS, f"modify/add: {key}: value #{count} already exists"
            )


def _delete_from(attributes: dict[str, list[bytes]], key: str, values: Sequence[bytes]) -> None:
    entry_values = attributes.get(key)
    if entry_values is None:
        raise LdapRefusal(LdapCode.NO_SUCH_ATTRIBUTE, f"modify/delete: {key}: no such attribute")
    normalize = TYPES[key].normalize
    going = {normalize(value) for value in values}
    if not going <= {normalize(value) for value in entry_values}:
        raise LdapRefusal(LdapCode.NO_SUCH_ATTRIBUTE, f"modify/delete: {key}: no such value")
    remaining = [value for value in entry_values if normalize(value) not in going] if going else []
    if remaining:
        attributes[key] = remaining
    else:
        del attributes[key]


def check_entry(name: DN, attributes: dict[str, list[bytes]]) -> None:
    """Raise LdapRefusal for an entry that breaks the schema.

    Else its structural class is set.

    Raises:
        LdapRefusal: the entry breaks the schema.
    """
    for key, values in attributes.items():
        if TYPES[key].single and len(values) > 1:
            raise LdapRefusal(
                LdapCode.CONSTRAINT_VIOLATION, f"attribute '{TYPES[key].name}' cannot have multiple values"
            )
    class_values = attributes.get(OBJECT_CLASS)
    if not class_values:
        raise LdapRefusal(LdapCode.OBJECT_CLASS_VIOLATION, "no objectClass attribute")
    classes = frozenset(value.decode().lower() for value in class_values)
    structural = find_structural_class(classes)
    if structural is None:
        raise LdapRefusal(LdapCode.OBJECT_CLASS_VIOLATION, "no structural object class provided")
    spelt = CLASSES[structural].name
    before = attributes.get(STRUCTURAL)
    if before is not None and before != [spelt.encode()]:
        raise LdapRefusal(
            LdapCode.OBJECT_CLASS_MODS_PROHIBITED,
            f"structural object class modification from '{before[0].decode()}' to '{spelt}' not allowed",
        )
    _check_name(name, attributes)
    needed, allowed = list_allowed(classes)
    for owner, attribute in needed:
        if attribute.lower() not in attributes:
            raise LdapRefusal(
                LdapCode.OBJECT_CLASS_VIOLATION, f"object class '{owner}' requires attribute '{attribute}'"
            )
    for key in attributes:
        if key not in allowed and not TYPES[key].operational:
            raise LdapRefusal(LdapCode.OBJECT_CLASS_VIOLATION, f"attribute '{TYPES[key].name}' not allowed")
    attributes[STRUCTURAL] = [spelt.encode()]


def _check_name(name: DN, attributes: Attributes) -> None:
    """Raise LdapRefusal for an entry that lacks a value of its RDN."""
    for kind, value in name.rdn:
        attribute_type = TYPES[kind.lower()]
        normalized = attribute_type.normalize(value.encode())
        if normalized not in {attribute_type.normalize(raw) for raw in attributes.get(kind.lower(), ())}:
            raise LdapRefusal(
                LdapCode.NAMING_VIOLATION, f"value of naming attribute '{kind}' is not present in entry"
            )
