"""What became of each operation of a plan, on disk: how a killed run goes on where it was.

``PLAN/journal`` has one file for each file of operations, and one for its references that are set last: a
line of JSON for every operation that the server has answered. An operation without a line may have been made
or not; making it again is no harm.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from uuid import UUID

from mqdssm.directory.loading.items import DONE, Effect, Outcome

JOURNAL_NAME: Final = "journal"
LATER: Final = "later"
SYNC_LINES: Final = 5_000
"""Lines after which the journal is on disk for certain; a killed process loses none, a power cut these."""


class JournalLine(NamedTuple):
    """A line of a journal.

    Attributes:
        row: row_id of the operation.
        effect: what became of it.
        dn: where it was made, if that is not where the plan says.
        guid: objectGUID of what was made, if the server chose it.
        code: the server's result, where it refused.
        text: why it was refused.
        attributes: the guilty ones; of what is done, those whose references could not (all) be set.
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
        """Whether the directory holds what it should."""
        return self.effect in DONE

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be tried."""
        return self.is_done and not self.attributes

    @classmethod
    def of(cls, outcome: Outcome, dn: str, *, kept: bool) -> "JournalLine":
        """The line for an outcome.

        Args:
            outcome: of the loader.
            dn: where the plan says that the object is.
            kept: its objectGUID is the one in the plan.
        """
        return cls(
            row=outcome.row,
            effect=outcome.effect,
            dn=None if outcome.dn == dn else outcome.dn,
            guid=None if kept else outcome.guid,
            code=outcome.code,
            text=outcome.text,
            attributes=() if outcome.is_done else outcome.attributes,
        )

    def line(self) -> str:
        """The line, without what says nothing."""
        found: dict[str, Any] = {"row": self.row, "effect": self.effect.value}
        if self.dn is not None:
            found["dn"] = self.dn
        if self.guid is not None:
            found["guid"] = str(self.guid)
        if self.code is not None:
            found["code"] = self.code
        if self.text:
            found["text"] = self.text
        if self.attributes:
            found["attributes"] = self.attributes
        return json.dumps(found, ensure_ascii=False)

    @classmethod
    def parse(cls, line: bytes) -> "JournalLine | None":
        """Read a line; None for one that was cut short."""
        try:
            found = json.loads(line)
            guid = found.get("guid")
            return cls(
                row=int(found["row"]),
                effect=Effect(found["effect"]),
                dn=found.get("dn"),
                guid=None if guid is None else UUID(guid),
                code=found.get("code"),
                text=found.get("text", ""),
                attributes=tuple(found.get("attributes", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class ApplyJournal:
    """The journal of one file of operations: appended to by the worker that has it.

    Args:
        folder: of the plan.
        part: path of the file of operations in it.
        stage: empty, or `LATER`.
    """

    def __init__(self, folder: Path, part: str, stage: str = "") -> None:
        place = part.removeprefix("operations/").removesuffix(".parquet").replace("/", "-")
        self.path = folder / JOURNAL_NAME / f"{stage and stage + '-'}{place}.jsonl"

    def read(self) -> dict[int, JournalLine]:
        """The last line of each operation, by its row_id."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        return {one.row: one for one in map(JournalLine.parse, lines) if one is not None}

    @contextmanager
    def writing(self) -> Iterator["JournalWriter"]:
        """Append lines; all of them are on disk at the end."""
        with self.path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            lines = JournalWriter(file)
            try:
                if file.tell():
                    file.write("\n")  # behind one that was cut short
                yield lines
            finally:
                lines.sync()


class JournalWriter:
    """Appends lines to a journal."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._unsure = 0

    def add(self, one: JournalLine) -> None:
        """Append a line."""
        self._file.write(one.line() + "\n")
        self._unsure += 1
        if self._unsure >= SYNC_LINES:
            self.sync()

    def flush(self) -> None:
        """Hand what was appended to the system: a kill of this process loses nothing of it."""
        self._file.flush()

    def sync(self) -> None:
        """Wait until it is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsure = 0
