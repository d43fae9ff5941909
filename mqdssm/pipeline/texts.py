r"""CSV and JSON Lines without loss: reading returns every value as it was written.

| value | JSON Lines | CSV |
| --- | --- | --- |
| NULL | ``null`` | ``\N`` |
| text | string | in quotation marks, inner ones doubled; also the empty text |
| binary | base64 in one line | as in JSON Lines |
| time | ``2026-01-31T12:00:00.000000Z`` | as in JSON Lines |
| number, truth | ``1``, ``true`` | as in JSON Lines |
| list, map | array, object | the JSON text, in quotation marks |

Both are UTF-8. CSV has a line of column names and is otherwise RFC 4180 with line ends of LF.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from mqdssm.model.safe_text import format_csv_cell

NULL_CELL: Final = r"\N"
_BLOCK_BYTES_MAX: Final = 256 * 1024 * 1024  # base64 and quotation marks may double an LDAP message, twice
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"

Convert = Callable[[Any], Any]


def format_csv_head(schema: pa.Schema) -> bytes:
    """Return the line of column names of a CSV file."""
    return (",".join(format_csv_cell(name) for name in schema.names) + "\n").encode()


def format_csv_records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield each row as a CSV record; a text with line ends makes it several lines."""
    columns = [
        _format_cells(column, field.type) for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    for row in zip(*columns, strict=True):
        yield (",".join(row) + "\n").encode()


def format_jsonl_records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield each row as a line with a JSON object of all columns."""
    names = batch.schema.names
    columns = [
        _convert_column(column, field.type) for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    for row in zip(*columns, strict=True):
        yield (_format_json(dict(zip(names, row, strict=True))) + "\n").encode()


def read_jsonl(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a JSON Lines file that `format_jsonl_records` wrote.

    Args:
        path: of the file.
        schema: Arrow schema of the file, from the manifest.
    """
    with path.open(encoding="utf-8", newline="\n") as file:  # other characters do not end a line
        return pa.Table.from_batches([rows_of([json.loads(line) for line in file], schema)])


def rows_of(objects: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Convert JSON objects that `format_jsonl_records` wrote into rows.

    Args:
        objects: from `json.loads`; a missing name is NULL.
        schema: of the rows.
    """
    return pa.RecordBatch.from_arrays(
        [
            pa.array([_convert_from_json(row.get(field.name), field.type) for row in objects], field.type)
            for field in schema
        ],
        schema=schema,
    )


def read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a CSV file that `format_csv_head` and `format_csv_records` wrote.

    Args:
        path: of the file.
        schema: Arrow schema of the file, from the manifest.
    """
    from pyarrow import csv

    # a row has to fit into a block; rows with certificates are longer than the default of 1 MiB
    block = min(max(path.stat().st_size, 1), _BLOCK_BYTES_MAX)
    texts = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=block),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(schema.names, pa.string()),
            null_values=[NULL_CELL],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.Table.from_arrays(
        [
            pa.array([_from_cell(cell, field.type) for cell in texts[field.name].to_pylist()], field.type)
            for field in schema
        ],
        schema=schema,
    )


def _format_cells(column: pa.Array, kind: pa.DataType) -> list[str]:
    values = _convert_column(column, kind)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return [NULL_CELL if value is None else _format_json(value) for value in values]
    if _is_nested(kind):
        return [NULL_CELL if value is None else format_csv_cell(_format_json(value)) for value in values]
    return [NULL_CELL if value is None else format_csv_cell(value) for value in values]


def _from_cell(cell: str | None, kind: pa.DataType) -> Any:
    if cell is None:
        return None
    if _is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _convert_from_json(json.loads(cell), kind)
    return _convert_from_json(cell, kind)


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind))


def _convert_column(column: pa.Array, kind: pa.DataType) -> list[Any]:
    """Return the values of a column as values of JSON."""
    is_time = pa.types.is_timestamp(kind)
    convert = _format_time if is_time else _choose_conversion(kind)
    if is_time:
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _choose_conversion(kind: pa.DataType) -> Convert | None:
    """Return the function from a value of Arrow to a value of JSON.

    Returns None if no conversion is needed.
    """
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _encode_base64
    if pa.types.is_timestamp(kind):
        return lambda value: value.astimezone(UTC).strftime(_TIME)
    if pa.types.is_list(kind):
        each = _choose_conversion(kind.value_type)
        return None if each is None else lambda values: [None if v is None else each(v) for v in values]
    if pa.types.is_map(kind):
        item = _choose_conversion(kind.item_type) or (lambda value: value)
        return lambda pairs: {name: None if value is None else item(value) for name, value in pairs}
    if pa.types.is_struct(kind):
        fields = {field.name: _choose_conversion(field.type) or (lambda value: value) for field in kind}
        return lambda row: {
            name: None if row[name] is None else convert(row[name]) for name, convert in fields.items()
        }
    return None


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _format_time(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=fraction).strftime(_TIME)


def _convert_from_json(value: Any, kind: pa.DataType) -> Any:
    """Convert a value of JSON to the Python value for its Arrow type."""
    if value is None:
        return None
    if pa.types.is_binary(kind):
        return b64decode(value, validate=True)
    if pa.types.is_timestamp(kind):
        return datetime.strptime(value, _TIME).replace(tzinfo=UTC)
    if pa.types.is_list(kind):
        return [_convert_from_json(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(name, _convert_from_json(item, kind.item_type)) for name, item in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _convert_from_json(value[field.name], field.type) for field in kind}
    return value


def list_column_types(schema: pa.Schema) -> dict[str, str]:
    """Return the Arrow types of the columns by name, for the manifest."""
    return {field.name: str(field.type) for field in schema}


def texts_of(kind: str) -> tuple[Callable[[pa.RecordBatch], Iterator[bytes]], Callable[[pa.Schema], bytes]]:
    """Return the functions that write the rows and the head of a text format.

    Args:
        kind: ``csv`` or ``jsonl``.
    """
    return (format_csv_records, format_csv_head) if kind == "csv" else (format_jsonl_records, lambda _: b"")
