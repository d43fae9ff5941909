"""Handling of work that a damaged entry made impossible.

See decisions R83 and R103.

Another program may damage an entry. Work that needs that entry is given up and retried later; all other work
continues. The state is then as after a crash ([MC-MQDSRP] covers neither): replicas go back to the persisted
state and ask again, and roles and neighbours are derived again. If the failed work was a change of our own
partition that may have its number, the partition is recovered at once, as at a start; until then it accepts
no other change.
"""

from typing import Final

from mqdssm.engines.actions import TimerFired
from mqdssm.engines.replication import (
    authority,
    propagation,
    requests,
    server_roles,
    startup,
    succession,
    sync_requests,
    topology,
)
from mqdssm.engines.replication.actions import ClientEvent, Event, Received, Started
from mqdssm.engines.replication.jobs import Job
from mqdssm.engines.replication.plain_words import describe_plainly
from mqdssm.engines.replication.state import FINISH_S, Partition, ReplicaState
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeRequestMessage,
    SyncReplyMessage,
    SyncRequestMessage,
)

AGAIN_S: Final = 60.0
"""Time after which work that was given up is retried."""


def give_up(server: ReplicaState, event: Event, reason: str) -> None:
    """Give up the work on an event before its end.

    Args:
        server: the state of this server.
        event: the event that was being handled.
        reason: the reason of the failure.
    """
    server.note("given up: the directory is damaged", f"{describe_plainly(event)}: {reason}")
    if isinstance(event, Started):
        server.start_timer(Timer(TimerPurpose.START), AGAIN_S)
        return
    again = Timer(TimerPurpose.AGAIN)
    if isinstance(event, TimerFired) and (timer := Timer.parse(event.name)) != again:
        server.start_timer(timer, AGAIN_S)
    elif isinstance(event, ClientEvent):
        server.reply(event.request, Hresult.MQDS_NO_RSP_FROM_OWNER)  # not known whether it was made (R61)
    message = event.message if isinstance(event, Received) else None
    if isinstance(message, SyncRequestMessage) and _has_only_read(server, message):
        return
    if isinstance(event, Received) and isinstance(message, ChangeRequestMessage):
        requests.answer_request(server, message, Hresult.MQDS_NO_RSP_FROM_OWNER, event.sender)
    lost = isinstance(message, ChangePropagationMessage | SyncReplyMessage)
    for partition in server.partitions.values():
        _reset_replica(server, partition, lost=lost)
    server.start_timer(again, FINISH_S if server.has_unfinished else AGAIN_S)


def _has_only_read(server: ReplicaState, message: SyncRequestMessage) -> bool:
    """Return True if a sync request left nothing to repeat.

    One from behind our last number may displace us, and begin a full synchronization (decision R205).
    """
    partition = server.partitions.get(message.partition_id)
    return partition is None or partition.is_normal


def _reset_replica(server: ReplicaState, partition: Partition, *, lost: bool) -> None:
    """Reset a replica to its persisted state; missing changes are asked for again.

    Args:
        server: the state of this server.
        partition: the partition.
        lost: True if changes of the partition may have been lost.
    """
    record = partition.record
    if record.owned or (partition.last == record.last and partition.is_normal and not lost):
        return
    partition.last = record.last
    partition.is_whole = False
    partition.pending.clear()
    sync_requests.send_later(server, partition)  # the timer of a request that is under way goes on (R193)


def on_again_timer(server: ReplicaState, _key: str) -> Job[None]:
    """Recover unfinished partitions.

    Roles and neighbours are derived from the objects again.
    """
    unfinished = [partition for partition in server.partitions.values() if partition.is_unfinished]
    for partition in unfinished:
        yield from _recover_unfinished(server, partition)
    yield from succession.complete_handovers(server)
    yield from topology.derive_neighbors(server)
    yield from server_roles.write_roles(server)
    if unfinished:
        propagation.send_to_all(server)  # neighbours were not notified of the work that was given up


def _recover_unfinished(server: ReplicaState, partition: Partition) -> Job[None]:
    """Recover a partition; it accepts changes again when its last change is complete."""
    with partition.guard_numbering():
        partition.is_unfinished = False
        yield from authority.recover_partition(server, partition)
        yield from succession.complete_handover(server, partition)


def on_start_timer(server: ReplicaState, _key: str) -> Job[None]:
    """Start the server after a failed start."""
    yield from startup.start(server, Started())
