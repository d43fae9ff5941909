"""Rules of queue managers."""

from typing import Final

from mqdssm.spark.rules.rule import MissingReference, Rule

RULES: Final[tuple[Rule, ...]] = (
    MissingReference(
        id="queue-manager-sites-exist",
        severity="error",
        types=("queue-manager",),
        attribute="SiteIdentifierList",
        section="[MS-MQDMPR] 3.1.1.1",
        what="every site of a queue manager exists",
        message="concat('there is no site ', value)",
        value="SiteIdentifierList",
        target="site",
        key="Identifier",
    ),
)
