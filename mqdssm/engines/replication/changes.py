"""Changes of other servers' objects, applied to our replica.

See [MC-MQDSRP] 3.1.5.2 and 3.1.7.2.2-3.1.7.2.4.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from mqdssm.engines.replication import propagation, purging, reported_numbers, sync_requests, trust
from mqdssm.engines.replication.internal_events import ObjectsChanged, publish
from mqdssm.engines.replication.jobs import Job, perform, read_object
from mqdssm.engines.replication.operations import Applied, ApplyChanges
from mqdssm.engines.replication.properties import make_object_change
from mqdssm.engines.replication.state import Partition, ReplicaState
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangePropagationMessage, Command, DirectoryChange
from mqdssm.model.seqnum import SequenceNumber


def receive(server: ReplicaState, message: ChangePropagationMessage, sender: str) -> Job[None]:
    """Handle Change Propagation (3.2.7.1).

    Changes are handled by partition (3.1.5.2), then sequence numbers.
    """
    for partition_id, group in groupby(message.directory_changes, key=lambda change: change.partition_id):
        partition = server.partitions.get(partition_id)
        if partition is None or not trust.accepts(server, partition, sender):
            continue  # an earlier change of the same propagation changed that
        usable = tuple(change for change in group if _is_usable(server, partition, change, sender))
        yield from handle(server, partition, usable, flush=not message.flush)
    for numbers in message.seq_number_header.partition_seq_numbers:
        partition = server.partitions.get(numbers.partition_id)
        if partition is not None:
            yield from reported_numbers.receive(server, partition, numbers, sender)


def is_stale(partition: Partition, purged: SequenceNumber) -> bool:
    """Return True if a change was sent before the full synchronization under way.

    Such a change is older than its replies (decision R45).
    """
    return not partition.is_normal and purged < partition.record.purged


def _is_usable(server: ReplicaState, partition: Partition, change: DirectoryChange, sender: str) -> bool:
    """Return True if a propagated change may be applied or kept.

    A change that we had before a full synchronization comes with its replies: the object may have been
    deleted since (decision R197). A partial update has the base of its sender, which is to be the server that
    says that our copy is whole (decision R198).
    """
    if not partition.is_normal and change.seq_number <= partition.had_before:
        return False
    if change.command is not Command.UPDATE or trust.is_from(
        server, sender, server.find_usual_source(partition)
    ):
        return True
    partition.known_number = max(partition.known_number, change.seq_number)
    return False


def handle(
    server: ReplicaState, partition: Partition, changes: Sequence[DirectoryChange], *, flush: bool
) -> Job[bool]:
    """Handle Directory Change (3.1.7.2.2) for many changes.

    Changes in order are applied, early ones are kept.

    Returns:
        True if all changes in order are in the directory now.
    """
    ready: list[DirectoryChange] = []
    last = partition.last
    for change in changes:
        if change.seq_number <= last or is_stale(partition, change.purged_seq_number):
            continue
        if _may_lack_base(partition, change):
            partition.known_number = max(partition.known_number, change.seq_number)
        elif change.previous_seq_number <= last:
            _note_gap(partition, change, last)
            ready.append(change)
            last = change.seq_number
        else:
            _keep_early_change(server, partition, change)
    if not (yield from _apply(server, partition, ready, flush=flush)):
        return False
    return (yield from check_pending(server, partition))


def _may_lack_base(partition: Partition, change: DirectoryChange) -> bool:
    """Return True if a partial update may lack its base (decision R31).

    The object may be older here than at the update's sender, or another program changed it (decision R204).
    """
    if change.command is not Command.UPDATE:
        return False
    return change.guid_identifier in partition.foreign or not partition.is_whole


def _note_gap(partition: Partition, change: DirectoryChange, last: SequenceNumber) -> None:
    """Note that numbers before a change are missing (decision R117).

    Objects with missing numbers may be outdated here.

    A reply omits numbers of objects that have a higher number by now, and a PSC passes it on to its BSCs
    unchanged.
    """
    if change.seq_number > last.next():
        partition.is_whole = False
        partition.gap_at = change.seq_number


def _keep_early_change(server: ReplicaState, partition: Partition, change: DirectoryChange) -> None:
    pending = partition.pending
    partition.known_number = max(partition.known_number, change.seq_number)
    if len(pending) >= server.settings.pending_max:
        return
    if all(other.seq_number != change.seq_number for other in pending):
        insort(pending, change, key=lambda other: other.seq_number)


def check_pending(server: ReplicaState, partition: Partition) -> Job[bool]:
    """Check Pending Changes (3.1.7.2.4), and ask for missing changes."""
    last = partition.last
    ready: list[DirectoryChange] = []
    while partition.pending and partition.pending[0].previous_seq_number <= last:
        change = partition.pending.pop(0)
        if change.seq_number <= last or is_stale(partition, change.purged_seq_number):
            continue
        if not _may_lack_base(partition, change):
            _note_gap(partition, change, last)
            ready.append(change)
            last = change.seq_number
    if not (yield from _apply(server, partition, ready, flush=True)):
        return False
    if partition.known_number > partition.last:
        sync_requests.send(server, partition)
    return True


def _apply(
    server: ReplicaState, partition: Partition, ready: Sequence[DirectoryChange], *, flush: bool
) -> Job[bool]:
    """Handle In-Sync Change (3.1.7.2.3), for many at a time."""
    batch_max = server.settings.message_changes_max
    for start in range(0, len(ready), batch_max):
        batch = ready[start : start + batch_max]
        applied = yield from perform(ApplyChanges(partition_id=partition.id, changes=tuple(batch)), Applied)
        if applied.count:
            applied_changes = batch[: applied.count]
            partition.last = applied_changes[-1].seq_number
            if partition.foreign:
                partition.foreign.difference_update(change.guid_identifier for change in applied_changes)
            yield from _finish_batch(server, partition, applied_changes, flush=flush)
        if partition.id not in server.partitions or partition.record.owned:
            return False  # the last change removed the partition, or made it ours
        if applied.status != Hresult.MQ_OK:
            guilty = batch[applied.count]
            name = guilty.path_name or str(guilty.guid_identifier)
            server.note(
                "a change was not taken by the directory",
                f"{guilty.seq_number} of {partition.id}, {name}: status {applied.status:#010x}",
            )
            partition.is_whole = False
            sync_requests.send_later(server, partition)
            return False
    return True


def _finish_batch(
    server: ReplicaState, partition: Partition, applied_changes: Sequence[DirectoryChange], *, flush: bool
) -> Job[None]:
    if server.bscs and partition.is_normal:
        for change in applied_changes:
            passed = yield from _change_for_bscs(change)
            propagation.enqueue(server, server.bscs.values(), passed)
    yield from publish(server, ObjectsChanged(partition=partition, changes=applied_changes, flush=flush))
    if partition.id in server.partitions:
        if not partition.record.owned:
            # only now: after a crash, the effects on the topology would not be repeated (decision R14)
            yield from server.save(partition, last=partition.last)
        yield from purging.purge_if_due(server, partition)
        purging.acknowledge(server, partition)
        sync_requests.send_if_needed(server, partition)


def _change_for_bscs(change: DirectoryChange) -> Job[DirectoryChange]:
    """Return a change for our BSCs (decision R31).

    An update of properties becomes the whole object.
    """
    kind = change.object_type
    if change.command is not Command.UPDATE or kind is None:
        return change
    stored_object = yield from read_object(
        kind, identifier=change.guid_identifier, path_name=change.path_name, partition_id=change.partition_id
    )
    if stored_object.identifier is None or stored_object.seq_number != change.seq_number:
        return change  # a later change in the same batch sends or deletes the object
    new_change = make_object_change(
        kind, stored_object.identifier, change.partition_id, change.seq_number, stored_object.properties or ()
    )
    return replace(
        new_change,
        previous_seq_number=change.previous_seq_number,
        purged_seq_number=change.purged_seq_number,
    )
