"""A session between two queue managers as a state machine.

See [MS-MQQB] 3.1.5 to 3.1.7.

An acceptor's session lasts as long as its connection. An initiator's session opens a connection when messages
wait, and another one after a failure. The table of handlers lists the events that each state handles. A
packet that the state does not handle closes the session; another event is dropped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Self, TypeAlias, get_args

from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session import handshake, transfer
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.core import SessionCore
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.engines.session.timers import LEGAL_STATES, SessionState, SessionTimer
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packets import ConnectionParameters, EstablishConnection, Ping, SessionAck

Handler: TypeAlias = Callable[[SessionCore, Any], None]
"""Any stands for the event of the row."""
_EventOfConnection: TypeAlias = (
    do.Connected | do.ConnectionLost | do.PacketReceived | do.MessageReceived | do.ExpressReceived
)
_OF_CONNECTION: Final = get_args(_EventOfConnection)
_PACKETS: Final = frozenset(
    {EstablishConnection, ConnectionParameters, SessionAck, do.MessageReceived, do.ExpressReceived}
)
"""Kinds of events that a peer causes."""
_ALL: Final = frozenset(SessionState)
_NOT_OPEN: Final = _ALL - {SessionState.OPEN}
_NOT_CLOSED: Final = _ALL - {SessionState.CLOSED}
_CONNECTED: Final = _ALL - {SessionState.CLOSED, SessionState.PINGING, SessionState.WAITING_RECONNECT}
"""States with a connection, or with an attempt to connect."""
_INITIATED: Final = _CONNECTED - {SessionState.WAITING_EC, SessionState.WAITING_CP}
"""The same, of an initiator."""


class MessageSession:
    """Session with a neighbour, of its initiator or its acceptor.

    Use `initiate` or `accept`. After each step a driver sends waiting messages while `send_capacity` is not
    0; if messages still wait, it passes `MessagesWaiting`.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core: Final = core

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
            SessionCore(
                settings,
                is_initiator=True,
                destination=destination,
                chance=chance,
                ping_cookies=ping_cookies,
            )
        )

    @classmethod
    def accept(cls, settings: SessionSettings) -> Self:
        """Return the session of an acceptor, for one connection.

        The first event is `Connected`.
        """
        return cls(
            SessionCore(
                settings,
                is_initiator=False,
                destination=NULL_GUID,
                chance=lambda: 0.0,
                ping_cookies=None,
            )
        )

    @property
    def state(self) -> SessionState:
        """SessionState."""
        return self._core.state

    @property
    def remote_identifier(self) -> Guid:
        """RemoteQMGuid; the nil GUID until it is known.

        The peer claims it: it is no proof.
        """
        return self._core.remote_identifier

    @property
    def send_capacity(self) -> int:
        """Number of messages that may be sent now: 0 unless the session is open."""
        return transfer.send_capacity(self._core)

    @property
    def unacknowledged(self) -> int:
        """Number of sent messages that the peer has not acknowledged."""
        return len(self._core.sent)

    @property
    def may_read(self) -> bool:
        """True if the driver may read from the connection.

        While too many messages wait to be stored, nothing is read.
        """
        return self._core.received.unstored < max(1, self._core.settings.unstored_max // 2)

    def step(self, event: do.Event, now: float) -> list[do.Action]:
        """Handle one event.

        Args:
            event: what happened.
            now: monotonic seconds; never less than before.

        Returns:
            The actions, in order.
        """
        core = self._core
        assert now >= core.now, "the driver's clock goes backwards"  # noqa: S101  a belief, not data
        core.now, core.actions = now, []
        subject = event.packet if isinstance(event, do.PacketReceived) else event
        kind = type(subject)
        handler = _HANDLERS.get((core.state, kind))
        if isinstance(event, _OF_CONNECTION) and _is_of_other_connection(core, event):
            core.drop("event of another connection")
        elif handler is not None:
            core.has_received |= kind in _PACKETS
            handler(core, subject)
        elif kind in _PACKETS:
            core.close(CloseReason.UNEXPECTED, f"{kind.__name__} while {core.state}")
        else:
            core.drop(f"{kind.__name__} while {core.state}")
        for timer in core.timers.list_running():
            assert core.state in LEGAL_STATES[timer], f"{timer} while {core.state}"  # noqa: S101  a belief
        return core.actions


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


def _is_of_other_connection(session: SessionCore, event: _EventOfConnection) -> bool:
    return event.connection != session.connection or session.state not in _CONNECTED


# --- events of every state


def _on_connection_lost(session: SessionCore, event: do.ConnectionLost) -> None:
    """Handle a network disconnect ([MS-MQQB] 3.1.7.3)."""
    session.has_connection = False
    session.close(CloseReason.LOST, event.reason)


def _on_close(session: SessionCore, event: do.CloseSession) -> None:
    """Close the session for the driver ([MS-MQQB] 3.1.5.1.3, 3.1.5.8.8)."""
    session.close(CloseReason.DRIVER, event.detail)


def _on_stop(session: SessionCore, _event: do.Stop) -> None:
    """Queue Manager Stopped Event: acknowledge what arrived, close the session.

    See [MS-MQQB] 3.1.4.2.
    """
    session.is_stopped = True
    if session.state is SessionState.OPEN:
        transfer.send_acknowledgements(session)
    session.close(CloseReason.STOPPED)


def _on_cleanup_timer(session: SessionCore) -> None:
    """Session Cleanup Timer Event ([MS-MQQB] 3.1.6.2)."""
    if not session.is_active:
        session.has_waiting = False  # else it would have been sent
        session.close(CloseReason.IDLE)
        return
    session.is_active = False
    session.start(SessionTimer.CLEANUP, session.settings.cleanup_s)


def _on_timer(session: SessionCore, event: TimerFired) -> None:
    timer = session.timers.expire(event, session.now)
    if timer is None:
        session.drop("timer that does not run")
    elif isinstance(timer, StartTimer):
        session.actions.append(timer)
    else:
        _TIMERS[timer](session)


def _list_keys(kind: type, states: Iterable[SessionState]) -> list[tuple[SessionState, type]]:
    """Return the keys of a handler's rows for an event.

    Several states handle the event alike.
    """
    return [(state, kind) for state in states]


_TIMERS: Final[Mapping[SessionTimer, Callable[[SessionCore], None]]] = {
    SessionTimer.PING_RESPONSE: handshake.on_ping_timer,
    SessionTimer.INITIALIZATION: handshake.on_initialization_timer,
    SessionTimer.CLEANUP: _on_cleanup_timer,
    SessionTimer.RETRY_CONNECT: handshake.on_retry_timer,
    SessionTimer.ACK_WAIT: transfer.on_ack_wait_timer,
    SessionTimer.ACK_SEND: transfer.on_ack_send_timer,
}
"""Handler of each timer."""
# fmt: off
_HANDLERS: Final[Mapping[tuple[SessionState, type], Handler]] = {
    (SessionState.CLOSED, do.MessagesWaiting):                  handshake.on_waiting_closed,  # 3.1.5.2
    (SessionState.PINGING, do.PingReceived):                    handshake.on_ping,  # 3.1.7.8
    (SessionState.WAITING_RECONNECT, do.NeighborHeard):         handshake.on_neighbor_heard,  # decision T70
    (SessionState.CONNECTING, do.Connected):                    handshake.on_connected_initiator,  # 3.1.5.2.3
    (SessionState.WAITING_EC, do.Connected):                    handshake.on_connected_acceptor,  # 3.1.5.10
    (SessionState.WAITING_EC, EstablishConnection):             handshake.on_establish_request,  # 3.1.5.3.1
    (SessionState.WAITING_ECR, EstablishConnection):            handshake.on_establish_response,  # 3.1.5.3.2
    (SessionState.WAITING_CP, ConnectionParameters):            handshake.on_parameters_request,  # 3.1.5.4.1
    (SessionState.WAITING_CPR, ConnectionParameters):           handshake.on_parameters_response,  # 3.1.5.4.2
    (SessionState.OPEN, SessionAck):                            transfer.on_session_ack,  # 3.1.5.5
    (SessionState.OPEN, do.MessageReceived):                    transfer.on_message,  # 3.1.5.8
    (SessionState.OPEN, do.ExpressReceived):                    transfer.on_express,  # 3.1.5.8
    (SessionState.OPEN, do.MessageStored):                      transfer.on_stored,  # 3.1.5.8.7
    (SessionState.OPEN, do.SendMessages):                       transfer.on_send,  # 3.1.7.1
    **dict.fromkeys(_list_keys(do.SendMessages, _NOT_OPEN), transfer.on_send_closed),
    **dict.fromkeys(_list_keys(do.NeighborHeard, _INITIATED), handshake.on_neighbor_moved),  # decision T141
    **dict.fromkeys(_list_keys(do.MessagesWaiting, _NOT_CLOSED), handshake.on_waiting),
    **dict.fromkeys(_list_keys(do.NothingWaiting, _ALL), handshake.on_nothing_waiting),
    **dict.fromkeys(_list_keys(TimerFired, _ALL), _on_timer),  # 3.1.6
    **dict.fromkeys(_list_keys(do.Stop, _ALL), _on_stop),  # 3.1.4.2
    **dict.fromkeys(_list_keys(do.CloseSession, _CONNECTED), _on_close),  # 3.1.5.9
    **dict.fromkeys(_list_keys(do.ConnectionLost, _CONNECTED), _on_connection_lost),  # 3.1.7.3
}
# fmt: on
"""Handler of the events in each state; a packet that is not listed closes the session."""
