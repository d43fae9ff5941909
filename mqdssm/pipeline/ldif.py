"""Entries as LDIF (RFC 2849).

The LDIF is for ``ldapadd`` and ``slapadd``, or for ``ldifde`` of Active Directory.
The line ``version: 1`` is left out: slapadd reads it as an attribute and fails (measured with 2.5.13;
slapcat does not write it either). So files can be concatenated.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.errors import DecodeError
from mqdssm.model.dn import DN
from mqdssm.tables import schema
from mqdssm.tables.ldif import (
    AD_SETS_ITSELF,
    BINARY_TRANSFER,
    OWN_CLASSES,
    REFERENCES,
    check_description,
    fold,
)

REFERENCES_SERIES: Final = 900
"""Series of records that set references, after all objects. No DN has as many RDNs."""

_EMPTY: Final = {"cn": b"container", "dc": b"domainDNS", "ou": b"organizationalUnit"}
"""Object class of an empty parent entry, by the attribute type of its RDN in lower case."""
_DESCRIPTOR: Final = "ntsecuritydescriptor"
_OBJECT_CLASS: Final = "objectclass"

Attributes = Sequence[tuple[str, Sequence[bytes]]]
"""Attribute descriptions, in the spelling to write, and their values."""
Security = Callable[[str, bytes], bytes]
"""Translates the security descriptor of an object of a class."""


class Dialect(StrEnum):
    """Kind of server that LDIF is written for."""

    OPENLDAP = "openldap"
    AD = "ad"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of LDIF.

    Attributes:
        series: order of loading; records of a lower series come first.
        data: the text, with the empty line that ends it.
    """

    series: int
    data: bytes


def count_rdns(dn: str) -> int:
    """Return the number of RDNs of a DN; an entry has more of them than its parent."""
    return len(DN.parse(dn)) if "\\" in dn or '"' in dn else dn.count(",") + 1


def record(dn: str, attributes: Attributes, change: str | None = None) -> bytes:
    """Return an LDIF record that adds an entry.

    Args:
        dn: of the object.
        attributes: written in this order.
        change: the changetype; None: the record has none.
    """
    lines = [*fold("dn", dn), *([] if change is None else [f"changetype: {change}"])]
    for name, values in attributes:
        for value in values:
            lines += fold(name, value)
    return _join_lines(lines)


def make_replacement(dn: str, attributes: Attributes) -> bytes:
    """Return an LDIF record that replaces attributes of an entry."""
    lines = [*fold("dn", dn), "changetype: modify"]
    for name, values in attributes:
        lines.append(f"replace: {check_description(name)}")
        for value in values:
            lines += fold(name, value)
        lines.append("-")
    return _join_lines(lines)


def make_modrdn(old: DN, new: DN) -> bytes:
    """Return an LDIF record that moves an entry to another DN."""
    lines = [("newrdn", str(DN((new.rdns[0],)))), ("deleteoldrdn", "1"), ("newsuperior", str(new.parent))]
    return record(str(old), [(name, [value.encode()]) for name, value in lines], "modrdn")


def _join_lines(lines: Sequence[str]) -> bytes:
    return "\n".join([*lines, "", ""]).encode("ascii")


def to_openldap(dn: str, attributes: Attributes, security: Security) -> list[Record]:
    """Return the records of an entry for slapd.

    Args:
        dn: of the entry.
        attributes: those to keep.
        security: translates the security descriptor.
    """
    written = [
        (f"{name};binary" if name.lower() in BINARY_TRANSFER else name, values)  # else named with ;binary
        for name, values in attributes
    ]
    kind = class_of(attributes)
    return [
        Record(count_rdns(dn), record(dn, _translate_security(_put_classes_first(written), kind, security)))
    ]


def select_for_openldap(dn: str, attributes: Attributes) -> Attributes | None:
    """Return the attributes of an AD object that the OpenLDAP schema allows.

    An object of an unknown class becomes an empty entry whose class fits its RDN, as a parent of the objects
    below; None if no class fits.

    Args:
        dn: of the object.
        attributes: all that it has.
    """
    kind = class_of(attributes)
    if kind.lower() not in schema.CLASSES:
        ((name, value), *_) = DN.parse(dn).rdn
        empty = _EMPTY.get(name.lower())
        return None if empty is None else [("objectClass", [b"top", empty]), (name, [value.encode()])]
    allowed = {name.lower() for name in schema.list_allowed_attributes(kind)}
    pairs = [(name, values) for name, values in attributes if name.lower() in allowed]
    return [("objectClass", [b"top", kind.encode()]), *pairs]


def to_ad(dn: str, attributes: Attributes, security: Security) -> list[Record]:
    """Return the records of an entry for Active Directory.

    References to other objects come last.
    Attributes that Active Directory sets itself are left out.

    Args:
        dn: of the entry.
        attributes: all that it has.
        security: translates the security descriptor.
    """
    kind = class_of(attributes)
    pairs: list[tuple[str, Sequence[bytes]]] = []
    later: list[tuple[str, Sequence[bytes]]] = []
    for name, values in attributes:
        plain = name.lower()
        if plain == _OBJECT_CLASS:
            pairs.append((name, [value for value in values if value.decode().lower() not in OWN_CLASSES]))
        elif plain in REFERENCES:
            later.append((name, values))
        elif plain not in AD_SETS_ITSELF:
            pairs.append((name, values))
    translated = _translate_security(_put_classes_first(pairs), kind, security)
    records = [Record(count_rdns(dn), record(dn, translated, "add"))]
    if later:
        records.append(Record(REFERENCES_SERIES, make_replacement(dn, later)))
    return records


def class_of(attributes: Attributes) -> str:
    """Return the most derived object class of an entry.

    Servers order the values differently.
    """
    names = next((values for name, values in attributes if name.lower() == _OBJECT_CLASS), [])
    class_names = [value.decode(errors="replace") for value in names]
    known_classes = [name for name in class_names if name.lower() in schema.CLASSES]
    if known_classes:
        return schema.find_object_class(
            max(known_classes, key=lambda name: len(schema.list_superiors(name)))
        ).name
    return class_names[-1] if class_names else ""


def make_ad_translation() -> Security:
    """Return the translation of MSMQ security descriptors to Active Directory.

    See decision M31.
    """
    return ActiveDirectory().encode_security


def as_stored(ldap_class: str, image: bytes) -> bytes:  # noqa: ARG001  the shape of a translation
    """Return the security descriptor unchanged."""
    return image


def _translate_security(attributes: Attributes, ldap_class: str, security: Security) -> Attributes:
    if security is as_stored:
        return attributes
    return [
        (
            name,
            [_translate_image(ldap_class, value, security) for value in values]
            if name.lower() == _DESCRIPTOR
            else values,
        )
        for name, values in attributes
    ]


def _translate_image(ldap_class: str, image: bytes, security: Security) -> bytes:
    try:
        return security(ldap_class, image)
    except DecodeError:
        return image  # a damaged value stays as it is stored


def _put_classes_first(attributes: Iterable[tuple[str, Sequence[bytes]]]) -> Attributes:
    """Return the attributes with objectClass first, as ldifde and people expect."""
    return sorted(attributes, key=lambda item: item[0].lower() != _OBJECT_CLASS)
