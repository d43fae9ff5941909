"""Rules of routing links."""

from typing import Final

from mqdssm.spark.rules.rule import Rule, Wrong

RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="link-cost-range",
        severity="error",
        types=("routing-link",),
        attribute="ActualCost",
        section="[MS-MQDMPR] 3.1.1.8",
        what="the cost of a link is between 1 and 999999",
        message="concat('ActualCost is ', coalesce(string(ActualCost), 'not set'), ', not 1 to 999999')",
        bad="ActualCost is null or ActualCost < 1 or ActualCost > 999999",
    ),
)
