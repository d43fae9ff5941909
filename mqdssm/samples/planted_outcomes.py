"""Fate of planted defects when a sample enterprise is migrated.

The tables of the enterprise are migrated into a directory.
A row that cannot be migrated is rejected, with a reason. The rule that finds a defect in the table also finds
it in the directory, except for defects that no directory can hold: `LEFT_OUT` and `MADE_GOOD`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqdssm.samples.faults import Truth

LEFT_OUT: Final[Mapping[str, str]] = {
    "link-gates-exist": "PROPID_L_GATES",
    "queue-manager-in-servers-exist": "PROPID_QM_INFRS",
    "queue-manager-out-servers-exist": "PROPID_QM_OUTFRS",
    "queue-manager-roles": "PROPID_QM_SERVICE",
    "queue-manager-sites-exist": "PROPID_QM_SITE_IDS",
}
"""Rule -> column whose wrong value a migration leaves out, and lists as not carried; the rest is sound."""
MADE_GOOD: Final = frozenset(
    {
        "queue-create-time-required",
        "queue-manager-create-time-required",
        "queue-manager-modify-time-required",
        "queue-modify-time-required",
        "security-required",
    }
)
"""Rules about values that every directory writes itself, or that an object gets at its creation."""
FOLLOWS: Final[Mapping[str, str]] = {"site-unreachable": "routing-link"}
"""Rule -> type of the rejected rows that break it for the objects they name: a site that loses its link."""


class RejectedRow(NamedTuple):
    """A row that was not migrated.

    Attributes:
        type: type of the object, as on the command line.
        guid: its GUID as text; None: it has none.
        refers: GUIDs of the objects that the row refers to.
        reason: reason of the rejection.
    """

    type: str
    guid: str | None
    refers: frozenset[str]
    reason: str


class Arrived(NamedTuple):
    """Result of a migration.

    Attributes:
        rejected: rows that were not migrated.
        left_out: GUID of the object, and column whose value was not migrated.
        guids: of the objects that are in the directory, as the tables have them.
        findings: the findings in the directory, with the GUIDs of the tables and without DNs.
    """

    rejected: Collection[RejectedRow]
    left_out: Collection[tuple[str, str]]
    guids: Collection[str]
    findings: Iterable[Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedOutcomes:
    """Outcomes of all planted defects.

    Attributes:
        planted: objects that are broken on purpose.
        rejected: objects whose rows were rejected.
        reported: objects that a finding names.
        left_out: objects whose wrong value was left out.
        made_good: objects that the directory repaired.
        missed: all other planted objects.
        followed: rejected rows and findings that result from a rejected row.
        unplanted: findings and rejected rows without a planted cause.
    """

    planted: int
    rejected: int
    reported: int
    left_out: int
    made_good: int
    missed: tuple[Truth, ...]
    followed: int
    unplanted: tuple[Truth, ...]

    @property
    def is_settled(self) -> bool:
        """True if all planted defects are accounted for, and nothing else is wrong."""
        return not self.missed and not self.unplanted


def follow_planted(planted: Counter[Truth], arrived: Arrived) -> PlantedOutcomes:
    """Follow every planted defect through a migration.

    Args:
        planted: the expected findings in the tables.
        arrived: the result of the migration.
    """
    rejected = Counter((row.type, row.guid) for row in arrived.rejected)
    findings = Counter(finding._replace(dn=None) for finding in arrived.findings)
    counts: Counter[str] = Counter()
    missed = []
    for truth in planted.elements():
        fate = _outcome_of_object(truth, arrived, rejected, findings)
        counts[fate] += 1
        if fate == "missed":
            missed.append(truth)
    followed, unplanted = _count_consequences(arrived.rejected, rejected, findings)
    return PlantedOutcomes(
        planted=planted.total(),
        rejected=counts["rejected"],
        reported=counts["found"],
        left_out=counts["left out"],
        made_good=counts["made good"],
        missed=tuple(missed),
        followed=followed,
        unplanted=tuple(unplanted),
    )


def _outcome_of_object(
    truth: Truth, arrived: Arrived, rejected: Counter[tuple[str, str | None]], findings: Counter[Truth]
) -> str:
    """Return the fate of one planted object.

    The rejected row or the finding that shows it is removed.
    """
    row = (truth.type, truth.guid)
    if rejected[row]:
        rejected[row] -= 1
        return "rejected"
    finding = truth._replace(dn=None)
    if findings[finding]:
        findings[finding] -= 1
        return "found"
    if truth.guid is not None and (truth.guid, LEFT_OUT.get(truth.rule)) in arrived.left_out:
        return "left out"
    return "made good" if truth.rule in MADE_GOOD and truth.guid in arrived.guids else "missed"


def _count_consequences(
    rows: Collection[RejectedRow], rejected: Counter[tuple[str, str | None]], findings: Counter[Truth]
) -> tuple[int, list[Truth]]:
    """Count the rejects and findings that follow from rejected rows.

    Returns their number, and the others.
    """
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
    for truth in findings.elements():
        if (FOLLOWS.get(truth.rule), truth.guid) in named:
            followed += 1
        else:
            unplanted.append(truth)
    return followed, unplanted
