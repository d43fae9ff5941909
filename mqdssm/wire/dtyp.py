"""Security descriptors as values ([MS-DTYP] 2.4.6), with their entries and identifiers."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import Final, Self

from mqdssm.errors import DecodeError
from mqdssm.wire.acl import ACL_BYTES_MAX, Ace, AceFlags, AceType, Acl, allow, allow_object, deny
from mqdssm.wire.bounds import need
from mqdssm.wire.sid import ANONYMOUS, EVERYONE, SID_BYTES_MAX, WELL_KNOWN, Sid

__all__ = [
    "ANONYMOUS",
    "EVERYONE",
    "WELL_KNOWN",
    "Ace",
    "AceFlags",
    "AceType",
    "Acl",
    "AclForm",
    "Control",
    "SecurityDescriptor",
    "Sid",
    "allow",
    "allow_object",
    "deny",
]

SECTION: Final = "[MS-DTYP] 2.4.6"

DESCRIPTOR_HEADER_BYTES: Final = 20
DESCRIPTOR_BYTES_MAX: Final = (
    DESCRIPTOR_HEADER_BYTES + 2 * SID_BYTES_MAX + 2 * ACL_BYTES_MAX
)  # all four parts


class Control(IntFlag):
    """What a descriptor says of itself, the Control field ([MS-DTYP] 2.4.6)."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_AUTO_INHERIT_REQUIRED = 0x0100
    SACL_AUTO_INHERIT_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


class AclForm(Enum):
    """The four things that a descriptor can say with a list ([MS-DTYP] 2.5.3.2)."""

    ABSENT = "absent"
    """Nothing is said: the present bit is clear."""
    NULL = "null"
    """Present without a list: a NULL DACL lets everybody do everything."""
    EMPTY = "empty"
    """A list without entries: nobody is granted anything."""
    ENTRIES = "entries"
    """A list with entries."""


def _form(acl: Acl | None, present: int) -> AclForm:
    if not present:
        return AclForm.ABSENT
    if acl is None:
        return AclForm.NULL
    return AclForm.ENTRIES if acl.aces else AclForm.EMPTY


@dataclass(frozen=True, slots=True)
class SecurityDescriptor:
    """A self-relative SECURITY_DESCRIPTOR, [MS-DTYP] 2.4.6.

    `bytes(descriptor)` is exactly what it was decoded from; of a descriptor made from parts it is header,
    owner, group, SACL and DACL in this order. Two descriptors are equal when their parts are, however they
    are laid out.

    Attributes:
        control: `Control` bits; SELF_RELATIVE is always set.
        owner: None when absent.
        group: None when absent.
        sacl: None when absent or NULL (`sacl_form` tells which).
        dacl: None when absent or NULL (`dacl_form` tells which).
        sbz1: the byte that a resource manager may use, else 0.

    Raises:
        ValueError: when control and parts contradict each other.
    """

    control: int = Control.SELF_RELATIVE
    owner: Sid | None = None
    group: Sid | None = None
    sacl: Acl | None = None
    dacl: Acl | None = None
    sbz1: int = 0
    _image: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.control <= 0xFFFF or not self.control & Control.SELF_RELATIVE:
            raise ValueError(f"control {self.control:#x}: must be 16 bits with SELF_RELATIVE (0x8000)")
        if self.sacl is not None and not self.control & Control.SACL_PRESENT:
            raise ValueError("a SACL needs SACL_PRESENT (0x0010) in control")
        if self.dacl is not None and not self.control & Control.DACL_PRESENT:
            raise ValueError("a DACL needs DACL_PRESENT (0x0004) in control")
        if not 0 <= self.sbz1 <= 0xFF:
            raise ValueError(f"sbz1 {self.sbz1} is no byte")

    @classmethod
    def build(
        cls,
        *,
        owner: Sid | None = None,
        group: Sid | None = None,
        sacl: Iterable[Ace] | None = None,
        dacl: Iterable[Ace] | None = None,
        control: int = 0,
    ) -> Self:
        """Make a descriptor from parts; the present bits and ACL revisions follow from them.

        Args:
            owner: None leaves it out.
            group: None leaves it out.
            sacl: entries; None leaves it out.
            dacl: entries; None leaves it out (a NULL DACL is that with DACL_PRESENT in `control`).
            control: further `Control` bits.

        Raises:
            ValueError: for a list longer than 65535 bytes.
        """
        control |= Control.SELF_RELATIVE
        control |= Control.SACL_PRESENT if sacl is not None else 0
        control |= Control.DACL_PRESENT if dacl is not None else 0
        sacl_list = None if sacl is None else Acl.of(sacl)
        dacl_list = None if dacl is None else Acl.of(dacl)
        return cls(control, owner, group, sacl_list, dacl_list)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode a self-relative descriptor, nothing behind it.

        Gaps between the parts, shared parts and any order of them are accepted: the offsets alone place them.

        Raises:
            DecodeError: for one that is truncated, longer, larger than any can be, or contradicts itself.
        """
        data = bytes(data)
        if len(data) > DESCRIPTOR_BYTES_MAX:
            raise DecodeError(SECTION, "end", 0, f"{len(data)} bytes, at most {DESCRIPTOR_BYTES_MAX}")
        need(SECTION, "Revision", 0, DESCRIPTOR_HEADER_BYTES, len(data))
        revision, sbz1, control, *offsets = struct.unpack_from("<BBHIIII", data)
        if revision != 1:
            raise DecodeError(SECTION, "Revision", 0, f"is {revision}, must be 1")
        if not control & Control.SELF_RELATIVE:
            raise DecodeError(SECTION, "Control", 2, f"is {control:#06x}: SR (0x8000) must be set")
        for name, at, offset, bit in (
            ("OffsetSacl", 12, offsets[2], Control.SACL_PRESENT),
            ("OffsetDacl", 16, offsets[3], Control.DACL_PRESENT),
        ):
            if offset and not control & bit:
                raise DecodeError(SECTION, name, at, f"is {offset}, must be 0 where {bit.name} is clear")
        descriptor, end = cls._from_parts(data, control, sbz1, offsets)
        if end != len(data):
            raise DecodeError(SECTION, "end", end, f"{len(data) - end} bytes left over")
        object.__setattr__(descriptor, "_image", data)  # not a parameter: dataclasses.replace must drop it
        return descriptor

    @classmethod
    def _from_parts(cls, data: bytes, control: int, sbz1: int, offsets: list[int]) -> tuple[Self, int]:
        """Decode the parts; return the descriptor and the offset behind the last of them."""
        for name, at, offset in zip(
            ("OffsetOwner", "OffsetGroup", "OffsetSacl", "OffsetDacl"), (4, 8, 12, 16), offsets, strict=True
        ):
            if 0 < offset < DESCRIPTOR_HEADER_BYTES:
                raise DecodeError(SECTION, name, at, f"is {offset}, inside the header")
            if offset > len(data):
                raise DecodeError(SECTION, name, at, f"is {offset}, behind the end ({len(data)})")
        ends = [DESCRIPTOR_HEADER_BYTES]
        sids: list[Sid | None] = [None, None]
        acls: list[Acl | None] = [None, None]
        for index in (0, 1):
            if offsets[index]:
                sids[index], end = Sid.read(data, offsets[index], len(data))
                ends.append(end)
            if offsets[index + 2]:
                acls[index], end = Acl.read(data, offsets[index + 2], len(data))
                ends.append(end)
        return cls(control, sids[0], sids[1], acls[0], acls[1], sbz1), max(ends)

    def __bytes__(self) -> bytes:
        if self._image is not None:
            return self._image
        offsets: list[int] = []
        body = b""
        for part in (self.owner, self.group, self.sacl, self.dacl):
            offsets.append(DESCRIPTOR_HEADER_BYTES + len(body) if part is not None else 0)
            body += bytes(part) if part is not None else b""
        return struct.pack("<BBHIIII", 1, self.sbz1, self.control, *offsets) + body

    @property
    def dacl_form(self) -> AclForm:
        """Whether the DACL is absent, NULL, empty or has entries."""
        return _form(self.dacl, self.control & Control.DACL_PRESENT)

    @property
    def sacl_form(self) -> AclForm:
        """Whether the SACL is absent, NULL, empty or has entries."""
        return _form(self.sacl, self.control & Control.SACL_PRESENT)

    def explicit_aces(self) -> tuple[Ace, ...]:
        """The DACL's own entries, without those that came from the parent object."""
        return tuple(ace for ace in self.dacl.aces if not ace.inherited) if self.dacl is not None else ()
