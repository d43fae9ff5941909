"""The join of two sides by Spark: it finds objects that may differ.

The join compares hashes of the objects' canonical forms.
Spark makes one text of each object, in which values that are certainly equal have the same form
(`mqdssm.pipeline.diff.sql`), and hashes it. The hashes of objects with one key are combined: two rows, one of
each side, whose hashes cancel out, are equal. So only a key and two numbers of each object are shuffled, and
no Python object is made. Candidates whose hashes do not cancel out are compared field by field.

Two random numbers of each run are the seeds of the hash: nobody can prepare objects with equal hashes.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.pipeline.diff import sql
from mqdssm.pipeline.diff.comparable_columns import ComparableType
from mqdssm.pipeline.diff.fields import DDL, KEY, SCHEMA, SIDE, FieldByField, Ground
from mqdssm.pipeline.diff.pairing import ORDER, Pair, select_shown_columns
from mqdssm.pipeline.diff.sql import NEW, OLD, SPARK
from mqdssm.spark.plans import name_to_read, name_to_write, read_frame, union_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mqdssm.pipeline.diff.sides import Side

TYPE: Final = "__type"
"""Column of the join with the number of the type."""
_SEED_BITS: Final = 63


class SparkJoin:
    """The join on Spark; see `mqdssm.pipeline.diff.pairing.Join`.

    Args:
        spark: the session.
    """

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def find(self, compared: Sequence[ComparableType], pair: Pair, folder: Path) -> tuple[Path, ...]:
        """See `Join`: one job for all types, and one for the candidates."""
        folders = self._find_candidates(compared, pair, folder)
        parts = [
            self._of_type(comparable, folders[comparable.type], pair)
            for comparable in compared
            if comparable.type in folders
        ]
        if not parts:
            return ()
        rows = union_of(parts)
        unsorted = folder / "unsorted"
        rows.write.option("compression", "zstd").parquet(name_to_write(unsorted))
        return self._sort_files(sorted(unsorted.glob("*.parquet")), folder / "sorted")

    def sort(self, path: Path, folder: Path) -> tuple[Path, ...]:
        """See `Join`."""
        return self._sort_files([path], folder)

    def _sort_files(self, paths: Sequence[Path], target: Path) -> tuple[Path, ...]:
        target.mkdir(exist_ok=True)
        return sort_files(self._spark, paths, SCHEMA, ORDER, target)

    def _find_candidates(
        self, compared: Sequence[ComparableType], pair: Pair, folder: Path
    ) -> dict[str, Path]:
        """Find the keys of all objects that may differ.

        Types without any are not in the result.
        """
        from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

        seeds = [secrets.randbits(_SEED_BITS) for _ in range(2)]
        parts = []
        for number, comparable in enumerate(compared):
            for place, side in enumerate(pair.sides):
                frame = self._read_keyed(comparable, side, pair)
                text = F.to_json(F.struct(*_make_canonical(comparable, side, respelt=pair.has_other_names)))
                hashes = (F.xxhash64(F.lit(seed), text).alias(f"__h{i}") for i, seed in enumerate(seeds))
                fixed_columns = (F.lit(number).alias(TYPE), F.col(KEY), F.lit(place).alias(SIDE))
                parts.append(frame.select(*fixed_columns, *hashes))
        combined = (
            union_of(parts)
            .groupBy(TYPE, KEY)
            .agg(
                F.count("*").alias("all"),
                F.sum(SIDE).alias("ofb"),
                F.bit_xor("__h0").alias("h0"),
                F.bit_xor("__h1").alias("h1"),
            )
        )
        same = (F.col("all") == 2) & (F.col("ofb") == 1) & (F.col("h0") == 0) & (F.col("h1") == 0)
        target = folder / "candidates"
        combined.where(~same).select(TYPE, KEY).write.partitionBy(TYPE).parquet(name_to_write(target))
        folders = {item.type: target / f"{TYPE}={number}" for number, item in enumerate(compared)}
        return {name: path for name, path in folders.items() if path.is_dir()}

    def _read_keyed(self, compared: ComparableType, side: "Side", pair: Pair) -> "DataFrame":
        """Return the objects of a type with their keys."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = read_frame(self._spark, side.sets[compared.type])
        column_names = frozenset(frame.columns)
        has_map = pair.guid_map is not None and sql.is_mapped(compared)
        if pair.guid_map is not None and has_map:
            changed = self._spark.read.parquet(name_to_read(pair.guid_map)).dropDuplicates([OLD])
            frame = frame.join(
                changed, F.expr(sql.build_own_key(compared, column_names, SPARK)) == F.col(OLD), "left"
            )
        root = None if side.root is None else str(side.root)
        key = sql.build_key(compared, column_names, root, SPARK, has_map=has_map)
        return frame.withColumn(KEY, F.expr(key)).drop(OLD, NEW)

    def _of_type(self, compared: ComparableType, keys: Path, pair: Pair) -> "DataFrame":
        """Return the differences between the candidates of a type."""
        from pyspark.sql import functions as F  # noqa: N812

        from mqdssm.spark.source import make_spark_schema

        key_frame = self._spark.read.schema(f"{KEY} string").parquet(name_to_read(keys))
        types = {
            field.name: field.dataType
            for field in make_spark_schema(select_shown_columns(compared, pair.sides))
        }
        parts = []
        for place, side in enumerate(pair.sides):
            frame = self._read_keyed(compared, side, pair)
            column_names = set(frame.columns)
            cells = (
                (F.col(f"`{name}`") if name in column_names else F.lit(None)).cast(kind).alias(name)
                for name, kind in types.items()
            )
            parts.append(
                frame.join(key_frame, KEY, "left_semi").select(KEY, F.lit(place).alias(SIDE), *cells)
            )
        rows = parts[0].unionAll(parts[1]).repartition(F.col(KEY)).sortWithinPartitions(KEY, SIDE)
        return rows.mapInArrow(_make_worker(compared, pair.grounds), DDL)


def _make_canonical(compared: ComparableType, side: "Side", *, respelt: bool) -> "list[Column]":
    """Return the columns of an object in a canonical form.

    Only equal values have the same form.
    """
    from pyspark.sql import functions as F  # noqa: N812

    root = None if side.root is None else str(side.root)
    return [
        F.expr(sql.build_canonical(field, side.letter, root, SPARK, respelt=respelt)).alias(field.name)
        for field in compared.fields
    ]


def _make_worker(
    compared: ComparableType, grounds: tuple[Ground, Ground]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a task runs."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from FieldByField(compared, *grounds).find_differences(batches)

    return work


HERE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Limit in octets, uncompressed, for sorting in this process."""


def _fits_here(paths: Sequence[Path]) -> bool:
    """Return True if files are small enough to be sorted in this process."""
    metadata = [pq.read_metadata(path) for path in paths]
    size = sum(
        footer.row_group(i).total_byte_size for footer in metadata for i in range(footer.num_row_groups)
    )
    return bool(size <= HERE_BYTES_MAX)


def sort_files(
    spark: "SparkSession",
    paths: Sequence[Path],
    schema: pa.Schema,
    order: Sequence[str],
    target: Path,
) -> tuple[Path, ...]:
    """Sort rows by text columns, NULL first.

    Args:
        spark: the session.
        paths: files of rows.
        schema: of the files.
        order: columns to sort by.
        target: an empty folder for the result.

    Returns:
        Files that contain all rows, in this order.
    """
    if _fits_here(paths):
        sorted_file = target / "part-00000.parquet"
        table = pa.concat_tables(
            [schema.empty_table(), *(pq.read_table(path, schema=schema) for path in paths)]
        )
        # an empty text sorts as NULL: versions of pyarrow differ in the argument for the place of NULL
        keys = pa.table({name: pc.fill_null(table[name], "") for name in order})
        places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order])
        pq.write_table(table.take(places), sorted_file)
        return (sorted_file,)
    rows = spark.read.parquet(*map(name_to_read, paths))
    rows.orderBy(*order).write.mode("append").option("compression", "none").parquet(name_to_write(target))
    return tuple(sorted(target.glob("part-*.parquet")))
