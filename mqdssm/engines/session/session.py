"""A session between two queue managers as a state machine ([MS-MQQB] 3.1.5 to 3.1.7).

An acceptor's session lasts as long as its connection. An initiator's session opens a connection when messages
wait, and another one after a failure. `MessageSession.HANDLERS` lists the events that each state handles. A
packet that the state does not handle closes the session; another event is dropped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, TypeAlias

from mqdssm.engines.actions import Dropped, Note, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.receive_window import ReceiveWindow
from mqdssm.engines.session.send_window import SendWindow
from mqdssm.engines.session.settings import (
    ACK_FLAGS,
    ACK_WAIT_RANGE_MS,
    DIRECT_ACK_WAIT_FACTOR,
    PIGGYBACK_SHARE,
    PING_COOKIE_BITS,
    PING_RESPONSE_S,
    RECOVERABLE_ACK_RANGE_MS,
    RETRY_JITTER,
    ROUND_TRIPS,
    SessionSettings,
)
from mqdssm.engines.session.timers import LEGAL_STATES, RunningTimers, SessionState, SessionTimer
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packets import ConnectionParameters, EstablishConnection, Ping, SessionAck, SessionHeader

Handler: TypeAlias = Callable[["MessageSession", Any], None]
"""Any stands for the event of the row."""
_PACKETS: Final = frozenset({EstablishConnection, ConnectionParameters, SessionAck, do.MessageReceived})
"""Kinds of events that a peer causes."""
_ALL: Final = frozenset(SessionState)
_NOT_OPEN: Final = _ALL - {SessionState.OPEN}
_NOT_CLOSED: Final = _ALL - {SessionState.CLOSED}
_CONNECTED: Final = _ALL - {SessionState.CLOSED, SessionState.PINGING, SessionState.WAITING_RECONNECT}
"""States with a connection, or with an attempt to connect."""
_UNREACHABLE: Final = frozenset({CloseReason.LOST, CloseReason.NOT_PINGED})
"""Reasons of which no connection is left that could be closed."""
_QUIET: Final = _UNREACHABLE | {CloseReason.STOPPED, CloseReason.IDLE}
"""Reasons that call for nobody's attention."""
_UPTIME_BITS: Final = 0xFFFF_FFFF
"""Mask of EstablishConnectionHeader.TimeStamp."""


def _rows(kind: type, states: Iterable[SessionState]) -> list[tuple[SessionState, type]]:
    """Return the keys of a handler's rows for an event that several states handle alike."""
    return [(state, kind) for state in states]


def answer_ping(request: Ping, identifier: Guid, *, is_accepting: bool) -> Ping:
    """Return the response to a ping request ([MS-MQQB] 3.1.7.7).

    Args:
        request: the request; a packet without the signature of a ping is ignored.
        identifier: our QueueManager.Identifier.
        is_accepting: True if a session of that initiator would be accepted.
    """
    return Ping(
        queue_manager=identifier,
        cookie=request.cookie,
        is_client_class=request.is_client_class,
        is_refused=not is_accepting,
    )


class MessageSession:
    """Session with a neighbour, of its initiator or its acceptor.

    Use `initiate` or `accept`. After each step a driver sends waiting messages while `send_capacity` is not
    0; if messages still wait, it passes `MessagesWaiting`.

    Attributes:
        state: SessionState.
        remote_identifier: RemoteQMGuid; the nil GUID until it is known. The peer claims it: it is no proof.
    """

    def __init__(
        self,
        settings: SessionSettings,
        *,
        is_initiator: bool,
        destination: Guid,
        chance: Callable[[], float],
        ping_cookies: Iterator[int] | None = None,
    ) -> None:
        self._ping_cookies: Final = ping_cookies
        self._ping_cookie = 0
        self._settings: Final = settings
        self._is_initiator: Final = is_initiator
        self._destination: Final = destination
        self._chance: Final = chance
        self.state = SessionState.CLOSED if is_initiator else SessionState.WAITING_EC
        self._timers: Final = RunningTimers()
        self._actions: list[do.Action] = []
        self._now = float("-inf")
        self._connection = 0
        self._has_connection = False
        self._is_stopped = False
        self._has_waiting = False
        self._failures = 0
        self._initialize()

    @classmethod
    def initiate(
        cls,
        settings: SessionSettings,
        *,
        chance: Callable[[], float],
        destination: Guid = NULL_GUID,
        ping_cookies: Iterator[int] | None = None,
    ) -> Self:
        """Return the session of an initiator.

        Args:
            settings: of our queue manager.
            chance: random numbers from 0 to 1, for the times between attempts to connect.
            destination: QueueManager.Identifier of the neighbour; nil if it has a direct format name.
            ping_cookies: numbers of the ping requests of all our sessions (PingCookie); None to send none.
        """
        return cls(
            settings, is_initiator=True, destination=destination, chance=chance, ping_cookies=ping_cookies
        )

    @classmethod
    def accept(cls, settings: SessionSettings) -> Self:
        """Return the session of an acceptor, for one connection; the first event is `Connected`."""
        return cls(settings, is_initiator=False, destination=NULL_GUID, chance=lambda: 0.0)

    @property
    def send_capacity(self) -> int:
        """Number of messages that may be sent now: 0 unless the session is open."""
        if self.state is not SessionState.OPEN:
            return 0
        return max(0, min(self._settings.window_size, self._peer_window) - len(self._sent))

    @property
    def unacknowledged(self) -> int:
        """Number of sent messages that the peer has not acknowledged."""
        return len(self._sent)

    @property
    def may_read(self) -> bool:
        """True if the driver may read from the connection: not too many messages wait to be stored."""
        return self._received.unstored < self._settings.unstored_max // 2

    def step(self, event: do.Event, now: float) -> list[do.Action]:
        """Handle one event.

        Args:
            event: what happened.
            now: monotonic seconds; never less than before.

        Returns:
            The actions, in order.
        """
        assert now >= self._now, "the driver's clock goes backwards"  # noqa: S101  a belief, not data
        self._now, self._actions = now, []
        subject = event.packet if isinstance(event, do.PacketReceived) else event
        kind = type(subject)
        handler = self.HANDLERS.get((self.state, kind))
        if self._is_of_other_connection(event):
            self._actions.append(Dropped(what="event of another connection"))
        elif handler is not None:
            if kind in _PACKETS:
                self._has_received = True
            handler(self, subject)
        elif kind in _PACKETS:
            self._close(CloseReason.UNEXPECTED, f"{kind.__name__} while {self.state}")
        else:
            self._actions.append(Dropped(what=f"{kind.__name__} while {self.state}"))
        for timer in self._timers.running():
            assert self.state in LEGAL_STATES[timer], f"{timer} while {self.state}"  # noqa: S101  a belief
        return self._actions

    def _is_of_other_connection(self, event: do.Event) -> bool:
        if not isinstance(event, do.Connected | do.ConnectionLost | do.PacketReceived | do.MessageReceived):
            return False
        return event.connection != self._connection or self.state not in _CONNECTED

    def _initialize(self) -> None:
        """Set the state of a new session ([MS-MQQB] 3.1.3.2)."""
        settings = self._settings
        self._sent = SendWindow()
        self._received = ReceiveWindow()
        self._peer_window = settings.window_size
        self._ack_wait_s = settings.ack_wait_s
        self._ack_wait_factor = 1
        self._recoverable_ack_s = RECOVERABLE_ACK_RANGE_MS[0] / 1000
        self._is_active = False  # SessionActive
        self._has_received = False  # ReceivedAck
        self._is_pinged = False
        self.remote_identifier = self._destination

    # --- connecting

    def _on_waiting(self, _event: do.MessagesWaiting) -> None:
        """Remember that messages wait ([MS-MQQB] 3.1.7.12)."""
        self._has_waiting = True

    def _on_waiting_closed(self, event: do.MessagesWaiting) -> None:
        """Establish a session, since messages wait ([MS-MQQB] 3.1.5.2)."""
        if not self._is_initiator or self._is_stopped:
            return
        self._on_waiting(event)
        if self._ping_cookies is None:
            self._connect()
        else:
            self._send_ping(next(self._ping_cookies) & PING_COOKIE_BITS)

    def _send_ping(self, cookie: int) -> None:
        """Ask the neighbour if it would accept a session ([MS-MQQB] 3.1.7.6)."""
        self._ping_cookie = cookie
        self.state = SessionState.PINGING
        self._start(SessionTimer.PING_RESPONSE, PING_RESPONSE_S)
        settings = self._settings
        request = Ping(
            queue_manager=settings.identifier, cookie=cookie, is_client_class=not settings.is_server_class
        )
        self._actions.append(do.SendPing(ping=request))

    def _on_ping(self, event: do.PingReceived) -> None:
        """Connect after a positive ping response ([MS-MQQB] 3.1.7.8, 3.1.5.2.2)."""
        if event.ping.cookie != self._ping_cookie:
            self._actions.append(Dropped(what="response to another ping request"))
        elif event.ping.is_refused:
            self._close(CloseReason.NOT_PINGED, "refused")
        else:
            self._stop(SessionTimer.PING_RESPONSE)
            self._is_pinged = True
            self._connect()

    def _on_ping_timer(self) -> None:
        """Ping Response Timer Event ([MS-MQQB] 3.1.6.8)."""
        self._close(CloseReason.NOT_PINGED, "no answer")

    def _on_nothing_waiting(self, _event: do.NothingWaiting) -> None:
        self._has_waiting = False

    def _connect(self) -> None:
        self._connection += 1
        self._has_connection = True
        self.state = SessionState.CONNECTING
        self._start(SessionTimer.INITIALIZATION, self._settings.initialization_s)
        self._start(SessionTimer.CLEANUP, self._settings.cleanup_s)
        self._actions.append(do.Connect(connection=self._connection))

    def _on_connected_initiator(self, _event: do.Connected) -> None:
        """Send an EstablishConnection request ([MS-MQQB] 3.1.5.2.3)."""
        self._send(
            EstablishConnection(
                client_guid=self._settings.identifier,
                server_guid=self._destination,
                time_stamp=self._uptime_ms(),
                is_ping_skipped=not self._is_pinged,
                is_server_class=self._settings.is_server_class,
                is_refused=False,
            )
        )
        self.state = SessionState.WAITING_ECR
        self._start(SessionTimer.INITIALIZATION, self._settings.initialization_s)

    def _on_connected_acceptor(self, _event: do.Connected) -> None:
        """Wait for the request of the initiator ([MS-MQQB] 3.1.5.10)."""
        self._has_connection = True
        self._start(SessionTimer.INITIALIZATION, self._settings.initialization_s)
        self._start(SessionTimer.CLEANUP, self._settings.cleanup_s)

    def _on_connection_lost(self, event: do.ConnectionLost) -> None:
        """Handle a network disconnect ([MS-MQQB] 3.1.7.3)."""
        self._has_connection = False
        self._close(CloseReason.LOST, event.reason)

    # --- establishing

    def _on_establish_request(self, request: EstablishConnection) -> None:
        """Answer an EstablishConnection request ([MS-MQQB] 3.1.5.3.1)."""
        if request.is_refused:
            self._close(CloseReason.REFUSED)
            return
        identifier = self._settings.identifier
        is_refused = request.server_guid not in {identifier, NULL_GUID}
        self.remote_identifier = request.client_guid
        self._ack_wait_factor = DIRECT_ACK_WAIT_FACTOR if request.server_guid == NULL_GUID else 1
        self._send(
            EstablishConnection(
                client_guid=request.client_guid,
                server_guid=identifier,
                time_stamp=request.time_stamp,
                is_ping_skipped=request.is_ping_skipped,
                is_server_class=request.is_server_class,
                is_refused=is_refused,
            )
        )
        self.state = SessionState.WAITING_CP
        if is_refused:
            self._close(CloseReason.NOT_ADDRESSED, str(request.server_guid))

    def _on_establish_response(self, response: EstablishConnection) -> None:
        """Send ConnectionParameters after the EstablishConnection response ([MS-MQQB] 3.1.5.3.2)."""
        settings = self._settings
        is_direct = self._destination == NULL_GUID
        if response.is_refused:
            self._close(CloseReason.REFUSED, str(response.server_guid))
            return
        if response.client_guid != settings.identifier or not (
            is_direct or response.server_guid == self._destination
        ):
            self._close(CloseReason.WRONG_PEER, str(response.server_guid))
            return
        self.remote_identifier = response.server_guid  # decision T24
        self._ack_wait_factor = DIRECT_ACK_WAIT_FACTOR if is_direct else 1
        round_trip_ms = self._uptime_ms() - response.time_stamp & _UPTIME_BITS
        shortest, longest = RECOVERABLE_ACK_RANGE_MS[0], RECOVERABLE_ACK_RANGE_MS[-1]
        recoverable_ack_ms = min(max(round_trip_ms * ROUND_TRIPS, shortest), longest)
        self._recoverable_ack_s = recoverable_ack_ms / 1000
        self._send(
            ConnectionParameters(
                recoverable_ack_timeout_ms=recoverable_ack_ms,
                ack_timeout_ms=settings.ack_wait_ms,
                window_size=settings.window_size,
            )
        )
        self.state = SessionState.WAITING_CPR

    def _on_parameters_request(self, request: ConnectionParameters) -> None:
        """Take over the parameters of the initiator, and open the session ([MS-MQQB] 3.1.5.4.1)."""
        if not self._are_valid(request):
            return
        self._ack_wait_s = request.ack_timeout_ms / 1000
        self._recoverable_ack_s = request.recoverable_ack_timeout_ms / 1000
        self._send(
            ConnectionParameters(
                recoverable_ack_timeout_ms=request.recoverable_ack_timeout_ms,
                ack_timeout_ms=request.ack_timeout_ms,
                window_size=self._settings.window_size,
            )
        )
        self._open(request)

    def _on_parameters_response(self, response: ConnectionParameters) -> None:
        """Open the session ([MS-MQQB] 3.1.5.4.2)."""
        if self._are_valid(response):
            self._open(response)

    def _are_valid(self, parameters: ConnectionParameters) -> bool:
        """Close the session and return False if parameters are out of range ([MS-MQQB] 2.2.2.1)."""
        if parameters.is_refused:
            self._close(CloseReason.REFUSED)
            return False
        recoverable_ms, ack_ms = parameters.recoverable_ack_timeout_ms, parameters.ack_timeout_ms
        is_valid = recoverable_ms in RECOVERABLE_ACK_RANGE_MS and ack_ms in ACK_WAIT_RANGE_MS
        if not is_valid:
            self._close(CloseReason.OUT_OF_RANGE, f"{recoverable_ms} ms and {ack_ms} ms")
        return is_valid

    def _open(self, parameters: ConnectionParameters) -> None:
        self._peer_window = max(1, parameters.window_size)  # decision T25
        self._stop(SessionTimer.INITIALIZATION)
        self.state = SessionState.OPEN
        self._actions.append(do.SessionOpened(remote_identifier=self.remote_identifier))

    # --- sending

    def _on_send_closed(self, event: do.SendMessage) -> None:
        self._actions.append(do.MessagesReturned(numbers=(event.number,)))

    def _on_send(self, event: do.SendMessage) -> None:
        """Send a message, with an acknowledgement if one is due soon ([MS-MQQB] 3.1.7.1, 3.1.7.11)."""
        if not self.send_capacity:
            self._on_send_closed(event)
            return
        self._has_waiting = False
        self._is_active = True
        self._sent.add(event.number, is_recoverable=event.is_recoverable)
        header = None
        if self._timers.elapsed_share(SessionTimer.ACK_SEND, self._now) > PIGGYBACK_SHARE:
            header = self._acknowledgement()
        self._actions.append(do.TransmitMessage(number=event.number, session_header=header))
        if self._timers.due(SessionTimer.ACK_WAIT) is None:
            self._start_ack_wait()

    def _start_ack_wait(self) -> None:
        self._start(SessionTimer.ACK_WAIT, self._ack_wait_s * self._ack_wait_factor)

    def _on_session_ack(self, packet: SessionAck) -> None:
        """Process a SessionAck packet ([MS-MQQB] 3.1.5.5)."""
        self._process(packet.session)

    def _process(self, header: SessionHeader) -> None:
        """Process a SessionHeader ([MS-MQQB] 3.1.5.5)."""
        numbers = self._sent.acknowledge(header)
        if isinstance(numbers, CloseReason):
            self._close(numbers, str(header))
            return
        if numbers:
            self._failures = 0
            self._actions.append(do.MessagesAcknowledged(numbers=numbers))
        if not self._received.is_count_of(header):
            self._close(CloseReason.MISCOUNTED, str(header))
            return
        self._peer_window = max(1, header.window_size)  # decision T25
        if self._sent:
            self._start_ack_wait()
        else:
            self._stop(SessionTimer.ACK_WAIT)
        self._acknowledge_soon(self._ack_wait_s / 2)  # the window may be smaller than before

    # --- receiving

    def _on_message(self, event: do.MessageReceived) -> None:
        """Count and accept a message ([MS-MQQB] 3.1.5.8)."""
        received = self._received
        if event.is_recoverable and received.unstored >= self._settings.unstored_max:
            self._close(CloseReason.FLOODED, f"{received.unstored} messages")
            return
        self._is_active = True
        received.add(event.token, is_recoverable=event.is_recoverable)
        self._actions.append(do.AcceptMessage(token=event.token, is_recoverable=event.is_recoverable))
        if event.session_header is not None:
            self._process(event.session_header)
        if self.state is SessionState.OPEN:
            self._acknowledge_soon(self._ack_wait_s / 2)

    def _on_stored(self, event: do.MessageStored) -> None:
        """Acknowledge a recoverable message that is stored ([MS-MQQB] 3.1.5.8.7)."""
        if self._received.store(event.token):
            self._acknowledge_soon(min(self._recoverable_ack_s, self._ack_wait_s / 2))  # decision T27

    @property
    def _half_window(self) -> int:
        """Number of messages that are acknowledged without delay (decision T26)."""
        return max(1, min(self._settings.window_size, self._peer_window) // 2)

    def _acknowledge_soon(self, after_s: float) -> None:
        """Acknowledge what waits for it: now if it is enough, else after some time at the latest."""
        received, enough = self._received, self._half_window
        if received.unacknowledged >= enough or received.stored >= min(enough, ACK_FLAGS):
            self._send_acknowledgements()
        elif received.unacknowledged or received.stored:
            due = self._timers.due(SessionTimer.ACK_SEND)
            if due is None or self._now + after_s < due:
                self._start(SessionTimer.ACK_SEND, after_s)

    def _send_acknowledgements(self) -> None:
        """Send SessionAck packets until all that is stored is acknowledged ([MS-MQQB] 3.1.6.4)."""
        while self._received.unacknowledged or self._received.stored:
            self._send(SessionAck(session=self._acknowledgement()))

    def _acknowledgement(self) -> SessionHeader:
        """Return the next acknowledgement: with what it covers, nothing is due any more (decision T33)."""
        self._stop(SessionTimer.ACK_SEND)
        return self._received.acknowledge(self._sent, self._settings.window_size)

    # --- timers

    def _on_timer(self, event: TimerFired) -> None:
        timer = self._timers.expire(event, self._now)
        if isinstance(timer, SessionTimer):
            self.TIMERS[timer](self)
        elif timer is None:
            self._actions.append(Dropped(what="timer that does not run"))
        else:
            self._actions.append(timer)

    def _on_initialization_timer(self) -> None:
        """Session Initialization Timer Event ([MS-MQQB] 3.1.6.6)."""
        self._close(CloseReason.NOT_ESTABLISHED, f"while {self.state}")

    def _on_cleanup_timer(self) -> None:
        """Session Cleanup Timer Event ([MS-MQQB] 3.1.6.2)."""
        if not self._is_active:
            self._has_waiting = False  # else it would have been sent
            self._close(CloseReason.IDLE)
            return
        self._is_active = False
        self._start(SessionTimer.CLEANUP, self._settings.cleanup_s)

    def _on_retry_timer(self) -> None:
        """Session Retry Connect Timer Event ([MS-MQQB] 3.1.6.1)."""
        self.state = SessionState.CLOSED
        if self._has_waiting:
            self._connect()

    def _on_ack_wait_timer(self) -> None:
        """Session Ack Wait Timer Event ([MS-MQQB] 3.1.6.3); the timer runs only while messages wait."""
        if not self._has_received:
            self._close(CloseReason.NOT_ACKNOWLEDGED, f"{len(self._sent)} messages")
            return
        self._has_received = False
        self._start_ack_wait()

    def _on_ack_send_timer(self) -> None:
        """Session Ack Send Timer Event ([MS-MQQB] 3.1.6.4)."""
        self._send_acknowledgements()

    # --- closing

    def _on_close(self, event: do.CloseSession) -> None:
        self._close(CloseReason.DRIVER, event.detail)

    def _on_stop(self, _event: do.Stop) -> None:
        """Queue Manager Stopped Event ([MS-MQQB] 3.1.4.2): acknowledge what arrived, then close."""
        self._is_stopped = True
        if self.state is SessionState.OPEN:
            self._send_acknowledgements()
        self._close(CloseReason.STOPPED)

    def _close(self, reason: CloseReason, detail: str = "") -> None:
        """Close the session ([MS-MQQB] 3.1.5.9)."""
        self._actions += self._timers.stop_all()
        if self._has_connection or reason in _UNREACHABLE:
            self._actions.append(
                Note(what=f"session closed: {reason}", detail=detail, is_warning=reason not in _QUIET)
            )
        if self._has_connection:
            self._has_connection = False
            self._actions.append(do.CloseConnection(connection=self._connection, reason=reason))
        numbers = self._sent.numbers()
        if numbers:
            self._actions.append(do.MessagesReturned(numbers=numbers))
        self._initialize()
        self._has_waiting = (self._has_waiting or bool(numbers)) and not self._is_stopped
        self.state = SessionState.CLOSED
        if self._is_initiator and self._has_waiting:
            self.state = SessionState.WAITING_RECONNECT
            self._start(SessionTimer.RETRY_CONNECT, self._retry_delay_s())

    def _retry_delay_s(self) -> float:
        """Return the time until the next attempt: doubled by each failure, with jitter (decision T20)."""
        settings = self._settings
        doublings = min(self._failures, 16)
        self._failures += 1
        delay_s = min(settings.retry_connect_s * (1 << doublings), settings.retry_connect_max_s)
        return delay_s * (1 + RETRY_JITTER * self._chance())

    # --- helpers of several handlers

    def _send(self, packet: do.InternalPacket) -> None:
        self._actions.append(do.SendPacket(packet=packet))

    def _start(self, timer: SessionTimer, after_s: float) -> None:
        self._actions.append(self._timers.start(timer, after_s, self._now))

    def _stop(self, timer: SessionTimer) -> None:
        self._actions += self._timers.stop(timer)

    def _uptime_ms(self) -> int:
        return int(self._now * 1000) & _UPTIME_BITS

    TIMERS: ClassVar[Mapping[SessionTimer, Callable[["MessageSession"], None]]] = {
        SessionTimer.PING_RESPONSE: _on_ping_timer,
        SessionTimer.INITIALIZATION: _on_initialization_timer,
        SessionTimer.CLEANUP: _on_cleanup_timer,
        SessionTimer.RETRY_CONNECT: _on_retry_timer,
        SessionTimer.ACK_WAIT: _on_ack_wait_timer,
        SessionTimer.ACK_SEND: _on_ack_send_timer,
    }
    """Handler of each timer."""
    # fmt: off
    HANDLERS: ClassVar[Mapping[tuple[SessionState, type], Handler]] = {
        (SessionState.CLOSED, do.MessagesWaiting):                  _on_waiting_closed,  # 3.1.5.2
        (SessionState.PINGING, do.PingReceived):                    _on_ping,  # 3.1.7.8
        (SessionState.CONNECTING, do.Connected):                    _on_connected_initiator,  # 3.1.5.2.3
        (SessionState.WAITING_EC, do.Connected):                    _on_connected_acceptor,  # 3.1.5.10
        (SessionState.WAITING_EC, EstablishConnection):             _on_establish_request,  # 3.1.5.3.1
        (SessionState.WAITING_ECR, EstablishConnection):            _on_establish_response,  # 3.1.5.3.2
        (SessionState.WAITING_CP, ConnectionParameters):            _on_parameters_request,  # 3.1.5.4.1
        (SessionState.WAITING_CPR, ConnectionParameters):           _on_parameters_response,  # 3.1.5.4.2
        (SessionState.OPEN, SessionAck):                            _on_session_ack,  # 3.1.5.5
        (SessionState.OPEN, do.MessageReceived):                    _on_message,  # 3.1.5.8
        (SessionState.OPEN, do.MessageStored):                      _on_stored,  # 3.1.5.8.7
        (SessionState.OPEN, do.SendMessage):                        _on_send,  # 3.1.7.1
        **dict.fromkeys(_rows(do.SendMessage, _NOT_OPEN), _on_send_closed),
        **dict.fromkeys(_rows(do.MessagesWaiting, _NOT_CLOSED), _on_waiting),
        **dict.fromkeys(_rows(do.NothingWaiting, _ALL), _on_nothing_waiting),
        **dict.fromkeys(_rows(TimerFired, _ALL), _on_timer),  # 3.1.6
        **dict.fromkeys(_rows(do.Stop, _ALL), _on_stop),  # 3.1.4.2
        **dict.fromkeys(_rows(do.CloseSession, _CONNECTED), _on_close),  # 3.1.5.9
        **dict.fromkeys(_rows(do.ConnectionLost, _CONNECTED), _on_connection_lost),  # 3.1.7.3
    }
    # fmt: on
    """Handler of the events in each state; a packet that is not listed closes the session."""
