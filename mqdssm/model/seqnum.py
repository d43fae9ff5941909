"""Sequence numbers of directory changes ([MC-MQDSRP] 2.2.2)."""

import re
from operator import index
from typing import Final, Self

SEQUENCE_NUMBER_BYTES: Final = 8
_LAST: Final = 2 ** (8 * SEQUENCE_NUMBER_BYTES) - 1
_DIGITS: Final = re.compile(r"[0-9]{1,20}", re.ASCII)


class SequenceNumber(int):
    """Sequence number, SEQUENCE_NUMBER: eight bytes, big-endian.

    See [MC-MQDSRP] 2.2.2 and decision R1.
    An unsigned 64-bit number, also in comparisons; `str` gives decimal digits, `bytes` the big-endian bytes.
    `next`, `plus` and `minus` stay between `MIN` and `MAX` instead of wrapping (decisions R2, R22). `+` and
    `-` are those of `int`, and return an `int`.

    Raises:
        ValueError: the number is negative or needs more than 64 bits.
        TypeError: not a whole number.
    """

    __slots__ = ()

    def __new__(cls, number: int = 0) -> Self:
        """Check the range of the number."""
        number = index(number)
        if not 0 <= number <= _LAST:
            raise ValueError(f"{number} is no unsigned 64-bit number")
        return int.__new__(cls, number)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read decimal digits, as `str` writes them.

        Raises:
            ValueError: the text is something else, or the number too large.
        """
        if _DIGITS.fullmatch(text) is None:
            raise ValueError(f"{text!r} is no sequence number")
        return cls(int(text))

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """Read a sequence number from its eight bytes.

        Raises:
            ValueError: other than 8 bytes.
        """
        if len(packet) != SEQUENCE_NUMBER_BYTES:
            raise ValueError(f"a sequence number has {SEQUENCE_NUMBER_BYTES} bytes, not {len(packet)}")
        return int.__new__(cls, int.from_bytes(packet, "big"))

    def next(self) -> Self:
        """Return the following number, the specification's Increment; `MAX` stays `MAX`."""
        return self.plus(1)

    def plus(self, count: int) -> Self:
        """Return the number `count` (not negative) higher, at most `MAX`.

        The specification calls this Addition.
        """
        number = int.__add__(self, count)
        return type(self)(min(number, _LAST))

    def minus(self, count: int) -> Self:
        """Return the number `count` (not negative) lower, at least `MIN`.

        The result is a window's lower end (R2).
        """
        number = int.__sub__(self, count)
        return type(self)(max(number, 0))

    def __bytes__(self) -> bytes:
        return self.to_bytes(SEQUENCE_NUMBER_BYTES, "big")

    def __repr__(self) -> str:
        return f"SequenceNumber({int(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)

    __format__ = int.__format__


MIN: Final = SequenceNumber(0)
"""MIN_SEQ_NUMBER ([MC-MQDSRP] 2.2.2)."""
MAX: Final = SequenceNumber(_LAST)
"""MAX_SEQ_NUMBER ([MC-MQDSRP] 2.2.2)."""
