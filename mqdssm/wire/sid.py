"""Security identifiers as values ([MS-DTYP] 2.4.2)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from mqdssm.wire.codecs import U8, U32, big_endian
from mqdssm.wire.fields import Const, Count, Items, Value
from mqdssm.wire.layout import Layout

SID_REVISION: Final = 1
SUBAUTHORITIES_MAX: Final = 15  # [MS-DTYP] 2.4.2.2
SID_HEADER_BYTES: Final = 8
SID_BYTES_MAX: Final = SID_HEADER_BYTES + 4 * SUBAUTHORITIES_MAX
AUTHORITY_MAX: Final = 2**48 - 1
AUTHORITY_DECIMAL_MAX: Final = 2**32 - 1  # larger ones are written in hexadecimal, [MS-DTYP] 2.4.2.1
SUBAUTHORITY_MAX: Final = 2**32 - 1

DOMAIN_USER_RID_GUEST: Final = 501  # [MS-SAMR] 2.2.1.14

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_HEX: Final = re.compile(r"0[xX][0-9A-Fa-f]{1,12}", re.ASCII)


def _parse_number(text: str, limit: int, whole: str) -> int:
    if _NUMBER.fullmatch(text):
        value = int(text)
    elif _HEX.fullmatch(text):
        value = int(text, 16)
    else:
        raise ValueError(f"no SID: {whole!r}: {text!r} is not a number")
    if value > limit:
        raise ValueError(f"no SID: {whole!r}: {text} is larger than {limit}")
    return value


@dataclass(frozen=True, slots=True)
class SidPacket:
    """The numbers of a SID's packet form, [MS-DTYP] 2.4.2.2."""

    authority: int
    subauthorities: tuple[int, ...]


SID_PACKET: Final = Layout(
    SidPacket,
    "[MS-DTYP] 2.4.2.2",
    Const("Revision", U8, SID_REVISION),
    Count("subauthorities", U8, "SubAuthorityCount", high=SUBAUTHORITIES_MAX),
    Value("authority", big_endian(6), "IdentifierAuthority"),
    Items("subauthorities", U32, "SubAuthority"),
)


@lru_cache(maxsize=1024)
def _split_parts(text: str) -> tuple[int, tuple[int, ...]]:
    pieces = text.split("-")
    if len(pieces) < 3 or pieces[0] not in {"S", "s"} or pieces[1] != "1":
        raise ValueError(f"no SID: {text!r}: expected S-1-authority-subauthority-...")
    if len(pieces) - 3 > SUBAUTHORITIES_MAX:
        raise ValueError(f"no SID: {text!r}: {len(pieces) - 3} subauthorities, at most {SUBAUTHORITIES_MAX}")
    authority = _parse_number(pieces[2], AUTHORITY_MAX, text)
    return authority, tuple(_parse_number(piece, SUBAUTHORITY_MAX, text) for piece in pieces[3:])


def _format_text(authority: int, subauthorities: tuple[int, ...]) -> str:
    head = str(authority) if authority <= AUTHORITY_DECIMAL_MAX else f"0x{authority:012X}"
    return "-".join(("S-1", head, *map(str, subauthorities)))


@dataclass(frozen=True, slots=True)
class Sid:
    """A security identifier, [MS-DTYP] 2.4.2.

    `Sid(text)` takes only the canonical text; `Sid.parse` also takes the forms of other programs.
    `bytes(sid)` is the packet form, `str(sid)` the text.

    Attributes:
        text: the canonical text, as ``S-1-5-32-544`` ([MS-DTYP] 2.4.2.1).

    Raises:
        ValueError: for text that is not canonical.
    """

    text: str

    def __post_init__(self) -> None:
        canonical = _format_text(*_split_parts(self.text))
        if canonical != self.text:
            raise ValueError(f"SID {self.text!r} is written {canonical}; Sid.parse accepts both")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read text in upper or lower case, with blanks around it allowed.

        Numbers have decimal or ``0x`` form.

        Raises:
            ValueError: for text that is no SID of revision 1.
        """
        return cls(_format_text(*_split_parts(text.strip(" "))))

    @classmethod
    def of(cls, authority: int, *subauthorities: int) -> Self:
        """Make a SID from its numbers, as ``Sid.of(5, 32, 544)``.

        Raises:
            ValueError: for a number out of range or more than 15 subauthorities.
        """
        return cls(_format_text(authority, subauthorities))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode the packet form ([MS-DTYP] 2.4.2.2).

        Subauthorities are little-endian. Bytes behind the SID are refused.

        Raises:
            DecodeError: for a truncated, longer or wrong packet.
        """
        packet = SID_PACKET.decode(data)
        return cls(_format_text(packet.authority, packet.subauthorities))

    @classmethod
    def read(cls, data: bytes, offset: int, end: int) -> tuple[Self, int]:
        """Decode the SID at `offset`; return it and the offset behind it.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """
        packet, end = SID_PACKET.read(data, offset, end)
        return cls(_format_text(packet.authority, packet.subauthorities)), end

    def __bytes__(self) -> bytes:
        return SID_PACKET.encode(SidPacket(*_split_parts(self.text)))

    def __str__(self) -> str:
        return self.text

    @property
    def authority(self) -> int:
        """The identifier authority, a 48-bit number ([MS-DTYP] 2.4.1)."""
        return _split_parts(self.text)[0]

    @property
    def subauthorities(self) -> tuple[int, ...]:
        """The subauthorities, 0 to 15 numbers of 32 bits."""
        return _split_parts(self.text)[1]

    @property
    def rid(self) -> int:
        """Last subauthority, which identifies the account within its domain.

        Raises:
            ValueError: for a SID without subauthorities.
        """
        subauthorities = self.subauthorities
        if not subauthorities:
            raise ValueError(f"{self} has no relative identifier")
        return subauthorities[-1]

    @property
    def domain(self) -> "Sid | None":
        """SID of the account's domain, S-1-5-21-a-b-c.

        None if this is no domain account.
        """
        authority, subauthorities = _split_parts(self.text)
        if authority == 5 and len(subauthorities) == 5 and subauthorities[0] == 21:
            return Sid.of(authority, *subauthorities[:-1])
        return None


NULL: Final = Sid("S-1-0-0")
EVERYONE: Final = Sid("S-1-1-0")
LOCAL: Final = Sid("S-1-2-0")
CREATOR_OWNER: Final = Sid("S-1-3-0")
CREATOR_GROUP: Final = Sid("S-1-3-1")
ANONYMOUS: Final = Sid("S-1-5-7")
ENTERPRISE_DOMAIN_CONTROLLERS: Final = Sid("S-1-5-9")
SELF: Final = Sid("S-1-5-10")
AUTHENTICATED_USERS: Final = Sid("S-1-5-11")
LOCAL_SYSTEM: Final = Sid("S-1-5-18")
LOCAL_SERVICE: Final = Sid("S-1-5-19")
NETWORK_SERVICE: Final = Sid("S-1-5-20")
BUILTIN_ADMINISTRATORS: Final = Sid("S-1-5-32-544")
BUILTIN_USERS: Final = Sid("S-1-5-32-545")
BUILTIN_GUESTS: Final = Sid("S-1-5-32-546")

WELL_KNOWN: Final[Mapping[str, Sid]] = {
    "NULL": NULL,
    "EVERYONE": EVERYONE,
    "LOCAL": LOCAL,
    "CREATOR_OWNER": CREATOR_OWNER,
    "CREATOR_GROUP": CREATOR_GROUP,
    "ANONYMOUS": ANONYMOUS,
    "ENTERPRISE_DOMAIN_CONTROLLERS": ENTERPRISE_DOMAIN_CONTROLLERS,
    "SELF": SELF,
    "AUTHENTICATED_USERS": AUTHENTICATED_USERS,
    "LOCAL_SYSTEM": LOCAL_SYSTEM,
    "LOCAL_SERVICE": LOCAL_SERVICE,
    "NETWORK_SERVICE": NETWORK_SERVICE,
    "BUILTIN_ADMINISTRATORS": BUILTIN_ADMINISTRATORS,
    "BUILTIN_USERS": BUILTIN_USERS,
    "BUILTIN_GUESTS": BUILTIN_GUESTS,
}
"""SIDs with the same meaning in every domain ([MS-DTYP] 2.4.2.4), by name."""
