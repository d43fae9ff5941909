"""Files of findings, written in sorted parts and merged.

Memory is bounded for any number of findings.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.pipeline.shared_folder import explain_full_disk
from mqdssm.pipeline.validate.scan import SCHEMA

ORDER: Final = ("rule", "type", "dn", "guid", "attribute", "message", "section")
"""Columns by which findings are sorted, NULL first."""
PART_ROWS: Final = 100_000
"""Number of findings that are sorted at once (70 MB)."""
PARTS_MAX: Final = 32
"""Number of files that are merged at once."""
BATCH_ROWS: Final = 8_192
"""Number of findings of each file that are in memory during a merge."""


def write_parts(batches: Iterable[pa.RecordBatch], folder: Path) -> tuple[Path, ...]:
    """Write findings into sorted files of `PART_ROWS`.

    The name of a file of a killed worker is never returned.

    Args:
        batches: findings in no order.
        folder: for the files.
    """
    paths: list[Path] = []
    buffer: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        buffer.append(batch)
        rows += batch.num_rows
        if rows >= PART_ROWS:
            paths.append(_write_part(buffer, folder))
            buffer, rows = [], 0
    if buffer:
        paths.append(_write_part(buffer, folder))
    return tuple(paths)


def merge_parts(paths: Sequence[Path], folder: Path) -> Path:
    """Merge sorted files into one, and delete them.

    Args:
        paths: the files.
        folder: for the result.
    """
    remaining = list(paths)
    while len(remaining) > PARTS_MAX:
        remaining.append(_merge_some(remaining[:PARTS_MAX], folder))
        del remaining[:PARTS_MAX]
    return remaining[0] if len(remaining) == 1 else _merge_some(remaining, folder)


def _write_part(batches: Sequence[pa.RecordBatch], folder: Path) -> Path:
    path = folder / f"part-{uuid4().hex}.parquet"
    table = pa.Table.from_batches(batches, SCHEMA)
    with explain_full_disk(folder):
        pq.write_table(table.take(_sort_rows(table)), path, compression="none", row_group_size=BATCH_ROWS)
    return path


def _sort_rows(table: pa.Table) -> pa.Array:
    """Return the row numbers of findings in their order, with NULL before every text."""
    keys: dict[str, Any] = {}
    for name in ORDER:
        keys[f"{name} is there"] = pc.is_valid(table[name]).cast(pa.int8())
        keys[name] = pc.fill_null(table[name], "")
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _merge_some(paths: Sequence[Path], folder: Path) -> Path:
    path = folder / f"merged-{uuid4().hex}.parquet"
    with explain_full_disk(folder), pq.ParquetWriter(path, SCHEMA, compression="none") as writer:
        for table in _merge_files(paths):
            writer.write_table(table, row_group_size=BATCH_ROWS)
    for part_path in paths:
        part_path.unlink()
    return path


def _merge_files(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """Merge sorted files.

    Rows up to the first end of a batch are complete, and are yielded each time.
    """
    with ExitStack() as opened:
        parts = [_Part(opened.enter_context(pq.ParquetFile(path))) for path in paths]
        while parts := [part for part in parts if part.is_filled()]:
            last = min(part.find_last_key() for part in parts)
            table = pa.concat_tables([part.take_to(last) for part in parts])
            yield table.take(_sort_rows(table))


class _Part:
    """A sorted file that is being read.

    Args:
        file: the file.
    """

    def __init__(self, file: pq.ParquetFile) -> None:
        self._batches = file.iter_batches(batch_size=BATCH_ROWS)
        self._rows: pa.Table = SCHEMA.empty_table()

    def is_filled(self) -> bool:
        """Read the next batch if the last one is used up.

        Returns False at the end of the file.
        """
        while not self._rows.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._rows = pa.Table.from_batches([batch], SCHEMA)
        return True

    def find_last_key(self) -> tuple[str, ...]:
        """Return the key of the last row that was read."""
        return self._read_key(self._rows.num_rows - 1)

    def take_to(self, key: tuple[str, ...]) -> pa.Table:
        """Take the rows up to a key."""
        count = bisect_right(range(self._rows.num_rows), key, key=self._read_key)
        rows = self._rows.slice(0, count)
        self._rows = self._rows.slice(count)
        return rows

    def _read_key(self, row: int) -> tuple[str, ...]:
        values = (self._rows[name][row].as_py() for name in ORDER)
        # a text, which begins with a blank here, comes after NULL
        return tuple("" if value is None else f" {value}" for value in values)
