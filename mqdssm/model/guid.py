"""GUIDs in the form of the protocols ([MS-DTYP] 2.3.4.2).

A GUID is sixteen bytes, which are converted to text on demand.
"""

import re
from typing import Final, Self
from uuid import UUID

GUID_BYTES: Final = 16
_TEXT: Final = re.compile(r"(\{)?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?(1)\})", re.ASCII)


class Guid(bytes):
    """A GUID packet ([MS-DTYP] 2.3.4.2).

    The packet has three little-endian numbers and eight bytes in order.
    A Guid is a `bytes`: comparing, hashing and decoding are as fast as for bytes. Elements of the abstract
    model hold a `uuid.UUID`, which property `uuid` returns; it is never equal to a Guid.

    Raises:
        ValueError: other than 16 bytes.
    """

    __slots__ = ()

    def __new__(cls, packet: bytes) -> Self:
        """Check the length of the packet."""
        if len(packet) != GUID_BYTES:
            raise ValueError(f"a GUID has {GUID_BYTES} bytes, not {packet!r}")
        return bytes.__new__(cls, packet)

    @classmethod
    def of(cls, uuid: UUID) -> Self:
        """Make a Guid from a UUID."""
        return bytes.__new__(cls, uuid.bytes_le)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read 8-4-4-4-12 hexadecimal digits, in any case, with or without braces.

        Raises:
            ValueError: the text is something else.
        """
        if _TEXT.fullmatch(text) is None:
            raise ValueError(f"{text!r} is no GUID")
        return cls.of(UUID(text))

    @property
    def uuid(self) -> UUID:
        """The GUID as a `uuid.UUID`."""
        return UUID(bytes_le=bytes(self))

    def __str__(self) -> str:
        digits = self.hex()
        return (
            f"{digits[6:8]}{digits[4:6]}{digits[2:4]}{digits[:2]}-{digits[10:12]}{digits[8:10]}"
            f"-{digits[14:16]}{digits[12:14]}-{digits[16:20]}-{digits[20:]}"
        )

    def __repr__(self) -> str:
        return f"Guid.parse({str(self)!r})"


NULL_GUID: Final = Guid(bytes(GUID_BYTES))
"""GUID_NULL: the identifier of the enterprise partition, PEC_PARTITION_ID ([MC-MQDSRP] 1.9)."""
