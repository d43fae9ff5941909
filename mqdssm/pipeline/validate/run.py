"""Validation: applies rules to a source, and yields the findings.

A source is an export, a directory or MQIS tables.

Assignment of rules: those that workers apply with Arrow, and those that Spark applies with SQL.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from mqdssm.pipeline.engines import EngineKind, JobEngine
from mqdssm.pipeline.manifest import list_versions
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import make_scratch
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.pipeline.validate.finding_files import merge_parts, write_parts
from mqdssm.pipeline.validate.findings import Findings, Skipped, ValidationSummary, batch_of, make_results
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.graphs import DRAWINGS
from mqdssm.pipeline.validate.rules.rule import (
    Finding,
    GraphRule,
    Judged,
    Repeated,
    Rule,
    Stated,
    Undecodable,
)
from mqdssm.pipeline.validate.worker import ValidationPlan, can, make_rule_job

if TYPE_CHECKING:
    import pyarrow as pa

    from mqdssm.pipeline.access import PipelineLogIn
    from mqdssm.pipeline.validate.datasets import Dataset
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
        """Check that workers have the packages and see files.

        See `mqdssm.spark.cluster.probe`.

        Raises:
            ConfigError: something is missing.
        """


def as_sql_runner(runner: Runner) -> SqlRunner | None:
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
    shares = RuleShares()
    for rule, types in applied:
        if isinstance(rule, GraphRule | Stated) or rule.kind == "directory":
            continue
        if not isinstance(rule, Judged | Undecodable) and is_for_spark(rule, types):
            shares.sql.append((rule, types))
        elif isinstance(rule, Repeated):
            shares.unique.append((rule, types))
        else:
            for name in types:
                shares.rows.setdefault(name, []).append(rule)
    for rule, types in shares.sql:  # for each engine, workers find the values that cannot be decoded
        for name in types if rule.decodes else ():
            shares.rows.setdefault(name, []).append(_make_decoding_rule(rule))
    return shares


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
    job = make_rule_job(ValidationPlan(source.sets, rows, tuple(shares.unique), source.dns, now), folder)
    parts = [path for paths in runner.run(job) for path in paths]
    sql = as_sql_runner(runner)
    if shares.sql and sql is not None:
        parts += write_parts(sql.find_by_rules(shares.sql, source, folder / "sql"), folder)
    return parts


def _make_decoding_rule(rule: Rule) -> Undecodable:
    """Return the part of a rule about values that could not be decoded."""
    return Undecodable(
        id=rule.id,
        severity=rule.severity,
        types=rule.types,
        attribute=rule.attribute,
        section=rule.section,
        requirement=rule.requirement,
    )


SWITCHED_OFF: Final = "switched off by the file of rules"
BRIEF_ROWS_MAX: Final = 200_000  # below this number the JVM's start is most of the time
LOCAL_OBJECTS_MAX: Final = 3_000_000
"""Objects of a source above which ``auto`` is Spark (decision M133).

From then on the local engine may have to count unique values in parts (`REPEATED_ROWS_MAX`), and reads the
columns again for each.
"""


@dataclass(frozen=True, slots=True)
class Validation:
    """Result of a validation.

    Attributes:
        summary: the summary.
        findings: all findings, sorted; the files exist until the context ends.
        sets: the objects that were validated, just as long.
    """

    summary: ValidationSummary
    findings: Findings
    sets: "Mapping[str, Dataset]"


@contextlib.contextmanager
def validation(
    export: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = (),
    access: "PipelineLogIn | None" = None,
    mqis: str | os.PathLike[str] | None = None,
    mapping: Path | None = None,
    rules: Sequence[Rule] = RULES,
    own: Sequence[Rule] = (),
    off: Sequence[str] = (),
    now: datetime | None = None,
    engine: str = EngineKind.AUTO.value,
    workers: int | None = None,
    on: SparkOptions = HERE,
) -> Iterator[Validation]:
    """Validate one source by rules.

    Args:
        export: the folder of an export; or
        urls: the servers of a directory, with
        access: how to log in; or
        mqis: a folder of MQIS tables, with
        mapping: the mapping file with names and encodings; None: as in MQIS, in UTF-8.
        rules: the rules to apply.
        own: further rules. Spark evaluates all of Spark SQL in them, the local engine only a part.
        off: ids of rules that are switched off, for the summary.
        now: moment by which certificates are judged; None is the present one.
        engine: ``local``, ``spark`` or ``auto``. Auto means Spark where its master, a setting or its shared
            folder is given, or the program has an active session. Otherwise it means Spark for more
            than `LOCAL_OBJECTS_MAX` objects, if Spark is installed.
        workers: processes of the local engine.
        on: where Spark runs.

    Yields:
        The result, valid while the context lasts.

    Raises:
        ConfigError: the source is not whole or not readable, the engine cannot run here, an own rule is wrong
            or needs Spark.
        DirectoryError: a directory cannot be read.
        SparkFailed: Spark itself failed, as when the disk is full.
    """
    from mqdssm.pipeline.validate import sources

    def check(source: "ValidationSource") -> None:
        if own:
            with chosen.runner(app) as first_runner:
                _check_own(own, source, first_runner)

    app = "mqdssm validate"
    chosen = JobEngine.of(engine, on, workers)
    chosen.check()
    with contextlib.ExitStack() as stack:
        if export is not None:
            source = sources.export_source(Path(export))
        elif mqis is not None:
            reader = stack.enter_context(chosen.runner(app))
            source = stack.enter_context(
                sources.open_mqis_source(reader, Path(mqis), chosen.on, mapping, check)
            )
        else:
            check(sources.make_expected_source())
            source = stack.enter_context(sources.open_directory_source(urls, access or {}, chosen))
        if source.rows > LOCAL_OBJECTS_MAX:
            chosen = chosen.or_spark()
        runner = stack.enter_context(chosen.runner(app, brief=source.rows < BRIEF_ROWS_MAX))
        yield stack.enter_context(apply_rules(runner, source, rules, own=own, off=off, now=now, on=chosen.on))


@contextlib.contextmanager
def apply_rules(
    runner: Runner,
    source: "ValidationSource",
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
        runner: does the work; Spark's runner evaluates with SQL the rules that Arrow cannot evaluate.
        source: the objects to validate.
        rules: the rules to apply.
        own: further rules, which Spark evaluates if it is the engine.
        off: ids of rules that are switched off, for the summary.
        now: moment by which certificates are judged; None is the present one.
        sql_only: leave to Spark all rules that it can evaluate: for comparing both engines.
        on: where Spark runs.

    Raises:
        ConfigError: an own rule is wrong, or needs Spark.
    """
    started = datetime.now(UTC)
    sql = as_sql_runner(runner)
    _check_own(own, source, runner)
    applied, skipped, reasons = choose([*rules, *own], source.list_present())
    own_ids = {id(rule) for rule in own}
    drawn = list(draw(applied, source))
    with make_scratch(on, "mqdssm-findings-") as folder:
        if sql is not None:
            sql.check_workers(on, _list_witnesses(source, folder) if on.is_cluster else ())
        shares = share_rules(
            applied,
            lambda rule, types: (
                sql is not None and (sql_only or id(rule) in own_ids or not can(rule, types, source.sets))
            ),
        )
        parts = write_findings(runner, source, shares, now or started, folder)
        parts += write_parts(
            [batch_of([*drawn, *_select_server_findings(applied, source), *_list_stated_findings(applied)])],
            folder,
        )
        findings = Findings((merge_parts(parts, folder),))
        counts, samples = findings.count_findings()
        summary = ValidationSummary(
            source=source.name,
            started=started,
            ended=datetime.now(UTC),
            objects={name: dataset.rows for name, dataset in source.sets.items()},
            rules=make_results(applied, reasons, counts, samples),
            skipped=(*skipped, *(Skipped(rule, SWITCHED_OFF) for rule in off)),
            versions=list_versions(),
            engine=(EngineKind.LOCAL if sql is None else EngineKind.SPARK).value,
        )
        yield Validation(summary, findings, source.sets)


def _check_own(own: Sequence[Rule], source: "ValidationSource", runner: Runner) -> None:
    """Check own rules; without any nothing is imported that only they need."""
    if own:
        from mqdssm.pipeline.validate.rules.own_rules import check_own_rules

        check_own_rules(own, source, as_sql_runner(runner))


def _list_witnesses(source: "ValidationSource", folder: Path) -> list[Path]:
    """Return files that executors check, to prove that they see the same folders."""
    mark = folder / "mark"
    mark.touch()
    return [mark, *(Path(path) for dataset in source.sets.values() for path in dataset.paths[:1])]


def choose(
    rules: Sequence[Rule], present: Mapping[str, frozenset[str]]
) -> tuple[list[Applied], tuple[Skipped, ...], dict[str, str]]:
    """Choose the rules that can be applied.

    Returns:
        Rules with the types that they can judge; the rules of which no part can be applied; and for the
        others, by id, the reason why they do not judge some types.
    """
    applied: list[Applied] = []
    reasons: dict[str, list[str]] = {}
    for rule in rules:
        types, reason = rule.applies(present)
        if types:
            applied.append((rule, types))
        if reason:
            reasons.setdefault(rule.id, []).append(reason)
    applied_ids = {rule.id for rule, _ in applied}
    joined = {rule: "; ".join(dict.fromkeys(words)) for rule, words in reasons.items()}
    skipped = tuple(Skipped(rule, words) for rule, words in joined.items() if rule not in applied_ids)
    return applied, skipped, {rule: words for rule, words in joined.items() if rule in applied_ids}


def draw(applied: Sequence[Applied], source: "ValidationSource") -> Iterator[Finding]:
    """Yield the findings of drawings over small types.

    Each drawing runs once for all of its rules.
    """
    rules = {rule.id: rule for rule, _ in applied if isinstance(rule, GraphRule)}
    for name in dict.fromkeys(rule.drawing for rule in rules.values()):
        reads = _combine_reads(rule.reads for rule in rules.values() if rule.drawing == name)
        tables = {
            type_name: source.sets[type_name].read_table([*columns, "FullPath"])
            for type_name, columns in reads.items()
        }
        for finding in DRAWINGS[name](tables):
            rule = rules.get(finding.rule)
            if rule is not None:
                dn = finding.row.get("FullPath", source.dns.get(finding.type))
                guid = finding.row.get("Identifier")
                yield rule.finding(finding.type, finding.message, dn=dn, guid=guid)
        del tables  # before those of the next drawing are read


def _combine_reads(reads: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, dict[str, None]]:
    """Return the columns, by type, that several rules of one drawing need."""
    all_reads: dict[str, dict[str, None]] = {}
    for read in reads:
        for name, columns in read.items():
            all_reads.setdefault(name, {}).update(dict.fromkeys(columns))
    return all_reads


def _select_server_findings(applied: Sequence[Applied], source: "ValidationSource") -> Iterator[Finding]:
    severities = {rule.id: rule.severity for rule, _ in applied}
    for finding in source.findings:
        if finding.rule in severities:
            yield replace(finding, severity=severities[finding.rule])


def _list_stated_findings(applied: Sequence[Applied]) -> Iterator[Finding]:
    for rule, _ in applied:
        if isinstance(rule, Stated):
            yield from rule.findings
