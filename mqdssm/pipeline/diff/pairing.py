"""The two sides of a comparison, and the protocol of their join.

The join finds objects that may differ.
Each worker of a join imports this module, but none of those that open the sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from mqdssm.pipeline.diff.comparable_columns import ComparableType
from mqdssm.pipeline.diff.fields import Ground
from mqdssm.pipeline.frames.columns import Column

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.sides import Side
    from mqdssm.pipeline.spark_options import SparkOptions

ORDER: Final = ("type", "what", "name", "key", "a", "b")
"""Columns that differences are sorted by, so that the order does not depend on the engine."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides, and their properties for a comparison.

    Attributes:
        sides: A and B.
        grounds: properties of each side for comparing values.
        guid_map: Parquet file of changed GUIDs (`mqdssm.pipeline.diff.run.write_map`); None: no map.
    """

    sides: tuple["Side", "Side"]
    grounds: tuple[Ground, Ground]
    guid_map: Path | None = None

    @property
    def has_other_names(self) -> bool:
        """True if some objects have different GUIDs on the two sides."""
        return any(ground.names for ground in self.grounds)


class Join(Protocol):
    """Protocol of a join, which finds the differences of two sides.

    Each engine has one join.
    """

    def find(self, compared: Sequence[ComparableType], pair: Pair, folder: Path) -> tuple[Path, ...]:
        """Find the objects that may differ, and compare them column by column.

        Args:
            compared: the types to compare.
            pair: the sides.
            folder: an empty folder.

        Returns:
            Files of differences, sorted by `ORDER`.
        """

    def sort(self, path: Path, folder: Path) -> tuple[Path, ...]:
        """Sort a file of differences by `ORDER`.

        Args:
            path: of the file.
            folder: an empty folder for the result.
        """


@runtime_checkable
class JoinRunner(Protocol):
    """Protocol of a runner with its own join: that of Spark."""

    def join(self) -> Join:
        """Return the join."""

    def check_workers(self, on: "SparkOptions", files: Sequence[Path] = ()) -> None:
        """See `mqdssm.pipeline.validate.run.SqlRunner`."""


def select_shown_columns(compared: ComparableType, sides: "tuple[Side, Side]") -> tuple[Column, ...]:
    """Return the columns of a type that at least one side has."""
    column_names = {name for side in sides for name in side.sets[compared.type].types}
    return tuple(column for column in compared.frame.columns if column.name in column_names)
