"""The rule about the server itself; `mqdssm.tables.schema_compare` does the work."""

from dataclasses import dataclass
from typing import ClassVar, Final

from mqdssm.pipeline.validate.rules.rule import Applies, Present, Rule
from mqdssm.pipeline.validate.rules.vocabulary import DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Rule):
    """How the schema of the server differs from ours; only where the source is a directory."""

    kind: ClassVar[str] = "directory"

    message: str = ""

    def applies(self, present: Present) -> Applies:
        """Tell whether the source is a directory."""
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
