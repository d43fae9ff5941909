"""Findings, saved once as sorted Parquet files; all outputs derive from these.

Counts are exact, samples are bounded, and no more than one batch of findings is in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.spark.rules.rule import SEVERITIES, Finding, Rule, Severity

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ORDER: Final = ("rule", "type", "dn", "guid", "attribute", "message")
"""Findings are sorted by these, NULL first."""
SAMPLES_MAX: Final = 100
"""Findings of one rule that a summary shows."""
SORTED_HERE_MAX: Final = 300_000  # beyond that Spark sorts them, which can spill to disk
_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What came of one rule.

    Attributes:
        id: of the rule.
        severity: how bad its findings are.
        kind: its form, as ``row``.
        what: what must hold.
        section: where a specification says so.
        types: types that were judged.
        count: exact number of findings.
        samples: the first `SAMPLES_MAX` of them.
        left_out: why further types were not judged; empty if all were.
    """

    id: str
    severity: Severity
    kind: str
    what: str
    section: str
    types: tuple[str, ...]
    count: int
    samples: tuple[Finding, ...]
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that was not applied, or not to all of its types.

    Attributes:
        id: of the rule.
        reason: why.
        types: those that it judged all the same.
    """

    id: str
    reason: str
    types: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.types:
            return f"applied to {', '.join(self.types)} alone: {self.id}: {self.reason}"
        return f"not applied: {self.id}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Summary:
    """A validation in short: what reports are made of.

    Attributes:
        source: what was validated, for people.
        started: when.
        ended: when.
        objects: number of objects of each type.
        rules: the rules that were applied, in the order of the catalogue.
        skipped: those that were not.
        versions: of mqdssm, Python, pyspark and pyarrow.
    """

    source: str
    started: datetime
    ended: datetime
    objects: Mapping[str, int]
    rules: tuple[RuleResult, ...]
    skipped: tuple[Skipped, ...]
    versions: Mapping[str, str]

    @property
    def count(self) -> int:
        """Number of findings."""
        return sum(rule.count for rule in self.rules)

    @property
    def not_judged(self) -> tuple[Skipped, ...]:
        """What no finding does not mean that all is well of: rules that were not applied, or in part."""
        in_part = (Skipped(one.id, one.left_out, one.types) for one in self.rules if one.left_out)
        return (*self.skipped, *in_part)

    def count_of(self, severity: Severity) -> int:
        """Number of findings of a severity."""
        return sum(rule.count for rule in self.rules if rule.severity == severity)

    def reaches(self, severity: Severity) -> bool:
        """Whether a finding is at least as bad."""
        worse = SEVERITIES[SEVERITIES.index(severity) :]
        return any(self.count_of(one) for one in worse)


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings in files, sorted.

    Attributes:
        paths: the files, in order.
    """

    paths: tuple[Path, ...]

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """All findings in order, as Arrow batches."""
        import pyarrow.parquet as pq

        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=_BATCH_ROWS)

    def __iter__(self) -> Iterator[Finding]:
        for batch in self.batches():
            for row in batch.to_pylist():
                yield Finding(**row)

    def counted(self) -> tuple[Counter[str], dict[str, tuple[Finding, ...]]]:
        """Count the findings of each rule, and keep the first ones."""
        counts: Counter[str] = Counter()
        samples: dict[str, list[Finding]] = {}
        for batch in self.batches():
            for one in batch.column("rule").value_counts().to_pylist():
                counts[one["values"]] += one["counts"]
                kept = samples.setdefault(one["values"], [])
                if len(kept) < SAMPLES_MAX:
                    kept += _first(batch, one["values"], SAMPLES_MAX - len(kept))
        return counts, {rule: tuple(kept) for rule, kept in samples.items()}


def _first(batch: "pa.RecordBatch", rule: str, count: int) -> list[Finding]:
    import pyarrow.compute as pc

    rows: list[dict[str, Any]] = (
        batch.filter(pc.equal(batch.column("rule"), rule)).slice(0, count).to_pylist()
    )
    return [Finding(**row) for row in rows]


def save(frame: "DataFrame", more: Iterable[Finding], folder: Path) -> Findings:
    """Compute findings, and save them sorted.

    Args:
        frame: the plan that gives the findings.
        more: findings that were found otherwise; few.
        folder: an empty folder for the files.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mqdssm.spark.scan import SCHEMA
    from mqdssm.spark.sorting import sorted_files

    found = folder / "found"
    frame.write.option("compression", "none").parquet(found.as_uri())
    extra = pa.Table.from_pylist([_row(one) for one in more], SCHEMA)
    pq.write_table(extra, found / "part-more.parquet")
    paths = sorted(found.glob("*.parquet"))
    target = folder / "sorted"
    target.mkdir()
    here = sum(pq.read_metadata(path).num_rows for path in paths) <= SORTED_HERE_MAX
    return Findings(sorted_files(frame.sparkSession, paths, SCHEMA, ORDER, target, here=here))


def _row(finding: Finding) -> dict[str, str | None]:
    return {name: getattr(finding, name) for name in Finding.__slots__}


def results(
    applied: Sequence[tuple[Rule, tuple[str, ...]]],
    reasons: Mapping[str, str],
    counts: Mapping[str, int],
    samples: Mapping[str, tuple[Finding, ...]],
) -> tuple[RuleResult, ...]:
    """Put together what came of each rule; parts of one rule are one."""
    merged: dict[str, tuple[Rule, dict[str, None]]] = {}
    for rule, types in applied:
        _, known = merged.setdefault(rule.id, (rule, {}))
        known.update(dict.fromkeys(types))
    return tuple(
        RuleResult(
            id=rule.id,
            severity=rule.severity,
            kind=rule.kind,
            what=rule.what,
            section=rule.section,
            types=tuple(types),
            count=counts.get(rule.id, 0),
            samples=samples.get(rule.id, ()),
            left_out=reasons.get(rule.id, ""),
        )
        for rule, types in merged.values()
    )
