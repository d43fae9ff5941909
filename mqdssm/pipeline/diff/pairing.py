"""The two sides of a comparison, and the join that finds which of their objects may differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from mqdssm.pipeline.diff.comparable_columns import ComparableType
from mqdssm.pipeline.diff.fields import Ground
from mqdssm.pipeline.frames.columns import Column
from mqdssm.pipeline.spark_options import SparkOptions

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.sides import Side

ORDER: Final = ("type", "what", "name", "key", "a", "b")
"""Differences are sorted by these, so that every engine gives them in one order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides, and what has to be known of them.

    Attributes:
        sides: A and B.
        grounds: of each, what comparing its values needs.
        guid_map: Parquet file of GUIDs that were changed (`mqdssm.pipeline.diff.identity.write_map`); None:
            none was.
    """

    sides: tuple["Side", "Side"]
    grounds: tuple[Ground, Ground]
    guid_map: Path | None = None

    @property
    def has_other_names(self) -> bool:
        """True if the sides call some objects by different GUIDs."""
        return any(ground.names for ground in self.grounds)


class Join(Protocol):
    """Finds the differences of two sides; each engine has one."""

    def find(self, compared: Sequence[ComparableType], pair: Pair, folder: Path) -> tuple[Path, ...]:
        """Find the objects that may differ, and compare these field by field.

        Args:
            compared: what is compared.
            pair: the sides.
            folder: an empty folder.

        Returns:
            Files of differences, sorted by `ORDER`.
        """

    def sort(self, path: Path, folder: Path) -> tuple[Path, ...]:
        """Sort a file of differences by `ORDER`.

        Args:
            path: the file.
            folder: an empty folder for the result.
        """


@runtime_checkable
class JoinRunner(Protocol):
    """Runner with a join of its own: that of Spark."""

    def join(self) -> Join:
        """Return the join."""

    def check_workers(self, on: SparkOptions, files: Sequence[Path] = ()) -> None:
        """See `mqdssm.pipeline.validate.rule_assignment.SqlRunner`."""


def shown_columns(compared: ComparableType, sides: "tuple[Side, Side]") -> tuple[Column, ...]:
    """The columns of a type that one of the sides has."""
    there = {name for side in sides for name in side.sets[compared.type].types}
    return tuple(column for column in compared.frame.columns if column.name in there)
