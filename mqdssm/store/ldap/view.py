"""Views: stored entries that a batch of changes needs, read with few searches.

A view is updated with the effects of its changes, so that the next one is planned without reading again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Or, any_of
from mqdssm.directory.session import Session
from mqdssm.events.references import split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.model.guid import Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap.places import DirectoryPlaces, StoredPlace
from mqdssm.store.ldap.stored_entry import IDENTITY_ATTRIBUTES, StoredEntry, stored_entry_of
from mqdssm.store.rules import name_key
from mqdssm.tables import places as names
from mqdssm.tables.numbering import BUCKET, NUMBER, bucket_of, number_value
from mqdssm.tables.properties import NAME, PROPERTY_TABLES

TERMS_MAX: Final = 100
"""Limit of the terms in one OR: slapd tests each candidate against all of them."""
COMPUTER: Final = "computer"


@dataclass(frozen=True, slots=True)
class ChangeSubject:
    """Object of a change, with the properties that the change sets.

    Attributes:
        type: its type.
        identifier: its GUID, if the change has it.
        path_name: its path name, if the change has it.
        properties: properties that the change sets.
    """

    type: ObjectType
    identifier: Guid | None
    path_name: str | None
    properties: Mapping[Propid, PropertyValue]

    @property
    def name(self) -> str:
        """Name of the object for messages."""
        return f"{self.type.spec_name} {self.identifier or repr(self.path_name)}"


class StoreSearches:
    """Searches of the store in all naming contexts."""

    def __init__(self, session: Session, places: DirectoryPlaces) -> None:
        self.session = session
        self.places = places

    def find(
        self, search_filter: LdapFilter, attributes: Sequence[str] = ("*",), *, page_size: int | None = None
    ) -> Iterator[Entry]:
        """Yield all entries that match, in all naming contexts.

        The `page_size` is that of `Session.find`.

        Raises:
            DirectoryError: the directory cannot be searched.
        """
        for base in self.places.bases:
            yield from self.session.find(base, search_filter, attributes, page_size=page_size)

    def any_of(
        self,
        terms: Iterable[LdapFilter],
        within: LdapFilter | None = None,
        attributes: Sequence[str] = ("*",),
    ) -> Iterator[Entry]:
        """Yield all entries that match one of many conditions.

        If another condition is given, they match it as well.
        """
        for batch in split_into_batches(dict.fromkeys(terms), TERMS_MAX):
            either = any_of(*batch)
            yield from self.find(either if within is None else And((within, either)), attributes)

    def find_objects(self, identifiers: Iterable[Guid]) -> Iterator[StoredEntry]:
        """Yield the entries of objects and tombstones with some GUIDs."""
        unique = dict.fromkeys(identifiers)
        terms = (
            Or(tuple(Equal(name, bytes(identifier)) for name in IDENTITY_ATTRIBUTES)) for identifier in unique
        )
        seen: set[str] = set()
        for entry in self.any_of(terms):
            if entry.dn not in seen:
                seen.add(entry.dn)
                yield stored_entry_of(entry)

    def find_named(self, object_type: ObjectType, path_name: str) -> list[StoredEntry]:
        """Return the objects of a path name, without placeholders.

        Replicas may have several objects of a name for a while.
        """
        table = PROPERTY_TABLES[object_type]
        try:
            value = path_name.encode()
        except UnicodeEncodeError:
            return []  # half of a surrogate pair, which no directory can store
        if not value:
            return []
        key = name_key(path_name)
        of_type = Equal("objectClass", table.classes[object_type is not ObjectType.CN].encode())
        entries = map(stored_entry_of, self.find(And((of_type, Equal(NAME, value)))))
        # the server treats several blanks like one
        return [
            stored_entry
            for stored_entry in entries
            if stored_entry.is_object and stored_entry.path_key == key
        ]


@dataclass(slots=True)
class DirectoryView:
    """Stored entries, indexed for the planner.

    Attributes:
        places: DNs of the directory.
        partition: partition of the objects and tombstones.
        objects: GUID -> entry of the object, in the partition or without a number.
        elsewhere: GUID -> entry of an object in another partition.
        tombstones: GUID -> tombstone of the partition.
        at: normalised DN -> entry with this DN; None if there is none.
        computers: lower-case name -> DN of the computer; None if there is none.
        accounts: SID -> account with this SID.
    """

    places: DirectoryPlaces
    partition: Guid
    objects: dict[Guid, StoredEntry] = field(default_factory=dict)
    elsewhere: dict[Guid, StoredEntry] = field(default_factory=dict)
    tombstones: dict[Guid, StoredEntry] = field(default_factory=dict)
    at: dict[str, StoredEntry | None] = field(default_factory=dict)
    computers: dict[str, DN | None] = field(default_factory=dict)
    accounts: dict[bytes, StoredEntry] = field(default_factory=dict)

    def place_object(
        self, concern: ChangeSubject, identifier: Guid, path_name: str | None
    ) -> StoredPlace | None:
        """Return the DN of an object."""
        return self.places.of_object(concern.type, identifier, path_name, concern.properties, self.computers)

    def put(self, stored_entry: StoredEntry) -> None:
        """Add an entry."""
        self.at[stored_entry.key] = stored_entry
        if stored_entry.identifier is None:
            return
        mine = stored_entry.number_in(self.partition) is not None
        if stored_entry.is_tombstone:
            if mine:
                self.tombstones[stored_entry.identifier] = stored_entry
        elif mine or (stored_entry.numbers is None and stored_entry.identifier not in self.objects):
            self.objects[stored_entry.identifier] = stored_entry
        elif stored_entry.numbers is not None:
            self.elsewhere[stored_entry.identifier] = stored_entry

    def remove(self, stored_entry: StoredEntry) -> None:
        """Remove an entry."""
        self.at[stored_entry.key] = None
        for index in (self.tombstones, self.objects, self.elsewhere):
            if stored_entry.identifier is not None and index.get(stored_entry.identifier) is stored_entry:
                del index[stored_entry.identifier]

    def find_named(self, object_type: ObjectType, path_name: str) -> list[StoredEntry]:
        """Return the objects of a path name among those that were read."""
        key = name_key(path_name)
        return [
            stored_entry
            for stored_entry in self.objects.values()
            if stored_entry.is_object and stored_entry.type is object_type and stored_entry.path_key == key
        ]

    def find_numbered(self, number: int) -> StoredEntry | None:
        """Return the read object or tombstone with a number of the partition."""
        entries = (*self.objects.values(), *self.tombstones.values())
        return next(
            (stored_entry for stored_entry in entries if stored_entry.number_in(self.partition) == number),
            None,
        )


class ViewReader:
    """Reader of views."""

    def __init__(self, reader: StoreSearches) -> None:
        self._reader = reader
        self._places = reader.places

    def view(
        self,
        partition: Guid,
        concerns: Sequence[ChangeSubject],
        refers: Iterable[Guid] = (),
        numbers: Iterable[SequenceNumber] = (),
    ) -> DirectoryView:
        """Return the stored entries that some changes concern.

        Args:
            partition: the partition of the changes.
            concerns: the objects of the changes.
            refers: GUIDs of the objects that the changes refer to.
            numbers: the numbers of changes by path name, which may have been made already.

        Raises:
            DirectoryError: the directory cannot be searched.
            MappingError: an entry has an invalid number or GUID.
        """
        view = DirectoryView(self._places, partition)
        named = (concern.identifier for concern in concerns if concern.identifier is not None)
        for stored_entry in self._reader.find_objects((*named, *refers)):
            view.put(stored_entry)
        self._read_numbers(view, numbers)
        self._read_paths(view, concerns)
        self._read_accounts(view, concerns)
        self._read_computers(view, concerns)
        self._read_ancestors(view, concerns)
        return view

    def _read_numbers(self, view: DirectoryView, numbers: Iterable[SequenceNumber]) -> None:
        """Read the objects and tombstones with some numbers of the partition."""
        terms = (
            And((Equal(BUCKET, bucket_of(view.partition, number)), Equal(NUMBER, number_value(number))))
            for number in numbers
        )
        for entry in self._reader.any_of(terms):
            stored_entry = stored_entry_of(entry)
            if stored_entry.identifier not in (
                view.tombstones if stored_entry.is_tombstone else view.objects
            ):
                view.put(stored_entry)

    def _read_paths(self, view: DirectoryView, concerns: Sequence[ChangeSubject]) -> None:
        """Read the objects that changes name only by their path names."""
        for concern in concerns:
            if concern.identifier is None and concern.path_name is not None:
                for stored_entry in self._reader.find_named(concern.type, concern.path_name):
                    if stored_entry.identifier not in view.objects:
                        view.put(stored_entry)

    def _read_accounts(self, view: DirectoryView, concerns: Sequence[ChangeSubject]) -> None:
        sids = {
            bytes(sid): None
            for concern in concerns
            if isinstance(sid := concern.properties.get(Propid.U_SID), bytes) and sid
        }
        of_class = self._reader.session.profile.build_class_filter(
            PROPERTY_TABLES[ObjectType.USER].classes[0]
        )
        for entry in self._reader.any_of((Equal("objectSid", sid) for sid in sids), of_class):
            stored_entry = stored_entry_of(entry)
            view.accounts.setdefault(stored_entry.entry["objectSid"][0], stored_entry)

    def _read_computers(self, view: DirectoryView, concerns: Sequence[ChangeSubject]) -> None:
        paths = {
            name.casefold(): name
            for concern in concerns
            for path in (concern.path_name, self._path_of(view, concern))
            if (name := self._places.find_computer_name(concern.type, path))
        }
        if not paths:
            return
        terms: dict[str, LdapFilter] = {key: Equal("cn", name.encode()) for key, name in paths.items()}
        of_class = self._reader.session.profile.build_class_filter(COMPUTER)
        usual = {normalize(str(names.computer_dn(self._places.root, name))) for name in paths.values()}
        for key, entry in self._find_by_names(terms, _name_of, of_class):
            dn = entry.name
            if view.computers.get(key) is None or dn.normalized in usual:
                view.computers[key] = dn
        missing = {
            key: names.computer_dn(self._places.root, paths[key]) for key in paths.keys() - view.computers
        }
        view.computers |= dict.fromkeys(missing)
        self._read_holders(view, missing)

    def _read_holders(self, view: DirectoryView, missing: Mapping[str, DN]) -> None:
        """Use an entry of another class at a missing computer's DN (decision R82).

        The machine is stored below it.
        """
        dn_filter = self._reader.session.profile.build_dn_filter
        terms = {key: dn_filter(str(dn)) for key, dn in missing.items()}
        for key, entry in self._find_by_names(terms, _name_of, attributes=("1.1",)):
            view.computers[key] = entry.name

    def _find_by_names(
        self,
        filters: Mapping[str, LdapFilter],
        key_of: Callable[[DN], str],
        within: LdapFilter | None = None,
        attributes: Sequence[str] = ("*",),
    ) -> Iterator[tuple[str, Entry]]:
        """Yield the entries that conditions on names find, with the keys of the names.

        A server may treat names as equal that differ here ("i" and "İ", composed and decomposed letters). If
        it finds a name that was not asked for, each name without a result is searched for separately.
        """
        seen_keys: set[str] = set()
        are_strange = False
        for entry in self._reader.any_of(filters.values(), within, attributes):
            key = key_of(entry.name)
            if key in filters:
                seen_keys.add(key)
                yield key, entry
            else:
                are_strange = True
        for key in sorted(filters.keys() - seen_keys) if are_strange else ():
            for entry in self._reader.any_of([filters[key]], within, attributes):
                yield key, entry

    def _read_ancestors(self, view: DirectoryView, concerns: Sequence[ChangeSubject]) -> None:
        """Read the entries at the DNs of the objects, and those above them."""
        targets: dict[str, str] = {}
        for concern in concerns:
            path = self._path_of(view, concern)
            place = (
                None if concern.identifier is None else view.place_object(concern, concern.identifier, path)
            )
            if place is None:
                continue
            dns = [place.dn, place.dn.parent] if place.computer else [place.dn]
            targets |= {dn.normalized: str(dn) for dn in dns if dn.normalized not in view.at}
        dn_filter = self._reader.session.profile.build_dn_filter
        terms = {key: dn_filter(dn) for key, dn in targets.items()}
        for key, entry in self._find_by_names(terms, attrgetter("normalized")):
            stored_entry = stored_entry_of(entry)
            view.put(stored_entry)
            view.at[key] = stored_entry
        for key in targets:
            view.at.setdefault(key, None)

    @staticmethod
    def _path_of(view: DirectoryView, concern: ChangeSubject) -> str | None:
        """Return the path name that the object will have."""
        name = PROPERTY_TABLES[concern.type].name
        value = None if name is None else concern.properties.get(name)
        if isinstance(value, str):
            return value
        if concern.path_name is not None or concern.identifier is None:
            return concern.path_name
        stored_entry = view.objects.get(concern.identifier)
        raws = () if stored_entry is None else stored_entry.entry.get(NAME, ())
        return raws[0].decode() if raws else None


def _name_of(dn: DN) -> str:
    return dn.name.casefold()
