"""Document ``report.json``: results of a migration, counted for each table."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from mqdssm.pipeline.documents import read_document, write_document, write_whole
from mqdssm.pipeline.migrate.apply_work import FileDone, RefusedOperation
from mqdssm.pipeline.migrate.plan_file import REJECTS_NAME, MigrationPlan
from mqdssm.pipeline.migrate.staging import rows_at
from mqdssm.pipeline.migrate.verification import FileVerification, Lost
from mqdssm.tables.mqis import MQIS_TABLES

REPORT_NAME: Final = "report.json"
REFUSED_NAME: Final = "applied.jsonl"
REPORT_VERSION: Final = 1
LISTED_MAX: Final = 1_000
"""Refusals and losses that the report lists one by one; it counts all of them."""
_CONFIG: Final = ConfigDict(frozen=True, extra="forbid")


class TargetRefusal(BaseModel):
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

    model_config = _CONFIG

    table: str
    row: int
    type: str
    role: str
    dn: str
    attributes: tuple[str, ...] = ()
    code: int | None = None
    reason: str

    @classmethod
    def of(cls, one: RefusedOperation) -> Self:
        """Return the line for a refused operation."""
        return cls(
            table=one.table,
            row=one.source_row,
            type=one.type,
            role=one.role,
            dn=one.dn,
            attributes=one.recorded.attributes,
            code=one.recorded.code,
            reason=one.recorded.text,
        )


class LostRow(BaseModel):
    """Entry that is not in the target as it should be.

    Attributes:
        table: of the source.
        row: its row there.
        type: of the object.
        role: role of the entry: ``object``, or a companion.
        dn: DN that the entry should have.
        reason: in words.
        differs: attribute -> wanted and found values.
    """

    model_config = _CONFIG

    table: str
    row: int
    type: str
    role: str
    dn: str
    reason: str
    differs: Mapping[str, Mapping[str, Sequence[str]]] = {}


class TableReport(BaseModel):
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

    model_config = _CONFIG

    read: int = 0
    written: int = 0
    equal: int = 0
    skipped: int = 0
    rejected: int = 0
    lost: int = 0
    left: int = 0


class MigrationReport(BaseModel):
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

    model_config = _CONFIG

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
        for one in self.tables.values():
            sums.update(one.model_dump())
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
        total = self.total
        said = [f"{total['read']} read", f"{total['written']} written", f"{total['equal']} equal"]
        said += [f"{total[name]} {name}" for name in ("skipped", "left") if total[name]]
        said += [f"{total['rejected']} rejected", f"{total['lost']} lost"]
        return ", ".join([*said, *([f"{self.not_deleted} not deleted"] if self.not_deleted else [])])

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


def write_refused(folder: Path, refused: Iterable[RefusedOperation]) -> None:
    """Write the refused operations to the folder of rejects, each with its row of the source.

    A file of an earlier run is replaced, or removed if nothing was refused.
    """
    path = folder / REJECTS_NAME / REFUSED_NAME
    listed = list(refused)
    source = _source_rows(folder, listed)
    lines = [
        TargetRefusal.of(one).model_dump() | source.get((one.table, one.source_row), {}) for one in listed
    ]
    if not lines:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_whole(path, text.encode(errors="backslashreplace"))


def _source_rows(folder: Path, refused: Iterable[RefusedOperation]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return file, number and values of the source's rows of refused operations, by table and row."""
    numbers: dict[str, set[int]] = {}
    for one in refused:
        if one.source_row:  # deletions belong to no row
            numbers.setdefault(one.table, set()).add(one.source_row)
    return {
        (name, row.number): {"file": row.file, "file_row": row.row, "values": dict(row.cells)}
        for name, some in numbers.items()
        for row in rows_at(folder, MQIS_TABLES[name], some)
    }


def tables_of(
    plan: MigrationPlan,
    done: Sequence[FileDone],
    verified: Iterable[FileVerification],
    left: Collection[tuple[str, int]],
    changing: Collection[tuple[str, int]] = (),
) -> dict[str, TableReport]:
    """Count the rows of each table by result: the counts of the plan, less what went wrong.

    Args:
        plan: what was to be done.
        done: what was.
        verified: what was read back.
        left: table and row of what was not tried.
        changing: the same of rows that lost what was equal, but had something else to be changed.
    """
    refused = _rows(one for file in done for one in (*file.refused, *file.dangling))
    all_lost = [one for file in verified for one in file.lost]
    lost = _rows(all_lost)
    was_equal = _rows(one for one in all_lost if one.was_equal)
    was_changed = _rows(one for one in all_lost if not one.was_equal)
    for name, row in changing:
        was_changed.setdefault(name, set()).add(row)
    found = {}
    for name, counts in plan.tables.items():
        if counts.type is None:
            continue
        bad = refused.get(name, set())
        gone = lost.get(name, set()) - bad
        changed_since = gone & was_equal.get(name, set()) - was_changed.get(name, set())
        untried = {row for table, row in left if table == name and row} - bad
        changed = counts.add + counts.modify
        found[name] = TableReport(
            read=counts.read,
            written=max(changed - len(bad) - len(gone - changed_since) - len(untried), 0),
            equal=max(counts.equal - len(changed_since), 0),
            skipped=counts.skipped,
            rejected=counts.rejected + len(bad),
            lost=len(gone),
            left=len(untried),
        )
    return found


def _rows(some: Iterable[RefusedOperation | Lost]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for one in some:
        if one.source_row:  # deletions belong to no row
            found.setdefault(one.table, set()).add(one.source_row)
    return found
