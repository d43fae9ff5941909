"""The contract of stores: the protocol's state."""

import pytest

from mqdssm.engines.replication import operations as ops
from mqdssm.model.messages import Command
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition, PurgeState
from mqdssm.model.seqnum import MIN, SequenceNumber
from support.store.world import Harness, World, brief, guid, number


class StateContract:
    """What is persisted of the protocol's state."""

    def test_partitions_are_kept(self, harness: Harness) -> None:
        world = World(harness)
        first = DirectoryPartition(
            partition_id=world.site, authority_name="PSC1", owned=True, predecessor="PSC0"
        )
        second = DirectoryPartition(
            partition_id=world.site,
            authority_name="Psc2",
            last=number(2**64 - 2),
            purged=number(5),
            allowed_purge=number(7),
            purge_state=PurgeState.SYNC0,
            is_new=True,
            followed=number(3),
            first_source="Psc1",
            had_before=number(2**63),
        )
        for state in (first, second, second):
            assert world.perform(ops.SavePartition(partition=state)) == ops.Done()
            assert self._states(world) == [state]
        harness.reopen()
        assert self._states(world) == [second]
        for _ in range(2):
            assert world.perform(ops.RemovePartition(partition_id=world.site)) == ops.Done()
            assert self._states(world) == []

    def _states(self, world: World) -> list[DirectoryPartition]:
        state = world.perform(ops.LoadState())
        return [one for one in state.partitions if one.partition_id == world.site]

    def test_a_partition_goes_with_its_tombstones(self, harness: Harness) -> None:
        world = World(harness)
        kept, gone = guid(), guid()
        world.perform(
            ops.SavePartition(partition=DirectoryPartition(partition_id=world.site, authority_name="A"))
        )
        world.apply(world.sync(kept, 1, world.queue(kept)), world.deletion(gone, 2))
        world.perform(ops.RemovePartition(partition_id=world.site))
        assert brief(world.changes()) == [(Command.SYNC, 1, kept)]

    def test_neighbors_are_kept_by_name_and_kind(self, harness: Harness) -> None:
        world = World(harness)
        name = world.name("Psc")
        primary = DirectoryNeighbor(
            partition_id=world.site, machine_name=name, acked=number(3), acked_pec=number(2**63)
        )
        backup = DirectoryNeighbor(
            partition_id=world.site, machine_name=name, is_bsc=True, last_acked_time=1.5e9
        )
        renamed = DirectoryNeighbor(partition_id=world.site, machine_name=name.upper(), acked=number(9))
        for neighbor in (primary, backup, renamed):
            assert world.perform(ops.SaveNeighbor(neighbor=neighbor)) == ops.Done()
        harness.reopen()
        assert self._neighbors(world) == {backup, renamed}
        for _ in range(2):
            world.perform(ops.RemoveNeighbor(machine_name=name.lower(), is_bsc=False))
            assert self._neighbors(world) == {backup}
        world.perform(ops.RemoveNeighbor(machine_name=name, is_bsc=True))
        assert self._neighbors(world) == set()

    @pytest.mark.parametrize(
        "name", ["\ud800", "x\udc00\ud83dX", "UTF-16LE:", "UTF-16LE:610", " two  ", "\U0001f4a9"]
    )
    def test_names_of_machines_that_are_no_utf8(self, harness: Harness, name: str) -> None:
        """Servers follow from objects, which have any name: none of them may stop who has it (R93)."""
        world = World(harness)
        neighbor = DirectoryNeighbor(partition_id=world.site, machine_name=name)
        partition = DirectoryPartition(partition_id=world.site, authority_name=name)
        for _ in range(2):
            assert world.perform(ops.SaveNeighbor(neighbor=neighbor)) == ops.Done()
            assert world.perform(ops.SavePartition(partition=partition)) == ops.Done()
            harness.reopen()
            assert self._neighbors(world) == {neighbor}
            assert self._states(world) == [partition]
        world.perform(ops.RemoveNeighbor(machine_name=name, is_bsc=False))
        assert self._neighbors(world) == set()

    def _neighbors(self, world: World) -> set[DirectoryNeighbor]:
        state = world.perform(ops.LoadState())
        return {one for one in state.neighbors if one.partition_id == world.site}

    def test_recover_tells_the_highest_number(self, harness: Harness) -> None:
        world = World(harness)
        assert world.recover() == MIN
        one, two = guid(), guid()
        world.apply(world.sync(one, 5, world.queue(one)), world.deletion(two, 9))
        assert world.recover() == 9
        harness.reopen()
        assert world.recover() == 9
        world.perform(ops.PurgeDeletedObjects(partition_id=world.site, up_to=number(9)))
        assert world.recover() == 5
        assert isinstance(world.recover(), SequenceNumber)
