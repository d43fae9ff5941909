"""Timers of the replication engine: what each is for, and when it may run.

The driver knows a timer by its name alone, a text. A name stays the same over restarts of the server.
"""

from dataclasses import dataclass
from enum import StrEnum


class TimerPurpose(StrEnum):
    """Purpose of a timer; its value is the first word of the timer's name.

    All timers but START run only after the start has succeeded.
    """

    START = "start"
    """Start again after a failed start: only until a start has succeeded."""
    AGAIN = "again"
    """Complete work that failed (decisions R83, R103)."""
    PROPAGATE = "propagate"
    """Send a neighbour what waits for it (3.3.6.1): as long as the server is a neighbour."""
    BSC_ACK = "bscack"
    """Acknowledge to the PSC that we are alive (3.3.6.2): as long as we are a BSC."""
    SYNC = "sync"
    """Repeat a synchronization request: while it has no reply, and the partition is another owner's."""
    REQUEST = "request"
    """End a change request without a reply (3.3.7.1): while the reply is missing."""
    FORGET = "forget"
    """Remove old outcomes of change requests; a timer, since a clock may be set: while there are any."""
    QUIET = "quiet"
    """End the time after our start in which requests of others are dropped: once (decision R33)."""
    CLAIM = "claim"
    """Write our role and name into the objects again: while they lack them."""
    FOREIGN = "foreign"
    """Look for changes of other programs (decision R112): always, unless the setting is 0."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer.

    Attributes:
        purpose: what it is for.
        key: the neighbour, partition or request that it belongs to; empty if there is one of its purpose.
    """

    purpose: TimerPurpose
    key: str = ""

    def __str__(self) -> str:
        return f"{self.purpose} {self.key}" if self.key else self.purpose.value

    @classmethod
    def parse(cls, name: str) -> "Timer":
        """Return the timer of a name.

        Raises:
            ValueError: no timer of this engine has that name.
        """
        purpose, _, key = name.partition(" ")
        return cls(TimerPurpose(purpose), key)
