"""Objects of the abstract model as Arrow record batches of bounded size."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from mqdssm.errors import MappingError
from mqdssm.model.base import DirectoryObject
from mqdssm.pipeline.frames.columns import CONVERT, Column
from mqdssm.tables.syntax import Kind

# measured: fewer rows cost the JVM twice the time, more gain nothing
BATCH_ROWS: Final = 10_000
# certificates reach 1 MiB each: a batch ends early rather than fill a worker's memory
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024

_TYPES: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.ENUMERATION: pa.string(),
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.GUID: pa.string(),
    Kind.SID: pa.string(),
    Kind.DN: pa.string(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of some columns, exactly as Spark expects it from a data source."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in columns])


def batches(
    objects: Iterable[DirectoryObject],
    columns: Sequence[Column],
    *,
    rows_max: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Convert a stream of objects into record batches; at most one batch is held in memory.

    Args:
        objects: results of a search. An attribute that is not populated becomes NULL.
        columns: the columns of the batches.
        rows_max: rows of a batch.
        bytes_max: bytes of binary values after which a batch ends early.

    Raises:
        MappingError: a value that its column cannot hold, naming object and attribute.
    """
    schema = arrow_schema(columns)
    binary = [column.field for column in columns if column.kind is Kind.BYTES]
    kept: list[DirectoryObject] = []
    size = 0
    for found in objects:
        kept.append(found)
        size += sum(_size(getattr(found, field)) for field in binary)
        if len(kept) >= rows_max or size >= bytes_max:
            yield _batch(kept, columns, schema)
            kept, size = [], 0
    if kept:
        yield _batch(kept, columns, schema)


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column."""
    one = _TYPES[column.kind]
    found = pa.list_(pa.field("element", one)) if column.many else one
    return pa.map_(pa.string(), found) if column.named else found


def _size(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value)
    return sum(map(len, value)) if value else 0


def _batch(
    objects: Sequence[DirectoryObject], columns: Sequence[Column], schema: pa.Schema
) -> pa.RecordBatch:
    populated = [found.model_fields_set for found in objects]
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        values = [
            getattr(found, column.field) if column.field in present else None
            for found, present in zip(objects, populated, strict=True)
        ]
        try:
            arrays.append(array_of(values, column, field.type))
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as error:
            raise _blame(objects, values, column, field.type, error) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def array_of(values: list[Any], column: Column, arrow: pa.DataType) -> pa.Array:
    """Convert abstract values into an array; None is NULL.

    Raises:
        pa.ArrowException, OverflowError, UnicodeError, TypeError: a value that the column cannot hold.
    """
    convert = CONVERT.get(column.kind)
    if convert is not None:
        if column.many:
            values = [None if value is None else [convert(one) for one in value] for value in values]
        else:
            values = [None if value is None else convert(value) for value in values]
    if column.kind is Kind.TIME:
        return pa.array(values, pa.timestamp("s", tz="UTC")).cast(arrow)
    return pa.array(values, arrow)


def _blame(
    objects: Sequence[DirectoryObject],
    values: list[Any],
    column: Column,
    arrow: pa.DataType,
    error: Exception,
) -> MappingError:
    """Return an error that names the first value that its column cannot hold."""
    for found, value in zip(objects, values, strict=True):
        try:
            array_of([value], column, arrow)
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as reason:
            return MappingError(
                f"{column.name} of {found.element_name} {found.identifier} is no {arrow}: {reason}"
            )
    return MappingError(f"{column.name} is no {arrow}: {error}")
