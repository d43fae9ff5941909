"""Simulated time: what happens next."""

import heapq
from collections.abc import Callable


class Schedule:
    """A clock that stands still but for going to the next thing that was put on it.

    Attributes:
        now: seconds since the simulation began.
        ran: how many things happened.
    """

    __slots__ = ("_heap", "_order", "now", "ran")

    def __init__(self) -> None:
        self.now = 0.0
        self.ran = 0
        self._order = 0  # what is due at the same time happens in the order in which it was put here
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen in so many seconds (not negative)."""
        if seconds < 0:
            raise ValueError(f"{seconds} seconds lie in the past")
        self._order += 1
        heapq.heappush(self._heap, (self.now + seconds, self._order, action))

    def run_until(self, time: float) -> None:
        """Let everything happen that is due up to a time, and stand there."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.now, _, action = heapq.heappop(heap)
            self.ran += 1
            action()
        self.now = max(self.now, time)

    @property
    def waiting(self) -> int:
        """How many things are still to happen."""
        return len(self._heap)
