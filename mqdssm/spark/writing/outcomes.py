"""Outcomes of rows: Parquet files, and a manifest of those that count.

There is one file for each attempt of a task.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AwareDatetime

from mqdssm.directory.loading.items import DONE, Effect, Outcome
from mqdssm.pipeline.documents import Document, write_document
from mqdssm.pipeline.manifest import MANIFEST_NAME, ExportedFile, hash_file

OUTCOMES: Final = "outcome"
WAITING: Final = "waiting"
PROBLEMS_MAX: Final = 5
"""Limit of the failed rows in a message."""
FILE_ROWS: Final = 10_000  # kept in memory until they are written
NOT_TRIED: Final = "not-tried"
"""Effect of a row that was not tried, since too many had failed."""
SKIPPED: Final = "skipped"
"""Effect of a row whose object exists and differs, if such objects are to stay unchanged."""

SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("row", pa.int64()),
        ("guid", pa.string()),
        ("dn", pa.string()),
        ("effect", pa.string()),
        ("code", pa.int32()),
        ("text", pa.string()),
        ("attributes", pa.list_(pa.string())),
    ]
)
"""Schema of outcomes: the row's place in the data frame, its object, and the effect."""
WAITING_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("row", pa.int64()),
        ("guid", pa.string()),
        ("dn", pa.string()),
        ("class", pa.string()),
        ("attributes", pa.map_(pa.string(), pa.list_(pa.binary()))),
        ("references", pa.map_(pa.string(), pa.list_(pa.string()))),
    ]
)
"""Schema of deferred rows: entries without their parents, and references to objects that do not exist yet."""

IS_DONE: Final = frozenset({effect.value for effect in DONE} | {SKIPPED})


@dataclass(slots=True)
class EffectTally:
    """Counts of effects, and the first rows that failed.

    Attributes:
        counts: effect -> rows.
        problems: messages about some of the failed rows.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, effect: str, dn: str, text: str) -> None:
        """Count a row."""
        self.counts[effect] += 1
        if effect not in IS_DONE and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(f"{dn or 'a row'}: {effect}{f': {text}' if text else ''}")

    @property
    def errors(self) -> int:
        """Number of rows that are not done."""
        return sum(count for effect, count in self.counts.items() if effect not in IS_DONE)

    def merge(self, other: "EffectTally") -> None:
        """Add the counts of another tally."""
        self.counts.update(other.counts)
        self.problems += other.problems[: PROBLEMS_MAX - len(self.problems)]


@dataclass(frozen=True, slots=True)
class SettledRow:
    """Outcome of a row.

    Attributes:
        row: number of the row.
        effect: effect of the row.
        dn: DN of its object, if it has one.
        guid: GUID of its object.
        text: reason, for people.
        attributes: the wrong or different attributes.
        code: result code of the server, if it refused the change.
    """

    row: int
    effect: str
    dn: str = ""
    guid: str | None = None
    text: str = ""
    attributes: tuple[str, ...] = ()
    code: int | None = None

    @classmethod
    def of(cls, outcome: Outcome, row: int, guid: str | None = None) -> Self:
        """Return the outcome of a change, with the number of its row and the GUID in it."""
        attributes = tuple(outcome.attributes)
        return cls(row, outcome.effect, outcome.dn, guid, outcome.text, attributes, outcome.code)


class Outcomes:
    """Collector of the outcomes of one attempt of a task.

    Without a folder it only counts.

    Args:
        folder: of this write within the journal; None: there is no journal.
        partition: number of the task.
        skips_conflicts: conflicts count as skipped.

    Attributes:
        tally: counts of the outcomes so far.
    """

    def __init__(self, folder: Path | None, partition: int, *, skips_conflicts: bool = False) -> None:
        self._folder = folder
        self._skips_conflicts = skips_conflicts
        self._partition = partition
        self._attempt = uuid4().hex[:12]
        self._rows: list[dict[str, Any]] = []
        self._waiting: list[dict[str, Any]] = []
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.tally = EffectTally()

    @property
    def keeps(self) -> bool:
        """True if rows can be deferred until the end of all tasks."""
        return self._folder is not None

    def add(self, outcome: SettledRow) -> None:
        """Record the outcome of a row."""
        is_skipped = outcome.effect == Effect.CONFLICT and self._skips_conflicts
        effect = SKIPPED if is_skipped else str(outcome.effect)
        self.tally.add(effect, outcome.dn, outcome.text)
        if self._folder is not None:
            self._rows.append(
                {
                    "partition": self._partition,
                    "row": outcome.row,
                    "guid": outcome.guid,
                    "dn": outcome.dn,
                    "effect": effect,
                    "code": outcome.code,
                    "text": outcome.text,
                    "attributes": list(outcome.attributes),
                }
            )
            if len(self._rows) >= FILE_ROWS:
                self._flush(OUTCOMES, self._rows, SCHEMA)

    def wait(
        self,
        row: int,
        *,
        dn: str,
        ldap_class: str,
        guid: str | None = None,
        attributes: Mapping[str, Sequence[bytes]] | None = None,
        references: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Defer an entry, or the references of an existing one.

        Entry and references wait until the end of all tasks.
        """
        self._waiting.append(
            {
                "partition": self._partition,
                "row": row,
                "guid": guid,
                "dn": dn,
                "class": ldap_class,
                "attributes": [(name, list(raws)) for name, raws in (attributes or {}).items()],
                "references": [(name, list(guids)) for name, guids in (references or {}).items()],
            }
        )
        if len(self._waiting) >= FILE_ROWS:
            self._flush(WAITING, self._waiting, WAITING_SCHEMA)

    def _flush(self, kind: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        if self._folder is None or not rows:
            return
        if kind not in self._writers:
            (self._folder / kind).mkdir(parents=True, exist_ok=True)
            self._writers[kind] = pq.ParquetWriter(self._draft(kind), schema, compression="zstd")
        self._writers[kind].write_table(pa.Table.from_pylist(rows, schema))
        rows.clear()

    def _draft(self, kind: str) -> Path:
        folder = self._folder or Path()
        return folder / kind / f".part-{self._partition:05d}-{self._attempt}.new"

    def close(self, *, failed: bool = False) -> tuple[str, ...]:
        """Complete the files and rename them into place.

        Args:
            failed: the attempt was interrupted: the files are named so, and do not count.

        Returns:
            Their names within the folder of this write.
        """
        self._flush(OUTCOMES, self._rows, SCHEMA)
        self._flush(WAITING, self._waiting, WAITING_SCHEMA)
        names = []
        for kind, writer in self._writers.items():
            writer.close()
            draft = self._draft(kind)
            word = "failed" if failed else "part"
            final = draft.with_name(f"{word}-{self._partition:05d}-{self._attempt}.parquet")
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(final)
            names.append(f"{kind}/{final.name}")
        self._writers = {}
        return tuple(names)

    def abandon(self) -> None:
        """Keep the outcomes of an interrupted attempt, as far as they can be written."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self.close(failed=True)


class WriteManifest(Document):
    """``manifest.json`` of one write: its files with the outcomes of rows.

    The files are in the folder of the write.

    Attributes:
        object: type of the rows.
        url: the servers.
        on_conflict: option of the write.
        complete: all tasks ended; else the rows that they had written are in the directory, and the files
            of the tasks that ended are listed.
        started: when the write began.
        ended: when this was written.
        counts: effect -> rows.
        files: files with the outcomes.
    """

    object: str
    url: str
    on_conflict: str
    complete: bool
    started: AwareDatetime
    ended: AwareDatetime
    counts: Mapping[str, int]
    files: tuple[ExportedFile, ...]

    def write(self, folder: Path) -> None:
        """Write the manifest atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        write_document(folder / MANIFEST_NAME, self)


def list_files(folder: Path, names: Sequence[str]) -> tuple[ExportedFile, ...]:
    """Return files in the form that a manifest lists."""
    return tuple(
        ExportedFile(
            path=name, rows=pq.read_metadata(folder / name).num_rows, sha256=hash_file(folder / name)
        )
        for name in sorted(names)
    )


def read_waiting_rows(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Read the deferred rows."""
    for name in sorted(names):
        with pq.ParquetFile(folder / name) as file:
            for batch in file.iter_batches(batch_size=FILE_ROWS):
                yield from batch.to_pylist()
