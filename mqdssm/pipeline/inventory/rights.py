"""Rights that security descriptors grant, by MSMQ's access masks.

Results are cached by descriptor.

Names of SIDs: of well-known SIDs, and of the accounts in the source.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mqdssm.model.dn import DN
from mqdssm.pipeline.validate.rules.examiners import find_granted_rights, kind_of
from mqdssm.tables.account_names import find_known_name
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import WRITE_DAC, WRITE_OWNER, MachineAccess, QueueAccess
from mqdssm.wire.sid import EVERYONE

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.datasets import Dataset

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

    def list_sids(self) -> set[str]:
        """Return the SIDs of the owner and of all accounts with rights."""
        named = {sid for sids in self.who.values() for sid in sids}
        return named | ({self.owner} if self.owner else set())


def list_asked_rights(name: str) -> tuple[str, ...]:
    """Return the names of the rights on objects of a type."""
    return (*ASKED[name], FULL, CHANGE)


@lru_cache(maxsize=DESCRIPTORS_KEPT)
def rights_of(name: str, image: bytes | None) -> DescriptorRights:
    """Evaluate a descriptor.

    A SID has the rights that entries for this SID grant, and that no earlier entry refuses to it or to
    everybody. Membership in other groups is not known here.

    Args:
        name: type of the object, as on the command line.
        image: the descriptor; None or empty if there is none.
    """
    nobody: dict[str, tuple[str, ...]] = dict.fromkeys(list_asked_rights(name), ())
    if not image:
        return DescriptorRights("", nobody, "no security descriptor")
    try:
        descriptor = SecurityDescriptor.from_bytes(image)
    except ValueError as error:
        return DescriptorRights("", nobody, f"no valid security descriptor: {error}")
    owner = descriptor.owner.text if descriptor.owner is not None else ""
    if descriptor.dacl is None:
        return DescriptorRights(
            owner,
            dict.fromkeys(list_asked_rights(name), (EVERYONE.text,)),
            "no DACL: everybody may do everything",
        )
    kind = kind_of(name)
    masks = {**ASKED[name], FULL: kind.all}
    who: dict[str, list[str]] = {key: [] for key in nobody}
    for sid in dict.fromkeys(ace.sid for ace in descriptor.dacl.aces if ace.sid is not None):
        mask = find_granted_rights(sid, descriptor.dacl.aces, kind)
        for right, bits in masks.items():
            if mask & bits == bits:
                who[right].append(sid.text)
        if mask & (WRITE_DAC | WRITE_OWNER):
            who[CHANGE].append(sid.text)
    return DescriptorRights(owner, {key: tuple(sids) for key, sids in who.items()})


_BATCH_ROWS: Final = 65_536
SOURCES: Final = (("computer", "Sid", "AccountName"), ("user", "SecurityIdentifier", "FullPath"))
"""Types with SIDs: the type, the column of the SID, the column of the name."""


def names_of(sids: Collection[str], sets: "Mapping[str, Dataset]") -> dict[str, str]:
    """Find the names of SIDs, as far as they are known.

    The accounts are read in batches.
    """
    names = {sid: name for sid in sids if (name := find_known_name(sid))}
    return names | dict(_read_accounts(sids, sets))


def _read_accounts(sids: Collection[str], sets: "Mapping[str, Dataset]") -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    sid_values = pa.array(sorted(sids), pa.string())
    for name, key, called in SOURCES:
        if name not in sets or not {key, called} <= set(sets[name].types):
            continue
        for batch in sets[name].read_batches([key, called], _BATCH_ROWS):
            few = batch.filter(pc.is_in(batch.column(key).cast(pa.string()), value_set=sid_values))
            for row in few.to_pylist():
                if row[called]:
                    yield row[key], _read_name(row[called]) if called == "FullPath" else row[called]


def _read_name(dn: str) -> str:
    try:
        return DN.parse(dn).name
    except ValueError:
        return dn
