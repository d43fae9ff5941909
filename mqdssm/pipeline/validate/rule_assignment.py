"""Assignment of rules: those that workers apply with Arrow, and those that Spark applies with SQL."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.pipeline.validate.finding_files import write_parts
from mqdssm.pipeline.validate.rules.rule import (
    GraphRule,
    Judged,
    Repeated,
    Rule,
    Stated,
    Undecodable,
)
from mqdssm.pipeline.validate.worker import ValidationPlan, rule_job

if TYPE_CHECKING:
    import pyarrow as pa

    from mqdssm.pipeline.validate.sources import ValidationSource

Applied = tuple[Rule, tuple[str, ...]]
"""A rule, and the types to which it is applied."""


@dataclass(slots=True)
class RuleShares:
    """Rules grouped by the engine that applies them.

    Attributes:
        rows: of each type, the rules that workers apply to single objects.
        unique: rules about repeated values, which workers apply.
        sql: rules that Spark applies.
    """

    rows: dict[str, list[Rule]] = field(default_factory=dict)
    unique: list[tuple[Repeated, tuple[str, ...]]] = field(default_factory=list)
    sql: list[Applied] = field(default_factory=list)


@runtime_checkable
class SqlRunner(Protocol):
    """Runner that also evaluates rules as SQL, as Spark's does."""

    def check_rules(self, rules: Sequence[Rule], source: "ValidationSource") -> None:
        """Check that the runner can evaluate rules.

        Raises:
            ConfigError: it cannot evaluate one; naming the rule.
        """

    def find_by_rules(
        self, rules: Sequence[Applied], source: "ValidationSource", folder: Path
    ) -> "Iterator[pa.RecordBatch]":
        """Apply rules, and return batches of findings in any order.

        Args:
            rules: the rules, with their types.
            source: the objects to validate.
            folder: a new folder that all workers see.
        """

    def check_workers(self, on: SparkOptions, files: Sequence[Path] = ()) -> None:
        """Check that workers have the packages and see files; see `mqdssm.spark.cluster.probe`.

        Raises:
            ConfigError: something is missing.
        """


def sql_runner(runner: Runner) -> SqlRunner | None:
    """Return the runner if it evaluates SQL, else None."""
    return runner if isinstance(runner, SqlRunner) else None


def share_rules(
    applied: Sequence[Applied], is_for_spark: Callable[[Rule, tuple[str, ...]], bool]
) -> RuleShares:
    """Divide rules between workers and Spark.

    Args:
        applied: the rules, with their types.
        is_for_spark: True if Spark is to apply a rule; rules that need a program are never given to Spark.
    """
    made = RuleShares()
    for rule, types in applied:
        if isinstance(rule, GraphRule | Stated) or rule.kind == "directory":
            continue
        if not isinstance(rule, Judged | Undecodable) and is_for_spark(rule, types):
            made.sql.append((rule, types))
        elif isinstance(rule, Repeated):
            made.unique.append((rule, types))
        else:
            for name in types:
                made.rows.setdefault(name, []).append(rule)
    for rule, types in made.sql:  # for each engine, workers find the values that cannot be decoded
        for name in types if rule.decodes else ():
            made.rows.setdefault(name, []).append(_decoding(rule))
    return made


def write_findings(
    runner: Runner, source: "ValidationSource", shares: RuleShares, now: datetime, folder: Path
) -> list[Path]:
    """Let workers and Spark write sorted files of findings.

    Args:
        runner: does the work.
        source: the objects to validate.
        shares: the rules.
        now: moment by which certificates are judged.
        folder: for the files; all workers see it.
    """
    rows = {name: tuple(rules) for name, rules in shares.rows.items()}
    job = rule_job(ValidationPlan(source.sets, rows, tuple(shares.unique), source.dns, now), folder)
    parts = [path for paths in runner.run(job) for path in paths]
    sql = sql_runner(runner)
    if shares.sql and sql is not None:
        parts += write_parts(sql.find_by_rules(shares.sql, source, folder / "sql"), folder)
    return parts


def _decoding(rule: Rule) -> Undecodable:
    """Return the part of a rule about values that could not be decoded."""
    return Undecodable(
        id=rule.id,
        severity=rule.severity,
        types=rule.types,
        attribute=rule.attribute,
        section=rule.section,
        what=rule.what,
    )
