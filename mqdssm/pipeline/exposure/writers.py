"""JSON lines and CSV files of an exposure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mqdssm.pipeline.exposure.assessment import MACHINE_RECORD, QUEUE_RECORD, Exposure, Record
from mqdssm.pipeline.exposure.rules import SCORE_MAX, SCORE_RULES, ScoreRule
from mqdssm.pipeline.exposure.windows_lifecycle import TABLE_DATE
from mqdssm.pipeline.inventory.writers import format_json_line, record_lines, write_tables

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"machine": MACHINE_RECORD, "queue": QUEUE_RECORD, "rule": tuple(ScoreRule.__slots__)}
)


def list_rule_records() -> Iterator[Record]:
    """Yield the rules of the score."""
    return map(asdict, SCORE_RULES)


def format_json_lines(exposure: Exposure) -> Iterator[str]:
    """Yield all records as lines of JSON; ``record`` is the kind of each."""
    inventory = exposure.inventory
    yield format_json_line(
        {
            "record": "exposure",
            "source": inventory.source,
            "taken": inventory.taken,
            "engine": inventory.engine,
            "objects": dict(inventory.counts),
            "stale_days": exposure.stale_days,
            "lifecycle_table": TABLE_DATE.isoformat(),
            "score_max": SCORE_MAX,
            "highest": exposure.highest,
            "not_looked_for": dict(inventory.not_looked_for),
            "unreadable": dict(inventory.unreadable),
        }
    )
    yield from record_lines(_list_tables(exposure))


def write_csv(exposure: Exposure, folder: Path) -> list[Path]:
    """Write a CSV file for each kind of record; only this user can read the files.

    Returns:
        The files.

    Raises:
        ConfigError: the folder is not empty, or a file cannot be written.
    """
    tables = _list_tables(exposure) | {"machine": lambda: map(_flatten_record, exposure.machines())}
    return write_tables(folder, tables, _COLUMNS)


def _list_tables(exposure: Exposure) -> dict[str, Callable[[], Iterable[Record]]]:
    return {"machine": exposure.machines, "queue": exposure.queues, "rule": list_rule_records}


def _flatten_record(record: Record) -> Record:
    """Return a record of a machine with its findings as texts."""
    return record | {"Findings": [describe_finding(finding) for finding in record["Findings"]]}


def describe_finding(finding: Record) -> str:
    """Return a finding in words: its points, its rule and the number of its queues."""
    queues = f" ({finding['objects']} queues)" if finding["examples"] else ""
    return f"{finding['points']} {finding['rule']}{queues}"
