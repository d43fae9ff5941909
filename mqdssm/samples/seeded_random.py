"""Seeded random choices, reproducible on every machine.

The choices are the same with every version of Python.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar
from uuid import UUID

T = TypeVar("T")

_DIGEST_BYTES: Final = 64
_SPARE_BITS: Final = 64  # spare bits that make all choices practically equally likely


class SeededRandom:
    """Random numbers from a hash of some names.

    Not `random.Random`: only its method ``random()`` promises the same numbers in later versions, and an
    instance for each object costs more than the object.

    Args:
        names: the seed, as ``seed, "queue", 7``.
    """

    __slots__ = ("_bits", "_drawn", "_left", "_seed")

    def __init__(self, *names: object) -> None:
        self._seed = "/".join(map(str, names)).encode()
        self._drawn = 0
        self._bits = 0
        self._left = 0

    def draw_below(self, limit: int) -> int:
        """Draw a number from 0 to ``limit - 1``."""
        size = limit.bit_length()
        if self._left < size + _SPARE_BITS:
            digest = hashlib.blake2b(self._seed, salt=self._drawn.to_bytes(16, "little"))
            self._bits = int.from_bytes(digest.digest(), "little")
            self._left = 8 * _DIGEST_BYTES
            self._drawn += 1
        self._bits, number = divmod(self._bits, limit)
        self._left -= size
        return number

    def draw_one_in(self, count: int) -> bool:
        """Return True with a probability of 1 to `count`."""
        return self.draw_below(count) == 0

    def of(self, items: Sequence[T]) -> T:
        """Draw one of some items."""
        return items[self.draw_below(len(items))]

    def draw_between(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`, both included."""
        return low + self.draw_below(high - low + 1)


def compute_guid(*names: object) -> UUID:
    """Compute a GUID from some names."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=16, person=b"mqdssm guid")
    return UUID(bytes=digest.digest(), version=4)


def compute_octets(count: int, *names: object) -> bytes:
    """Compute bytes from some names.

    Args:
        count: number of bytes.
        names: the seed.
    """
    return hashlib.shake_256("/".join(map(str, names)).encode()).digest(count)
