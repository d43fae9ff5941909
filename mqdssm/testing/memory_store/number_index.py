"""Index of a partition's objects and tombstones by sequence number, in order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STALE_MAX: Final = 64
"""Limit of the numbers without entries that are kept, in addition to the number of entries."""


class NumberIndex(Generic[T]):
    """Entries by number.

    New numbers are mostly the highest ones; entries are removed anywhere.

    A number without entries stays in the list until there are many of them, so that adding and removing are
    as fast as in a dictionary. An authority should give each number once; if it does not, a number has
    several entries.
    """

    __slots__ = ("_entries", "_numbers")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[T, ...]] = {}
        self._numbers: list[int] = []  # ascending; some without entries

    def __bool__(self) -> bool:
        return bool(self._entries)

    def put(self, number: int, entry: T) -> None:
        """Add an entry."""
        self._entries[number] = (*self._entries.get(number, ()), entry)
        numbers = self._numbers
        if not numbers or number > numbers[-1]:
            numbers.append(number)
        else:
            place = bisect_left(numbers, number)
            if numbers[place] != number:
                numbers.insert(place, number)

    def remove(self, number: int, entry: T) -> None:
        """Remove an entry, which must exist."""
        entries = self._entries[number]
        if len(entries) > 1:
            self._entries[number] = tuple([other for other in entries if other is not entry])
            return
        del self._entries[number]
        if len(self._numbers) > 2 * len(self._entries) + STALE_MAX:
            self._numbers = sorted(self._entries)

    def list_at(self, number: int) -> tuple[T, ...]:
        """Return the entries of a number."""
        return self._entries.get(number, ())

    def find_highest(self) -> int:
        """Return the highest number; 0 if there is none."""
        numbers = self._numbers
        while numbers and numbers[-1] not in self._entries:
            numbers.pop()
        return numbers[-1] if numbers else 0

    def list_between(self, after: int, up_to: int) -> Iterator[tuple[int, tuple[T, ...]]]:
        """Yield numbers above `after`, up to `up_to`, ascending, with entries.

        Nothing may change meanwhile.
        """
        numbers, entries = self._numbers, self._entries
        for place in range(bisect_right(numbers, after), len(numbers)):
            number = numbers[place]
            if number > up_to:
                return
            entry = entries.get(number)
            if entry is not None:
                yield number, entry
