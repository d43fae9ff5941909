"""Validation rules, as declarations.

The defect is a condition in Spark SQL, not a program.
"""

from typing import Final

from mqdssm.pipeline.validate.rules import attributes, identity, link, queue, security
from mqdssm.pipeline.validate.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *identity.RULES,
    *queue.RULES,
    *queue.QUEUE_MANAGER_RULES,
    *link.RULES,
    *security.USER_RULES,
    *security.RULES,
    *attributes.RULES,
)
"""All built-in rules, and parts of rules: see `mqdssm.pipeline.validate.rules.rule`."""
