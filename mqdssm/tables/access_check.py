"""Access check on objects with MSMQ's masks ([MS-DTYP] 2.5.3.2).

The entries of the DACL count in their order: an entry decides about the bits that are still open.
The result names the entry for each bit.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from mqdssm.tables.account_names import OWNER_RIGHTS
from mqdssm.wire.acl import Ace, AceFlags, AceType
from mqdssm.wire.masks import READ_CONTROL, WRITE_DAC, map_generic
from mqdssm.wire.sid import Sid

OWNER_MASK: Final = READ_CONTROL | WRITE_DAC


@dataclass(frozen=True, slots=True)
class CheckedAccess:
    """Result of an access check.

    Attributes:
        granted: bits of the mask.
        decided: for each bit that is granted or refused, the entry; None for the owner's own rights, and
            without a DACL.
    """

    granted: int
    decided: Mapping[int, Ace | None]

    def has(self, mask: int) -> bool:
        """Return True if all bits of a mask are granted."""
        return self.granted & mask == mask

    def entries(self, mask: int) -> list[Ace | None]:
        """Return the entries that decided about the bits of a mask, each once."""
        return list(dict.fromkeys(entry for bit, entry in self.decided.items() if bit & mask))


def check_access(
    aces: Iterable[Ace] | None, owner: Sid | None, sids: Collection[Sid], kind: type[IntFlag]
) -> CheckedAccess:
    """Evaluate a DACL for a user.

    Conditional entries and entries of Active Directory without a meaning in MSMQ are not evaluated.

    Args:
        aces: entries of the DACL in their order, with MSMQ's masks; None: there is no DACL.
        owner: owner of the object.
        sids: SIDs of the user and of all groups.
        kind: masks of the kind of object, as `QueueAccess`.
    """
    everything = int(kind.__members__["GENERIC_ALL"])
    if aces is None:
        return CheckedAccess(everything, dict.fromkeys(_split_bits(everything)))
    entries = [ace for ace in aces if not ace.flags & AceFlags.INHERIT_ONLY]
    is_owner = owner is not None and owner in sids
    decided: dict[int, Ace | None] = {}
    granted = 0
    if is_owner and not any(ace.sid == OWNER_RIGHTS for ace in entries):
        granted = OWNER_MASK
        decided = dict.fromkeys(_split_bits(OWNER_MASK))
    for ace in entries:
        if ace.type not in _TYPES or not (ace.sid in sids or (is_owner and ace.sid == OWNER_RIGHTS)):
            continue
        for bit in _split_bits(map_generic(ace.mask, kind)):
            if bit not in decided:
                decided[bit] = ace
                granted |= bit if ace.type == AceType.ACCESS_ALLOWED else 0
    return CheckedAccess(granted, decided)


_TYPES: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED})


def _split_bits(mask: int) -> Iterable[int]:
    return (1 << number for number in range(mask.bit_length()) if mask >> number & 1)
