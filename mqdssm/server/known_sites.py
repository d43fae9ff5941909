"""Sites and directory servers in the server's directory, read a few at a time."""

import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from mqdssm.drivers.store_thread import list_objects
from mqdssm.engines.replication.operations import ObjectRead, Operation, Result
from mqdssm.engines.replication.properties import get_roles, get_text
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryError, MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.current_roles import role_of
from mqdssm.server.snapshot import KnownServer

REFRESH_S: Final = 60.0
"""Seconds for which names and roles are taken as known."""
RETRY_S: Final = 5.0
"""Seconds after which a directory that lacked something, or could not be read, is read again."""
SITES_AT_ONCE: Final = 8
"""Sites whose servers are read at one time: each takes a search in the directory."""
SERVERS_MAX: Final = 64
"""Directory servers of one site that are kept."""
_ANY_ROLE: Final = Service.PEC | Service.PSC | Service.BSC


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSite:
    """Site in the directory.

    Attributes:
        site_id: its identifier.
        name: its name.
        psc_name: its PSC by the object of the site; empty if it names none.
        servers: directory servers by the objects of machines; empty as long as they are not read.
    """

    site_id: Guid
    name: str
    psc_name: str
    servers: tuple[KnownServer, ...] = ()


class KnownSites:
    """Names of sites and roles of servers, which `refresh` reads; thread-safe.

    Args:
        lookup: performs a reading operation (`StoreThread.lookup`).
        clock: monotonic seconds.
    """

    def __init__(
        self, lookup: Callable[[Operation], Result], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lookup, self._clock = lookup, clock
        self._lock: Final = Lock()
        self._sites: dict[Guid, ListedSite] = {}
        self._servers: dict[Guid, tuple[ObjectRead, ...]] = {}
        self._pec_name = ""
        self._due: dict[Guid, float] = {}  # when the servers of a site are to be read again
        self._sites_due = -math.inf
        self._retry_at = -math.inf

    def sites(self) -> tuple[ListedSite, ...]:
        """Return the sites that are known, by name."""
        sites, servers = self._sites, self._servers
        return tuple(
            ListedSite(
                site_id=site.site_id,
                name=site.name,
                psc_name=site.psc_name,
                servers=tuple(_servers_of(servers.get(site.site_id, ()), self._pec_name)),
            )
            for site in sorted(sites.values(), key=lambda site: (site.name.casefold(), site.site_id))
        )

    def name_of(self, site_id: Guid) -> str:
        """Return the name of a site; empty as long as it is not known."""
        site = self._sites.get(site_id)
        return "" if site is None else site.name

    def refresh(self, partition_ids: Collection[Guid], pec_name: str = "") -> None:
        """Read a part of the names and roles that are old, unless another thread does.

        Args:
            partition_ids: partitions of the server; the servers of other sites cannot be read.
            pec_name: machine of the PEC; empty: PROPID_QM_SERVICE says it.
        """
        self._pec_name = pec_name
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._refresh(partition_ids)
        except (DirectoryError, MappingError):
            self._retry_at = self._clock() + RETRY_S  # what is known stays
        finally:
            self._lock.release()

    def _refresh(self, partition_ids: Collection[Guid]) -> None:
        now = self._clock()
        if now < self._retry_at:
            return
        if now >= self._sites_due:
            sites = [_site_of(site) for site in self._list_objects(ObjectType.SITE, PEC_PARTITION_ID, 0)]
            self._sites = {site.site_id: site for site in sites if site is not None}
            self._servers = {key: value for key, value in self._servers.items() if key in self._sites}
            self._due = {key: value for key, value in self._due.items() if key in self._sites}
            listed_ids = {PEC_PARTITION_ID, *self._sites}
            is_complete = bool(sites) and listed_ids.issuperset(partition_ids)
            self._sites_due = now + (REFRESH_S if is_complete else RETRY_S)
        readable = self._sites.keys() & set(partition_ids)
        old = sorted((self._due.get(site_id, -math.inf), site_id) for site_id in readable)
        for due, site_id in old[:SITES_AT_ONCE]:
            if due > now:
                return
            machines = self._list_objects(ObjectType.MACHINE, site_id, int(_ANY_ROLE))
            self._servers = {**self._servers, site_id: machines[:SERVERS_MAX]}
            self._due[site_id] = now + (REFRESH_S if machines else RETRY_S)

    def _list_objects(
        self, object_type: ObjectType, partition_id: Guid, service: int
    ) -> tuple[ObjectRead, ...]:
        return list_objects(self._lookup, object_type, partition_id, service=service)


def _site_of(site: ObjectRead) -> ListedSite | None:
    if site.identifier is None or site.properties is None:
        return None
    return ListedSite(
        site_id=site.identifier,
        name=get_text(site.properties, Propid.S_PATHNAME) or "",
        psc_name=get_text(site.properties, Propid.S_PSC) or "",
    )


def _servers_of(machines: Iterable[ObjectRead], pec_name: str) -> list[KnownServer]:
    servers = []
    for machine in machines:
        properties = machine.properties or ()
        name = get_text(properties, Propid.QM_PATHNAME) or ""
        role = role_of(get_roles(properties) or Service.NONE, name, pec_name)
        if role is not None and name:
            servers.append(KnownServer(machine_name=name, role=role))
    return sorted(servers, key=lambda server: (list(Role).index(server.role), server.machine_name.casefold()))
