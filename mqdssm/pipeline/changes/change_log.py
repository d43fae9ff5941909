"""Log of changes: a folder of numbered rows, each of which stays until its consumer has it (decision M101).

changes.json   what the log is of
N-M.arrow      the rows N to M; the newest file stays, so that changes that are told again are recognised
released       number of the last row that the consumer has
watch          state of the watch (docs/watching.md), whose place moves when rows are on the disk
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

import pyarrow as pa

from mqdssm.errors import ConfigError, why_no_folder
from mqdssm.events.locking import locked
from mqdssm.pipeline.atomic_file import replace_file, sync_folder
from mqdssm.pipeline.changes.change_rows import CHANGE_ID

FORMAT: Final = "mqdssm changes"
VERSION: Final = 1
TAKEN_WAIT_S: Final = 15.0
"""How long to wait for a query that is just ending, in seconds."""
_HEAD: Final = "changes.json"
_RELEASED: Final = "released"
_FILE: Final = re.compile(r"(\d{12})-(\d{12})\.arrow")
_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class _File:
    """Rows of one file: from `first` to `last`."""

    path: Path
    first: int
    last: int


class ChangeLog:
    """A log in a folder, which one process at a time has.

    Attributes:
        id: of the log, for ever: an offset of another log is refused.
        end: number of the last row; 0: there is none yet.
        newest_ids: ids of the changes that were appended last.
    """

    def __init__(self, folder: Path, object_type: str, schema: pa.Schema) -> None:
        """Open nothing yet.

        Args:
            folder: of the log; it is made if it does not exist.
            object_type: of the objects.
            schema: of the rows.
        """
        self.folder, self._type, self._schema = folder, object_type, schema
        self._stack = contextlib.ExitStack()
        self._files: list[_File] = []
        self._released = 0
        self.id = ""
        self.end = 0
        self.newest_ids: frozenset[str] = frozenset()

    def open(self) -> Self:
        """Take the folder, and find out what it holds.

        Raises:
            ConfigError: another process has it, it cannot be used, or it is of something else.
        """
        try:
            self.folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
            taken = f"{self.folder}: another query works with this state: give each query its own folder"
            self._stack.enter_context(locked(self.folder / "lock", wait_s=TAKEN_WAIT_S, taken=taken))
            self._load()
        except OSError as error:
            self.close()
            raise ConfigError(f"state folder {self.folder} cannot be used: {why_no_folder(error)}") from error
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Let another process have the folder."""
        self._stack.close()

    @property
    def is_new(self) -> bool:
        """True if the consumer has no row yet."""
        return self._released == 0

    def append(self, rows: pa.RecordBatch) -> None:
        """Append rows; they are on the disk when this returns.

        Args:
            rows: with the numbers that follow `end`.

        Raises:
            OSError: they cannot be written; then the log is as it was.
        """
        first, last = self.end + 1, self.end + rows.num_rows
        path = self.folder / f"{first:012}-{last:012}.arrow"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        replace_file(path, [memoryview(sink.getvalue())])
        sync_folder(self.folder)
        self._files.append(_File(path, first, last))
        self.newest_ids = frozenset(rows.column(CHANGE_ID).to_pylist())
        self.end = last

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Return the rows behind `start` up to `end`, always the same ones.

        Raises:
            ConfigError: they are not there, or not any more.
        """
        self.check(start)
        self.check(end)
        for file in self._files:
            first, last = max(file.first, start + 1), min(file.last, end)
            if first <= last:
                yield _read(file.path).slice(first - file.first, last - first + 1)

    def check(self, number: int) -> None:
        """Make sure that all rows behind a number are there.

        Raises:
            ConfigError: they are not.
        """
        oldest = self._files[0].first if self._files else self.end + 1
        if not oldest - 1 <= number <= self.end:
            raise ConfigError(
                f"{self.folder} holds the changes {oldest} to {self.end}, and the checkpoint goes on behind "
                f"{number}: bring back the folder that belongs to the checkpoint, or begin anew with another "
                "checkpoint and another state folder"
            )

    def release(self, number: int) -> None:
        """Delete rows up to a number, which the consumer has.

        Raises:
            OSError: that cannot be noted, or files cannot be deleted.
        """
        if number <= self._released:
            return
        replace_file(self.folder / _RELEASED, [b"%d\n" % number])
        self._released = number
        while len(self._files) > 1 and self._files[0].last <= number:
            self._files[0].path.unlink(missing_ok=True)
            del self._files[0]

    # -- opening

    def _load(self) -> None:
        self._begin_or_check()
        self._files = []
        for path in sorted(self.folder.glob("*.arrow")):
            named = _FILE.fullmatch(path.name)
            if named is None:
                raise ConfigError(f"{path} is no file of a state folder: move it away")
            self._files.append(_File(path, int(named[1]), int(named[2])))
        for before, after in zip(self._files, self._files[1:], strict=False):
            if after.first != before.last + 1:
                raise ConfigError(
                    f"{self.folder}: changes {before.last + 1} to {after.first - 1} are missing"
                )
        if self._files:
            newest = self._files[-1]
            self.end = newest.last
            self.newest_ids = frozenset(_read(newest.path).column(CHANGE_ID).to_pylist())
        with contextlib.suppress(FileNotFoundError):
            self._released = int((self.folder / _RELEASED).read_text() or 0)

    def _begin_or_check(self) -> None:
        """Read what the log is of; an empty folder becomes a new log.

        Raises:
            ConfigError: the log is of something else.
        """
        mine = {"format": FORMAT, "version": VERSION, "object": self._type, "columns": self._schema.names}
        path = self.folder / _HEAD
        try:
            head = json.loads(path.read_bytes())
        except FileNotFoundError:
            if any(entry.name != "lock" and entry.name[0] != "." for entry in self.folder.iterdir()):
                raise ConfigError(
                    f"{self.folder} is no state folder and not empty: name another one"
                ) from None
            self.id = str(uuid4())
            replace_file(path, [json.dumps({**mine, "id": self.id}).encode()])
            return
        except ValueError:
            head = None
        if not isinstance(head, dict):
            raise ConfigError(f"{path} is damaged: bring back a copy of the folder")
        for name, value in mine.items():
            if head.get(name) != value:
                raise ConfigError(
                    f"{self.folder} was begun with {name} {head.get(name)!r}, not {value!r}: give the same "
                    "options, or another state folder and another checkpoint"
                )
        self.id = str(head.get("id"))


def _read(path: Path) -> pa.RecordBatch:
    """Read the rows of a file.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        with pa.ipc.open_file(pa.py_buffer(path.read_bytes())) as reader:
            return reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} is damaged ({error}): bring back a copy of the folder") from error
