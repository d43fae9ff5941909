"""What has which sequence number: an index of a partition's objects and tombstones, in order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STALE_MAX: Final = 64
"""Numbers without an entry that are kept anyway; beyond it, as many as there are entries."""


class NumberIndex(Generic[T]):
    """Entries by number. New numbers are mostly the highest, and old ones vanish anywhere.

    A number that lost its entries stays in the list until there are many such: so putting and removing cost
    no more than a dictionary does. Numbers are unique where the authority is sane; where it is not, nothing
    is lost here.
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
        """Take an entry away that is there."""
        left = tuple(one for one in self._entries[number] if one is not entry)
        if left:
            self._entries[number] = left
            return
        del self._entries[number]
        if len(self._numbers) > 2 * len(self._entries) + STALE_MAX:
            self._numbers = sorted(self._entries)

    def at(self, number: int) -> tuple[T, ...]:
        """The entries of a number."""
        return self._entries.get(number, ())

    def highest(self) -> int:
        """The highest number; 0 if there is none."""
        numbers = self._numbers
        while numbers and numbers[-1] not in self._entries:
            numbers.pop()
        return numbers[-1] if numbers else 0

    def between(self, after: int, up_to: int) -> Iterator[tuple[int, tuple[T, ...]]]:
        """Numbers above `after`, up to `up_to`, ascending, with their entries; nothing may change so long."""
        numbers, entries = self._numbers, self._entries
        for place in range(bisect_right(numbers, after), len(numbers)):
            number = numbers[place]
            if number > up_to:
                return
            found = entries.get(number)
            if found is not None:
                yield number, found
