"""Limit of the number of changes per second."""

import time
from typing import Final

BURST_S: Final = 0.1
"""Seconds for which unused capacity is kept: a server that paused is not flooded afterwards."""


class Pace:
    """Rate limiter for changes.

    Args:
        rate: how many; None: all.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = time.monotonic()

    def take(self) -> bool:
        """Return True and count a change if one may be sent now."""
        if self._rate is None:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = max(self._next, now - BURST_S) + 1 / self._rate
        return True

    def wait(self) -> None:
        """Sleep until the next change may be sent."""
        left = self._next - time.monotonic()
        if self._rate is not None and left > 0:
            time.sleep(left)
