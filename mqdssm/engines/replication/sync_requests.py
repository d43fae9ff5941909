"""Our synchronization requests, and the begin of a full synchronization.

See [MC-MQDSRP] 3.3.7.3 and 3.3.7.10.

A request always asks for all changes behind our LastSeqNumber (decision R32), and is repeated until no more
come. Each step of a full synchronization is persisted before the next, and resumed at start (decision R14).
"""

from functools import lru_cache
from typing import Any

from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.operations import Done, MarkPartition
from mqdssm.engines.replication.state import Partition, ReplicaState
from mqdssm.engines.replication.timers import TIMERS_CACHED, Timer, TimerPurpose
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Scope, SyncRequestMessage
from mqdssm.model.replication import PurgeState
from mqdssm.model.seqnum import MAX, MIN


def timer_of(partition: Partition) -> Timer:
    """Return the timer that repeats a request."""
    return _timer_of(partition.id)


@lru_cache(maxsize=TIMERS_CACHED)
def _timer_of(partition_id: Guid) -> Timer:
    return Timer(TimerPurpose.SYNC, str(partition_id))


def send(server: ReplicaState, partition: Partition) -> None:
    """Send Sync Request (3.3.7.3), unless one is under way."""
    record = partition.record
    if partition.is_asking or record.owned or not partition.takes_replies:
        return
    if partition.purged_elsewhere is not None and partition.last >= partition.purged_elsewhere:
        partition.purged_elsewhere = None  # the missed changes came after all
    purged = partition.purged_elsewhere
    partition.is_asking = True
    partition.asked_from = partition.last if purged is None else MIN
    _start_timer(server, partition)
    upstream = server.choose_upstream(partition)
    if not upstream or server.is_me(upstream):
        return  # until it is known which server to ask
    message = SyncRequestMessage(
        site_id=server.settings.site_id,
        partition_id=partition.id,
        from_seq_number=partition.asked_from,
        to_seq_number=MAX,
        known_purged_seq_number=record.purged if purged is None else purged,
        is_sync0=record.purge_state is PurgeState.SYNC0 or purged is not None,
        scope=Scope.SITE if server.is_bsc else Scope.ENTERPRISE,
        requester_name=server.name,
    )
    server.send(upstream, message, acks=True)


def repeat(server: ReplicaState, partition: Partition) -> None:
    """Send the request that is under way once more.

    The server that was asked was silent, and is back (decision R184).
    """
    if partition.is_asking:
        partition.is_asking = False
        send(server, partition)


def send_if_needed(server: ReplicaState, partition: Partition) -> None:
    """Send a request if the work that was just done needs it."""
    if partition.must_ask:
        partition.must_ask = False
        send(server, partition)


def send_later(server: ReplicaState, partition: Partition) -> None:
    """Send a request when the timer runs out."""
    partition.is_asking = True
    _start_timer(server, partition)


def _start_timer(server: ReplicaState, partition: Partition) -> None:
    server.start_timer(timer_of(partition), _wait_s(server, partition))


def _wait_s(server: ReplicaState, partition: Partition) -> float:
    """Return how long the request under way waits for its reply."""
    return max(partition.wait_s, server.settings.sync_wait_s)


def expire_request(server: ReplicaState, partition: Partition) -> None:
    """End the request that is under way: it has no reply. The next one waits longer."""
    partition.is_asking = False
    partition.wait_s = min(2 * _wait_s(server, partition), server.settings.sync_wait_max_s)


def end(partition: Partition) -> None:
    """End the request that is under way: it has a reply. Its timer goes on."""
    partition.is_asking = False
    partition.asked_from = None
    partition.wait_s = 0.0


def finish(server: ReplicaState, partition: Partition) -> None:
    """End the request that is under way, and stop its timer."""
    end(partition)
    server.stop_timer(timer_of(partition))


def begin_full_sync(server: ReplicaState, partition: Partition, source: str, **changes: Any) -> Job[None]:
    """Begin a full synchronization, and ask for its first part.

    The arguments are those of `enter_full_sync`.
    """
    yield from enter_full_sync(server, partition, source, **changes)
    finish(server, partition)
    send(server, partition)


def enter_full_sync(server: ReplicaState, partition: Partition, source: str, **changes: Any) -> Job[None]:
    """Enter Sync0 State (3.3.7.10).

    Objects that no reply contains are removed in the end.

    Args:
        server: the state of this server.
        partition: the partition.
        source: name of the server that is to send it; empty: any one.
        changes: fields of its persisted part to set together with its state.
    """
    partition.pending.clear()
    partition.foreign.clear()
    partition.is_whole = partition.is_settled = False
    purged = partition.purged_elsewhere or MIN
    partition.known_before = max(partition.known_before, partition.known_number, partition.last, purged)
    partition.known_number = MIN
    partition.is_first_source_removed = False
    partition.is_begun_anew = False
    partition.purged_elsewhere = None
    partition.tries = 0
    partition.acked_at = partition.purged_at = MIN
    yield from server.save(
        partition,
        purge_state=PurgeState.STARTSYNC0,
        first_source=source,
        had_before=max(partition.had_before, partition.last),
        last=MIN,
        **changes,
    )
    yield from mark_objects(server, partition)


def mark_objects(server: ReplicaState, partition: Partition) -> Job[None]:
    """Number all objects MIN, and enter Sync0 State (3.3.7.10)."""
    yield from perform(MarkPartition(partition_id=partition.id), Done)
    yield from server.save(partition, purge_state=PurgeState.SYNC0)
