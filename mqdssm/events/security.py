"""Security descriptors of new objects (decisions M22, M41, M43).

See [MS-MQDSSM] 3.1.6.1.1.8 and 3.1.6.1.3.4.

The masks are MSMQ's own; a profile that must translate them does so when it writes (decision M31).
"""

from typing import Final

from mqdssm.wire.acl import Ace, allow
from mqdssm.wire.dtyp import AclForm, SecurityDescriptor
from mqdssm.wire.masks import MachineAccess, QueueAccess, SiteAccess
from mqdssm.wire.sid import DOMAIN_USER_RID_GUEST, Sid

EVERYONE: Final = Sid("S-1-1-0")
ANONYMOUS: Final = Sid("S-1-5-7")


def sid_of(text: str | None) -> Sid | None:
    """Parse a SID; None for None."""
    return None if text is None else Sid.parse(text)


def compute_machine_descriptor(
    *, supplied: bytes | None, machine: Sid | None, bound: Sid | None, foreign: bool
) -> bytes:
    """Compute the descriptor of a queue manager ([MS-MQDSSM] 3.1.6.1.1.8).

    A supplied descriptor that brings its DACL is kept byte for byte (decision M90); of another one the owner
    counts (step 3), and its group and SACL are kept.

    Args:
        supplied: QueueManager.Security, if populated.
        machine: objectSid of the computer, if it has one (step 2).
        bound: SID of the identity that the connection is bound as (decision M22).
        foreign: ForeignSystem is written and TRUE (step 5).

    Raises:
        DecodeError: the supplied descriptor is none.
    """
    descriptor = _parse_supplied(supplied)
    if supplied is not None and descriptor.dacl_form is not AclForm.ABSENT:
        return supplied
    owner = descriptor.owner or bound
    world = MachineAccess.GENERIC_WRITE if foreign else MachineAccess.WORLD_RIGHTS
    aces = [allow(EVERYONE, world)]
    # step 9 (MQSEC_MACHINE_SELF_RIGHTS) could add nothing to this entry of the same SID: decision M43
    aces += [allow(sid, MachineAccess.GENERIC_ALL) for sid in _remove_duplicates(machine, owner)]
    return _complete_descriptor(descriptor, owner, aces)


def compute_site_descriptor(*, supplied: bytes | None, bound: Sid | None) -> bytes:
    """Compute the descriptor of a site ([MS-MQDSSM] 3.1.6.1.3.4).

    A supplied descriptor that brings its DACL is kept byte for byte. Everyone never gets more than
    reading, independent of the owner (decision M22).

    Raises:
        DecodeError: the supplied descriptor is none.
    """
    descriptor = _parse_supplied(supplied)
    if supplied is not None and descriptor.dacl_form is not AclForm.ABSENT:
        return supplied
    owner = descriptor.owner or bound
    aces = [allow(EVERYONE, SiteAccess.GENERIC_READ)]
    if owner is not None and owner != ANONYMOUS and not _is_guest(owner):
        aces.append(allow(owner, SiteAccess.GENERIC_ALL))
    return _complete_descriptor(descriptor, owner, aces)


def _parse_supplied(supplied: bytes | None) -> SecurityDescriptor:
    return SecurityDescriptor() if supplied is None else SecurityDescriptor.from_bytes(supplied)


def _complete_descriptor(descriptor: SecurityDescriptor, owner: Sid | None, aces: list[Ace]) -> bytes:
    """Complete a descriptor with a DACL and an owner."""
    sacl = None if descriptor.sacl is None else descriptor.sacl.aces
    return bytes(SecurityDescriptor.build(owner=owner, group=descriptor.group, sacl=sacl, dacl=aces))


def compute_queue_descriptor(*, machine: Sid | None, bound: Sid | None) -> bytes:
    """Compute the descriptor of a queue that is created without one (decision M41).

    Everyone may send and look at properties and permissions, never receive; the creator and the
    computer may do everything.
    """
    aces: list[Ace] = [allow(EVERYONE, QueueAccess.GENERIC_WRITE)]
    aces += [allow(sid, QueueAccess.GENERIC_ALL) for sid in _remove_duplicates(machine, bound)]
    return bytes(SecurityDescriptor.build(owner=bound, dacl=aces))


def _remove_duplicates(*sids: Sid | None) -> list[Sid]:
    return list(dict.fromkeys(sid for sid in sids if sid is not None))


def _is_guest(sid: Sid) -> bool:
    return sid.text.startswith("S-1-5-21-") and sid.text.endswith(f"-{DOMAIN_USER_RID_GUEST}")
