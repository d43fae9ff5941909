"""Simulated time, machines and their connections, and what has to be true."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final
from uuid import UUID

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.session import answer_ping
from mqdssm.engines.session.timers import SessionState
from mqdssm.model.guid import Guid
from mqdssm.model.packets import Ping
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.session_simulation.connections import SessionLink
from mqdssm.testing.session_simulation.endpoints import SessionEndpoint
from mqdssm.testing.session_simulation.machines import SimulatedMachine
from mqdssm.testing.session_simulation.messages import SimulatedMessage
from mqdssm.testing.session_simulation.options import MACHINES, PRIORITIES, SessionOptions
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.trace import Violation

RESTART_S: Final = 30.0
"""Longest time until a process that ended starts again."""
RECOVERY_S: Final = 200.0
"""Time after the faults until messages move: two Session Ack Wait Timers, the longest pause, and delays."""
MESSAGE_S: Final = 60.0
"""Longest time for one message, with a window of 1: there, on the disk, acknowledged."""
QUIET_S: Final = 2_000.0
"""Time in which idle sessions close, also those whose peers are gone."""
_UPTIME_S: Final = 1000.0
_FINE: Final = 1 << 20
_PING_LOST_PERCENT: Final = 20
_PING_REFUSED_PERCENT: Final = 10


class SessionWorld:
    """Machines, their connections, and simulated time.

    Args:
        seed: all chance follows from it.
        options: of the run.
        trace: writes a line of the trace, or None.

    Attributes:
        options: of the run.
        rng: all choices.
        trace: writes a line of the trace, or None.
        machines: all machines, by name.
        messages: all messages, by number.
        deliveries: how often each message has reached a queue on each disk, by number and disk.
        delivered: messages that have reached a queue.
        lost: messages that need not arrive: their processes or disks are gone.
        tokens: numbers of arrivals and of ping requests.
        counts: events, by name.
        steps: number of actions.
        are_links_down: True while no connection can be opened.
    """

    def __init__(
        self, seed: int, options: SessionOptions, trace: Callable[[str], None] | None = None
    ) -> None:
        self.options: Final = options
        self.rng: Final = SeededRandom("sessions", seed)
        self.trace: Final = trace
        self.machines: Final = {
            name: SimulatedMachine(self, name, Guid.of(UUID(int=number)))
            for number, name in enumerate(MACHINES[: options.machines], 1)
        }
        for machine in self.machines.values():
            machine.waiting.update({name: {} for name in self.machines if name != machine.name})
        self.messages: Final[list[SimulatedMessage]] = []
        self.deliveries: Final[Counter[tuple[int, int]]] = Counter()
        self.delivered: Final[set[int]] = set()
        self.lost: Final[set[int]] = set()
        self.tokens: Final = count(1)
        self.counts: Final[Counter[str]] = Counter()
        self.steps = 0
        self.are_links_down = False
        self._are_faults_over = False
        self._connections: Final[list[SessionLink]] = []
        self._accepted: Final[set[int]] = set()
        self._last_accepted: Final[dict[tuple[str, str, int], int]] = {}
        self._schedule: Final = Schedule()

    # --- time and chance

    @property
    def now(self) -> float:
        """Time in monotonic seconds."""
        return _UPTIME_S + self._schedule.now

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self._schedule.after(max(0.0, seconds), action)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self._schedule.run_until(self._schedule.now + seconds)

    def share(self) -> float:
        """Draw a number from 0 to 1."""
        return self.rng.draw_below(_FINE) / _FINE

    def percent(self, percent: int) -> bool:
        """Return True with a probability."""
        return self.rng.draw_below(100) < percent

    def delay(self) -> float:
        """Draw the delay of a packet."""
        return self.share() * self.options.delay_s

    def say(self, text: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:10.3f}  {text}")

    # --- what happens

    def send(self, source: str, destination: str, *, is_recoverable: bool) -> None:
        """Send a message from one machine to another."""
        machine = self.machines[source]
        message = SimulatedMessage(
            number=len(self.messages),
            source=source,
            source_id=machine.identifier,
            destination=destination,
            is_recoverable=is_recoverable,
            priority=self.rng.of(PRIORITIES),
        )
        self.messages.append(message)
        machine.queue(message)
        machine.pump(destination)

    def connect(self, endpoint: SessionEndpoint, number: int) -> None:
        """Connect an initiator to its neighbour, after some time."""

        def finish() -> None:
            target = self.machines[endpoint.neighbour]
            if endpoint.is_dead or endpoint.number != number:
                return
            if self.are_links_down or not target.is_running:
                endpoint.lose("unreachable", number)
            elif endpoint.session.state is SessionState.CONNECTING:
                self._join(endpoint, target, number)

        self.after(self.delay(), finish)

    def _join(self, endpoint: SessionEndpoint, target: SimulatedMachine, number: int) -> None:
        target.forget_closed()
        acceptor = target.acceptor(endpoint.machine.name)
        endpoint.connection = acceptor.connection = SessionLink(self, endpoint, acceptor)
        if self.options.are_counts_high:
            self._raise_counts(endpoint, acceptor)
        self._connections.append(endpoint.connection)
        acceptor.handle(do.Connected())
        endpoint.handle(do.Connected(connection=number))

    def _raise_counts(self, *endpoints: SessionEndpoint) -> None:
        """Begin a connection with counts before their wrap."""
        for sender, receiver in (endpoints, endpoints[::-1]):
            sent, received = sender.core.sent, receiver.core.received
            total, recoverable = (
                65_536 * self.rng.draw_between(1, 3) - self.rng.draw_between(0, 40) for _ in range(2)
            )
            sent.count = sent._acknowledged = received.count = total  # noqa: SLF001  no session does this
            sent.recoverable_count = received.recoverable_count = recoverable
            received._stored = received._reported = recoverable  # noqa: SLF001

    def ping(self, endpoint: SessionEndpoint, request: Ping) -> None:
        """Ask a machine whether it would accept a session.

        Request and answer may be lost.
        """
        target, is_lost = self.machines[endpoint.neighbour], self.percent(_PING_LOST_PERCENT)
        is_accepting = self._are_faults_over or not self.percent(_PING_REFUSED_PERCENT)

        def answer() -> None:
            if target.is_running and not self.are_links_down:
                response = answer_ping(request, target.identifier, is_accepting=is_accepting)
                endpoint.handle(do.PingReceived(ping=response))

        if self._are_faults_over or not is_lost:
            self.after(min(self.delay(), 0.4), answer)

    def cut_connection(self) -> None:
        """Cut one of the newest connections."""
        self._connections[:] = [connection for connection in self._connections if not connection.is_cut]
        if self._connections:
            self.counts["cuts"] += 1
            self._connections.pop(-self.rng.draw_between(1, min(4, len(self._connections)))).cut()

    def report_neighbour(self) -> None:
        """Report that a neighbour was heard, perhaps at another address."""
        initiators = [
            endpoint for machine in self.machines.values() for endpoint in machine.sessions.values()
        ]
        if initiators:
            self.rng.of(initiators).handle(do.NeighborHeard(is_elsewhere=self.rng.draw_one_in(2)))

    def close_session(self) -> None:
        """Have a driver close a session, as for a malformed packet."""
        if endpoints := self.endpoints():
            self.rng.of(endpoints).handle(do.CloseSession(detail="simulated"))

    def withdraw(self, source: str, destination: str) -> None:
        """Let the waiting express messages of one machine for another one expire."""
        machine = self.machines[source]
        if machine.is_running:
            machine.withdraw(destination)

    def crash(self, name: str) -> None:
        """Crash a machine's process, and start it again later."""
        self._end_process(name, SimulatedMachine.crash)

    def stop(self, name: str) -> None:
        """Stop a machine's process in order, and start it again later."""
        self._end_process(name, SimulatedMachine.stop)

    def lose_disk(self, name: str) -> None:
        """Let a machine lose its disk; it starts again later with an empty one."""
        self._end_process(name, SimulatedMachine.lose_disk)

    def _end_process(self, name: str, end: Callable[[SimulatedMachine], None]) -> None:
        machine = self.machines[name]
        if machine.is_running:
            self.say(f"{name}: {end.__name__}")
            end(machine)
            self.after(self.share() * RESTART_S, machine.restart)

    def lose(self, messages: Iterable[SimulatedMessage]) -> None:
        """Note that messages need not arrive."""
        self.lost.update(message.number for message in messages)

    def deliver(self, message: SimulatedMessage, disk: int) -> None:
        """Note that a message has reached its queue."""
        self.deliveries[message.number, disk] += 1
        self.delivered.add(message.number)

    # --- checks

    def check(self, is_true: bool, problem: str) -> None:
        """Report a broken promise.

        Raises:
            Violation: it is broken.
        """
        if not is_true:
            raise Violation(f"at {self.now:.3f} s: {problem}")

    def check_receipt(self, message: SimulatedMessage) -> None:
        """Check that an acknowledged message has arrived."""
        self.check(message.number in self.delivered, f"acknowledged, but not there: {message}")

    def check_order(self, message: SimulatedMessage) -> None:
        """Check that messages of one priority arrive in the order of sending."""
        if message.number in self._accepted:
            return
        self._accepted.add(message.number)
        if message.number in self.lost or self.options.has_shared_sessions:
            return
        queue = message.source, message.destination, message.priority
        last = self._last_accepted.get(queue, -1)
        self.check(last < message.number, f"behind message {last}: {message}")
        self._last_accepted[queue] = message.number

    def finish(self) -> None:
        """End all faults, and check what has to be true then.

        All messages arrive in time, once, and idle sessions close.

        Raises:
            Violation: a promise is broken.
        """
        self.are_links_down = False
        self._are_faults_over = True
        backlogs = [len(queue) for machine in self.machines.values() for queue in machine.waiting.values()]
        backlogs += [len(endpoint.under_way) for endpoint in self.endpoints()]
        self.run(RECOVERY_S + sum(backlogs) * MESSAGE_S)
        self._check_messages()
        self.run(QUIET_S)
        for machine in self.machines.values():
            machine.forget_closed()
            self.check(not machine.accepted, f"{machine.name} keeps sessions of peers that are gone")
            self.check(not machine.storing and not machine.arrivals, f"{machine.name} keeps messages")
        for endpoint in self.endpoints():
            state = endpoint.session.state
            self.check(
                state is SessionState.CLOSED, f"{endpoint.machine.name}, {endpoint.neighbour}: {state}"
            )
        self.check(not self._schedule.waiting, "timers run without a session")

    def _check_messages(self) -> None:
        for message in self.messages:
            receiver = self.machines[message.destination]
            arrivals = [self.deliveries[message.number, disk] for disk in range(1, receiver.disks + 1)]
            self.check(max(arrivals) <= 1, f"delivered {max(arrivals)} times: {message}")
            is_there = message.number in self.delivered or message.number in self.lost
            self.check(is_there, f"never delivered: {message}")
        for machine in self.machines.values():
            for neighbour, waiting in machine.waiting.items():
                self.check(not waiting, f"{machine.name} has {len(waiting)} messages for {neighbour}")
        for endpoint in self.endpoints():
            self.check(not endpoint.under_way, f"{endpoint.machine.name}: never acknowledged")

    def endpoints(self) -> list[SessionEndpoint]:
        """Return the sessions of all processes that run."""
        return [endpoint for machine in self.machines.values() for endpoint in machine.endpoints()]
