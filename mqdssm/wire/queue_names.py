"""Names of queues in packets ([MS-MQMQ] 2.2.18.1.4, 2.2.18.1.5, 2.2.18.1.7)."""

from dataclasses import dataclass
from typing import Final

from mqdssm.errors import DecodeError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.packets import FormatNameElement, FormatNameType, PrivateQueueName
from mqdssm.wire.codecs import (
    GUID_PACKET,
    U16,
    U32,
    Text16Z,
    dump_sized_text,
    load_sized_text,
    need,
    pack_one,
)
from mqdssm.wire.fields import Value
from mqdssm.wire.layout import Layout

DIRECT_NAME_UNITS_MAX: Final = 0x7FFE
"""Longest direct format name in UTF-16 units: Count has 16 bits and counts bytes ([MS-MQMQ] 2.2.18.1.5.2)."""

PRIVATE_QUEUE_NAME: Final = Layout(
    PrivateQueueName,
    "[MS-MQMQ] 2.2.18.1.7.2",
    Value("queue_manager", GUID_PACKET, "SourceQueueManager"),
    Value("number", U32, "PrivateQueueIdentifier"),
)


@dataclass(frozen=True, slots=True)
class DirectQueueFormatName:
    """Codec of a direct format name: Count, text with a NUL, and padding.

    See [MS-MQMQ] 2.2.18.1.5.2.

    The padding goes to a multiple of 4 bytes from the beginning of the header. All names before it have such
    a size, so that it goes to a multiple from its own beginning, too.
    """

    @property
    def least(self) -> int:
        """Size of the empty name in bytes."""
        return 4

    def read(self, data: bytes, offset: int, end: int, section: str, field: str) -> tuple[str, int]:
        """Decode a name.

        Raises:
            DecodeError: no text with a NUL at its end alone, or it does not fit before `end`.
        """
        need(section, field, offset, 2, end)
        size = int.from_bytes(data[offset : offset + 2], "little")
        behind = offset + 2 + size
        need(section, field, offset + 2, size + -(2 + size) % 4, end)
        try:
            text = load_sized_text(data[offset + 2 : behind], terminated=True)
        except ValueError as error:
            raise DecodeError(section, field, offset + 2, str(error)) from None
        return text, behind + -(2 + size) % 4

    def write(self, value: str) -> bytes:
        """Encode a name.

        Raises:
            ValueError: a NUL in it, or too long.
        """
        units = dump_sized_text(value, terminated=True)
        if len(units) > 2 * (DIRECT_NAME_UNITS_MAX + 1):
            raise ValueError(f"has {len(units) // 2 - 1} characters, at most {DIRECT_NAME_UNITS_MAX}")
        return pack_one(U16, len(units)) + units + bytes(-(2 + len(units)) % 4)


DIRECT_NAME: Final = DirectQueueFormatName()
_LIST_TEXT: Final = Text16Z(DIRECT_NAME_UNITS_MAX)


@dataclass(frozen=True, slots=True)
class FormatNameList:
    """Codec of ElementCount, FormatNameList and its padding.

    See [MS-MQMQ] 2.2.20.2 and 2.2.18.1.4.

    Names of private queues and distribution lists begin at a multiple of 4 bytes, as the list itself.
    """

    @property
    def least(self) -> int:
        """Size of the empty list in bytes."""
        return 4

    def read(
        self, data: bytes, offset: int, end: int, section: str, field: str
    ) -> tuple[tuple[FormatNameElement, ...], int]:
        """Decode the number of names, and the names up to `end`.

        Raises:
            DecodeError: a wrong name, or names that do not fill the header.
        """
        need(section, "ElementCount", offset, 4, end)
        count = int.from_bytes(data[offset : offset + 4], "little")
        origin = at = offset + 4
        need(section, field, at, 4 * count, end)  # the shortest name has two bytes, and so has its type
        names = []
        for _ in range(count):
            element, at = _read_name(data, at, -(at + 2 - origin) % 4, (end, section, field))
            names.append(element)
        padding = -(at - origin) % 4
        return tuple(names), at + (padding if padding <= end - at else 0)

    def write(self, value: tuple[FormatNameElement, ...]) -> bytes:
        """Encode the names.

        Raises:
            ValueError: a name that cannot be encoded.
        """
        names = bytearray()
        for kind, name in value:
            names += pack_one(U16, kind)
            if kind in {FormatNameType.PRIVATE, FormatNameType.DISTRIBUTION_LIST}:
                names += bytes(-len(names) % 4)
            names += _encode_name(kind, name)
        return pack_one(U32, len(value)) + bytes(names) + bytes(-len(names) % 4)


def _read_name(
    data: bytes, at: int, padding: int, bounds: tuple[int, str, str]
) -> tuple[FormatNameElement, int]:
    """Decode a name and its padding.

    `padding` is the number of bytes from its type to the next multiple of 4.
    """
    end, section, field = bounds
    need(section, field, at, 2, end)
    number, at = int.from_bytes(data[at : at + 2], "little"), at + 2
    match number:
        case FormatNameType.DIRECT:
            text, behind = _LIST_TEXT.read(data, at, end, section, field)
            return FormatNameElement(FormatNameType.DIRECT, text), behind
        case FormatNameType.PRIVATE:
            need(section, field, at, padding, end)
            private, behind = PRIVATE_QUEUE_NAME.read(data, at + padding, end)
            return FormatNameElement(FormatNameType.PRIVATE, private), behind
        case FormatNameType.PUBLIC | FormatNameType.DISTRIBUTION_LIST:
            at += padding if number == FormatNameType.DISTRIBUTION_LIST else 0
            need(section, field, at, GUID_BYTES, end)
            behind = at + GUID_BYTES
            return FormatNameElement(FormatNameType(number), Guid(data[at:behind])), behind
    raise DecodeError(section, field, at - 2, f"FormatType is {number}, must be 1, 2, 3 or 6")


def _encode_name(kind: FormatNameType, name: Guid | PrivateQueueName | str) -> bytes:
    match kind, name:
        case FormatNameType.DIRECT, str():
            return _LIST_TEXT.write(name)
        case FormatNameType.PRIVATE, PrivateQueueName():
            return PRIVATE_QUEUE_NAME.encode(name)
        case FormatNameType.PUBLIC | FormatNameType.DISTRIBUTION_LIST, Guid():
            return bytes(name)
    raise ValueError(f"{name!r} is no name of the type {kind!r}")


FORMAT_NAMES: Final = FormatNameList()
