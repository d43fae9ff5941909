"""The rule about the server itself, which `mqdssm.tables.schema_compare` checks."""

from dataclasses import dataclass
from typing import ClassVar, Final

from mqdssm.pipeline.validate.rules.rule import Applies, Present, Rule
from mqdssm.pipeline.validate.rules.vocabulary import DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Rule):
    """Rule about differences between the server's schema and the required one; only for a directory."""

    kind: ClassVar[str] = "directory"

    message: str = ""

    def applies(self, present: Present) -> Applies:
        """Return the rule's types if the source is a directory."""
        if DIRECTORY in present:
            return Applies(self.types, "")
        return Applies((), "the source is no directory")


SCHEMA_DRIFT: Final = Drift(
    id="schema-drift",
    severity="error",
    types=(DIRECTORY,),
    attribute="subschemaSubentry",
    section="[MS-MQDSSM] 2.2.2, 2.4",
    what="the server's schema has all that is read and written, as it has to be",
)
RULES: Final[tuple[Rule, ...]] = (SCHEMA_DRIFT,)
