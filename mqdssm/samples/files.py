"""Sample tables as files: Parquet, CSV or JSON Lines, written in pieces."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from mqdssm.model.propids import Variant
from mqdssm.model.safe_text import csv_cell
from mqdssm.samples.forms import TableForm
from mqdssm.samples.mqis import MqisRow, columns_of
from mqdssm.tables.mqis import MqisTable

PIECE_ROWS: Final = 5_000
"""Number of rows in memory, and in one row group of a Parquet file."""


class TableWriter:
    """Writer of the rows of one table to one file.

    Args:
        folder: folder of the file, whose name is that of the table.
        table: the table.
        form: the format of the file.
    """

    def __init__(self, folder: Path, table: MqisTable, form: TableForm) -> None:
        self.path = folder / f"{table.name}.{form}"
        self.rows = 0
        self._columns = columns_of(table)
        self._form = form
        self._waiting: list[MqisRow] = []

    @contextmanager
    def open(self) -> Iterator["TableWriter"]:
        """Open the file; it is complete when the context ends without an error."""
        if self._form is TableForm.PARQUET:
            with self._parquet():
                yield self
                self._flush()
        else:
            with self.path.open("w", encoding="utf-8", newline="\n") as file:
                self._file = file
                if self._form is TableForm.CSV:
                    file.write(",".join(column.name for column in self._columns) + "\n")
                yield self
                self._flush()

    def write(self, row: MqisRow) -> None:
        """Write a row."""
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= PIECE_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        if self._form is TableForm.PARQUET:
            self._write_batch(rows)
        else:
            line = _csv_line if self._form is TableForm.CSV else _json_line
            names = [column.name for column in self._columns]
            self._file.writelines(line(names, row) for row in rows)

    _file: IO[str]

    # -- Parquet

    @contextmanager
    def _parquet(self) -> Iterator[None]:
        import pyarrow as pa  # noqa: PLC0415  only Parquet needs it
        import pyarrow.parquet as pq  # noqa: PLC0415

        whole = {variant: pa.int64() if variant is Variant.UI4 else pa.int32() for variant in Variant}
        types = whole | {
            Variant.LPWSTR: pa.string(),
            Variant.CLSID: pa.string(),
            Variant.BLOB: pa.binary(),
            Variant.BYTES: pa.binary(),
            Variant.CLSIDS: pa.list_(pa.string()),
            Variant.LPWSTRS: pa.list_(pa.string()),
        }
        self._schema = pa.schema([(column.name, types[column.variant]) for column in self._columns])
        with pq.ParquetWriter(self.path, self._schema) as writer:
            self._writer = writer
            yield

    _schema: Any
    _writer: Any

    def _write_batch(self, rows: Sequence[MqisRow]) -> None:
        import pyarrow as pa  # noqa: PLC0415

        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in self._schema]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def _csv_line(names: Sequence[str], row: MqisRow) -> str:
    return ",".join(_csv_cell(row[name]) for name in names) + "\n"


def _csv_cell(value: Any) -> str:
    """Return a cell ([RFC4180]): an empty one for NULL, two quotes for an empty text."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    cell = _text(value)
    if not isinstance(cell, str):
        cell = json.dumps(cell)
    return csv_cell(cell)


def _json_line(names: Sequence[str], row: MqisRow) -> str:
    record = {name: _text(row[name]) for name in names}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _text(value: Any) -> Any:
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value
