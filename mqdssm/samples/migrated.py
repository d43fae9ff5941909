"""What became of planted defects when the tables of a sample enterprise were migrated into a directory.

A row that cannot be carried over is rejected, with a reason. What is carried over is found there by the rule
that would have found it in the table, but for defects that no directory holds: `LEFT_OUT` and `MADE_GOOD`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from mqdssm.samples.faults import Truth

LEFT_OUT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "link-gates-exist": "PROPID_L_GATES",
        "queue-manager-in-servers-exist": "PROPID_QM_INFRS",
        "queue-manager-out-servers-exist": "PROPID_QM_OUTFRS",
        "queue-manager-roles": "PROPID_QM_SERVICE",
        "queue-manager-sites-exist": "PROPID_QM_SITE_IDS",
    }
)
"""Rule -> column whose wrong value a migration leaves out, and lists as not carried: the rest is sound."""
MADE_GOOD: Final = frozenset(
    {
        "queue-create-time-required",
        "queue-manager-create-time-required",
        "queue-manager-modify-time-required",
        "queue-modify-time-required",
        "security-required",
    }
)
"""Rules about values that every directory writes by itself, or that an object gets when it is created."""
FOLLOWS: Final[Mapping[str, str]] = MappingProxyType({"site-unreachable": "routing-link"})
"""Rule -> type of the rows whose rejection breaks it for what they name: a site that loses its link."""


class RejectedRow(NamedTuple):
    """A row that was not carried over.

    Attributes:
        type: of the object, as on the command line.
        guid: its GUID as text; None: it has none.
        refers: GUIDs of other objects that it names.
        reason: why.
    """

    type: str
    guid: str | None
    refers: frozenset[str]
    reason: str


class Arrived(NamedTuple):
    """What a migration left behind.

    Attributes:
        rejected: rows that were not carried over.
        left_out: GUID of the object, and column whose value was not carried over.
        guids: of the objects that are in the directory, as the tables have them.
        found: what findings name there, with the GUIDs of the tables and without DNs.
    """

    rejected: Collection[RejectedRow]
    left_out: Collection[tuple[str, str]]
    guids: Collection[str]
    found: Iterable[Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedOutcomes:
    """What became of everything that was planted.

    Attributes:
        planted: objects that are broken on purpose.
        rejected: those whose rows were rejected.
        found: those that a finding names.
        left_out: those whose wrong value was left out.
        made_good: those that the directory put right.
        missed: all others: nobody noticed.
        followed: rejected rows and findings that are there because of a rejected row.
        unplanted: findings and rejected rows that nothing planted explains.
    """

    planted: int
    rejected: int
    found: int
    left_out: int
    made_good: int
    missed: tuple[Truth, ...]
    followed: int
    unplanted: tuple[Truth, ...]

    @property
    def is_settled(self) -> bool:
        """Whether all that was planted is accounted for, and nothing else is wrong."""
        return not self.missed and not self.unplanted


def accounted(planted: Counter[Truth], arrived: Arrived) -> PlantedOutcomes:
    """Follow every planted defect through a migration.

    Args:
        planted: the truth about the tables.
        arrived: what came of them.
    """
    rejected = Counter((row.type, row.guid) for row in arrived.rejected)
    found = Counter(one._replace(dn=None) for one in arrived.found)
    counts: Counter[str] = Counter()
    missed = []
    for one in planted.elements():
        fate = _fate(one, arrived, rejected, found)
        counts[fate] += 1
        if fate == "missed":
            missed.append(one)
    followed, unplanted = _others(arrived.rejected, rejected, found)
    return PlantedOutcomes(
        planted=planted.total(),
        rejected=counts["rejected"],
        found=counts["found"],
        left_out=counts["left out"],
        made_good=counts["made good"],
        missed=tuple(missed),
        followed=followed,
        unplanted=tuple(unplanted),
    )


def _fate(
    one: Truth, arrived: Arrived, rejected: Counter[tuple[str, str | None]], found: Counter[Truth]
) -> str:
    """What became of one object; what shows it is used up."""
    row = (one.type, one.guid)
    if rejected[row]:
        rejected[row] -= 1
        return "rejected"
    finding = one._replace(dn=None)
    if found[finding]:
        found[finding] -= 1
        return "found"
    if one.guid is not None and (one.guid, LEFT_OUT.get(one.rule)) in arrived.left_out:
        return "left out"
    return "made good" if one.rule in MADE_GOOD and one.guid in arrived.guids else "missed"


def _others(
    rows: Collection[RejectedRow], rejected: Counter[tuple[str, str | None]], found: Counter[Truth]
) -> tuple[int, list[Truth]]:
    """How many further rejects and findings follow from rejected rows, and those that do not."""
    gone = {row.guid for row in rows}
    named = {(row.type, guid) for row in rows for guid in row.refers}
    followed, unplanted = 0, []
    for row in rows:
        if not rejected[row.type, row.guid]:
            continue
        rejected[row.type, row.guid] -= 1
        if row.refers & gone:  # a machine of a rejected site, a link to one
            followed += 1
        else:
            unplanted.append(Truth(f"rejected: {row.reason}", row.type, row.guid, None))
    for one in found.elements():
        if (FOLLOWS.get(one.rule), one.guid) in named:
            followed += 1
        else:
            unplanted.append(one)
    return followed, unplanted
