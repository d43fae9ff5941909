"""Validation rules as Spark plans.

The rules are users' rules, and built-in rules that Arrow cannot evaluate.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.pipeline.validate.datasets import Dataset
from mqdssm.pipeline.validate.rules.rule import UNREADABLE, MissingReference, Repeated, Rule, Unequal, Wrong
from mqdssm.pipeline.validate.rules.trees import NOT_SET, SHOWN_CHARS_MAX, quote_literal, split_template

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN: Final = re.compile(r"[\\{}\[\]*?,]")
RULES_MAX: Final = 50  # in one projection: more make generated code too long for the JVM
COLUMNS: Final = ("rule", "severity", "type", "dn", "guid", "attribute", "message", "section")

Frames = Mapping[str, "DataFrame"]
Applied = tuple[Rule, tuple[str, ...]]
"""A rule, and the types that it is applied to."""


def make_plans(frames: Frames, rules: Sequence[Applied], dns: Mapping[str, str]) -> Iterator["DataFrame"]:
    """Make the plans of rules; rules about single rows share scans.

    Args:
        frames: the types.
        rules: the rules and their types.
        dns: DNs of types whose objects have no attribute with it.
    """
    for name, frame in frames.items():
        mine = [rule for rule, types in rules if isinstance(rule, Wrong) and name in types]
        for start in range(0, len(mine), RULES_MAX):
            yield _plan_row_rules(name, frame, mine[start : start + RULES_MAX], dns)
    for rule, types in rules:
        if isinstance(rule, Repeated):
            yield _plan_repeated_values(frames, rule, types, dns)
        elif isinstance(rule, MissingReference):
            for name in types:
                yield _plan_reference(name, frames, rule, dns)


def make_message_sql(text: str, frame: "DataFrame") -> str:
    """Return the SQL expression of a message."""
    parts = []
    for part in split_template(text):
        if not part.is_expression:
            parts.append(quote_literal(part.text))
            continue
        kind = frame.selectExpr(part.text).schema[0].dataType.simpleString()
        parts.append(f"coalesce({_text_of_column(part.text, kind)}, {quote_literal(NOT_SET)})")
    return f"concat({', '.join(parts)})"


def _text_of_column(text: str, kind: str) -> str:
    if kind.startswith("timestamp"):
        return f"""date_format({text}, "yyyy-MM-dd'T'HH:mm:ss'Z'")"""
    if kind == "array<string>":
        return f"left(array_join({text}, ', '), {SHOWN_CHARS_MAX})"
    if kind == "string":
        return f"left({text}, {SHOWN_CHARS_MAX})"
    return f"string({text})"


def _plan_row_rules(
    name: str, frame: "DataFrame", rules: Sequence[Wrong], dns: Mapping[str, str]
) -> "DataFrame":
    """Make one scan for several rules.

    Most rows are valid: one cheap condition excludes them. The array is built inside the generator, since the
    optimizer would compute a named array again for each use.
    """
    bad = [f"coalesce(({rule.condition}), false){_exclude_undecodable(frame, rule)}" for rule in rules]
    terms = [
        f"if({test}, {_make_finding_sql(rule, name, frame, dns)}, null)"
        for rule, test in zip(rules, bad, strict=True)
    ]
    plan = frame.where(" or ".join(f"({test})" for test in bad)).selectExpr(
        f"explode(filter(array({', '.join(terms)}), x -> x is not null)) as finding"
    )
    return plan.select("finding.*")


def _exclude_undecodable(frame: "DataFrame", rule: Rule) -> str:
    """Return a condition that excludes undecodable values.

    Undecodable values are reported as such, not for being NULL.
    """
    if UNREADABLE not in frame.columns:
        return ""
    mark = quote_literal(f"{rule.attribute}:")
    return f" and not coalesce(exists({UNREADABLE}, x -> startswith(x, {mark})), false)"


def _plan_repeated_values(
    frames: Frames, rule: Repeated, types: Sequence[str], dns: Mapping[str, str]
) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

    rows = union_of(
        frames[name].selectExpr(
            f"{quote_literal(name)} as type",
            f"{_choose_dn_column(name, frames[name], dns)} as dn",
            f"{_choose_guid_column(frames[name])} as guid",
            f"{_make_value_sql(frames[name], rule.key, distinct=True)} as value",
        )
        for name in types
    )
    counts = (
        rows.where("value is not null")
        .groupBy("value")
        .agg(F.count("*").alias("n"), F.min("type").alias("first"), F.max("type").alias("last"))
        .where("n > 1")
    )
    if rule.unless_all:
        both = quote_literal(rule.unless_all)
        counts = counts.where(f"not (first = {both} and last = {both})")
    joined = rows.join(counts, "value").selectExpr("*", "string(n) as count")
    if joined.schema["value"].dataType.simpleString() == "binary":
        joined = joined.withColumn("value", F.expr("lower(hex(value))"))
    return joined.selectExpr(
        f"{quote_literal(rule.id)} as rule",
        f"{quote_literal(rule.severity)} as severity",
        "type",
        "dn",
        "guid",
        f"{quote_literal(rule.attribute)} as attribute",
        f"{make_message_sql(rule.message, joined)} as message",
        f"{quote_literal(rule.section)} as section",
    )


def _make_value_sql(frame: "DataFrame", key: str, *, distinct: bool = False) -> str:
    """Return an expression with one row for each element of an array.

    With `distinct` it has each value only once.
    """
    kind = frame.selectExpr(key).schema[0].dataType.simpleString()
    if not kind.startswith("array"):
        return key
    return f"explode(array_distinct({key}))" if distinct else f"explode({key})"


def _plan_reference(name: str, frames: Frames, rule: MissingReference, dns: Mapping[str, str]) -> "DataFrame":
    frame = frames[name]
    where = f"({rule.where}){_exclude_undecodable(frame, rule)}"
    rows = frame.where(where).selectExpr("*", f"{_make_value_sql(frame, rule.value)} as value")
    rows = rows.where("value is not null")
    target = frames[rule.target]
    if isinstance(rule, Unequal):
        other = ", ".join(
            f"{quote_literal(column)}, `{column}`" for column in sorted(rule.list_other_columns())
        )
        keys = target.selectExpr(f"{rule.key} as key", f"named_struct({other}) as other")
        joined = rows.join(keys, rows["value"] == keys["key"], "inner").where(rule.condition)
    else:
        keys = target.selectExpr(f"{rule.key} as key").where("key is not null")
        joined = rows.join(keys, rows["value"] == keys["key"], "left_anti")
    plan = joined.selectExpr(f"{_make_finding_sql(rule, name, joined, dns)} as finding").select("finding.*")
    return plan.distinct() if isinstance(rule, Unequal) else plan


def _make_finding_sql(rule: Rule, name: str, frame: "DataFrame", dns: Mapping[str, str]) -> str:
    """Return the SQL expression of one finding about a row."""
    values = {
        "rule": quote_literal(rule.id),
        "severity": quote_literal(rule.severity),
        "type": quote_literal(name),
        "dn": _choose_dn_column(name, frame, dns),
        "guid": _choose_guid_column(frame),
        "attribute": quote_literal(rule.attribute),
        "message": make_message_sql(rule.message, frame),
        "section": quote_literal(rule.section),
    }
    return f"named_struct({', '.join(f'{quote_literal(column)}, {values[column]}' for column in COLUMNS)})"


def _choose_guid_column(frame: "DataFrame") -> str:
    return "Identifier" if "Identifier" in frame.columns else "string(null)"


def _choose_dn_column(name: str, frame: "DataFrame", dns: Mapping[str, str]) -> str:
    if "FullPath" in frame.columns:
        return "FullPath"
    return quote_literal(dns[name]) if name in dns else "string(null)"


def union_of(frames: "Iterable[DataFrame]") -> "DataFrame":
    """Return the rows of all frames, of which there is at least one."""
    return reduce(lambda union, frame: union.unionAll(frame), frames)


def name_to_write(path: Path) -> str:
    """Return the name of a folder that Spark writes.

    Spark takes texts, not URIs: in a name, ``%20`` stands for itself.
    """
    return f"file://{path.absolute()}"


def name_to_read(path: Path) -> str:
    """Return the name of a file or a folder that Spark reads.

    Names that are read can be patterns: the characters of patterns are escaped.
    """
    return _PATTERN.sub(r"\\\g<0>", name_to_write(path))


def read_frame(spark: "SparkSession", objects: Dataset) -> "DataFrame":
    """Return the objects of one type as a data frame.

    No Spark job reads the schema of the files.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema(objects.columns))
    if not objects.pieces:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(name_to_read(Path(path)) for path in objects.paths))
