"""Validation rules, as declarations: the defect is a condition in Spark SQL, not a program."""

from typing import Final

from mqdssm.pipeline.validate.rules import (
    attributes,
    identity,
    link,
    queue,
    queue_manager,
    security,
    user,
)
from mqdssm.pipeline.validate.rules.rule import (
    SEVERITIES,
    Finding,
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Severity,
    Undecodable,
    Unequal,
    Wrong,
)

RULES: Final[tuple[Rule, ...]] = (
    *identity.RULES,
    *queue.RULES,
    *queue_manager.RULES,
    *link.RULES,
    *user.RULES,
    *security.RULES,
    *attributes.RULES,
)
"""All built-in rules, and parts of rules: see `mqdssm.pipeline.validate.rules.rule`."""

__all__ = [
    "RULES",
    "SEVERITIES",
    "Finding",
    "GraphRule",
    "Judged",
    "MissingReference",
    "Repeated",
    "Rule",
    "Severity",
    "Undecodable",
    "Unequal",
    "Wrong",
]
