"""mSMQSettings of replicated machines ([MS-MQDSSM] 3.1.6.1.1.3).

A machine has one below each site that a server serves.

They repeat attributes of a machine's own entry for other readers of the directory; replication ignores them.
They are written after the numbered entry, in operations of their own (decision R69), so that an object and
its number stay one operation. Work that a crash interrupts is completed when the store is opened again.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError, DirectoryNotConnected, MappingError
from mqdssm.events.context import Context
from mqdssm.events.settings import (
    ATTRIBUTES,
    CONFIGURATION_ATTRIBUTES,
    Served,
    delete_one,
    remove_all,
    settle,
)
from mqdssm.model.dn import DN
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.propids import ObjectType
from mqdssm.store.ldap.change_planner import MANAGER_CLASS, is_displaced
from mqdssm.store.ldap.stored_entry import StoredEntry
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.tables.dependent_objects import SETTINGS_CLASS, SETTINGS_OWNER
from mqdssm.tables.places import sites_dn
from mqdssm.tables.properties import OBJECT_GUID
from mqdssm.tables.syntax import BOOLEAN

log = logging.getLogger(__name__)

SITES: Final = "mSMQSites"
_OF_CLASS: Final = Equal("objectClass", SETTINGS_CLASS.encode())
_SERVES: Final = any_of(
    *(Equal(name, BOOLEAN.dump(True)) for name in CONFIGURATION_ATTRIBUTES if name.endswith("Services"))
)
_SERVERS: Final = And((Equal("objectClass", MANAGER_CLASS.encode()), _SERVES))


class SettingsObjects:
    """Writer of the settings objects of one directory."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader
        self._context = Context(session)

    def follow(self, identifiers: Iterable[Guid | None], gone: Iterable[Guid | None] = ()) -> None:
        """Update the settings objects of some machines to match their entries.

        Args:
            identifiers: the machines that were written or deleted.
            gone: those of them that are known to be deleted.

        Raises:
            DirectoryNotConnected: the directory cannot be reached.
        """
        guids = dict.fromkeys(identifier for identifier in identifiers if identifier is not None)
        if not guids:
            return
        dead = {identifier for identifier in gone if identifier is not None}
        machines: dict[Guid, StoredEntry] = {}
        for stored_entry in self._reader.find_objects(guids):
            guid = stored_entry.identifier
            if guid is None or (
                stored_entry.type is not ObjectType.MACHINE and not stored_entry.is_tombstone
            ):
                continue
            if stored_entry.is_tombstone or is_displaced(stored_entry.dn):
                dead.add(guid)
            elif stored_entry.is_object and (guid not in machines or stored_entry.age > machines[guid].age):
                machines[guid] = stored_entry
        having = self._find_owners(guids)
        servers = {
            guid: served
            for guid, entry in machines.items()
            if (served := _build_served(entry, guid)).is_server
        }
        for guid in having - servers.keys():
            if guid in dead or guid in machines:
                deleted = Served.deleted(guid.uuid)
                self._try(f"settings of {guid}", partial(remove_all, self._context, deleted))
        for guid, server in servers.items():
            self._try(machines[guid].dn, partial(settle, self._context, server))

    def _find_owners(self, machines: Iterable[Guid]) -> set[Guid]:
        """Return the machines among some that have settings objects."""
        terms = (Equal(SETTINGS_OWNER, bytes(machine)) for machine in machines)
        entries = self._reader.any_of(terms, _OF_CLASS, (SETTINGS_OWNER,))
        return {guid for entry in entries if (guid := _parse_owner(entry)) is not None}

    def follow_sites(self, sites: Iterable[Guid | None]) -> None:
        """Update the settings objects of all servers of some new or renamed sites.

        Raises:
            DirectoryNotConnected: the directory cannot be reached.
        """
        terms = (Equal(SITES, bytes(site)) for site in sites if site is not None)
        entries = self._reader.any_of(terms, _SERVERS, (OBJECT_GUID,))
        self.follow([_parse_guid(entry, OBJECT_GUID) for entry in entries])

    def clear(self, site: DN) -> None:
        """Remove the settings objects below a site that is to be deleted.

        The containers made for them are removed as well.

        Raises:
            DirectoryNotConnected: the directory cannot be reached.
        """
        for entry in list(self._session.find(site, _OF_CLASS, [OBJECT_GUID])):
            self._try(entry.dn, partial(delete_one, self._context, entry))

    def update_after_crash(self) -> None:
        """Update the settings objects after a crash.

        Settings of all servers are updated, and of all machines that have any.

        Raises:
            DirectoryNotConnected: the directory cannot be reached.
        """
        servers = [_parse_guid(entry, OBJECT_GUID) for entry in self._reader.find(_SERVERS, (OBJECT_GUID,))]
        settings = self._session.find(sites_dn(self._reader.places.forest_root), _OF_CLASS, [SETTINGS_OWNER])
        self.follow([*servers, *(_parse_owner(entry) for entry in list(settings))])

    @staticmethod
    def _try(name: str, do: Callable[[], None]) -> None:
        """Do work that replication does not depend on: log errors of the directory."""
        try:
            do()
        except DirectoryNotConnected:
            raise
        except (DirectoryError, MappingError) as error:
            log.warning("%s: its settings objects are not what they should be: %s", name, error)


def _build_served(stored_entry: StoredEntry, identifier: Guid) -> Served:
    values = {name.lower(): list(stored_entry.entry.get(name, ())) for name in ATTRIBUTES}
    return Served.of(Entry(stored_entry.dn, values | {OBJECT_GUID.lower(): [bytes(identifier)]}))


def _parse_guid(entry: Entry, name: str) -> Guid | None:
    raw = entry.first(name)
    return Guid(raw) if raw is not None and len(raw) == GUID_BYTES else None


def _parse_owner(entry: Entry) -> Guid | None:
    return _parse_guid(entry, SETTINGS_OWNER)
