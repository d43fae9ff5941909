"""Differences of a comparison in sorted files, from which all outputs are made."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.diff.fields import What

BATCH_ROWS: Final = 1_000
"""Rows of a batch, each of which may hold two objects with certificates."""


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """Object that differs between the two sides.

    Attributes:
        type: of the object, as on the command line.
        what: kind of the difference.
        key: value that identifies the object on both sides, in most cases its GUID.
        name: of the object, for messages.
        attributes: those that differ; empty if one side lacks the object.
        a: the object on the first side, as in JSON Lines of an export; None if it is missing there.
        b: the object on the second side, likewise.
    """

    type: str
    what: What
    key: str
    name: str
    attributes: tuple[str, ...]
    a: Mapping[str, Any] | None
    b: Mapping[str, Any] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "ObjectDifference":
        """Make a difference from a row of `mqdssm.pipeline.diff.fields.SCHEMA`."""
        a, b = (None if row[side] is None else json.loads(row[side]) for side in ("a", "b"))
        return cls(
            row["type"], What(row["what"]), row["key"], row["name"], tuple(row["attributes"] or ()), a, b
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """Sorted differences in Parquet files.

    Attributes:
        paths: of the files, in order.
    """

    paths: tuple[Path, ...]

    @property
    def count(self) -> int:
        """Number of differences."""
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all differences in order, as Arrow batches."""
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=BATCH_ROWS)

    def __iter__(self) -> Iterator[ObjectDifference]:
        for batch in self.batches():
            yield from map(ObjectDifference.of, batch.to_pylist())

    def of(self, type_name: str, what: What) -> Iterator[ObjectDifference]:
        """Yield the differences of one type and kind."""
        wanted = [("type", "==", type_name), ("what", "==", what.value)]
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                if file.metadata.num_rows == 0:
                    continue
            table = pq.read_table(path, filters=wanted)
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield from map(ObjectDifference.of, batch.to_pylist())

    def counted(self) -> Counter[tuple[str, What]]:
        """Return the number of differences of each type and kind."""
        found: Counter[tuple[str, What]] = Counter()
        for path in self.paths:
            table = (
                pq.read_table(path, columns=["type", "what"])
                .group_by(["type", "what"])
                .aggregate([([], "count_all")])
            )
            for row in table.to_pylist():
                found[row["type"], What(row["what"])] += row["count_all"]
        return found
