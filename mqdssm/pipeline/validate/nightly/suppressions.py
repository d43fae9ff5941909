"""Suppressions: findings that are accepted, for a reason and until a day.

They stand in the file of rules::

    [[suppress]]
    rule = "queue-name-form"              # its id, or a pattern as "security-*"
    object = "CN=orders,CN=msmq,CN=web01,CN=Computers,DC=example,DC=com"   # its DN or GUID; or
    pattern = "*,CN=legacy*,CN=Computers,*"  # of DNs: * and ?, upper and lower case are equal
    reason = "replaced in spring"
    until = 2027-03-31                    # the last day, UTC

A suppression that has expired suppresses nothing, and is a finding itself.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from mqdssm.pipeline.validate.nightly.baseline import normal_dn
from mqdssm.pipeline.validate.rules.rule import DIRECTORY, Finding, Severity, Stated

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

    def matcher(self) -> Callable[[Finding], bool]:
        """Return a function that is true for the findings that are suppressed."""
        rule = re.compile(fnmatch.translate(self.rule or "*"))
        pattern = re.compile(fnmatch.translate(self.pattern), re.IGNORECASE) if self.pattern else None

        def is_meant(finding: Finding) -> bool:
            if not rule.match(finding.rule):
                return False
            if self.object and self.object not in {(finding.guid or "").lower(), normal_dn(finding.dn or "")}:
                return False
            return pattern is None or bool(finding.dn and pattern.match(finding.dn))

        return is_meant

    def expiry(self) -> Finding:
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


def expiry_rule(suppressions: Iterable[Suppression], now: datetime) -> Stated:
    """Return the rule that no suppression has expired, with its findings."""
    return Stated(
        id=EXPIRED_RULE,
        severity=EXPIRED_SEVERITY,
        types=(DIRECTORY,),
        attribute="until",
        section="",
        requirement=EXPIRED_WHAT,
        findings=tuple(suppression.expiry() for suppression in suppressions if suppression.has_expired(now)),
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
        _suppression(table, f"suppression number {number}", rule_ids)
        for number, table in enumerate(tables, 1)
    )


def _suppression(table: Any, where: str, rules: Sequence[str]) -> Suppression:
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
        rule, _object(table.get("object", ""), where), table.get("pattern", ""), table["reason"], until
    )


def _object(text: str, where: str) -> str:
    """Return a GUID or a DN in normal form."""
    if not text:
        return ""
    try:
        return str(UUID(text))
    except ValueError:
        pass
    if "=" not in text:
        raise ValueError(f"{where}: object {text!r} is neither a GUID nor a DN")
    return normal_dn(text)
