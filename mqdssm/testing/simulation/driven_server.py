"""A simulated server with the product's driver (decisions R146, R147).

The store thread and queue manager are also those of the product.

There are no threads: the simulation calls their functions in simulated time. The engine's actions go through
the driver; the server only checks them, and may crash between two actions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.drivers.replication.driver import ReplicationDriver
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.drivers.transport import REPLICATION, Inbox
from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication.actions import Action, Event, Perform, Performed, Reply, Send, Started
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.engines.replication.settings import Settings
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.errors import DirectoryNotConnected
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.memory_store.disk import Crash
from mqdssm.testing.simulation.options import PER_MILLE
from mqdssm.testing.simulation.queue_managers import QueueManagers
from mqdssm.testing.simulation.servers import (
    TIMERS_MAX,
    SimulatedEngine,
    SimulatedServer,
)
from mqdssm.testing.simulation.signing import POLICY
from mqdssm.testing.simulation.stores import SimulatedStore
from mqdssm.testing.simulation.trace import Violation, describe

if TYPE_CHECKING:
    from mqdssm.testing.simulation.world import World

_SOON_S: Final = 0.001


@dataclass(slots=True)
class _Machinery:
    """Parts of a server in one life.

    Attributes:
        host: the queue manager.
        inbox: its replication queue.
        store: the store's work.
        driver: the driver.
        is_working: an operation is under way.
        next_at: when the store may go on, in simulated seconds.
    """

    host: LocalQueueManager
    inbox: Inbox
    store: StoreThread
    driver: ReplicationDriver
    is_working: bool = False
    next_at: float = 0.0


class DrivenServer(SimulatedServer):
    """Server with the parts of the product; see `SimulatedServer`.

    Args:
        network: the queue managers.
    """

    def __init__(
        self,
        index: int,
        settings: Settings,
        store: SimulatedStore,
        *,
        world: "World",
        rng: SeededRandom,
        network: QueueManagers,
    ) -> None:
        super().__init__(index, settings, store, world=world, rng=rng)
        self._network = network
        self._machinery: _Machinery | None = None
        self._alarms: dict[str, float] = {}

    def begin(self, engine: SimulatedEngine) -> None:
        """Start the parts of a new life."""
        self._alarms.clear()
        host = self._network.connect(self, lambda: self._wake("host", 0.0, self._turn_host))
        store = StoreThread(self, self.name)
        driver = ReplicationDriver(
            _WatchedEngine(engine, self._watch_actions), store, host, policy=POLICY, clock=self.now
        )
        self._machinery = _Machinery(host, host.open(REPLICATION), store, driver)
        self._work(lambda: driver.take(Started()))

    def crash(self) -> None:
        """Stop at once; everything outside the store is lost."""
        machinery, self._machinery = self._machinery, None
        super().crash()
        if machinery is not None:
            self._network.disconnect(machinery.host)

    def set_clock(self, seconds: float) -> None:
        """Set the system's clock; the driver's clock keeps its time until the next start."""
        self.say(f"has its clock set by {seconds} s")

    def step(self, event: Event) -> None:
        """Pass an event of a client or service to the driver."""
        machinery = self._machinery
        if machinery is not None:
            self._work(lambda: machinery.driver.take(event))

    def send_false_message(self, action: Send) -> None:
        """Send a message that the engine did not send, for a hostile server."""
        machinery = self._machinery
        if machinery is not None:
            self._work(lambda: machinery.driver.perform(action))

    # -- what threads do in a process of its own

    def _work(self, first: Callable[[], object]) -> None:
        """Run a function and all work that follows from it; set a timer for later work."""
        machinery = self._machinery
        if machinery is None:
            return
        try:
            first()
            while self._work_once(machinery):
                pass
        except Crash:
            self.crash()
            return
        wait = machinery.driver.wait()
        if wait is not None:
            self._wake("timers", max(wait / self._rate, _SOON_S), lambda: self._work(_do_nothing))

    def _work_once(self, machinery: _Machinery) -> bool:
        """Let each part do one piece of work; return True if there was any."""
        received = machinery.driver.receive(machinery.inbox)
        stored = machinery.is_working and self._turn_store(machinery)
        return machinery.driver.turn(0.0) or received or stored

    def _turn_store(self, machinery: _Machinery) -> bool:
        now = self._world.schedule.now
        if now < machinery.next_at:
            return False
        wait = machinery.store.turn()
        machinery.is_working = wait is not None
        if wait is not None:
            self._store_later(machinery, wait)
        return wait is None

    def _store_later(self, machinery: _Machinery, seconds: float) -> None:
        machinery.next_at = self._world.schedule.now + seconds
        self._wake("store", seconds, lambda: self._work(_do_nothing))

    def _turn_host(self) -> None:
        machinery = self._machinery
        if machinery is not None:
            wait = machinery.host.turn()
            if wait is not None:
                self._wake("host", max(wait, _SOON_S), self._turn_host)
            self._work(_do_nothing)

    def _wake(self, part: str, seconds: float, action: Callable[[], None]) -> None:
        """Schedule a part's next turn in this life, unless an earlier turn is scheduled."""
        now, life = self._world.schedule.now, self.life
        due = now + seconds
        if now <= self._alarms.get(part, -1.0) <= due:
            return
        self._alarms[part] = due

        def go_on() -> None:
            if self.life == life and self._alarms.get(part) == due:
                del self._alarms[part]
                action()

        self._world.schedule.after(seconds, go_on)

    # -- checks of actions

    def _watch_actions(self, actions: list[Action], event: Event) -> Iterator[Action]:
        """Check the engine's actions on their way to the driver."""
        if isinstance(event, Performed):
            self._waits = False
        if isinstance(event, TimerFired):
            self._timers.pop(event.name, None)
        planned_crash = self._planned_crash
        for count, action in enumerate(actions):
            if planned_crash is not None and planned_crash.must_cut_off(count):
                self.say(f"loses {len(actions) - count} actions")
                raise Crash
            yield self._check_action(action)
        self.check_timers()

    def _check_action(self, action: Action) -> Action:
        """Check one action; return the action that the driver is to perform."""
        match action:
            case Perform():
                self._begin_operation()
            case Send():
                if self._world.trace is not None:
                    self.say(f"> {action.destination} {describe(action.message)}")
                return self._world.sent(self, action)
            case StartTimer(name=name):
                self._timers[name] = 0
                if len(self._timers) > TIMERS_MAX:
                    raise Violation(f"{self.name} has {len(self._timers)} timers")
            case StopTimer(name=name):
                self._timers.pop(name, None)
            case Reply():
                self._world.replied(self, action)
            case Note():
                self._world.noted(self, action)
        return action

    def _begin_operation(self) -> None:
        machinery, faults = self._machinery, self.faults
        if machinery is None:
            return
        if machinery.is_working:
            raise Violation(f"{self.name} has two operations under way")
        machinery.is_working = self._waits = True
        if faults.slow and self._rng.draw_below(PER_MILLE) < faults.slow:
            self._store_later(machinery, self._rng.draw_below(faults.slow_max_ms + 1) / 1000)

    def perform(self, operation: Operation) -> Result:
        """Perform an operation for the store thread, with faults.

        Raises:
            DirectoryNotConnected: the directory is unreachable, or has no space; the operation may be done.
            Crash: the machine stops in the middle.
        """
        if self._crash_if_planned(operation):
            raise Crash
        if self._is_lost(operation):
            raise DirectoryNotConnected("simulated")
        if self._is_failing(operation):
            return self._fail(operation)
        result = self._perform_now(operation)
        if result is None:
            raise DirectoryNotConnected("no room")
        return result


class _WatchedEngine:
    """Engine for the driver, whose actions are checked."""

    def __init__(
        self, engine: SimulatedEngine, watch: Callable[[list[Action], Event], Iterator[Action]]
    ) -> None:
        self._engine = engine
        self._watch = watch

    def step(self, event: Event, now: float) -> Iterator[Action]:
        """Process one event, and yield the actions."""
        return self._watch(self._engine.step(event, now), event)

    @property
    def messages_waiting(self) -> int:
        """Number of received messages that wait until the current work is done."""
        return self._engine.messages_waiting

    def report_status(self, now: float) -> ServerStatus:
        """Return the partitions and neighbours; `now` is in seconds since 1970."""
        return self._engine.report_status(now)


def _do_nothing() -> None:
    """Do nothing."""
