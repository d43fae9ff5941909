"""Options and output of ``mqdssm validate`` for repeated runs.

The options are baseline, history and metrics.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.run import CommandRun

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.findings import ValidationSummary
    from mqdssm.pipeline.validate.nightly.assessment import JudgedFinding
    from mqdssm.pipeline.validate.nightly.run import NightlyFiles, NightlyRun, RunOutcome
    from mqdssm.pipeline.validate.rules.rule import Finding

PANEL: Final = "Runs that come again"
COUNTS: Final = ("rule", "severity", "findings", "what must hold")
SHOWN_OF_RULE_MAX: Final = 5


def _option(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=PANEL)  # type: ignore[no-any-return]


BaselineOption = Annotated[
    Path | None,
    _option(
        "--baseline", "FILE", "File of known findings. They are counted, and do not change the exit code."
    ),
]
NewBaselineOption = Annotated[
    Path | None,
    _option(
        "--write-baseline",
        "FILE",
        "Write all findings to this file, as known findings. Without --baseline the exit code is 0.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    _option(
        "--history", "DIR", "Folder of the history: add this run, and report new findings since the last run."
    ),
]
MetricsOption = Annotated[
    Path | None,
    _option("--metrics", "FILE", "Write metrics of this run to this file, as OpenMetrics for node_exporter."),
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
    for judged_finding in outcome.judge.judged(findings):
        state = {} if outcome.judge.is_idle else _state(judged_finding)
        yield json.dumps(asdict(judged_finding.finding) | state, ensure_ascii=False)


def _state(judged_finding: "JudgedFinding") -> dict[str, str]:
    state = {"state": judged_finding.state.value}
    return state | (
        {} if judged_finding.suppression is None else {"reason": judged_finding.suppression.reason}
    )


def tell_outcome(run: CommandRun, outcome: "RunOutcome") -> None:
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


def new_samples(outcome: "RunOutcome", summary: "ValidationSummary") -> "Iterator[Finding]":
    """Yield a few new findings of each rule."""
    for rule in summary.rules:
        yield from outcome.counts.samples.get(rule.id, ())[:SHOWN_OF_RULE_MAX]
