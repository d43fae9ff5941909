"""Rules of validation, as declarations: what is wrong is a condition in Spark SQL, not a program."""

from typing import Final

from mqdssm.spark.rules import identity, link, queue, queue_manager, security
from mqdssm.spark.rules.rule import Finding, MissingReference, Repeated, Rule, Severity, Wrong

RULES: Final[tuple[Rule, ...]] = (
    *identity.RULES,
    *link.RULES,
    *queue.RULES,
    *queue_manager.RULES,
    *security.RULES,
)

__all__ = ["RULES", "Finding", "MissingReference", "Repeated", "Rule", "Severity", "Wrong"]

if len({rule.id for rule in RULES}) < len(RULES):
    raise ValueError("two rules have the same id")
