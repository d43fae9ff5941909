"""Objects of the abstract model as Arrow record batches of bounded size."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

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


def make_arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of some columns, for a Spark data source.

    The schema is exactly the one that Spark expects.
    """
    return pa.schema([pa.field(column.name, find_arrow_type(column)) for column in columns])


def find_arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column."""
    element_type = _TYPES[column.kind]
    value_type = pa.list_(pa.field("element", element_type)) if column.many else element_type
    return pa.map_(pa.string(), value_type) if column.named else value_type


def array_of(values: list[Any], column: Column, arrow: pa.DataType) -> pa.Array:
    """Convert abstract values into an array; None is NULL.

    Raises:
        pa.ArrowException, OverflowError, UnicodeError, TypeError: a value that the column cannot hold.
    """
    convert = CONVERT.get(column.kind)
    if convert is not None:
        if column.many:
            values = [None if value is None else [convert(item) for item in value] for value in values]
        else:
            values = [None if value is None else convert(value) for value in values]
    if column.kind is Kind.TIME:
        return pa.array(values, pa.timestamp("s", tz="UTC")).cast(arrow)
    return pa.array(values, arrow)
