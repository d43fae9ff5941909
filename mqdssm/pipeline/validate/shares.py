"""Shares of a validation: which rules workers apply with Arrow, and which Spark applies with SQL."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.validate.finding_files import write_parts
from mqdssm.pipeline.validate.rules.rule import (
    Drawn,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Stated,
    Undecodable,
)
from mqdssm.pipeline.validate.scan import SCHEMA
from mqdssm.pipeline.validate.work import Plan, rule_job
from mqdssm.spark.runner import SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from mqdssm.pipeline.validate.sources import Source

Applied = tuple[Rule, tuple[str, ...]]
"""A rule, and the types that it is to judge."""


@dataclass(slots=True)
class RuleShares:
    """Rules by who applies them.

    Attributes:
        rows: of each type, the rules that workers apply to single objects.
        unique: rules about repeated values, which workers apply.
        sql: rules that Spark applies.
    """

    rows: dict[str, list[Rule]] = field(default_factory=dict)
    unique: list[tuple[Repeated, tuple[str, ...]]] = field(default_factory=list)
    sql: list[Applied] = field(default_factory=list)


def spark_of(runner: Runner) -> "SparkSession | None":
    """Return the session of a runner on Spark, None of another one."""
    return runner.spark if isinstance(runner, SparkRunner) else None


def share_rules(
    applied: Sequence[Applied], is_for_spark: Callable[[Rule, tuple[str, ...]], bool]
) -> RuleShares:
    """Divide rules between workers and Spark.

    Args:
        applied: the rules, with the types that they judge.
        is_for_spark: True if Spark is to apply a rule; what needs a program is never given to it.
    """
    made = RuleShares()
    for rule, types in applied:
        if isinstance(rule, Drawn | Stated) or rule.kind == "directory":
            continue
        if not isinstance(rule, Judged | Undecodable) and is_for_spark(rule, types):
            made.sql.append((rule, types))
        elif isinstance(rule, Repeated):
            made.unique.append((rule, types))
        else:
            for name in types:
                made.rows.setdefault(name, []).append(rule)
    for rule, types in made.sql:  # whoever applies a rule, what cannot be decoded is seen by the workers
        for name in types if rule.decodes else ():
            made.rows.setdefault(name, []).append(_decoding(rule))
    return made


def write_findings(
    runner: Runner, source: "Source", shares: RuleShares, now: datetime, folder: Path
) -> list[Path]:
    """Let workers and Spark write sorted files of what they find.

    Args:
        runner: does the work.
        source: what is validated.
        shares: the rules.
        now: moment by which certificates are judged.
        folder: for the files; all workers see it.
    """
    rows = {name: tuple(rules) for name, rules in shares.rows.items()}
    job = rule_job(Plan(source.sets, rows, tuple(shares.unique), source.dns, now), folder)
    parts = [path for paths in runner.run(job) for path in paths]
    spark = spark_of(runner)
    if shares.sql and spark is not None:
        parts += write_parts(_found_by_sql(spark, source, shares.sql, folder / "sql"), folder)
    return parts


def _found_by_sql(
    spark: "SparkSession", source: "Source", rules: Sequence[Applied], folder: Path
) -> "Iterator[pa.RecordBatch]":
    from mqdssm.spark.plans import plans

    frames = {name: source.sets[name].frame(spark) for name in _types_of(rules)}
    frame = reduce(lambda one, other: one.unionAll(other), plans(frames, rules, source.dns))
    frame.write.option("compression", "none").parquet(folder.as_uri())
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield batch.cast(SCHEMA)


def _decoding(rule: Rule) -> Undecodable:
    """The part of a rule that is about values that could not be decoded."""
    return Undecodable(
        id=rule.id,
        severity=rule.severity,
        types=rule.types,
        attribute=rule.attribute,
        section=rule.section,
        what=rule.what,
    )


def _types_of(applied: Sequence[Applied]) -> dict[str, None]:
    names: dict[str, None] = {}
    for rule, types in applied:
        names.update(dict.fromkeys(types))
        if isinstance(rule, MissingReference):
            names[rule.target] = None
    return names
