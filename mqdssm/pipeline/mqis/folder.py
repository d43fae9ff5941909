"""Reader of MQIS tables in files: Parquet, CSV or JSON Lines.

Workers use it; it reads row by row as cells.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError
from mqdssm.pipeline.mqis.cells import CellMaker, build_bcp_maker, build_cell_maker, build_text_maker
from mqdssm.pipeline.mqis.csv_files import TAB, CsvHeader, find_misquoted_rows, read_csv_header
from mqdssm.pipeline.mqis.files import (
    FORMS,
    TableFiles,
    find_known_columns,
    find_named,
    find_not_read,
)
from mqdssm.pipeline.mqis.mapping import SourceMapping, TableMapping
from mqdssm.pipeline.mqis.text_files import open_text
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn, MqisTable

BATCH_ROWS: Final = 5_000
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of a line of JSON: certificates reach 1 MiB each, and a line without end is no row."""
BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Limit of a row of CSV."""
SHOWN_CHARS_MAX: Final = 200
MISQUOTED: Final = (
    "a value goes on behind its closing quotation mark: double the quotation marks inside of values"
)
ROW: Final = ""
"""Key of a problem that concerns the whole row, where otherwise a column is named."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_DAY_S: Final = 86_400
_UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ROW_GROUP_ROWS: Final = 10_000
"""Least number of rows of Parquet that one worker reads: tables shall keep all cores busy."""


Makers = Mapping[str, tuple[str, CellMaker]]
"""Column as the source calls it -> PROPID, and the function that converts its values into cells."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row as it is in the source.

    Attributes:
        number: of the row in its file, the first is 1.
        cells: PROPID -> text; columns that are NULL are not there.
        problems: PROPID (or `ROW`) -> why a cell, or all of the row, could not be read.
    """

    number: int
    cells: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a table, or a part of one, that one worker reads.

    Attributes:
        table: name of the table.
        path: of the file.
        form: parquet, csv or jsonl.
        columns: column as the file calls it -> PROPID.
        before: rows in the file before those of this part.
        groups: row groups of Parquet; None: all of the file.
        label: name for users.
        separator: of the values of a row of CSV.
        bcp: names of the columns of a file that SQL Server's bcp wrote; none: its first line has them.
    """

    table: str
    path: Path
    form: str
    columns: Mapping[str, str]
    before: int = 0
    groups: tuple[int, ...] | None = None
    label: str = ""
    separator: str = ","
    bcp: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of a source.

    Attributes:
        table: which one.
        columns: those that it has.
        others: names of columns that MQIS does not have, which are left out.
        files: files of the table.
    """

    table: MqisTable
    columns: tuple[MqisColumn, ...]
    others: tuple[str, ...]
    files: tuple[SourceFile, ...]


def find_files(folder: Path, mapping: SourceMapping) -> dict[str, TableFiles]:
    """Return the files of the tables in a folder.

    The mapping gives the names of the files.

    Raises:
        ConfigError: as `find_named`, with the names that are expected.
    """
    return find_named(folder, _map_names(mapping))


def describe_left_out(
    folder: Path | None, tables: Sequence[SourceTable], mapping: SourceMapping
) -> Iterator[str]:
    """Describe the files and columns of a source that are not read.

    MQIS does not have them. The text is for people.

    Args:
        folder: of files; None: the tables are those of a database.
        tables: that were found.
        mapping: names of the tables.
    """
    other_files = [] if folder is None else [path.name for path in find_not_read(folder, _map_names(mapping))]
    if other_files:
        yield f"not read, since they are no tables of MQIS: {', '.join(other_files)}"
    for source in tables:
        if source.others:
            columns = ", ".join(source.others)
            yield f"columns of {source.table.name} that MQIS does not have are left out: {columns}"


def _map_names(mapping: SourceMapping) -> dict[str, MqisTable]:
    return {mapping.name_of(table).lower(): table for table in MQIS_TABLES.values()}


def read_source_table(files: TableFiles, mapping: SourceMapping) -> SourceTable:
    """Read the columns of a table, and divide it into parts for single workers.

    Raises:
        ConfigError: it cannot be read, its parts differ, or the column of the objects' GUIDs is missing.
    """
    mapped = mapping.look_up_table(files.table)
    file_headers = {
        file: _read_header(file, files.form, mapping.encoding, mapped.bcp_columns) for file in files.files
    }
    headers = {header.names for header in file_headers.values()}
    if files.form == "jsonl":
        headers = {tuple(sorted({name for header in headers for name in header}))}
    if len(headers) != 1:
        raise ConfigError(f"the parts of {files.path} have different columns")
    names = headers.pop()
    called = _map_columns(files, mapped, names)
    columns = tuple(column for column in files.table.columns if column.name in called)
    by_file = {name: propid for propid, name in called.items()}
    parts = [
        replace(
            part,
            separator=file_headers[file].separator,
            bcp=mapped.bcp_columns if files.form == "csv" else (),
        )
        for file in files.files
        for part in _split_into_parts(files, file, by_file)
    ]
    if files.database_table is not None:
        parts = list(_as_one(parts, files.database_table))
    other_names = tuple(name for name in names if name not in by_file)
    return SourceTable(files.table, columns, other_names, tuple(parts))


def _as_one(parts: Iterable[SourceFile], label: str) -> Iterator[SourceFile]:
    """Name the parts of a copied table after the table.

    The rows of all parts are numbered through.
    """
    before: dict[Path, int] = {}
    rows = 0
    for part in parts:
        if part.path not in before:
            before[part.path] = rows
            rows += pq.read_metadata(part.path).num_rows
        yield replace(part, before=part.before + before[part.path], label=label)


def _map_columns(files: TableFiles, mapped: TableMapping, names: tuple[str, ...]) -> dict[str, str]:
    """Return PROPID -> column of the file."""
    mapped_names = {propid: column_mapping.column for propid, column_mapping in mapped.columns.items()}
    by_lower = {name.strip().lower(): name for name in names}
    columns = {}
    for propid, column_name in mapped_names.items():
        name = by_lower.get(column_name.lower())
        if name is None:
            raise ConfigError(
                f"{files.path} has no column {column_name}, which the mapping names for {propid}; it has "
                f"{', '.join(names) or 'none'}"
            )
        columns[propid] = name
    used_names = set(columns.values())
    rest = find_known_columns(files, [name for name in names if name not in used_names])
    columns.update({propid: name for propid, name in rest.items() if propid not in mapped_names})
    if files.table.key not in columns and names:
        raise ConfigError(
            f"{files.path} has no column {files.table.key}, which holds the GUIDs of the objects; it has "
            f"{', '.join(names)}: name it in a --mapping file if it is called otherwise"
        )
    return columns


def _read_header(file: Path, form: str, encoding: str, bcp: tuple[str, ...]) -> CsvHeader:
    """Return the names of the columns of a file, and the separator of CSV."""
    try:
        match form:
            case "parquet":
                return CsvHeader(tuple(pq.read_schema(file).names))
            case "csv":
                with open_text(file, encoding) as (octets, codec):
                    if bcp:
                        return CsvHeader(bcp, TAB if TAB.encode() in octets.readline(BLOCK_BYTES) else ",")
                    # cells are decoded strictly, each by itself, when they are read
                    with io.TextIOWrapper(octets, encoding=codec, errors="replace", newline="") as lines:
                        return read_csv_header(lines)
            case _:
                return CsvHeader(_read_json_names(file, encoding))
    except (OSError, csv.Error, pa.ArrowException) as error:
        raise ConfigError(f"{file} cannot be read as {form}: {error}") from error


def _read_json_names(file: Path, encoding: str) -> tuple[str, ...]:
    names: dict[str, None] = {}
    with open_text(file, encoding) as (lines, codec):
        # a part of a line that is too long is no object: the reader of the rows reports it
        for line in iter(lambda: lines.readline(LINE_BYTES_MAX), b""):
            row = _parse_object(line, codec)
            if isinstance(row, dict):
                names.update(dict.fromkeys(row))
    return tuple(names)


def _split_into_parts(files: TableFiles, file: Path, columns: Mapping[str, str]) -> Iterator[SourceFile]:
    """Divide a Parquet file between row groups.

    Text cannot be divided before it is read.
    """
    name = files.table.name
    if files.form != "parquet":
        yield SourceFile(name, file, files.form, columns, label=file.name)
        return
    metadata = pq.read_metadata(file)
    if not metadata.num_row_groups:  # a table without rows has columns all the same
        yield SourceFile(name, file, files.form, columns, groups=(), label=file.name)
    groups: list[int] = []
    rows = before = 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        rows += metadata.row_group(number).num_rows
        if rows >= _ROW_GROUP_ROWS or number == metadata.num_row_groups - 1:
            yield SourceFile(name, file, files.form, columns, before, tuple(groups), file.name)
            before, rows, groups = before + rows, 0, []


# -- reading, in workers


def read_rows(part: SourceFile, mapping: SourceMapping) -> Iterator[SourceRow]:
    """Read the rows of a file, or of a part of a Parquet file.

    Raises:
        ConfigError: the file cannot be read at all.
    """
    if part.form not in FORMS:
        raise ConfigError(f"{part.path}: no form of tables")
    table = MQIS_TABLES[part.table]
    mapped = mapping.look_up_table(table)
    makers: dict[str, tuple[str, CellMaker]] = {}
    for name, propid in part.columns.items():
        column, column_mapping = table.column(propid), mapped.columns.get(propid)
        page = (
            mapping.encoding
            if column_mapping is None or column_mapping.code_page is None
            else column_mapping.code_page
        )
        order = "windows" if column_mapping is None else column_mapping.guid_bytes
        maker = (
            build_text_maker(column)
            if part.form == "jsonl"
            else build_bcp_maker(column, guid_bytes=order)
            if part.bcp
            else build_cell_maker(column, code_page=page, guid_bytes=order)
        )
        makers[name] = (propid, maker)
    try:
        match part.form:
            case "parquet":
                yield from _read_parquet_rows(part, makers)
            case "csv":
                yield from _read_csv_rows(part, mapping.encoding, makers)
            case _:
                yield from _read_json_rows(part, mapping.encoding, makers)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{part.path} cannot be read: {error}") from error


def _make_row(number: int, values: Mapping[str, Any], makers: Makers) -> SourceRow:
    cells: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, value in values.items():
        entry = makers.get(name)
        if entry is None or value is None:
            continue
        propid, maker = entry
        try:
            cell = maker(value)
        except UnicodeDecodeError as error:
            problems[propid] = f"its bytes are no text of code page {error.encoding}: {error.reason}"
            cells[propid] = value.hex() if isinstance(value, bytes) else str(value)
            continue
        if cell is not None and not cell.isascii() and _SURROGATE.search(cell):
            problems[propid] = "it contains half of a surrogate pair"
            cell = cell.encode("utf-8", "backslashreplace").decode("utf-8")
        if cell is not None:
            cells[propid] = cell
    return SourceRow(number, cells, problems)


def _read_parquet_rows(part: SourceFile, makers: Makers) -> Iterator[SourceRow]:
    number = part.before
    with pq.ParquetFile(part.path) as file:
        batches = file.iter_batches(batch_size=BATCH_ROWS, row_groups=part.groups, columns=list(makers))
        for batch in batches:
            for values in _convert_to_seconds(batch).to_pylist():
                number += 1
                yield _make_row(number, values, makers)


def _convert_to_seconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert times to seconds since 1970.

    Python has no year 0, and one such value would stop the read.
    """
    arrays = []
    for column in batch.columns:
        if pa.types.is_timestamp(column.type):
            per_second = _UNITS[column.type.unit]
            whole = column.cast(pa.int64())
            down = pc.less(whole, 0).cast(pa.int64())  # `divide` rounds towards 0: upwards before 1970
            arrays.append(pc.subtract(pc.divide(pc.add(whole, down), per_second), down))
        elif pa.types.is_date(column.type):
            days = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
            arrays.append(pc.multiply(days, _DAY_S))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _read_csv_rows(part: SourceFile, encoding: str, makers: Makers) -> Iterator[SourceRow]:
    """Read rows of CSV: an empty field is NULL.

    Two quotes are an empty text ([RFC4180]). A row whose quotation marks are wrong is not read.
    """
    first = 0 if part.bcp else 1  # its row 1 may be the header
    broken: dict[int, str] = {}

    def invalid(row: pcsv.InvalidRow) -> str:
        message = f"{row.actual_columns} values where {row.expected_columns} are expected"
        broken[row.number - first] = f"{message}: {(row.text or '')[:SHOWN_CHARS_MAX]}"
        return "skip"

    misquoted = set() if part.bcp else _find_misquoted(part, encoding)
    # read as Latin-1, which has a letter for each octet, so that each cell is decoded by itself
    with open_text(part.path, encoding) as (file, codec):
        if part.bcp and not cast(io.BufferedReader, file).peek(1):
            return  # bcp writes nothing for a table without rows
        named = {_as_latin(name, codec): propid for name, propid in part.columns.items()}
        reader = pcsv.open_csv(
            file,
            read_options=pcsv.ReadOptions(
                encoding="latin-1",
                use_threads=False,
                block_size=BLOCK_BYTES,
                column_names=[_as_latin(name, codec) for name in part.bcp] or None,
            ),
            parse_options=pcsv.ParseOptions(
                delimiter=part.separator,
                quote_char=False if part.bcp else '"',
                newlines_in_values=not part.bcp,
                invalid_row_handler=invalid,
            ),
            convert_options=pcsv.ConvertOptions(
                column_types=dict.fromkeys(named, pa.binary()),
                include_columns=list(named),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        number = 1
        for batch in reader:  # the broken rows before its last one are known by now
            for values in batch.to_pylist():
                while number in broken:
                    yield SourceRow(number, {}, {ROW: broken[number]})
                    number += 1
                if number in misquoted:
                    yield SourceRow(number, {}, {ROW: MISQUOTED})
                else:
                    row = _make_text_row(
                        number, {named[name]: value for name, value in values.items()}, codec
                    )
                    yield _make_bcp_row(row, makers) if part.bcp else row
                number += 1
    for last in sorted(row_number for row_number in broken if row_number >= number):
        yield SourceRow(last, {}, {ROW: broken[last]})


def _find_misquoted(part: SourceFile, encoding: str) -> set[int]:
    """Return the numbers of rows whose values Arrow would change (`misquoted_rows`)."""
    with open_text(part.path, encoding) as (file, _):
        return set(find_misquoted_rows(file, part.separator))


def _as_latin(name: str, encoding: str) -> str:
    return name.encode(encoding, "replace").decode("latin-1")


def _make_text_row(number: int, values: Mapping[str, bytes | None], encoding: str) -> SourceRow:
    cells: dict[str, str] = {}
    problems: dict[str, str] = {}
    for propid, value in values.items():
        if value is None:
            continue
        if value.isascii():
            cells[propid] = value.decode("ascii")
            continue
        octets = value.decode("utf-8").encode("latin-1")
        try:
            cells[propid] = octets.decode(encoding, "strict")
        except UnicodeDecodeError as error:
            problems[propid] = f"its bytes are no text of code page {encoding}: {error.reason}"
            cells[propid] = octets.hex()
    return SourceRow(number, cells, problems)


def _make_bcp_row(row: SourceRow, makers: Makers) -> SourceRow:
    """Return a row with the cells that bcp's text stands for."""
    by_propid = dict(makers.values())
    cells = {
        propid: cell if propid in row.problems else by_propid[propid](cell) or ""
        for propid, cell in row.cells.items()
    }
    return replace(row, cells=cells)


def _read_json_rows(part: SourceFile, encoding: str, makers: Makers) -> Iterator[SourceRow]:
    with open_text(part.path, encoding) as (lines, codec):
        for number, line in enumerate(iter(lambda: lines.readline(LINE_BYTES_MAX), b""), 1):
            row = _parse_object(line, codec)
            if isinstance(row, dict):
                yield _make_row(number, row, makers)
            elif row:
                yield SourceRow(number, {}, {ROW: row})


def _parse_object(line: bytes, encoding: str) -> dict[str, Any] | str:
    """Return the object of a line of JSON, or a message about the error.

    The message is "" for an empty line.
    """
    try:
        text = line.decode(encoding, "strict").removeprefix("\ufeff").strip()
        value = json.loads(text) if text else None
    except UnicodeDecodeError as error:
        return f"its bytes are no text of code page {encoding}: {error.reason}"
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    if value is None and not text:
        return ""
    return value if isinstance(value, dict) else "no JSON object"
