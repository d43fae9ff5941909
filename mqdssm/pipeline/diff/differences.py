"""Differences, kept in sorted files; all outputs derive from these."""

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
"""A row holds two objects as text, certificates among them."""


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """An object that is not the same on both sides.

    Attributes:
        type: of the object, as on the command line.
        what: what it is.
        key: by what it is found on both sides: its GUID in nearly all cases.
        name: for people.
        attributes: those that differ; none if one side lacks the object.
        a: the object on the first side, as JSON Lines of an export have it; None if it is not there.
        b: the same of the second side.
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
        """Make it of a row of `SCHEMA`."""
        a, b = (None if row[side] is None else json.loads(row[side]) for side in ("a", "b"))
        return cls(
            row["type"], What(row["what"]), row["key"], row["name"], tuple(row["attributes"] or ()), a, b
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences in files, sorted.

    Attributes:
        paths: the files, in order.
    """

    paths: tuple[Path, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them in order, as Arrow batches."""
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=BATCH_ROWS)

    def __iter__(self) -> Iterator[ObjectDifference]:
        for batch in self.batches():
            yield from map(ObjectDifference.of, batch.to_pylist())

    def of(self, type_name: str, what: What) -> Iterator[ObjectDifference]:
        """Those of one type and kind."""
        wanted = [("type", "==", type_name), ("what", "==", what.value)]
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                if file.metadata.num_rows == 0:
                    continue
            table = pq.read_table(path, filters=wanted)
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield from map(ObjectDifference.of, batch.to_pylist())

    def counted(self) -> Counter[tuple[str, What]]:
        """How many there are of each type and kind."""
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
