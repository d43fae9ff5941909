"""The files of MQIS tables: which there are, and what they hold, cell by cell as it is written."""

import csv
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mqdssm.errors import ConfigError
from mqdssm.model.propids import PREFIX
from mqdssm.spark.manifest import MANIFEST_NAME
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn, MqisTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

FORMS: Final = ("parquet", "csv", "jsonl")
BROKEN: Final = "__broken"
"""Column with the text of a line that could not be taken apart."""
HEADER_CHARS_MAX: Final = 1 << 20
"""Of the line with the names of columns: a thousand of them take some ten thousand."""
SMALL_BYTES_MAX: Final = 50_000_000
_EMPTY: Final = "\ue000"  # no text holds it (private use); Spark cannot tell an empty text from NULL itself
_CLOSE: Final = 0.8
"""How much of a name must be that of a table: ``Machines``, ``Queus``."""
_BY_NAME: Final = {name.lower(): table for name, table in MQIS_TABLES.items()}
_EXPECTED: Final = (
    f"expected are {', '.join(f'{name}.{FORMS[0]}' for name in MQIS_TABLES)} (or .csv, .jsonl, or folders of "
    "such parts)"
)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one table.

    Attributes:
        table: which one.
        form: parquet, csv or jsonl.
        path: the file, or the folder of its parts.
        files: all of them.
    """

    table: MqisTable
    form: str
    path: Path
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class RawTable:
    """What a table holds, nothing decoded.

    Attributes:
        table: which one.
        frame: its cells; columns are called as the table calls them, others are left out.
        columns: those that are there.
        others: names of columns that MQIS does not have, which are left out.
    """

    table: MqisTable
    frame: "DataFrame"
    columns: tuple[MqisColumn, ...]
    others: tuple[str, ...]


def find_tables(folder: Path) -> dict[str, TableFiles]:
    """Find the tables in a folder, in the order of `MQIS_TABLES`.

    A table is a file ``Queue.parquet``, ``Queue.csv`` or ``Queue.jsonl``, or a folder of that name, with or
    without the ending, that holds parts of one form. Upper and lower case are the same.

    Raises:
        ConfigError: there is no such folder, no table in it, or two that are one table.
    """
    return find_named(folder, _BY_NAME)


def find_named(folder: Path, names: Mapping[str, MqisTable]) -> dict[str, TableFiles]:
    """Find the tables in a folder as `find_tables`, by names of their own in lower case.

    Raises:
        ConfigError: as `find_tables`.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder of MQIS tables: {_EXPECTED}")
    if (folder / MANIFEST_NAME).is_file():
        raise ConfigError(f"{folder} is an export, not MQIS tables: name it without --mqis")
    found: dict[str, TableFiles] = {}
    for path in sorted(folder.iterdir()):
        table = _table_of(path, names)
        if table is None:
            continue
        if table.name in found:
            raise ConfigError(
                f"{folder} holds table {table.name} twice: {found[table.name].path.name} and {path.name}"
            )
        found[table.name] = _files_of(table, path)
    if not found:
        raise ConfigError(f"{folder} holds no table of MQIS: {_EXPECTED}")
    missing = {name: table for name, table in names.items() if table.name not in found}
    _refuse_misspelt(not_read(folder, names), missing)
    return {name: found[name] for name in MQIS_TABLES if name in found}


def not_read(folder: Path, names: Mapping[str, MqisTable] = _BY_NAME) -> list[Path]:
    """What a folder holds beside its tables.

    Args:
        folder: that `find_named` has found tables in.
        names: what its tables are called, in lower case.
    """
    seen = (path for path in sorted(folder.iterdir()) if path.name[0] not in "._")
    return [path for path in seen if _table_of(path, names) is None]


def _table_of(path: Path, names: Mapping[str, MqisTable]) -> MqisTable | None:
    """The table that a file or folder holds, by its name."""
    stem, _, ending = path.name.partition(".")
    if (ending and ending.lower() not in FORMS) or (path.is_file() and not ending):
        return None
    return names.get(stem.lower())


def _refuse_misspelt(others: Sequence[Path], missing: Mapping[str, MqisTable]) -> None:
    """Refuse what was most likely meant as a table: to leave it out would lose what it holds.

    Raises:
        ConfigError: it is called nearly as a table that is not there.
    """
    for path in others:
        close = get_close_matches(path.name.partition(".")[0].lower(), missing, 1, _CLOSE)
        if close:
            table = missing[close[0]].name
            wanted = table if close[0] in _BY_NAME else close[0]
            raise ConfigError(
                f"{path} is no table of MQIS, and there is no {table}: "
                f"call it {wanted}.{' or .'.join(FORMS)} if it is that, or move it elsewhere"
            )


def _files_of(table: MqisTable, path: Path) -> TableFiles:
    if path.is_file():
        return TableFiles(table, path.suffix[1:].lower(), path, (path,))
    parts = tuple(part for part in sorted(path.iterdir()) if part.name[0] not in "._")
    for part in parts:
        if not part.is_file():
            raise ConfigError(f"{part} is a folder: parts of table {table.name} must lie in {path} itself")
    forms = {part.suffix[1:].lower() for part in parts}
    if len(forms) != 1 or not forms <= set(FORMS):
        shown = ", ".join(sorted(forms)) or "nothing"
        raise ConfigError(f"{path} must hold parts of one form ({', '.join(FORMS)}), it holds {shown}")
    return TableFiles(table, forms.pop(), path, parts)


def read_table(spark: "SparkSession", files: TableFiles) -> RawTable:
    """Read a table without decoding anything.

    Raises:
        ConfigError: it lacks the column of the objects' GUIDs, has a property that MQIS does not know, or
            its parts differ.
    """
    if files.form == "parquet":
        for file in files.files:
            _check_parquet(file)
        frame = spark.read.parquet(*map(str, files.files))
    elif files.form == "csv":
        frame = _read_csv(spark, files)
    else:
        frame = _read_lines(spark, files)
    return _named(files, frame)


def _check_parquet(file: Path) -> None:
    """Refuse what is no whole Parquet file.

    Raises:
        ConfigError: such a file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{file} is no Parquet file, or not a whole one: {error}") from error


def is_small(folder: Path) -> bool:
    """Tell whether the tables of a folder are so small that starting Spark is most of the work.

    Raises:
        ConfigError: as `find_tables`.
    """
    files = (file for table in find_tables(folder).values() for file in table.files)
    return sum(file.stat().st_size for file in files) < SMALL_BYTES_MAX


def _read_csv(spark: "SparkSession", files: TableFiles) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    headers = {_header(file) for file in files.files}
    if len(headers) != 1:
        raise ConfigError(f"the parts of {files.path} have different columns")
    # a line end within quotes belongs to its value; nothing at all is NULL, two quotes are an empty text
    frame = (
        spark.read.schema(_texts(headers.pop()))
        .options(header=True, multiLine=True, quote='"', escape='"', nullValue="", emptyValue=_EMPTY)
        .options(mode="PERMISSIVE", columnNameOfCorruptRecord=BROKEN, encoding="UTF-8")
        .csv([str(file) for file in files.files])
    )
    cells = ((name, F.col(_quoted(name))) for name in frame.columns)
    return frame.select(*(F.when(cell == _EMPTY, "").otherwise(cell).alias(name) for name, cell in cells))


def _header(file: Path) -> tuple[str, ...]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return csv_header(lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{file} cannot be read as CSV: {error}") from error


def csv_header(lines: TextIO) -> tuple[str, ...]:
    """Return the names in the first line of a CSV file; of a file without line ends no more is read.

    Raises:
        csv.Error: the line is no CSV, or longer than `HEADER_CHARS_MAX`.
    """
    return tuple(next(csv.reader(_bounded(lines)), ()))


def _bounded(lines: TextIO) -> Iterator[str]:
    room = HEADER_CHARS_MAX
    while line := lines.readline(room + 1):
        room -= len(line)
        if room < 0:
            raise csv.Error(f"the names of its columns have more than {HEADER_CHARS_MAX:,} characters")
        yield line


def _read_lines(spark: "SparkSession", files: TableFiles) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    paths = [str(file) for file in files.files]
    # all lines are asked for their keys: one that comes late would be lost otherwise
    keys = spark.read.text(paths).select(F.explode(F.json_object_keys("value")).alias("key")).distinct()
    names = sorted(str(row["key"]) for row in keys.collect())
    return (
        spark.read.schema(_texts(names))
        .options(mode="PERMISSIVE", columnNameOfCorruptRecord=BROKEN)
        .json(paths)
    )


def _texts(names: Sequence[str]) -> str:
    quoted = ("`" + name.replace("`", "``") + "` string" for name in (*names, BROKEN))
    return ", ".join(quoted)


def _named(files: TableFiles, frame: "DataFrame") -> RawTable:
    """Call columns as the table does."""
    from pyspark.sql import functions as F  # noqa: N812

    known = known_columns(files, [name for name in frame.columns if name != BROKEN])
    if files.table.key not in known:
        raise ConfigError(
            f"{files.path} has no column {files.table.key}, which holds the GUIDs of the objects; it has "
            f"{', '.join(frame.columns) or 'none'}"
        )
    columns = tuple(column for column in files.table.columns if column.name in known)
    picked = [F.col(_quoted(known[column.name])).alias(column.name) for column in columns]
    if BROKEN in frame.columns:
        picked.append(F.col(BROKEN))
    left_out = tuple(name for name in frame.columns if name not in known.values() and name != BROKEN)
    if left_out:
        log.warning("%s: columns that MQIS does not have are left out: %s", files.path, ", ".join(left_out))
    return RawTable(files.table, frame.select(*picked), columns, left_out)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def known_columns(files: TableFiles, names: Sequence[str]) -> Mapping[str, str]:
    """The table's names of columns, and how they are written in the file.

    Raises:
        ConfigError: a column is there twice, or one like a property's that the table has not.
    """
    of_table = {column.name for column in files.table.columns}
    known: dict[str, str] = {}
    for name in names:
        wanted = name.strip().upper()
        if wanted in known:
            raise ConfigError(f"{files.path} has column {wanted} twice: {known[wanted]} and {name}")
        if wanted in of_table:
            known[wanted] = name
        elif wanted.startswith(PREFIX):
            # most likely misspelt: to leave it out would lose what it holds
            close = get_close_matches(wanted, of_table, 1)
            hint = f": did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{files.path} has column {name}, which table {files.table.name} has not{hint}")
    return known
