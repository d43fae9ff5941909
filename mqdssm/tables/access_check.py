"""Access check with a descriptor of Active Directory ([MS-ADTS] 5.1.3.3.2, 5.1.3.3.4)."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from mqdssm.tables.access import AdRight
from mqdssm.wire.acl import Ace, AceFlags, AceType
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import GENERIC_BITS, READ_CONTROL, WRITE_DAC, map_generic
from mqdssm.wire.sid import Sid

_ALLOWED: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT})
_DENIED: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_OBJECT})


def grants(
    descriptor: SecurityDescriptor, sids: Collection[Sid], right: int, object_types: Collection[UUID] = ()
) -> bool:
    """Return True if a user has a right on the object of a descriptor.

    Entries count in their order. Conditional entries and privileges of the server are ignored.

    Args:
        descriptor: in Active Directory's form.
        sids: SIDs of the user and of all groups (tokenGroups of the root DSE).
        right: bits of the mask, all of them required.
        object_types: class of child, property and its set, or extended right that the right is required for:
            an entry counts if it names one of them, or no object type.
    """
    if descriptor.dacl is None:
        return True  # absent or NULL: everything is allowed
    left = right
    if descriptor.owner in sids:
        left &= ~(READ_CONTROL | WRITE_DAC)
    for ace in descriptor.dacl.aces:
        if not left:
            break
        if not _applies(ace, sids, object_types):
            continue
        mask = map_generic(ace.mask, AdRight) if ace.mask & GENERIC_BITS else ace.mask
        if ace.type in _ALLOWED:
            left &= ~mask
        elif mask & left:
            return False
    return not left


def _applies(ace: Ace, sids: Collection[Sid], object_types: Collection[UUID]) -> bool:
    return (
        ace.type in _ALLOWED | _DENIED
        and not ace.flags & AceFlags.INHERIT_ONLY
        and ace.sid in sids
        and (ace.object_type is None or ace.object_type in object_types)
    )
