"""Access control entries and lists as values ([MS-DTYP] 2.4.4 and 2.4.5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self
from uuid import UUID

from mqdssm.wire.codecs import U8, U16, finish, need
from mqdssm.wire.fields import FieldError, Ignored, Value
from mqdssm.wire.layout import Layout
from mqdssm.wire.masks import ACCESS_MASK_MAX
from mqdssm.wire.sid import Sid

SECTION_ACE: Final = "[MS-DTYP] 2.4.4.1"
SECTION_OBJECT_ACE: Final = "[MS-DTYP] 2.4.4.3"
SECTION_ACL: Final = "[MS-DTYP] 2.4.5"

ACE_HEADER_BYTES: Final = 4
ACL_HEADER_BYTES: Final = 8
ACL_BYTES_MAX: Final = 0xFFFF  # AclSize is a 16-bit number
ACE_BYTES_MAX: Final = (ACL_BYTES_MAX - ACL_HEADER_BYTES) & ~3  # an ACE has to fit into a list

ACL_REVISION: Final = 2
ACL_REVISION_DS: Final = 4  # needed by directory-object ACEs
_ACL_REVISIONS: Final = range(ACL_REVISION, ACL_REVISION_DS + 1)  # 3 was for compound ACEs


class AceType(IntEnum):
    """Kinds of entries, AceType ([MS-DTYP] 2.4.4.1); unknown numbers are kept."""

    ACCESS_ALLOWED = 0x00
    ACCESS_DENIED = 0x01
    SYSTEM_AUDIT = 0x02
    SYSTEM_ALARM = 0x03
    ACCESS_ALLOWED_COMPOUND = 0x04
    ACCESS_ALLOWED_OBJECT = 0x05
    ACCESS_DENIED_OBJECT = 0x06
    SYSTEM_AUDIT_OBJECT = 0x07
    SYSTEM_ALARM_OBJECT = 0x08
    ACCESS_ALLOWED_CALLBACK = 0x09
    ACCESS_DENIED_CALLBACK = 0x0A
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C
    SYSTEM_AUDIT_CALLBACK = 0x0D
    SYSTEM_ALARM_CALLBACK = 0x0E
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F
    SYSTEM_ALARM_CALLBACK_OBJECT = 0x10
    SYSTEM_MANDATORY_LABEL = 0x11
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12
    SYSTEM_SCOPED_POLICY_ID = 0x13


class AceFlags(IntFlag):
    """Inheritance and audit flags of an entry, AceFlags ([MS-DTYP] 2.4.4.1)."""

    OBJECT_INHERIT = 0x01
    CONTAINER_INHERIT = 0x02
    NO_PROPAGATE_INHERIT = 0x04
    INHERIT_ONLY = 0x08
    INHERITED = 0x10
    SUCCESSFUL_ACCESS = 0x40
    FAILED_ACCESS = 0x80


@dataclass(frozen=True, slots=True)
class AceHeader:
    """First fields of every entry, [MS-DTYP] 2.4.4.1.

    `size` is the size of the whole entry.
    """

    type: int
    flags: int
    size: int

    def __post_init__(self) -> None:
        if self.size % 4:
            raise FieldError("size", f"is {self.size}, must be a multiple of 4")


ACE_HEADER: Final = Layout(
    AceHeader,
    SECTION_ACE,
    Value("type", U8, "AceType"),
    Value("flags", U8, "AceFlags"),
    Value("size", U16, "AceSize", low=ACE_HEADER_BYTES, high=ACE_BYTES_MAX),
)


@dataclass(frozen=True, slots=True)
class AclHeader:
    """First fields of a list, [MS-DTYP] 2.4.5; `size` is the size of the whole list."""

    revision: int
    size: int
    count: int


ACL_HEADER: Final = Layout(
    AclHeader,
    SECTION_ACL,
    Value("revision", U8, "AclRevision", low=ACL_REVISION, high=ACL_REVISION_DS),
    Ignored("Sbz1", U8),
    Value("size", U16, "AclSize", low=ACL_HEADER_BYTES),
    Value("count", U16, "AceCount"),
    Ignored("Sbz2", U16),
)


# kinds whose body is a mask, [two GUIDs] and a SID; other bodies are kept as bytes
OBJECT_TYPES: Final = frozenset({0x05, 0x06, 0x07, 0x08, 0x0B, 0x0C, 0x0F, 0x10})
PLAIN_TYPES: Final = frozenset({0x00, 0x01, 0x02, 0x03, 0x09, 0x0A, 0x0D, 0x0E, 0x11, 0x12, 0x13})

_OBJECT_TYPE_PRESENT: Final = 0x1
_INHERITED_OBJECT_TYPE_PRESENT: Final = 0x2
_OBJECT_FLAGS: Final = _OBJECT_TYPE_PRESENT | _INHERITED_OBJECT_TYPE_PRESENT


def _has_opaque_body(ace_type: int, body: bytes) -> bool:
    """Return True if the layout of a body is unknown.

    A body with undefined object flags is one of these.
    """
    if ace_type in PLAIN_TYPES:
        return False
    if ace_type in OBJECT_TYPES:
        return len(body) >= 8 and bool(int.from_bytes(body[4:8], "little") & ~_OBJECT_FLAGS)
    return True


@dataclass(frozen=True, slots=True)
class Ace:
    """One access control entry, [MS-DTYP] 2.4.4.

    Attributes:
        type: an `AceType`, or an unknown number.
        flags: `AceFlags` bits.
        mask: 32-bit access mask ([MS-DTYP] 2.4.3); 0 where the body is opaque.
        sid: the trustee; None where the body is opaque.
        object_type: ObjectType of an object entry: a property set, class or extended right.
        inherited_object_type: InheritedObjectType of an object entry.
        data: the bytes after the SID (conditions, resource attributes, padding), or the whole opaque body.

    Raises:
        ValueError: for numbers out of range, or parts that do not fit the type.
    """

    type: int
    flags: int = 0
    mask: int = 0
    sid: Sid | None = None
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None
    data: bytes = b""

    def __post_init__(self) -> None:
        if not 0 <= self.type <= 0xFF or not 0 <= self.flags <= 0xFF:
            raise ValueError(f"ACE type {self.type} and flags {self.flags} must be numbers of one byte")
        if not 0 <= self.mask <= ACCESS_MASK_MAX:
            raise ValueError(f"access mask {self.mask:#x} is no 32-bit number")
        has_guid = self.object_type is not None or self.inherited_object_type is not None
        if has_guid and (self.sid is None or self.type not in OBJECT_TYPES):
            raise ValueError(f"an ACE of type {self.type:#x} has no object type")
        if self.sid is None and (self.mask or not _has_opaque_body(self.type, self.data)):
            raise ValueError(f"an ACE of type {self.type:#x} needs a SID")
        if self.sid is not None and self.type not in OBJECT_TYPES | PLAIN_TYPES:
            raise ValueError(f"an ACE of type {self.type:#x} has an opaque body, no mask and no SID")
        if len(self.data) % 4 or self.size > ACE_BYTES_MAX:
            raise ValueError(f"an ACE of {self.size} bytes: must be a multiple of 4, at most {ACE_BYTES_MAX}")

    @property
    def size(self) -> int:
        """AceSize: size of the whole entry in bytes."""
        if self.sid is None:
            return ACE_HEADER_BYTES + len(self.data)
        guids = (self.object_type is not None) + (self.inherited_object_type is not None)
        objects = 4 + 16 * guids if self.type in OBJECT_TYPES else 0
        return ACE_HEADER_BYTES + 4 + objects + 8 + 4 * len(self.sid.subauthorities) + len(self.data)

    @property
    def inherited(self) -> bool:
        """True if the entry was inherited from the parent object."""
        return bool(self.flags & AceFlags.INHERITED)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode one entry, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong entry.
        """
        ace, end = cls.read(data, 0, len(data))
        finish(SECTION_ACE, end, len(data))
        return ace

    @classmethod
    def read(cls, data: bytes, offset: int, end: int) -> tuple[Self, int]:
        """Decode the entry at `offset`; return it and the offset behind it.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """
        header, start = ACE_HEADER.read(data, offset, end)
        need(SECTION_ACE, "AceSize", offset, header.size, end)
        ace_type, flags, end = header.type, header.flags, offset + header.size
        if _has_opaque_body(ace_type, data[start:end]):
            return cls(ace_type, flags, data=data[start:end]), end
        need(SECTION_ACE, "Mask", start, 4, end)
        mask = int.from_bytes(data[start : start + 4], "little")
        start += 4
        object_type = inherited_object_type = None
        if ace_type in OBJECT_TYPES:
            object_type, inherited_object_type, start = _read_object_types(data, start, end)
        sid, start = Sid.read(data, start, end)
        return cls(ace_type, flags, mask, sid, object_type, inherited_object_type, data[start:end]), end

    def __bytes__(self) -> bytes:
        pieces = [ACE_HEADER.encode(AceHeader(self.type, self.flags, self.size))]
        if self.sid is not None:
            pieces.append(self.mask.to_bytes(4, "little"))
            if self.type in OBJECT_TYPES:
                pieces.append(self._encode_object_types())
            pieces.append(bytes(self.sid))
        pieces.append(self.data)
        return b"".join(pieces)

    def _encode_object_types(self) -> bytes:
        flags, guids = 0, b""
        if self.object_type is not None:
            flags, guids = _OBJECT_TYPE_PRESENT, self.object_type.bytes_le
        if self.inherited_object_type is not None:
            flags, guids = flags | _INHERITED_OBJECT_TYPE_PRESENT, guids + self.inherited_object_type.bytes_le
        return flags.to_bytes(4, "little") + guids


def _read_object_types(data: bytes, offset: int, end: int) -> tuple[UUID | None, UUID | None, int]:
    need(SECTION_OBJECT_ACE, "Flags", offset, 4, end)
    flags = int.from_bytes(data[offset : offset + 4], "little")
    offset += 4
    guids: list[UUID | None] = []
    for bit, field in (
        (_OBJECT_TYPE_PRESENT, "ObjectType"),
        (_INHERITED_OBJECT_TYPE_PRESENT, "InheritedObjectType"),
    ):
        if not flags & bit:
            guids.append(None)
            continue
        need(SECTION_OBJECT_ACE, field, offset, 16, end)
        guids.append(UUID(bytes_le=data[offset : offset + 16]))
        offset += 16
    return guids[0], guids[1], offset


def allow(sid: Sid, mask: int, flags: int = 0) -> Ace:
    """Make an entry that grants `mask` to `sid` ([MS-DTYP] 2.4.4.2)."""
    return Ace(AceType.ACCESS_ALLOWED, flags, int(mask), sid)


def deny(sid: Sid, mask: int, flags: int = 0) -> Ace:
    """Make an entry that denies `mask` to `sid` ([MS-DTYP] 2.4.4.4)."""
    return Ace(AceType.ACCESS_DENIED, flags, int(mask), sid)


def allow_object(
    sid: Sid, mask: int, object_type: UUID | None, inherited_object_type: UUID | None = None, flags: int = 0
) -> Ace:
    """Make an entry that grants `mask` on one object type ([MS-DTYP] 2.4.4.3).

    The type is a property set, a class or an extended right.
    """
    return Ace(AceType.ACCESS_ALLOWED_OBJECT, flags, int(mask), sid, object_type, inherited_object_type)


@dataclass(frozen=True, slots=True)
class Acl:
    """A list of entries in stored order, [MS-DTYP] 2.4.5.

    Attributes:
        aces: the entries; an empty list grants nothing.
        revision: 2, or 4 if an entry is for directory objects.

    Raises:
        ValueError: for another revision, or a list longer than 65535 bytes.
    """

    aces: tuple[Ace, ...] = ()
    revision: int = ACL_REVISION

    def __post_init__(self) -> None:
        if self.revision not in _ACL_REVISIONS:
            raise ValueError(f"ACL revision {self.revision}: must be 2, 3 or 4")
        if self.size > ACL_BYTES_MAX:
            raise ValueError(f"an ACL of {self.size} bytes, at most {ACL_BYTES_MAX}")

    @classmethod
    def of(cls, aces: Iterable[Ace]) -> Self:
        """Make a list with the revision that its entries need.

        Raises:
            ValueError: when it is longer than 65535 bytes.
        """
        entries = tuple(aces)
        needs_ds = any(ace.type in OBJECT_TYPES for ace in entries)
        return cls(entries, ACL_REVISION_DS if needs_ds else ACL_REVISION)

    @property
    def size(self) -> int:
        """AclSize: size of header and entries in bytes."""
        return ACL_HEADER_BYTES + sum(ace.size for ace in self.aces)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode one list, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong list.
        """
        acl, end = cls.read(data, 0, len(data))
        finish(SECTION_ACL, end, len(data))
        return acl

    @classmethod
    def read(cls, data: bytes, offset: int, end: int) -> tuple[Self, int]:
        """Decode the list at `offset`; return it and the offset behind it.

        Free space behind the last entry, which Windows may leave, and the two Sbz fields are ignored.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """
        header, start = ACL_HEADER.read(data, offset, end)
        need(SECTION_ACL, "AclSize", offset, header.size, end)
        end = offset + header.size
        aces: list[Ace] = []
        for _ in range(header.count):
            ace, start = Ace.read(data, start, end)
            aces.append(ace)
        return cls(tuple(aces), header.revision), end

    def __bytes__(self) -> bytes:
        head = ACL_HEADER.encode(AclHeader(self.revision, self.size, len(self.aces)))
        return head + b"".join(map(bytes, self.aces))
