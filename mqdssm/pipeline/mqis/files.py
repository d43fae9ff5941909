"""Files of MQIS tables, and the names of their columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.model.propids import PREFIX
from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.manifest import MANIFEST_NAME
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

FORMS: Final = ("parquet", "csv", "jsonl")
_CLOSE: Final = 0.8
"""Similarity to the name of a table from which a name counts as misspelt: ``Machines``, ``Queus``."""
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
        files: all files of the table.
        database_table: name of the table that they are a copy of; None: they are the source.
    """

    table: MqisTable
    form: str
    path: Path
    files: tuple[Path, ...]
    database_table: str | None = None


def find_named(folder: Path, names: Mapping[str, MqisTable]) -> dict[str, TableFiles]:
    """Find the tables in a folder, in the order of `MQIS_TABLES`.

    A table is a file ``Queue.parquet``, ``Queue.csv`` or ``Queue.jsonl``, or a folder of that name, with or
    without the ending, that holds parts of one form. Upper and lower case are the same.

    Args:
        folder: folder to search.
        names: names of the tables in lower case.

    Raises:
        ConfigError: there is no such folder, no table in it, or two that are one table.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder of MQIS tables: {_EXPECTED}")
    if (folder / MANIFEST_NAME).is_file():
        raise ConfigError(f"{folder} is an export, not MQIS tables: name it without --mqis")
    tables: dict[str, TableFiles] = {}
    for path in sorted(folder.iterdir()):
        table = _table_of(path, names)
        if table is None:
            continue
        if table.name in tables:
            raise ConfigError(
                f"{folder} holds table {table.name} twice: {tables[table.name].path.name} and {path.name}"
            )
        tables[table.name] = _files_of(table, path)
    if not tables:
        raise ConfigError(f"{folder} holds no table of MQIS: {_EXPECTED}")
    missing = {name: table for name, table in names.items() if table.name not in tables}
    _refuse_misspelt(find_not_read(folder, names), missing)
    return {name: tables[name] for name in MQIS_TABLES if name in tables}


def find_not_read(folder: Path, names: Mapping[str, MqisTable]) -> list[Path]:
    """Return the files and folders that are no tables; hidden ones are left out.

    Args:
        folder: that `find_named` has found tables in.
        names: names of its tables in lower case.
    """
    seen = (path for path in sorted(folder.iterdir()) if path.name[0] not in "._")
    return [path for path in seen if _table_of(path, names) is None]


def _table_of(path: Path, names: Mapping[str, MqisTable]) -> MqisTable | None:
    """Return the table that a file or folder holds, by its name.

    Returns None if it holds none.
    """
    stem, _, ending = path.name.partition(".")
    if (ending and ending.lower() not in FORMS) or (path.is_file() and not ending):
        return None
    return names.get(stem.lower())


def _refuse_misspelt(paths: Sequence[Path], missing: Mapping[str, MqisTable]) -> None:
    """Refuse files and folders that are probably misspelt tables.

    The rows of such tables would be lost.

    Raises:
        ConfigError: a name is similar to that of a missing table.
    """
    for path in paths:
        close = get_close_matches(path.name.partition(".")[0].lower(), missing, 1, _CLOSE)
        if close:
            table = missing[close[0]].name
            expected = table if close[0] in _BY_NAME else close[0]
            raise ConfigError(
                f"{path} is no table of MQIS, and there is no {table}: "
                f"call it {expected}.{' or .'.join(FORMS)} if it is that, or move it elsewhere"
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
        form_list = ", ".join(sorted(forms)) or "nothing"
        raise ConfigError(f"{path} must hold parts of one form ({', '.join(FORMS)}), it holds {form_list}")
    return TableFiles(table, forms.pop(), path, parts)


def find_known_columns(files: TableFiles, names: Sequence[str]) -> Mapping[str, str]:
    """Return the table's names of columns -> their spelling in the file.

    Raises:
        ConfigError: a column is there twice, or is named as a property that the table has not.
    """
    of_table = {column.name for column in files.table.columns}
    by_name: dict[str, str] = {}
    for name in names:
        upper_name = name.strip().upper()
        if upper_name in by_name:
            raise ConfigError(f"{files.path} has column {upper_name} twice: {by_name[upper_name]} and {name}")
        if upper_name in of_table:
            by_name[upper_name] = name
        elif upper_name.startswith(PREFIX):
            # probably misspelt: its values would be lost
            hint = suggest_name(upper_name, of_table, otherwise="")
            raise ConfigError(f"{files.path} has column {name}, which table {files.table.name} has not{hint}")
    return by_name
