"""Attribute types and object classes of slapd, with syntaxes and matching rules.

The tables of mqdssm define the schema files. This module adds the definitions of slapd itself and of
core.schema, and the matching rules of [RFC4517]. `MatchingType.normalize` returns the form for comparison.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypeAlias
from uuid import UUID

from mqdssm.model.dn import DN, fold_case, normalize
from mqdssm.tables import adsyntax as ad
from mqdssm.tables import schema_attributes, schema_classes, schema_mqis
from mqdssm.tables.schema_attributes import AttributeType
from mqdssm.tables.schema_classes import ObjectClass

Normal: TypeAlias = bytes | int
"""Normalized value: folded text, an integer, a normalized name, or octets."""
Normalizer: TypeAlias = Callable[[bytes], Normal | None]
"""Function that normalizes a value; None: the value is invalid in its syntax."""

OBJECT_CLASS: Final = "objectclass"
ENTRY_DN: Final = "entrydn"
SUBSCHEMA_ENTRY: Final = "subschemasubentry"
SUBSCHEMA: Final = "cn=Subschema"
TOP: Final = "top"
_KEPT: Final = 8192
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]*")
_PRINTABLE: Final = re.compile(rb"[A-Za-z0-9'()+,./:? =-]+")
_TIME: Final = re.compile(rb"([0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[01][0-9]|2[0-3])"
                          rb"[0-5][0-9](?:[0-5][0-9]|60))(?:[.,]([0-9]+))?Z")  # fmt: skip
_ESCAPED: Final = re.compile(r"\\([^0-9A-Fa-f])")
_MULTIVALUED: Final = frozenset({"cn", "sn", "givenname", "mail", "telephonenumber", "distinguishedname"})
"""Multi-valued attributes of core.schema that are single-valued in Microsoft's schema."""


@dataclass(frozen=True, slots=True)
class MatchingType:
    """Attribute type with its matching rules.

    Attributes:
        name: as the server spells it.
        normalize: normalizes a value for comparison.
        ordered: values have an order.
        substrings: parts of values can be looked for.
        single: at most one value.
        operational: only the server may write it.
        names: values are names of entries.
    """

    name: str
    normalize: Normalizer
    ordered: bool = False
    substrings: bool = False
    single: bool = False
    operational: bool = False
    names: bool = False


def _keep_octets(raw: bytes) -> bytes:
    return raw


@lru_cache(maxsize=_KEPT)
def _normalize_text(raw: bytes) -> bytes | None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return fold_case(text).encode() if text else None


def _normalize_ascii(raw: bytes) -> bytes | None:
    return _normalize_text(raw) if raw.isascii() else None


def _normalize_printable(raw: bytes) -> bytes | None:
    return _normalize_text(raw) if _PRINTABLE.fullmatch(raw) else None


def _normalize_boolean(raw: bytes) -> bytes | None:
    return raw if raw in {b"TRUE", b"FALSE"} else None


def _normalize_integer(raw: bytes) -> int | None:
    return int(raw) if _INTEGER.fullmatch(raw) else None


def _normalize_time(raw: bytes) -> bytes | None:
    match = _TIME.fullmatch(raw)
    return None if match is None else match[1] + b"." + (match[2] or b"").rstrip(b"0")


@lru_cache(maxsize=_KEPT)
def _normalize_name(raw: bytes) -> bytes | None:
    try:
        return normalize(raw.decode()).encode()
    except ValueError:
        return None


def spell_types(name: DN) -> DN:
    """Return a name with its attribute types spelt as in the schema."""
    return DN.of(*((TYPES[kind.lower()].name, value) for ((kind, value), *_) in name.rdns))


def format_name(name: DN) -> str:
    """Return the text of a name as the server writes it.

    Special characters are in hexadecimal.
    """
    text = str(name)
    return _ESCAPED.sub(lambda match: f"\\{ord(match[1]):02X}", text) if "\\" in text else text


def _normalize_uuid(raw: bytes) -> bytes | None:
    try:
        return UUID(raw.decode("ascii")).bytes
    except ValueError:
        return None


_SYNTAXES: Final[Mapping[int, Normalizer]] = {
    ad.DN.ldap_syntax: _normalize_name,
    ad.UNICODE.ldap_syntax: _normalize_text,
    ad.PRINTABLE.ldap_syntax: _normalize_printable,
    ad.BOOLEAN.ldap_syntax: _normalize_boolean,
    ad.INTEGER.ldap_syntax: _normalize_integer,
    ad.OCTET_STRING.ldap_syntax: _keep_octets,
    ad.GENERALIZED_TIME.ldap_syntax: _normalize_time,
}


def _type_of(attribute: AttributeType) -> MatchingType:
    syntax = attribute.syntax
    return MatchingType(
        attribute.name,
        _SYNTAXES[syntax.ldap_syntax],
        ordered=syntax.ordering is not None and not attribute.builtin,  # core.schema has no ordering
        substrings=syntax.substrings is not None,
        single=attribute.single and attribute.name.lower() not in _MULTIVALUED,
        names=syntax is ad.DN,
    )


def _make_operational_type(name: str, normalizer: Normalizer, *, ordered: bool = False) -> MatchingType:
    return MatchingType(name, normalizer, ordered=ordered, single=True, operational=True)


@cache
def _normalize_class_name(raw: bytes) -> bytes | None:
    name = raw.decode("ascii", "replace").lower()
    return name.encode() if name in CLASSES else None


CLASSES: Final[Mapping[str, ObjectClass]] = {
    TOP: ObjectClass(name=TOP, oid="2.5.6.0", superior="", kind="ABSTRACT", must=("objectClass",)),
    **{
        object_class.name.lower(): object_class
        for object_class in (*schema_classes.ALL, *schema_mqis.CLASSES)
    },
}
"""Object classes by lower-case name."""
TYPES: Final[Mapping[str, MatchingType]] = {
    OBJECT_CLASS: MatchingType("objectClass", _normalize_class_name),
    **{
        attribute.name.lower(): _type_of(attribute)
        for attribute in (*schema_attributes.ALL, *schema_mqis.ATTRIBUTES)
    },
    "dc": MatchingType("dc", _normalize_ascii, substrings=True, single=True),
    "structuralobjectclass": _make_operational_type("structuralObjectClass", _normalize_class_name),
    "entryuuid": _make_operational_type("entryUUID", _normalize_uuid, ordered=True),
    "entrycsn": _make_operational_type("entryCSN", _keep_octets, ordered=True),
    "creatorsname": _make_operational_type("creatorsName", _normalize_name),
    "modifiersname": _make_operational_type("modifiersName", _normalize_name),
    "createtimestamp": _make_operational_type("createTimestamp", _normalize_time, ordered=True),
    "modifytimestamp": _make_operational_type("modifyTimestamp", _normalize_time, ordered=True),
    ENTRY_DN: _make_operational_type("entryDN", _normalize_name),
    SUBSCHEMA_ENTRY: _make_operational_type("subschemaSubentry", _normalize_name),
}
"""Attribute types by lower-case name."""
INDEXED: Final = frozenset(
    {
        OBJECT_CLASS,
        "cn",
        "entryuuid",
        ENTRY_DN,
        *(
            attribute.name.lower()
            for attribute in (*schema_attributes.ALL, *schema_mqis.ATTRIBUTES)
            if attribute.indexed
        ),
    }
)
"""Indexed attributes, by lower-case name."""


@cache
def list_superclasses(name: str) -> tuple[str, ...]:
    """Return the lower-case names of a class and its superclasses.

    The class itself is first.
    """
    chain = [name]
    while CLASSES[chain[-1]].superior:
        chain.append(CLASSES[chain[-1]].superior.lower())
    return tuple(chain)


@cache
def list_allowed(classes: frozenset[str]) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """Return the required and allowed attributes of entries with some object classes.

    Returns:
        Class and attribute of each that is needed, and all lower-case names that are allowed.
    """
    every = dict.fromkeys(above for class_name in sorted(classes) for above in list_superclasses(class_name))
    needed = tuple(
        (CLASSES[class_name].name, name) for class_name in every for name in CLASSES[class_name].must
    )
    allowed = {
        name.lower()
        for class_name in every
        for name in (*CLASSES[class_name].must, *CLASSES[class_name].filled_in, *CLASSES[class_name].may)
    }
    return needed, frozenset(allowed)


@cache
def find_structural_class(classes: frozenset[str]) -> str | None:
    """Return the structural class of an entry.

    None if there is none, or no single superclass chain.
    """
    structural = [class_name for class_name in classes if CLASSES[class_name].kind == "STRUCTURAL"]
    lowest = max(structural, key=lambda class_name: len(list_superclasses(class_name)), default=None)
    if lowest is None or not set(structural) <= set(list_superclasses(lowest)):
        return None
    return lowest


def normalize_values(name: str, values: Iterable[bytes]) -> frozenset[Normal]:
    """Return the normalized values of an attribute.

    objectClass includes superclasses.
    """
    kind = TYPES[name]
    normalized = {normal for value in values if (normal := kind.normalize(value)) is not None}
    if name == OBJECT_CLASS:
        normalized = {
            above.encode()
            for value in normalized
            if isinstance(value, bytes)
            for above in list_superclasses(value.decode())
        }
    return frozenset(normalized)
