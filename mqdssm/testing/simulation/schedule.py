"""Simulated time: a queue of actions, ordered by time."""

import heapq
from collections.abc import Callable


class Schedule:
    """Simulated clock with a queue of actions.

    The time jumps from one action to the next.

    Attributes:
        now: seconds since the simulation began.
        ran: number of actions that were run.
    """

    __slots__ = ("_heap", "_order", "now", "ran")

    def __init__(self) -> None:
        self.now = 0.0
        self.ran = 0
        self._order = 0  # actions that are due at the same time run in the order of scheduling
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after a number of seconds (not negative)."""
        if seconds < 0:
            raise ValueError(f"{seconds} seconds lie in the past")
        self._order += 1
        heapq.heappush(self._heap, (self.now + seconds, self._order, action))

    def run_until(self, time: float) -> None:
        """Run all actions that are due up to a time, and set the clock to that time."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.now, _, action = heapq.heappop(heap)
            self.ran += 1
            action()
        self.now = max(self.now, time)

    @property
    def waiting(self) -> int:
        """Number of actions that have not run yet."""
        return len(self._heap)
