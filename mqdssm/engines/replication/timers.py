"""Timers of the replication engine: what each is for, and when it may run.

The driver knows a timer by its name alone, a text. A name stays the same over restarts of the server.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

TIMERS_CACHED: Final = 1024
"""Number of timers that are kept for their next use."""


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
        name: its name for the driver.
    """

    purpose: TimerPurpose
    key: str = ""
    name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = f"{self.purpose} {self.key}" if self.key else self.purpose.value
        object.__setattr__(self, "name", name)

    @staticmethod
    @lru_cache(maxsize=TIMERS_CACHED)
    def parse(name: str) -> "Timer":
        """Return the timer of a name.

        Raises:
            ValueError: no timer of this engine has that name.
        """
        purpose, _, key = name.partition(" ")
        return Timer(TimerPurpose(purpose), key)
