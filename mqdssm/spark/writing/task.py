"""Work of one Spark task: writes its rows, and records the outcome of each.

Spark may run a task again, or twice at a time. That does no harm: an equal object that exists counts as
created.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mqdssm.directory.loading.items import Effect, LoadOptions, Outcome
from mqdssm.spark.writing.options import WriteOptions
from mqdssm.spark.writing.outcomes import NOT_TRIED, SKIPPED, EffectTally, Outcomes
from mqdssm.spark.writing.rows import ChangeMaker, RowChange, SettledRow

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
    outcomes = Outcomes(folder, partition)
    try:
        with options.access.connect(read_only=False) as directory:
            work = _Work(directory.session, options, outcomes)
            for rows in _numbered(batches):
                if options.max_errors is not None and outcomes.tally.errors > options.max_errors:
                    work.leave(rows)
                else:
                    work.rows(rows)
            work.try_again()
        return WrittenRows(outcomes.close(), outcomes.tally)
    except BaseException:
        outcomes.abandon()
        raise


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
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

    def rows(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Write some rows."""
        wanted: dict[int, RowChange] = {}
        for made in self._maker.make(rows):
            if isinstance(made, RowChange):
                wanted[made.item.row] = made
            else:
                self._refused(made)
        self._load(wanted)

    def leave(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Record rows as not tried: too many have failed, and Spark would run the task again in vain."""
        for number, row in rows:
            guid = row.get("Identifier")
            self._outcomes.add(number, NOT_TRIED, guid=guid, text="too many rows failed (option maxerrors)")

    def try_again(self) -> None:
        """Write entries whose parents came after them, repeatedly while there is progress."""
        while self._orphans:
            orphans, self._orphans = self._orphans, []
            self._load({one.item.row: one for one in orphans})
            if len(self._orphans) == len(orphans):
                break
        for one in self._orphans:
            self._left(one)

    def _left(self, one: RowChange) -> None:
        """Handle an entry whose parent is not among this task's rows: another task may create it."""
        item = one.item
        if self._outcomes.keeps:
            self._outcomes.wait(item.row, dn=item.dn, ldap_class="", attributes=item.attributes)
            return
        text = "its parent is not there; with option journal it is tried again when all tasks are done"
        self._outcomes.add(item.row, Effect.MISSING_PARENT, dn=item.dn, guid=one.guid, text=text)

    def _load(self, wanted: Mapping[int, RowChange]) -> None:
        if not wanted:
            return
        update = self._options.on_conflict == "update"
        load = LoadOptions(update=update, max_rate=self._options.max_rate)
        done: list[tuple[RowChange, Outcome]] = []
        for outcome in self._session.loader.load([one.item for one in wanted.values()], load):
            one = wanted[outcome.row]
            if outcome.effect is Effect.MISSING_PARENT and self._options.frame.ldap_class is None:
                self._orphans.append(one)
            elif outcome.is_done and (one.beside or one.references):
                done.append((one, outcome))
            else:
                self._note(one, outcome)
        self._beside(done)

    def _beside(self, done: Sequence[tuple[RowChange, Outcome]]) -> None:
        """Write the objects beside entries: copies of these, so that stored ones are overwritten."""
        items = [item for one, _ in done for item in one.beside]
        problems: dict[int, str] = {}
        load = LoadOptions(update=True, max_rate=self._options.max_rate)
        for outcome in self._session.loader.load(items, load):
            if not outcome.is_done:
                problems.setdefault(outcome.row, f"{outcome.dn}: {outcome.text}")
        for one, outcome in done:
            problem = problems.get(outcome.row)
            if problem is not None:
                self._outcomes.add(
                    outcome.row, Effect.REJECTED, dn=outcome.dn, guid=one.guid, text=f"beside it {problem}"
                )
                continue
            self._note(one, outcome)
            if one.references:
                self._wait(one, outcome)

    def _wait(self, one: RowChange, outcome: Outcome) -> None:
        ldap_class = one.item.ldap_class or ""
        if self._outcomes.keeps:
            self._outcomes.wait(
                outcome.row, dn=outcome.dn, ldap_class=ldap_class, guid=one.guid, references=one.references
            )
            return
        named = ", ".join(guid for guids in one.references.values() for guid in guids)
        self._outcomes.add(
            outcome.row,
            Effect.REJECTED,
            dn=outcome.dn,
            guid=one.guid,
            text=f"it refers to what is not there ({named}): write again, or give the option journal",
        )

    def _note(self, one: RowChange, outcome: Outcome) -> None:
        self._add(
            SettledRow(
                outcome.row, outcome.effect, outcome.dn, one.guid, outcome.text, tuple(outcome.attributes)
            ),
            outcome.code,
        )

    def _refused(self, made: SettledRow) -> None:
        self._add(made, None)

    def _add(self, one: SettledRow, code: int | None) -> None:
        skip = one.effect == Effect.CONFLICT and self._options.on_conflict == "skip"
        self._outcomes.add(
            one.row,
            SKIPPED if skip else str(one.effect),
            dn=one.dn,
            guid=one.guid,
            code=code,
            text=one.text,
            attributes=one.attributes,
        )
