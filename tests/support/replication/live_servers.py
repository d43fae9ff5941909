"""Directory servers at work: real engines, drivers, signatures and threads, on the network in one process."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import SignaturePolicy
from mqdssm.drivers.replication.directory_server import DirectoryServer, start_directory_server
from mqdssm.engines.replication.operations import ChangesFound, ObjectOutcome, ObjectRead, ReadObject
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.config import ServerSection
from mqdssm.store.performer import Store
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.simulation.stores import look_up_everything
from support.replication.network import machine_properties
from support.replication.queue_managers import guid_of, key_of, sender_of, wait_until
from support.replication.tcp_machines import TcpNetworks

QUICKLY: dict[str, float] = {
    "intrasite_s": 0.05,
    "intersite_s": 0.05,
    "header_s": 0.3,
    "sync_wait_s": 0.3,
    "bsc_ack_first_s": 0.1,
}
"""Settings of servers that hear of each other at once."""
SERVICES = {Role.PEC: Service.PEC, Role.PSC: Service.PSC, Role.BSC: Service.BSC}


def site_of(name: str) -> Guid:
    return guid_of(f"site {name}")


def section_of_pec() -> ServerSection:
    """Section [server] of the PEC that `pec_with_site` starts."""
    return ServerSection(
        machine_name="PEC",
        machine_id=guid_of("PEC").uuid,
        role=Role.PEC,
        enterprise="Fabrikam",
        site="Site0",
        site_id=site_of("Site0").uuid,
        pec_name="PEC",
    )


class LiveServer:
    """A server at work, and what tests do with it."""

    def __init__(self, server: DirectoryServer) -> None:
        self.stop = server.close
        self.server = server
        self.driver, self.store, self.queue_manager = server.driver, server.store, server.queue_manager

    def create(
        self, kind: ObjectType, name: str, partition_id: Guid, identifier: Guid, properties: Properties
    ) -> ObjectOutcome:
        return self.driver.change(
            command=Command.CREATE,
            object_type=kind,
            path_name=name,
            identifier=identifier,
            partition_id=partition_id,
            properties=properties,
        )

    def create_site(self, name: str, controller: str, key: PrivateKey | None = None) -> ObjectOutcome:
        signing = bytes((key or key_of(controller)).public_keys())
        properties = ((Propid.S_PATHNAME, name), (Propid.S_PSC, controller), (Propid.S_PSC_SIGNPK, signing))
        return self.create(ObjectType.SITE, name, PEC_PARTITION_ID, site_of(name), properties)

    def create_machine(self, name: str, site: str, service: Service = Service.NONE) -> ObjectOutcome:
        key = (Propid.QM_SIGN_PK, bytes(key_of(name).public_keys()))
        properties = (*machine_properties(name, site_of(site), service), key)
        return self.create(ObjectType.MACHINE, name, site_of(site), guid_of(name), properties)

    def create_queue(self, path: str, site: str) -> ObjectOutcome:
        properties = ((Propid.Q_PATHNAME, path), (Propid.Q_LABEL, "label"))
        return self.create(ObjectType.QUEUE, path, site_of(site), guid_of(path), properties)

    def queue(self, path: str) -> ObjectRead:
        read = self.store.lookup(ReadObject(object_type=ObjectType.QUEUE, identifier=guid_of(path)))
        assert isinstance(read, ObjectRead)
        return read

    def content(self, partition_id: Guid) -> tuple[object, ...]:
        """Everything of a partition that it has, by number."""
        found = self.store.lookup(look_up_everything(partition_id))
        assert isinstance(found, ChangesFound)
        return tuple(
            (one.guid_identifier, one.seq_number, one.command, tuple(sorted(one.properties)))
            for one in found.changes
        )


class Enterprise:
    """Servers, their network, and how they come to know each other."""

    def __init__(
        self,
        *,
        policy: SignaturePolicy | None = None,
        make_store: Callable[[str], Store] | None = None,
        network: InProcessNetwork | TcpNetworks | None = None,
    ) -> None:
        self.network = network or InProcessNetwork()
        self.policy = policy or SignaturePolicy()
        self.servers: dict[str, LiveServer] = {}
        self._make_store = make_store or (lambda _name: MemoryStore())

    def server(
        self,
        name: str,
        role: Role,
        site: str,
        *,
        psc: str = "",
        pinned_psc: str = "",
        key: PrivateKey | None = None,
        store: Store | None = None,
        tuning: Mapping[str, float] = MappingProxyType({}),
    ) -> LiveServer:
        """Start a server; of the others it knows the PEC's key and its PSC's, from its administrator."""
        settings = Settings(
            machine_name=name,
            machine_id=guid_of(name),
            site_id=site_of(site),
            role=role,
            pec_name="PEC",
            psc_name=psc,
            **{**QUICKLY, **tuning},  # type: ignore[arg-type]  # numbers of many settings
        )
        pinned = {
            guid_of(one): sender_of(one, SERVICES[known])
            for one, known in (("PEC", Role.PEC), (psc or pinned_psc, Role.PSC))
            if one
        }
        made = LiveServer(
            start_directory_server(
                settings,
                store or self._make_store(name),
                self.network,
                key=key or key_of(name),
                pinned=pinned,
                policy=self.policy,
                retry_first_s=0.01,
            )
        )
        self.servers[name] = made
        return made

    def equal(self, *names: str, partition_id: Guid) -> bool:
        """Whether servers have the same of a partition, object by object, and something."""
        contents = [self.servers[name].content(partition_id) for name in names]
        return bool(contents[0]) and all(one == contents[0] for one in contents)

    def wait_equal(self, *names: str, partition_id: Guid, seconds: float = 20) -> None:
        wait_until(lambda: self.equal(*names, partition_id=partition_id), seconds)

    def close(self) -> None:
        """Stop all servers; a defect of one is raised."""
        try:
            for server in self.servers.values():
                server.stop()
        finally:
            self.network.close()


def pec_with_site(enterprise: Enterprise, **changes: Any) -> None:
    """PEC of Site0, which knows a Site1 whose controller will be PSC1."""
    pec = enterprise.server("PEC", Role.PEC, "Site0", **changes)
    made = pec.create(
        ObjectType.ENTERPRISE,
        "Fabrikam",
        PEC_PARTITION_ID,
        guid_of("enterprise"),
        ((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC")),
    )
    assert made.status == Hresult.MQ_OK
    assert pec.create_site("Site0", "PEC").status == Hresult.MQ_OK
    assert pec.create_machine("PEC", "Site0", Service.PEC).status == Hresult.MQ_OK
    assert pec.create_site("Site1", "PSC1").status == Hresult.MQ_OK


def with_controller(enterprise: Enterprise, **changes: Any) -> None:
    """Add PSC1, the controller of Site1, with its own machine object."""
    psc = enterprise.server("PSC1", Role.PSC, "Site1", **changes)
    enterprise.wait_equal("PEC", "PSC1", partition_id=PEC_PARTITION_ID)
    wait_until(lambda: "became the authority" in psc.driver.counts.copy())
    assert psc.create_machine("PSC1", "Site1", Service.PSC).status == Hresult.MQ_OK
    enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
