"""Storage of one property in an entry: carriers and rows.

The entry is one of the replication store.
A carrier converts the property's value into values of one LDAP attribute and back. Some
values would not come back bit for bit: a boolean of 7, an empty text, a list in its order. For these the
entry also keeps the octets of the value, in ``mqisExact`` (decision R27).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from mqdssm.errors import DecodeError, MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import INTEGERS, Propid, Variant
from mqdssm.tables.row import Row
from mqdssm.tables.syntax import DESCRIPTOR, UINT32, UNICODE, Kind
from mqdssm.wire.dtyp import SecurityDescriptor, Sid
from mqdssm.wire.propvalue import decode_value, encode_value

Raws: TypeAlias = tuple[bytes, ...]
"""Values of an LDAP attribute; an empty tuple: the attribute is absent."""
Entry: TypeAlias = Mapping[str, Sequence[bytes]]
"""LDAP attributes of an entry, named as in the schema or in lower case; one left out is absent."""

DESCRIPTORS_REMEMBERED: Final = 4096
"""Size of the cache of descriptors: thousands of objects share a few."""
SHOWN_CHARS_MAX: Final = 60  # of a wrong value in a message
NONE: Final = b""
"""Octets in ``mqisExact`` of a property that the object does not have; those of a value are never empty."""
_DECIMAL: Final = re.compile(rb"0|-?[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Carrier:
    """Conversion between a property's value and the values of one LDAP attribute.

    Attributes:
        dump: returns the values to store; none if the attribute cannot represent the value.
        load: returns the property's value from one or more LDAP values; raises MappingError or ValueError.
        about: name in the documentation.
        ordered: True if several values come back in their order; LDAP does not guarantee that.
    """

    dump: Callable[[Any], Raws]
    load: Callable[[Sequence[bytes]], Any]
    about: str
    ordered: bool = True


def pack_value(propid: Propid, value: PropertyValue) -> bytes:
    """Return the octets of a value ([MS-MQCN] 2.2.3) for ``mqisExact``.

    The octets are never empty.

    Raises:
        MappingError: the value does not fit the property's variant.
    """
    try:
        return encode_value(propid.variant, value)
    except ValueError:
        value_text = repr(value)[:SHOWN_CHARS_MAX]
        raise MappingError(f"{propid.spec_name}: {value_text} is no {propid.variant}") from None


def unpack_value(propid: Propid, octets: bytes) -> PropertyValue:
    """Return the value of some octets, bit for bit the argument of `pack_value`.

    Raises:
        MappingError: the octets do not fit the property's variant.
    """
    try:
        value: PropertyValue = decode_value(propid.variant, octets)
    except DecodeError as error:
        raise MappingError(f"{propid.spec_name}: {error}") from None
    return value


def _single_value(raws: Sequence[bytes]) -> bytes:
    if len(raws) != 1:
        raise MappingError(f"holds {len(raws)} values, one is expected")
    return raws[0]


def _text(value: str) -> Raws:
    try:
        return (value.encode(),) if value else ()
    except UnicodeEncodeError:  # half of a surrogate pair
        return ()


def _load_number(raws: Sequence[bytes]) -> int:
    raw = _single_value(raws)
    if _DECIMAL.fullmatch(raw) is None:
        raise MappingError(f"is no number: {raw!r}")
    return int(raw)


def _guids(raws: Sequence[bytes]) -> tuple[Guid, ...]:
    raw = _single_value(raws)
    return tuple(Guid(raw[i : i + GUID_BYTES]) for i in range(0, len(raw), GUID_BYTES))


def _octets(value: bytes) -> Raws:
    return (value,) if value else ()


@lru_cache(maxsize=DESCRIPTORS_REMEMBERED)
def _descriptor(value: bytes) -> Raws:
    try:
        SecurityDescriptor.from_bytes(value)
    except DecodeError:
        return ()  # a damaged one must not be used for access decisions
    return (value,)


def _sid(value: bytes) -> Raws:
    try:
        return (value,) if bytes(Sid.from_bytes(value)) == value else ()
    except ValueError:
        return ()


TEXT: Final = Carrier(_text, lambda raws: UNICODE.load(_single_value(raws)), "text")
NUMBER: Final = Carrier(lambda value: (b"%d" % value,), _load_number, "number")
GUID: Final = Carrier(lambda value: (bytes(value),), lambda raws: Guid(_single_value(raws)), "GUID")
GUIDS: Final = Carrier(lambda value: _octets(b"".join(value)), _guids, "GUIDs, one behind the other")
GUID_SET: Final = Carrier(
    lambda value: tuple(dict.fromkeys(map(bytes, value))),
    lambda raws: tuple(map(Guid, raws)),
    "a value for each GUID, without order",
    ordered=False,
)
FIRST_GUID: Final = Carrier(GUID.dump, lambda raws: Guid(raws[0]), "the only GUID of a list")
OCTETS: Final = Carrier(_octets, _single_value, "octets")
SECURITY: Final = Carrier(_descriptor, _single_value, "security descriptor, if it is one")
SID_OCTETS: Final = Carrier(_sid, _single_value, "SID, if it is one")
UNSIGNED: Final = Carrier(
    lambda value: (UINT32.dump(value),), lambda raws: UINT32.load(_single_value(raws)), "UINT32"
)


def carrier_of(variant: Variant, row: Row, codes: Mapping[int, Any] | None, *, first: bool) -> Carrier | None:
    """Return the carrier of a property for a row of the mapping table.

    Returns None if the attribute cannot keep the property.

    Args:
        variant: variant of the property.
        row: row of the attribute of the abstract model.
        codes: number -> abstract value, if numbers have a meaning.
        first: True if the property is the first item of the row's list.
    """
    if variant in INTEGERS:
        if codes is None:
            return _of_number(row)
        return _of_flags(row, codes) if row.kind is Kind.BOOLEAN else _of_codes(row, codes)
    carriers = {
        (Variant.LPWSTR, Kind.TEXT, False): TEXT,
        (Variant.CLSID, Kind.GUID, False): GUID,
        (Variant.CLSID, Kind.GUID, True): FIRST_GUID if first else None,
        (Variant.CLSIDS, Kind.GUID, True): GUID_SET,
        (Variant.CLSIDS, Kind.BYTES, True): GUID_SET,  # digests stand in GUIDs ([MS-MQMQ] 2.3.6.5)
        (Variant.BLOB, Kind.BYTES, False): SECURITY if row.syntax is DESCRIPTOR else OCTETS,
        (Variant.BLOB, Kind.SID, False): SID_OCTETS,
    }
    return carriers.get((variant, row.kind, row.multi))


def _of_number(row: Row) -> Carrier:
    def dump(value: int) -> Raws:
        return (row.syntax.dump(value),)

    def load(raws: Sequence[bytes]) -> int:
        return int(row.syntax.load(_single_value(raws)))

    return Carrier(dump, load, row.syntax.name)


def _of_flags(row: Row, codes: Mapping[int, Any]) -> Carrier:
    """Make the carrier of a boolean.

    A number without a meaning is False ([MS-MQDS] 3.1.4.21.8).
    """
    numbers = {bool(flag): number for number, flag in sorted(codes.items(), reverse=True)}

    def dump(value: int) -> Raws:
        return (row.syntax.dump(codes.get(value, False)),)

    def load(raws: Sequence[bytes]) -> int:
        flag: bool = row.syntax.load(_single_value(raws))
        return numbers[flag]

    return Carrier(dump, load, f"{row.syntax.name}: {numbers[True]} is true")


def _of_codes(row: Row, codes: Mapping[int, Any]) -> Carrier:
    """Make the carrier of an enumeration.

    A number without a meaning would make the object unreadable.
    """

    def dump(value: int) -> Raws:
        return (b"%d" % value,) if value in codes else ()

    def load(raws: Sequence[bytes]) -> int:
        return int(row.syntax.load(_single_value(raws)))

    return Carrier(dump, load, f"{row.syntax.name}, if it is one")


class PropertyRole(Enum):
    """Role of a property in the store."""

    VALUE = "value"
    IDENTITY = "GUID of the object"
    NAME = "path name"
    PARTITION = "partition of the number"
    SEQNUM = "sequence number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """An attribute that is also written, for the adapter, and not read back.

    Attributes:
        ldap: its name.
        dump: its values for the property's value.
    """

    ldap: str
    dump: Callable[[Any], Raws]


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyReference:
    """A property whose GUIDs the adapter needs as DNs of other objects.

    Attributes:
        propid: the property, a GUID or a list of GUIDs.
        ldap: the attribute that holds the DNs.
        ldap_class: class of the objects.
        required: True if the entry must have it: a missing object needs a DN, too.
    """

    propid: Propid
    ldap: str
    ldap_class: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow:
    """Storage of a property.

    Attributes:
        propid: the property.
        adm: the attribute of the abstract model, if it has one.
        ldap: the LDAP attribute; empty: only octets are kept.
        carrier: the conversion; None if `ldap` is empty.
        role: role in the store.
        also: further attributes to write.
        stand_in: value of the attribute for objects without the property, if the class of the entry requires
            one; then `NONE` stands in ``mqisExact`` (decision R65).
    """

    propid: Propid
    adm: str | None = None
    ldap: str = ""
    carrier: Carrier | None = None
    role: PropertyRole = PropertyRole.VALUE
    also: tuple[Also, ...] = ()
    stand_in: Raws = ()

    @property
    def is_numbering(self) -> bool:
        """True if the numbering of the change determines the value.

        A given value is not used ([MS-MQDS] 3.1.6.3).
        """
        return self.role is PropertyRole.PARTITION or self.role is PropertyRole.SEQNUM

    def stored_form(self, value: PropertyValue) -> tuple[Raws, bytes | None]:
        """Return the stored form of a value: attribute values, and octets.

        There are octets if the attribute's values do not suffice.

        Raises:
            MappingError: the value does not fit the property's variant.
        """
        octets = pack_value(self.propid, value)
        if self.carrier is None:
            return (), octets
        raws = self.carrier.dump(value)
        sure = len(raws) == 1 or (len(raws) > 1 and self.carrier.ordered)
        return raws, None if sure and self.carrier.load(raws) == value else octets

    def value(self, raws: Sequence[bytes], octets: bytes | None) -> PropertyValue | None:
        """Return the value that an entry keeps; None: it does not have the property.

        The octets count while the attribute has the values that belong to them. If another program has
        written the attribute since, its value counts (decision R27).

        Args:
            raws: the values of the attribute.
            octets: the octets in ``mqisExact``; None: none.

        Raises:
            MappingError: the entry holds no value of the property's variant.
        """
        if octets == NONE and self.stand_in and tuple(raws) == self.stand_in:
            return None
        if octets is not None and not (octets == NONE and self.stand_in):
            exact = unpack_value(self.propid, octets)
            if self.carrier is None or frozenset(self.carrier.dump(exact)) == frozenset(raws):
                return exact
        if not raws or self.carrier is None:
            return None
        try:
            value: PropertyValue = self.carrier.load(raws)
        except ValueError as error:
            raise MappingError(f"{self.propid.spec_name}: {self.ldap} {error}") from None
        pack_value(self.propid, value)  # the attribute may hold more than the variant
        return value
