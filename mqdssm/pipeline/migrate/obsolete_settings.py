"""Obsolete settings objects of queue managers.

A plan deletes these objects as Write Directory does (decision M42).

[MS-MQDSSM] 3.1.6.7.1.9: a settings object is obsolete if it names a queue manager that does not serve its
site (any more). It is obsolete, too, if it has the place of such a queue manager and its owner does not
exist. The server object above it is deleted with it, if this program made it and it holds nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, Present, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.events.references import BATCH_TERMS, split_into_batches
from mqdssm.events.settings import MADE_BY_US
from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate.candidates import SITE_CLASS, Candidate
from mqdssm.pipeline.migrate.target import EVERYTHING, TargetView, find_of_class
from mqdssm.tables import places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS, SETTINGS_OWNER
from mqdssm.tables.schema import MANAGER_CLASS

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


class ObsoleteSettings:
    """Obsolete settings objects of some queue managers, looked up together.

    Args:
        view: of the target.
        managers: of the source, those that are there.
    """

    def __init__(self, view: TargetView, managers: Iterable[Candidate]) -> None:
        self._view = view
        self._session: Session = view.session
        self._owned: dict[UUID, list[Entry]] = {}
        self._ownerless: dict[str, Entry] = {}
        self._sites: dict[UUID, str] = {}
        served_managers = [manager for manager in managers if manager.served is not None]
        if served_managers:
            self._look_up(served_managers)

    def _look_up(self, managers: Sequence[Candidate]) -> None:
        owners = [
            manager.served.identifier
            for manager in managers
            if manager.served is not None and manager.served.identifier
        ]
        for batch in split_into_batches(dict.fromkeys(owners), BATCH_TERMS):
            of_owners = any_of(*(Equal(SETTINGS_OWNER, guid.bytes_le) for guid in batch))
            for entry in find_of_class(self._session, SETTINGS_CLASS, EVERYTHING, of_owners):
                owner = _read_owner(entry)
                if owner is not None:
                    self._owned.setdefault(owner, []).append(entry)
        sites = {guid for manager in managers if manager.served is not None for guid in manager.served.sites}
        self._sites = self._view.references.dns_of(sorted(sites), SITE_CLASS) if sites else {}
        dns = [str(dn) for manager in managers for dn in self._find_settings_dns(manager)]
        settings_entries = self._view.by_dn(dns, SETTINGS_CLASS, EVERYTHING) if dns else {}
        named = {
            dn: owner for dn, entry in settings_entries.items() if (owner := _read_owner(entry)) is not None
        }
        alive = self._view.references.dns_of(sorted(set(named.values())), MANAGER_CLASS) if named else {}
        self._ownerless = {
            dn: entry for dn, entry in settings_entries.items() if dn not in named or named[dn] not in alive
        }

    def _find_settings_dns(self, manager: Candidate) -> Iterator[DN]:
        """Yield DNs of obsolete settings objects in the sites of the entry.

        Settings objects that are still needed are left out.
        """
        computer = manager.new_entry.dn.parent.name
        for guid in () if manager.served is None else manager.served.sites:
            site = self._sites.get(guid)
            if site is not None:
                at = places.settings_dn(self._view.forest_root, DN.parse(site).name, computer)
                if at not in manager.settings:
                    yield at

    def of(self, manager: Candidate) -> list[Entry]:
        """Return the obsolete entries of a queue manager.

        A settings object comes before its server object.
        """
        if manager.served is None:
            return []
        owned = [] if manager.served.identifier is None else self._owned.get(manager.served.identifier, [])
        settings_by_dn = {entry.name: entry for entry in owned}
        for dn in self._find_settings_dns(manager):
            if dn.normalized in self._ownerless:
                settings_by_dn[dn] = self._ownerless[dn.normalized]
        gone = [(dn, entry) for dn, entry in settings_by_dn.items() if dn not in manager.settings]
        return [
            obsolete_entry for dn, entry in gone for obsolete_entry in (entry, *self._find_empty(dn.parent))
        ]

    def _find_empty(self, server: DN) -> Iterator[Entry]:
        """Yield the server object above a settings object.

        The server object must be made by this program and otherwise empty.
        """
        try:
            entry = self._session.get(server, EVERYTHING)
            if MADE_BY_US.encode() not in entry.all("description"):
                return
            below = [child.dn for child in self._session.find(server, Present("objectClass"), ["1.1"])]
        except ObjectNotFound:
            return
        if len(below) == len({"itself", "the settings"}):
            yield entry


def _read_owner(settings: Entry) -> UUID | None:
    raw = settings.first(SETTINGS_OWNER)
    return UUID(bytes_le=raw) if raw is not None and len(raw) == 16 else None
