"""What every store of the replication engine does: tests that a store's own test module runs.

A test module has a fixture ``harness`` and a class that inherits `StoreContract`; what is random is in
`model`. Tests share a directory: each takes partitions, names and GUIDs that nobody else has (`World`).

The contract in short (decisions R50 to R52):

- A partition is a map from identifier to the newest object or tombstone, and nothing else: what happens in
  one never touches an object of another, and no change of a replica is refused or lost because of a name or a
  parent. On a replica several objects may hold a name; by name one reads the newest, that with the highest
  number (then the highest partition id). Only the authority's own operations refuse names.
- After a crash the engine performs `Recover` for each partition before anything else.
"""

from collections.abc import Callable
from typing import Any

import pytest

from mqdssm.engines.replication import operations as ops
from mqdssm.model.messages import Command, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DirectoryPartition
from support.store.contract_authority import AuthorityContract, ReadingContract
from support.store.contract_replica import NamesContract, ReplicaContract, SyncZeroContract
from support.store.contract_state import StateContract
from support.store.world import NOT_FOUND, OK, Harness, World, brief, everywhere_crashing, guid, number


class CrashContract:
    """A crash at each write of each operation: what is repeated ends as if nothing had happened."""

    def test_creation(self, harness: Harness) -> None:
        def run(world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine = guid()
            world.create(world.machine(machine), at=1)
            world.delete(machine, ObjectType.MACHINE, at=2)
            operation = ops.CreateObject(
                object_type=ObjectType.MACHINE,
                path_name=None,
                properties=world.machine(machine, OS=1),
                partition_id=world.site,
                seq_number=number(3),
            )
            assert perform(operation) == ops.ObjectOutcome(status=OK, identifier=machine)
            assert brief(world.changes()) == [(Command.SYNC, 3, machine)]
            assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 1

        assert everywhere_crashing(harness, run, whole=True) >= 4, (
            "the object, then the tombstone that it takes away"
        )

    @pytest.mark.parametrize("by_name", [False, True])
    def test_deletion(self, harness: Harness, by_name: bool) -> None:
        def run(world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine = guid()
            world.create(world.machine(machine), at=1)
            operation = ops.DeleteObject(
                object_type=ObjectType.MACHINE,
                path_name=world.name("web") if by_name else None,
                identifier=None if by_name else machine,
                scope=Scope.ENTERPRISE,
                partition_id=world.site,
                seq_number=number(2),
            )
            assert perform(operation) == ops.ObjectOutcome(status=OK, identifier=machine)
            assert brief(world.changes()) == [(Command.DELETE, 2, machine)]
            assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND

        assert everywhere_crashing(harness, run, whole=True) >= 4, "the tombstone, then the object"

    def test_update(self, harness: Harness) -> None:
        def run(world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine = guid()
            world.create(world.machine(machine), at=1)
            operation = ops.UpdateObject(
                object_type=ObjectType.MACHINE,
                path_name=world.name("web"),
                identifier=None,
                properties=((Propid.QM_PATHNAME, world.name("new")), (Propid.QM_OS, 5)),
                partition_id=world.site,
                seq_number=number(2),
            )
            assert perform(operation) == ops.ObjectOutcome(status=OK, identifier=machine)
            assert brief(world.changes()) == [(Command.SYNC, 2, machine)]
            values = world.values(machine, ObjectType.MACHINE)
            assert (values[Propid.QM_PATHNAME], values[Propid.QM_OS]) == (world.name("new"), 5)
            assert world.read(world.name("web"), ObjectType.MACHINE).status == NOT_FOUND

        assert everywhere_crashing(harness, run, whole=True) >= 2

    def test_batch(self, harness: Harness) -> None:
        def run(world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine, queue, back = guid(), guid(), guid()
            world.apply(
                world.sync(machine, 1, world.machine(machine)),
                world.sync(queue, 2, world.queue(queue)),
                world.deletion(back, 3),
            )
            changes = (
                world.deletion(queue, 4),
                world.change(Command.UPDATE, machine, 5, ((Propid.QM_PATHNAME, world.name("new")),)),
                world.change(Command.UPDATE, world.name("new"), 6, ((Propid.QM_OS, 6),)),
                world.sync(back, 7, world.queue(back, r"new\q")),
                world.deletion(guid(), 8),
            )
            operation = ops.ApplyChanges(partition_id=world.site, changes=changes)
            assert perform(operation) == ops.Applied(count=5, status=OK)
            expected = [(Command.DELETE, 4, queue), (Command.SYNC, 6, machine), (Command.SYNC, 7, back)]
            assert brief(world.changes())[:3] == expected
            assert len(world.changes()) == 4
            assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 6
            assert world.recover() == 8

        assert everywhere_crashing(harness, run) >= 10

    def test_batch_that_deletes_an_object_and_creates_it_again(self, harness: Harness) -> None:
        """The object has another name then; a queue of it stays, and holds its former entry."""

        def run(world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine, queue = guid(), guid()
            world.apply(
                world.sync(machine, 1, world.machine(machine)), world.sync(queue, 2, world.queue(queue))
            )
            again = {**dict(world.machine(machine)), Propid.QM_PATHNAME: world.name("new"), Propid.QM_OS: 7}
            changes = (world.deletion(machine, 3), world.sync(machine, 4, tuple(again.items())))
            operation = ops.ApplyChanges(partition_id=world.site, changes=changes)
            assert perform(operation) == ops.Applied(count=2, status=OK)
            assert brief(world.changes()) == [(Command.SYNC, 2, queue), (Command.SYNC, 4, machine)]
            assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 7
            assert world.read(world.name("web"), ObjectType.MACHINE).status == NOT_FOUND
            assert world.recover() == 4

        assert everywhere_crashing(harness, run) >= 4

    @pytest.mark.slow
    def test_mark_sweep_purge_and_remove(self, harness: Harness) -> None:
        def run(which: int, world: World, perform: Callable[[ops.Operation], Any]) -> None:
            machine, queue, gone = guid(), guid(), guid()
            state = DirectoryPartition(partition_id=world.site, authority_name="A")
            world.perform(ops.SavePartition(partition=state))
            world.apply(
                world.sync(machine, 1, world.machine(machine)),
                world.sync(queue, 2, world.queue(queue)),
                world.deletion(gone, 3),
            )
            steps = (
                ops.MarkPartition(partition_id=world.site),
                ops.SweepPartition(partition_id=world.site),
                ops.PurgeDeletedObjects(partition_id=world.site, up_to=number(3)),
                ops.RemovePartition(partition_id=world.site),
            )
            for at, step in enumerate(steps[:2] if which < 2 else steps[which : which + 1]):
                assert (perform if at == which or which >= 2 else world.perform)(step) == ops.Done()
            left = [] if which < 2 else [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]
            assert brief(world.changes()) == left
            assert world.perform(ops.HasObjects(partition_id=world.site)).yes == (which >= 2)

        for which, points in enumerate((6, 6, 2, 4)):
            made = everywhere_crashing(harness, lambda *given, which=which: run(which, *given))
            assert made >= points


class StoreContract(
    StateContract,
    AuthorityContract,
    ReadingContract,
    ReplicaContract,
    NamesContract,
    SyncZeroContract,
    CrashContract,
):
    """Everything."""
