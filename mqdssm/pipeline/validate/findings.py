"""Findings, saved once as sorted Parquet files from which all outputs are made.

Counts are exact, samples are bounded, and no more than one batch of findings is in memory.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.pipeline.validate.rules.rule import Finding, Rule, Severity

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLES_MAX: Final = 100
"""Limit of the findings of one rule in a summary."""
_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Findings of one rule.

    Attributes:
        id: of the rule.
        severity: how bad its findings are.
        kind: its form, as ``row``.
        requirement: the requirement, for people.
        section: section of a specification that demands it.
        types: types that were judged.
        count: exact number of findings.
        samples: the first `SAMPLES_MAX` findings.
        left_out: reason why further types were not judged; empty if all were.
    """

    id: str
    severity: Severity
    kind: str
    requirement: str
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
        types: the types to which it was applied nevertheless.
    """

    id: str
    reason: str
    types: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The words that say to which types the rule was applied."""
        return f"applied to {', '.join(self.types)} alone" if self.types else "not applied"

    def __str__(self) -> str:
        return f"{self.scope}: {self.id}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ValidationSummary:
    """Summary of a validation, from which reports are made.

    Attributes:
        source: name of the source, for people.
        started: when.
        ended: when.
        objects: number of objects of each type.
        rules: the rules that were applied, in the order of the catalogue.
        skipped: those that were not.
        versions: of mqdssm, Python, pyspark and pyarrow.
        engine: the engine used, ``local`` or ``spark``.
    """

    source: str
    started: datetime
    ended: datetime
    objects: Mapping[str, int]
    rules: tuple[RuleResult, ...]
    skipped: tuple[Skipped, ...]
    versions: Mapping[str, str]
    engine: str = "local"

    @property
    def count(self) -> int:
        """Number of findings."""
        return sum(rule.count for rule in self.rules)

    @property
    def not_judged(self) -> tuple[Skipped, ...]:
        """Rules that were not applied, or only in part.

        Without findings by them, defects are still possible.
        """
        in_part = (Skipped(rule.id, rule.left_out, rule.types) for rule in self.rules if rule.left_out)
        return (*self.skipped, *in_part)

    def count_of(self, severity: Severity) -> int:
        """Number of findings of a severity."""
        return sum(rule.count for rule in self.rules if rule.severity == severity)


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings in files, sorted.

    Attributes:
        paths: the files, in order.
    """

    paths: tuple[Path, ...]

    def read_batches(self) -> "Iterator[pa.RecordBatch]":
        """Read all findings in order, as Arrow batches."""
        import pyarrow.parquet as pq

        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=_BATCH_ROWS)

    def __iter__(self) -> Iterator[Finding]:
        for batch in self.read_batches():
            for row in batch.to_pylist():
                yield Finding(**row)

    def count_findings(self) -> tuple[Counter[str], dict[str, tuple[Finding, ...]]]:
        """Return the number of findings of each rule, and the first ones."""
        counts: Counter[str] = Counter()
        samples: dict[str, list[Finding]] = {}
        for batch in self.read_batches():
            for item in batch.column("rule").value_counts().to_pylist():
                counts[item["values"]] += item["counts"]
                rule_samples = samples.setdefault(item["values"], [])
                if len(rule_samples) < SAMPLES_MAX:
                    rule_samples += _take_first(batch, item["values"], SAMPLES_MAX - len(rule_samples))
        return counts, {rule: tuple(sample) for rule, sample in samples.items()}


def _take_first(batch: "pa.RecordBatch", rule: str, count: int) -> list[Finding]:
    import pyarrow.compute as pc

    rows: list[dict[str, Any]] = (
        batch.filter(pc.equal(batch.column("rule"), rule)).slice(0, count).to_pylist()
    )
    return [Finding(**row) for row in rows]


def batch_of(findings: Sequence[Finding]) -> "pa.RecordBatch":
    """Return findings as an Arrow batch."""
    import pyarrow as pa

    from mqdssm.pipeline.validate.scan import SCHEMA

    return pa.RecordBatch.from_pylist(
        [{name: getattr(finding, name) for name in SCHEMA.names} for finding in findings], SCHEMA
    )


def make_results(
    applied: Sequence[tuple[Rule, tuple[str, ...]]],
    reasons: Mapping[str, str],
    counts: Mapping[str, int],
    samples: Mapping[str, tuple[Finding, ...]],
) -> tuple[RuleResult, ...]:
    """Make the result of each rule; parts of one rule are combined."""
    merged: dict[str, tuple[Rule, dict[str, None]]] = {}
    for rule, types in applied:
        _, all_types = merged.setdefault(rule.id, (rule, {}))
        all_types.update(dict.fromkeys(types))
    return tuple(
        RuleResult(
            id=rule.id,
            severity=rule.severity,
            kind=rule.kind,
            requirement=rule.requirement,
            section=rule.section,
            types=tuple(types),
            count=counts.get(rule.id, 0),
            samples=samples.get(rule.id, ()),
            left_out=reasons.get(rule.id, ""),
        )
        for rule, types in merged.values()
    )
