"""Choices that follow from names alone: the same on every machine and with every version of Python."""

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar
from uuid import UUID

T = TypeVar("T")

_DIGEST_BYTES: Final = 64
_SPARE_BITS: Final = 64  # with so many more bits than needed, no choice is noticeably likelier than another


class Dice:
    """Numbers drawn one after the other from a hash of some names.

    Not `random.Random`: of its methods only ``random()`` promises the same numbers in later versions, and
    making one for each object costs more than the object.

    Args:
        names: whom the choices belong to, as ``seed, "queue", 7``.
    """

    __slots__ = ("_bits", "_drawn", "_left", "_seed")

    def __init__(self, *names: object) -> None:
        self._seed = "/".join(map(str, names)).encode()
        self._drawn = 0
        self._bits = 0
        self._left = 0

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit - 1``."""
        size = limit.bit_length()
        if self._left < size + _SPARE_BITS:
            digest = hashlib.blake2b(self._seed, salt=self._drawn.to_bytes(16, "little"))
            self._bits = int.from_bytes(digest.digest(), "little")
            self._left = 8 * _DIGEST_BYTES
            self._drawn += 1
        self._bits, number = divmod(self._bits, limit)
        self._left -= size
        return number

    def one_in(self, count: int) -> bool:
        """True once in `count` times."""
        return self.below(count) == 0

    def of(self, items: Sequence[T]) -> T:
        """One of some items."""
        return items[self.below(len(items))]

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)


def guid(*names: object) -> UUID:
    """The GUID of something, by its names."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=16, person=b"mqdssm guid")
    return UUID(bytes=digest.digest(), version=4)


def octets(count: int, *names: object) -> bytes:
    """Bytes that follow from some names.

    Args:
        count: how many.
        names: whose they are.
    """
    return hashlib.shake_256("/".join(map(str, names)).encode()).digest(count)
