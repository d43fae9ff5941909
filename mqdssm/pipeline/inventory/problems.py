"""Orphans and clones: findings of the validation rules about them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.rule import Finding, MissingReference, Rule
from mqdssm.pipeline.validate.run import Applied, apply_rules, choose, draw, share_rules
from mqdssm.pipeline.validate.worker import ValidationPlan, run_here

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.sources import ValidationSource

ORPHANS: Final = (
    "queue-manager-exists",
    "queue-manager-computer-exists",
    "settings-queue-manager-exists",
    "settings-superfluous",
)
CLONES: Final = ("queue-manager-cloned", "queue-manager-duplicate")
PLACE_RULE: Final = "queue-manager-exists"
"""Rule that has the columns by which a queue names its queue manager in a source."""


def list_problem_rules() -> tuple[Rule, ...]:
    """Return the rules about orphans and clones, with all their parts."""
    return tuple(rule for rule in RULES if rule.id in ORPHANS + CLONES)


def choose_rules(source: "ValidationSource") -> tuple[list[Applied], dict[str, str]]:
    """Return the rules that can be applied, and the reasons why others cannot."""
    applied, skipped, _ = choose(list_problem_rules(), source.list_present())
    return applied, {rule.id: rule.reason for rule in skipped}


def problems_of(source: "ValidationSource", now: datetime, engine: JobEngine) -> list[Finding]:
    """Find orphans and clones, sorted.

    Args:
        source: where to look.
        now: moment of the inventory.
        engine: the local one holds all machines, 0.1 GB a million.
    """
    if engine.is_local:
        findings = list(_validate_here(source, choose_rules(source)[0], now))
    else:
        with (
            engine.runner("mqdssm inventory", brief=False) as runner,
            apply_rules(runner, source, list_problem_rules(), now=now, on=engine.on) as validation,
        ):
            findings = list(validation.findings)
    order = ORPHANS + CLONES
    return sorted(
        findings,
        key=lambda finding: (order.index(finding.rule), finding.type, finding.dn or "", finding.guid or ""),
    )


def _validate_here(source: "ValidationSource", applied: list[Applied], now: datetime) -> Iterator[Finding]:
    shares = share_rules(applied, lambda *_: False)
    rows = {name: tuple(rules) for name, rules in shares.rows.items()}
    for batch in run_here(ValidationPlan(source.sets, rows, tuple(shares.unique), source.dns, now)):
        for row in batch.to_pylist():
            yield Finding(**row)
    yield from draw(applied, source)


def place_rule(source: "ValidationSource") -> MissingReference | None:
    """Return the rule by which queues find their queue manager.

    Returns None if the rule cannot be applied.
    """
    applied, _ = choose_rules(source)
    for rule, _ in applied:
        if rule.id == PLACE_RULE and isinstance(rule, MissingReference):
            return rule
    return None


def by_object(findings: list[Finding]) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the rules that each object breaks.

    The keys are type and DN, or type and GUID if an object has no DN.
    """
    rules: dict[tuple[str, str], tuple[str, ...]] = {}
    for finding in findings:
        key = (finding.type, finding.dn or finding.guid or "")
        if finding.rule not in rules.get(key, ()):
            rules[key] = (*rules.get(key, ()), finding.rule)
    return rules
