"""Rules of security descriptors."""

from typing import Final

from mqdssm.spark.rules.rule import Rule, Wrong

RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="security-required",
        severity="error",
        types=("enterprise", "site", "queue-manager", "queue"),
        attribute="Security",
        section="[MS-MQDSSM] 3.1.6.11",
        what="an object that access is checked on has a security descriptor",
        message="'Security is missing: who may use the object is not known'",
        bad="Security is null or length(Security) = 0",
    ),
)
