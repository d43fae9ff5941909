"""Translation between access rights of MSMQ and of Active Directory.

See decision M31.
The lower bits of an access mask have different meanings in Active Directory and in MSMQ: 0x20 is MSMQ's *get
properties* and Active Directory's *write property*. So a descriptor is translated when it is written. Reading
and writing properties, creating, deleting and the rights on the descriptor itself have bits of Active
Directory; receiving, peeking and sending have the extended rights of its schema. Entries of Active
Directory without a meaning in MSMQ (rights on single attributes, other extended rights) pass unchanged.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final
from uuid import UUID

from mqdssm.wire.acl import Ace, AceFlags, AceType
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import (
    GENERIC_BITS,
    READ_CONTROL,
    SYNCHRONIZE,
    WRITE_DAC,
    ConnectedNetworkAccess,
    DescriptorControl,
    EnterpriseAccess,
    MachineAccess,
    QueueAccess,
    SiteAccess,
    map_generic,
)
from mqdssm.wire.sid import Sid

_KEPT_CONTROL: Final = (
    DescriptorControl.DACL_PRESENT
    | DescriptorControl.SACL_PRESENT
    | DescriptorControl.DACL_PROTECTED
    | DescriptorControl.SACL_PROTECTED
)


class AdRight(IntFlag):
    """Bits of a mask in Active Directory ([MS-ADTS] 5.1.3.2)."""

    CREATE_CHILD = 0x1
    DELETE_CHILD = 0x2
    LIST_CHILDREN = 0x4
    SELF = 0x8
    READ_PROPERTY = 0x10
    WRITE_PROPERTY = 0x20
    DELETE_TREE = 0x40
    LIST_OBJECT = 0x80
    CONTROL_ACCESS = 0x100

    GENERIC_EXECUTE = 0x2_0004
    GENERIC_WRITE = 0x2_0028
    GENERIC_READ = 0x2_0094
    GENERIC_ALL = 0xF_01FF


STANDARD_RIGHTS: Final = 0x000F_0000 | SYNCHRONIZE
"""DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER: these bits have the same meaning in both."""

_GET: Final = 0x20
_SET: Final = 0x10
_GET_IN_AD: Final = int(AdRight.READ_PROPERTY | AdRight.LIST_CHILDREN | AdRight.LIST_OBJECT)
# The right to list, beside that to write, grants nothing, and makes the mask differ from MSMQ's own masks.
_SET_IN_AD: Final = int(AdRight.WRITE_PROPERTY | AdRight.LIST_OBJECT)

_ALLOWED: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT})
_REFUSALS: Final = frozenset(
    {
        AceType.ACCESS_DENIED,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
    }
)
_OBJECT_OF: Final[Mapping[int, AceType]] = {
    AceType.ACCESS_ALLOWED: AceType.ACCESS_ALLOWED_OBJECT,
    AceType.ACCESS_DENIED: AceType.ACCESS_DENIED_OBJECT,
    AceType.SYSTEM_AUDIT: AceType.SYSTEM_AUDIT_OBJECT,
}
_PLAIN_OF: Final[Mapping[int, AceType]] = {obj: AceType(plain) for plain, obj in _OBJECT_OF.items()}


@dataclass(frozen=True, slots=True)
class _Carrier:
    """Right of Active Directory that represents one bit of MSMQ.

    Attributes:
        bit: the bit of MSMQ.
        right: CONTROL_ACCESS on an extended right, or CREATE_CHILD of a class.
        object_type: GUID of the extended right or class.
        brings: more MSMQ bits that Active Directory's right implies when it is granted alone: the right to
            receive includes those to delete and to peek ([MS-MQMQ] 2.2.24).
    """

    bit: int
    right: AdRight
    object_type: UUID
    brings: int = 0

    @property
    def whole(self) -> int:
        """All MSMQ bits that the right implies."""
        return self.bit | self.brings


@dataclass(frozen=True, slots=True)
class AccessKind:
    """Rights on one kind of object.

    Attributes:
        rights: class of its masks in MSMQ.
        carriers: rights for the bits of MSMQ that have no bit in Active Directory.
        raw: masks of MSMQ that only a program without translation writes into Active Directory: no other
            program would write them.
    """

    rights: type[IntFlag]
    carriers: tuple[_Carrier, ...]
    raw: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        names = ("GENERIC_READ", "GENERIC_WRITE", "GENERIC_ALL", "WORLD_RIGHTS")
        members = self.rights.__members__
        object.__setattr__(self, "raw", frozenset(int(members[name]) for name in names if name in members))

    @property
    def all(self) -> int:
        """GENERIC_ALL of this kind of object."""
        return int(self.rights.__members__["GENERIC_ALL"])


def _right(number: str, bit: int, brings: int = 0) -> _Carrier:
    return _Carrier(bit, AdRight.CONTROL_ACCESS, UUID(number), brings)


def _child(number: str, bit: int) -> _Carrier:
    return _Carrier(bit, AdRight.CREATE_CHILD, UUID(number))


_QUEUE: Final = AccessKind(
    QueueAccess,
    (
        _right("06bd3200-df3e-11d1-9c86-006008764d0e", 0x1, brings=0x2),  # msmq-Receive
        _right("06bd3201-df3e-11d1-9c86-006008764d0e", 0x2),  # msmq-Peek
        _right("06bd3202-df3e-11d1-9c86-006008764d0e", 0x4),  # msmq-Send
        _right("06bd3203-df3e-11d1-9c86-006008764d0e", 0x8, brings=0x2),  # msmq-Receive-journal
    ),
)
_MACHINE: Final = AccessKind(
    MachineAccess,
    (
        _right("4b6e08c0-df3c-11d1-9c86-006008764d0e", 0x1, brings=0x2),  # msmq-Receive-Dead-Letter
        _right("4b6e08c1-df3c-11d1-9c86-006008764d0e", 0x2),  # msmq-Peek-Dead-Letter
        _child("9a0dc343-c100-11d1-bbc5-0080c76670c0", 0x4),  # mSMQQueue
        _right("4b6e08c2-df3c-11d1-9c86-006008764d0e", 0x40, brings=0x80),  # msmq-Receive-computer-Journal
        _right("4b6e08c3-df3c-11d1-9c86-006008764d0e", 0x80),  # msmq-Peek-computer-Journal
    ),
)
# Active Directory has no rights for these three. They stand for creating the objects of such a server in a
# site. None of these classes may be directly below a site or the enterprise: the entries grant nothing.
_SITE: Final = AccessKind(
    SiteAccess,
    (
        _child("9a0dc347-c100-11d1-bbc5-0080c76670c0", 0x1),  # mSMQSettings: a routing server
        _child("bf967a92-0de6-11d0-a285-00aa003049e2", 0x2),  # server: a backup site controller
        _child("9a0dc344-c100-11d1-bbc5-0080c76670c0", 0x4),  # mSMQConfiguration: a machine
    ),
)
_ENTERPRISE: Final = AccessKind(
    EnterpriseAccess,
    (
        _child("bf967aba-0de6-11d0-a285-00aa003049e2", 0x1),  # user
        _child("bf967ab3-0de6-11d0-a285-00aa003049e2", 0x2),  # site
        _child("b7b13124-b82e-11d0-afee-0000f80367c1", 0x4),  # subnet: a connected network
    ),
)
_CONNECTED_NETWORK: Final = AccessKind(
    ConnectedNetworkAccess,
    (_right("b4e60130-df3f-11d1-9c86-006008764d0e", 0x1),),  # msmq-Open-Connector
)

KINDS: Final[Mapping[str, AccessKind]] = {
    "mSMQQueue": _QUEUE,
    "mSMQConfiguration": _MACHINE,
    "site": _SITE,
    "mSMQEnterpriseSettings": _ENTERPRISE,
    "connectedNetwork": _CONNECTED_NETWORK,
}
"""Kinds of objects with MSMQ's masks, by their class in the directory ([MS-MQMQ] 2.2.23-2.2.27)."""


def to_directory(descriptor: SecurityDescriptor, kind: AccessKind) -> SecurityDescriptor:
    """Translate a descriptor with MSMQ's masks for Active Directory.

    Inherited entries are left out: the server adds its own.

    Raises:
        ValueError: a translated list is too long.
    """
    return _rebuild(descriptor, lambda aces: _map_to_directory(aces, kind))


def from_directory(descriptor: SecurityDescriptor, kind: AccessKind) -> SecurityDescriptor:
    """Translate a descriptor of Active Directory to MSMQ's masks.

    Inherited entries are left out.
    Inherited entries are not the object's own, and are never written back. Masks that a program stored
    without translation are read with MSMQ's meaning.
    """
    return _rebuild(descriptor, lambda aces: _map_from_directory(aces, kind))


def is_raw(ace: Ace, kind: AccessKind) -> bool:
    """Return True if an entry of Active Directory holds an untranslated mask of MSMQ.

    There such an entry grants unintended rights: a right to write instead of one to read.
    """
    if ace.type not in _OBJECT_OF or ace.mask not in kind.raw:
        return False
    # our own deny entry may look like the shortest of these masks: without listing: `map_ace_to_directory`
    return ace.type in _ALLOWED or bool(ace.mask & ~(STANDARD_RIGHTS | _GET | _SET))


def _rebuild(
    descriptor: SecurityDescriptor, translate: Callable[[Iterable[Ace]], list[Ace]]
) -> SecurityDescriptor:
    """Return a copy of the descriptor with translated lists.

    An absent list stays absent, a NULL one NULL.
    """
    return SecurityDescriptor.build(
        owner=descriptor.owner,
        group=descriptor.group,
        sacl=None if descriptor.sacl is None else translate(descriptor.sacl.aces),
        dacl=None if descriptor.dacl is None else translate(descriptor.dacl.aces),
        control=descriptor.control & _KEPT_CONTROL,
    )


# -- to Active Directory


def _map_to_directory(aces: Iterable[Ace], kind: AccessKind) -> list[Ace]:
    return [translated for ace in aces if not ace.inherited for translated in map_ace_to_directory(ace, kind)]


def map_ace_to_directory(ace: Ace, kind: AccessKind) -> list[Ace]:
    """Translate an entry of MSMQ into entries of Active Directory.

    There are none if it has no meaning there.
    """
    object_form = _OBJECT_OF.get(ace.type)
    if object_form is None or ace.sid is None or ace.data:
        return [ace]  # not a plain entry: not MSMQ's, or conditional
    mask = map_generic(ace.mask, kind.rights)
    standard = mask & STANDARD_RIGHTS
    if mask & kind.all == kind.all:
        return [Ace(ace.type, ace.flags, AdRight.GENERIC_ALL | standard, ace.sid)]
    plain = standard
    plain |= _GET_IN_AD if mask & _GET and ace.type in _ALLOWED else 0
    plain |= _SET_IN_AD if mask & _SET and ace.type in _ALLOWED else 0
    if ace.type not in _ALLOWED:  # deny and audit only the right itself, not listing
        plain |= int(AdRight.READ_PROPERTY) if mask & _GET else 0
        plain |= int(AdRight.WRITE_PROPERTY) if mask & _SET else 0
    translated = [Ace(ace.type, ace.flags, plain, ace.sid)] if plain else []
    for carrier in kind.carriers:
        if mask & carrier.bit:
            right = int(carrier.right)
            if ace.type in _ALLOWED and carrier.brings & ~mask:
                right |= int(AdRight.SELF)  # no meaning there: marks this bit without the implied ones
            translated.append(Ace(object_form, ace.flags, right, ace.sid, carrier.object_type))
    return translated


# -- from Active Directory


def _map_from_directory(aces: Iterable[Ace], kind: AccessKind) -> list[Ace]:
    """Translate entries of Active Directory, and join related ones.

    Related entries come from one entry of MSMQ.
    Entries for the same SID are joined unless an entry of the other type is between them: the order of
    entries of one type does not matter, the order of deny and allow entries does.
    """
    translated: list[Ace] = []
    joinable: dict[tuple[int, int, str], int] = {}
    refusing = False
    for ace in aces:
        original = None if ace.inherited else map_ace_from_directory(ace, kind)
        if original is None:
            continue
        if refusing is not (original.type in _REFUSALS):
            joinable, refusing = {}, not refusing
        if original.sid is None or original.type not in _OBJECT_OF or original.data:
            translated.append(original)
            continue
        key = (original.type, original.flags, original.sid.text)
        place = joinable.get(key)
        if place is None:
            joinable[key] = len(translated)
            translated.append(original)
        else:
            translated[place] = Ace(
                original.type, original.flags, translated[place].mask | original.mask, original.sid
            )
    return translated


def map_ace_from_directory(ace: Ace, kind: AccessKind) -> Ace | None:
    """Translate an entry of Active Directory to MSMQ's masks.

    Returns None if it has no meaning in MSMQ.
    An entry without MSMQ's rights is returned unchanged.
    """
    if ace.sid is None or ace.data:
        return ace
    if ace.type in _OBJECT_OF:
        mask = ace.mask if is_raw(ace, kind) else _map_plain(ace, kind)
        return Ace(ace.type, ace.flags, mask, ace.sid) if mask else None
    plain_form = _PLAIN_OF.get(ace.type)
    if plain_form is None or ace.inherited_object_type is not None:
        return ace
    if ace.object_type is None:  # an object entry without an object type is a plain one
        mask = _map_plain(ace, kind)
        return Ace(plain_form, ace.flags, mask, ace.sid) if mask else None
    for carrier in kind.carriers:
        if ace.object_type == carrier.object_type and ace.mask & carrier.right:
            whole = ace.type in _ALLOWED and not ace.mask & AdRight.SELF
            return Ace(plain_form, ace.flags, carrier.whole if whole else carrier.bit, ace.sid)
    return ace


def _map_plain(ace: Ace, kind: AccessKind) -> int:
    mask = ace.mask
    if mask & GENERIC_BITS:
        mask = map_generic(mask, AdRight)
    if mask & AdRight.GENERIC_ALL == AdRight.GENERIC_ALL:
        return kind.all | (mask & STANDARD_RIGHTS)
    rights = mask & STANDARD_RIGHTS
    rights |= _GET if mask & AdRight.READ_PROPERTY else 0
    rights |= _SET if mask & AdRight.WRITE_PROPERTY else 0
    for carrier in kind.carriers:
        if mask & carrier.right:
            rights |= carrier.bit
    return rights


def flags_of_parts(descriptor: SecurityDescriptor) -> int:
    """Return the flags of the parts of a descriptor to write.

    See [MS-ADTS] 3.1.1.3.4.1.11.
    """
    flags = 1 if descriptor.owner is not None else 0
    flags |= 2 if descriptor.group is not None else 0
    flags |= 4 if descriptor.control & DescriptorControl.DACL_PRESENT else 0
    flags |= 8 if descriptor.control & DescriptorControl.SACL_PRESENT else 0
    return flags


_DENIED: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_OBJECT})


def is_granted(
    descriptor: SecurityDescriptor, sids: Collection[Sid], right: int, object_types: Collection[UUID] = ()
) -> bool:
    """Return True if a user has a right on the object of a descriptor.

    Entries count in their order. Conditional entries and privileges of the server are ignored.

    Args:
        descriptor: in Active Directory's form.
        sids: SIDs of the user and of all groups (tokenGroups of the root DSE).
        right: bits of the mask, all required.
        object_types: class of child, property and its set, or extended right that the right is required for:
            an entry counts if it names one of these types, or none.
    """
    if descriptor.dacl is None:
        return True  # absent or NULL: everything is allowed
    missing_rights = right
    if descriptor.owner in sids:
        missing_rights &= ~(READ_CONTROL | WRITE_DAC)
    for ace in descriptor.dacl.aces:
        if not missing_rights:
            break
        if not _is_applicable(ace, sids, object_types):
            continue
        mask = map_generic(ace.mask, AdRight) if ace.mask & GENERIC_BITS else ace.mask
        if ace.type in _ALLOWED:
            missing_rights &= ~mask
        elif mask & missing_rights:
            return False
    return not missing_rights


def _is_applicable(ace: Ace, sids: Collection[Sid], object_types: Collection[UUID]) -> bool:
    return (
        ace.type in _ALLOWED | _DENIED
        and not ace.flags & AceFlags.INHERIT_ONLY
        and ace.sid in sids
        and (ace.object_type is None or ace.object_type in object_types)
    )
