"""State of a session, with actions of several handlers.

Handlers of several subjects connect, start timers and close.
"""

from collections.abc import Callable, Iterator
from typing import Final

from mqdssm.engines.actions import Dropped, Note
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.receive_window import ReceiveWindow
from mqdssm.engines.session.send_window import SendWindow
from mqdssm.engines.session.settings import RECOVERABLE_ACK_RANGE_MS, RETRY_JITTER, SessionSettings
from mqdssm.engines.session.timers import RunningTimers, SessionState, SessionTimer
from mqdssm.model.guid import Guid

UPTIME_BITS: Final = 0xFFFF_FFFF
"""Mask of EstablishConnectionHeader.TimeStamp."""
_UNREACHABLE: Final = frozenset({CloseReason.LOST, CloseReason.NOT_PINGED})
"""Reasons of which no connection is left that could be closed."""
_QUIET: Final = _UNREACHABLE | {CloseReason.STOPPED, CloseReason.IDLE, CloseReason.MOVED}
"""Reasons that call for nobody's attention."""


class SessionCore:
    """State of a session ([MS-MQQB] 3.1.1.3.1).

    Args:
        settings: of our queue manager.
        is_initiator: True for the end that connects.
        destination: QueueManager.Identifier of the neighbour; nil if it is unknown.
        chance: random numbers from 0 to 1.
        ping_cookies: numbers of ping requests; None to send none.

    Attributes:
        state: SessionState.
        now: time of the current event, in monotonic seconds.
        actions: of the current step.
        connection: number of the current or the last connection.
        has_waiting: True if messages wait for a session.
        attempted_at: time of the last attempt to connect, in monotonic seconds.
        remote_identifier: RemoteQMGuid, as the peer claims.
    """

    def __init__(
        self,
        settings: SessionSettings,
        *,
        is_initiator: bool,
        destination: Guid,
        chance: Callable[[], float],
        ping_cookies: Iterator[int] | None,
    ) -> None:
        self.ping_cookies: Final = ping_cookies
        self.ping_cookie = 0
        self.settings: Final = settings
        self.is_initiator: Final = is_initiator
        self.destination: Final = destination
        self.chance: Final = chance
        self.state = SessionState.CLOSED if is_initiator else SessionState.WAITING_EC
        self.timers: Final = RunningTimers()
        self.actions: list[do.Action] = []
        self.now = float("-inf")
        self.connection = 0
        self.has_connection = False
        self.is_stopped = False
        self.has_waiting = False
        self.failures = 0
        self.attempted_at = float("-inf")
        self.initialize()

    def initialize(self) -> None:
        """Set the state of a new session ([MS-MQQB] 3.1.3.2)."""
        settings = self.settings
        self.sent = SendWindow()
        self.received = ReceiveWindow()
        self.peer_window = settings.window_size
        self.ack_wait_s = settings.ack_wait_s
        self.ack_wait_factor = 1
        self.recoverable_ack_s = RECOVERABLE_ACK_RANGE_MS[0] / 1000
        self.is_active = False  # SessionActive
        self.has_received = False  # ReceivedAck
        self.is_pinged = False
        self.remote_identifier = self.destination

    def connect(self) -> None:
        """Connect to the neighbour ([MS-MQQB] 3.1.5.2)."""
        self.connection += 1
        self.attempted_at = self.now
        self.has_connection = True
        self.state = SessionState.CONNECTING
        self.start(SessionTimer.INITIALIZATION, self.settings.initialization_s)
        self.start(SessionTimer.CLEANUP, self.settings.cleanup_s)
        self.actions.append(do.Connect(connection=self.connection))

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Close the session ([MS-MQQB] 3.1.5.9)."""
        self.actions += self.timers.stop_all()
        if self.has_connection or reason in _UNREACHABLE:
            self.actions.append(
                Note(what=f"session closed: {reason}", detail=detail, is_warning=reason not in _QUIET)
            )
        if self.has_connection:
            self.has_connection = False
            self.actions.append(do.CloseConnection(connection=self.connection, reason=reason))
        numbers = self.sent.list_numbers()
        if numbers:
            self.actions.append(do.MessagesReturned(numbers=numbers))
        self.initialize()
        self.has_waiting = (self.has_waiting or bool(numbers)) and not self.is_stopped
        self.state = SessionState.CLOSED
        if self.is_initiator and self.has_waiting:
            self.state = SessionState.WAITING_RECONNECT
            self.start(SessionTimer.RETRY_CONNECT, self._retry_delay_s())

    def _retry_delay_s(self) -> float:
        """Return the time until the next attempt (decision T20).

        Each failure doubles it, with jitter.
        """
        settings = self.settings
        doublings = min(self.failures, 16)
        self.failures += 1
        delay_s = min(settings.retry_connect_s * (1 << doublings), settings.retry_connect_max_s)
        return delay_s * (1 + RETRY_JITTER * self.chance())

    @property
    def ack_send_s(self) -> float:
        """Time of the Session Ack Send Timer ([MS-MQQB] 3.1.2.5; decision T47)."""
        return min(self.ack_wait_s / 2, self.settings.ack_send_max_s)

    def drop(self, summary: str) -> None:
        """Ignore an event."""
        self.actions.append(Dropped(what=summary))

    def send(self, packet: do.InternalPacket) -> None:
        """Send a packet of the session itself."""
        self.actions.append(do.SendPacket(packet=packet))

    def start(self, timer: SessionTimer, after_s: float) -> None:
        """Start or restart a timer."""
        self.actions.append(self.timers.start(timer, after_s, self.now))

    def stop(self, timer: SessionTimer) -> None:
        """Stop a timer, if it runs."""
        self.actions += self.timers.stop(timer)

    def measure_uptime_ms(self) -> int:
        """Return the time stamp of now, in milliseconds ([MS-MQQB] 2.2.3.1)."""
        return int(self.now * 1000) & UPTIME_BITS
