"""What becomes of work that the directory made impossible (decision R83).

Somebody else may damage an entry. What needs that entry is given up, and tried again later; all else goes on.
What was given up is as after a crash ([MC-MQDSRP] has nothing on either): replicas go back to what is
persisted and ask again, and roles and neighbours are derived anew.
"""

from typing import Final

from mqdssm.engines.actions import TimerFired
from mqdssm.engines.replication import starting, succession, sync, topology
from mqdssm.engines.replication.actions import (
    ChangeObject,
    Event,
    PropagateChange,
    Received,
    Started,
    TakeOver,
)
from mqdssm.engines.replication.state import Job, Partition, Server
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import SyncRequestMessage

AGAIN_S: Final = 60.0
"""How long it takes until what was given up is tried again."""
START_TIMER: Final = "start"
AGAIN_TIMER: Final = "again"


def give_up(server: Server, event: Event, reason: str) -> None:
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
    elif isinstance(event, ChangeObject | PropagateChange | TakeOver):
        server.reply(event.request, Hresult.MQDS_NO_RSP_FROM_OWNER)  # made or not: nobody can tell (R61)
    if isinstance(event, Received) and isinstance(event.message, SyncRequestMessage):
        return  # that only reads
    for partition in server.partitions.values():
        _go_back(server, partition)
    server.start_timer(AGAIN_TIMER, AGAIN_S)


def _go_back(server: Server, partition: Partition) -> None:
    """Let a replica be what is persisted of it; what it lacks is asked for."""
    record = partition.record
    if record.owned or (partition.last == record.last and partition.is_normal):
        return
    partition.last = record.last
    partition.whole = False
    partition.pending.clear()
    sync.ask_later(server, partition)


def again(server: Server, _rest: str) -> Job[None]:
    """Do again what makes roles and neighbours follow from the objects."""
    yield from succession.settle(server)
    yield from topology.derive(server)
    yield from succession.claim(server)


def start_again(server: Server, _rest: str) -> Job[None]:
    """Start, after the first attempt was given up."""
    yield from starting.start(server, Started())
