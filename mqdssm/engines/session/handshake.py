"""Opening of a session: ping, connection, and packets of the handshake.

See [MS-MQQB] 3.1.5.2 to 3.1.5.4.
"""

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.core import UPTIME_BITS, SessionCore
from mqdssm.engines.session.settings import (
    ACK_WAIT_RANGE_MS,
    DIRECT_ACK_WAIT_FACTOR,
    PING_COOKIE_BITS,
    PING_RESPONSE_S,
    RECOVERABLE_ACK_RANGE_MS,
    ROUND_TRIPS,
)
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.guid import NULL_GUID
from mqdssm.model.packets import ConnectionParameters, EstablishConnection, Ping


def on_waiting(session: SessionCore, _event: do.MessagesWaiting) -> None:
    """Remember that messages wait ([MS-MQQB] 3.1.7.12)."""
    session.has_waiting = True


def on_waiting_closed(session: SessionCore, event: do.MessagesWaiting) -> None:
    """Establish a session, since messages wait ([MS-MQQB] 3.1.5.2)."""
    if not session.is_initiator or session.is_stopped:
        return
    on_waiting(session, event)
    if session.ping_cookies is None:
        session.connect()
    else:
        _send_ping(session, next(session.ping_cookies) & PING_COOKIE_BITS)


def on_nothing_waiting(session: SessionCore, _event: do.NothingWaiting) -> None:
    """Forget that messages wait: no session is needed for them."""
    session.has_waiting = False


def _send_ping(session: SessionCore, cookie: int) -> None:
    """Ask the neighbour if it would accept a session ([MS-MQQB] 3.1.7.6)."""
    session.ping_cookie = cookie
    session.state = SessionState.PINGING
    session.start(SessionTimer.PING_RESPONSE, PING_RESPONSE_S)
    settings = session.settings
    request = Ping(
        queue_manager=settings.identifier, cookie=cookie, is_client_class=not settings.is_server_class
    )
    session.actions.append(do.SendPing(ping=request))


def on_ping(session: SessionCore, event: do.PingReceived) -> None:
    """Connect after a positive ping response ([MS-MQQB] 3.1.7.8, 3.1.5.2.2)."""
    if event.ping.cookie != session.ping_cookie:
        session.drop("response to another ping request")
    elif event.ping.is_refused:
        session.close(CloseReason.NOT_PINGED, "refused")
    else:
        session.stop(SessionTimer.PING_RESPONSE)
        session.is_pinged = True
        session.connect()


def on_ping_timer(session: SessionCore) -> None:
    """Ping Response Timer Event ([MS-MQQB] 3.1.6.8)."""
    session.close(CloseReason.NOT_PINGED, "no answer")


def on_connected_initiator(session: SessionCore, _event: do.Connected) -> None:
    """Send an EstablishConnection request ([MS-MQQB] 3.1.5.2.3)."""
    session.send(
        EstablishConnection(
            client_guid=session.settings.identifier,
            server_guid=session.destination,
            time_stamp=session.measure_uptime_ms(),
            is_ping_skipped=not session.is_pinged,
            is_server_class=session.settings.is_server_class,
            is_refused=False,
        )
    )
    session.state = SessionState.WAITING_ECR
    session.start(SessionTimer.INITIALIZATION, session.settings.initialization_s)


def on_retry_timer(session: SessionCore) -> None:
    """Session Retry Connect Timer Event ([MS-MQQB] 3.1.6.1)."""
    session.state = SessionState.CLOSED
    if session.has_waiting:
        session.connect()


def on_neighbor_moved(session: SessionCore, event: do.NeighborHeard) -> None:
    """Leave an address that the neighbour does not have any more (decision T141)."""
    if event.is_elsewhere:
        session.close(CloseReason.MOVED)
    on_neighbor_heard(session, event)


def on_neighbor_heard(session: SessionCore, _event: do.NeighborHeard) -> None:
    """Connect as after a first failure: the neighbour works again (decision T70)."""
    session.failures = 0
    wait_s = max(session.attempted_at + session.settings.retry_connect_s - session.now, 0.0)
    due = session.timers.find_due_time(SessionTimer.RETRY_CONNECT)
    if due is not None and session.now + wait_s < due:
        session.start(SessionTimer.RETRY_CONNECT, wait_s)


def on_connected_acceptor(session: SessionCore, _event: do.Connected) -> None:
    """Wait for the request of the initiator ([MS-MQQB] 3.1.5.10)."""
    session.has_connection = True
    session.start(SessionTimer.INITIALIZATION, session.settings.initialization_s)
    session.start(SessionTimer.CLEANUP, session.settings.cleanup_s)


def on_establish_request(session: SessionCore, request: EstablishConnection) -> None:
    """Answer an EstablishConnection request ([MS-MQQB] 3.1.5.3.1)."""
    if request.is_refused:
        session.close(CloseReason.REFUSED)
        return
    identifier = session.settings.identifier
    is_refused = request.server_guid not in {identifier, NULL_GUID}
    session.remote_identifier = request.client_guid
    session.ack_wait_factor = DIRECT_ACK_WAIT_FACTOR if request.server_guid == NULL_GUID else 1
    session.send(
        EstablishConnection(
            client_guid=request.client_guid,
            server_guid=identifier,
            time_stamp=request.time_stamp,
            is_ping_skipped=request.is_ping_skipped,
            is_server_class=request.is_server_class,
            is_refused=is_refused,
        )
    )
    session.state = SessionState.WAITING_CP
    if is_refused:
        session.close(CloseReason.NOT_ADDRESSED, str(request.server_guid))


def on_establish_response(session: SessionCore, response: EstablishConnection) -> None:
    """Send ConnectionParameters after the EstablishConnection response.

    See [MS-MQQB] 3.1.5.3.2.
    """
    settings = session.settings
    is_direct = session.destination == NULL_GUID
    if response.is_refused:
        session.close(CloseReason.REFUSED, str(response.server_guid))
        return
    if response.client_guid != settings.identifier or not (
        is_direct or response.server_guid == session.destination
    ):
        session.close(CloseReason.WRONG_PEER, str(response.server_guid))
        return
    session.remote_identifier = response.server_guid  # decision T24
    session.ack_wait_factor = DIRECT_ACK_WAIT_FACTOR if is_direct else 1
    round_trip_ms = session.measure_uptime_ms() - response.time_stamp & UPTIME_BITS
    shortest, longest = RECOVERABLE_ACK_RANGE_MS[0], RECOVERABLE_ACK_RANGE_MS[-1]
    recoverable_ack_ms = min(max(round_trip_ms * ROUND_TRIPS, shortest), longest)
    session.recoverable_ack_s = recoverable_ack_ms / 1000
    session.send(
        ConnectionParameters(
            recoverable_ack_timeout_ms=recoverable_ack_ms,
            ack_timeout_ms=settings.ack_wait_ms,
            window_size=settings.window_size,
        )
    )
    session.state = SessionState.WAITING_CPR


def on_parameters_request(session: SessionCore, request: ConnectionParameters) -> None:
    """Take over the initiator's parameters ([MS-MQQB] 3.1.5.4.1).

    The session is then open.
    """
    if not _are_valid(session, request):
        return
    session.ack_wait_s = request.ack_timeout_ms / 1000
    session.recoverable_ack_s = request.recoverable_ack_timeout_ms / 1000
    session.send(
        ConnectionParameters(
            recoverable_ack_timeout_ms=request.recoverable_ack_timeout_ms,
            ack_timeout_ms=request.ack_timeout_ms,
            window_size=session.settings.window_size,
        )
    )
    _open(session, request)


def on_parameters_response(session: SessionCore, response: ConnectionParameters) -> None:
    """Open the session ([MS-MQQB] 3.1.5.4.2)."""
    if _are_valid(session, response):
        _open(session, response)


def _are_valid(session: SessionCore, parameters: ConnectionParameters) -> bool:
    """Close the session and return False if parameters are out of range.

    See [MS-MQQB] 2.2.2.1.
    """
    if parameters.is_refused:
        session.close(CloseReason.REFUSED)
        return False
    recoverable_ms, ack_ms = parameters.recoverable_ack_timeout_ms, parameters.ack_timeout_ms
    is_valid = recoverable_ms in RECOVERABLE_ACK_RANGE_MS and ack_ms in ACK_WAIT_RANGE_MS
    if not is_valid:
        session.close(CloseReason.OUT_OF_RANGE, f"{recoverable_ms} ms and {ack_ms} ms")
    return is_valid


def _open(session: SessionCore, parameters: ConnectionParameters) -> None:
    """Open the session: messages may be sent."""
    session.peer_window = max(1, parameters.window_size)  # decision T25
    session.stop(SessionTimer.INITIALIZATION)
    session.state = SessionState.OPEN
    session.actions.append(do.SessionOpened(remote_identifier=session.remote_identifier))


def on_initialization_timer(session: SessionCore) -> None:
    """Session Initialization Timer Event ([MS-MQQB] 3.1.6.6)."""
    session.close(CloseReason.NOT_ESTABLISHED, f"while {session.state}")
