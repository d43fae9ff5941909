"""Validation rules that Spark evaluates: checks and application."""

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.rule_assignment import Applied
from mqdssm.pipeline.validate.rules.rule import MissingReference, Rule, Wrong
from mqdssm.pipeline.validate.scan import SCHEMA
from mqdssm.spark.plans import message_sql, plans, read_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqdssm.pipeline.validate.sources import ValidationSource


def check_rules(spark: "SparkSession", rules: Sequence[Rule], source: "ValidationSource") -> None:
    """Check that Spark can evaluate rules.

    Raises:
        ConfigError: it cannot evaluate one; naming the rule.
    """
    from pyspark.errors import AnalysisException, ParseException

    present = source.present()
    for rule in rules:
        types = rule.applies(present).types
        for name in types:
            frame = read_frame(spark, source.sets[name]).limit(0)
            try:
                bad = frame.selectExpr(f"({rule.bad}) as bad") if isinstance(rule, Wrong) else frame
                frame.selectExpr(f"{message_sql(rule.message, frame)} as message")
                kind = bad.schema[0].dataType.simpleString()
            except (AnalysisException, ParseException) as error:
                words = str(error).splitlines()[0]
                raise ConfigError(f"rule {rule.id}, type {name}: {words}") from None
            if kind not in {"boolean", "void"}:
                raise ConfigError(f"rule {rule.id}: its condition gives {kind}, not true or false")


def find_by_rules(
    spark: "SparkSession", rules: Sequence[Applied], source: "ValidationSource", folder: Path
) -> Iterator[pa.RecordBatch]:
    """Apply rules by Spark; see `mqdssm.pipeline.validate.rule_assignment.SqlRunner`."""
    frames = {name: read_frame(spark, source.sets[name]) for name in _types_of(rules)}
    frame = reduce(lambda one, other: one.unionAll(other), plans(frames, rules, source.dns))
    frame.write.option("compression", "none").parquet(folder.as_uri())
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield batch.cast(SCHEMA)


def _types_of(applied: Sequence[Applied]) -> dict[str, None]:
    names: dict[str, None] = {}
    for rule, types in applied:
        names.update(dict.fromkeys(types))
        if isinstance(rule, MissingReference):
            names[rule.target] = None
    return names
