"""Defects that the simulation has to find, each with a seed that finds it, clean without it (decision R64).

A mutation changes one rule of the engine or of the store. `python tests/simulation/mutations.py [NAME...]`
looks for seeds anew, when the runs that belong to seeds have changed.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

from mqdssm.engines.replication import (
    changes,
    propagation,
    reported_numbers,
    requests,
    server_roles,
    succession,
    sync,
    sync_replies,
    sync_requests,
    topology,
)
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.properties import CONTROLLER, has_role
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MAX, MIN
from mqdssm.testing.memory_store import store as memory
from mqdssm.testing.simulation.options import options_of
from mqdssm.testing.simulation.run import RunReport, Simulation
from mqdssm.testing.simulation.stores import CrashingStore

SEARCH_FIRST = 500_000  # seeds from here on may draw every option
SEARCH_MAX = 600  # seeds that are tried for one mutation
SECONDS_MAX = 1.0  # a recorded run is a short one


@dataclass(frozen=True)
class Mutation:
    """A defect.

    Attributes:
        name: what is wrong.
        seed: a run that shows it; one of the later ones where it needs options that came later.
        store: the store with the defect.
        patches: (module or class, name, what takes its place).
    """

    name: str
    seed: int
    store: Callable[[], Any] = CrashingStore
    patches: tuple[tuple[ModuleType | type, str, Any], ...] = field(default=())

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The engine with the defect."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(patch.object(owner, name, value))
            yield

    def run(self, seed: int | None = None) -> RunReport:
        """A run with the defect."""
        with self.applied():
            return Simulation(options_of(self.seed if seed is None else seed), make_store=self.store).run()


# -- defects of stores ---------------------------------------------------------------------------------


class SaysFullIsDone(CrashingStore):
    def perform(self, operation):
        result = super().perform(operation)
        if isinstance(result, ops.Applied) and result.status == Hresult.MQ_ERROR_DS_IS_FULL:
            return ops.Applied(count=len(operation.changes), status=Hresult.MQ_OK)
        return result


class NoTombstones(CrashingStore):
    def perform(self, operation):
        result = super().perform(operation)
        if isinstance(operation, ops.DeleteObject):
            number = operation.seq_number
            super().perform(ops.PurgeDeletedObjects(partition_id=operation.partition_id, up_to=number))
        return result


class LosesLast(CrashingStore):
    """LastSeqNumber is not persisted."""

    def perform(self, operation):
        if isinstance(operation, ops.SavePartition) and not operation.partition.owned:
            return super().perform(ops.SavePartition(partition=replace(operation.partition, last=MIN)))
        return super().perform(operation)


class LastTooHigh(CrashingStore):
    def perform(self, operation):
        result = super().perform(operation)
        if isinstance(operation, ops.LoadState):
            ahead = [one if one.owned else replace(one, last=one.last.next()) for one in result.partitions]
            return replace(result, partitions=tuple(ahead))
        return result


class TellsNoDeletions(CrashingStore):
    """Synchronization answers leave tombstones out."""

    def perform(self, operation):
        result = super().perform(operation)
        if isinstance(operation, ops.LookupChanges) and operation.up_to < MAX:
            left = [one for one in result.changes if one.command is not Command.DELETE]
            return replace(result, changes=tuple(left))
        return result


class ReachesTooFar(CrashingStore):
    """A bounded look-up says that it was complete."""

    def perform(self, operation):
        result = super().perform(operation)
        return (
            replace(result, reached=operation.up_to) if isinstance(operation, ops.LookupChanges) else result
        )


class Merges(CrashingStore):
    """A whole object does not replace what is there: what it does not name stays (decision R31)."""

    def perform(self, operation):
        if isinstance(operation, ops.ApplyChanges):
            return replace(
                super().perform(replace(operation, changes=tuple(map(self._merged, operation.changes))))
            )
        return super().perform(operation)

    def _merged(self, change):
        if change.command is not Command.SYNC:
            return change
        read = super().perform(
            ops.ReadObject(object_type=change.object_type, identifier=change.guid_identifier)
        )
        kept = {**dict(change.properties), **dict(read.properties or ())}
        return replace(change, properties=tuple(kept.items()))


class ForgetsMark(CrashingStore):
    def perform(self, operation):
        return ops.Done() if isinstance(operation, ops.MarkPartition) else super().perform(operation)


class SweepsNew(CrashingStore):
    """Reset Directory Partition 2 takes new objects, too."""

    def perform(self, operation):
        if isinstance(operation, ops.SweepPartition):
            super().perform(ops.MarkPartition(partition_id=operation.partition_id))
        return super().perform(operation)


class ForgetsSweep(CrashingStore):
    def perform(self, operation):
        return ops.Done() if isinstance(operation, ops.SweepPartition) else super().perform(operation)


class SaysTooMuch(CrashingStore):
    """The last change of a batch is not applied, and said to be."""

    def perform(self, operation):
        if isinstance(operation, ops.ApplyChanges) and len(operation.changes) > 1:
            super().perform(replace(operation, changes=operation.changes[:-1]))
            return ops.Applied(count=len(operation.changes), status=Hresult.MQ_OK)
        return super().perform(operation)


class PurgesTooMuch(CrashingStore):
    def perform(self, operation):
        if isinstance(operation, ops.PurgeDeletedObjects):
            operation = replace(operation, up_to=operation.up_to.plus(3))
        return super().perform(operation)


class OverlooksTombstones(CrashingStore):
    """LastSeqNumber is recovered from objects alone (decision R15)."""

    def perform(self, operation):
        result = super().perform(operation)
        if isinstance(operation, ops.Recover) and result.highest:
            kept = self._store._kept.find_table(operation.partition_id)
            highest = max((one.seq_number for one in kept.objects.values()), default=MIN)
            return ops.Recovered(highest=highest)
        return result


class ForgetsOldNumber(CrashingStore):
    """An update leaves the object's number as it was."""

    def perform(self, operation):
        result = super().perform(operation)
        if (
            isinstance(operation, ops.UpdateObject)
            and operation.object_type is ObjectType.QUEUE
            and result.identifier
        ):
            kept = self._store._kept
            found = kept.find_table(operation.partition_id).objects[result.identifier]
            if found.seq_number == operation.seq_number:
                kept.put(replace(found, seq_number=operation.seq_number.minus(1)))
        return result


def _delete_first(self, table, found, tombstone):
    """The object goes first, then comes the tombstone."""
    if found is not None:
        self._write(self._kept.remove, found)
    self._write(self._kept.write_tombstone, tombstone)


# -- defects of the engine -----------------------------------------------------------------------------


def _descending(found, start, purged):
    chain = []
    previous = start
    for change in sorted(found, key=lambda one: one.seq_number, reverse=True):
        chain.append(replace(change, previous_seq_number=previous, purged_seq_number=purged))
        previous = change.seq_number
    return tuple(chain)


def _no_previous(found, start, purged):
    return tuple(replace(one, previous_seq_number=MIN, purged_seq_number=purged) for one in found)


_ENQUEUE = propagation.enqueue


def _hides_gaps(server, neighbors, change):
    _ENQUEUE(server, neighbors, replace(change, previous_seq_number=MIN))


def _forgets_early(server, partition, change):
    """What came too early is neither kept nor asked for."""


_SAVE_STATUS = requests._send_reply


def _always_ok(server, message, _status, sender):
    _SAVE_STATUS(server, message, Hresult.MQ_OK, sender)


def _keeps_owning(server, partition, successor):
    server.note("handed over", "but for the record")
    return
    yield


def _inherits_early(server, partition, *, surely=False):
    """The number of the baton is not looked at: whoever hears of it is the authority."""
    if partition.record.owned or partition.id != server.settings.site_id:
        return
    found = yield from server_roles.read_own_machine(server)
    if has_role(found.properties or (), CONTROLLER):
        yield from succession._become_authority(server, partition)


_HEADER = propagation._make_header


def _boasts(server, neighbor):
    header = _HEADER(server, neighbor)
    more = [replace(one, last_seq_number=one.last_seq_number.next()) for one in header.partition_seq_numbers]
    return replace(header, partition_seq_numbers=tuple(more))


_REPLY = sync._find_reached_number


def _too_far(message):
    return max(_REPLY(message), *(one.seq_number.next() for one in message.directory_changes), MIN)


def _never_asks(_server, _partition, _number, _sender):
    """Nobody is asked for what is missing."""


def _steps_down_by_number(server, partition, sender):
    """What was numbered twice is not asked for again (decision R70)."""
    yield from server.save(partition, owned=False, authority_name=sender, last=partition.last)
    partition.is_whole = partition.is_settled = False
    partition.is_doubted = True
    yield from topology.derive_neighbors(server)
    sync_requests.send(server, partition)


def _no_doubt(server):
    """A server with an old copy goes on as if it were new (decision R70)."""
    return
    yield


_END = requests._end_request


def _sure(server, key, status):
    """That no answer came is told as if the change had not been made."""
    _END(server, key, Hresult.MQ_ERROR if status == Hresult.MQDS_NO_RSP_FROM_OWNER else status)


MUTATIONS = (
    Mutation("descending order (R6)", 1, patches=((sync_replies, "chain_changes", _descending),)),
    Mutation("no Previous in answers", 1, patches=((sync_replies, "chain_changes", _no_previous),)),
    Mutation("no tombstones", 2, store=NoTombstones),
    Mutation("LastSeqNumber is lost", 1, store=LosesLast),
    Mutation("LastSeqNumber is too high", 1, store=LastTooHigh),
    Mutation("answers without tombstones", 2, store=TellsNoDeletions),
    Mutation("bounded answers reach too far", 2, store=ReachesTooFar),
    Mutation("a whole object is merged", 1, store=Merges),
    Mutation("mark is forgotten", 31, store=ForgetsMark),
    Mutation("sweep is forgotten", 31, store=ForgetsSweep),
    Mutation("sweep deletes new objects", 11, store=SweepsNew),
    Mutation("a change is said to be applied", 1, store=SaysTooMuch),
    Mutation("purges three numbers more", 500_007, store=PurgesTooMuch),
    Mutation("recovery overlooks tombstones", 514, store=OverlooksTombstones),
    Mutation("an update keeps the old number", 1, store=ForgetsOldNumber),
    Mutation(
        "the object goes before its tombstone",
        500_003,
        patches=((memory.MemoryStore, "_delete_as", _delete_first),),
    ),
    Mutation(
        "recovery finishes nothing", 500_003, patches=((memory.MemoryStore, "_finish", lambda *_: None),)
    ),
    Mutation("older numbers overwrite", 5, patches=((memory, "_number_of", lambda *_: MIN),)),
    Mutation("gaps in propagations are hidden", 1, patches=((propagation, "enqueue", _hides_gaps),)),
    Mutation(
        "what comes early is lost",
        2,
        patches=(
            (changes, "_keep_early_change", _forgets_early),
            (reported_numbers, "_request_changes", _never_asks),
        ),
    ),
    Mutation("forgets what it executed", 3, patches=((requests, "_keep_outcome", lambda *_: None),)),
    Mutation(
        "answers after its start", 500_052, patches=((requests, "begin_quiet_time", lambda _server: None),)
    ),
    Mutation("answers MQ_OK always", 1, patches=((requests, "_send_reply", _always_ok),)),
    Mutation("no answer is an error", 1, patches=((requests, "_end_request", _sure),)),
    Mutation("hands over and keeps", 14, patches=((succession, "hand_over", _keeps_owning),)),
    Mutation(
        "inherits without the log", 14, patches=((succession, "become_authority_if_named", _inherits_early),)
    ),
    Mutation("header says one more", 1, patches=((propagation, "_make_header", _boasts),)),
    Mutation(
        "an old copy is used as it is",
        2023,
        patches=(
            (succession, "disown_restored", _no_doubt),
            (succession, "step_down", _steps_down_by_number),
        ),
    ),
    Mutation("an answer reaches one further", 1, patches=((sync, "_find_reached_number", _too_far),)),
    Mutation("a full disk is no reason to ask again", 500_000, store=SaysFullIsDone),
)


def search(mutation: Mutation) -> int | None:
    """The first seed that shows a defect, shows nothing without it, and does not take long."""
    for seed in range(SEARCH_FIRST, SEARCH_FIRST + SEARCH_MAX):
        begun = time.process_time()
        if not mutation.run(seed).violation or time.process_time() - begun > SECONDS_MAX:
            continue
        begun = time.process_time()
        if not Simulation(options_of(seed)).run().violation and time.process_time() - begun < SECONDS_MAX:
            return seed
    return None


if __name__ == "__main__":
    wanted = set(sys.argv[1:])
    for one in MUTATIONS:
        if not wanted or one.name in wanted:
            sys.stdout.write(f"{search(one)}  {one.name}\n")
            sys.stdout.flush()
