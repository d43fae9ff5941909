"""Bounded priority queue of messages with deadlines."""

import heapq
import math
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SLACK: Final = 64
"""Number of stale heap entries beyond which the heaps are rebuilt."""


class MessageQueue(Generic[T]):
    """Queue of messages in the order of [MS-MQDMPR] 3.1.1.2: higher priority first, then older ones.

    Not thread-safe: its owner locks.

    Args:
        messages_max: how many it holds.
        bytes_max: how many octets it holds, by `size`.
        size: octets of one.
    """

    def __init__(self, messages_max: int, bytes_max: int, size: Callable[[T], int]) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._size = size
        self._bytes = 0
        self._next = 0
        self._held: Final[dict[int, tuple[int, float, T]]] = {}
        self._order: list[tuple[int, int]] = []
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._held)

    def put(self, message: T, priority: int, deadline: float | None) -> int | None:
        """Add a message with a deadline in seconds since 1970; return its number, or None if full."""
        too_many = len(self._held) >= self._messages_max
        if too_many or self._bytes + self._size(message) > self._bytes_max:
            return None
        self._next += 1
        self._hold(self._next, priority, math.inf if deadline is None else deadline, message)
        return self._next

    def take(self) -> tuple[int, T] | None:
        """Remove and return the first message with its number for `put_back`; None if there is none."""
        while self._order:
            _, number = heapq.heappop(self._order)
            if number in self._held:
                return number, self._remove(number)
        return None

    def put_back(self, number: int, message: T, priority: int, deadline: float | None) -> None:
        """Put back a message that `take` returned, in its old place and without a check of the limits."""
        self._hold(number, priority, math.inf if deadline is None else deadline, message)

    def remove(self, number: int) -> None:
        """Remove the message with a number, which must be in the queue."""
        self._remove(number)

    def expired(self, now: float) -> list[T]:
        """Remove and return the messages whose deadline has passed."""
        gone = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = heapq.heappop(self._deadlines)
            if number in self._held:
                gone.append(self._remove(number))
        return gone

    def clear(self) -> list[T]:
        """Remove and return all messages."""
        gone = [message for _, _, message in self._held.values()]
        self._held.clear()
        self._order.clear()
        self._deadlines.clear()
        self._bytes = 0
        return gone

    @property
    def deadline(self) -> float | None:
        """Earliest possible deadline in seconds since 1970; None if no message has a deadline."""
        return self._deadlines[0][0] if self._deadlines else None

    def _hold(self, number: int, priority: int, deadline: float, message: T) -> None:
        self._held[number] = priority, deadline, message
        self._bytes += self._size(message)
        heapq.heappush(self._order, (-priority, number))
        if deadline < math.inf:
            heapq.heappush(self._deadlines, (deadline, number))

    def _remove(self, number: int) -> T:
        _, _, message = self._held.pop(number)
        self._bytes -= self._size(message)
        if len(self._deadlines) > 2 * len(self._held) + _SLACK:
            self._deadlines = [(due, key) for key, (_, due, _) in self._held.items() if due < math.inf]
            heapq.heapify(self._deadlines)
        if len(self._order) > 2 * len(self._held) + _SLACK:
            self._order = [(-priority, key) for key, (priority, _, _) in self._held.items()]
            heapq.heapify(self._order)
        return message
