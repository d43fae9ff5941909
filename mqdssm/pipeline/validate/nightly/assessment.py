"""Assessment of findings as new, known or suppressed.

Also the suppressions themselves, and thresholds for a run.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from mqdssm.pipeline.validate.nightly.baseline import NOTHING_KNOWN, Baseline, key_of, normalize_dn
from mqdssm.pipeline.validate.rules.rule import DIRECTORY, SEVERITIES, Finding, Severity, Stated

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.findings import ValidationSummary

EXPIRED_RULE: Final = "suppression-expired"
EXPIRED_SEVERITY: Final[Severity] = "warning"
EXPIRED_WHAT: Final = "no suppression is past its day"
_REQUIRED: Final = ("reason", "until")
_CHOICES: Final = ("rule", "object", "pattern")


@dataclass(frozen=True, slots=True)
class Suppression:
    """Accepted findings, given by rule, object or pattern.

    Attributes:
        rule: id of a rule or a pattern of ids; empty: all.
        object: GUID or DN of an object, in the form of comparison; empty: all.
        pattern: pattern of DNs; empty: all.
        reason: why.
        until: the last day.
    """

    rule: str
    object: str
    pattern: str
    reason: str
    until: date

    def __str__(self) -> str:
        choices = ((name, getattr(self, name)) for name in _CHOICES)
        return ", ".join(f"{name} {value}" for name, value in choices if value)

    def has_expired(self, now: datetime) -> bool:
        """Return True if the last day is over."""
        return now.date() > self.until

    def make_matcher(self) -> Callable[[Finding], bool]:
        """Return a function that is true for the findings that are suppressed."""
        rule = re.compile(fnmatch.translate(self.rule or "*"))
        pattern = re.compile(fnmatch.translate(self.pattern), re.IGNORECASE) if self.pattern else None

        def is_meant(finding: Finding) -> bool:
            if not rule.match(finding.rule):
                return False
            if self.object and self.object not in {
                (finding.guid or "").lower(),
                normalize_dn(finding.dn or ""),
            }:
                return False
            return pattern is None or bool(finding.dn and pattern.match(finding.dn))

        return is_meant

    def make_expiry_finding(self) -> Finding:
        """Return the finding about the expired suppression."""
        return Finding(
            rule=EXPIRED_RULE,
            severity=EXPIRED_SEVERITY,
            type=DIRECTORY,
            dn=None,
            guid=None,
            attribute=str(self),
            message=f"the suppression of {self} ended on {self.until}; its reason was: {self.reason}",
            section="",
        )


def make_expiry_rule(suppressions: Iterable[Suppression], now: datetime) -> Stated:
    """Return the rule that no suppression has expired, with its findings."""
    return Stated(
        id=EXPIRED_RULE,
        severity=EXPIRED_SEVERITY,
        types=(DIRECTORY,),
        attribute="until",
        section="",
        requirement=EXPIRED_WHAT,
        findings=tuple(
            suppression.make_expiry_finding() for suppression in suppressions if suppression.has_expired(now)
        ),
    )


def read_suppressions(tables: Any, rules: Iterable[str]) -> tuple[Suppression, ...]:
    """Read the tables ``[[suppress]]`` of a file of rules.

    Args:
        tables: content of the table.
        rules: ids of all rules.

    Raises:
        ValueError: a suppression is invalid; the text names it by its number.
    """
    if not isinstance(tables, list):
        raise ValueError("suppress is no list of tables: write [[suppress]]")  # noqa: TRY004  one kind of error
    rule_ids = tuple(rules)
    return tuple(
        _parse_suppression(table, f"suppression number {number}", rule_ids)
        for number, table in enumerate(tables, 1)
    )


def _parse_suppression(table: Any, where: str, rules: Sequence[str]) -> Suppression:
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table")  # noqa: TRY004  one kind of error
    if unknown := set(table) - {*_REQUIRED, *_CHOICES}:
        raise ValueError(
            f"{where} knows no {min(unknown)!r}: use one of {', '.join((*_CHOICES, *_REQUIRED))}"
        )
    for name in (*_CHOICES, "reason"):
        if not isinstance(table.get(name, ""), str):
            raise ValueError(f"{where}: {name} is {table[name]!r}, no text")  # noqa: TRY004  one kind of error
    if not table.get("reason", "").strip():
        raise ValueError(f"{where} has no reason")
    until = table.get("until")
    if type(until) is not date:
        raise ValueError(f"{where} has no day: write until = 2027-03-31")
    if not any(table.get(name) for name in _CHOICES):
        raise ValueError(f"{where} means everything: give it a rule, an object or a pattern")
    if table.get("object") and table.get("pattern"):
        raise ValueError(f"{where} has an object and a pattern: leave one out")
    rule = table.get("rule", "")
    if rule and not fnmatch.filter([*rules, EXPIRED_RULE], rule):
        raise ValueError(f"{where}: no rule is called {rule!r}; 'mqdssm validate --list-rules' lists them")
    return Suppression(
        rule,
        _normalize_object(table.get("object", ""), where),
        table.get("pattern", ""),
        table["reason"],
        until,
    )


def _normalize_object(text: str, where: str) -> str:
    """Return a GUID or a DN in normal form."""
    if not text:
        return ""
    try:
        return str(UUID(text))
    except ValueError:
        pass
    if "=" not in text:
        raise ValueError(f"{where}: object {text!r} is neither a GUID nor a DN")
    return normalize_dn(text)


DEFAULT_FAIL_ON: Final[Severity] = "error"
SAMPLES_MAX: Final = 100
"""Limit of the new findings of one rule in reports."""


class FindingState(StrEnum):
    """State of a finding: only new ones decide the exit code."""

    NEW = "new"
    KNOWN = "known"
    SUPPRESSED = "suppressed"


class JudgedFinding(NamedTuple):
    """A finding with its state.

    Attributes:
        finding: the finding.
        state: the state; only new findings count.
        suppression: the suppression that applies, if any.
    """

    finding: Finding
    state: FindingState
    suppression: Suppression | None = None


@dataclass(frozen=True, slots=True)
class FindingAssessor:
    """Assessor of findings by a baseline and suppressions.

    Attributes:
        now: moment by which suppressions are judged.
        baseline: findings that are known.
        suppressions: findings that are accepted.
    """

    now: datetime
    baseline: Baseline = NOTHING_KNOWN
    suppressions: tuple[Suppression, ...] = ()

    @property
    def is_idle(self) -> bool:
        """True if every finding is new."""
        return not self.baseline.findings and not self.suppressions

    def judge_findings(self, findings: Iterable[Finding]) -> Iterator[JudgedFinding]:
        """Yield each finding with its state, in the same order.

        Of equal findings, as many are known as the baseline has; the others are new.
        """
        remaining = self.baseline.counts()
        valid = [
            (suppression, suppression.make_matcher())
            for suppression in self.suppressions
            if not suppression.has_expired(self.now)
        ]
        for finding in findings:
            suppression = next((candidate for candidate, is_meant in valid if is_meant(finding)), None)
            if suppression is not None:
                yield JudgedFinding(finding, FindingState.SUPPRESSED, suppression)
                continue
            key = key_of(finding) if remaining else None
            if key is not None and remaining[key] > 0:
                remaining[key] -= 1
                yield JudgedFinding(finding, FindingState.KNOWN)
            else:
                yield JudgedFinding(finding, FindingState.NEW)


class RuleState(NamedTuple):
    """A rule, its severity in this run, and a state of findings."""

    rule: str
    severity: Severity
    state: FindingState


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Numbers of findings by rule, severity and state.

    Attributes:
        counts: the numbers.
        samples: the first `SAMPLES_MAX` new findings of each rule.
        unused: suppressions that matched no finding.
    """

    counts: Mapping[RuleState, int]
    samples: Mapping[str, tuple[Finding, ...]]
    unused: tuple[Suppression, ...] = ()

    @classmethod
    def of(cls, judge: FindingAssessor, findings: Iterable[Finding]) -> "StateCounts":
        """Count findings; no more than one is in memory."""
        counts: Counter[RuleState] = Counter()
        samples: dict[str, tuple[Finding, ...]] = {}
        used: set[Suppression] = set()
        for finding, state, suppression in judge.judge_findings(findings):
            counts[RuleState(finding.rule, finding.severity, state)] += 1
            if suppression is not None:
                used.add(suppression)
            elif (
                state is FindingState.NEW and len(rule_samples := samples.get(finding.rule, ())) < SAMPLES_MAX
            ):
                samples[finding.rule] = (*rule_samples, finding)
        unused = (
            suppression
            for suppression in judge.suppressions
            if suppression not in used and not suppression.has_expired(judge.now)
        )
        return cls(counts, samples, tuple(unused))

    @classmethod
    def of_summary(cls, summary: "ValidationSummary") -> "StateCounts":
        """Take the counts of a summary without baseline and suppressions.

        Every finding is new.
        """
        bad = [rule for rule in summary.rules if rule.count]
        return cls(
            {RuleState(rule.id, rule.severity, FindingState.NEW): rule.count for rule in bad},
            {rule.id: rule.samples[:SAMPLES_MAX] for rule in bad},
        )

    def count_of(
        self, state: FindingState, *, severity: Severity | None = None, rule: str | None = None
    ) -> int:
        """Return the number of findings of a state.

        Only those of one severity or rule are counted if it is given.
        """
        return sum(
            count
            for rule_state, count in self.counts.items()
            if rule_state.state is state
            and severity in {None, rule_state.severity}
            and rule in {None, rule_state.rule}
        )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers of new findings that are allowed; more findings fail a run.

    Attributes:
        severities: limits by severity; a severity without one is not limited.
        rules: limits by rule; these findings do not count for their severity.
    """

    severities: Mapping[Severity, int]
    rules: Mapping[str, int]

    @classmethod
    def of(cls, fail_on: Severity | None = None, limits: Mapping[str, int] | None = None) -> "Thresholds":
        """Make thresholds.

        Args:
            fail_on: no finding of this severity, or a worse one, is allowed; default: no error.
            limits: limits by severity and rule from the file of rules: they have precedence.
        """
        worse = SEVERITIES[SEVERITIES.index(fail_on or DEFAULT_FAIL_ON) :]
        severities: dict[Severity, int] = dict.fromkeys(worse, 0)
        named = dict(limits or {})
        severities |= {severity: named.pop(severity) for severity in SEVERITIES if severity in named}
        return cls(severities, named)

    def list_exceeded(self, counts: StateCounts) -> tuple[str, ...]:
        """Return messages about exceeded thresholds; none if the run is successful."""
        new = {key: count for key, count in counts.counts.items() if key.state is FindingState.NEW}
        by_rule: Counter[str] = Counter()
        by_severity: Counter[Severity] = Counter()
        for rule_state, count in new.items():
            by_rule[rule_state.rule] += count
            if rule_state.rule not in self.rules:
                by_severity[rule_state.severity] += count
        checks = [(name, by_rule[name], allowed) for name, allowed in sorted(self.rules.items())]
        checks += [
            (name, by_severity[name], self.severities[name])
            for name in reversed(SEVERITIES)
            if name in self.severities
        ]
        return tuple(
            f"{name}: {count}, {allowed} allowed" for name, count, allowed in checks if count > allowed
        )


def read_thresholds(table: Any, rules: Sequence[str]) -> dict[str, int]:
    """Read the table ``[fail]`` of a file of rules.

    Args:
        table: content of the table: numbers by severity and id of a rule.
        rules: ids of all rules.

    Raises:
        ValueError: a name or a number is invalid.
    """
    if not isinstance(table, dict):
        raise ValueError("[fail] is no table")  # noqa: TRY004  one kind of error
    for name, allowed in table.items():
        if name not in rules and name not in SEVERITIES:
            raise ValueError(f"[fail] {name!r} is neither a severity nor a rule")
        if type(allowed) is not int or allowed < 0:
            raise ValueError(f"[fail] {name}: {allowed!r} is no number of findings")
    return dict(table)
