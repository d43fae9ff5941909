"""Sites and the links between them, with the numbers of findings about each.

Counts of findings that a summary lacks: by type, site, link and machine.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqdssm.pipeline.validate.rules.rule import SEVERITIES, Severity

if TYPE_CHECKING:
    import pyarrow as pa

    from mqdssm.pipeline.validate.datasets import Dataset

Counts = Mapping[str, int]
"""Numbers of findings by severity."""

PLACED: Final = ("site", "routing-link", "queue-manager")
"""Types whose findings are counted for each object, for the picture of the sites."""


@dataclass(frozen=True, slots=True)
class FindingTally:
    """Numbers of findings.

    Attributes:
        types: by type, then severity.
        objects: of some types (`PLACED`), by GUID, then severity.
    """

    types: Mapping[str, Counts]
    objects: Mapping[str, Mapping[str, Counts]]


def tally(batches: "Iterable[pa.RecordBatch]") -> FindingTally:
    """Count findings, a batch at a time.

    Memory grows with the sites, links and machines that have findings.
    """
    import pyarrow as pa

    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    objects: dict[str, defaultdict[str, Counter[str]]] = {name: defaultdict(Counter) for name in PLACED}
    for batch in batches:
        table = pa.Table.from_batches([batch]).select(["type", "severity", "guid"])
        for row in table.group_by(["type", "severity"]).aggregate([([], "count_all")]).to_pylist():
            types[row["type"]][row["severity"]] += row["count_all"]
        for name, object_counts in objects.items():
            mine = table.filter(pa.compute.equal(table["type"], name))
            for row in mine.group_by(["guid", "severity"]).aggregate([([], "count_all")]).to_pylist():
                if row["guid"] is not None:
                    object_counts[row["guid"]][row["severity"]] += row["count_all"]
    return FindingTally(types, objects)


def find_worst(counts: Counts) -> Severity | None:
    """Return the worst severity with a finding; None if there are no findings."""
    return next((severity for severity in reversed(SEVERITIES) if counts.get(severity, 0)), None)


def add_counts(*several: Counts) -> Counts:
    """Return the sums of several counts."""
    total: Counter[str] = Counter()
    for counts in several:
        total.update(counts)
    return total


_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class SiteNode:
    """A site.

    Attributes:
        guid: its Identifier.
        name: of the site.
        foreign: it is of another messaging system.
        machines: number of queue managers in it.
        own: findings about the site itself.
        of_machines: findings about the queue managers in it.
    """

    guid: str
    name: str
    foreign: bool
    machines: int
    own: Counts
    of_machines: Counts


@dataclass(frozen=True, slots=True)
class LinkEdge:
    """A routing link.

    Attributes:
        site1: number of the site at one end.
        site2: that at the other.
        cost: ActualCost; None where it is not set.
        own: findings about the link.
    """

    site1: int
    site2: int
    cost: int | None
    own: Counts


@dataclass(frozen=True, slots=True)
class Topology:
    """All sites and links.

    Attributes:
        sites: by name.
        links: those whose two ends are different sites that exist.
        loose: number of all other links.
    """

    sites: tuple[SiteNode, ...]
    links: tuple[LinkEdge, ...]
    loose: int

    def find_neighbours(self) -> dict[int, set[int]]:
        """Return the numbers of the sites that links join to each site."""
        near: dict[int, set[int]] = {number: set() for number in range(len(self.sites))}
        for link in self.links:
            near[link.site1].add(link.site2)
            near[link.site2].add(link.site1)
        return near

    def count_link_findings(self) -> list[Counts]:
        """Return the counts of findings about the links of each site."""
        sums: list[Counts] = [{} for _ in self.sites]
        for link in self.links:
            for end in (link.site1, link.site2):
                sums[end] = add_counts(sums[end], link.own)
        return sums


def topology_of(sets: "Mapping[str, Dataset]", finding_tally: FindingTally) -> Topology:
    """Read the sites, the links, and the sites of machines.

    Args:
        sets: the types of the source.
        finding_tally: what was found.

    Returns:
        Sites and links; none where the source has no sites.
    """
    rows = _read_rows(sets, "site", ("Identifier", "Name", "ForeignSite"))
    machines, troubled = _count_machines(sets.get("queue-manager"), finding_tally.objects["queue-manager"])
    rows = sorted(rows, key=lambda row: (str(row.get("Name") or "").casefold(), str(row.get("Identifier"))))
    sites = tuple(
        SiteNode(
            guid=str(row.get("Identifier") or ""),
            name=str(row.get("Name") or row.get("Identifier") or "?"),
            foreign=bool(row.get("ForeignSite")),
            machines=machines[row.get("Identifier")],
            own=finding_tally.objects["site"].get(str(row.get("Identifier")), {}),
            of_machines=troubled.get(row.get("Identifier"), {}),
        )
        for row in rows
    )
    links, loose = _make_links(sets, sites, finding_tally.objects["routing-link"])
    return Topology(sites, links, loose)


def _read_rows(
    sets: "Mapping[str, Dataset]", name: str, columns: Sequence[str]
) -> list[dict[str, str | int | bool | None]]:
    if name not in sets or not sets[name].rows:
        return []
    rows: list[dict[str, str | int | bool | None]] = sets[name].read_table(columns).to_pylist()
    return rows


def _make_links(
    sets: "Mapping[str, Dataset]", sites: Sequence[SiteNode], problem_counts: Mapping[str, Counts]
) -> tuple[tuple[LinkEdge, ...], int]:
    numbers = {site.guid: number for number, site in enumerate(sites)}
    columns = ("Identifier", "Site1Identifier", "Site2Identifier", "ActualCost")
    rows = _read_rows(sets, "routing-link", columns)
    links = []
    for row in sorted(rows, key=lambda row: str(row.get("Identifier"))):
        first = numbers.get(str(row.get("Site1Identifier")))
        other = numbers.get(str(row.get("Site2Identifier")))
        cost = row.get("ActualCost")
        if first is not None and other is not None and first != other:
            link_counts = problem_counts.get(str(row.get("Identifier")), {})
            links.append(LinkEdge(first, other, None if cost is None else int(cost), link_counts))
    return tuple(links), len(rows) - len(links)


def _count_machines(
    target: "Dataset | None", problem_counts: Mapping[str, Counts]
) -> tuple[Counter[object], dict[object, Counts]]:
    """Count the queue managers of each site, and the findings about them.

    Queue managers are read a batch at a time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: Counter[object] = Counter()
    troubled: dict[object, Counts] = {}
    if target is None or not {"Identifier", "SiteIdentifierList"} <= set(target.types):
        return counts, troubled
    bad = pa.array(sorted(problem_counts), pa.string())
    for batch in target.read_batches(["Identifier", "SiteIdentifierList"], _BATCH_ROWS):
        _count(batch.column("SiteIdentifierList"), counts)
        few = batch.filter(pc.is_in(batch.column("Identifier").cast(pa.string()), value_set=bad))
        for row in few.to_pylist():
            for site in dict.fromkeys(row["SiteIdentifierList"] or ()):
                troubled[site] = add_counts(troubled.get(site, {}), problem_counts[row["Identifier"]])
    return counts, troubled


def _count(lists: "pa.Array", counts: Counter[object]) -> None:
    import pyarrow.compute as pc

    for item in pc.value_counts(pc.list_flatten(lists)).to_pylist():
        counts[item["values"]] += item["counts"]
