"""Synchronization, partial or full: replies to our requests, and the next steps.

[MC-MQDSRP] 3.3.7.5, 3.3.7.7, 3.3.7.10-11. `sync_requests` sends the requests.
"""

from mqdssm.engines.replication import changes, purging, succession, sync_requests, trust
from mqdssm.engines.replication.actions import Resynchronize
from mqdssm.engines.replication.internal_events import PartitionSwept, publish
from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.operations import Done, SweepPartition
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of
from mqdssm.engines.replication.succession import GAP
from mqdssm.engines.replication.trust import FULL_SYNC_TRIES
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import AlreadyPurgedMessage, CompleteSync0, SyncReplyMessage
from mqdssm.model.replication import PurgeState
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber


def on_timer(server: ReplicaState, key: str) -> Job[None]:
    """Repeat a request without a reply.

    First, a failed step of a full synchronization is done again (decision R83).
    """
    partition = server.partitions.get(Guid.parse(key))
    if partition is not None and not partition.record.owned:
        sync_requests.expire_request(server, partition)
        partition.tries += 1
        partition.hint = _choose_other_source(server, partition)
        yield from resume(server, partition)


def _choose_other_source(server: ReplicaState, partition: Partition) -> str:
    """Return the server to ask after a timeout (decisions R46, R71).

    At every second timeout, another trusted one is tried.
    """
    if trust.must_ask_first_source(partition):
        return partition.first_source
    sources = trust.list_other_sources(server, partition)
    if not sources or partition.tries % 2:
        return ""
    return sources[(partition.tries // 2 - 1) % len(sources)]


def resume(server: ReplicaState, partition: Partition) -> Job[None]:
    """Resume a full synchronization, and ask for missed changes (3.3.3)."""
    if partition.record.owned:
        return
    state = partition.record.purge_state
    if state is PurgeState.STARTSYNC0:
        yield from sync_requests.mark_objects(server, partition)
    elif state is PurgeState.COMPLETESYNC0:
        yield from _sweep(server, partition)
    elif state is PurgeState.SYNC0 and partition.last and not partition.first_source:
        # an older version did not persist it (decisions R203, R220)
        partition.change(first_source=server.find_usual_source(partition))
    if trust.must_ask_first_source(partition):
        partition.hint = partition.first_source
    sync_requests.send(server, partition)


def receive_reply(server: ReplicaState, message: SyncReplyMessage, sender: str) -> Job[None]:
    """Handle Sync Reply (3.3.7.5)."""
    partition = server.partitions[message.partition_id]
    if _is_full_sync_start(partition, message):
        yield from sync_requests.enter_full_sync(server, partition, sender, purged=message.purged_seq_number)
    state = partition.record.purge_state
    if (
        not partition.takes_replies
        or changes.is_stale(partition, message.purged_seq_number)
        or message.from_seq_number > partition.last
        or message.purged_seq_number > max(partition.last, partition.record.purged)  # decision R85
    ):
        server.note("dropped: a reply to an earlier question", f"{partition.id}, from {sender}")
        return
    if state is PurgeState.SYNC0 and message.from_seq_number == partition.asked_from:
        _record_first_source(partition, message, sender)
    before = partition.last
    partition_changes = tuple(
        change for change in message.directory_changes if change.partition_id == partition.id
    )
    if any(change.seq_number > before for change in partition_changes):
        partition.is_whole = False  # a reply may end before the authority's last number
    if not (yield from changes.handle(server, partition, partition_changes, flush=True)):
        return
    reached = _find_reached_number(message)
    behind = all(change.seq_number > reached for change in partition.pending)
    if reached > partition.last and behind:
        yield from server.save(partition, last=reached)
    if partition.last > before:
        partition.gap_at = partition.last
    if message.from_seq_number != partition.asked_from:
        if partition.last > before:
            sync_requests.send(server, partition)  # unless the answer to our last request is still to come
    elif state is PurgeState.SYNC0:
        yield from _follow_sync0_reply(server, partition, message, sender)
    else:
        yield from _ask_after_reply(server, partition, message, sender)


def _record_first_source(partition: Partition, message: SyncReplyMessage, sender: str) -> None:
    """Record the sender of the first part (decision R220).

    The name is persisted together with the number of that part.
    """
    if message.from_seq_number == MIN or not partition.first_source:
        partition.change(first_source=sender)
        partition.is_first_source_removed = False


def _is_full_sync_start(partition: Partition, message: SyncReplyMessage) -> bool:
    """Return True if a reply is the first one of a full synchronization to begin.

    A reply does not begin one if all that its sender had purged came here after all: our copy may be newer
    than the reply, which would bring deleted objects back (decision R207).
    """
    if message.purged_seq_number <= partition.last:
        return False
    purged = partition.purged_elsewhere
    is_first = message.complete_sync0 is not CompleteSync0.NONE and message.from_seq_number == MIN
    is_due = purged is not None and purged <= message.purged_seq_number
    return is_due and is_first and partition.takes_replies


def _ask_after_reply(
    server: ReplicaState, partition: Partition, message: SyncReplyMessage, sender: str
) -> Job[None]:
    """Ask until a reply has nothing new (decision R109).

    Changes that came in order meanwhile need no further request.

    A reply without new changes may be cut short, if its changes had come already: more may follow it.
    """
    asked_from = message.from_seq_number
    if _find_reached_number(message) <= asked_from and min(partition.gap_at, partition.last) <= asked_from:
        yield from _follow_empty_reply(server, partition, sender)
        return
    _ask_on(server, partition, asked_from)


def _ask_on(server: ReplicaState, partition: Partition, asked_from: SequenceNumber) -> None:
    """Ask for more after a reply.

    A reply that brought nothing, or has a gap, would come again: not at once (decision R81), and not at the
    cost of a request that the timer is to send to another server (decision R193).
    """
    if partition.last > asked_from:
        sync_requests.finish(server, partition)
        sync_requests.send(server, partition)
    else:
        sync_requests.end(partition)
        sync_requests.send_later(server, partition)


def _find_reached_number(message: SyncReplyMessage) -> SequenceNumber:
    """Return the number up to which a reply is complete (3.2.7.3).

    MAX stands for its last change.
    """
    if message.to_seq_number < MAX:
        return message.to_seq_number
    return max((change.seq_number for change in message.directory_changes), default=MIN)


def _follow_empty_reply(server: ReplicaState, partition: Partition, sender: str) -> Job[None]:
    """Handle a reply without news."""
    sync_requests.end(partition)
    partition.hint = ""
    yield from succession.handle_no_news(server, partition, sender)
    if key_of(sender) == key_of(server.choose_upstream(partition)):
        partition.tries = 0
    if partition.record.owned:
        return
    if partition.known_number > partition.last or not partition.is_whole:
        sync_requests.send_later(server, partition)
    elif not partition.is_asking:
        sync_requests.finish(server, partition)


def _may_lack_changes(partition: Partition, message: SyncReplyMessage, sender: str) -> bool:
    """Return True if the sender of a last reply may lack changes (R166).

    A source before the sender may have the changes.

    What these changes moved behind the sender's last number was sent by neither of them.
    """
    first_source, numbers = key_of(partition.first_source), partition.reporters
    is_unknown = key_of(sender) != first_source and first_source not in numbers
    return is_unknown or any(number > message.to_seq_number for _, number in numbers.values())


def _may_cross_gap(partition: Partition, message: SyncReplyMessage, sender: str) -> bool:
    """Return True if a reply may be of another history (decision R202).

    An owner that may lack changes of its predecessor, or of its own, goes on behind a gap of numbers.
    """
    start = message.from_seq_number
    end = min(
        (change.seq_number for change in message.directory_changes), default=_find_reached_number(message)
    )
    is_new = end > partition.known_before or key_of(sender) != key_of(partition.first_source)
    return start > MIN and end - start >= GAP // 2 and is_new


def _follow_sync0_reply(
    server: ReplicaState, partition: Partition, message: SyncReplyMessage, sender: str
) -> Job[None]:
    is_last = message.complete_sync0 is CompleteSync0.NOW
    if is_last and not partition.is_begun_anew:
        yield from trust.forget_removed_servers(server, [partition])
    if partition.is_first_source_removed and not partition.is_begun_anew:
        server.note("synchronizes in full", f"partition {partition.id}, whose first source was removed")
        yield from sync_requests.begin_full_sync(server, partition, "")
    elif _may_cross_gap(partition, message, sender):
        server.note("synchronizes in full", f"partition {partition.id}, whose owner left numbers out")
        partition.hint = sender
        yield from sync_requests.begin_full_sync(server, partition, sender)
    elif is_last and message.to_seq_number < partition.record.purged:
        partition.hint = ""  # the sender lacks it, too: the timer asks again
    elif is_last and not partition.is_begun_anew and _may_lack_changes(partition, message, sender):
        partition.hint = ""
        if partition.tries >= FULL_SYNC_TRIES and message.to_seq_number >= partition.last:  # else see R201
            partition.reporters.clear()
            # a source with less would bring back what is deleted already (decision R192)
            partition.hint = sender
            yield from sync_requests.begin_full_sync(server, partition, sender)
            partition.is_begun_anew = True
    elif is_last and message.to_seq_number >= partition.last:
        sync_requests.finish(server, partition)
        yield from server.save(partition, purge_state=PurgeState.COMPLETESYNC0)
        yield from _sweep(server, partition)
        sync_requests.send(server, partition)
    elif message.complete_sync0 is not CompleteSync0.NONE:
        _ask_on(server, partition, message.from_seq_number)


def receive_already_purged(server: ReplicaState, message: AlreadyPurgedMessage, sender: str) -> None:
    """Handle Already Purged (3.3.7.7).

    Missed changes are purged, so synchronize in full (3.3.7.10). Our copy stays as it is until the first
    reply comes: the source may be lost by then, and our copy be the best one (decision R191). A step of
    ours that failed is done before: its timer goes on (decision R194).
    """
    partition = server.partitions[message.partition_id]
    if not partition.takes_replies:
        return
    purged = message.purged_seq_number
    if purged <= max(partition.last, partition.record.purged, partition.purged_elsewhere or MIN):
        return
    server.note("synchronizes in full", f"partition {partition.id}, with {sender}")
    partition.purged_elsewhere = purged
    partition.is_whole = partition.is_settled = False
    sync_requests.end(partition)
    sync_requests.send(server, partition)


def resynchronize(server: ReplicaState, event: Resynchronize) -> Job[None]:
    """Synchronize a partition in full because the operator says so (decision R113)."""
    partition = server.partitions.get(event.partition_id)
    why_not = "there is no such partition"
    if partition is not None:
        why_not = yield from _find_refusal(server, partition)
    if partition is None or why_not:
        server.warn("refused to synchronize in full", f"partition {event.partition_id}: {why_not}")
        server.reply(event.request, Hresult.MQ_ERROR_ILLEGAL_OPERATION)
        return
    if partition.is_normal:  # else it is under way
        server.note("synchronizes in full", f"partition {partition.id}, as the operator says")
        partition.hint = ""
        yield from sync_requests.begin_full_sync(server, partition, server.choose_upstream(partition))
    server.reply(event.request, Hresult.MQ_OK)


def _find_refusal(server: ReplicaState, partition: Partition) -> Job[str]:
    """Return why a partition cannot be synchronized in full.

    The source would be another server. The text is empty if the partition can be synchronized.
    """
    if partition.record.owned:
        return "this server owns it, and what is in its directory counts"
    upstream = server.choose_upstream(partition)
    if not upstream or server.is_me(upstream):
        return "this server knows no other one to ask: name the authority first (NameAuthority)"
    if partition.is_doubted or (yield from succession.find_naming_object(server, partition)) is not None:
        return "nobody owns it, and this server is to: wait until it does"
    return ""


def _sweep(server: ReplicaState, partition: Partition) -> Job[None]:
    """Remove objects that were not sent again, and complete Sync0 State (3.3.7.11)."""
    yield from perform(SweepPartition(partition_id=partition.id), Done)
    yield from publish(server, PartitionSwept(partition=partition))
    yield from server.save(partition, purge_state=PurgeState.NORMAL, first_source="", had_before=MIN)
    partition.is_begun_anew = False
    partition.known_before = MIN
    yield from changes.check_pending(server, partition)
    purging.acknowledge(server, partition)
