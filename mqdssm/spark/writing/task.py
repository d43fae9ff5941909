"""Work of one Spark task: writes its rows, and records the outcome of each.

Spark may run a task again, or twice at a time. That does no harm: an equal object that exists counts as
created.

End of a write after all tasks: deferred rows are written, then the manifest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa

from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions, Outcome
from mqdssm.errors import MqdssmError
from mqdssm.model.dn import DN
from mqdssm.pipeline.manifest import to_utc_seconds
from mqdssm.pipeline.migrate.target import TargetView
from mqdssm.spark.options import WriteOptions
from mqdssm.spark.writing.outcomes import (
    NOT_TRIED,
    OUTCOMES,
    WAITING,
    EffectTally,
    Outcomes,
    SettledRow,
    WriteManifest,
    list_files,
    read_waiting_rows,
)
from mqdssm.spark.writing.rows import ChangeMaker, RowChange
from mqdssm.tables.references import REFERENCES

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

ROWS_TOGETHER: Final = 500
"""Number of rows that are looked up and written together."""


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Result of a task.

    Attributes:
        files: files with outcomes and deferred rows, relative to the folder of the write.
        tally: counts of the outcomes.
    """

    files: tuple[str, ...]
    tally: EffectTally


def write(
    batches: Iterable[pa.RecordBatch], options: WriteOptions, folder: Path | None, partition: int
) -> WrittenRows:
    """Write the rows of a task.

    Args:
        batches: the rows.
        options: options of the write.
        folder: of this write within the journal; None: there is none.
        partition: number of the task.

    Raises:
        DirectoryNotConnected: the server is gone, and does not come back.
        DirectoryError: a look-up failed.
        OSError: the journal cannot be written.
    """
    outcomes = Outcomes(folder, partition, skips_conflicts=options.on_conflict == "skip")
    try:
        with options.access.connect(read_only=False) as directory:
            work = _Work(directory.session, options, outcomes)
            for rows in _number_rows(batches):
                if options.max_errors is not None and outcomes.tally.errors > options.max_errors:
                    work.leave(rows)
                else:
                    work.write_rows(rows)
            work.try_again()
        return WrittenRows(outcomes.close(), outcomes.tally)
    except BaseException:
        outcomes.abandon()
        raise


def _number_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield rows with their numbers within the task, some at a time."""
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_TOGETHER):
            rows = batch.slice(start, ROWS_TOGETHER).to_pylist()
            yield list(enumerate(rows, number))
            number += len(rows)


class _Work:
    def __init__(self, session: "Session", options: WriteOptions, outcomes: Outcomes) -> None:
        self._session = session
        self._options = options
        self._outcomes = outcomes
        self._maker = ChangeMaker(session, options.frame, options.on_conflict)
        self._orphans: list[RowChange] = []

    def write_rows(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Write some rows."""
        changes: dict[int, RowChange] = {}
        for row_result in self._maker.make(rows):
            if isinstance(row_result, RowChange):
                changes[row_result.item.row] = row_result
            else:
                self._outcomes.add(row_result)
        self._load(changes)

    def leave(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Record rows as not tried, since too many have failed.

        Otherwise Spark would run the task again in vain.
        """
        for number, row in rows:
            text = "too many rows failed (option maxerrors)"
            self._outcomes.add(SettledRow(number, NOT_TRIED, guid=row.get("Identifier"), text=text))

    def try_again(self) -> None:
        """Write entries whose parents came after them.

        The entries are tried repeatedly while there is progress.
        """
        while self._orphans:
            orphans, self._orphans = self._orphans, []
            self._load({row_change.item.row: row_change for row_change in orphans})
            if len(self._orphans) == len(orphans):
                break
        for orphan in self._orphans:
            self._leave_for_later(orphan)

    def _leave_for_later(self, change: RowChange) -> None:
        """Handle an entry whose parent is not among this task's rows.

        Another task may create the parent.
        """
        item = change.item
        if self._outcomes.keeps:
            self._outcomes.wait(item.row, dn=item.dn, ldap_class="", attributes=item.attributes)
            return
        text = "its parent is not there; with option journal it is tried again when all tasks are done"
        self._outcomes.add(SettledRow(item.row, Effect.MISSING_PARENT, item.dn, change.guid, text))

    def _load(self, changes: Mapping[int, RowChange]) -> None:
        if not changes:
            return
        update = self._options.on_conflict == "update"
        load = LoadOptions(update=update, max_rate=self._options.max_rate)
        finished: list[tuple[RowChange, Outcome]] = []
        for outcome in self._session.loader.load([row_change.item for row_change in changes.values()], load):
            change = changes[outcome.row]
            if outcome.effect is Effect.MISSING_PARENT and self._options.frame.ldap_class is None:
                self._orphans.append(change)
            elif outcome.is_done and (change.beside or change.references):
                finished.append((change, outcome))
            else:
                self._note(change, outcome)
        self._write_side_objects(finished)

    def _write_side_objects(self, finished: Sequence[tuple[RowChange, Outcome]]) -> None:
        """Write the objects beside entries.

        The objects repeat values of the entries, so stored objects are overwritten.
        """
        items = [item for row_change, _ in finished for item in row_change.beside]
        problems: dict[int, str] = {}
        load = LoadOptions(update=True, max_rate=self._options.max_rate)
        for outcome in self._session.loader.load(items, load):
            if not outcome.is_done:
                problems.setdefault(outcome.row, f"{outcome.dn}: {outcome.text}")
        for change, outcome in finished:
            problem = problems.get(outcome.row)
            if problem is not None:
                text = f"beside it {problem}"
                self._outcomes.add(SettledRow(outcome.row, Effect.REJECTED, outcome.dn, change.guid, text))
                continue
            self._note(change, outcome)
            if change.references:
                self._wait(change, outcome)

    def _wait(self, change: RowChange, outcome: Outcome) -> None:
        ldap_class = change.item.ldap_class or ""
        if self._outcomes.keeps:
            self._outcomes.wait(
                outcome.row,
                dn=outcome.dn,
                ldap_class=ldap_class,
                guid=change.guid,
                references=change.references,
            )
            return
        named = ", ".join(guid for guids in change.references.values() for guid in guids)
        text = f"it refers to what is not there ({named}): write again, or give the option journal"
        self._outcomes.add(SettledRow(outcome.row, Effect.REJECTED, outcome.dn, change.guid, text))

    def _note(self, change: RowChange, outcome: Outcome) -> None:
        self._outcomes.add(SettledRow.of(outcome, outcome.row, change.guid))


COMMIT_PARTITION: Final = 99_999
"""Number of the partition in the name of the file with the outcomes of deferred rows."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write, determined before it begins and equal in all processes.

    Attributes:
        options: options of the write.
        folder: of this write within the journal; None: there is no journal.
        started: when it began.
    """

    options: WriteOptions
    folder: Path | None
    started: datetime

    def commit(self, written: Sequence[WrittenRows]) -> None:
        """Finish a write after all tasks have ended.

        Raises:
            MqdssmError: more rows failed than option maxerrors allows.
            DirectoryError: the deferred rows could not be written.
        """
        tally = EffectTally()
        for written_rows in written:
            tally.merge(written_rows.tally)
        names = [name for written_rows in written for name in written_rows.files]
        waiting = [name for name in names if name.startswith(f"{WAITING}/")]
        files = [name for name in names if name.startswith(f"{OUTCOMES}/")]
        if waiting and self.folder is not None:
            skips_conflicts = self.options.on_conflict == "skip"
            outcomes = Outcomes(self.folder, COMMIT_PARTITION, skips_conflicts=skips_conflicts)
            try:
                with self.options.access.connect(read_only=False) as directory:
                    _AtLast(directory.session, self.options, outcomes).write(self.folder, waiting)
            finally:
                files += outcomes.close()
            tally.merge(outcomes.tally)
            for name in waiting:
                (self.folder / name).unlink(missing_ok=True)
        self._tell(tally, files, complete=True)
        if tally.errors > (self.options.max_errors or 0):
            raise MqdssmError(self._describe_errors(tally))

    def abort(self, written: Sequence[WrittenRows | None]) -> None:
        """Finish a write after a task has failed.

        Rows that others wrote stay, and are listed.
        """
        tally = EffectTally()
        names = []
        for written_rows in written:
            if written_rows is not None:
                tally.merge(written_rows.tally)
                names += [name for name in written_rows.files if name.startswith(f"{OUTCOMES}/")]
        self._tell(tally, names, complete=False)

    def _tell(self, tally: EffectTally, names: Sequence[str], *, complete: bool) -> None:
        if self.folder is None:
            return
        WriteManifest(
            object=self.options.object,
            url=" ".join(self.options.access.urls),
            on_conflict=self.options.on_conflict,
            complete=complete,
            started=to_utc_seconds(self.started),
            ended=to_utc_seconds(datetime.now(UTC)),
            counts=dict(sorted(tally.counts.items())),
            files=list_files(self.folder, names),
        ).write(self.folder)

    def _describe_errors(self, tally: EffectTally) -> str:
        total = tally.counts.total()
        where = (
            f"{self.folder} tells of each row" if self.folder is not None else "option journal tells of all"
        )
        return (
            f"{tally.errors} of {total} rows were not written, the others are: {'; '.join(tally.problems)}; "
            f"{where}"
        )


class _AtLast:
    """Writer of deferred rows."""

    def __init__(self, session: "Session", options: WriteOptions, outcomes: Outcomes) -> None:
        self._session = session
        self._options = options
        self._outcomes = outcomes
        self._view = TargetView(session)

    def write(self, folder: Path, names: Sequence[str]) -> None:
        """Write deferred entries, parents before children, then deferred references."""
        rows = list(read_waiting_rows(folder, names))
        self._write_entries([row for row in rows if not row["references"]])
        self._refer([row for row in rows if row["references"]])

    def _write_entries(self, rows: Sequence[Mapping[str, Any]]) -> None:
        ordered = sorted(rows, key=lambda row: len(DN.parse(row["dn"])))
        items = [
            Item(
                row=number,
                action=Action.ADD,
                dn=row["dn"],
                attributes={name: tuple(raws) for name, raws in row["attributes"]},
            )
            for number, row in enumerate(ordered)
        ]
        load = LoadOptions(update=self._options.on_conflict == "update", max_rate=self._options.max_rate)
        for outcome in self._session.loader.load(items, load):
            self._outcomes.add(SettledRow.of(outcome, ordered[outcome.row]["row"]))

    def _refer(self, rows: Sequence[Mapping[str, Any]]) -> None:
        items = []
        for number, row in enumerate(rows):
            values, lost = self._resolve_references(row)
            if lost:
                text = f"it is there, but what it refers to is not: {', '.join(lost)}"
                rejected = SettledRow(row["row"], Effect.REJECTED, row["dn"], row["guid"], text)
                self._outcomes.add(rejected)
            if values:
                items.append(
                    Item(
                        row=number,
                        action=Action.MODIFY,
                        dn=row["dn"],
                        attributes=values,
                        ldap_class=row["class"],
                    )
                )
        for outcome in self._session.loader.load(items, LoadOptions(max_rate=self._options.max_rate)):
            if not outcome.is_done:
                row = rows[outcome.row]
                text = f"its references could not be set: {outcome.text}"
                settled = SettledRow.of(outcome, row["row"], row["guid"])
                self._outcomes.add(replace(settled, effect=Effect.REJECTED, text=text))

    def _resolve_references(self, row: Mapping[str, Any]) -> tuple[dict[str, tuple[bytes, ...]], list[str]]:
        """Return the references of an object in stored form.

        The GUIDs that do not exist are returned, too.
        """
        references = REFERENCES[row["class"]]
        values: dict[str, tuple[bytes, ...]] = {}
        lost: list[str] = []
        for name, texts in row["references"]:
            guids = [UUID(text) for text in texts]
            entries_by_guid = self._view.by_guid(guids, references[name].ldap_class, ())
            lost += [str(guid) for guid in guids if guid not in entries_by_guid]
            entries = [entries_by_guid[guid][0] for guid in guids if guid in entries_by_guid]
            targets = ((entry.dn, guid_of(entry.attributes)) for entry in entries)
            if stored_values := tuple(
                references[name].encode_stored(dn, guid) for dn, guid in targets if guid is not None
            ):
                values[name] = stored_values
        return values, lost
