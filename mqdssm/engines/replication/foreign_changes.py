"""Changes that other programs write beside this server (decision R112).

Such a change has no number, so that no other server receives it. In a partition of ours it gets a number and
is propagated like a client's change; in other partitions the operator is warned. A timer starts the store's
search for these changes.
"""

from collections import deque
from typing import Final

from mqdssm.engines.replication import authority
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.jobs import Job, perform, read_object
from mqdssm.engines.replication.properties import with_identifier
from mqdssm.engines.replication.state import ForeignLook, Partition, ReplicaState
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid

FOUND_MAX: Final = 1000
"""Number of changes that one search returns."""
PUBLISHED_AT_ONCE: Final = 100
"""Number of changes that are published in a row, before other work."""
GO_ON_S: Final = 1.0
"""Pause before the remaining changes, in seconds."""
COST_FACTOR: Final = 5
"""The pause after a search is at least this many times its duration, so that other work is done."""
PAUSE_S_MAX: Final = 600.0
"""Longest pause, even if a search seems to have taken long: the clock may have been changed."""
REPORTED_MAX: Final = 10_000
"""Number of unpublished changes whose version is remembered, so that each is reported once."""

GIVEN_UP_MAX: Final = 10_000
"""Number of changes whose work was given up and that are remembered, so that they wait for all others."""


def start(server: ReplicaState) -> None:
    """Start the timer of the first search.

    The search also finds changes from before the start.
    """
    if server.settings.foreign_s > 0:
        server.start_timer(Timer(TimerPurpose.FOREIGN), server.settings.foreign_s)


def on_timer(server: ReplicaState, _key: str) -> Job[None]:
    """Look for changes of other programs.

    Changes in our partitions are published, others are reported.
    """
    look, wait_s, pause_s = server.foreign, server.settings.foreign_s, 0.0
    if look.handling:  # that work was given up
        _put_off(look)
    if not look.waiting:
        if not look.after:
            look.newest = look.seen if look.must_repeat else look.newest
            look.seen, look.must_repeat = look.newest, False
        began = server.now
        operation = ops.FindForeign(after=look.after, count_max=FOUND_MAX, seen=look.seen)
        search_result = yield from perform(operation, ops.ForeignFound)
        pause_s = min(COST_FACTOR * (server.now - began), PAUSE_S_MAX)
        look.after = search_result.reached
        look.newest = search_result.newest or look.newest  # lower if the directory's clock was set back
        turns = {name: turn for turn, name in enumerate(look.given_up, 1)}
        new_objects = [item for item in search_result.objects if look.reported.get(item.name) != item.version]
        look.waiting.extend(sorted(new_objects, key=lambda item: turns.get(item.name, 0)))
    for _ in range(min(PUBLISHED_AT_ONCE, len(look.waiting))):
        foreign_object = look.waiting.popleft()
        look.handling = foreign_object.name
        is_handled = yield from _publish_or_report(server, foreign_object)
        look.handling = ""
        look.given_up.pop(foreign_object.name, None)
        if not is_handled:
            look.waiting.append(foreign_object)
            break  # our partition cannot be changed now
    else:
        if look.waiting or look.after:
            wait_s = GO_ON_S
    server.start_timer(Timer(TimerPurpose.FOREIGN), max(wait_s, pause_s))


def _put_off(look: ForeignLook) -> None:
    """Put off a change whose work was given up (decision R165).

    The next search finds it again.

    So are the other changes of that kind: each costs a pause, and no search begins while changes wait. They
    come behind all others, and take turns: the one that was given up last comes last.
    """
    look.given_up.pop(look.handling, None)
    look.given_up[look.handling] = None
    if len(look.given_up) > GIVEN_UP_MAX:
        del look.given_up[next(iter(look.given_up))]
    look.handling, look.must_repeat = "", True
    look.waiting = deque(item for item in look.waiting if item.name not in look.given_up)


def _publish_or_report(server: ReplicaState, foreign_object: ops.ForeignObject) -> Job[bool]:
    """Publish a change, or report it.

    Returns:
        False if it has to be tried again later.
    """
    partition = (
        None if foreign_object.partition_id is None else server.partitions.get(foreign_object.partition_id)
    )
    if partition is None or not partition.record.owned:
        summary = "another program made an object that has no number"
        if foreign_object.seq_number is not None:
            summary = "another program changed a replica"
        _report(server, partition, foreign_object, summary)
        return True
    request = yield from _read_change(partition, foreign_object)
    if request is None:
        return True
    outcome = yield from authority.execute(server, partition, request)
    if outcome.status == Hresult.MQ_OK:
        server.note("published a change of another program", _describe(foreign_object))
    elif outcome.identifier is None and outcome.status in authority.TEMPORARY_STATUSES:
        return False
    elif outcome.identifier is None:
        summary = "a change of another program cannot be published"
        _report(server, partition, foreign_object, summary, f": status {outcome.status:#010x}")
    return True


def _read_change(partition: Partition, foreign_object: ops.ForeignObject) -> Job[ChangeRequest | None]:
    """Return the change that another program made; None: nothing to publish.

    The object is gone, or has got a number meanwhile: another change has published it (R200).
    """
    read = yield from read_object(
        foreign_object.object_type, identifier=foreign_object.identifier, partition_id=partition.id
    )
    if foreign_object.seq_number is None:
        if read.seq_number is not None:
            return None
        return ChangeRequest(
            command=Command.CREATE,
            object_type=foreign_object.object_type,
            properties=with_identifier(
                foreign_object.object_type, foreign_object.identifier, foreign_object.properties
            ),
        )
    if read.status != Hresult.MQ_OK or read.seq_number != foreign_object.seq_number:
        return None
    return ChangeRequest(
        command=Command.UPDATE,
        object_type=foreign_object.object_type,
        identifier=foreign_object.identifier,
        # its current values: the rules for changes check all of them; a site's PSC is the one that the server
        # knows, since the object may name the one before a handover (R181)
        properties=tuple(
            pair
            for pair in read.properties or ()
            if foreign_object.object_type is not ObjectType.SITE or pair[0] is not Propid.S_PSC
        ),
    )


def _report(
    server: ReplicaState,
    partition: Partition | None,
    foreign_object: ops.ForeignObject,
    summary: str,
    why: str = "",
) -> None:
    """Warn the operator of a change that gets no number, once for each version."""
    reported = server.foreign.reported
    reported[foreign_object.name] = foreign_object.version
    reported.move_to_end(foreign_object.name)
    if len(reported) > REPORTED_MAX:
        reported.popitem(last=False)
    if partition is not None:
        partition.foreign.add(foreign_object.identifier)
    server.warn(summary, _describe(foreign_object) + why)


def _describe(foreign_object: ops.ForeignObject) -> str:
    return f"{foreign_object.object_type.spec_name} {foreign_object.identifier}, {foreign_object.name}"
