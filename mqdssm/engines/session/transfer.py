"""Messages and acknowledgements of an open session.

See [MS-MQQB] 3.1.5.5, 3.1.5.8, 3.1.6.4 and 3.1.7.1.
"""

from collections.abc import Sequence

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.core import SessionCore
from mqdssm.engines.session.settings import ACK_FLAGS, PIGGYBACK_SHARE
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.packets import SessionAck, SessionHeader


def send_capacity(session: SessionCore) -> int:
    """Return how many messages may be sent now (decision T25)."""
    if session.state is not SessionState.OPEN:
        return 0
    return max(0, min(session.settings.window_size, session.peer_window) - len(session.sent))


def on_send_closed(session: SessionCore, event: do.SendMessages) -> None:
    """Return messages that cannot be sent."""
    _return(session, event.messages)


def _return(session: SessionCore, messages: Sequence[do.NumberedMessage]) -> None:
    session.actions.append(do.MessagesReturned(numbers=tuple(message.number for message in messages)))


def on_send(session: SessionCore, event: do.SendMessages) -> None:
    """Send messages, the first one with an acknowledgement if one is due soon.

    See [MS-MQQB] 3.1.7.1 and 3.1.7.11.
    """
    capacity = send_capacity(session)
    messages, rest = event.messages[:capacity], event.messages[capacity:]
    if messages:
        session.has_waiting = False
        session.is_active = True
        _transmit(session, *messages)
        if session.timers.find_due_time(SessionTimer.ACK_WAIT) is None:
            _start_ack_wait(session)
    if rest:
        _return(session, rest)


def _transmit(session: SessionCore, first: do.NumberedMessage, *others: do.NumberedMessage) -> None:
    """Count and transmit messages.

    An acknowledgement in the first message counts that message alone (decision T32).
    """
    header, sent = None, session.sent
    sent.add(first)
    if session.timers.measure_elapsed_share(SessionTimer.ACK_SEND, session.now) > PIGGYBACK_SHARE:
        header = _make_acknowledgement(session)
    for message in others:
        sent.add(message)
    numbers = first.number, *(message.number for message in others)
    session.actions.append(do.TransmitMessages(numbers=numbers, session_header=header))


def _start_ack_wait(session: SessionCore) -> None:
    """Start the Session Ack Wait Timer ([MS-MQQB] 3.1.2.4)."""
    session.start(SessionTimer.ACK_WAIT, session.ack_wait_s * session.ack_wait_factor)


def on_session_ack(session: SessionCore, packet: SessionAck) -> None:
    """Process a SessionAck packet ([MS-MQQB] 3.1.5.5)."""
    _process(session, packet.session)


def _process(session: SessionCore, header: SessionHeader) -> None:
    """Process a SessionHeader ([MS-MQQB] 3.1.5.5)."""
    numbers = session.sent.acknowledge(header)
    if isinstance(numbers, CloseReason):
        session.close(numbers, str(header))
        return
    if numbers:
        session.failures = 0
        session.actions.append(do.MessagesAcknowledged(numbers=numbers))
    if not session.received.is_count_of(header):
        session.close(CloseReason.MISCOUNTED, str(header))
        return
    session.peer_window = max(1, header.window_size)  # decision T25
    if session.sent:
        _start_ack_wait(session)
    else:
        session.stop(SessionTimer.ACK_WAIT)
    _acknowledge_soon(session, session.ack_send_s)  # the window may be smaller than before


def on_message(session: SessionCore, event: do.MessageReceived) -> None:
    """Count and accept a message ([MS-MQQB] 3.1.5.8)."""
    received = session.received
    if event.is_recoverable and received.unstored >= session.settings.unstored_max:
        session.close(CloseReason.FLOODED, f"{received.unstored} messages")
        return
    session.is_active = True
    received.add(event.token, is_recoverable=event.is_recoverable)
    session.actions.append(do.AcceptMessage(token=event.token, is_recoverable=event.is_recoverable))
    if event.session_header is not None:
        _process(session, event.session_header)
    if session.state is SessionState.OPEN:
        _acknowledge_soon(session, session.ack_send_s)


def on_express(session: SessionCore, event: do.ExpressReceived) -> None:
    """Count express messages that are in their queues ([MS-MQQB] 3.1.5.8)."""
    session.is_active = True
    session.received.add_express(event.messages)
    _acknowledge_soon(session, session.ack_send_s)


def on_stored(session: SessionCore, event: do.MessageStored) -> None:
    """Acknowledge a recoverable message that is stored ([MS-MQQB] 3.1.5.8.7)."""
    if session.received.store(event.token):
        _acknowledge_soon(session, min(session.recoverable_ack_s, session.ack_send_s))  # decision T27


def _compute_half_window(session: SessionCore) -> int:
    """Number of messages that are acknowledged without delay (decision T26)."""
    return max(1, min(session.settings.window_size, session.peer_window) // 2)


def _acknowledge_soon(session: SessionCore, after_s: float) -> None:
    """Acknowledge received messages: now if there are enough, else after a time."""
    received, enough = session.received, _compute_half_window(session)
    if received.unacknowledged >= enough or received.stored >= min(enough, ACK_FLAGS):
        send_acknowledgements(session)
    elif received.unacknowledged or received.stored:
        due = session.timers.find_due_time(SessionTimer.ACK_SEND)
        if due is None or session.now + after_s < due:
            session.start(SessionTimer.ACK_SEND, after_s)


def send_acknowledgements(session: SessionCore) -> None:
    """Send SessionAck packets until all stored messages are acknowledged.

    See [MS-MQQB] 3.1.6.4.
    """
    while session.received.unacknowledged or session.received.stored:
        session.send(SessionAck(session=_make_acknowledgement(session)))


def _make_acknowledgement(session: SessionCore) -> SessionHeader:
    """Return the next acknowledgement (decision T33).

    With what it covers, nothing is due any more.
    """
    session.stop(SessionTimer.ACK_SEND)
    return session.received.acknowledge(session.sent, session.settings.window_size)


def on_ack_wait_timer(session: SessionCore) -> None:
    """Session Ack Wait Timer Event ([MS-MQQB] 3.1.6.3).

    The timer runs only while messages wait.
    """
    if not session.has_received:
        session.close(CloseReason.NOT_ACKNOWLEDGED, f"{len(session.sent)} messages")
        return
    session.has_received = False
    _start_ack_wait(session)


def on_ack_send_timer(session: SessionCore) -> None:
    """Session Ack Send Timer Event ([MS-MQQB] 3.1.6.4)."""
    send_acknowledgements(session)
