"""Validation: the rules, as Spark SQL, over an export."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.spark.columns import FRAME_TYPES, TYPES, columns_of
from mqdssm.spark.manifest import Manifest
from mqdssm.spark.rules import RULES, Finding, MissingReference, Repeated, Rule, Wrong
from mqdssm.spark.session import check_spark, spark_session
from mqdssm.tables.places import enterprise_dn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BRIEF_ROWS_MAX: Final = 200_000  # below that the JVM's start is most of the time
_COLUMNS: Final = tuple(field.name for field in fields(Finding))


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validation found.

    Attributes:
        findings: sorted by rule, type and DN.
        rules: ids of the rules that were applied.
        skipped: ids of the rules that could not be applied, because the export lacks types that they need.
    """

    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    skipped: tuple[str, ...]


def validate(directory: str | os.PathLike[str], *, rules: Sequence[Rule] = RULES) -> Validation:
    """Check an export by rules.

    Args:
        directory: the folder of an export.
        rules: what to check.

    Raises:
        ConfigError: the folder is no whole export, a file of it is not what was exported, no Java or pyspark.
    """
    folder = Path(directory)
    manifest = Manifest.load(folder)
    for name in manifest.types:
        if name not in FRAME_TYPES:
            raise ConfigError(f"{folder} holds type {name}, which this program does not know")
    manifest.check(folder)
    check_spark()
    applied = [rule for rule in rules if rule.applies_to(manifest.types)]
    brief = sum(exported.rows for exported in manifest.types.values()) < BRIEF_ROWS_MAX
    with spark_session("mqdssm validate", brief=brief) as spark:
        findings = find(_frames(spark, folder, manifest), applied, _fixed_dns(manifest))
    return Validation(
        findings=findings,
        rules=tuple(rule.id for rule in applied),
        skipped=tuple(rule.id for rule in rules if rule not in applied),
    )


def find(
    frames: Mapping[str, "DataFrame"], rules: Sequence[Rule], dns: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Apply rules to data frames.

    Args:
        frames: one of each type, by its name on the command line.
        rules: what to check; a rule whose types are not there finds nothing.
        dns: DNs of types whose objects do not say where they are, since there is only one.

    Returns:
        The findings, sorted by rule, type and DN.
    """
    plans = [
        *_wrong(frames, [rule for rule in rules if isinstance(rule, Wrong)], dns or {}),
        *(
            _repeated(frames, rule, dns or {})
            for rule in rules
            if isinstance(rule, Repeated) and rule.applies_to(frames)
        ),
        *(
            plan
            for rule in rules
            if isinstance(rule, MissingReference)
            for plan in _missing(frames, rule, dns or {})
        ),
    ]
    if not plans:
        return ()
    rows = reduce(type(plans[0]).unionAll, plans).toArrow().to_pylist()
    return tuple(sorted((Finding(**row) for row in rows), key=_order))


def _order(finding: Finding) -> tuple[str, ...]:
    return (finding.rule, finding.type, finding.dn or "", finding.guid or "", finding.message)


def _frames(spark: "SparkSession", folder: Path, manifest: Manifest) -> dict[str, "DataFrame"]:
    """Read the files that the manifest names, and no other."""
    from mqdssm.spark.source import spark_schema

    frames = {}
    for name, exported in manifest.types.items():
        if name not in TYPES:
            continue  # no rule looks at these
        paths = [(folder / file.path).resolve().as_uri() for file in exported.files]
        frames[name] = spark.read.schema(spark_schema(columns_of(TYPES[name]))).parquet(*paths)
    return frames


def _fixed_dns(manifest: Manifest) -> dict[str, str]:
    return {"enterprise": str(enterprise_dn(DN.parse(manifest.naming_context)))}


def _wrong(
    frames: Mapping[str, "DataFrame"], rules: Sequence[Wrong], dns: Mapping[str, str]
) -> list["DataFrame"]:
    """Make one scan of each type for all rules that look at rows.

    Most rows are sound: one cheap condition lets only the others through. The array is built inside the
    generator, since the optimizer would compute a named one again for each use.
    """
    plans = []
    for name, frame in frames.items():
        mine = [rule for rule in rules if name in rule.types]
        if not mine:
            continue
        bad = [f"coalesce({rule.bad}, false)" for rule in mine]
        found = [
            f"if({test}, {_finding(rule, name, dns)}, null)" for rule, test in zip(mine, bad, strict=True)
        ]
        plan = frame.where(" or ".join(bad)).selectExpr(
            f"explode(filter(array({', '.join(found)}), x -> x is not null)) as finding"
        )
        plans.append(plan.select("finding.*"))
    return plans


def _repeated(frames: Mapping[str, "DataFrame"], rule: Repeated, dns: Mapping[str, str]) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

    parts = [
        frames[name].selectExpr(
            f"{_text(name)} as type",
            f"{_dn(name, dns)} as dn",
            "Identifier as guid",
            f"string(`{rule.attribute}`) as value",
        )
        for name in rule.applies_to(frames)
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    counts = rows.where("value is not null").groupBy("value").agg(F.count("*").alias("n")).where("n > 1")
    found = rows.join(counts, "value").selectExpr("*", "string(n) as count")
    return found.selectExpr(
        f"{_text(rule.id)} as rule",
        f"{_text(rule.severity)} as severity",
        "type",
        "dn",
        "guid",
        f"{_text(rule.attribute)} as attribute",
        f"{rule.message} as message",
        f"{_text(rule.section)} as section",
    )


def _missing(
    frames: Mapping[str, "DataFrame"], rule: MissingReference, dns: Mapping[str, str]
) -> list["DataFrame"]:
    from pyspark.sql.types import ArrayType

    plans = []
    for name in rule.applies_to(frames):
        frame = frames[name]
        several = isinstance(frame.selectExpr(rule.value).schema[0].dataType, ArrayType)
        value = f"explode({rule.value})" if several else rule.value
        rows = frame.selectExpr("*", f"{value} as value").where("value is not null")
        keys = frames[rule.target].selectExpr(f"{rule.key} as key").where("key is not null")
        lost = rows.join(keys, rows["value"] == keys["key"], "left_anti")
        plans.append(lost.selectExpr(f"{_finding(rule, name, dns)} as finding").select("finding.*"))
    return plans


def _finding(rule: Rule, name: str, dns: Mapping[str, str]) -> str:
    """Write the SQL expression of one finding about a row."""
    values = {
        "rule": _text(rule.id),
        "severity": _text(rule.severity),
        "type": _text(name),
        "dn": _dn(name, dns),
        "guid": "Identifier",
        "attribute": _text(rule.attribute),
        "message": rule.message,
        "section": _text(rule.section),
    }
    return f"named_struct({', '.join(f'{_text(column)}, {values[column]}' for column in _COLUMNS)})"


def _dn(name: str, dns: Mapping[str, str]) -> str:
    if any(column.name == "FullPath" for column in columns_of(TYPES[name])):
        return "FullPath"
    return _text(dns[name]) if name in dns else "string(null)"


def _text(value: str) -> str:
    """Write a string literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
