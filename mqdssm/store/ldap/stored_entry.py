"""Entries of the store, with the object in each and its number."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Not, Present
from mqdssm.errors import MappingError
from mqdssm.model.dn import normalize
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.rules import digest_of, name_key, select_replicated
from mqdssm.tables import numbering
from mqdssm.tables.numbering import Numbering, numbering_of
from mqdssm.tables.places import DESCRIPTION
from mqdssm.tables.properties import NAME, OBJECT_GUID, PROPERTY_TABLES, identity_of, readable_of
from mqdssm.tables.property_rows import CHANGED, IDENTITIES

log = logging.getLogger(__name__)

OBJECT_CLASS: Final = "objectClass"
TYPES: Final = tuple(
    object_type for object_type in PROPERTY_TABLES if object_type is not ObjectType.DELETED_OBJECT
)
"""Types of objects, without tombstones."""
TWIN: Final = "mqisObjectID"
"""GUID of an object if an object of another partition has it as objectGUID (decision R53)."""
IDENTITY_ATTRIBUTES: Final = (OBJECT_GUID, TWIN, *IDENTITIES.values())
"""Attributes that may hold the GUID of an object or a deleted object."""

_SPELT: Final = {
    name.lower(): name
    for table in PROPERTY_TABLES.values()
    for name in (*table.attributes, *IDENTITY_ATTRIBUTES, OBJECT_CLASS, DESCRIPTION)
}
_TYPES_BY_CLASS: Final[Mapping[bytes, ObjectType]] = {
    table.classes[1 if kind is not ObjectType.CN and kind is not ObjectType.DELETED_OBJECT else 0]
    .lower()
    .encode(): kind
    for kind, table in PROPERTY_TABLES.items()
}
"""Class that only objects of one type have -> the type."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry that may hold an object.

    Attributes:
        dn: its DN.
        entry: its attributes, spelled as in the schema.
        type: type of the object; None if it was never one of replication.
        numbers: its partition and number; None for a placeholder, or an object that is not replicated.
        identifier: GUID of the object or deleted object; None for a placeholder.
    """

    dn: str
    entry: Mapping[str, Sequence[bytes]]
    type: ObjectType | None = field(init=False)
    numbers: Numbering | None = field(init=False)
    identifier: Guid | None = field(init=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "type", _type_of(self.entry.get(OBJECT_CLASS, ())))
        set_field(self, "numbers", numbering_of(self.entry))
        set_field(self, "identifier", self._find_identity())

    def _find_identity(self) -> Guid | None:
        twin = self.entry.get(TWIN, ())
        if twin:
            return Guid(twin[0])
        if self.type is not None and (identifier := identity_of(self.type, self.entry)) is not None:
            return identifier
        raws = self.entry.get(OBJECT_GUID, ())
        return Guid(raws[0]) if len(raws) == 1 and len(raws[0]) == GUID_BYTES else None

    @property
    def key(self) -> str:
        """Normalised DN of the entry."""
        return normalize(self.dn)

    @property
    def is_tombstone(self) -> bool:
        """True if the entry is a tombstone."""
        return self.type is ObjectType.DELETED_OBJECT

    @property
    def is_object(self) -> bool:
        """True if the entry is an object with a number."""
        return self.numbers is not None and not self.is_tombstone

    @property
    def path_key(self) -> str | None:
        """Path name of the object in comparable form; None if it has none."""
        raws = self.entry.get(NAME, ())
        return name_key(raws[0].decode(errors="replace")) if raws else None

    @property
    def age(self) -> tuple[int, bytes, bytes]:
        """Sort key for objects of the same name; the newest is last.

        The key consists of number, then partition and GUID.
        """
        if self.numbers is None:
            return 0, b"", b""
        return self.numbers.number, bytes(self.numbers.partition), bytes(self.identifier or b"")

    def number_in(self, partition: Guid) -> SequenceNumber | None:
        """Return the object's number if it belongs to a partition, else None."""
        if self.numbers is None or self.numbers.partition != partition:
            return None
        return self.numbers.number

    def has_class(self, name: str) -> bool:
        """Return True if the entry has an object class."""
        return name.lower().encode() in {raw.lower() for raw in self.entry.get(OBJECT_CLASS, ())}

    @property
    def unchanged(self) -> LdapFilter:
        """Filter that matches the entry until another change numbers it (decision R15)."""
        if self.numbers is None:
            return Not(Present(numbering.NUMBER))
        values = self.numbers.values()
        return And(tuple(Equal(name, values[name][0]) for name in (numbering.PARTITION, numbering.NUMBER)))

    def with_changes(self, changes: Mapping[str, Sequence[bytes]]) -> "StoredEntry":
        """Return the entry with some attributes replaced."""
        entry = {name: raws for name, raws in {**self.entry, **changes}.items() if raws}
        return StoredEntry(self.dn, entry)


def _type_of(classes: Iterable[bytes]) -> ObjectType | None:
    return next((kind for raw in classes if (kind := _TYPES_BY_CLASS.get(raw.lower())) is not None), None)


def values_of(
    stored_entry: StoredEntry, object_type: ObjectType, propids: Iterable[Propid] | None = None
) -> dict[Propid, PropertyValue]:
    """Return the properties of an object.

    Unreadable ones are left out and logged (decision R67).
    """
    values, problems = readable_of(object_type, stored_entry.entry, propids)
    for problem in problems:
        log.error("a value of %s cannot be read and counts as none: %s", stored_entry.dn, problem)
    return values


def compute_digest(stored_entry: StoredEntry) -> bytes:
    """Return the digest of the properties in a change of an object (decision R112).

    Raises:
        MappingError: the entry has lost its class or its GUID.
    """
    if stored_entry.type is None or stored_entry.identifier is None:
        raise MappingError(f"{stored_entry.dn} is no object: its class or its GUID is gone")
    values, _ = readable_of(stored_entry.type, stored_entry.entry, CHANGED[stored_entry.type])
    return digest_of(select_replicated(stored_entry.type, stored_entry.identifier, values))


def has_foreign_content(stored_entry: StoredEntry) -> bool:
    """Return True if another program changed an object (decision R112).

    The properties do not match the digest that was written with the number.
    An object without a digest was numbered by an old version of this software.

    Raises:
        MappingError: the entry has lost its class or its GUID.
    """
    return stored_entry.entry.get(numbering.DIGEST) not in {None, (compute_digest(stored_entry),)}


def stored_entry_of(entry: Entry) -> StoredEntry:
    """Return an entry that was read with all its attributes.

    Raises:
        MappingError: a number or a GUID is not valid.
    """
    spelt = {_SPELT[name]: tuple(raws) for name, raws in entry.attributes.items() if name in _SPELT}
    try:
        return StoredEntry(entry.dn, spelt)
    except ValueError as error:  # a MappingError, or an invalid GUID
        raise MappingError(f"{entry.dn}: {error}") from None


def select_readable(entries: Iterable[Entry]) -> Iterator[StoredEntry]:
    """Yield the entries that are not damaged; damaged ones are logged (decision R83)."""
    for entry in entries:
        try:
            yield stored_entry_of(entry)
        except MappingError as error:
            log.error("an entry is damaged, and left out: %s", error)  # noqa: TRY400
