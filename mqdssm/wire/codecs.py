"""Codecs of single values: numbers, GUIDs, texts; the leaves of every layout.

A `Scalar` has a fixed size and is read together with its neighbours; a `Codec` has a variable size.
"""

import struct
from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from mqdssm.errors import DecodeError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.seqnum import SequenceNumber


def need(section: str, field: str, offset: int, size: int, end: int) -> None:
    """Refuse a field of `size` bytes at `offset` that does not fit before `end`.

    Raises:
        DecodeError: naming section, field, offset, bytes needed and bytes left.
    """
    if size > end - offset:
        raise DecodeError(section, field, offset, f"needs {size} bytes, {max(end - offset, 0)} left")


def finish(section: str, offset: int, end: int) -> None:
    """Refuse bytes behind the last field.

    Raises:
        DecodeError: naming the number of bytes left over.
    """
    if offset != end:
        raise DecodeError(section, "end", offset, f"{end - offset} bytes left over")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of fixed size.

    Attributes:
        name: name in messages and generated source.
        code: its little-endian `struct` code.
        size: size in bytes.
        load: converts the result of `struct` into the value; its ValueError explains a refusal.
        dump: converts the value for `struct`.
        width: size in bits, of a part of a number; it has neither code nor size in bytes.
    """

    name: str
    code: str
    size: int
    load: Callable[[Any], Any] | None = None
    dump: Callable[[Any], Any] | None = None
    width: int = 0


class Codec(Protocol):
    """A value of variable size.

    Protocols add kinds of their own, such as properties by their identifiers.
    """

    @property
    def least(self) -> int:
        """Size of the shortest value in bytes, at least 1."""

    def read(self, data: bytes, offset: int, end: int, section: str, field: str) -> tuple[Any, int]:
        """Decode the value at `offset`; return the value and the offset behind it.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """

    def write(self, value: Any) -> bytes:
        """Encode a value.

        Raises:
            ValueError: for a value that cannot be encoded.
        """


U8: Final = Scalar("U8", "B", 1)
U16: Final = Scalar("U16", "H", 2)
U32: Final = Scalar("U32", "I", 4)
U64: Final = Scalar("U64", "Q", 8)
I8: Final = Scalar("I8", "b", 1)
I16: Final = Scalar("I16", "h", 2)
I32: Final = Scalar("I32", "i", 4)
I64: Final = Scalar("I64", "q", 8)


def unsigned(width: int) -> Scalar:
    """Make the scalar for an unsigned number of `width` bits, a part of a number."""

    def dump(value: int) -> int:
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit in {width} bits")
        return int(value)

    return Scalar(f"{width} bits", "", 0, None, dump, width)


def big_endian(size: int) -> Scalar:
    """Make the scalar for an unsigned big-endian number of `size` bytes."""

    def load(value: bytes) -> int:
        return int.from_bytes(value, "big")

    def dump(value: int) -> bytes:
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"{value} is no unsigned {8 * size}-bit number")
        return value.to_bytes(size, "big")

    return Scalar(f"U{8 * size}BE", f"{size}s", size, load, dump)


def _load_guid(raw: bytes) -> UUID:
    return UUID(bytes_le=raw)


def _dump_guid(value: UUID) -> bytes:
    return value.bytes_le


GUID: Final = Scalar("GUID", "16s", 16, _load_guid, _dump_guid)
"""A GUID packet ([MS-DTYP] 2.3.4.2): three little-endian numbers and eight bytes in order."""


def _load_bool16(raw: int) -> bool:
    if raw not in {0, 0xFFFF}:
        raise ValueError(f"is {raw:#06x}, must be 0x0000 or 0xFFFF")
    return raw != 0


def _check_bool(value: bool) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r} is neither True nor False")
    return value


def _dump_bool16(value: bool) -> int:
    return 0xFFFF if _check_bool(value) else 0


BOOL16: Final = Scalar("BOOL16", "H", 2, _load_bool16, _dump_bool16)
"""VARIANT_BOOL ([MS-MQMQ] 2.2.14)."""


def _load_bool8(raw: int) -> bool:
    if raw > 1:
        raise ValueError(f"is {raw}, must be 0 or 1")
    return raw != 0


def _dump_bool8(value: bool) -> int:
    return int(_check_bool(value))


BOOL8: Final = Scalar("BOOL8", "B", 1, _load_bool8, _dump_bool8)
"""A byte that is 0 or 1, as IsSync0 ([MC-MQDSRP] 2.2.6.4)."""

BIT: Final = Scalar("BIT", "", 0, bool, _dump_bool8, width=1)
"""A bit of a number, True or False."""

_new_guid: Final = partial(bytes.__new__, Guid)


def _dump_packet(value: bytes) -> bytes:
    if len(value) != GUID_BYTES:
        raise ValueError(f"{value!r} is no GUID packet of {GUID_BYTES} bytes")
    return value


GUID_PACKET: Final = Scalar("GUID_PACKET", "16s", 16, _new_guid, _dump_packet)
"""Codec of a GUID packet ([MS-DTYP] 2.3.4.2) kept as bytes, for the most frequent messages."""

_new_number: Final = partial(int.__new__, SequenceNumber)
_from_bytes: Final = int.from_bytes


def _load_sequence(raw: bytes) -> SequenceNumber:
    number: SequenceNumber = _new_number(_from_bytes(raw, "big"))
    return number


def _dump_sequence(value: int) -> bytes:
    return (value if type(value) is SequenceNumber else SequenceNumber(value)).to_bytes(8, "big")


SEQUENCE_NUMBER: Final = Scalar("SEQUENCE_NUMBER", "8s", 8, _load_sequence, _dump_sequence)
"""SEQUENCE_NUMBER ([MC-MQDSRP] 2.2.2): its eighth byte is the least significant (decision R1)."""


def raw(size: int) -> Scalar:
    """Make the scalar for `size` unconverted bytes."""

    def dump(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"has {len(value)} bytes, must have {size}")
        return bytes(value)

    return Scalar(f"raw({size})", f"{size}s", size, bytes, dump)


def enum_of(number: Scalar, kind: type[IntEnum], *, keep_unknown: bool = False) -> Scalar:
    """Make the scalar for an enumeration.

    Unknown numbers are refused, or kept as plain numbers.
    """
    members: dict[int, int] = {int(member): member for member in kind}

    def load(value: int) -> int:
        member = members.get(value)
        if member is None and not keep_unknown:
            raise ValueError(f"is {value}, which is no {kind.__name__}")
        return value if member is None else member

    def dump(value: int) -> int:
        if value not in members and not keep_unknown:
            raise ValueError(f"{value!r} is not a valid {kind.__name__}")
        return int(value)

    return Scalar(f"{kind.__name__}:{number.name}", number.code, number.size, load, dump, number.width)


def dump_text16(text: str) -> bytes:
    """Encode text as UTF-16LE; lone surrogates are kept, as in Windows."""
    return utf_16_le_encode(text, "surrogatepass")[0]


def load_text16(units: bytes) -> str:
    """Decode UTF-16LE; keep lone surrogates, so that encoding gives the same bytes."""
    return utf_16_le_decode(units, "surrogatepass", True)[0]


@dataclass(frozen=True, slots=True)
class SizedBytes:
    """Bytes after their number, VT_BLOB ([MS-MQCN] 2.2.3.11).

    Attributes:
        size: codec of the number; unsigned.
        high: largest number of bytes.
    """

    size: Scalar
    high: int

    @property
    def least(self) -> int:
        """Size of the number in bytes."""
        return self.size.size

    def read(self, data: bytes, offset: int, end: int, section: str, field: str) -> tuple[bytes, int]:
        """Decode the number and the bytes.

        Raises:
            DecodeError: when they do not fit before `end`, or are too many.
        """
        at = offset + self.size.size
        need(section, field, offset, self.size.size, end)
        count = int.from_bytes(data[offset:at], "little")
        if count > self.high:
            raise DecodeError(section, field, offset, f"has {count} bytes, at most {self.high}")
        need(section, field, at, count, end)
        return data[at : at + count], at + count

    def write(self, value: bytes) -> bytes:
        """Encode the number and the bytes.

        Raises:
            ValueError: when they are too many.
            TypeError: not bytes.
        """
        packed = bytes(memoryview(value))
        if len(packed) > self.high:
            raise ValueError(f"has {len(packed)} bytes, at most {self.high}")
        return pack_one(self.size, len(packed)) + packed


@dataclass(frozen=True, slots=True)
class Counted:
    """Values after their number, VT_VECTOR ([MS-MQCN] 2.2.3.13): a tuple.

    Attributes:
        size: codec of the number; unsigned.
        element: codec of each value.
        high: largest number of values.
    """

    size: Scalar
    element: "Scalar | Codec"
    high: int

    @property
    def least(self) -> int:
        """Size of the number in bytes."""
        return self.size.size

    def read(
        self, data: bytes, offset: int, end: int, section: str, field: str
    ) -> tuple[tuple[Any, ...], int]:
        """Decode the number and the values.

        Raises:
            DecodeError: when they do not fit before `end`, are too many, or one of them is wrong.
        """
        at = offset + self.size.size
        need(section, field, offset, self.size.size, end)
        count = int.from_bytes(data[offset:at], "little")
        if count > self.high:
            raise DecodeError(section, field, offset, f"has {count} elements, at most {self.high}")
        element = self.element
        items = []
        if isinstance(element, Scalar):
            behind = at + count * element.size
            need(section, field, at, behind - at, end)
            for (item,) in struct.iter_unpack(f"<{element.code}", data[at:behind]):
                try:
                    items.append(item if element.load is None else element.load(item))
                except ValueError as error:
                    raise DecodeError(section, field, at + len(items) * element.size, str(error)) from None
            return tuple(items), behind
        need(section, field, at, count * element.least, end)
        for _ in range(count):
            value, at = element.read(data, at, end, section, field)
            items.append(value)
        return tuple(items), at

    def write(self, value: tuple[Any, ...]) -> bytes:
        """Encode the number and the values.

        Raises:
            ValueError: when they are too many, or one of them cannot be encoded.
            TypeError: not a tuple.
        """
        if not isinstance(value, tuple):
            raise TypeError(f"{value!r} is no tuple")
        if len(value) > self.high:
            raise ValueError(f"has {len(value)} elements, at most {self.high}")
        element = self.element
        if isinstance(element, Scalar):
            packed = [pack_one(element, item) for item in value]
        else:
            packed = [element.write(item) for item in value]
        return pack_one(self.size, len(value)) + b"".join(packed)


@dataclass(frozen=True, slots=True)
class Text16Z:
    """UTF-16LE text that ends with its first NUL, VT_LPWSTR ([MS-MQCN] 2.2.3.10).

    Attributes:
        units_max: largest number of UTF-16 units without the NUL.
    """

    units_max: int

    @property
    def least(self) -> int:
        """Size of the empty text in bytes: its NUL."""
        return 2

    def read(self, data: bytes, offset: int, end: int, section: str, field: str) -> tuple[str, int]:
        """Decode up to the first NUL unit.

        Raises:
            DecodeError: when no NUL stands before `end`, or the text is too long.
        """
        limit = min(end, offset + 2 * self.units_max + 2)
        at = data.find(b"\0\0", offset, limit)
        while at >= 0 and (at - offset) % 2:
            at = data.find(b"\0\0", at + 1, limit)
        if at < 0:
            need(section, field, offset, self.least, end)
            long = end - offset > 2 * self.units_max + 2
            problem = f"longer than {self.units_max} characters" if long else "no NUL at its end"
            raise DecodeError(section, field, offset, problem)
        return load_text16(data[offset:at]), at + 2

    def write(self, value: str) -> bytes:
        """Encode text and NUL.

        Raises:
            ValueError: when it holds a NUL or is too long.
        """
        units = dump_text16(value)
        if "\0" in value:
            raise ValueError("holds a NUL")
        if len(units) > 2 * self.units_max:
            raise ValueError(f"has {len(units) // 2} characters, at most {self.units_max}")
        return units + b"\0\0"


def pack_one(scalar: Scalar, value: Any) -> bytes:
    """Encode one scalar.

    Raises:
        ValueError: for a value that does not fit.
    """
    try:
        return struct.pack(f"<{scalar.code}", scalar.dump(value) if scalar.dump else value)
    except (struct.error, AttributeError, TypeError) as error:
        raise ValueError(f"{value!r} is no {scalar.name}: {error}") from None


def load_sized_text(units: bytes, *, terminated: bool, omitted: bool = False) -> str:
    """Decode UTF-16LE text of known size.

    With `omitted`, an empty text may have no bytes, not even its NUL.

    Raises:
        ValueError: for an odd size, a missing NUL at the end or a NUL before it.
    """
    if len(units) % 2:
        raise ValueError(f"has {len(units)} bytes, which is no whole number of UTF-16 units")
    if not terminated or (omitted and not units):
        return load_text16(units)
    text = load_text16(units)
    if not text.endswith("\0"):
        raise ValueError("has no NUL at its end")
    if "\0" in text[:-1]:
        raise ValueError("holds a NUL before its end")
    return text[:-1]


def dump_sized_text(text: str, *, terminated: bool, omitted: bool = False) -> bytes:
    """Encode text whose size is in another field.

    With `omitted`, an empty text has no bytes.

    Raises:
        ValueError: for a NUL in a text with a terminator.
    """
    if terminated and "\0" in text:
        raise ValueError("holds a NUL")
    return dump_text16(text + "\0" if terminated and (text or not omitted) else text)
