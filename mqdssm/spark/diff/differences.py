"""Differences, found by Spark's workers and kept in sorted files; all outputs derive from these."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.spark.columns import Column
from mqdssm.spark.diff import candidates
from mqdssm.spark.diff.candidates import KEY, SIDE, Pair
from mqdssm.spark.diff.compared import Compared
from mqdssm.spark.diff.fields import DDL, SCHEMA, FieldByField, Ground, What
from mqdssm.spark.sorting import fits_here, sorted_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mqdssm.spark.diff.sides import Side

ORDER: Final = ("type", "what", "name", "key")
"""Differences are sorted by these."""
BATCH_ROWS: Final = 1_000
"""A row holds two objects as text, certificates among them."""


@dataclass(frozen=True, slots=True)
class Difference:
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
    def of(cls, row: Mapping[str, Any]) -> "Difference":
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

    def __iter__(self) -> Iterator[Difference]:
        for batch in self.batches():
            yield from map(Difference.of, batch.to_pylist())

    def of(self, type_name: str, what: What) -> Iterator[Difference]:
        """Those of one type and kind."""
        wanted = [("type", "==", type_name), ("what", "==", what.value)]
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                if file.metadata.num_rows == 0:
                    continue
            table = pq.read_table(path, filters=wanted)
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield from map(Difference.of, batch.to_pylist())

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


def compare(
    spark: "SparkSession",
    compared: Sequence[Compared],
    found: Mapping[str, Path],
    pair: Pair,
    folder: Path,
) -> Differences:
    """Look at the candidates field by field: one job for all types.

    Args:
        spark: the session.
        compared: what is compared.
        found: type -> where the keys of its candidates are.
        pair: the sides.
        folder: an empty folder.
    """
    parts = [_of_type(spark, one, found[one.type], pair) for one in compared if one.type in found]
    if not parts:
        return Differences(())
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    unsorted = folder / "unsorted"
    rows.write.option("compression", "zstd").parquet(unsorted.as_uri())
    target = folder / "sorted"
    target.mkdir()
    paths = sorted(unsorted.glob("*.parquet"))
    return Differences(sorted_files(spark, paths, SCHEMA, ORDER, target, here=fits_here(paths)))


def _of_type(spark: "SparkSession", compared: Compared, keys: Path, pair: Pair) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    from mqdssm.spark.source import spark_schema

    wanted = spark.read.schema(f"{KEY} string").parquet(str(keys))  # no URI: "=" in its name must stay one
    columns = shown_columns(compared, pair.sides)
    types = {field.name: field.dataType for field in spark_schema(columns)}
    parts = []
    for place, side in enumerate(pair.sides):
        frame = candidates.prepared(spark, compared, side, pair.guid_map)
        there = set(frame.columns)
        cells = (
            (F.col(f"`{name}`") if name in there else F.lit(None)).cast(kind).alias(name)
            for name, kind in types.items()
        )
        parts.append(frame.join(wanted, KEY, "left_semi").select(KEY, F.lit(place).alias(SIDE), *cells))
    rows = parts[0].unionAll(parts[1]).repartition(F.col(KEY)).sortWithinPartitions(KEY, SIDE)
    return rows.mapInArrow(worker(compared, pair.grounds), DDL)


def shown_columns(compared: Compared, sides: "tuple[Side, Side]") -> tuple[Column, ...]:
    """The columns of a type that one of the sides has."""
    there = {name for side in sides for name in side.sets[compared.type].types}
    return tuple(column for column in compared.frame.columns if column.name in there)


def worker(
    compared: Compared, grounds: tuple[Ground, Ground]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from FieldByField(compared, *grounds).differences(batches)

    return work
