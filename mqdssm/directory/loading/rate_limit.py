"""A limit of changes a second."""

import time
from typing import Final

BURST_S: Final = 0.1
"""What was not used is kept for so long: a server that pauses is not flooded afterwards."""


class Pace:
    """Lets a number of changes go each second.

    Args:
        rate: how many; None: all.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = time.monotonic()

    def take(self) -> bool:
        """Whether one more may go now; it counts then."""
        if self._rate is None:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = max(self._next, now - BURST_S) + 1 / self._rate
        return True

    def wait(self) -> None:
        """Sleep until the next one may go."""
        left = self._next - time.monotonic()
        if self._rate is not None and left > 0:
            time.sleep(left)
