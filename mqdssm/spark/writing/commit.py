"""End of a write after all tasks: deferred rows are written, then the manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions
from mqdssm.errors import MqdssmError
from mqdssm.model.dn import DN
from mqdssm.pipeline.manifest import utc_seconds
from mqdssm.pipeline.migrate.target import TargetView
from mqdssm.spark.writing.options import WriteOptions
from mqdssm.spark.writing.outcomes import (
    OUTCOMES,
    SKIPPED,
    WAITING,
    EffectTally,
    Outcomes,
    WriteManifest,
    listed,
    waiting_rows,
)
from mqdssm.spark.writing.task import WrittenRows
from mqdssm.tables.references import REFERENCES

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

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
        for one in written:
            tally.merge(one.tally)
        names = [name for one in written for name in one.files]
        waiting = [name for name in names if name.startswith(f"{WAITING}/")]
        files = [name for name in names if name.startswith(f"{OUTCOMES}/")]
        if waiting and self.folder is not None:
            outcomes = Outcomes(self.folder, COMMIT_PARTITION)
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
            raise MqdssmError(self._words(tally))

    def abort(self, written: Sequence[WrittenRows | None]) -> None:
        """Finish a write after a task has failed: rows that others wrote stay, and are listed."""
        tally = EffectTally()
        names = []
        for one in written:
            if one is not None:
                tally.merge(one.tally)
                names += [name for name in one.files if name.startswith(f"{OUTCOMES}/")]
        self._tell(tally, names, complete=False)

    def _tell(self, tally: EffectTally, names: Sequence[str], *, complete: bool) -> None:
        if self.folder is None:
            return
        WriteManifest(
            object=self.options.object,
            url=" ".join(self.options.access.urls),
            on_conflict=self.options.on_conflict,
            complete=complete,
            started=utc_seconds(self.started),
            ended=utc_seconds(datetime.now(UTC)),
            counts=dict(sorted(tally.counts.items())),
            files=listed(self.folder, names),
        ).write(self.folder)

    def _words(self, tally: EffectTally) -> str:
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
        rows = list(waiting_rows(folder, names))
        self._entries([row for row in rows if not row["references"]])
        self._refer([row for row in rows if row["references"]])

    def _entries(self, rows: Sequence[Mapping[str, Any]]) -> None:
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
            skip = outcome.effect is Effect.CONFLICT and self._options.on_conflict == "skip"
            self._outcomes.add(
                ordered[outcome.row]["row"],
                SKIPPED if skip else str(outcome.effect),
                dn=outcome.dn,
                code=outcome.code,
                text=outcome.text,
                attributes=outcome.attributes,
            )

    def _refer(self, rows: Sequence[Mapping[str, Any]]) -> None:
        items = []
        for number, row in enumerate(rows):
            values, lost = self._resolved(row)
            if lost:
                self._outcomes.add(
                    row["row"],
                    Effect.REJECTED,
                    dn=row["dn"],
                    guid=row["guid"],
                    text=f"it is there, but what it refers to is not: {', '.join(lost)}",
                )
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
                self._outcomes.add(
                    row["row"],
                    Effect.REJECTED,
                    dn=outcome.dn,
                    guid=row["guid"],
                    code=outcome.code,
                    text=f"its references could not be set: {outcome.text}",
                    attributes=outcome.attributes,
                )

    def _resolved(self, row: Mapping[str, Any]) -> tuple[dict[str, tuple[bytes, ...]], list[str]]:
        """Return the references of an object in stored form, and the GUIDs that do not exist."""
        known = REFERENCES[row["class"]]
        values: dict[str, tuple[bytes, ...]] = {}
        lost: list[str] = []
        for name, texts in row["references"]:
            guids = [UUID(text) for text in texts]
            there = self._view.by_guid(guids, known[name].ldap_class, ())
            lost += [str(guid) for guid in guids if guid not in there]
            entries = [there[guid][0] for guid in guids if guid in there]
            own = ((entry.dn, guid_of(entry.attributes)) for entry in entries)
            if found := tuple(known[name].stored(dn, guid) for dn, guid in own if guid is not None):
                values[name] = found
        return values, lost
