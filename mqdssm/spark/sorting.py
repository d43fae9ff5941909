"""Sorting of Parquet files: in this process if they are small, else by Spark, which can spill to disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Limit in octets, uncompressed, for sorting in this process."""


def _fits_here(paths: Sequence[Path]) -> bool:
    """Return True if files are small enough to be sorted in this process."""
    metadata = [pq.read_metadata(path) for path in paths]
    size = sum(one.row_group(i).total_byte_size for one in metadata for i in range(one.num_row_groups))
    return bool(size <= HERE_BYTES_MAX)


def sorted_files(
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
        found = target / "part-00000.parquet"
        table = pa.concat_tables(
            [schema.empty_table(), *(pq.read_table(path, schema=schema) for path in paths)]
        )
        # an empty text sorts as NULL: versions of pyarrow differ in the argument for the place of NULL
        keys = pa.table({name: pc.fill_null(table[name], "") for name in order})
        places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order])
        pq.write_table(table.take(places), found)
        return (found,)
    rows = spark.read.parquet(*(path.as_uri() for path in paths))
    rows.orderBy(*order).write.mode("append").option("compression", "none").parquet(target.as_uri())
    return tuple(sorted(target.glob("part-*.parquet")))
