"""Security descriptors, their entries and identifiers as values.

See [MS-DTYP] 2.4.6.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

from mqdssm.errors import DecodeError
from mqdssm.wire.acl import ACL_BYTES_MAX, Ace, AceFlags, AceType, Acl, allow, allow_object, deny
from mqdssm.wire.codecs import U8, U16, U32, finish
from mqdssm.wire.fields import Const, FieldError, Value
from mqdssm.wire.layout import Layout
from mqdssm.wire.masks import DescriptorControl
from mqdssm.wire.sddl import RightsStyle, SddlParts, format_sddl, parse_sddl
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
    "DescriptorControl",
    "RightsStyle",
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


@dataclass(frozen=True, slots=True)
class DescriptorHeader:
    """First fields of a self-relative descriptor, [MS-DTYP] 2.4.6.

    An offset of 0 stands for an absent part.
    """

    sbz1: int
    control: int
    owner: int
    group: int
    sacl: int
    dacl: int

    def __post_init__(self) -> None:
        if not self.control & DescriptorControl.SELF_RELATIVE:
            raise FieldError("control", f"is {self.control:#06x}: SR (0x8000) must be set")
        for name, bit in (("sacl", DescriptorControl.SACL_PRESENT), ("dacl", DescriptorControl.DACL_PRESENT)):
            offset = getattr(self, name)
            if offset and not self.control & bit:
                raise FieldError(name, f"is {offset}, must be 0 where {bit.name} is clear in Control")
        for name, offset in zip(("owner", "group", "sacl", "dacl"), self.offsets, strict=True):
            if 0 < offset < DESCRIPTOR_HEADER_BYTES:
                raise FieldError(name, f"is {offset}, inside the header")

    @property
    def offsets(self) -> tuple[int, int, int, int]:
        """OffsetOwner, OffsetGroup, OffsetSacl and OffsetDacl in bytes.

        The offsets count from the start of the descriptor.
        """
        return self.owner, self.group, self.sacl, self.dacl


DESCRIPTOR_HEADER: Final = Layout(
    DescriptorHeader,
    SECTION,
    Const("Revision", U8, 1),
    Value("sbz1", U8, "Sbz1"),
    Value("control", U16, "Control"),
    Value("owner", U32, "OffsetOwner"),
    Value("group", U32, "OffsetGroup"),
    Value("sacl", U32, "OffsetSacl"),
    Value("dacl", U32, "OffsetDacl"),
)


class AclForm(Enum):
    """Presence of an access control list in a descriptor ([MS-DTYP] 2.5.3.2).

    There are four cases.
    """

    ABSENT = "absent"
    """No list: the present bit is clear."""
    NULL = "null"
    """Present without a list: a NULL DACL grants everything to everyone."""
    EMPTY = "empty"
    """A list without entries: it grants nothing."""
    ENTRIES = "entries"
    """A list with entries."""


def _find_acl_form(acl: Acl | None, present: int) -> AclForm:
    if not present:
        return AclForm.ABSENT
    if acl is None:
        return AclForm.NULL
    return AclForm.ENTRIES if acl.aces else AclForm.EMPTY


@dataclass(frozen=True, slots=True)
class SecurityDescriptor:
    """A self-relative SECURITY_DESCRIPTOR, [MS-DTYP] 2.4.6.

    `bytes(descriptor)` is exactly the decoded image; a descriptor made from parts has header, owner, group,
    SACL and DACL in this order. Two descriptors are equal when their parts are equal, in any layout.

    Attributes:
        control: `DescriptorControl` bits; SELF_RELATIVE is always set.
        owner: None when absent.
        group: None when absent.
        sacl: None when absent or NULL.
        dacl: None when absent or NULL (see `dacl_form`).
        sbz1: a byte for resource managers, else 0.

    Raises:
        ValueError: when control and parts contradict each other.
    """

    control: int = DescriptorControl.SELF_RELATIVE
    owner: Sid | None = None
    group: Sid | None = None
    sacl: Acl | None = None
    dacl: Acl | None = None
    sbz1: int = 0
    _image: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.control <= 0xFFFF or not self.control & DescriptorControl.SELF_RELATIVE:
            raise ValueError(f"control {self.control:#x}: must be 16 bits with SELF_RELATIVE (0x8000)")
        if self.sacl is not None and not self.control & DescriptorControl.SACL_PRESENT:
            raise ValueError("a SACL needs SACL_PRESENT (0x0010) in control")
        if self.dacl is not None and not self.control & DescriptorControl.DACL_PRESENT:
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
        """Make a descriptor from parts.

        The present bits and ACL revisions are computed from them.

        Args:
            owner: None leaves it out.
            group: None leaves it out.
            sacl: entries; None leaves it out.
            dacl: entries; None leaves it out (with DACL_PRESENT in `control` it is a NULL DACL).
            control: further `DescriptorControl` bits.

        Raises:
            ValueError: for a list longer than 65535 bytes.
        """
        control |= DescriptorControl.SELF_RELATIVE
        control |= DescriptorControl.SACL_PRESENT if sacl is not None else 0
        control |= DescriptorControl.DACL_PRESENT if dacl is not None else 0
        sacl_list = None if sacl is None else Acl.of(sacl)
        dacl_list = None if dacl is None else Acl.of(dacl)
        return cls(control, owner, group, sacl_list, dacl_list)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode a self-relative descriptor, without bytes behind it.

        Gaps between the parts, shared parts and any order are accepted: only the offsets matter.

        Raises:
            DecodeError: for one that is truncated, too long, too large, or contradicts itself.
        """
        data = bytes(data)
        if len(data) > DESCRIPTOR_BYTES_MAX:
            raise DecodeError(SECTION, "end", 0, f"{len(data)} bytes, at most {DESCRIPTOR_BYTES_MAX}")
        header, last = DESCRIPTOR_HEADER.read(data, 0, len(data))
        ends = [last]
        sids: list[Sid | None] = [None, None]
        acls: list[Acl | None] = [None, None]
        for index in (0, 1):
            if header.offsets[index]:
                sids[index], last = Sid.read(data, header.offsets[index], len(data))
                ends.append(last)
            if header.offsets[index + 2]:
                acls[index], last = Acl.read(data, header.offsets[index + 2], len(data))
                ends.append(last)
        finish(SECTION, max(ends), len(data))
        descriptor = cls(header.control, sids[0], sids[1], acls[0], acls[1], header.sbz1)
        object.__setattr__(descriptor, "_image", data)  # not a parameter: dataclasses.replace must drop it
        return descriptor

    def __bytes__(self) -> bytes:
        if self._image is not None:
            return self._image
        offsets: list[int] = []
        body = b""
        for part in (self.owner, self.group, self.sacl, self.dacl):
            offsets.append(DESCRIPTOR_HEADER_BYTES + len(body) if part is not None else 0)
            body += bytes(part) if part is not None else b""
        return DESCRIPTOR_HEADER.encode(DescriptorHeader(self.sbz1, self.control, *offsets)) + body

    @property
    def dacl_form(self) -> AclForm:
        """Presence of the DACL: absent, NULL, empty or with entries."""
        return _find_acl_form(self.dacl, self.control & DescriptorControl.DACL_PRESENT)

    def explicit_aces(self) -> tuple[Ace, ...]:
        """Return the entries of the DACL that were not inherited from the parent object."""
        return tuple(ace for ace in self.dacl.aces if not ace.inherited) if self.dacl is not None else ()

    @classmethod
    def from_sddl(cls, text: str, domain: Sid | None = None) -> Self:
        """Read a descriptor from SDDL ([MS-DTYP] 2.5.1).

        An example is ``O:BAG:BAD:P(A;;0x2002b;;;WD)``.

        Args:
            text: the whole descriptor.
            domain: the domain of aliases such as DA.

        Raises:
            ValueError: for text that is no descriptor, or names a domain's account without `domain`.
        """
        return cls(*parse_sddl(text, domain))

    def to_sddl(self, domain: Sid | None = None, rights: RightsStyle = RightsStyle.NAMES) -> str:
        """Write the descriptor as SDDL ([MS-DTYP] 2.5.1).

        Reading the text gives the same parts.

        The text has no room for the defaulted, trusted and resource manager bits of Control, nor for the
        revision of a list.

        Args:
            domain: the domain whose accounts are written as aliases.
            rights: NAMES are Active Directory's rights; MSMQ's own masks have other meanings: use HEX.
        """
        return format_sddl(
            SddlParts(self.control, self.owner, self.group, self.sacl, self.dacl), domain, rights
        )
