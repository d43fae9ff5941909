"""The LDAP store on a simulated directory keeps the contract of all stores, and that of a real one (R146)."""

import pytest
from support.store.contract import StoreContract

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.memory_store.disk import Crash
from mqdssm.testing.simulation.stores import CrashingStore, DirectoryStore, SimulatedStore, crash_after


class SimulatedHarness:
    """A store on a simulated directory, which can lose its power."""

    crashes = Crash

    def __init__(self) -> None:
        self._kept = DirectoryStore()

    @property
    def store(self) -> LdapStore:
        return self._kept._store

    def arm(self, point: int) -> None:
        self._kept.disk.on_write = crash_after(point)

    def disarm(self) -> None:
        self._kept.disk.on_write = None

    def reopen(self) -> None:
        self._kept.reopen()


@pytest.fixture(scope="module")
def harness() -> SimulatedHarness:
    return SimulatedHarness()


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
class TestSimulatedStore(StoreContract):
    """What is the same for every store."""


@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.parametrize("kind", [CrashingStore, DirectoryStore])
def test_a_copy_in_another_partition_hides_no_change_of_another_program(kind: type[SimulatedStore]) -> None:
    """Decision R112: a full synchronization of one partition begins; the object stands in another, too."""
    store = kind()
    identifier = Guid.parse("76a1e1ae-5ba3-4f6a-ae8d-2d1397693382")
    homes = [Guid.parse(f"0db47e69-569a-48a6-aa73-95fd3d886af{number}") for number in (1, 2)]
    for number, home in enumerate(homes, 1):
        change = DirectoryChange(
            command=Command.SYNC,
            path_name=None,
            guid_identifier=identifier,
            partition_id=home,
            previous_seq_number=SequenceNumber(0),
            seq_number=SequenceNumber(number),
            purged_seq_number=SequenceNumber(0),
            properties=((Propid.CN_NAME, f"net{number}"), (Propid.CN_PROTOCOLID, 65)),
        )
        store.perform(ops.ApplyChanges(partition_id=home, changes=(change,)))
    store.write_foreign(identifier, ((Propid.CN_PROTOCOLID, 129),))
    store.perform(ops.MarkPartition(partition_id=homes[1]))
    result = store.perform(ops.FindForeign(after="", count_max=10))
    assert isinstance(result, ops.ForeignFound)
    assert (ObjectType.CN, homes[0], 1) in [
        (found.object_type, found.partition_id, found.seq_number) for found in result.objects
    ]
