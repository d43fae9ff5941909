"""Random sequences of operations against a naive model of a store; see `contract`.

The model is a dictionary and knows nothing of indexes, names or crashes: what it says of a partition, every
store has to say.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.tables.creation import DEFAULTS
from support.store.world import NOT_FOUND, OK, Harness, World, brief, guid, number

OBJECTS: Final = 3
NAMES: Final = (r"web\a", r"WEB\b", r"web\c")
CHANGES_MAX: Final = 10

Values: TypeAlias = dict[Propid, Any]


@dataclass
class Known:
    """The newest that a partition knows of an identifier; no values: it is deleted."""

    number: int
    values: Values | None


@dataclass
class Model:
    """A replica's partition of queues, naively."""

    known: dict[Guid, Known] = field(default_factory=dict)

    def number_of(self, identifier: Guid) -> int:
        return self.known[identifier].number if identifier in self.known else 0

    def alive(self) -> dict[Guid, Known]:
        return {identifier: one for identifier, one in self.known.items() if one.values is not None}

    def holder(self, path_name: str, before: int) -> Guid | None:
        """Who is meant by a name in a change with a number."""
        holders = [
            (one.number < before, one.number, identifier)
            for identifier, one in self.alive().items()
            if one.values and one.values[Propid.Q_PATHNAME].lower() == path_name.lower()
        ]
        return max(holders)[2] if holders else None

    def apply(self, change: DirectoryChange) -> Hresult:
        """Apply one change."""
        at = int(change.seq_number)
        identifier = change.guid_identifier
        if identifier is None and change.command != Command.CREATE:
            if any(one.number == at for one in self.known.values()):
                return OK
            identifier = self.holder(change.path_name or "", at)
            if identifier is None:
                return OK if change.command == Command.DELETE else NOT_FOUND
        given: Values = dict(change.properties)
        made = given.pop(Propid.Q_INSTANCE, None)
        if identifier is None:
            identifier = Guid(made)
        before = self.known.get(identifier)
        if self.number_of(identifier) >= at:
            return OK
        if change.command == Command.DELETE:
            self.known[identifier] = Known(at, None)
        elif change.command == Command.UPDATE:
            if before is None or before.values is None:
                return NOT_FOUND
            self.known[identifier] = Known(at, before.values | given)
        else:
            self.known[identifier] = Known(at, {**DEFAULTS[ObjectType.QUEUE], **given})
        return OK

    def purge(self, up_to: int) -> None:
        self.known = {
            identifier: one
            for identifier, one in self.known.items()
            if one.values is not None or not 0 < one.number <= up_to
        }

    def mark(self) -> None:
        for one in self.known.values():
            one.number = 0

    def sweep(self) -> None:
        self.known = {identifier: one for identifier, one in self.known.items() if one.number}


# -- what may happen -----------------------------------------------------------------------------------

_LABELS: Final = st.sampled_from(["x", "y", ""])
_WHICH: Final = st.integers(0, OBJECTS - 1)
_NAMES: Final = st.sampled_from(NAMES)
Draft: TypeAlias = tuple[Command, int | str, str, str | None]
"""Command, object or name, label, new name."""

DRAFTS: Final = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([Command.CREATE, Command.SYNC]), _WHICH, _LABELS, _NAMES),
        st.tuples(st.just(Command.UPDATE), _WHICH | _NAMES, _LABELS, st.none() | _NAMES),
        st.tuples(st.just(Command.DELETE), _WHICH | _NAMES, st.just(""), st.none()),
    ),
    min_size=4,
    max_size=CHANGES_MAX,
)
_APPLY: Final = st.tuples(st.just("apply"), st.lists(st.integers(0, CHANGES_MAX - 1), min_size=1, max_size=5))
STEPS: Final = st.lists(
    st.one_of(
        _APPLY,
        _APPLY,
        _APPLY,
        st.tuples(st.just("purge"), st.integers(0, CHANGES_MAX)),
        st.tuples(st.sampled_from(["mark", "sweep", "reopen"]), st.just(0)),
    ),
    min_size=3,
    max_size=10,
)
CRASHES: Final = st.lists(st.integers(0, 4 * CHANGES_MAX), max_size=6)


@st.composite
def numbered_drafts(draw: st.DrawFn) -> list[tuple[int, Draft]]:
    """Drafts, each with a number of its own, in any order."""
    drafts = draw(DRAFTS)
    numbers = draw(st.permutations(range(1, len(drafts) + 1)))
    return list(zip(numbers, drafts, strict=True))


def _change(world: World, ids: Sequence[Guid], at: int, draft: Draft) -> DirectoryChange:
    command, which, label, name = draft
    target = world.name(which) if isinstance(which, str) else ids[which]
    if command == Command.DELETE:
        return world.deletion(target, at)
    given: Properties = ((Propid.Q_LABEL, label),)
    if name is not None:
        given += ((Propid.Q_PATHNAME, world.name(name)),)
    if command == Command.CREATE:
        given += ((Propid.Q_INSTANCE, target),)
        target = world.name(name or "")
    return world.change(command, target, at, given)


# -- properties ----------------------------------------------------------------------------------------


def check_replica(harness: Harness, drafts: list[tuple[int, Draft]], steps: list[tuple[str, Any]]) -> None:
    """A replica is what the model is, whatever comes in whatever order, as often as it likes."""
    world, model = World(harness), Model()
    ids = sorted(guid() for _ in range(OBJECTS))
    changes = [_change(world, ids, at, draft) for at, draft in drafts]
    for step, argument in steps:
        if step == "apply":
            batch = [changes[one] for one in argument if one < len(changes)]
            assert world.apply(*batch) == _expected(model, batch)
        elif step == "purge":
            world.perform(ops.PurgeDeletedObjects(partition_id=world.site, up_to=number(argument)))
            model.purge(argument)
        elif step == "mark":
            world.perform(ops.MarkPartition(partition_id=world.site))
            model.mark()
        elif step == "sweep":
            world.perform(ops.SweepPartition(partition_id=world.site))
            model.sweep()
        else:
            harness.reopen()
            highest = max((one.number for one in model.known.values()), default=0)
            assert world.recover() == highest
        check_same(world, model, ids)


def _expected(model: Model, batch: list[DirectoryChange]) -> ops.Applied:
    for at, change in enumerate(batch):
        status = model.apply(change)
        if status != OK:
            return ops.Applied(count=at, status=status)
    return ops.Applied(count=len(batch), status=OK)


def check_same(world: World, model: Model, ids: Iterable[Guid]) -> None:
    """The store says of the partition what the model says."""
    known = sorted(
        (one.number, identifier, one.values) for identifier, one in model.known.items() if one.number
    )
    commands = [
        (Command.DELETE if values is None else Command.SYNC, at, identifier)
        for at, identifier, values in known
    ]
    changes = world.changes()
    assert brief(changes) == commands
    assert [dict(one.properties) for one in changes if one.command == Command.SYNC] == [
        values for _, _, values in known if values is not None
    ]
    alive = model.alive()
    assert world.perform(ops.HasObjects(partition_id=world.site)) == ops.Answer(yes=bool(alive))
    for identifier in ids:
        found = world.read(identifier)
        if identifier not in alive:
            assert found.status == NOT_FOUND
        else:
            assert dict(found.properties or ()) == alive[identifier].values
            assert found.seq_number == alive[identifier].number
    for name in NAMES:
        holder = model.holder(world.name(name), 2**64)
        assert world.read(world.name(name).swapcase()).identifier == holder


Plan: TypeAlias = list[tuple[str, int, int, str]]
"""What an authority is asked for: verb, object, name, label."""
PLANS: Final = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "create", "update", "rename", "delete"]),
        _WHICH,
        st.integers(0, len(NAMES) - 1),
        _LABELS,
    ),
    min_size=1,
    max_size=15,
)
SPLITS: Final = st.lists(st.tuples(st.integers(0, 15), st.integers(1, 6)), max_size=8)
"""Where a batch begins in the log, and how many changes it has."""


def run_authority(world: World, plan: Plan) -> tuple[Model, list[Guid], list[DirectoryChange]]:
    """Let the authority of the world's partition do as it is asked, and check each answer.

    Returns:
        What is there in the end, the identifiers, and what was propagated, change by change.
    """
    model, log = Model(), []
    ids = sorted(guid() for _ in range(OBJECTS))
    world.apply(world.sync(machine := guid(), 1, world.machine(machine)))
    world.last = 1
    for verb, which, name, label in plan:
        identifier, path_name = ids[which], world.name(NAMES[name])
        holder, there = model.holder(path_name, 2**64), identifier in model.alive()
        given: Properties = ((Propid.Q_LABEL, label),)
        if verb == "create":
            given += ((Propid.Q_INSTANCE, identifier), (Propid.Q_PATHNAME, path_name))
            outcome = world.create(given)
            expected = Hresult.MQ_ERROR_QUEUE_EXISTS if there or holder else OK
        elif verb == "delete":
            outcome, expected = world.delete(identifier), OK if there else NOT_FOUND
        else:
            given += ((Propid.Q_PATHNAME, path_name),) if verb == "rename" else ()
            outcome, expected = world.update(identifier, given), OK if there else NOT_FOUND
            if verb == "rename" and there and holder not in {None, identifier}:
                expected = Hresult.MQ_ERROR_QUEUE_EXISTS
        assert outcome == ops.ObjectOutcome(
            status=expected, identifier=identifier if expected == OK else None
        )
        if expected == OK:
            (change,) = world.changes(after=world.last - 1)
            log.append(change)
            assert model.apply(change) == OK
        else:
            world.last -= 1
    return model, ids, log


def check_propagation(harness: Harness, plan: Plan, splits: list[tuple[int, int]], points: list[int]) -> None:
    """What an authority propagates makes the same partition, in any batches, with crashes anywhere.

    The replica is another partition of the same store: names and GUIDs of one are nothing to the other.
    """
    world, replica = World(harness), World(harness)
    model, ids, log = run_authority(world, plan)
    replica.prefix = world.prefix
    check_same_log(world, log)
    log = [
        replica.change(one.command, one.guid_identifier or "", int(one.seq_number), one.properties)
        for one in log
    ]
    batches = [log[first : first + size] for first, size in splits]
    for at, batch in enumerate([*batches, log]):
        operation = ops.ApplyChanges(partition_id=replica.site, changes=batch)
        if at < len(points):
            crash(replica, operation, points[at])
        assert replica.perform(operation) == ops.Applied(count=len(batch), status=OK)
    found = [(one.command, one.seq_number, one.guid_identifier, one.properties) for one in replica.changes()]
    assert found == [
        (one.command, one.seq_number, one.guid_identifier, one.properties) for one in world.changes(after=1)
    ]
    world.site = replica.site
    assert {identifier for identifier in ids if replica.read(identifier).status == OK} == set(model.alive())


def check_same_log(world: World, log: list[DirectoryChange]) -> None:
    """The newest change of each object in the log is what a synchronization carries."""
    newest = {one.guid_identifier: one for one in log}
    assert world.changes(after=1) == tuple(sorted(newest.values(), key=lambda one: one.seq_number))


def crash(world: World, operation: ops.Operation, point: int) -> None:
    """Cut an operation short, if it has so many points; open the store again, and recover."""
    harness = world.harness
    harness.arm(point)
    try:
        world.perform(operation)
    except harness.crashes:
        harness.disarm()
        harness.reopen()
        world.recover()
    harness.disarm()
