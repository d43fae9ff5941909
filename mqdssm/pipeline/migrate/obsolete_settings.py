"""Obsolete settings objects of queue managers, deleted as Write Directory does (decision M42).

[MS-MQDSSM] 3.1.6.7.1.9: a settings object is obsolete if it names a queue manager that does not serve its
site (any more). It is obsolete, too, if it has the place of such a queue manager and its owner does not
exist. The server object above it is deleted with it, if this program made it and it holds nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, Present, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.events.references import BATCH_TERMS, split_into_batches
from mqdssm.events.settings import MADE_BY_US
from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate.candidates import MANAGER_CLASS, SITE_CLASS, Candidate
from mqdssm.pipeline.migrate.target import TargetView
from mqdssm.tables import places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

OWNER: Final = "mSMQQMID"
EVERYTHING: Final = ("*", "nTSecurityDescriptor")
"""Attributes that are read of objects to be deleted: the undo file restores them."""
SERVER_CLASS: Final = "server"


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
        there = [one for one in managers if one.served is not None]
        if there:
            self._look_up(there)

    def _look_up(self, managers: Sequence[Candidate]) -> None:
        owners = [
            one.served.identifier for one in managers if one.served is not None and one.served.identifier
        ]
        of_class = self._session.profile.class_filter(SETTINGS_CLASS)
        for batch in split_into_batches(dict.fromkeys(owners), BATCH_TERMS):
            wanted = And((of_class, any_of(*(Equal(OWNER, guid.bytes_le) for guid in batch))))
            for base in self._session.naming.bases_for(configuration=True):
                for entry in self._session.find(base, wanted, EVERYTHING):
                    owner = _owner(entry)
                    if owner is not None:
                        self._owned.setdefault(UUID(bytes_le=owner), []).append(entry)
        sites = {guid for one in managers if one.served is not None for guid in one.served.sites}
        self._sites = self._view.references.dns_of(sorted(sites), SITE_CLASS) if sites else {}
        dns = [str(dn) for one in managers for dn in self._before(one)]
        found = self._view.by_dn(dns, SETTINGS_CLASS, EVERYTHING) if dns else {}
        named = {dn: UUID(bytes_le=raw) for dn, one in found.items() if (raw := _owner(one)) is not None}
        alive = self._view.references.dns_of(sorted(set(named.values())), MANAGER_CLASS) if named else {}
        self._ownerless = {dn: one for dn, one in found.items() if dn not in named or named[dn] not in alive}

    def _before(self, manager: Candidate) -> Iterator[DN]:
        """Yield DNs of settings objects in the sites that the entry names, but for those still needed."""
        computer = manager.made.dn.parent.name
        for guid in () if manager.served is None else manager.served.sites:
            site = self._sites.get(guid)
            if site is not None:
                at = places.settings_dn(self._view.forest_root, DN.parse(site).name, computer)
                if at not in manager.settings:
                    yield at

    def of(self, manager: Candidate) -> list[Entry]:
        """Return the obsolete entries of a queue manager: settings objects, each before its server object."""
        if manager.served is None:
            return []
        owned = [] if manager.served.identifier is None else self._owned.get(manager.served.identifier, [])
        found = {one.name: one for one in owned}
        for dn in self._before(manager):
            if dn.normalized in self._ownerless:
                found[dn] = self._ownerless[dn.normalized]
        gone = [(dn, entry) for dn, entry in found.items() if dn not in manager.settings]
        return [one for dn, entry in gone for one in (entry, *self._empty(dn.parent))]

    def _empty(self, server: DN) -> Iterator[Entry]:
        """Yield the server object above a settings object, if this program made it and it is else empty."""
        try:
            entry = self._session.get(server, EVERYTHING)
            if MADE_BY_US.encode() not in entry.all("description"):
                return
            below = [one.dn for one in self._session.find(server, Present("objectClass"), ["1.1"])]
        except ObjectNotFound:
            return
        if len(below) == len({"itself", "the settings"}):
            yield entry


def _owner(settings: Entry) -> bytes | None:
    raw = settings.first(OWNER)
    return raw if raw is not None and len(raw) == 16 else None
