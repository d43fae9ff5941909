"""Rules of identity."""

from typing import Final

from mqdssm.spark.columns import TYPES
from mqdssm.spark.rules.rule import Repeated, Rule

RULES: Final[tuple[Rule, ...]] = (
    Repeated(
        id="guid-unique",
        severity="error",
        types=tuple(TYPES),
        attribute="Identifier",
        section="[MS-MQDMPR] 3.1.1",
        what="an Identifier belongs to one object, over all types",
        message="concat('Identifier ', value, ' belongs to ', count, ' objects')",
    ),
)
