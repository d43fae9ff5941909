"""Files of an inventory, for programs and spreadsheets.

The files are complete, and written as the inventory is read.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mqdssm.events.durable_files import make_empty_folder, write_atomically
from mqdssm.model.safe_text import escape_json, format_csv_cell, make_visible
from mqdssm.pipeline.inventory.collect import RECORDS, Inventory, Record

_BYTE_ORDER_MARK: Final = "\ufeff"
_FORMULA: Final = re.compile(r"[=+\-@\t\r]")


Tables: TypeAlias = Mapping[str, Callable[[], Iterable[Record]]]
"""Lists of records, by the name of their records."""
TABLES: Final[Mapping[str, Callable[[Inventory], Iterable[Record]]]] = MappingProxyType(
    {
        "site": Inventory.list_sites,
        "machine": Inventory.list_machines,
        "queue": Inventory.list_queues,
        "account": Inventory.list_people,
        "problem": lambda inventory: map(dataclasses.asdict, inventory.problems),
    }
)
"""Lists of an inventory, by the name of their records."""


def tables_of(inventory: Inventory) -> Tables:
    """Return the lists of an inventory, with states of machines if there are any."""
    tables: dict[str, Callable[[], Iterable[Record]]] = {
        name: partial(records, inventory) for name, records in TABLES.items()
    }
    if inventory.states is not None:
        tables |= {
            "machine-state": inventory.states.list_machines,
            "queue-state": inventory.states.list_queues,
        }
    return tables


def format_json_lines(inventory: Inventory) -> Iterator[str]:
    """Yield all records as lines of JSON; ``record`` is the kind of each."""
    head = {"record": "inventory", "source": inventory.source, "taken": inventory.taken}
    head |= {"engine": inventory.engine, "objects": dict(inventory.counts)}
    head |= {"not_looked_for": dict(inventory.not_looked_for), "unreadable": dict(inventory.unreadable)}
    if inventory.states is not None:
        head |= {"added": inventory.states.files, "machine_states": dict(inventory.states.counts)}
        head |= {"not_added": {problem.file: problem.problem for problem in inventory.states.problems}}
    yield format_json_line(head)
    yield from record_lines(tables_of(inventory))


def record_lines(tables: Tables) -> Iterator[str]:
    """Yield the records of lists as lines of JSON."""
    for name, records in tables.items():
        for record in records():
            yield format_json_line({"record": name, **record})


def check_folder(folder: Path) -> None:
    """Check that a folder is empty, and create it if it does not exist.

    Raises:
        ConfigError: it has files in it, or cannot be made.
    """
    make_empty_folder(folder, "name a new folder for the inventory")


def write_csv(inventory: Inventory, folder: Path) -> list[Path]:
    """Write a CSV file for each kind of record.

    The file is in UTF-8 with a byte order mark for spreadsheets.
    Only this user can read the files, as the page of an inventory: they say who may do what.

    Returns:
        The files.

    Raises:
        ConfigError: the folder is not empty, or a file cannot be written.
    """
    return write_tables(folder, tables_of(inventory), RECORDS)


def write_tables(folder: Path, tables: Tables, columns: Mapping[str, Sequence[str]]) -> list[Path]:
    """Write a CSV file for each list of records, in the form of `write_csv`.

    Args:
        folder: empty, or not there yet.
        tables: the lists, by the name of their records.
        columns: of each list.

    Raises:
        ConfigError: the folder is not empty, or a file cannot be written.
    """
    check_folder(folder)
    written = []
    for name, records in tables.items():
        path = folder / f"{name}s.csv"
        write_atomically(path, format_csv_lines(columns[name], records()))
        written.append(path)
    return written


def format_csv_lines(columns: Sequence[str], records: Iterable[Record]) -> Iterator[str]:
    """Yield the lines of a CSV file for spreadsheets."""
    yield _BYTE_ORDER_MARK + _format_csv_line(columns)
    for record in records:
        yield _format_csv_line(format_cell(record.get(column)) for column in columns)


def _format_csv_line(cells: Iterable[str]) -> str:
    return ",".join(map(format_csv_cell, cells)) + "\r\n"


def format_cell(value: Any) -> str:
    """Return a value as a cell of a spreadsheet.

    Texts that look like formulas get an apostrophe.
    """
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return format_text_cell("; ".join(map(str, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return time_of(value)
    return str(value) if isinstance(value, int) else format_text_cell(str(value))


def format_text_cell(text: str) -> str:
    """Return a text in one line that no spreadsheet evaluates.

    Invisible characters are escaped.
    """
    cell = make_visible(text)
    return f"'{cell}" if _FORMULA.match(text) else cell


def time_of(value: datetime) -> str:
    """Return a time in UTC, in the format of ISO 8601."""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def format_json_line(record: Record) -> str:
    """Return a record as a line of JSON."""
    return escape_json(json.dumps(record, ensure_ascii=False, default=_format_plain)) + "\n"


def _format_plain(value: Any) -> str:
    return time_of(value) if isinstance(value, datetime) else str(value)
