"""``mqdssm validate``: check an export, a directory or MQIS tables by rules."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.options import CONNECTION
from mqdssm.cli.output import say
from mqdssm.cli.pipeline_options import describe_engine, engine_of, login_of
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.model.safe_text import escape_json

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.findings import Skipped, ValidationSummary
    from mqdssm.pipeline.validate.nightly.assessment import JudgedFinding
    from mqdssm.pipeline.validate.nightly.run import NightlyFiles, NightlyRun, RunOutcome
    from mqdssm.pipeline.validate.rules.rule import Finding, Rule, RuleFile
    from mqdssm.pipeline.validate.run import Validation

PANEL: Final = "Runs that come again"
COUNTS: Final = ("rule", "severity", "findings", "what must hold")
SHOWN_OF_RULE_MAX: Final = 5


def _declare_option(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=PANEL)  # type: ignore[no-any-return]


BaselineOption = Annotated[
    Path | None,
    _declare_option(
        "--baseline", "FILE", "File of known findings. They are counted, and do not change the exit code."
    ),
]
NewBaselineOption = Annotated[
    Path | None,
    _declare_option(
        "--write-baseline",
        "FILE",
        "Write all findings but suppressed ones to this file, as known findings. "
        "Without --baseline the exit code is 0.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    _declare_option(
        "--history", "DIR", "Folder of the history: add this run, and report new findings since the last run."
    ),
]
MetricsOption = Annotated[
    Path | None,
    _declare_option(
        "--metrics", "FILE", "Write metrics of this run to this file, as OpenMetrics for node_exporter."
    ),
]


def prepare_run(
    files: "NightlyFiles", rules: Path | None, ids: "Iterable[str]", fail_on: "StrEnum | None"
) -> "NightlyRun":
    """Read known findings and suppressions before the validation.

    Args:
        files: of the run.
        rules: the file of rules, if one was named.
        ids: of all rules.
        fail_on: the severity that was typed.

    Raises:
        ConfigError: a file cannot be read, or is damaged.
    """
    from mqdssm.pipeline.validate.nightly.run import NOTHING_ACCEPTED, NightlyRun, load_acceptance

    accepted = NOTHING_ACCEPTED if rules is None else load_acceptance(rules, ids)
    severity: Any = None if fail_on is None else fail_on.value
    return NightlyRun.prepare(files, datetime.now(UTC), accepted=accepted, fail_on=severity)


def idle_of(files: "NightlyFiles") -> dict[str, object]:
    """Return these options by name with their values."""
    values = (files.baseline, files.new_baseline, files.history, files.metrics)
    return dict(zip(("--baseline", "--write-baseline", "--history", "--metrics"), values, strict=True))


def lines_of(outcome: "RunOutcome", findings: "Iterable[Finding]") -> Iterator[str]:
    """Yield findings as JSON.

    If there are known or accepted findings, each has its state.
    """
    for judged_finding in outcome.judge.judge_findings(findings):
        state = {} if outcome.judge.is_idle else _describe_state(judged_finding)
        yield json.dumps(asdict(judged_finding.finding) | state, ensure_ascii=False)


def _describe_state(judged_finding: "JudgedFinding") -> dict[str, str]:
    state = {"state": judged_finding.state.value}
    return state | (
        {} if judged_finding.suppression is None else {"reason": judged_finding.suppression.reason}
    )


def print_outcome(run: CommandRun, outcome: "RunOutcome") -> None:
    """Print the summary of a repeated run; nothing for a plain validation."""
    if outcome.is_plain:
        return
    if not outcome.judge.is_idle:
        run.output.note(f"findings: {outcome.words}")
    for suppression in outcome.counts.unused:
        run.output.note(f"a suppression suppresses nothing, and can go: {suppression}")
    changes = outcome.changes
    if changes.since is not None:
        run.output.note(
            f"since {changes.since:%Y-%m-%d %H:%M} UTC: {outcome.lines[-1].appeared} appeared, "
            f"{outcome.lines[-1].mended} mended"
        )
    for words in outcome.exceeded:
        run.output.note(f"too many new findings: {words}")


def count_table(
    outcome: "RunOutcome", summary: "ValidationSummary"
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table of the number of findings of each rule.

    The result is its columns and rows; there are columns by state if there are several states.
    """
    from mqdssm.pipeline.validate.nightly.assessment import FindingState

    bad = [rule for rule in summary.rules if rule.count]
    if outcome.judge.is_idle:
        return COUNTS, [(rule.id, rule.severity, str(rule.count), rule.requirement) for rule in bad]
    states = tuple(FindingState)
    rows = [
        (
            rule.id,
            rule.severity,
            *(str(outcome.counts.count_of(state, rule=rule.id)) for state in states),
            rule.requirement,
        )
        for rule in bad
    ]
    return (*COUNTS[:2], *(state.value for state in states), COUNTS[-1]), rows


def select_new_samples(outcome: "RunOutcome", summary: "ValidationSummary") -> "Iterator[Finding]":
    """Yield a few new findings of each rule."""
    for rule in summary.rules:
        yield from outcome.counts.samples.get(rule.id, ())[:SHOWN_OF_RULE_MAX]


COLUMNS: Final = ("severity", "rule", "type", "object", "attribute", "what is wrong")
SHOWN_MAX: Final = 50
"""Maximum findings in a table; the other outputs have all of them."""
NAMES_MAX: Final = 8
"""Maximum names of rules in a line about rules that were not applied."""


class Severity(StrEnum):
    """Severity of a finding."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class FindingsFormat(StrEnum):
    """Output format of findings."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"


FolderArgument = Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Folder of an export.")]
MqisOption = Annotated[
    Path | None, typer.Option("--mqis", metavar="DIR", help="Folder of MQIS tables, in place of an export.")
]
MappingOption = Annotated[
    Path | None,
    typer.Option(
        "--mapping", metavar="FILE", help="Names, code pages and file format of the MQIS tables, TOML."
    ),
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", help="File with additional rules, TOML.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a report to this file, HTML.")
]
FailOnOption = Annotated[
    Severity | None,
    typer.Option("--fail-on", help="Lowest severity for which the exit code is 1. Default: error."),
]
ListRulesOption = Annotated[bool, typer.Option("--list-rules", help="Print the rules and exit.")]


def validate(
    run: CommandRun,
    *,
    folder: FolderArgument = None,
    mqis: MqisOption = None,
    mapping: MappingOption = None,
    rules: RulesOption = None,
    report: ReportOption = None,
    fail_on: FailOnOption = None,
    list_rules: ListRulesOption = False,
    baseline: BaselineOption = None,
    new_baseline: NewBaselineOption = None,
    history: HistoryOption = None,
    metrics: MetricsOption = None,
) -> int:
    r"""Check an export, a directory (--url) or MQIS tables (--mqis).

    Exit code 1 if there are errors.
    Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    from mqdssm.pipeline.validate.nightly.run import NightlyFiles

    chosen = _check_options(rules, report)
    files = NightlyFiles(baseline, new_baseline, history, metrics)
    if list_rules:
        idle = {"DIR": folder, "--mqis": mqis, "--mapping": mapping, "--report": report}
        _refuse_idle(run, "--list-rules", idle | {"--fail-on": fail_on} | idle_of(files))
        return _list(run, [*chosen.rules, *chosen.own])
    source = source_of(run, folder, mqis, mapping, doing="validate")
    with convert_usage_problems():
        ids = [*(rule.id for rule in (*chosen.rules, *chosen.own)), *chosen.off]
        night = prepare_run(files, rules, ids, fail_on)
    chosen_engine = engine_of(run)
    from mqdssm.pipeline.validate.run import validation

    with (
        run.output.progress("validating", counted=False),
        validation(
            rules=(*chosen.rules, *night.rules),
            own=chosen.own,
            off=chosen.off,
            **chosen_engine.arguments(),
            **source,
        ) as result,
    ):
        outcome = night.conclude(result.summary, result.findings)
        if report is not None:
            from mqdssm.pipeline.report import write_report

            write_report(report, result.summary, result.findings, result.sets, outcome)
        _print(run, result, outcome)
    return ExitCode.FINDINGS if outcome.exceeded else ExitCode.FINE


def _check_options(rules: Path | None, report: Path | None) -> "RuleFile":
    """Check options, and return the rules with the changes of the rule file.

    Without a file nothing is imported that only rules of users need.
    """
    from mqdssm.pipeline.validate.rules import RULES
    from mqdssm.pipeline.validate.rules.rule import RuleFile

    with convert_usage_problems():
        if report is not None:
            from mqdssm.pipeline.report.page import check_page

            check_page(report)
        if rules is None:
            return RuleFile(RULES, ())
        from mqdssm.pipeline.validate.rules.own_rules import load

        return load(rules, RULES)


def source_of(
    run: CommandRun, folder: Path | None, mqis: Path | None, mapping: Path | None, *, doing: str
) -> dict[str, Any]:
    """Return the arguments for the source of a validation.

    The arguments are those of `mqdssm.pipeline.validate.run.validation`.

    Args:
        run: the run of the command.
        folder: of an export.
        mqis: a folder of MQIS tables.
        mapping: file that says how the tables are called and coded.
        doing: what the command does with it, for messages.

    Raises:
        UsageProblem: none or several were named, a mapping of no tables, or a database.
    """
    from mqdssm.pipeline.mqis.mapping import is_jdbc

    if is_jdbc(str(mqis or folder or "")):
        raise UsageProblem("a database is read by plan, migrate and diff: give its tables as files (--mqis)")
    if mapping is not None and mqis is None:
        raise UsageProblem("--mapping is about MQIS tables: name their folder with --mqis")
    if folder is not None and mqis is not None:
        raise UsageProblem("name one source: the folder of an export, or --mqis")
    if (folder is not None or mqis is not None) and (run.given.url or run.given.connection):
        raise UsageProblem("name one source: a folder, or a directory with --url or --connection")
    if folder is not None or mqis is not None:
        _refuse_idle(run, "a folder")
    if folder is not None:
        return {"export": folder}
    if mqis is not None:
        return {"mqis": mqis, "mapping": mapping}
    if not run.loaded.settings.url:
        raise UsageProblem(
            f"nothing to {doing}: name the folder of an export, --mqis, or a directory with --url"
        )
    run.connection_options()  # what cannot be is refused before Java starts
    return {"urls": run.loaded.settings.url, "access": login_of(run)}


def _refuse_idle(run: CommandRun, beside: str, more: Mapping[str, object] = {}) -> None:
    """Raise UsageProblem for options without effect, of the connection and others.

    Args:
        run: the run of the command.
        beside: what makes them idle.
        more: further ones, as they were typed.

    Raises:
        UsageProblem: one of them was typed.
    """
    names = [name for name in CONNECTION if name != "read_only"]  # which holds in any case
    typed = {f"--{name.replace('_', '-')}": getattr(run.given, name) for name in names}
    if idle := [name for name, value in {**more, **typed}.items() if value]:
        raise UsageProblem(f"{', '.join(idle)} would have no effect beside {beside}: leave it out")


def _print(run: CommandRun, result: "Validation", outcome: "RunOutcome") -> None:
    match run.given.output:
        case FindingsFormat.SARIF:
            from mqdssm.pipeline.validate.sarif import format_sarif

            for piece in format_sarif(result.summary, result.findings, outcome.judge):
                run.output.raw(escape_json(piece))
        case FindingsFormat.JSON:
            for line in lines_of(outcome, result.findings):
                run.output.json_line(line)
            run.output.json_line(json.dumps(_build_totals(result.summary)))
            for skipped in result.summary.not_judged:
                say(json.dumps({"rule": skipped.id, "judged": skipped.types, "reason": skipped.reason}))
        case _:
            _print_tables(run, result.summary, outcome)


def _build_totals(summary: "ValidationSummary") -> dict[str, Any]:
    """Return the numbers of findings, rules and objects, and the engine."""
    objects = sum(summary.objects.values())
    return {
        "findings": summary.count,
        "rules": len(summary.rules),
        "objects": objects,
        "engine": summary.engine,
    }


def _print_tables(run: CommandRun, summary: "ValidationSummary", outcome: "RunOutcome") -> None:
    """Print counts and some of the findings."""
    if summary.count:
        run.output.rows(*count_table(outcome, summary))
        run.output.line("")
        first_findings = list(islice(select_new_samples(outcome, summary), SHOWN_MAX))
        if first_findings:
            run.output.rows(COLUMNS, rows_of(first_findings))
        if len(first_findings) < summary.count:
            run.output.note(
                f"{summary.count - len(first_findings)} more findings: --output json has all of them"
            )
    else:
        run.output.line("no findings")
    for line in explain_not_judged(summary.not_judged):
        run.output.note(line)
    totals = _build_totals(summary)
    run.output.note(
        f"{totals['findings']} findings of {totals['rules']} rules about {totals['objects']} objects, "
        f"{describe_engine(totals['engine'])}"
    )
    print_outcome(run, outcome)


def explain_not_judged(skipped: "Iterable[Skipped]") -> Iterator[str]:
    """Yield a line for each reason why rules were not applied.

    The line has the number and the names of the rules.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for rule in skipped:
        groups.setdefault((rule.scope, rule.reason), []).append(rule.id)
    for (scope, reason), names in groups.items():
        left_out = len(names) - NAMES_MAX
        more = f" and {left_out} more, which --output json names" if left_out > 0 else ""
        number = f"{len(names)} rules" if len(names) > 1 else "rule"
        yield f"{scope}: {reason}: {number} {', '.join(names[:NAMES_MAX])}{more}"


def rows_of(findings: "Iterable[Finding]") -> Iterable[tuple[str, ...]]:
    """Return findings as rows of a table."""
    return (
        (
            finding.severity,
            finding.rule,
            finding.type,
            finding.dn or finding.guid or "",
            finding.attribute,
            finding.message,
        )
        for finding in findings
    )


def _list(run: CommandRun, rules: "list[Rule]") -> int:
    from mqdssm.pipeline.validate.rules.catalogue import make_entries, types_of

    if run.given.output == FindingsFormat.SARIF:
        raise UsageProblem("--list-rules prints a table or JSON: SARIF is for findings")
    listed = make_entries(rules)
    if run.output.is_json:
        run.output.document(listed)
    else:
        run.output.rows(
            ("rule", "severity", "form", "types", "what must hold", "section"),
            (
                (
                    entry["id"],
                    entry["severity"],
                    entry["form"],
                    types_of(entry),
                    entry["what"],
                    entry["section"],
                )
                for entry in listed
            ),
        )
        run.output.note(f"{len(listed)} rules")
    return ExitCode.FINE


app = declare_command(
    validate,
    spark=True,
    formats=FindingsFormat,
    examples=(
        "mqdssm validate export/2026-01-31",
        "mqdssm validate export/2026-01-31 -o json > findings.jsonl",
        "mqdssm validate --connection lab --rules ours.toml --fail-on warning",
        "mqdssm validate --mqis mqis/ -o sarif > findings.sarif",
        "mqdssm validate --mqis mqis/ --mapping mqis.toml",
        "mqdssm validate export/2026-01-31 --write-baseline known.jsonl",
        "mqdssm validate export/2026-02-01 --baseline known.jsonl --history history --metrics mqdssm.prom",
        "mqdssm validate --list-rules",
    ),
)
