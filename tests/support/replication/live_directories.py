"""Directory servers at work, each with a private slapd as its directory, and ways to harm them."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.session import Session
from mqdssm.engines.replication.operations import ChangesFound, ObjectOutcome
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.simulation.stores import look_up_everything
from support.replication.live_servers import Enterprise, LiveServer, site_of
from support.replication.queue_managers import guid_of, wait_until
from support.servers.proxy import Proxy
from support.servers.sessions import options_for

MEMBERS: Final[Mapping[str, tuple[Role, str, str]]] = {
    "PEC": (Role.PEC, "Site0", ""),
    "PSC1": (Role.PSC, "Site1", ""),
    "PSC2": (Role.PSC, "Site2", ""),
    "BSC1": (Role.BSC, "Site1", "PSC1"),
    "BSC2": (Role.BSC, "Site2", "PSC2"),
}
"""Role, site and PSC of each server."""
SITES: Final = ("Site0", "Site1", "Site2")
PARTITIONS: Final = (PEC_PARTITION_ID, *map(site_of, SITES))
WAIT_S: Final = 60.0


@dataclass
class Client:
    """Asks the server of a name, whichever life it is in."""

    enterprise: "Directories"
    name: str

    def ask(
        self,
        command: Command,
        kind: ObjectType,
        partition_id: Guid,
        *,
        path_name: str | None = None,
        identifier: Guid | None = None,
        properties: Properties = (),
    ) -> ObjectOutcome:
        server = self.enterprise.servers.get(self.name)
        if server is None:  # it was killed
            return ObjectOutcome(status=Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        return server.driver.change(
            command=command,
            object_type=kind,
            partition_id=partition_id,
            path_name=path_name,
            identifier=identifier,
            properties=properties,
        )


class Directories(Enterprise):
    """PEC, two PSCs and two BSCs, on five slapds.

    Attributes:
        directories: the slapds, by the name of their server.
    """

    def __init__(self, *, durable: bool = False, with_proxies: bool = False, **tuning: float) -> None:
        super().__init__()
        self.directories = {name: OpenLdapServer(durable=durable, replication=True) for name in MEMBERS}
        self.proxies: dict[str, Proxy] = {}
        self._tuning = tuning
        self._stores: list[LdapStore] = []
        try:
            with ThreadPoolExecutor(len(MEMBERS)) as workers:
                list(workers.map(OpenLdapServer.start, self.directories.values()))
        except BaseException:
            self.close()
            raise
        if with_proxies:
            for name in MEMBERS:
                self.with_proxy(name)

    def close(self) -> None:
        """Stop everything; a defect of a server is raised."""
        try:
            super().close()
        finally:
            for store in self._stores:
                store.close()
            for proxy in self.proxies.values():
                proxy.close()
            for directory in self.directories.values():
                directory.close()

    # -- lives of servers

    def start(self, name: str) -> LiveServer:
        """Start a server, for the first time or again."""
        role, site, psc = MEMBERS[name]
        return self.server(name, role, site, psc=psc, store=self.store(name), tuning=self._tuning)

    def store(self, name: str) -> LdapStore:
        """The store of a server's directory, as its next start opens it; through its proxy, if it has one."""
        server, proxy = self.directories[name], self.proxies.get(name)
        more: dict[str, Any] = {"connect_timeout_s": 5.0, "tls": "none", "allow_replicated": True}
        session = Session.open(options_for(server, proxy.url if proxy else server.url, **more))
        session.read_back = ReadBack(settle_s=0, limit_s=0.05)
        owner = Owner(machine_id=guid_of(name), machine_name=name)
        store = LdapStore(session, owner=owner, closes_session=True)
        self._stores.append(store)
        return store

    def with_proxy(self, name: str) -> None:
        """From its next start on a server reaches its directory by a proxy that can be cut."""
        self.proxies[name] = Proxy("127.0.0.1", self.directories[name].port)

    def kill(self, name: str) -> None:
        """What `kill -9` of a server does: its connections end anywhere, and what it knew is gone."""
        self.proxies[name].refuse = True
        self.proxies[name].cut_all()
        self.servers.pop(name).stop()
        self.proxies.pop(name).close()

    # -- beginning

    def found(self) -> None:
        """All five, with the objects that they need ([MC-MQDSRP] 4.1, 4.2)."""
        pec = self.start("PEC")
        named = ((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC"))
        enterprise = guid_of("enterprise")
        _done(pec.create(ObjectType.ENTERPRISE, "Fabrikam", PEC_PARTITION_ID, enterprise, named))
        for site, psc in zip(SITES, ("PEC", "PSC1", "PSC2"), strict=True):
            _done(pec.create_site(site, psc))
        _done(pec.create_machine("PEC", "Site0", Service.PEC))
        for name in ("PSC1", "PSC2"):
            self._add_psc(name)
        for name in ("BSC1", "BSC2"):
            _, site, psc = MEMBERS[name]
            _done(self.servers[psc].create_machine(name, site, Service.BSC))
            self.start(name)

    def _add_psc(self, name: str) -> None:
        server = self.start(name)
        wait_until(lambda: "became the authority" in server.driver.counts.copy(), WAIT_S)
        _done(server.create_machine(name, MEMBERS[name][1], Service.PSC))

    # -- what there is

    def changes(self, name: str, partition_id: Guid) -> tuple[DirectoryChange, ...]:
        """All that a server's directory has of a partition, read beside the server, by number."""
        server = self.directories[name]
        with LdapStore.open(options_for(server)) as store:
            found = store.perform(look_up_everything(partition_id))
        assert isinstance(found, ChangesFound)
        return found.changes

    def objects(self, name: str) -> dict[Guid, dict[Propid, PropertyValue]]:
        """The properties of all objects that a server has."""
        return {
            one.guid_identifier: dict(one.properties)
            for partition_id in PARTITIONS
            for one in self.changes(name, partition_id)
            if one.command is not Command.DELETE and one.guid_identifier is not None
        }

    def wait_whole(self, names: Iterable[str] = tuple(MEMBERS), seconds: float = WAIT_S) -> None:
        """Wait until all servers have the same of every partition: numbers, properties, tombstones."""
        others = list(names)
        for partition_id in PARTITIONS:
            self.wait_equal(*others, partition_id=partition_id, seconds=seconds)


def _done(outcome: ObjectOutcome) -> None:
    assert outcome.status == Hresult.MQ_OK, hex(outcome.status)
