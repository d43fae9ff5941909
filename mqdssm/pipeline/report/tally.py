"""Counts of findings that a summary lacks: by type, site, link and machine."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqdssm.pipeline.validate.rules.rule import SEVERITIES, Severity

if TYPE_CHECKING:
    import pyarrow as pa

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
    """Count findings, a batch at a time; memory grows with the sites, links and machines that have some."""
    import pyarrow as pa

    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    objects: dict[str, defaultdict[str, Counter[str]]] = {name: defaultdict(Counter) for name in PLACED}
    for batch in batches:
        table = pa.Table.from_batches([batch]).select(["type", "severity", "guid"])
        for row in table.group_by(["type", "severity"]).aggregate([([], "count_all")]).to_pylist():
            types[row["type"]][row["severity"]] += row["count_all"]
        for name, found in objects.items():
            mine = table.filter(pa.compute.equal(table["type"], name))
            for row in mine.group_by(["guid", "severity"]).aggregate([([], "count_all")]).to_pylist():
                if row["guid"] is not None:
                    found[row["guid"]][row["severity"]] += row["count_all"]
    return FindingTally(types, objects)


def worst(counts: Counts) -> Severity | None:
    """Return the worst severity with a finding; None if there are no findings."""
    return next((one for one in reversed(SEVERITIES) if counts.get(one, 0)), None)


def added(*several: Counts) -> Counts:
    """Return the sums of several counts."""
    total: Counter[str] = Counter()
    for one in several:
        total.update(one)
    return total
