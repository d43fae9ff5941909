"""Validation: rules over an export, a directory or MQIS tables, and what they find."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.spark.access import LogIn
from mqdssm.spark.cluster import HERE, SparkOptions, probe, scratch
from mqdssm.spark.engines import Engine, EngineKind
from mqdssm.spark.findings import Findings, Skipped, Summary, results, save
from mqdssm.spark.manifest import versions
from mqdssm.spark.rules import RULES
from mqdssm.spark.rules.graphs import DRAWINGS
from mqdssm.spark.rules.rule import (
    Drawn,
    Finding,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Undecodable,
)
from mqdssm.spark.session import check_spark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mqdssm.spark.datasets import Dataset
    from mqdssm.spark.validate_sources import Source

SWITCHED_OFF: Final = "switched off by the file of rules"
BRIEF_ROWS_MAX: Final = 200_000  # below that the JVM's start is most of the time

Applied = tuple[Rule, tuple[str, ...]]
"""A rule, and the types that it is to judge."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validation found.

    Attributes:
        summary: in short.
        findings: all of them, sorted; the files are there until the validation is left.
        sets: the types that were validated, as long.
    """

    summary: Summary
    findings: Findings
    sets: "Mapping[str, Dataset]"


@contextlib.contextmanager
def validation(
    export: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = (),
    access: LogIn | None = None,
    mqis: str | os.PathLike[str] | None = None,
    rules: Sequence[Rule] = RULES,
    own: Sequence[Rule] = (),
    off: Sequence[str] = (),
    now: datetime | None = None,
    on: SparkOptions = HERE,
) -> Iterator[Validation]:
    """Check one source by rules.

    Args:
        export: the folder of an export; or
        urls: the servers of a directory, with
        access: how to log in; or
        mqis: a folder of MQIS tables.
        rules: what to check.
        own: further rules, which Spark evaluates in any case.
        off: ids of rules that somebody switched off, for the summary.
        now: moment by which certificates are judged; None is the present one.
        on: where Spark runs.

    Yields:
        What was found, for as long as the context lasts.

    Raises:
        ConfigError: the source is not whole or not readable, no Java or pyspark, an own rule that is wrong.
        DirectoryError: a directory cannot be read.
        SparkFailed: Spark itself failed, as when the disk is full.
    """
    check_spark()
    from mqdssm.spark import validate_sources as sources
    from mqdssm.spark.runner import SparkRunner

    with contextlib.ExitStack() as stack:
        if mqis is not None:
            spark = stack.enter_context(spark_session("mqdssm validate", brief=True, on=on))
            source = stack.enter_context(sources.mqis_source(SparkRunner(spark), Path(mqis), on))
        else:
            if export is not None:
                source = sources.export_source(Path(export))
            else:
                source = stack.enter_context(
                    sources.directory_source(urls, access or {}, Engine.of(EngineKind.SPARK, on))
                )
            brief = source.rows < BRIEF_ROWS_MAX
            spark = stack.enter_context(spark_session("mqdssm validate", brief=brief, on=on))
        yield stack.enter_context(checked(spark, source, rules, own=own, off=off, now=now, on=on))


@contextlib.contextmanager
def checked(
    spark: "SparkSession",
    source: "Source",
    rules: Sequence[Rule] = RULES,
    *,
    own: Sequence[Rule] = (),
    off: Sequence[str] = (),
    now: datetime | None = None,
    sql_only: bool = False,
    on: SparkOptions = HERE,
) -> Iterator[Validation]:
    """Apply rules to a source.

    Args:
        spark: the session.
        source: what is validated.
        rules: what to check.
        own: further rules, which Spark evaluates in any case.
        off: ids of rules that somebody switched off, for the summary.
        now: moment by which certificates are judged; None is the present one.
        sql_only: leave to Spark all that it can do: for comparing both ways.
        on: where the session runs.
    """
    from mqdssm.spark.rules.own import check_columns

    started = datetime.now(UTC)
    check_columns(own, spark, source)
    applied, skipped, reasons = choose([*rules, *own], source.present())
    own_ids = {id(rule) for rule in own}
    drawn = list(draw(applied, source))
    with scratch(on, "mqdssm-findings-") as folder:
        probe(spark, on, _witnesses(source, folder) if on.is_cluster else ())
        frame = _findings_frame(
            spark, source, applied, now or started, lambda rule: sql_only or id(rule) in own_ids
        )
        found = save(frame, [*drawn, *_about_server(applied, source)], folder)
        counts, samples = found.counted()
        summary = Summary(
            source=source.name,
            started=started,
            ended=datetime.now(UTC),
            objects={name: one.rows for name, one in source.sets.items()},
            rules=results(applied, reasons, counts, samples),
            skipped=(*skipped, *(Skipped(rule, SWITCHED_OFF) for rule in off)),
            versions=versions(),
        )
        yield Validation(summary, found, source.sets)


def _witnesses(source: "Source", folder: Path) -> list[Path]:
    """Files by which executors show that they see the same folders as we do."""
    mark = folder / "mark"
    mark.touch()
    return [mark, *(Path(path) for one in source.sets.values() for path in one.paths[:1])]


def choose(
    rules: Sequence[Rule], present: Mapping[str, frozenset[str]]
) -> tuple[list[Applied], tuple[Skipped, ...], dict[str, str]]:
    """Choose the rules that can be applied.

    Returns:
        Rules with the types that they can judge; the rules of which no part can be applied; and of the
        others, by id, why they do not judge some types.
    """
    applied: list[Applied] = []
    reasons: dict[str, list[str]] = {}
    for rule in rules:
        types, reason = rule.applies(present)
        if types:
            applied.append((rule, types))
        if reason:
            reasons.setdefault(rule.id, []).append(reason)
    known = {rule.id for rule, _ in applied}
    joined = {rule: "; ".join(dict.fromkeys(words)) for rule, words in reasons.items()}
    skipped = tuple(Skipped(rule, words) for rule, words in joined.items() if rule not in known)
    return applied, skipped, {rule: words for rule, words in joined.items() if rule in known}


def draw(applied: Sequence[Applied], source: "Source") -> Iterator[Finding]:
    """Look at small types as a whole; each drawing is made once for all of its rules."""
    rules = {rule.id: rule for rule, _ in applied if isinstance(rule, Drawn)}
    for name in dict.fromkeys(rule.drawing for rule in rules.values()):
        reads = next(rule.reads for rule in rules.values() if rule.drawing == name)
        tables = {one: source.sets[one].table([*columns, "FullPath"]) for one, columns in reads.items()}
        for found in DRAWINGS[name](tables):
            rule = rules.get(found.rule)
            if rule is not None:
                yield Finding(
                    rule=rule.id,
                    severity=rule.severity,
                    type=found.type,
                    dn=found.row.get("FullPath", source.dns.get(found.type)),
                    guid=found.row.get("Identifier"),
                    attribute=rule.attribute,
                    message=found.message,
                    section=rule.section,
                )


def _about_server(applied: Sequence[Applied], source: "Source") -> Iterator[Finding]:
    severities = {rule.id: rule.severity for rule, _ in applied}
    for found in source.findings:
        if found.rule in severities:
            yield Finding(**{**_values(found), "severity": severities[found.rule]})


def _values(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__slots__}


def _findings_frame(
    spark: "SparkSession",
    source: "Source",
    applied: Sequence[Applied],
    now: datetime,
    by_spark: Callable[[Rule], bool],
) -> "DataFrame":
    """One plan for all findings: what workers find with Arrow, and what Spark finds with SQL."""
    from mqdssm.spark.plans import plans
    from mqdssm.spark.work import Plan, can, run

    rows: dict[str, list[Rule]] = {}
    unique: list[tuple[Repeated, tuple[str, ...]]] = []
    sql: list[Applied] = []
    for rule, types in applied:
        if isinstance(rule, Drawn) or rule.kind == "directory":
            continue
        needs_python = isinstance(rule, Judged | Undecodable)
        if not needs_python and (by_spark(rule) or not can(rule, types, source.sets)):
            sql.append((rule, types))
        elif isinstance(rule, Repeated):
            unique.append((rule, types))
        else:
            for name in types:
                rows.setdefault(name, []).append(rule)
    for rule, types in sql:  # whoever evaluates a rule, what cannot be decoded is seen by the workers
        for name in types if rule.decodes else ():
            rows.setdefault(name, []).append(_decoding(rule))
    chosen = {name: tuple(found) for name, found in rows.items()}
    frame = run(spark, Plan(source.sets, chosen, tuple(unique), source.dns, now))
    frames = {name: source.sets[name].frame(spark) for name in _types_of(sql)}
    for plan in plans(frames, sql, source.dns):
        frame = frame.unionAll(plan)
    return frame


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
