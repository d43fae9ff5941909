"""Objects to validate: Parquet files of each type.

Columns of the files and the number of rows are known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError


class Piece(NamedTuple):
    """Row groups of one file that one task reads.

    Attributes:
        path: of the file.
        groups: numbers of the row groups.
        rows: in them.
    """

    path: str
    groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """The objects of one type.

    Attributes:
        type: name, as on the command line.
        pieces: the row groups, by file.
        columns: names and Arrow types.
        stamp: identifies one reading of the footers; workers remember values of one reading only.
    """

    type: str
    pieces: tuple[Piece, ...]
    columns: tuple[tuple[str, pa.DataType], ...]
    stamp: str = ""

    @property
    def rows(self) -> int:
        """Number of objects."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Columns by name."""
        return dict(self.columns)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the files, each once."""
        return tuple(dict.fromkeys(piece.path for piece in self.pieces))

    def read_batches(self, columns: Sequence[str], rows_max: int) -> Iterator[pa.RecordBatch]:
        """Read columns of all objects, as batches."""
        for piece in merge_pieces(self.pieces, rows_max):  # opening a file costs more than a small row group
            yield from read(piece, columns, rows_max)

    def read_table(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all objects into one table: for small types."""
        names = [name for name in columns if name in self.types]
        parts = [pq.ParquetFile(path).read(columns=names) for path in self.paths]
        return pa.concat_tables(parts).combine_chunks()


def read_dataset(name: str, paths: Sequence[Path]) -> Dataset:
    """Read the footers of files.

    Raises:
        ConfigError: a file is missing, is no whole Parquet file, or has other columns than the first.
    """
    pieces: list[Piece] = []
    columns: dict[str, pa.DataType] = {}
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                schema, metadata = file.schema_arrow, file.metadata
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
        except pa.ArrowException as error:
            raise ConfigError(f"{path} is no whole Parquet file ({error}); export again") from error
        file_columns = {field.name: to_plain_type(field.type) for field in schema}
        if columns and file_columns != columns:
            raise ConfigError(f"{path} has other columns than {paths[0]}: they are not of one export")
        columns = file_columns
        pieces += [
            Piece(str(path), (group,), metadata.row_group(group).num_rows)
            for group in range(metadata.num_row_groups)
        ] or [Piece(str(path), (), 0)]
    return Dataset(name, tuple(pieces), tuple(columns.items()), uuid4().hex)


def without_objects(name: str, schema: pa.Schema) -> Dataset:
    """Return the dataset that files with a schema would give, without objects."""
    return Dataset(name, (), tuple((field.name, to_plain_type(field.type)) for field in schema))


def to_plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that rules use for a type that is only stored differently."""
    if pa.types.is_dictionary(kind):
        return to_plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", to_plain_type(kind.value_type)))
    return kind


def merge_pieces(pieces: Sequence[Piece], rows_max: int) -> list[Piece]:
    """Combine small neighbouring row groups of one file."""
    merged_pieces: list[Piece] = []
    for piece in pieces:
        last = merged_pieces[-1] if merged_pieces else None
        if last is not None and last.path == piece.path and last.rows + piece.rows <= rows_max:
            merged_pieces[-1] = Piece(last.path, last.groups + piece.groups, last.rows + piece.rows)
        else:
            merged_pieces.append(piece)
    return merged_pieces


def read(
    piece: Piece, columns: Sequence[str], rows_max: int, *, dictionaries: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Read some columns of a piece.

    Args:
        piece: the row groups to read.
        columns: which; those in `dictionaries` come as dictionaries.
        rows_max: rows of a batch.
        dictionaries: columns whose values repeat.
    """
    if not piece.groups:
        return
    # without a read-ahead buffer, which would take all columns of the whole piece at once
    with pq.ParquetFile(piece.path, read_dictionary=list(dictionaries), pre_buffer=False) as file:
        yield from file.iter_batches(
            batch_size=rows_max, row_groups=list(piece.groups), columns=list(columns), use_threads=False
        )


@lru_cache(maxsize=16)
def keep_table(target: Dataset, columns: tuple[str, ...]) -> pa.Table:
    """Return columns of a small type, read once in a process."""
    return target.read_table(columns)


def values_of(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """Return the columns of a batch with the types that rules use; dictionaries stay."""
    columns = {}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        target_type = types[name]
        keep = pa.types.is_dictionary(values.type) or values.type == target_type
        columns[name] = values if keep else values.cast(target_type)
    return columns
