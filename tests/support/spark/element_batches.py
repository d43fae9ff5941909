"""Objects of the abstract model as Arrow record batches: the reference for batches of the pipeline."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from mqdssm.errors import MappingError
from mqdssm.model.base import DirectoryObject
from mqdssm.pipeline.frames.arrow import BATCH_BYTES_MAX, BATCH_ROWS, array_of, make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES, Column
from mqdssm.tables import TABLES
from mqdssm.tables.row import Access
from mqdssm.tables.syntax import Kind


def columns_of(element: type[DirectoryObject], names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Columns of an element with some names; None: one for each attribute that can be read."""
    (frame,) = (frame for frame in FRAME_TYPES.values() if frame.element is element)
    readable = [row.adm for row in TABLES[element].rows if Access.READ in row.access]
    return frame.select(readable if names is None else names)


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
    schema = make_arrow_schema(columns)
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
