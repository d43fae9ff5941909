"""Bounded priority queue of messages with deadlines."""

import heapq
import math
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_SLACK: Final = 64
"""Number of stale heap entries beyond which the heaps are rebuilt."""


class _Entry(NamedTuple, Generic[T]):
    priority: int
    deadline: float  # infinite: none
    octets: int
    message: T


class MessageQueue(Generic[T]):
    """Queue of messages in the order of [MS-MQDMPR] 3.1.1.2.

    Messages of higher priority come first, then older ones.

    A message that is lent stays in the count and the octets of the queue, but has no deadline, until it is
    released or put back. Not thread-safe: its owner locks.

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
        self._held: Final[dict[int, _Entry[T]]] = {}
        self._lent: Final[dict[int, _Entry[T]]] = {}
        self._purged: Final[set[int]] = set()  # lent messages that the queue does not take back
        self._order: list[tuple[int, int]] = []
        self._deadlines: list[tuple[float, int]] = []

    @property
    def octets(self) -> int:
        """Octets of the messages, by `size`."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._held) + len(self._lent)

    def has_room(self, more: int, octets: int) -> bool:
        """Return True if one message fits behind `more` others.

        The message and the others have `octets` octets in all.
        """
        return len(self) + more < self._messages_max and self._bytes + octets <= self._bytes_max

    def put(self, message: T, priority: int, deadline: float | None) -> int | None:
        """Add a message with a deadline in seconds since 1970.

        Returns its number, or None if the queue is full.
        """
        octets = self._size(message)
        if not self.has_room(0, octets):
            return None
        self._next += 1
        entry = _Entry(priority, math.inf if deadline is None else deadline, octets, message)
        self._hold(self._next, entry)
        return self._next

    def take(self) -> tuple[int, T] | None:
        """Remove and return the first message with its number; None if there is none."""
        number = self._find_first()
        return None if number is None else (number, self._remove(number))

    def lend(self) -> tuple[int, T] | None:
        """Return the first message with its number, for `release` or `put_back`.

        None if there is no message.
        """
        number = self._find_first()
        if number is None:
            return None
        entry = self._lent[number] = self._held[number]
        self._remove(number)
        self._bytes += entry.octets
        return number, entry.message

    def release(self, number: int) -> None:
        """Remove a message that was lent."""
        self._bytes -= self._lent.pop(number).octets
        self._purged.discard(number)

    def put_back(self, number: int) -> bool:
        """Put a message that was lent in its old place.

        Returns False if the queue was cleared meanwhile.
        """
        entry, is_purged = self._lent[number], number in self._purged
        self.release(number)
        if not is_purged:
            self._hold(number, entry)
        return not is_purged

    def remove(self, number: int) -> T:
        """Remove and return the message with a number, which must be in the queue."""
        return self._remove(number)

    def remove_expired(self, now: float) -> list[T]:
        """Remove and return the messages whose deadline has passed."""
        gone = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = heapq.heappop(self._deadlines)
            if number in self._held:
                gone.append(self._remove(number))
        return gone

    def clear(self) -> list[T]:
        """Remove and return all messages; those that are lent are not put back any more."""
        gone = [entry.message for entry in self._held.values()]
        self._bytes -= sum(entry.octets for entry in self._held.values())
        self._purged.update(self._lent)
        self._held.clear()
        self._order.clear()
        self._deadlines.clear()
        return gone

    @property
    def deadline(self) -> float | None:
        """Earliest possible deadline in seconds since 1970.

        None if no message has a deadline.
        """
        return self._deadlines[0][0] if self._deadlines else None

    def _find_first(self) -> int | None:
        while self._order:
            _, number = heapq.heappop(self._order)
            if number in self._held:
                return number
        return None

    def _hold(self, number: int, entry: _Entry[T]) -> None:
        self._held[number] = entry
        self._bytes += entry.octets
        heapq.heappush(self._order, (-entry.priority, number))
        if entry.deadline < math.inf:
            heapq.heappush(self._deadlines, (entry.deadline, number))

    def _remove(self, number: int) -> T:
        entry = self._held.pop(number)
        self._bytes -= entry.octets
        stale = 2 * len(self._held) + _SLACK
        if len(self._deadlines) > stale:
            entries = self._held.items()
            self._deadlines = [(other.deadline, key) for key, other in entries if other.deadline < math.inf]
            heapq.heapify(self._deadlines)
        if len(self._order) > stale:
            self._order = [(-other.priority, key) for key, other in self._held.items()]
            heapq.heapify(self._order)
        return entry.message
