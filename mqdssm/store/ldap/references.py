"""References to missing objects (decision R54); renames of entries.

References in the directory are DNs. Until the object exists, a stand-in replaces its DN: a DN below
``CN=Missing`` that no entry has. Then all entries that refer to it are written again. The property's own
GUIDs are always stored at once.

References follow an entry that is renamed. Displaced machines are renamed, with their queues (decision R53).

A queue is stored below the machine that its path name names. When another machine gets the name, the first
one is displaced (renamed temporarily), and its queues move below the new one: a path name finds a queue,
whichever machine has the name. When the new machine is deleted, the first one gets its place back, with all
entries that are below it by then. No property shows this, and each step can be repeated: work that a crash
interrupts is completed when the store is opened again.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from mqdssm.directory.entries import Entry, parse_name
from mqdssm.directory.filters import And, Equal, LdapFilter, Present, Substrings, any_of
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.result_handling import BUSY_CODES
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.requests import SearchScope, make_entry
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.session import Session
from mqdssm.errors import (
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.dn import DN, normalize
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.propids import ObjectType
from mqdssm.store.ldap.change_planner import MANAGER_CLASS, Renaming, is_displaced, make_displaced_dn, path_of
from mqdssm.store.ldap.stored_entry import TWIN, StoredEntry, stored_entry_of, values_of
from mqdssm.store.ldap.view import ChangeSubject, DirectoryView, StoreSearches, ViewReader
from mqdssm.tables.ldap_results import NO_SUCH_OBJECT, SUCCESS, is_full
from mqdssm.tables.properties import NAME as PATH_NAME
from mqdssm.tables.properties import OBJECT_GUID, PROPERTY_TABLES
from mqdssm.tables.property_rows import REFERENCES

log = logging.getLogger(__name__)

_DONE: Final = frozenset({SUCCESS, NO_SUCH_OBJECT})
ATTRIBUTES: Final = tuple(dict.fromkeys(reference.ldap for reference in REFERENCES))
"""Attributes that hold DNs of other objects."""
_REFERRING: Final = any_of(
    *(
        Equal("objectClass", PROPERTY_TABLES[kind].classes[0].encode())
        for kind in dict.fromkeys(reference.propid.object_type for reference in REFERENCES)
        if kind is not None
    )
)


def complete(session: Session, reader: StoreSearches, identifiers: Iterable[Guid | None]) -> None:
    """Replace the stand-ins of objects by their DNs.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    stand_ins = {guid: str(reader.places.place_stand_in(guid)) for guid in identifiers if guid is not None}
    waiting = _find_referring(reader, stand_ins.values())
    if waiting:
        dns = {
            stored_entry.identifier: stored_entry.dn
            for stored_entry in reader.find_objects(stand_ins)
            if stored_entry.is_object
        }
        names = {normalize(dn): dns[guid] for guid, dn in stand_ins.items() if guid in dns}
        _rewrite(session, waiting, names)


def replace_stand_ins(session: Session, reader: StoreSearches) -> None:
    """Replace the stand-ins of objects that exist, after a crash.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    named = any_of(*(Present(name) for name in ATTRIBUTES))
    missing = reader.places.missing.normalized
    entries = reader.find(And((_REFERRING, named)), ATTRIBUTES)
    raws = (raw for entry in entries for name in ATTRIBUTES for raw in entry.all(name))
    complete(session, reader, {_parse_stand_in(raw, missing): None for raw in raws})


def _parse_stand_in(raw: bytes, missing: str) -> Guid | None:
    """Return the GUID of the object that a stand-in replaces.

    None if the DN is not a stand-in.
    """
    try:
        dn = DN.parse(raw.decode())
        return Guid.parse(dn.name) if dn.parent.normalized == missing else None
    except ValueError:  # another program's
        return None


def follow(session: Session, reader: StoreSearches, old: str, new: str) -> None:
    """Replace the old DN of an object by its new one in all references.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    _rewrite(session, _find_referring(reader, [old]), {normalize(old): new})


def _find_referring(reader: StoreSearches, dns: Iterable[str]) -> list[Entry]:
    """Return the entries that refer to any of some DNs."""
    terms = (Equal(name, dn.encode()) for dn in dns for name in ATTRIBUTES)
    return list({entry.dn: entry for entry in reader.any_of(terms, attributes=ATTRIBUTES)}.values())


def _rewrite(session: Session, entries: Iterable[Entry], names: Mapping[str, str]) -> None:
    """Replace references: normalised old DNs -> new DNs."""

    def renamed(raw: bytes) -> bytes:
        dn = names.get(normalize(raw.decode()))
        return raw if dn is None else dn.encode()

    requests = []
    for entry in entries:
        changes = {}
        for name in ATTRIBUTES:
            before = entry.all(name)
            after = tuple(dict.fromkeys(map(renamed, before)))
            if set(after) != set(before):
                changes[name] = after
        if changes:
            item = Item(row=0, action=Action.MODIFY, dn=entry.dn, attributes=changes)
            requests.append(ChangeInFlight(item=item))
    for request, result in session.loader.send(requests):
        check_follow_up(session, request, result)


def check_follow_up(session: Session, request: ChangeInFlight, result: LdapResult) -> None:
    """Handle the result of follow-up work that may be omitted for a single entry.

    An entry that was deleted meanwhile is ignored. A refusal is logged, as it would be the same the next
    time.

    Raises:
        DirectoryError: the server cannot do it now, and the operation is repeated.
    """
    if result.code in _DONE:
        return
    error = session.loader.error_of(result, request.item.action, request.item.dn)
    if result.code in BUSY_CODES or is_full(result.code, result.text, request.item.dn):
        raise error
    log.warning("%s stays as it is: %s", request.item.dn, error)


_OF_QUEUE: Final = Equal("objectClass", PROPERTY_TABLES[ObjectType.QUEUE].classes[0].encode())
_INDEX_FAILED: Final = "DN index add failed"
_SHORT_LIVED: Final = "mqis short-lived"
_OF_MACHINE: Final = Equal("objectClass", MANAGER_CLASS.encode())


def _may_pass(error: DirectoryError) -> bool:
    """Return True if the next attempt may succeed (decision R97).

    An example is a server that is full now.
    """
    if isinstance(error, ObjectAlreadyExists | ObjectNotFound):
        return False
    code = error.ldap_code
    return code is None or code in BUSY_CODES or is_full(code, error.server_text, error.dn)


class EntryRenamer:
    """Renames entries to the names of their objects, as soon as these are free.

    Attributes:
        moves: number of entries that were renamed; DNs that were read before may be outdated.
    """

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self.moves = 0
        self._session = session
        self._reader = reader
        self._view_reader = ViewReader(reader)

    def rename(self, renamings: Iterable[Renaming]) -> None:
        """Rename entries.

        An entry whose renaming is refused keeps its DN, which no property shows.

        References to an entry are changed first, so that the next attempt after a crash completes the
        renaming.

        Raises:
            DirectoryError: the server cannot do it now, and the operation is repeated.
        """
        for renaming in renamings:
            follow(self._session, self._reader, str(renaming.old), str(renaming.new))
            self.moves += 1
            try:
                self._rename(renaming)
            except DirectoryError as error:
                if _may_pass(error):
                    raise
                log.warning("%s keeps its name: %s", renaming.old, error)
                follow(self._session, self._reader, str(renaming.new), str(renaming.old))

    def _rename(self, renaming: Renaming) -> None:
        """Rename an entry.

        slapd 2.5 refuses this, as if its database were full, if the only entry below was moved there from
        another entry that was renamed itself. Adding and deleting an entry below helps.
        """
        try:
            self._session.rename(renaming.old, str(DN((renaming.new.rdns[0],))), renaming.new.parent)
        except DirectoryError as error:
            if error.server_text != _INDEX_FAILED:
                raise
            below = renaming.old.child("CN", _SHORT_LIVED)
            with suppress(ObjectAlreadyExists):  # after a crash
                self._session.add(below, make_entry(("container",), {}))
            self._session.delete(below)
            self._session.rename(renaming.old, str(DN((renaming.new.rdns[0],))), renaming.new.parent)

    # -- displaced objects

    def restore_displaced(self, gone: Iterable[StoredEntry]) -> list[Guid]:
        """Give displaced objects the GUIDs and names of deleted ones.

        Returns the machines among them.
        """
        terms: list[LdapFilter] = []
        for stored_entry in gone:
            if stored_entry.identifier is not None:
                terms.append(Equal(TWIN, bytes(stored_entry.identifier)))
            terms += (Equal(PATH_NAME, raw) for raw in stored_entry.entry.get(PATH_NAME, ()))
        machines = []
        for entry in list(self._reader.any_of(terms)):
            stored_entry = stored_entry_of(entry)
            self.restore_object(stored_entry)
            if stored_entry.type is ObjectType.MACHINE and stored_entry.identifier is not None:
                machines.append(stored_entry.identifier)
        return machines

    def restore_object(self, stored_entry: StoredEntry) -> None:
        """Give a displaced object its own GUID and name, if no other object has them."""
        if not stored_entry.is_object or not (is_displaced(stored_entry.dn) or TWIN in stored_entry.entry):
            return
        if stored_entry.type is None or stored_entry.identifier is None or stored_entry.numbers is None:
            return
        concern = ChangeSubject(
            stored_entry.type, stored_entry.identifier, None, values_of(stored_entry, stored_entry.type)
        )
        view = self._view_reader.view(stored_entry.numbers.partition, [concern])
        guid_owner = view.elsewhere.get(stored_entry.identifier)
        if TWIN in stored_entry.entry and (guid_owner is None or TWIN in guid_owner.entry):
            self._give_guid(stored_entry, stored_entry.identifier)
        if is_displaced(stored_entry.dn):
            self._give_place(stored_entry, stored_entry.identifier, concern, view)

    def _give_guid(self, stored_entry: StoredEntry, identifier: Guid) -> None:
        changes = {OBJECT_GUID: (bytes(identifier),), TWIN: ()}
        item = Item(row=0, action=Action.MODIFY, dn=stored_entry.dn, attributes=changes)
        # no condition: slapd's overlay unique applies it to its own search, too, and fails
        for request, result in self._session.loader.send([ChangeInFlight(item=item)]):
            check_follow_up(self._session, request, result)

    def _give_place(
        self, stored_entry: StoredEntry, identifier: Guid, concern: ChangeSubject, view: DirectoryView
    ) -> None:
        """Rename an object to its own DN, if that is free.

        A machine may also take the place of a placeholder.
        """
        place = view.place_object(concern, identifier, path_of(concern))
        if place is None:
            return
        occupant = view.at.get(place.dn.normalized)
        if occupant is None:
            self.rename([Renaming(parse_name(stored_entry.dn), place.dn)])
        elif (
            stored_entry.type is ObjectType.MACHINE
            and occupant.identifier is None
            and occupant.has_class(MANAGER_CLASS)
        ):
            # the placeholder is renamed, and the queues below it move to the machine
            away = make_displaced_dn(place.dn, NULL_GUID, view.partition)
            self._dissolve(away)  # left by a crash
            self.rename([Renaming(place.dn, away), Renaming(parse_name(stored_entry.dn), place.dn)])
            self._dissolve(away)

    # -- queues of displaced machines

    def find_displaced(self, path_names: Iterable[bytes]) -> Iterator[StoredEntry]:
        """Yield the displaced machines that have some path names."""
        terms = (Equal(PATH_NAME, raw) for raw in path_names if raw)
        for entry in list(self._reader.any_of(terms, _OF_MACHINE)):
            if is_displaced(entry.dn):
                yield stored_entry_of(entry)

    def move_queues(self, above: DN) -> None:
        """Move the queues below an entry to the machines in their path names.

        A queue without a machine entry keeps its place. A queue whose name is taken is displaced.
        """
        try:
            entries = list(self._session.find(above, _OF_QUEUE, ["*"], SearchScope.ONE_LEVEL))
        except ObjectNotFound:
            return
        for stored_entry in map(stored_entry_of, entries):
            if stored_entry.identifier is None or stored_entry.numbers is None:
                continue
            concern = ChangeSubject(
                ObjectType.QUEUE, stored_entry.identifier, None, values_of(stored_entry, ObjectType.QUEUE)
            )
            view = self._view_reader.view(stored_entry.numbers.partition, [concern])
            place = view.place_object(concern, stored_entry.identifier, path_of(concern))
            if place is None or place.dn.parent.normalized == above.normalized:
                continue
            if view.at.get(place.dn.parent.normalized) is None:
                continue
            target = place.dn
            if view.at.get(target.normalized) is not None:
                target = make_displaced_dn(place.dn, stored_entry.identifier, stored_entry.numbers.partition)
            self.rename([Renaming(parse_name(stored_entry.dn), target)])

    def _dissolve(self, placeholder: DN) -> None:
        """Move the queues below a displaced placeholder, and remove it."""
        self.move_queues(placeholder)
        with suppress(ObjectNotFound):
            try:
                self._session.delete(placeholder)
            except DirectoryNotConnected:
                raise
            except GenericDirectoryError as error:
                log.warning("%s stays: %s", placeholder, error)

    def complete_moves(self) -> None:
        """Complete the moves of all displaced machines and their queues, after a crash."""
        search_filter = And((_OF_MACHINE, Substrings("cn", any=(b"@",))))
        for entry in list(self._reader.find(search_filter)):
            if not is_displaced(entry.dn):
                continue
            stored_entry = stored_entry_of(entry)
            self.move_queues(parse_name(stored_entry.dn))
            if stored_entry.is_object:
                self.restore_object(stored_entry)
            elif stored_entry.identifier is None:
                self._dissolve(parse_name(stored_entry.dn))
