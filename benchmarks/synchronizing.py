"""Synchronizing a new primary controller with a large site: [replica-sync]."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid5

from benchmarks.growing import grown_apart, memory_folder, most_memory
from benchmarks.harness import Goal, Outcome
from benchmarks.world import World
from mqdssm.directory.options import ConnectionOptions
from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.replication.directory_server import start_directory_server
from mqdssm.drivers.replication.driver import ReplicationDriver
from mqdssm.engines.replication.operations import Applied, ApplyChanges, LoadState
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.testing import OpenLdapServer
from mqdssm.testing.in_process_network import InProcessNetwork

GROWN: Final = (10_000, 50_000)
GROWN_QUICK: Final = (300, 1_500)
BATCH: Final = 1_000
"""Objects that are prepared together."""
MACHINES: Final = 100
LIMIT_S: Final = 3_600.0
POLL_S: Final = 0.05
KEY_BITS: Final = 1_024
"""As MSMQ's own keys."""
_NAMES: Final = UUID("5d6f2f3a-58a5-4c9c-9c31-3e5f0e7c8a11")

REPLICA_SYNC: Final = Goal(
    name="replica-sync",
    title="a new PSC that synchronizes a site of 50,000 objects, databases in memory, for each of them, "
    "and the most memory: the larger of the two ratios",
    against="10,000 objects",
    goal=1.25,
    direction="at_most",
    quantity="growth",
)


def _guid(name: str) -> Guid:
    return Guid.of(uuid5(_NAMES, name))


@dataclass
class Enterprise:
    """A PEC with a large site, and sites for new PSCs."""

    pec_store: LdapStore
    network: InProcessNetwork = field(default_factory=InProcessNetwork)
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    last: int = 0

    def key(self, name: str) -> PrivateKey:
        """The key of a machine."""
        if name not in self.keys:
            self.keys[name] = PrivateKey.generate(KEY_BITS)
        return self.keys[name]

    @contextmanager
    def server(self, name: str, role: Role, site: str, store: LdapStore) -> Iterator[ReplicationDriver]:
        """A directory server at work."""
        settings = Settings(
            machine_name=name,
            machine_id=_guid(name),
            site_id=_guid(site),
            role=role,
            pec_name="PEC",
            intersite_s=0.2,
        )
        known = TrustedSender(
            machine_name="PEC", service=Service.PEC, keys=self.key("PEC").public_keys().keys
        )
        with start_directory_server(
            settings, store, self.network, key=self.key(name), pinned={_guid("PEC"): known}
        ) as server:
            yield server.driver

    def found(self) -> None:
        """The objects of the enterprise, as its administrator makes them."""
        with self.server("PEC", Role.PEC, "Site0", self.pec_store) as driver:
            _create(
                driver,
                ObjectType.ENTERPRISE,
                ("Fabrikam", PEC_PARTITION_ID, _guid("enterprise")),
                ((Propid.E_PECNAME, "PEC"),),
            )
            for site, psc in (("Site0", "PEC"), ("Site1", "PSC1"), ("Site2", "PSC2")):
                signing = bytes(self.key(psc).public_keys())
                _create(
                    driver,
                    ObjectType.SITE,
                    (site, PEC_PARTITION_ID, _guid(site)),
                    ((Propid.S_PSC, psc), (Propid.S_PSC_SIGNPK, signing)),
                )
            _create(
                driver,
                ObjectType.MACHINE,
                ("PEC", _guid("Site0"), _guid("PEC")),
                (
                    (Propid.QM_SITE_ID, _guid("Site0")),
                    (Propid.QM_ADDRESS, b""),
                    (Propid.QM_CNS, ()),
                    (Propid.QM_SERVICE, int(Service.PEC)),
                    (Propid.QM_SIGN_PK, bytes(self.key("PEC").public_keys())),
                ),
            )
        self.last = 1

    def grow(self, objects: int) -> None:
        """Let the PEC's site have so many objects, numbered as if it had made them one by one."""
        site = _guid("Site0")
        while self.last < objects:
            numbers = range(self.last + 1, min(objects, self.last + BATCH) + 1)
            changes = [_change(site, number) for number in numbers]
            applied = self.pec_store.perform(ApplyChanges(partition_id=site, changes=changes))
            if applied != Applied(count=len(changes), status=Hresult.MQ_OK):
                raise AssertionError(f"{applied}: this is no measurement")
            self.last = numbers[-1]

    def synchronize(self, name: str, site: str) -> float:
        """Seconds that a new PSC needs until it has all of the PEC's site."""
        with (
            _directory() as directory,
            _store(directory) as store,
            _store(directory) as beside,
            self.server("PEC", Role.PEC, "Site0", self.pec_store),
        ):
            begin = time.perf_counter()
            with self.server(name, Role.PSC, site, store):
                while not self._is_whole(beside):
                    time.sleep(POLL_S)
                    if time.perf_counter() > begin + LIMIT_S:
                        raise AssertionError(f"{name} is not whole in time")
                return time.perf_counter() - begin

    def _is_whole(self, store: LdapStore) -> bool:
        partitions = {one.partition_id: one for one in store.perform(LoadState()).partitions}
        site = partitions.get(_guid("Site0"))
        return site is not None and site.last >= self.last and site.purge_state is PurgeState.NORMAL


@contextmanager
def _directory() -> Iterator[OpenLdapServer]:
    """A slapd with its database in memory."""
    with memory_folder() as folder, OpenLdapServer(folder, durable=False, replication=True) as server:
        yield server


def _store(directory: OpenLdapServer) -> LdapStore:
    user, password = directory.user, directory.password
    return LdapStore.open(ConnectionOptions.of(directory.url, user=user, password=password, tls="none"))


def _create(
    driver: ReplicationDriver, kind: ObjectType, which: tuple[str, Guid, Guid], properties: Properties
) -> None:
    path_name, partition_id, identifier = which
    outcome = driver.change(
        command=Command.CREATE,
        object_type=kind,
        path_name=path_name,
        partition_id=partition_id,
        identifier=identifier,
        properties=properties,
    )
    if outcome.status != Hresult.MQ_OK:
        raise AssertionError(f"{path_name}: {outcome.status:#x}: this is no measurement")


def _change(site: Guid, number: int) -> DirectoryChange:
    """An object of the site: machines first, then queues on them."""
    properties: Properties
    if number <= MACHINES + 1:
        properties = (
            (Propid.QM_PATHNAME, f"PC{number % MACHINES}"),
            (Propid.QM_SITE_ID, site),
            (Propid.QM_CNS, ()),
        )
    else:
        properties = (
            (Propid.Q_PATHNAME, f"PC{number % MACHINES}\\s{number}"),
            (Propid.Q_LABEL, f"label {number}"),
            (Propid.Q_TYPE, _guid(f"type {number % 7}")),
            (Propid.Q_QUOTA, number),
            (Propid.Q_JOURNAL, number % 2),
        )
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=_guid(f"object {number}"),
        partition_id=site,
        seq_number=SequenceNumber(number),
        properties=properties,
    )


def _measured(small: int, large: int) -> tuple[list[float], list[float]]:
    """Seconds of both synchronizations, and the most memory until the end of each, in MB."""
    with _directory() as directory, _store(directory) as store:
        enterprise = Enterprise(store)
        enterprise.found()
        times, memory = [], []
        for number, (name, site) in ((small, ("PSC1", "Site1")), (large, ("PSC2", "Site2"))):
            enterprise.grow(number)
            times.append(enterprise.synchronize(name, site))
            memory.append(most_memory())
    return times, memory


def replica_sync(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has servers of its own
    """In a process of its own, whose memory is its own; the smaller number comes first."""
    small, large = GROWN_QUICK if quick else GROWN
    return grown_apart(REPLICA_SYNC, _measured, (small, large), "objects")


ROWS: Final = {REPLICA_SYNC: replica_sync}
