"""Names and places of objects that had to stand aside, and of the queues of such machines (decision R53).

A queue is where its path name says, below the machine of that name. When another machine gets the name, the
one that had it stands aside, and its queues, which were below it, go below the new one: a path name finds a
queue, whichever machine has the name. When the new one is gone, the older one gets its place back, with all
that has come to be below it meanwhile. Nothing of it shows in a property, and each step can be done again:
what a crash leaves is found when the store is opened the next time.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from mqdssm.directory.entries import parse_name
from mqdssm.directory.filters import And, Equal, LdapFilter, Substrings
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.result_handling import BUSY_CODES
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.requests import SearchScope, new_entry
from mqdssm.directory.session import Session
from mqdssm.errors import (
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.dn import DN
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.propids import ObjectType
from mqdssm.store.ldap.change_planner import MANAGER_CLASS, Renaming, aside_of, is_aside, path_of
from mqdssm.store.ldap.references import follow, see_to
from mqdssm.store.ldap.stored_entry import TWIN, Held, held_of, values_of
from mqdssm.store.ldap.view import Concern, DirectoryView, StoreSearches, Viewing
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.properties import NAME as PATH_NAME
from mqdssm.tables.properties import OBJECT_GUID, PROPERTY_TABLES

log = logging.getLogger(__name__)

_OF_QUEUE: Final = Equal("objectClass", PROPERTY_TABLES[ObjectType.QUEUE].classes[0].encode())
_INDEX_FAILED: Final = "DN index add failed"
_SHORT_LIVED: Final = "mqis short-lived"
_OF_MACHINE: Final = Equal("objectClass", MANAGER_CLASS.encode())


def _may_pass(error: DirectoryError) -> bool:
    """True if the next attempt may succeed, as on a server that is full now (decision R97)."""
    if isinstance(error, ObjectAlreadyExists | ObjectNotFound):
        return False
    code = error.ldap_code
    return code is None or code in BUSY_CODES or is_full(code, error.server_text)


class Homes:
    """Puts the entries of one directory where their names say, as soon as these are free.

    Attributes:
        moves: how many entries were given other names: what was read before may be elsewhere now.
    """

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self.moves = 0
        self._session = session
        self._reader = reader
        self._viewing = Viewing(reader)

    def rename(self, renamings: Iterable[Renaming]) -> None:
        """Give entries other names; one that cannot have it keeps the old one, which no property shows.

        What refers to an entry is told before, so that a crash in between is found by the next attempt.

        Raises:
            DirectoryError: the server cannot do it now; the operation is repeated.
        """
        for one in renamings:
            follow(self._session, self._reader, str(one.old), str(one.new))
            self.moves += 1
            try:
                self._rename(one)
            except DirectoryError as error:
                if _may_pass(error):
                    raise
                log.warning("%s keeps its name: %s", one.old, error)
                follow(self._session, self._reader, str(one.new), str(one.old))

    def _rename(self, one: Renaming) -> None:
        """Rename an entry.

        slapd 2.5 refuses that, as if its database were full, where the only entry below was moved there from
        another one that was renamed itself; something new below the entry, however short, mends it.
        """
        try:
            self._session.rename(one.old, str(DN((one.new.rdns[0],))), one.new.parent)
        except DirectoryError as error:
            if error.server_text != _INDEX_FAILED:
                raise
            below = one.old.child("CN", _SHORT_LIVED)
            with suppress(ObjectAlreadyExists):  # a crash came between
                self._session.add(below, new_entry(("container",), {}))
            self._session.delete(below)
            self._session.rename(one.old, str(DN((one.new.rdns[0],))), one.new.parent)

    # -- those that stand aside

    def settle(self, gone: Iterable[Held]) -> list[Guid]:
        """Give objects that had to stand aside the GUIDs and names of those that are gone; which machines."""
        terms: list[LdapFilter] = []
        for held in gone:
            if held.identifier is not None:
                terms.append(Equal(TWIN, bytes(held.identifier)))
            terms += (Equal(PATH_NAME, raw) for raw in held.entry.get(PATH_NAME, ()))
        machines = []
        for entry in list(self._reader.any_of(terms)):
            held = held_of(entry)
            self.settle_one(held)
            if held.type is ObjectType.MACHINE and held.identifier is not None:
                machines.append(held.identifier)
        return machines

    def settle_one(self, held: Held) -> None:
        """Let an object that stands aside have its GUID and name, if nobody else has them."""
        if not held.is_object or not (is_aside(held.dn) or TWIN in held.entry):
            return
        if held.type is None or held.identifier is None or held.numbers is None:
            return
        concern = Concern(held.type, held.identifier, None, values_of(held, held.type))
        view = self._viewing.view(held.numbers.partition, [concern])
        there = view.elsewhere.get(held.identifier)
        if TWIN in held.entry and (there is None or TWIN in there.entry):
            self._give_guid(held, held.identifier)
        if is_aside(held.dn):
            self._give_place(held, held.identifier, concern, view)

    def _give_guid(self, held: Held, identifier: Guid) -> None:
        changes = {OBJECT_GUID: (bytes(identifier),), TWIN: ()}
        item = Item(row=0, action=Action.MODIFY, dn=held.dn, attributes=changes)
        # no condition: slapd's overlay unique applies it to its own search, too, and fails
        for request, result in self._session.loader.send([ChangeInFlight(item=item)]):
            see_to(self._session, request, result)

    def _give_place(self, held: Held, identifier: Guid, concern: Concern, view: DirectoryView) -> None:
        """Let it have the place of its name, if nothing is there, or for a machine a placeholder."""
        place = view.place(concern, identifier, path_of(concern))
        if place is None:
            return
        there = view.at.get(place.dn.normalized)
        if there is None:
            self.rename([Renaming(parse_name(held.dn), place.dn)])
        elif held.type is ObjectType.MACHINE and there.identifier is None and there.has_class(MANAGER_CLASS):
            # the placeholder makes way, and what is below it follows
            away = aside_of(place.dn, NULL_GUID, view.partition)
            self._dissolve(away)  # what a crash left
            self.rename([Renaming(place.dn, away), Renaming(parse_name(held.dn), place.dn)])
            self._dissolve(away)

    # -- queues of machines that stand aside

    def asides(self, path_names: Iterable[bytes]) -> Iterator[Held]:
        """The machines that stand aside while another one has their name."""
        terms = (Equal(PATH_NAME, raw) for raw in path_names if raw)
        for entry in list(self._reader.any_of(terms, _OF_MACHINE)):
            if is_aside(entry.dn):
                yield held_of(entry)

    def send_home(self, above: DN) -> None:
        """Put the queues below an entry below the machine that their path names say.

        A queue stays whose machine has no entry; one whose name another one has there stands aside.
        """
        try:
            found = list(self._session.find(above, _OF_QUEUE, ["*"], SearchScope.ONE_LEVEL))
        except ObjectNotFound:
            return
        for held in map(held_of, found):
            if held.identifier is None or held.numbers is None:
                continue
            concern = Concern(ObjectType.QUEUE, held.identifier, None, values_of(held, ObjectType.QUEUE))
            view = self._viewing.view(held.numbers.partition, [concern])
            place = view.place(concern, held.identifier, path_of(concern))
            if place is None or place.dn.parent.normalized == above.normalized:
                continue
            if view.at.get(place.dn.parent.normalized) is None:
                continue
            target = place.dn
            if view.at.get(target.normalized) is not None:
                target = aside_of(place.dn, held.identifier, held.numbers.partition)
            self.rename([Renaming(parse_name(held.dn), target)])

    def _dissolve(self, placeholder: DN) -> None:
        """Send the queues below a placeholder home that stands aside, and remove it."""
        self.send_home(placeholder)
        with suppress(ObjectNotFound):
            try:
                self._session.delete(placeholder)
            except DirectoryNotConnected:
                raise
            except GenericDirectoryError as error:
                log.warning("%s stays: %s", placeholder, error)

    def mend(self) -> None:
        """Finish what a crash cut short, of all machines that stand aside."""
        wanted = And((_OF_MACHINE, Substrings("cn", any=(b"@",))))
        for entry in list(self._reader.find(wanted)):
            if not is_aside(entry.dn):
                continue
            held = held_of(entry)
            self.send_home(parse_name(held.dn))
            if held.is_object:
                self.settle_one(held)
            elif held.identifier is None:
                self._dissolve(parse_name(held.dn))
