"""Document ``report.json``: results of a migration, counted for each table.

Rejected rows, values left out and DNs of objects, read from the folder of an applied plan.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import pyarrow.parquet as pq
from pydantic import AwareDatetime, Field

from mqdssm.model.dn import normalize
from mqdssm.pipeline.documents import Document, read_document, write_document, write_whole
from mqdssm.pipeline.migrate.plan_file import (
    NOT_CARRIED_NAME,
    REJECTS_NAME,
    EntryRole,
    MigrationPlan,
    read_operations,
)
from mqdssm.pipeline.migrate.staging import read_rows_at
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

if TYPE_CHECKING:
    from mqdssm.pipeline.migrate.apply_work import FileDone
    from mqdssm.pipeline.migrate.verification import FileVerification

REPORT_NAME: Final = "report.json"
REFUSED_NAME: Final = "applied.jsonl"
REPORT_VERSION: Final = 1
LISTED_MAX: Final = 1_000
"""Refusals and losses that the report lists one by one; it counts all of them."""


class TargetRefusal(Document):
    """Operation that the target refused.

    Attributes:
        table: of the source.
        row: its row there; 0 for an operation without a row.
        type: of the object.
        role: role of the entry: ``object``, or a companion.
        dn: in the target.
        attributes: the guilty ones, as far as they are known.
        code: result of the server.
        reason: in words.
    """

    table: str
    row: int
    type: str
    role: str
    dn: str
    attributes: tuple[str, ...] = ()
    code: int | None = None
    reason: str


class LostRow(Document):
    """Entry that is not in the target as it should be.

    Attributes:
        table: of the source.
        row: its row there.
        type: of the object.
        role: role of the entry: ``object``, or a companion.
        dn: DN that the entry should have.
        reason: in words.
        differs: attribute -> wanted and found values.
        was_equal: the plan had found it equal; not part of the document.
    """

    table: str
    row: int
    type: str
    role: str
    dn: str
    reason: str
    differs: Mapping[str, Mapping[str, Sequence[str]]] = {}
    was_equal: bool = Field(default=False, exclude=True)


class TableReport(Document):
    """Counts of the rows of a table, by result; they add up to `read`.

    Attributes:
        read: rows of the source.
        written: rows whose objects were made or changed, and are as they should be.
        equal: rows whose objects were so already.
        skipped: rows whose objects differ, and were left.
        rejected: rows that could not be carried over, or that the target refused.
        lost: rows whose objects are not as they should be, though nothing was refused.
        left: rows that were not tried, since there were too many errors.
    """

    read: int = 0
    written: int = 0
    equal: int = 0
    skipped: int = 0
    rejected: int = 0
    lost: int = 0
    left: int = 0


class MigrationReport(Document):
    """Results of a migration.

    Attributes:
        version: `REPORT_VERSION` of the program that wrote it.
        source: as in the plan.
        server: that it was written to.
        started: when it was applied, for the first time.
        ended: when it was done.
        resumed: how often it was broken off and went on.
        verified: everything was read back.
        stopped: why it stopped before the end; None: it did not.
        tables: what became of the rows.
        deleted: objects that were deleted.
        not_deleted: deletions that were refused or lost; they belong to no row.
        operations: ``role effect`` -> how many, as ``settings added``.
        refused_count: operations that the target refused, and references that could not be set.
        refused: the first of them.
        lost_count: entries that are not as they should be.
        lost: the first of them.
        not_carried: of each table, column -> rows whose value no directory keeps, as in the plan.
        guid_map: objects that did not keep their GUIDs; the map lists them.
        undo_records: operations that the undo file undoes.
        engine: ``local`` or ``spark``; empty in reports of earlier programs.
    """

    version: int = REPORT_VERSION
    source: str
    server: str
    started: AwareDatetime
    ended: AwareDatetime
    resumed: int
    verified: bool
    stopped: str | None = None
    tables: Mapping[str, TableReport]
    deleted: int = 0
    not_deleted: int = 0
    operations: Mapping[str, int]
    refused_count: int
    refused: tuple[TargetRefusal, ...]
    lost_count: int
    lost: tuple[LostRow, ...]
    not_carried: Mapping[str, Mapping[str, int]] = {}
    guid_map: int = 0
    undo_records: int = 0
    engine: str = ""

    @property
    def total(self) -> Counter[str]:
        """Sums over all tables."""
        sums: Counter[str] = Counter(dict.fromkeys(TableReport.model_fields, 0))
        for table in self.tables.values():
            sums.update(table.model_dump())
        return sums

    @property
    def is_fine(self) -> bool:
        """True if nothing was rejected, refused, lost or left untried."""
        total = self.total
        return not (
            self.stopped or self.refused_count or self.lost_count or total["rejected"] or total["left"]
        )

    @property
    def last_line(self) -> str:
        """Totals in one line, for people."""
        if not self.tables:  # a plan without a source, as for orphans
            words = [f"{self.deleted} deleted"]
            return ", ".join([*words, *([f"{self.not_deleted} not deleted"] if self.not_deleted else [])])
        total = self.total
        parts = [f"{total['read']} read", f"{total['written']} written", f"{total['equal']} equal"]
        parts += [f"{total[name]} {name}" for name in ("skipped", "left") if total[name]]
        parts += [f"{total['rejected']} rejected", f"{total['lost']} lost"]
        return ", ".join([*parts, *([f"{self.not_deleted} not deleted"] if self.not_deleted else [])])

    def write(self, folder: Path) -> None:
        """Write ``report.json`` atomically."""
        write_document(folder / REPORT_NAME, self)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the report in the folder of a plan.

        Raises:
            ConfigError: there is none, or one of another version.
        """
        return read_document(cls, folder / REPORT_NAME, other="is no report of this version of the program")


def write_refused(folder: Path, refused: Sequence[TargetRefusal]) -> None:
    """Write the refused operations to the folder of rejects.

    Each has its row of the source.
    A file of an earlier run is replaced, or removed if nothing was refused.
    """
    path = folder / REJECTS_NAME / REFUSED_NAME
    if not refused:
        path.unlink(missing_ok=True)
        return
    source = {
        (name, row.number): {"file": row.file, "file_row": row.row, "values": dict(row.cells)}
        for name, numbers in _list_rows(refused).items()
        for row in read_rows_at(folder, MQIS_TABLES[name], numbers)
    }
    lines = [
        operation.model_dump() | source.get((operation.table, operation.row), {}) for operation in refused
    ]
    path.parent.mkdir(exist_ok=True)
    texts = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_whole(path, (text.encode(errors="backslashreplace") for text in texts))


def tables_of(
    plan: MigrationPlan,
    file_results: "Sequence[FileDone]",
    verified: "Iterable[FileVerification]",
    remaining: Collection[tuple[str, int]],
    changing: Collection[tuple[str, int]] = (),
) -> dict[str, TableReport]:
    """Count the rows of each table by result.

    The numbers are the counts of the plan, less the failures.

    Args:
        plan: what was to be done.
        file_results: what was.
        verified: what was read back.
        remaining: table and row of what was not tried.
        changing: table and row of what lost equal values, but had other values to be changed.
    """
    refused = _list_rows(operation for file in file_results for operation in (*file.refused, *file.dangling))
    all_lost = [lost_object for file in verified for lost_object in file.lost]
    lost = _list_rows(all_lost)
    was_equal = _list_rows(lost_object for lost_object in all_lost if lost_object.was_equal)
    was_changed = _list_rows(lost_object for lost_object in all_lost if not lost_object.was_equal)
    for name, row in changing:
        was_changed.setdefault(name, set()).add(row)
    tables = {}
    for name, counts in plan.tables.items():
        if counts.type is None:
            continue
        bad = refused.get(name, set())
        gone = lost.get(name, set()) - bad
        changed_since = gone & was_equal.get(name, set()) - was_changed.get(name, set())
        untried = {row for table, row in remaining if table == name and row} - bad
        changed = counts.add + counts.modify
        tables[name] = TableReport(
            read=counts.read,
            written=max(changed - len(bad) - len(gone - changed_since) - len(untried), 0),
            equal=max(counts.equal - len(changed_since), 0),
            skipped=counts.skipped,
            rejected=counts.rejected + len(bad),
            lost=len(gone),
            left=len(untried),
        )
    return tables


def _list_rows(entries: Iterable[TargetRefusal | LostRow]) -> dict[str, set[int]]:
    """Return the numbers of the rows that entries belong to, by table.

    Deletions belong to no row.
    """
    rows_by_table: dict[str, set[int]] = {}
    for entry in entries:
        if entry.row:
            rows_by_table.setdefault(entry.table, set()).add(entry.row)
    return rows_by_table


class Reject(NamedTuple):
    """A row that was not carried over, or not whole.

    Attributes:
        table: that it is in.
        row: its number there.
        guid: of its object, as text; None: it has none.
        values: what it says, as text.
        columns: the guilty columns, or attributes, as far as they are known.
        reason: why.
    """

    table: MqisTable
    row: int
    guid: str | None
    values: dict[str, str]
    columns: str
    reason: str


def read_rejects(folder: Path) -> Iterator[Reject]:
    """Yield the rows that a plan rejected or the target refused, each once.

    Args:
        folder: of the plan.
    """
    seen = set()
    for path in sorted((folder / REJECTS_NAME).glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                place = (line["table"], line["row"])
                if line["row"] and place not in seen:  # 0: it belongs to no row
                    seen.add(place)
                    table = MQIS_TABLES[line["table"]]
                    columns = line.get("attribute") or ", ".join(line.get("attributes", ()))
                    values = line["values"]
                    yield Reject(table, line["row"], values.get(table.key), values, columns, line["reason"])


def read_left_out(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield GUID and column of each value that is not carried over.

    The GUID is that of the object; the column is given by name.
    """
    for path in sorted((folder / NOT_CARRIED_NAME).glob("*/*.parquet")):
        read = pq.read_table(path, columns=["guid", "column"])
        yield from zip(read["guid"].to_pylist(), read["column"].to_pylist(), strict=True)


def read_places(plan: MigrationPlan, folder: Path) -> dict[str, str]:
    """Return the normalised DN of each object with a GUID in the plan, and this GUID.

    Args:
        plan: the plan.
        folder: of the plan.
    """
    operations = (operation for file in plan.files for operation in read_operations(folder / file.path))
    return {
        normalize(operation.dn): str(operation.guid)
        for operation in operations
        if operation.role == EntryRole.OBJECT and operation.guid is not None
    }
