"""Staged rows of the source, kept in the plan.

Rows have one form for all kinds of sources.
They are in ``PLAN/.source/<Table>/part-NNNNN-NNNNN.parquet``. Later steps read these files, never the source
again, which may have changed since.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.plan_file import SOURCE_NAME
from mqdssm.pipeline.migrate.rows import gates_of, key_of
from mqdssm.pipeline.mqis.folder import SourceFile, SourceRow, read_rows
from mqdssm.pipeline.mqis.mapping import SourceMapping
from mqdssm.pipeline.runner import StopRequest
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

STAGED: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("cells", pa.map_(pa.string(), pa.string())),
        pa.field("problems", pa.map_(pa.string(), pa.string())),
        pa.field("guid", pa.binary()),
        pa.field("name", pa.string()),
        pa.field("computer", pa.string()),
        pa.field("gates", pa.list_(pa.binary())),
    ]
)
"""Columns: file and number of a row, its cells as text, and its key."""
BATCH_ROWS: Final = 2_000
PART_ROWS: Final = 10_000
"""Rows of a staged file: one task of the next step takes one file."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """One staged file.

    Attributes:
        table: name of the table.
        number: of the file in its table.
        path: where it is.
        first: number of its first row in the table; the table's first row is 1.
        rows: how many it holds.
    """

    table: str
    number: int
    path: Path
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedRow:
    """One staged row.

    Attributes:
        number: in the table.
        file: that it was in.
        row: its number there.
        cells: PROPID -> text.
        problems: PROPID, or empty for the row -> what could not be read.
    """

    number: int
    file: str
    row: int
    cells: Mapping[str, str]
    problems: Mapping[str, str]

    @property
    def place(self) -> dict[str, Any]:
        """Numbers and file of the row, for documents that list rows."""
        return {"row": self.number, "file": self.file, "file_row": self.row}


def stage(folder: Path, number: int, part: SourceFile, mapping: SourceMapping, stop: StopRequest) -> int:
    """Read one file of the source, and write its staged files.

    Args:
        folder: of the plan.
        number: of the file among all files of the source.
        part: the file.
        mapping: how the source holds values.
        stop: ends the work between two rows.

    Returns:
        The number of its rows.

    Raises:
        ConfigError: it cannot be read.
        OSError: nothing can be written.
        Stopped: the stop was set.
    """
    table = MQIS_TABLES[part.table]
    target = _build_path(folder, table)
    target.mkdir(parents=True, exist_ok=True)
    rows = stop.checking(read_rows(part, mapping))
    total, piece = 0, 0
    while batch := list(islice(rows, PART_ROWS)):
        path = target / f"part-{number:05d}-{piece:05d}.parquet"
        draft = path.with_name(path.name + ".new")
        with pq.ParquetWriter(draft, STAGED, compression="zstd") as writer:
            for start in range(0, len(batch), BATCH_ROWS):
                cells = [_encode_row(table, part, row) for row in batch[start : start + BATCH_ROWS]]
                writer.write_table(pa.Table.from_pylist(cells, schema=STAGED))
        draft.replace(path)
        total += len(batch)
        piece += 1
    return total


def _encode_row(table: MqisTable, part: SourceFile, row: SourceRow) -> dict[str, Any]:
    key = key_of(table, row.cells)
    return {
        "file": part.label,
        "row": row.number,
        "cells": list(row.cells.items()),
        "problems": list(row.problems.items()),
        "guid": None if key.guid is None else key.guid.bytes_le,
        "name": key.name,
        "computer": key.computer,
        "gates": [gate.bytes_le for gate in gates_of(row.cells)] if table.name == "Site" else None,
    }


def _build_path(folder: Path, table: MqisTable) -> Path:
    return folder / SOURCE_NAME / table.name


def begin(folder: Path) -> None:
    """Remove the staged files of an earlier attempt, and create their folder."""
    shutil.rmtree(folder / SOURCE_NAME, ignore_errors=True)
    (folder / SOURCE_NAME).mkdir(parents=True)


def list_staged_parts(folder: Path, table: MqisTable) -> tuple[StagedPart, ...]:
    """Return the staged files of a table, in order.

    There are none if the source lacks the table.
    """
    parts = []
    first = 1
    for number, path in enumerate(sorted(_build_path(folder, table).glob("part-*.parquet"))):
        rows = pq.read_metadata(path).num_rows
        parts.append(StagedPart(table.name, number, path, first, rows))
        first += rows
    return tuple(parts)


def read_staged_rows(part: StagedPart) -> Iterator[StagedRow]:
    """Yield the rows of a staged file.

    Raises:
        ConfigError: it is damaged.
    """
    number = part.first
    try:
        with pq.ParquetFile(part.path) as file:
            columns = ["file", "row", "cells", "problems"]
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                for row in batch.to_pylist():
                    cells, problems = dict(row["cells"]), dict(row["problems"])
                    yield StagedRow(number, row["file"], row["row"], cells, problems)
                    number += 1
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{part.path} is damaged ({error}): plan again") from error


def read_rows_at(folder: Path, table: MqisTable, numbers: Collection[int]) -> Iterator[StagedRow]:
    """Yield some rows of a table, by their numbers in it.

    Raises:
        ConfigError: a staged file is damaged.
    """
    for part in list_staged_parts(folder, table):
        if any(part.first <= number < part.first + part.rows for number in numbers):
            yield from (row for row in read_staged_rows(part) if row.number in numbers)


def read_keys(folder: Path, tables: Sequence[MqisTable], columns: Sequence[str]) -> pa.Table:
    """Return some columns of all rows of some tables.

    Each row has its ``table`` and ``number``.
    """
    return concatenate_parts(read_keys_by_part(folder, tables, columns), columns)


def read_keys_by_part(
    folder: Path, tables: Sequence[MqisTable], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield some columns of each staged file of some tables, as `read_keys`."""
    for table in tables:
        for part in list_staged_parts(folder, table):
            keys = pq.read_table(part.path, columns=list(columns))
            count = keys.num_rows
            keys = keys.append_column("table", pa.repeat(table.name, count).dictionary_encode())
            yield keys.append_column("number", pa.array(range(part.first, part.first + count), pa.int64()))


def concatenate_parts(parts: Iterable[pa.Table], columns: Sequence[str]) -> pa.Table:
    """Return the rows of `read_keys_by_part`, or of some of them, as one table."""
    key_tables = list(parts)
    if not key_tables:
        fields = [*(STAGED.field(name) for name in columns)]
        empty = pa.schema([*fields, pa.field("table", pa.string()), pa.field("number", pa.int64())])
        return empty.empty_table()
    return pa.concat_tables(key_tables).unify_dictionaries()
