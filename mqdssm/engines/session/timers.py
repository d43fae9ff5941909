"""Timers of a session ([MS-MQQB] 3.1.2).

Each has a purpose, and states in which it may run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdssm.engines.actions import StartTimer, StopTimer, TimerFired


class SessionState(StrEnum):
    """SessionState ([MS-MQQB] 3.1.1.3.1)."""

    CLOSED = "CLOSED"
    """The session is closed; an initiator opens it when messages wait."""
    PINGING = "PINGING"
    """An initiator waits for a ping response; the specification has no name for it."""
    CONNECTING = "CONNECTING"
    """An initiator's transport is being connected; the specification has no name for it."""
    WAITING_EC = "WAITING_EC_MSG"
    """An acceptor waits for the EstablishConnection request."""
    WAITING_ECR = "WAITING_ECR_MSG"
    """An initiator waits for the EstablishConnection response."""
    WAITING_CP = "WAITING_CP_MSG"
    """An acceptor waits for the ConnectionParameters request."""
    WAITING_CPR = "WAITING_CPR_MSG"
    """An initiator waits for the ConnectionParameters response."""
    OPEN = "OPEN"
    """Messages are sent and received."""
    WAITING_RECONNECT = "WAITING_RECONNECT"
    """An initiator waits for the Session Retry Connect Timer."""


class SessionTimer(StrEnum):
    """Timer of a session, by its purpose.

    The value is the timer's name for the driver.
    """

    PING_RESPONSE = "ping response"
    """Give up a ping request (3.1.2.9)."""
    INITIALIZATION = "session initialization"
    """Give up a session that is not established (3.1.2.1)."""
    CLEANUP = "session cleanup"
    """Close an idle session (3.1.2.2)."""
    RETRY_CONNECT = "session retry connect"
    """Connect again (3.1.2.3)."""
    ACK_WAIT = "session ack wait"
    """Close a session whose peer acknowledges nothing (3.1.2.4): while messages are unacknowledged."""
    ACK_SEND = "session ack send"
    """Send a session acknowledgement (3.1.2.5): while received messages are unacknowledged."""


_ESTABLISHING: Final = frozenset(
    {
        SessionState.CONNECTING,
        SessionState.WAITING_EC,
        SessionState.WAITING_ECR,
        SessionState.WAITING_CP,
        SessionState.WAITING_CPR,
    }
)
_OPEN: Final = frozenset({SessionState.OPEN})
LEGAL_STATES: Final[Mapping[SessionTimer, frozenset[SessionState]]] = {
    SessionTimer.PING_RESPONSE: frozenset({SessionState.PINGING}),
    SessionTimer.INITIALIZATION: _ESTABLISHING,
    SessionTimer.CLEANUP: _ESTABLISHING | _OPEN,
    SessionTimer.RETRY_CONNECT: frozenset({SessionState.WAITING_RECONNECT}),
    SessionTimer.ACK_WAIT: _OPEN,
    SessionTimer.ACK_SEND: _OPEN,
}
"""States in which each timer may run."""


@dataclass(frozen=True, slots=True)
class _Period:
    """Running time of a timer, in monotonic seconds."""

    start: float
    end: float


class RunningTimers:
    """Timers of a session that run, with their times.

    A driver's early and outdated reports are kept away.
    """

    def __init__(self) -> None:
        self._periods: Final[dict[SessionTimer, _Period]] = {}

    def list_running(self) -> Iterable[SessionTimer]:
        """Return the timers that run."""
        return self._periods.keys()

    def find_due_time(self, timer: SessionTimer) -> float | None:
        """Return the time at which a timer runs out; None if it does not run."""
        period = self._periods.get(timer)
        return None if period is None else period.end

    def measure_elapsed_share(self, timer: SessionTimer, now: float) -> float:
        """Return how much of a timer has elapsed, from 0 to 1; 0 if it does not run."""
        period = self._periods.get(timer)
        if period is None or period.end <= period.start:
            return 0.0
        return (now - period.start) / (period.end - period.start)

    def start(self, timer: SessionTimer, after_s: float, now: float) -> StartTimer:
        """Start or restart a timer."""
        self._periods[timer] = _Period(now, now + after_s)
        return StartTimer(name=timer.value, after_s=after_s)

    def stop(self, timer: SessionTimer) -> list[StopTimer]:
        """Stop a timer, if it runs."""
        return [StopTimer(name=timer.value)] if self._periods.pop(timer, None) is not None else []

    def stop_all(self) -> list[StopTimer]:
        """Stop all timers."""
        stopped = [StopTimer(name=timer.value) for timer in self._periods]
        self._periods.clear()
        return stopped

    def expire(self, event: TimerFired, now: float) -> SessionTimer | StartTimer | None:
        """Return the timer that ran out, and end it.

        Returns:
            None if no such timer runs; the action that restarts it if it was reported too early.
        """
        timer = next((running for running in self._periods if running.value == event.name), None)
        if timer is None:
            return None
        period = self._periods[timer]
        if now < period.end:
            return StartTimer(name=timer.value, after_s=period.end - now)
        del self._periods[timer]
        return timer
