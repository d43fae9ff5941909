"""One session of a simulated machine.

The world performs and checks the actions of a session in simulated time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.core import SessionCore
from mqdssm.engines.session.session import MessageSession
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.packet_messages import packet_of
from mqdssm.model.packets import ConnectionParameters, SessionAck, SessionHeader
from mqdssm.testing.session_simulation.connections import SessionLink
from mqdssm.testing.session_simulation.messages import (
    Arrival,
    ArrivedMessages,
    Closed,
    SimulatedMessage,
    group_arrivals,
)
from mqdssm.testing.simulation.trace import Violation, describe
from mqdssm.wire.message_packets import MessageEncoder
from mqdssm.wire.mqqb import encode_packet

if TYPE_CHECKING:
    from mqdssm.testing.session_simulation.machines import SimulatedMachine

_ROUNDING_S: Final = 0.01
_STATE_TIMERS: Final = {
    SessionState.PINGING: {SessionTimer.PING_RESPONSE},
    SessionState.CONNECTING: {SessionTimer.INITIALIZATION, SessionTimer.CLEANUP},
    SessionState.WAITING_ECR: {SessionTimer.INITIALIZATION, SessionTimer.CLEANUP},
    SessionState.WAITING_CP: {SessionTimer.INITIALIZATION, SessionTimer.CLEANUP},
    SessionState.WAITING_CPR: {SessionTimer.INITIALIZATION, SessionTimer.CLEANUP},
    SessionState.WAITING_RECONNECT: {SessionTimer.RETRY_CONNECT},
    SessionState.OPEN: {SessionTimer.CLEANUP},
}
"""Timers without which a session would stay in a state for ever."""

_REASONS: Final = frozenset(
    {
        *(CloseReason.STOPPED, CloseReason.LOST, CloseReason.MOVED, CloseReason.NOT_PINGED, CloseReason.IDLE),
        *(CloseReason.NOT_ESTABLISHED, CloseReason.NOT_ACKNOWLEDGED, CloseReason.DRIVER),
    }
)
"""Reasons to close a session with a peer that makes no mistakes."""


class SessionEndpoint:
    """Driver of one session.

    Args:
        machine: its machine.
        core: state of the session, for checks.
        neighbour: name of the other machine.

    Attributes:
        session: the engine.
        connection: the connection, if there is one.
        number: of the connection.
        under_way: messages that the session has.
        is_dead: True after the end of its process.
    """

    def __init__(self, machine: "SimulatedMachine", core: SessionCore, neighbour: str) -> None:
        self.machine, self.neighbour = machine, neighbour
        self.session: Final = MessageSession(core)
        self.core: Final = core
        self.connection: SessionLink | None = None
        self.number = 0
        self.under_way: Final[dict[int, SimulatedMessage]] = {}
        self.is_dead = False
        self._timers: Final[dict[str, int]] = {}  # the start that counts
        self._starts = count(1)
        self._accepted = 0  # token of the last message
        self._peer_window = 0
        self._connected_at = float("-inf")
        self._encoder = MessageEncoder(core.destination)
        self._label = f"{machine.name}{'>' if core.is_initiator else '<'}{neighbour}"
        self._performers: Final[dict[type, Callable[..., None]]] = {
            do.Connect: self._connect,
            do.SendPing: lambda action: machine.world.ping(self, action.ping),
            do.SendPacket: self._send_packet,
            do.TransmitMessages: self._transmit,
            do.AcceptMessage: self._accept,
            do.MessagesAcknowledged: self._confirm,
            do.MessagesReturned: self._take_back,
            do.SessionOpened: self._on_opened,
            do.CloseConnection: self._close,
            StartTimer: lambda action: self._start(action.name, action.after_s),
            StopTimer: self._stop_timer,
            Note: self._note,
        }

    # --- events

    def step(self, event: do.Event) -> None:
        """Pass an event and perform the actions."""
        if self.is_dead:
            return
        world, was_waiting = self.machine.world, self.session.state is SessionState.WAITING_RECONNECT
        actions = self.session.step(event, world.now)
        if world.trace is not None:
            world.say(f"{self._label} {describe(event)}: {self.session.state}")
        for action in actions:
            world.steps += 1
            if was_waiting and isinstance(action, do.Connect):
                pause_s = world.now - self._connected_at
                world.check(pause_s > self.core.settings.retry_connect_s - _ROUNDING_S, "connects too soon")
            performer = self._performers.get(type(action))
            if performer is not None:
                performer(action)
        if not self.is_dead:
            self._check_promises()

    def handle(self, event: do.Event) -> None:
        """Pass an event, and send what may be sent then."""
        self.step(event)
        if self.connection is not None and isinstance(event, do.MessageStored):
            self.connection.resume(self)
        self.machine.pump(self.neighbour)

    def send(self, messages: Sequence[SimulatedMessage]) -> None:
        """Send messages; the session has a window for them."""
        self.under_way.update({message.number: message for message in messages})
        sent = [do.NumberedMessage(message.number, message.is_recoverable) for message in messages]
        self.step(do.SendMessages(messages=sent))

    def lose(self, reason: str, number: int) -> None:
        """Notice that a connection is lost."""
        self.handle(do.ConnectionLost(connection=number, reason=reason))

    def crash(self) -> None:
        """End without a trace; the peer notices it late or never."""
        self.is_dead = True
        if self.connection is not None:
            self.connection.cut()

    def has_room(self, arrival: Arrival) -> bool:
        """Return True if something that arrived can be handled now."""
        is_message = isinstance(arrival, ArrivedMessages)
        return not is_message or self.session.state is not SessionState.OPEN or self.session.may_read

    def receive(self, arrival: Arrival, connection: int) -> None:
        """Handle something that arrived on a connection."""
        if isinstance(arrival, Closed):
            self.lose("closed by the peer", connection)
        elif isinstance(arrival, ArrivedMessages):
            self._receive_messages(arrival, connection)
        else:
            if isinstance(arrival, ConnectionParameters):
                self._peer_window = max(1, arrival.window_size)
            self.handle(do.PacketReceived(packet=arrival, connection=connection))

    def _receive_messages(self, arrival: ArrivedMessages, connection: int) -> None:
        messages = [self.machine.world.messages[number] for number in arrival.numbers]
        if len(messages) == 1:
            token = next(self.machine.world.tokens)
            self.machine.arrivals[token] = messages[0]
            self.handle(
                do.MessageReceived(
                    token=token,
                    is_recoverable=arrival.is_recoverable,
                    session_header=arrival.header,
                    connection=connection,
                )
            )
            self.machine.arrivals.pop(token, None)  # it was not accepted
            return
        if self.session.state is SessionState.OPEN and connection == self.number:
            for message in messages:
                self.machine.world.check_order(message)
                self.machine.deliver(message)  # they are in their queue before they are counted
        self.handle(do.ExpressReceived(messages=len(messages), connection=connection))

    # --- actions

    def _connect(self, action: do.Connect) -> None:
        self.number, self._connected_at = action.connection, self.machine.world.now
        self.machine.world.connect(self, action.connection)

    def _send_packet(self, action: do.SendPacket) -> None:
        if isinstance(action.packet, SessionAck):
            self.machine.world.counts["acknowledgements"] += 1
        connection = self._open_connection()
        if self.machine.world.options.are_octets:
            connection.write(self, encode_packet(action.packet))
        else:
            connection.send(self, action.packet)

    def _transmit(self, action: do.TransmitMessages) -> None:
        """Send messages, the first one with a header."""
        world = self.machine.world
        allowed = min(self.core.settings.window_size, self._peer_window)
        world.check(
            len(self.under_way) <= allowed, f"{len(self.under_way)} messages in a window of {allowed}"
        )
        messages = [self.under_way[number] for number in action.numbers]
        header = action.session_header
        world.counts["acknowledgements with a message"] += header is not None
        connection = self._open_connection()
        if world.options.are_octets:
            connection.write(self, b"".join(self._encode_messages(messages, header)))
            return
        first = ArrivedMessages((messages[0].number,), messages[0].is_recoverable, header)
        others = (message.as_sent() for message in messages[1:])
        connection.send(self, first, *group_arrivals(others, world.percent))

    def _encode_messages(
        self, messages: Sequence[SimulatedMessage], header: SessionHeader | None
    ) -> list[bytes]:
        packets = [message.as_sent() for message in messages]
        octets = [self._encoder.encode(packet) for packet in packets]
        if header is not None:
            address = self.core.destination
            octets[0] = encode_packet(packet_of(packets[0], queue_manager_address=address, session=header))
        return octets

    def _accept(self, action: do.AcceptMessage) -> None:
        self.machine.world.check(action.token > self._accepted, "accepted in another order than received")
        self._accepted = action.token
        self.machine.accept(self, action.token)

    def _confirm(self, action: do.MessagesAcknowledged) -> None:
        for number in action.numbers:
            self.machine.world.check_receipt(self.under_way.pop(number))

    def _take_back(self, action: do.MessagesReturned) -> None:
        world = self.machine.world
        world.check(list(action.numbers) == list(self.under_way), "not returned in the order of sending")
        world.counts["messages returned"] += len(action.numbers)
        for number in action.numbers:
            self.machine.queue(self.under_way.pop(number))

    def _on_opened(self, action: do.SessionOpened) -> None:
        world = self.machine.world
        world.counts["sessions opened"] += 1
        expected = world.machines[self.neighbour].identifier
        world.check(action.remote_identifier == expected, "opened with another peer")

    def _close(self, action: do.CloseConnection) -> None:
        self.machine.world.check(action.reason in _REASONS, f"{self._label} closes: {action.reason}")
        if self.connection is not None:
            self.connection.close(self)
        self.connection = None

    def _note(self, action: Note) -> None:
        self.machine.world.counts[action.what] += 1

    def _open_connection(self) -> SessionLink:
        if self.connection is None:
            raise Violation(f"{self._label}: a packet without a connection")
        return self.connection

    def _start(self, name: str, after_s: float) -> None:
        world, start = self.machine.world, next(self._starts)
        self._timers[name] = start
        lateness_s = world.rng.of((-0.001, 0.0, 0.2))
        world.after(max(0.0, after_s + lateness_s), partial(self._fire, name, start))

    def _stop_timer(self, action: StopTimer) -> None:
        del self._timers[action.name]

    def _fire(self, name: str, start: int) -> None:
        if self._timers.get(name) == start:
            del self._timers[name]
            self.handle(TimerFired(name=name))
        elif self.machine.world.rng.draw_one_in(10):  # the driver was too late to cancel it
            self.handle(TimerFired(name=name))

    # --- checks

    def _check_promises(self) -> None:
        """Check what has to be true after each step."""
        core, world = self.core, self.machine.world
        running = set(core.timers.list_running())
        unknown = running - self._timers.keys()
        world.check(not unknown, f"{self._label}: the driver does not run {unknown}")
        needed = set(_STATE_TIMERS.get(core.state, ()))
        if core.state is SessionState.OPEN:
            if self.under_way:
                needed.add(SessionTimer.ACK_WAIT)
            if core.received.unacknowledged or core.received.stored:
                needed.add(SessionTimer.ACK_SEND)
        world.check(needed <= running, f"{self._label}: {needed - running} lost while {core.state}")
        world.check(
            len(self.under_way) == self.session.unacknowledged,
            "messages are under way that the session does not know",
        )
        for window, most in (
            (core.sent, core.settings.window_size),
            (core.received, core.settings.unstored_max),
        ):
            for name, content in vars(window).items():
                size = len(content) if isinstance(content, dict | set) else 0
                world.check(size <= most, f"{self._label}: {size} of {name}")
