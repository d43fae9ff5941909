"""Directory servers at work: real engines, drivers, signatures and threads, on the network in one process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from threading import Thread
from types import MappingProxyType

from mqdssm.drivers.authentication import SignaturePolicy, Signer, Verifier
from mqdssm.drivers.keyring import DirectoryKeys, KeyRings, PinnedKeys
from mqdssm.drivers.private_key import PrivateKey
from mqdssm.drivers.queue_manager import LocalQueueManager
from mqdssm.drivers.replication import ReplicationDriver
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.operations import ChangesFound, ObjectOutcome, ObjectRead, ReadObject
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.store.performer import Store
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.simulation.stores import everything
from support.replication.network import machine_properties
from support.replication.queue_managers import guid_of, key_of, sender_of, wait_until

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


@dataclass
class LiveServer:
    """A server and the thread it works in."""

    host: LocalQueueManager
    driver: ReplicationDriver
    store: StoreThread
    failures: list[Exception] = field(default_factory=list)

    def start(self) -> None:
        self.thread = Thread(target=self._run, name=f"server {self.host.machine_name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.driver.run()
        except Exception as error:  # noqa: BLE001  the test fails with it, not the thread
            self.failures.append(error)

    def stop(self) -> None:
        self.driver.stop()
        self.thread.join(20)
        self.host.close()
        assert not self.thread.is_alive()
        if self.failures:
            raise self.failures[0]

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
        found = self.store.lookup(everything(partition_id))
        assert isinstance(found, ChangesFound)
        return tuple(
            (one.guid_identifier, one.seq_number, one.command, tuple(sorted(one.properties)))
            for one in found.changes
        )


class Enterprise:
    """Servers, their network, and how they come to know each other."""

    def __init__(
        self, *, policy: SignaturePolicy | None = None, make_store: Callable[[str], Store] | None = None
    ) -> None:
        self.network = InProcessNetwork()
        self.policy = policy or SignaturePolicy()
        self.servers: dict[str, LiveServer] = {}
        self._lives = count(1)  # no two use the same numbers of requests (decision R33)
        self._make_store = make_store or (lambda _name: MemoryStore())

    def server(
        self,
        name: str,
        role: Role,
        site: str,
        *,
        psc: str = "",
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
        thread = StoreThread(store or self._make_store(name), f"store {name}", retry_first_s=0.01)
        pinned = PinnedKeys(
            {
                guid_of(one): sender_of(one, SERVICES[known])
                for one, known in (("PEC", Role.PEC), (psc, Role.PSC))
                if one
            }
        )
        host = self.network.add(
            name,
            guid_of(name),
            signer=Signer(guid_of(name), key or key_of(name)),
            verifier=Verifier(KeyRings((pinned, DirectoryKeys(thread.lookup))), time.time(), self.policy),
        )
        engine = ReplicationEngine(settings, first_request=1_000_000 * next(self._lives))
        made = LiveServer(host, ReplicationDriver(engine, thread, host, policy=self.policy), thread)
        self.servers[name] = made
        made.start()
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
