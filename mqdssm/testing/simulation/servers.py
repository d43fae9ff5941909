"""A simulated directory server, with crashes and restarts.

The engine is a real one, and so is the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from mqdssm.drivers.replication.driver import Engine
from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Action, Event, Perform, Performed, Reply, Send, Started
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.engines.replication.settings import Settings
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition, PurgeState
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.memory_store.disk import DiskSpace
from mqdssm.testing.simulation.damage import Damage
from mqdssm.testing.simulation.failures import fail
from mqdssm.testing.simulation.options import PER_MILLE, ServerFaults
from mqdssm.testing.simulation.stores import SimulatedStore
from mqdssm.testing.simulation.trace import Violation, describe

if TYPE_CHECKING:
    from mqdssm.testing.simulation.world import World

EPOCH_S: Final = 1_700_000_000
"""Approximate time of all clocks when a run begins, in seconds since 1970."""
_REPEAT_MS_MAX: Final = 3_000  # after a store that could not be reached
_ROOM_MS: Final = 2000  # after a store whose disk is full
_START_TIMER: Final = Timer(TimerPurpose.START).name
_DRIFT: Final = 1_000_000  # a clock's rate is a whole number of millionths
TIMERS_MAX: Final = 400
"""Limit of timers of a server; none needs so many for neighbours, partitions and requests."""


CHANGING: Final = (ops.CreateObject, ops.UpdateObject, ops.DeleteObject, ops.ApplyChanges)
"""Operations that change objects."""
WRITING: Final = (
    *CHANGING,
    ops.Recover,
    ops.SavePartition,
    ops.SaveNeighbor,
    ops.RemovePartition,
    ops.RemoveNeighbor,
    ops.PurgeDeletedObjects,
    ops.MarkPartition,
    ops.SweepPartition,
)
"""Operations that write anything."""
FAILING: Final = (
    *CHANGING,
    ops.Recover,
    ops.ReadObject,
    ops.ListObjects,
    ops.HasObjects,
    ops.LookupChanges,
    ops.PurgeDeletedObjects,
    ops.MarkPartition,
    ops.SweepPartition,
)
"""Operations that may fail: those on objects."""
RESETTING: Final = (ops.MarkPartition, ops.SweepPartition, ops.RemovePartition)
"""Operations that are rare, and write much."""


_NO_ROOM: Final = ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL)
Given: TypeAlias = ops.CreateObject | ops.UpdateObject | ops.DeleteObject
"""Operations that assign a number."""


class SimulatedEngine(Engine, Protocol):
    """Interface of an engine.

    `mqdssm.engines.replication.engine.ReplicationEngine` has this interface, and so have mutants.
    """

    def step(self, event: Event, now: float) -> list[Action]:
        """Process an event, and return the actions to perform."""

    def read_next_number(self, partition_id: Guid) -> SequenceNumber:
        """Return the number that a service beside the engine may assign; MIN: none."""


@dataclass(slots=True)
class PlannedCrash:
    """Planned crash of a server.

    Attributes:
        actions: crash in the next step of the engine, after so many actions; None: no such crash.
        moments: crash in the next operation of some kinds, after so many moments, two for each write; None:
            no such crash.
        operations: these kinds.
    """

    actions: int | None = None
    moments: int | None = None
    operations: tuple[type, ...] = WRITING

    def must_cut_off(self, count: int) -> bool:
        """Return True if the crash is due behind so many actions of a step."""
        return self.actions is not None and count >= self.actions


class SimulatedServer:
    """Simulated directory server.

    Args:
        index: its number in the simulation.
        settings: who it is; the machine name may change between two lives.
        store: its directory.
        world: what it is in.
        rng: chance.

    Attributes:
        life: how often it has started.
        retired: it is gone for good.
        is_kept_down: the administrator starts it again, not the world.
        persisted: what its store holds of each partition.
        furthest: the highest LastSeqNumber of each partition that it has ever persisted.
        gone: objects whose deletion it has applied.
        neighbors: what its store holds of neighbours, by is_bsc and name.
        torn: by partition, the change that a crash or failure interrupted, until the partition is recovered.
        faults: what goes wrong with it now.
        damage: entries of its directory that cannot be read.
    """

    def __init__(
        self, index: int, settings: Settings, store: SimulatedStore, *, world: "World", rng: SeededRandom
    ) -> None:
        self.index = index
        self.settings = settings
        self.store = store
        self.life = 0
        self.retired = False
        self.is_kept_down = False
        self.persisted: dict[Guid, DirectoryPartition] = {}
        self.furthest: dict[Guid, int] = {}
        self.gone: set[Guid] = set()
        self.neighbors: dict[tuple[bool, str], DirectoryNeighbor] = {}
        self.torn: dict[Guid, Given] = {}
        self._world = world
        self._rng = rng
        self.faults = ServerFaults()
        self.damage = Damage()
        self._engine: SimulatedEngine | None = None
        self._timers: dict[str, int] = {}
        self._timer_count = 0
        self._planned_crash: PlannedCrash | None = None
        self._next: tuple[int, Operation] | None = None
        self._waits = False
        self._zero = 0.0
        self._rate = 1.0

    @property
    def name(self) -> str:
        """Current machine name."""
        return self.settings.machine_name

    @property
    def machine_id(self) -> Guid:
        """QueueManager.Identifier."""
        return self.settings.machine_id

    @property
    def engine(self) -> SimulatedEngine | None:
        """Engine of the running server; None if the server is down."""
        return self._engine

    @property
    def is_up(self) -> bool:
        """True if the server runs."""
        return self._engine is not None

    @property
    def is_starting(self) -> bool:
        """True if the engine's start failed and waits to be repeated."""
        return _START_TIMER in self._timers

    @property
    def is_idle(self) -> bool:
        """True if the server runs and its engine waits for no operation."""
        return self._engine is not None and not self._waits

    def owns(self, partition_id: Guid) -> bool:
        """Return True if the server's store says that it owns a partition."""
        saved = self.persisted.get(partition_id)
        return saved is not None and saved.owned

    @property
    def timers(self) -> int:
        """Number of running timers."""
        return len(self._timers)

    def is_whole(self, partition_id: Guid) -> bool:
        """Return True if the server has a partition as a whole.

        No full synchronization of the partition is under way.
        """
        saved = self.persisted.get(partition_id)
        return saved is not None and saved.purge_state is PurgeState.NORMAL

    def was_whole(self, partition_id: Guid) -> bool:
        """Return True if the server's copy of a partition was ever whole (R140)."""
        saved = self.persisted.get(partition_id)
        return saved is not None and not saved.is_new

    def reached(self, partition_id: Guid) -> int:
        """Return LastSeqNumber of a partition in the server's store; 0 without one."""
        saved = self.persisted.get(partition_id)
        return 0 if saved is None else int(saved.last)

    def calm(self) -> None:
        """End all faults; clocks stay as they are."""
        self.faults = ServerFaults()
        self.damage.clear()
        self.store.disk.room = DiskSpace.PLENTY
        self._planned_crash = None

    def start(self) -> None:
        """Start the server, for the first time or again."""
        self.life += 1
        self._set_clock()
        self.say(f"starts, life {self.life}")
        number = self._rng.draw_below(1 << 31)  # of its first request; half of the lives begin alike (R10)
        self._engine = self._world.make_engine(self.settings, number if number % 2 else self.life << 16)
        self.begin(self._engine)

    def begin(self, _engine: SimulatedEngine) -> None:
        """Start a new engine."""
        self.step(Started())

    def crash(self) -> None:
        """Stop at once; everything outside the store is lost."""
        self.say("crashes")
        self._world.crashed(self)
        self._engine = None
        self._timers.clear()
        self._planned_crash = None
        self._next = None
        self._waits = False
        self.life += 1

    def lose(self, store: SimulatedStore, torn: Mapping[Guid, Given] | None = None) -> None:
        """Replace the directory of the server, which is down.

        Args:
            store: the new directory.
            torn: changes that were interrupted when it was copied; only those count that still are.
        """
        self.say("loses its directory")
        self.store = store
        self.damage = Damage()
        self.persisted.clear()
        self.neighbors.clear()
        self.furthest.clear()
        self.gone.clear()
        copied = torn or {}
        self.torn = {key: cut for key, cut in self.torn.items() if copied.get(key) is cut}

    def rename(self, name: str) -> None:
        """Change the machine name, while the server is down."""
        self.say(f"is called {name} from now on")
        self.settings = replace(self.settings, machine_name=name)

    def write(self, operation: Operation) -> Result:
        """Perform an operation for a service beside the engine ([MC-MQDSRP] 3.1.7.1.3)."""
        stopped = self.damage.limit_operation(operation)[1]
        return stopped or self._perform_now(operation) or _NO_ROOM

    def crash_soon(self, planned_crash: PlannedCrash) -> None:
        """Plan a crash in the next step or operation."""
        self._planned_crash = planned_crash

    def set_room(self, room: DiskSpace) -> None:
        """Set the free space of the disk."""
        self.say(f"has a disk with {room.value}")
        self.store.disk.room = room

    def set_clock(self, seconds: float) -> None:
        """Set the clock forward or back by some seconds."""
        self.say(f"has its clock set by {seconds} s")
        self._zero += seconds

    def now(self) -> float:
        """Return the time of the server's clock, in seconds since 1970."""
        return self._zero + self._world.schedule.now * self._rate

    def step(self, event: Event) -> None:
        """Pass an event to the engine, and perform its actions."""
        while self._engine is not None:
            if self._world.trace is not None:
                self.say(f"< {describe(event)}")
            self._carry_out(self._engine.step(event, self.now()))
            if isinstance(event, Performed):
                self._waits = False
            if self._next is None:
                self.check_timers()
                return
            token, operation = self._next
            self._next = None
            result = self._perform(token, operation)
            self._waits = result is None and self._engine is not None
            if result is None:
                return
            event = result

    def check_timers(self) -> None:
        """Check that each full synchronization has a timer (decision R194).

        Raises:
            Violation: one has none, and would never end.
        """
        if self._waits or self._engine is None or _START_TIMER in self._timers:
            return
        normal = PurgeState.NORMAL
        for partition in self.persisted.values():
            if partition.purge_state is normal or partition.owned:
                continue
            if Timer(TimerPurpose.SYNC, str(partition.partition_id)).name not in self._timers:
                raise Violation(f"{self.name} has no timer for the full synchronization of {partition}")

    def _set_clock(self) -> None:
        skew = self.faults.skew_max_s * 1000
        drift = self.faults.drift_max * (_DRIFT // PER_MILLE)
        self._rate = 1 + self._rng.draw_between(-drift, drift) / _DRIFT
        self._zero = EPOCH_S + self._rng.draw_between(-skew, skew) / 1000

    def _carry_out(self, actions: list[Action]) -> None:
        planned_crash = self._planned_crash
        for count, action in enumerate(actions):
            if planned_crash is not None and planned_crash.must_cut_off(count):
                self.say(f"loses {len(actions) - count} actions")
                self.crash()
                return
            self._do(action)
            if self._engine is None:
                return

    def _do(self, action: Action) -> None:
        if isinstance(action, Perform):  # `match` takes twice as long
            if self._next is not None:
                raise Violation(f"{self.name} has two operations under way: {action.operation}")
            self._next = (action.token, action.operation)
        elif isinstance(action, Send):
            if self._world.trace is not None:
                self.say(f"> {action.destination} {describe(action.message)}")
            self._world.sent(self, action)
        elif isinstance(action, StartTimer):
            self._start_timer(action.name, action.after_s)
        elif isinstance(action, StopTimer):
            self._timers.pop(action.name, None)
        elif isinstance(action, Reply):
            self._world.replied(self, action)
        elif isinstance(action, Note):
            self._world.noted(self, action)

    def _start_timer(self, name: str, after_s: float) -> None:
        self._timer_count += 1
        mine = self._timer_count
        self._timers[name] = mine
        if len(self._timers) > TIMERS_MAX:
            raise Violation(f"{self.name} has {len(self._timers)} timers")

        def fire() -> None:
            if self._timers.get(name) == mine:
                del self._timers[name]
                self.step(TimerFired(name=name))

        self._world.schedule.after(after_s / self._rate, fire)

    def _perform(self, token: int, operation: Operation) -> Performed | None:
        """Perform an operation, with faults.

        Returns its result, or None if it comes later or not at all.
        """
        faults = self.faults
        if self._planned_crash is not None and self._crash_if_planned(operation):
            self.crash()
            return None
        if faults.flaky and self._is_lost(operation):
            self._perform_later(self._rng.draw_between(1, _REPEAT_MS_MAX), token, operation)
            return None
        if faults.failing and self._is_failing(operation):
            return Performed(token=token, result=self._fail(operation))
        if faults.slow and self._rng.draw_below(PER_MILLE) < faults.slow:
            self._perform_slowly(token, operation)
            return None
        result = self._perform_now(operation)
        if result is None:
            self._perform_later(_ROOM_MS, token, operation)
            return None
        return Performed(token=token, result=result)

    def _crash_if_planned(self, operation: Operation) -> bool:
        """Return True if a crash is planned in an operation, which is then done in part."""
        planned_crash = self._planned_crash
        if planned_crash is None or planned_crash.moments is None:
            return False
        if not isinstance(operation, planned_crash.operations):
            return False
        self.say(f"crashes in {describe(operation)}, behind {planned_crash.moments} half writes")
        self._world.torn(self, operation)
        self.store.perform_torn(operation, planned_crash.moments)
        return True

    def _is_lost(self, operation: Operation) -> bool:
        """Return True if an operation is lost.

        The store cannot be reached, or does the operation and its answer is lost.
        """
        if not self.faults.flaky or self._rng.draw_below(PER_MILLE) >= self.faults.flaky:
            return False
        if self._rng.draw_one_in(2):
            self._perform_now(operation)
        return True

    def _is_failing(self, operation: Operation) -> bool:
        """Return True if an operation is to fail."""
        chance = self.faults.failing
        return chance > 0 and isinstance(operation, FAILING) and self._rng.draw_below(PER_MILLE) < chance

    def _perform_later(self, milliseconds: int, token: int, operation: Operation) -> None:
        life = self.life

        def again() -> None:
            if self.life == life and self.is_up:
                result = self._perform(token, operation)
                if result is not None:
                    self.step(result)

        self._world.schedule.after(milliseconds / 1000, again)

    def _perform_slowly(self, token: int, operation: Operation) -> None:
        """Perform an operation after a delay, and return its result after another delay."""
        life = self.life
        limit = self.faults.slow_max_ms + 1
        before, behind = self._rng.draw_below(limit) / 2000, self._rng.draw_below(limit) / 2000

        def do() -> None:
            if self.life == life:
                result = self._perform_now(operation)
                if result is None:
                    self._perform_later(_ROOM_MS, token, operation)
                else:
                    self._world.schedule.after(behind, lambda: tell(result))

        def tell(result: Result) -> None:
            if self.life == life:
                self.step(Performed(token=token, result=result))

        self._world.schedule.after(before, do)

    def _fail(self, operation: Operation) -> Result:
        """Let an operation fail after all, a part or none of its work (R66, R83)."""
        result = fail(self.store, operation, self._rng, lambda: self._world.torn(self, operation))
        result = self.damage.add_doubt(operation, result)
        if self._world.trace is not None:
            self.say(f"! {describe(operation)} fails: {describe(result)}")
        if isinstance(result, ops.Applied | ops.Recovered):
            self._world.performed(self, operation, result)
        return self.damage.hide(operation, result, self.store)

    def _perform_now(self, operation: Operation) -> Result | None:
        """Perform and check an operation.

        None if the disk is full, and it has to be repeated.
        """
        possible, stopped = self.damage.limit_operation(operation)
        result = stopped
        if possible is not None:
            try:
                result = self.store.perform(possible)
            except DirectoryError:
                return None
            if isinstance(result, ops.Applied) and result.status == Hresult.MQ_OK:
                result = stopped or result
        if result is None:
            raise Violation(f"{self.name}: {operation} has no result")
        is_recovery = isinstance(operation, ops.Recover)
        if is_recovery and possible is not None:
            result = self.damage.add_doubt(operation, result)
        if self._world.trace is not None:
            self.say(f"! {describe(operation)} = {describe(result)}")
        if isinstance(result, ops.ObjectOutcome) and result.status == Hresult.MQ_ERROR_DS_IS_FULL:
            self._world.torn(self, operation)
        if not isinstance(result, ops.Failed):
            self._world.performed(self, operation, result)
        return self.damage.hide(operation, result, self.store) if is_recovery else result

    def say(self, text: str) -> None:
        """Write a line about the server to the trace."""
        if self._world.trace is not None:
            self._world.trace(f"{self.name}: {text}")
