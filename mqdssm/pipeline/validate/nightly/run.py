"""One run of a nightly validation.

A run has a baseline, suppressions, thresholds, a history and metrics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.nightly.assessment import (
    EXPIRED_RULE,
    FindingAssessor,
    FindingState,
    StateCounts,
    Suppression,
    Thresholds,
    make_expiry_rule,
    read_suppressions,
    read_thresholds,
)
from mqdssm.pipeline.validate.nightly.baseline import NOTHING_KNOWN, Baseline
from mqdssm.pipeline.validate.nightly.history import History, HistoryLine, RunChanges, line_of, write_metrics
from mqdssm.pipeline.validate.rules.rule import Finding, Rule, Severity

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.findings import ValidationSummary


class Acceptance(NamedTuple):
    """Accepted findings: suppressions and thresholds.

    Attributes:
        suppressions: tables ``[[suppress]]``.
        fail: table ``[fail]``: numbers of new findings that are allowed, by severity and rule.
    """

    suppressions: tuple[Suppression, ...]
    fail: Mapping[str, int]


NOTHING_ACCEPTED: Final = Acceptance((), MappingProxyType({}))


def load_acceptance(path: Path, rules: Iterable[str]) -> Acceptance:
    """Read the suppressions and thresholds of a file of rules.

    Args:
        path: of the file.
        rules: ids of all rules, those of the file as well.

    Raises:
        ConfigError: the file cannot be read or is invalid; the text names it.
    """
    from mqdssm.pipeline.validate.rules.own_rules import read_content

    content = read_content(path)
    rule_ids = [*dict.fromkeys(rules), EXPIRED_RULE]
    try:
        return Acceptance(
            read_suppressions(content.get("suppress", []), rule_ids),
            read_thresholds(content.get("fail", {}), rule_ids),
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


NO_CHANGES: Final = RunChanges(None, (), ())


@dataclass(frozen=True, slots=True)
class NightlyFiles:
    """Files of a run.

    Attributes:
        baseline: known findings; None: there are none.
        new_baseline: file to which the findings of this run are written as a baseline.
        history: folder of runs.
        metrics: file of metrics.
    """

    baseline: Path | None = None
    new_baseline: Path | None = None
    history: Path | None = None
    metrics: Path | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Outcome of a run.

    Attributes:
        judge: baseline and suppressions of the run.
        counts: numbers of findings by rule, severity and state.
        exceeded: messages about exceeded thresholds; none if the run is successful.
        changes: changes since the last run of the history.
        lines: the runs of the history, including this one; none without a history.
        is_plain: True if no file, suppression or threshold was given.
    """

    judge: FindingAssessor
    counts: StateCounts
    exceeded: tuple[str, ...]
    changes: RunChanges
    lines: tuple[HistoryLine, ...]
    is_plain: bool

    @property
    def words(self) -> str:
        """Numbers of findings of each state, as text."""
        return ", ".join(f"{self.counts.count_of(state)} {state.value}" for state in FindingState)


@dataclass(frozen=True, slots=True)
class NightlyRun:
    """Settings of a run for its findings, prepared before the validation.

    Attributes:
        files: files to read and write.
        judge: baseline and suppressions.
        thresholds: numbers of new findings that are allowed.
        is_plain: True if no file, suppression or threshold was given.
    """

    files: NightlyFiles
    judge: FindingAssessor
    thresholds: Thresholds
    is_plain: bool

    @classmethod
    def prepare(
        cls,
        files: NightlyFiles,
        now: datetime,
        *,
        accepted: Acceptance = NOTHING_ACCEPTED,
        fail_on: Severity | None = None,
    ) -> Self:
        """Read the baseline, and check that the history can be written.

        Args:
            files: of the run.
            now: moment by which suppressions are judged.
            accepted: suppressions and thresholds of the file of rules.
            fail_on: the severity that fails a run, as it was typed.

        Raises:
            ConfigError: a file cannot be read, or is damaged.
        """
        baseline = NOTHING_KNOWN if files.baseline is None else Baseline.load(files.baseline)
        if files.history is not None:
            History(files.history).prepare()
        is_plain = files == NightlyFiles() and not accepted.suppressions and not accepted.fail
        judge = FindingAssessor(now, baseline, accepted.suppressions)
        return cls(files, judge, Thresholds.of(fail_on, accepted.fail), is_plain)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Further rules that the validation has to apply."""
        return (make_expiry_rule(self.judge.suppressions, self.judge.now),) if self.judge.suppressions else ()

    def conclude(self, summary: "ValidationSummary", findings: Iterable[Finding]) -> RunOutcome:
        """Assess the findings, and write the files of the run.

        With a new baseline and no old one, all findings of this run are known. A baseline leaves suppressed
        findings out, which are new when their suppression expires.

        Args:
            summary: of the validation.
            findings: all findings, sorted; they are read up to three times.

        Raises:
            ConfigError: a file cannot be written.
        """
        judge = self.judge
        if self.files.new_baseline is not None:
            accepted = (
                judged_finding.finding
                for judged_finding in judge.judge_findings(findings)
                if judged_finding.state is not FindingState.SUPPRESSED
            )
            baseline = Baseline.of(accepted, summary.started)
            baseline.write_if_changed(self.files.new_baseline)
            if self.files.baseline is None:
                judge = FindingAssessor(judge.now, baseline, judge.suppressions)
        counts = StateCounts.of_summary(summary) if judge.is_idle else StateCounts.of(judge, findings)
        exceeded = self.thresholds.list_exceeded(counts)
        changes = NO_CHANGES
        lines: tuple[HistoryLine, ...] = ()
        if self.files.history is None:
            line = line_of(_make_summary_document(summary), counts, changes, has_failed=bool(exceeded))
        else:
            history = History(self.files.history)
            now = Baseline.of(findings, summary.started)
            changes = history.compare(now)
            line = line_of(_make_summary_document(summary), counts, changes, has_failed=bool(exceeded))
            history.add(line, now)
            lines = history.read_lines()
        if self.files.metrics is not None:
            write_metrics(self.files.metrics, line, counts)
        return RunOutcome(judge, counts, exceeded, changes, lines, self.is_plain)


def _make_summary_document(summary: "ValidationSummary") -> dict[str, Any]:
    return {
        "started": summary.started,
        "seconds": (summary.ended - summary.started).total_seconds(),
        "source": summary.source,
        "version": summary.versions.get("mqdssm", ""),
        "objects": dict(summary.objects),
    }
