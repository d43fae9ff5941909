"""Files of a planning task: operations, rejects, conflicts and others.

The others are equal objects and values left out.

Results of all tasks of a planning, added up for the plan.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.plan_file import (
    CONFLICTS_NAME,
    EQUAL_NAME,
    LEVELS,
    NOT_CARRIED_NAME,
    OPERATIONS_NAME,
    REJECTS_NAME,
    SIDS_NAME,
    SOURCE_NAME,
    Level,
    OperationsFile,
    PlanAction,
    PlanFile,
    PlanOperation,
    TableCounts,
    make_row_id,
)
from mqdssm.pipeline.migrate.rows import Reason
from mqdssm.pipeline.migrate.staging import StagedRow
from mqdssm.tables.mqis import MQIS_TABLES
from mqdssm.wire.dtyp import SecurityDescriptor

WORK_NAME: Final = ".planning"
"""Folder of the files of tasks, before `put_together` merges them."""
NOT_CARRIED: Final = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("file_row", pa.int64()),
        pa.field("guid", pa.string()),
        pa.field("column", pa.string()),
        pa.field("value", pa.string()),
    ]
)
"""Columns of the side files: a row for each value that no directory keeps."""
BATCH_ROWS: Final = 5_000


@dataclass(slots=True)
class TaskResult:
    """Result of a planning task, for the driver.

    Attributes:
        table: of its rows.
        counts: what became of the rows, by the names of `TableCounts`.
        operations: ``role action`` -> how many.
        not_carried: column -> how many rows.
        unmapped: (SID, where) -> how often.
        refused: GUIDs of objects that other rows cannot depend on: their rows were rejected or conflict.
        levels: files of operations by level.
        equal: files of equal objects.
    """

    table: str
    counts: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    not_carried: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    levels: list[tuple[int, PlanFile]] = field(default_factory=list)
    equal: list[PlanFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class OutcomeWriter:
    """Writes the outcome of one staged file.

    Args:
        folder: of the plan.
        table: of the rows.
        number: of the staged file among all: no other task writes files with it.

    Attributes:
        done: the result, for the driver.
    """

    def __init__(self, folder: Path, table: str, number: int) -> None:
        self._folder = folder
        self._table = table
        self._number = number
        self._files: dict[int, OperationsFile] = {}
        self._texts: dict[str, IO[str]] = {}
        self._lost: list[dict[str, Any]] = []
        self._side: pq.ParquetWriter | None = None
        self.done = TaskResult(table)

    def write_operation(self, level: int, operation: PlanOperation) -> None:
        """Write an operation, or an object that is equal."""
        number = 0 if operation.action == PlanAction.EQUAL else level
        file = self._files.get(number)
        if file is None:
            place = f"{OPERATIONS_NAME}/{LEVELS[number]}" if number else EQUAL_NAME
            path = self._folder / place / f"part-{self._number:05d}.parquet"
            file = self._files[number] = OperationsFile(path, make_row_id(number, self._number, 0))
        file.write(operation)
        self.done.operations[f"{operation.role} {operation.action}"] += 1

    def reject(self, row: StagedRow, guid: str | None, reasons: Sequence[Reason]) -> None:
        """Write a rejected row, with all its reasons and values."""
        self._write_line(
            REJECTS_NAME,
            {
                "table": self._table,
                **row.place,
                "guid": guid,
                "attribute": reasons[0].attribute,
                "reason": _join_reasons(reasons),
                "values": dict(row.cells),
            },
        )
        self.done.counts["rejected"] += 1
        if guid is not None:
            self.done.refused.append(guid)

    def write_conflict(self, row: StagedRow, **fields: Any) -> None:
        """Write down how an object in the target differs from a row."""
        self._write_line(CONFLICTS_NAME, {"table": self._table, **row.place, **fields})

    def write_lost_cells(self, row: StagedRow, guid: str | None, cells: Mapping[str, str]) -> None:
        """Write the cells that no directory can hold to the side file."""
        for column, value in cells.items():
            self._lost.append({**row.place, "guid": guid, "column": column, "value": value})
            self.done.not_carried[column] += 1
        if len(self._lost) >= BATCH_ROWS:
            self._flush_lost()

    def close(self) -> TaskResult:
        """Complete all files, and return the result."""
        for number, file in sorted(self._files.items()):
            file.close()
            path = file.path.relative_to(self._folder).as_posix()
            plan_file = PlanFile(path=path, rows=file.rows, sha256=hash_file(file.path))
            if number:
                self.done.levels.append((number, plan_file))
            else:
                self.done.equal.append(plan_file)
        for text in self._texts.values():
            text.close()
        self._flush_lost()
        if self._side is not None:
            self._side.close()
        return self.done

    def abandon(self) -> None:
        """Abandon all files: the next attempt writes them anew."""
        for file in self._files.values():
            file.abandon()
        for text in self._texts.values():
            text.close()
        if self._side is not None:
            self._side.close()

    def _write_line(self, name: str, document: Mapping[str, Any]) -> None:
        file = self._texts.get(name)
        if file is None:
            path = self._folder / WORK_NAME / name / f"{self._table}-{self._number:05d}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._texts[name] = path.open(
                "w", encoding="utf-8", errors="backslashreplace", newline="\n"
            )
        file.write(json.dumps(document, ensure_ascii=False) + "\n")

    def _flush_lost(self) -> None:
        rows, self._lost = self._lost, []
        if not rows:
            return
        if self._side is None:
            path = self._folder / NOT_CARRIED_NAME / self._table / f"part-{self._number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._side = pq.ParquetWriter(path, NOT_CARRIED, compression="zstd")
        self._side.write_table(pa.Table.from_pylist(rows, schema=NOT_CARRIED))


def _join_reasons(reasons: Sequence[Reason]) -> str:
    if len(reasons) == 1:
        return reasons[0].words
    return "; ".join(
        f"{reason.attribute}: {reason.words}" if reason.attribute else reason.words for reason in reasons
    )


def put_together(folder: Path) -> None:
    """Merge the files of tasks.

    There is one file of rejects for each table, and one file of all conflicts.
    """
    work = folder / WORK_NAME
    groups: dict[Path, list[Path]] = {}
    for path in sorted((work / REJECTS_NAME).glob("*.jsonl")):
        table = path.stem.rpartition("-")[0]
        groups.setdefault(folder / REJECTS_NAME / f"{table}.jsonl", []).append(path)
    for path in sorted((work / CONFLICTS_NAME).glob("*.jsonl")):
        groups.setdefault(folder / CONFLICTS_NAME, []).append(path)
    for target, parts in groups.items():
        target.parent.mkdir(exist_ok=True)
        with target.open("wb") as file:
            for part in parts:
                file.write(part.read_bytes())


def display_values(attribute: str, values: Sequence[bytes]) -> list[str]:
    """Return values for people: text, SDDL or hexadecimal.

    Printable values are text, descriptors are in SDDL.
    """
    return [_format_value(attribute, value) for value in values]


def _format_value(attribute: str, value: bytes) -> str:
    if attribute.lower() == "ntsecuritydescriptor":
        try:
            return SecurityDescriptor.from_bytes(value).to_sddl()
        except ValueError:
            return value.hex()
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return value.hex()
    return text if text.isprintable() else value.hex()


_COUNTS: Final = ("read", "add", "modify", "equal", "skipped", "conflicts", "rejected")


@dataclass(slots=True)
class PlanSummary:
    """Results of planning tasks, added up.

    Attributes:
        refused: GUIDs of objects that other rows cannot depend on: their rows were rejected or conflict.
    """

    refused: set[UUID] = field(default_factory=set)
    _done: list[TaskResult] = field(default_factory=list)

    def add(self, results: Iterable[TaskResult]) -> None:
        """Add the results of tasks."""
        for result in results:
            self._done.append(result)
            self.refused |= {UUID(guid) for guid in result.refused}

    @property
    def stopped(self) -> int:
        """Number of rows with a conflict that prevents the plan from being applied."""
        return sum(result.counts["stopped"] for result in self._done)

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations, by ``role action``."""
        sums: Counter[str] = Counter()
        for result in self._done:
            sums.update(result.operations)
        return dict(sorted(sums.items()))

    @property
    def unmapped(self) -> Counter[tuple[str, str]]:
        """Number of occurrences of SIDs that the map lacks, by (SID, where)."""
        sums: Counter[tuple[str, str]] = Counter()
        for result in self._done:
            sums.update(result.unmapped)
        return sums

    @property
    def equal(self) -> tuple[PlanFile, ...]:
        """Files of equal objects."""
        return _by_path(file for result in self._done for file in result.equal)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels with their files of operations."""
        files: dict[int, list[PlanFile]] = {}
        for result in self._done:
            for number, file in result.levels:
                files.setdefault(number, []).append(file)
        return tuple(
            Level(number=number, name=LEVELS[number], files=_by_path(files[number]))
            for number in sorted(files)
        )

    def count_tables(self, folder: Path) -> dict[str, TableCounts]:
        """Return the counts of each table that the source has."""
        table_counts = {}
        for name, table in MQIS_TABLES.items():
            if not (folder / SOURCE_NAME / name).is_dir():
                continue
            counts: Counter[str] = Counter()
            lost: Counter[str] = Counter()
            for result in self._done:
                if result.table == name:
                    counts.update(result.counts)
                    lost.update(result.not_carried)
            table_counts[name] = TableCounts(
                type=table.type_name,
                not_carried=dict(sorted(lost.items())),
                **{count_name: counts[count_name] for count_name in _COUNTS},
            )
        return table_counts


def _by_path(files: Iterable[PlanFile]) -> tuple[PlanFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))


def write_sids(folder: Path, unmapped: Mapping[tuple[str, str], int], existing_sids: Collection[str]) -> int:
    """Write the list of SIDs that are neither mapped nor known to the target.

    Args:
        folder: of the plan.
        unmapped: (SID, where) -> how often.
        existing_sids: SIDs that the target knows.

    Returns:
        The number of these SIDs.
    """
    counts_by_sid: dict[str, dict[str, int]] = {}
    for (sid, where), count in sorted(unmapped.items()):
        if sid not in existing_sids:
            counts_by_sid.setdefault(sid, {})[where] = count
    counted = sorted(
        ((sum(where.values()), sid) for sid, where in counts_by_sid.items()),
        key=lambda pair: (-pair[0], pair),
    )
    listed = [{"sid": sid, "count": count, "where": counts_by_sid[sid]} for count, sid in counted]
    (folder / SIDS_NAME).write_text(json.dumps(listed, indent=2) + "\n", encoding="ascii")
    return len(listed)
