"""Queue managers that exchange messages over sessions, in simulated time and from a seed.

The engine is the one that ships; its driver, the network and the disks are simulated. Connections are lost,
cut inside a packet, delayed, and noticed by one end only; processes crash, and disks are slow. After each
action the world checks that no message is given up that its receiver does not have.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from random import Random
from typing import Any, Final
from uuid import UUID

from mqdssm.engines.actions import StartTimer, StopTimer, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.session import MessageSession
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.engines.session.timers import SessionState
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packets import SessionHeader

RESTART_S: Final = 30.0
"""Longest time until a process that crashed starts again."""
NOTICED_SHARE: Final = 0.7
"""Share of the ends that notice a cut; the others find out by their timers."""
RECOVERY_S: Final = 200.0
"""Time after the faults until messages move: two Session Ack Wait Timers, the longest pause, and delays."""
MESSAGE_S: Final = 60.0
"""Longest time for one message, with a window of 1: there, on the disk, acknowledged."""
QUIET_S: Final = 2_000.0
"""Time in which idle sessions close, also those whose peers are gone."""


class SessionViolationError(AssertionError):
    """The sessions broke a promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMessage:
    """A message; its number is also its identifier."""

    number: int
    source: str
    destination: str
    is_recoverable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Options of a run. Times are in seconds.

    Attributes:
        window_sizes: smallest and largest WindowSize.
        delay_s: longest delay of a packet.
        store_s: longest time until a message is on disk.
        are_counts_high: counts begin shortly before 65,536.
        has_shared_sessions: messages leave also on sessions that the neighbour has opened.
        are_names_direct: neighbours have direct format names.
    """

    window_sizes: tuple[int, int] = (1, 64)
    delay_s: float = 2.0
    store_s: float = 3.0
    are_counts_high: bool = False
    has_shared_sessions: bool = False
    are_names_direct: bool = True

    @classmethod
    def of_seed(cls, seed: int) -> "SimulationOptions":
        """Draw the options of a seed."""
        chance = Random(seed)
        largest = chance.choice((1, 2, 5, 64, 64))
        return cls(
            window_sizes=(1, largest),
            delay_s=chance.choice((0.01, 0.5, 5.0)),
            store_s=chance.choice((0.0, 0.5, 20.0)),
            are_counts_high=chance.random() < 0.5,
            has_shared_sessions=chance.random() < 0.5,
            are_names_direct=chance.random() < 0.7,
        )


class SimulatedConnection:
    """A transport connection: two directions, each in order, whose ends are drivers."""

    def __init__(self, world: "SessionWorld", ends: "tuple[SessionDriver, SessionDriver]") -> None:
        self._world = world
        self._ends: Final = ends
        self._numbers: Final = [driver.number for driver in ends]
        self._are_attached: Final = [True, True]
        self._arrivals = [world.now, world.now]  # the last one of each direction
        self._is_cut = False

    def send(self, driver: "SessionDriver", deliver: "Callable[[SessionDriver, int], None]") -> None:
        """Bring something to the other end, after all that was sent before."""
        if self._is_cut:
            return
        direction = self._ends.index(driver)
        self._arrivals[direction] = max(self._arrivals[direction], self._world.now + self._world.delay())
        self._world.schedule(self._arrivals[direction], partial(self._arrive, 1 - direction, deliver))

    def close(self, driver: "SessionDriver") -> None:
        """Close one end: the other one receives what is under way, then the end.

        What comes meanwhile from the other end may still reach the session: the driver has read it before.
        """
        self.send(driver, lambda other, number: other.lose("closed by the peer", number))
        after_s = self._world.chance.choice((0.0, 0.0, 10.0))
        end = self._ends.index(driver)
        self._world.schedule(self._world.now + after_s, lambda: self._detach(end))

    def cut(self) -> None:
        """Cut the connection: what is under way is lost, and each end notices it at once, late or never."""
        self._is_cut = True
        for driver, number in zip(self._ends, self._numbers, strict=True):
            if self._world.chance.random() < NOTICED_SHARE:
                after_s = self._world.chance.choice((0.0, 1.0, 30.0))
                self._world.schedule(self._world.now + after_s, partial(driver.lose, "cut", number))

    def _detach(self, end: int) -> None:
        self._are_attached[end] = False

    def _arrive(self, end: int, deliver: "Callable[[SessionDriver, int], None]") -> None:
        if self._are_attached[end] and not self._is_cut:
            deliver(self._ends[end], self._numbers[end])


class SessionDriver:
    """Driver of one session: performs its actions in simulated time."""

    def __init__(self, machine: "SimulatedMachine", session: MessageSession, neighbour: str) -> None:
        self.machine, self.session, self.neighbour = machine, session, neighbour
        self.connection: SimulatedConnection | None = None
        self.number = 0  # of the connection
        self.under_way: Final[dict[int, SimulatedMessage]] = {}
        self._timers: Final[dict[str, int]] = {}  # the start that counts
        self._starts = count(1)
        self._accepted = 0  # token of the last message
        self.is_dead = False

    def step(self, event: do.Event) -> None:
        """Pass an event, perform the actions, and send what waits."""
        if self.is_dead:
            return
        world = self.machine.world
        for action in self.session.step(event, world.now):
            world.steps += 1
            self._perform(action)
        world.check(
            len(self.under_way) == self.session.unacknowledged,
            "messages are under way that the session does not know",
        )

    def send(self, messages: Sequence[SimulatedMessage]) -> None:
        """Send messages; the session has a window for them."""
        self.under_way.update({message.number: message for message in messages})
        sent = [do.NumberedMessage(message.number, message.is_recoverable) for message in messages]
        self.step(do.SendMessages(messages=sent))

    def handle(self, event: do.Event) -> None:
        """Pass an event, and send what may be sent then."""
        self.step(event)
        self.machine.pump(self.neighbour)

    def lose(self, reason: str, number: int) -> None:
        """Notice that a connection is lost."""
        self.handle(do.ConnectionLost(connection=number, reason=reason))

    def crash(self) -> None:
        """End without a trace; the peer notices it late or never."""
        self.is_dead = True
        if self.connection is not None:
            self.connection.cut()

    def _perform(self, action: do.Action) -> None:
        world, machine = self.machine.world, self.machine
        match action:
            case do.Connect(connection=number):
                self.number = number
                world.connect(self, number)
            case do.SendPacket(packet=packet):
                self._send(
                    lambda other, number: other.handle(do.PacketReceived(packet=packet, connection=number))
                )
            case do.TransmitMessages(numbers=numbers, session_header=header):
                self._transmit([self.under_way[number] for number in numbers], header)
            case do.AcceptMessage(token=token):
                world.check(token > self._accepted, "accepted in another order than sent")
                self._accepted = token
                machine.accept(self, token)
            case do.MessagesAcknowledged() | do.MessagesReturned():
                self._end(action)
            case do.CloseConnection():
                if self.connection is not None:
                    self.connection.close(self)
                self.connection = None
            case StartTimer(name=name, after_s=after_s):
                self._start(name, after_s)
            case StopTimer(name=name):
                del self._timers[name]

    def _transmit(self, messages: Sequence[SimulatedMessage], header: SessionHeader | None) -> None:
        """Send messages, the first one with a header; express ones arrive together, or by chance alone."""
        self._transmit_one(messages[0], header)
        for is_recoverable, group in groupby(messages[1:], key=lambda message: message.is_recoverable):
            alike = tuple(group)
            if is_recoverable or self.machine.world.chance.random() < 0.3:
                for message in alike:
                    self._transmit_one(message, None)
            else:
                self._transmit_together(alike)

    def _transmit_one(self, message: SimulatedMessage, header: SessionHeader | None) -> None:
        self._send(lambda other, connection: other.receive(message, header, connection))

    def _transmit_together(self, messages: Sequence[SimulatedMessage]) -> None:
        self._send(lambda other, connection: other.receive_together(messages, connection))

    def _end(self, action: do.MessagesAcknowledged | do.MessagesReturned) -> None:
        """Handle messages that leave the session."""
        world, waiting = self.machine.world, self.machine.waiting[self.neighbour]
        if isinstance(action, do.MessagesAcknowledged):
            for number in action.numbers:
                world.check_receipt(self.under_way.pop(number))
            return
        world.check(list(action.numbers) == list(self.under_way), "not returned in the order of sending")
        for number in action.numbers:
            waiting[number] = self.under_way.pop(number)

    def _send(self, deliver: "Callable[[SessionDriver, int], None]") -> None:
        self.machine.world.check(self.connection is not None, "a packet without a connection")
        if self.connection is not None:
            self.connection.send(self, deliver)

    def receive(self, message: SimulatedMessage, header: SessionHeader | None, connection: int) -> None:
        """Receive a message from a connection."""
        token = next(self.machine.world.tokens)
        self.machine.arrivals[token] = message
        self.handle(
            do.MessageReceived(
                token=token,
                is_recoverable=message.is_recoverable,
                session_header=header,
                connection=connection,
            )
        )

    def receive_together(self, messages: Sequence[SimulatedMessage], connection: int) -> None:
        """Receive express messages from a connection: they are in their queue before they are counted."""
        if self.session.state is SessionState.OPEN and connection == self.number:
            self.machine.deliver(messages)
        self.handle(do.ExpressReceived(messages=len(messages), connection=connection))

    def _start(self, name: str, after_s: float) -> None:
        world, start = self.machine.world, next(self._starts)
        self._timers[name] = start
        lateness_s = world.chance.choice((-0.001, 0.0, 0.2))

        def fire() -> None:
            if self._timers.get(name) == start:
                self._timers.pop(name)
                self.handle(TimerFired(name=name))
            elif world.chance.random() < 0.1:  # the driver was too late to cancel it
                self.handle(TimerFired(name=name))

        world.schedule(world.now + max(0.0, after_s + lateness_s), fire)


@dataclass
class SimulatedMachine:
    """A queue manager: messages that wait, a queue, and the history of identifiers on its disk.

    Attributes:
        waiting: messages for each neighbour, by number.
        drivers: sessions that it initiates, by neighbour.
        accepted: sessions that neighbours have opened.
        arrivals: messages that arrived, by token.
        history: messages that were delivered to the queue (MessageIDHistoryTable): survives a crash.
        storing: recoverable messages that are not on the disk yet, with those who wait for it.
        crashes: number of crashes so far.
    """

    world: "SessionWorld"
    name: str
    identifier: Guid
    waiting: dict[str, dict[int, SimulatedMessage]] = field(default_factory=dict)
    drivers: dict[str, SessionDriver] = field(default_factory=dict)
    accepted: list[SessionDriver] = field(default_factory=list)
    arrivals: dict[int, SimulatedMessage] = field(default_factory=dict)
    history: set[int] = field(default_factory=set)
    storing: dict[int, list[tuple[SessionDriver, int]]] = field(default_factory=dict)
    crashes: int = 0
    is_running: bool = True

    def settings(self) -> SessionSettings:
        """Return the settings of a new session."""
        window_size = self.world.chance.randint(*self.world.options.window_sizes)
        return SessionSettings(identifier=self.identifier, window_size=window_size)

    def pump(self, neighbour: str) -> None:
        """Send the messages that wait for a neighbour, as far as windows allow."""
        queue = self.waiting[neighbour]
        while queue and self.is_running:
            driver = self.driver(neighbour)
            if not driver.session.send_capacity:
                driver.step(do.MessagesWaiting())
                return
            together = self.world.chance.randint(1, min(len(queue), driver.session.send_capacity))
            driver.send([queue.pop(number) for number in sorted(queue)[:together]])

    def driver(self, neighbour: str) -> SessionDriver:
        """Return the driver whose session takes the next message for a neighbour."""
        identifier = self.world.machines[neighbour].identifier
        for driver in self.accepted if self.world.options.has_shared_sessions else ():
            if driver.session.remote_identifier == identifier and driver.session.send_capacity:
                return driver
        if neighbour not in self.drivers:
            session = MessageSession.initiate(
                self.settings(),
                chance=self.world.chance.random,
                destination=NULL_GUID if self.world.options.are_names_direct else identifier,
            )
            self.drivers[neighbour] = SessionDriver(self, session, neighbour)
        return self.drivers[neighbour]

    def accept(self, driver: SessionDriver, token: int) -> None:
        """Deliver a message that arrived, unless it is a duplicate; a recoverable one after it is stored."""
        message = self.arrivals.pop(token)
        if not message.is_recoverable:
            self.deliver((message,))
        elif message.number in self.storing:
            self.storing[message.number].append((driver, token))
        else:
            self.storing[message.number] = [(driver, token)]
            crashes, after_s = self.crashes, self.world.chance.random() * self.world.options.store_s
            self.world.schedule(self.world.now + after_s, lambda: self._store(message, crashes))

    def _store(self, message: SimulatedMessage, crashes: int) -> None:
        if crashes != self.crashes:
            return
        self.deliver((message,))
        for driver, token in self.storing.pop(message.number):
            driver.handle(do.MessageStored(token=token))

    def deliver(self, messages: Iterable[SimulatedMessage]) -> None:
        """Put messages into the queue, but for duplicates."""
        for message in messages:
            if message.number not in self.history:
                self.history.add(message.number)
                self.world.deliveries[message.number] = self.world.deliveries.get(message.number, 0) + 1

    def crash(self) -> None:
        """Lose the process: sessions, express messages, and what was not stored."""
        self.is_running = False
        self.crashes += 1
        for driver in [*self.drivers.values(), *self.accepted]:
            for number, message in driver.under_way.items():
                self.waiting[message.destination][number] = message
            driver.crash()
        self.drivers.clear()
        self.accepted.clear()
        self.storing.clear()
        for messages in self.waiting.values():
            for number in [number for number, message in messages.items() if not message.is_recoverable]:
                self.world.lost_express.add(messages.pop(number).number)

    def restart(self) -> None:
        """Start the process again; it connects where messages wait."""
        self.is_running = True
        for neighbour in self.waiting:
            self.pump(neighbour)


class SessionWorld:
    """Machines, their connections, and simulated time.

    Args:
        seed: all chance follows from it.
        options: of the run.
        names: of the machines.
    """

    def __init__(
        self, seed: int, options: SimulationOptions | None = None, names: tuple[str, ...] = ("A", "B", "C")
    ) -> None:
        self.options: Final = SimulationOptions.of_seed(seed) if options is None else options
        self.chance: Final = Random(seed)
        self.now = 1000.0
        self.steps = 0
        self.machines: Final = {
            name: SimulatedMachine(self, name, Guid.of(UUID(int=number)))
            for number, name in enumerate(names, 1)
        }
        for machine in self.machines.values():
            machine.waiting.update({name: {} for name in names if name != machine.name})
        self.messages: Final[list[SimulatedMessage]] = []
        self.deliveries: Final[dict[int, int]] = {}
        self.lost_express: Final[set[int]] = set()
        self.tokens: Final = count(1)
        self.connections: Final[list[SimulatedConnection]] = []
        self.are_links_down = False
        self._events: Final[list[tuple[float, int, Callable[[], None]]]] = []
        self._order: Final = count()

    # --- time

    def schedule(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._events, (when, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            when, _, action = heapq.heappop(self._events)
            self.now = max(self.now, when)
            action()
        self.now = end

    def delay(self) -> float:
        """Draw the delay of a packet."""
        return self.chance.random() * self.options.delay_s

    # --- what happens

    def send(self, source: str, destination: str, *, is_recoverable: bool) -> None:
        """Send a message from one machine to another."""
        message = SimulatedMessage(
            number=len(self.messages),
            source=source,
            destination=destination,
            is_recoverable=is_recoverable,
        )
        self.messages.append(message)
        self.machines[source].waiting[destination][message.number] = message
        self.machines[source].pump(destination)

    def connect(self, driver: SessionDriver, number: int) -> None:
        """Connect an initiator to its neighbour, after some time."""

        def finish() -> None:
            target = self.machines[driver.neighbour]
            if driver.is_dead or driver.number != number:
                return
            if self.are_links_down or not target.is_running:
                driver.handle(do.ConnectionLost(connection=number, reason="unreachable"))
                return
            acceptor = SessionDriver(target, MessageSession.accept(target.settings()), driver.machine.name)
            driver.connection = acceptor.connection = SimulatedConnection(self, (driver, acceptor))
            self._raise_counts(driver, acceptor)
            self.connections.append(driver.connection)
            target.accepted.append(acceptor)
            acceptor.handle(do.Connected())
            driver.handle(do.Connected(connection=number))

        self.schedule(self.now + self.delay(), finish)

    def _raise_counts(self, *drivers: SessionDriver) -> None:
        """Begin a connection with counts before their wrap, as if many messages had been exchanged."""
        if not self.options.are_counts_high:
            return
        pairs: list[Any] = [(driver.session._core.sent, driver.session._core.received) for driver in drivers]
        for (sent, _), (_, received) in zip(pairs, reversed(pairs), strict=True):
            total, recoverable = (
                65_536 * self.chance.randint(1, 3) - self.chance.randint(0, 40) for _ in range(2)
            )
            sent.count = sent._acknowledged = received.count = total
            sent.recoverable_count = received.recoverable_count = recoverable
            received._stored = received._reported = recoverable

    def cut_connection(self) -> None:
        """Cut one of the newest connections."""
        if self.connections:
            self.connections.pop(-self.chance.randint(1, min(4, len(self.connections)))).cut()

    def hear_neighbour(self) -> None:
        """Report to an initiator that its neighbour was heard, perhaps at another address."""
        initiators = [driver for machine in self.machines.values() for driver in machine.drivers.values()]
        if initiators:
            event = do.NeighborHeard(is_elsewhere=self.chance.random() < 0.5)
            self.chance.choice(initiators).handle(event)

    def crash(self, name: str) -> None:
        """Crash a machine's process, and start it again later."""
        machine = self.machines[name]
        if machine.is_running:
            machine.crash()
            self.schedule(self.now + self.chance.random() * RESTART_S, machine.restart)

    # --- checks

    def check(self, is_true: bool, what: str) -> None:
        """Report a broken promise.

        Raises:
            SessionViolationError: it is broken.
        """
        if not is_true:
            raise SessionViolationError(f"at {self.now:.3f} s: {what}")

    def check_receipt(self, message: SimulatedMessage) -> None:
        """Check that an acknowledged message is where it should be."""
        receiver = self.machines[message.destination]
        self.check(message.number in receiver.history, f"acknowledged, but not there: {message}")

    def finish(self) -> None:
        """End all faults; check that all messages arrive in time, once, and that idle sessions close.

        Raises:
            SessionViolationError: a promise is broken.
        """
        self.are_links_down = False
        backlogs = [len(queue) for machine in self.machines.values() for queue in machine.waiting.values()]
        backlogs += [len(driver.under_way) for driver in self.drivers()]
        self.run(RECOVERY_S + sum(backlogs) * MESSAGE_S)
        for message in self.messages:
            arrivals = self.deliveries.get(message.number, 0)
            is_expected = arrivals == 1 or (arrivals == 0 and message.number in self.lost_express)
            self.check(is_expected, f"delivered {arrivals} times: {message}")
        self.run(QUIET_S)
        for driver in self.drivers():
            state = driver.session.state
            self.check(state == "CLOSED", f"{driver.machine.name} to {driver.neighbour}: {state}")
        self.check(not self._events, "timers run without a session")

    def drivers(self) -> list[SessionDriver]:
        """Return the drivers of all processes that run."""
        return [
            driver
            for machine in self.machines.values()
            for driver in [*machine.drivers.values(), *machine.accepted]
        ]


def simulate(seed: int, *, minutes: int = 10, messages: int = 150) -> SessionWorld:
    """Run one seed: messages and faults for some minutes, then checks.

    Raises:
        SessionViolationError: a promise is broken.
    """
    world = SessionWorld(seed)
    chance, names, seconds = world.chance, list(world.machines), minutes * 60.0
    for _ in range(messages):
        source, destination = chance.sample(names, 2)
        is_recoverable = chance.random() < 0.5
        send = partial(world.send, source, destination, is_recoverable=is_recoverable)
        world.schedule(world.now + chance.random() * seconds, send)
    faults = [world.cut_connection] * chance.randint(0, 20)
    faults += [world.hear_neighbour] * chance.randint(0, 20)
    faults += [lambda: world.crash(chance.choice(names))] * chance.randint(0, 3)
    for fault in faults:
        world.schedule(world.now + chance.random() * seconds, fault)
    for _ in range(chance.randint(0, 2)):
        start = world.now + chance.random() * seconds
        world.schedule(start, lambda: setattr(world, "are_links_down", True))
        world.schedule(start + chance.choice((5.0, 120.0)), lambda: setattr(world, "are_links_down", False))
    world.run(seconds)
    world.finish()
    return world
