"""Journal of a plan's operations, from which an interrupted run resumes.

The journal holds the results of the operations.
``PLAN/journal`` has one file for each file of operations, and one for its references that are set last. Each
holds a line of JSON for every operation with a result. An operation without a line may have been applied or
not; applying it again does no harm.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple
from uuid import UUID

from mqdssm.directory.loading.items import DONE, Effect, Outcome

JOURNAL_NAME: Final = "journal"
LATER: Final = "later"
SYNC_LINES: Final = 5_000
"""Lines after which the journal is synced to disk: a power cut loses no more than these."""


class JournalLine(NamedTuple):
    """Result of an operation: a line of a journal.

    Attributes:
        row: row_id of the operation.
        effect: its result.
        dn: DN of the object, if the plan has another one.
        guid: objectGUID of a new object, if the server chose it.
        code: result code of the server, if it refused the operation.
        text: why it was refused.
        attributes: the guilty ones; of a done operation, those whose references could not (all) be set.
    """

    row: int
    effect: Effect
    dn: str | None = None
    guid: UUID | None = None
    code: int | None = None
    text: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """True if the operation succeeded, or the directory had its result already."""
        return self.effect in DONE

    @property
    def is_over(self) -> bool:
        """True if the operation is done and all of its references are set."""
        return self.is_done and not self.attributes

    @classmethod
    def of(cls, outcome: Outcome, dn: str, *, keeps_guid: bool) -> "JournalLine":
        """Return the line for an outcome.

        Args:
            outcome: of the loader.
            dn: where the plan says that the object is.
            keeps_guid: its objectGUID is the one in the plan.
        """
        return cls(
            row=outcome.row,
            effect=outcome.effect,
            dn=None if outcome.dn == dn else outcome.dn,
            guid=None if keeps_guid else outcome.guid,
            code=outcome.code,
            text=outcome.text,
            attributes=() if outcome.is_done else outcome.attributes,
        )

    def format_line(self) -> str:
        """Return the line as JSON, without empty fields."""
        fields = {
            name: value
            for name, value in self._asdict().items()
            if name not in self._field_defaults or value != self._field_defaults[name]
        }
        return json.dumps(fields, ensure_ascii=False, default=str)

    @classmethod
    def parse(cls, line: bytes) -> "JournalLine | None":
        """Parse a line; return None if it was cut short."""
        try:
            record = json.loads(line)
            guid = record.get("guid")
            return cls(
                row=int(record["row"]),
                effect=Effect(record["effect"]),
                dn=record.get("dn"),
                guid=None if guid is None else UUID(guid),
                code=record.get("code"),
                text=record.get("text", ""),
                attributes=tuple(record.get("attributes", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class ApplyJournal:
    """Journal of one file of operations; the worker that has this file appends to it.

    Args:
        folder: of the plan.
        part: path of the file of operations in it.
        stage: empty, or `LATER`.
    """

    def __init__(self, folder: Path, part: str, stage: str = "") -> None:
        place = part.removeprefix("operations/").removesuffix(".parquet").replace("/", "-")
        self.path = folder / JOURNAL_NAME / f"{stage and stage + '-'}{place}.jsonl"

    def read(self) -> dict[int, JournalLine]:
        """Return the last line of each operation, by row_id."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        return {line.row: line for line in map(JournalLine.parse, lines) if line is not None}

    @contextmanager
    def open_for_writing(self) -> Iterator["JournalWriter"]:
        """Open the journal to append lines.

        All of them are on disk when the context ends.
        """
        with self.path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            lines = JournalWriter(file)
            try:
                if file.tell():
                    file.write("\n")  # the last line may have been cut short
                yield lines
            finally:
                lines.sync()


class JournalWriter:
    """Appends lines to a journal."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._unsure = 0

    def add(self, journal_line: JournalLine) -> None:
        """Append a line."""
        self._file.write(journal_line.format_line() + "\n")
        self._unsure += 1
        if self._unsure >= SYNC_LINES:
            self.sync()

    def flush(self) -> None:
        """Pass all lines to the operating system: they survive a kill of this process."""
        self._file.flush()

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsure = 0
