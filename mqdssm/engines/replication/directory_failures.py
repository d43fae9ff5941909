"""Work that the directory made impossible, and what was cut short by that (decisions R83, R103).

Somebody else may damage an entry. What needs that entry is given up, and tried again later; all else goes on.
What was given up is as after a crash ([MC-MQDSRP] has nothing on either): replicas go back to what is
persisted and ask again, and roles and neighbours are derived anew. A partition of ours is recovered as at a
start, at once, where a change of it was given up that may have its number; until then it takes no other one.
"""

from typing import Final

from mqdssm.engines.actions import TimerFired
from mqdssm.engines.replication import propagation, requests, startup, succession, sync, topology
from mqdssm.engines.replication.actions import ClientEvent, Event, Received, Started
from mqdssm.engines.replication.state import AGAIN_TIMER, FINISH_S, Job, Partition, ReplicaState
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeRequestMessage,
    SyncReplyMessage,
    SyncRequestMessage,
)

AGAIN_S: Final = 60.0
"""How long it takes until what was given up is tried again."""
START_TIMER: Final = "start"


def give_up(server: ReplicaState, event: Event, reason: str) -> None:
    """End the work on an event in the middle.

    Args:
        server: who we are.
        event: what the work was about.
        reason: why it cannot be done.
    """
    server.note("given up: the directory is damaged", f"{type(event).__name__}: {reason}")
    if isinstance(event, Started):
        server.start_timer(START_TIMER, AGAIN_S)
        return
    if isinstance(event, TimerFired) and event.name != AGAIN_TIMER:
        server.start_timer(event.name, AGAIN_S)
    elif isinstance(event, ClientEvent):
        server.reply(event.request, Hresult.MQDS_NO_RSP_FROM_OWNER)  # made or not: nobody can tell (R61)
    message = event.message if isinstance(event, Received) else None
    if isinstance(message, SyncRequestMessage):
        return  # that only reads
    if isinstance(event, Received) and isinstance(message, ChangeRequestMessage):
        requests.conclude(server, message, Hresult.MQDS_NO_RSP_FROM_OWNER, event.sender)
    lost = isinstance(message, ChangePropagationMessage | SyncReplyMessage)
    for partition in server.partitions.values():
        _go_back(server, partition, lost=lost)
    server.start_timer(AGAIN_TIMER, FINISH_S if server.has_unfinished else AGAIN_S)


def _go_back(server: ReplicaState, partition: Partition, *, lost: bool) -> None:
    """Let a replica be what is persisted of it; what it lacks is asked for.

    Args:
        server: who we are.
        partition: which partition.
        lost: changes of it may be lost.
    """
    record = partition.record
    if record.owned or (partition.last == record.last and partition.is_normal and not lost):
        return
    partition.last = record.last
    partition.whole = False
    partition.pending.clear()
    sync.ask_later(server, partition)


def again(server: ReplicaState, _rest: str) -> Job[None]:
    """Finish what was cut short, and do again what makes roles and neighbours follow from the objects."""
    unfinished = [one for one in server.partitions.values() if one.unfinished]
    for partition in unfinished:
        yield from _finish(server, partition)
    yield from succession.settle(server)
    yield from topology.derive(server)
    yield from succession.claim(server)
    if unfinished:
        propagation.send_all(server)  # what was given up before neighbours were told of it


def _finish(server: ReplicaState, partition: Partition) -> Job[None]:
    """Recover a partition; it takes changes again when nothing of the last one is left to be done."""
    with partition.numbering():
        partition.unfinished = False
        yield from startup.recover(server, partition)
        yield from succession.settle_one(server, partition)


def start_again(server: ReplicaState, _rest: str) -> Job[None]:
    """Start, after the first attempt was given up."""
    yield from startup.start(server, Started())
