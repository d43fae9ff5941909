"""Changes of other programs, which write into the directory beside us (decision R112).

Such a change has no number, so that no other server hears of it. Where the partition is ours it gets one, and
is propagated as a client's change is; where it is not, people are told. The store finds these changes when a
timer asks it.
"""

from typing import Final

from mqdssm.engines.replication import authority
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.operations import (
    FindForeign,
    ForeignFound,
    ForeignObject,
    ObjectRead,
    ReadObject,
)
from mqdssm.engines.replication.properties import with_identifier
from mqdssm.engines.replication.state import Job, Partition, ReplicaState, perform
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command

TIMER: Final = "foreign"
"""Name of the timer that looks for changes of other programs."""
FOUND_MAX: Final = 1000
"""Changes that one search gives."""
PUBLISHED_AT_ONCE: Final = 100
"""Changes that get a number before other work has its turn."""
GO_ON_S: Final = 1.0
"""How long the rest of many changes waits."""
COST_FACTOR: Final = 5
"""A search is followed by a pause that is at least so many times as long: other work has its turn."""
PAUSE_S_MAX: Final = 600.0
"""The longest pause, however long a search seems to have taken: a clock may have been set meanwhile."""
TOLD_MAX: Final = 10_000
"""Changes without a number whose version is remembered, so that they are told once."""


def start(server: ReplicaState) -> None:
    """Look for the first time in a while: what was changed while we were not there is found, too."""
    if server.settings.foreign_s > 0:
        server.start_timer(TIMER, server.settings.foreign_s)


def timer(server: ReplicaState, _rest: str) -> Job[None]:
    """Look for changes of other programs; those of our partitions get numbers, others are told."""
    look, wait_s, pause_s = server.foreign, server.settings.foreign_s, 0.0
    if not look.waiting:
        began = server.now
        operation = FindForeign(after=look.after, count_max=FOUND_MAX, seen=look.seen)
        found = yield from perform(operation, ForeignFound)
        pause_s = min(COST_FACTOR * (server.now - began), PAUSE_S_MAX)
        look.after = found.reached
        look.seen = found.newest or look.seen  # lower, where the directory's clock was set back
        look.waiting.extend(one for one in found.objects if look.told.get(one.name) != one.version)
    for _ in range(min(PUBLISHED_AT_ONCE, len(look.waiting))):
        one = look.waiting.popleft()
        if not (yield from _see_to(server, one)):
            look.waiting.append(one)
            break  # our partition cannot be changed now
    else:
        if look.waiting or look.after:
            wait_s = GO_ON_S
    server.start_timer(TIMER, max(wait_s, pause_s))


def _see_to(server: ReplicaState, found: ForeignObject) -> Job[bool]:
    """Publish a change, or tell it.

    Returns:
        False: it has to be tried again later.
    """
    partition = None if found.partition_id is None else server.partitions.get(found.partition_id)
    if partition is None or not partition.record.owned:
        what = "another program made an object that has no number"
        if found.seq_number is not None:
            what = "another program changed a replica"
        _tell(server, partition, found, what)
        return True
    wanted = yield from _wanted(partition, found)
    if wanted is None:
        return True
    outcome = yield from authority.execute(server, partition, wanted)
    if outcome.status == Hresult.MQ_OK:
        server.note("published a change of another program", _name(found))
    elif outcome.identifier is None and outcome.status in authority.PASSING:
        return False
    elif outcome.identifier is None:
        what = "a change of another program cannot be published"
        _tell(server, partition, found, what, f": status {outcome.status:#010x}")
    return True


def _wanted(partition: Partition, found: ForeignObject) -> Job[ChangeRequest | None]:
    """Return the change that another program has made; None: the object has gone again."""
    if found.seq_number is None:
        return ChangeRequest(
            command=Command.CREATE,
            object_type=found.object_type,
            properties=with_identifier(found.object_type, found.identifier, found.properties),
        )
    operation = ReadObject(
        object_type=found.object_type, identifier=found.identifier, partition_id=partition.id
    )
    read = yield from perform(operation, ObjectRead)
    if read.status != Hresult.MQ_OK:
        return None
    return ChangeRequest(
        command=Command.UPDATE,
        object_type=found.object_type,
        identifier=found.identifier,
        properties=read.properties or (),  # what it has already: the rules of changes see all of it
    )


def _tell(
    server: ReplicaState, partition: Partition | None, found: ForeignObject, what: str, why: str = ""
) -> None:
    """Tell people of a change that gets no number; once each version."""
    told = server.foreign.told
    told[found.name] = found.version
    told.move_to_end(found.name)
    if len(told) > TOLD_MAX:
        told.popitem(last=False)
    if partition is not None:
        partition.foreign.add(found.identifier)
    server.warn(what, _name(found) + why)


def _name(found: ForeignObject) -> str:
    return f"{found.object_type.spec_name} {found.identifier}, {found.name}"
