"""Rights that security descriptors grant, by MSMQ's access masks; results are cached by descriptor."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mqdssm.pipeline.validate.rules.examiners import granted, kind_of
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import WRITE_DAC, WRITE_OWNER, MachineAccess, QueueAccess
from mqdssm.wire.sid import EVERYONE

FULL: Final = "FullControl"
CHANGE: Final = "ChangeRights"
ASKED: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "queue": {
            "Send": int(QueueAccess.WRITE_MESSAGE),
            "Receive": int(QueueAccess.RECEIVE_MESSAGE),
            "Peek": int(QueueAccess.PEEK_MESSAGE),
        },
        "queue-manager": {"CreateQueue": int(MachineAccess.CREATE_QUEUE)},
    }
)
"""Rights on objects of a type, and the bits that each needs, all of them ([MS-MQMQ] 2.2.23, 2.2.24)."""
DESCRIPTORS_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class DescriptorRights:
    """Owner and rights in a security descriptor.

    Attributes:
        owner: SID; empty if there is none.
        who: for each thing that is asked, and for `FULL` and `CHANGE`, the SIDs that may.
        problem: why this is not the whole truth; empty if it is.
    """

    owner: str
    who: Mapping[str, tuple[str, ...]]
    problem: str = ""

    def sids(self) -> set[str]:
        """Return the SIDs of the owner and of all accounts with rights."""
        named = {sid for sids in self.who.values() for sid in sids}
        return named | ({self.owner} if self.owner else set())


def asked(name: str) -> tuple[str, ...]:
    """Return the names of the rights on objects of a type."""
    return (*ASKED[name], FULL, CHANGE)


@lru_cache(maxsize=DESCRIPTORS_KEPT)
def rights_of(name: str, image: bytes | None) -> DescriptorRights:
    """Evaluate a descriptor.

    A SID has the rights that entries for this SID grant: membership in groups is not known here.

    Args:
        name: type of the object, as on the command line.
        image: the descriptor; None or empty if there is none.
    """
    nobody: dict[str, tuple[str, ...]] = dict.fromkeys(asked(name), ())
    if not image:
        return DescriptorRights("", nobody, "no security descriptor")
    try:
        found = SecurityDescriptor.from_bytes(image)
    except ValueError as error:
        return DescriptorRights("", nobody, f"no valid security descriptor: {error}")
    owner = found.owner.text if found.owner is not None else ""
    if found.dacl is None:
        return DescriptorRights(
            owner, dict.fromkeys(asked(name), (EVERYONE.text,)), "no DACL: everybody may do everything"
        )
    kind = kind_of(name)
    wanted = {**ASKED[name], FULL: kind.all}
    who: dict[str, list[str]] = {one: [] for one in nobody}
    for sid in dict.fromkeys(ace.sid for ace in found.dacl.aces if ace.sid is not None):
        mask = granted(sid, found.dacl.aces, kind)
        for one, bits in wanted.items():
            if mask & bits == bits:
                who[one].append(sid.text)
        if mask & (WRITE_DAC | WRITE_OWNER):
            who[CHANGE].append(sid.text)
    return DescriptorRights(owner, {one: tuple(sids) for one, sids in who.items()})
