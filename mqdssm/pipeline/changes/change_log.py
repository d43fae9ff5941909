"""Log of changes: a folder of numbered rows, kept until consumed.

See decision M101.

changes.json   format, object type, columns and id of the log
N-M.arrow      rows N to M; the newest file is kept, to recognise changes that are received again
released       number of the last row that the consumer has
watch          state of the watch (docs/watching.md), which advances when rows are on the disk
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

from mqdssm.errors import ConfigError, explain_folder_error
from mqdssm.events.durable_files import lock_file, replace_file, sync_folder
from mqdssm.pipeline.changes.change_rows import CHANGE_ID

FORMAT: Final = "mqdssm changes"
VERSION: Final = 1
TAKEN_WAIT_S: Final = 15.0
"""Seconds to wait for the lock, which a query that is ending may still hold."""
_HEAD: Final = "changes.json"
_RELEASED: Final = "released"
_FILE: Final = re.compile(r"(\d{12})-(\d{12})\.arrow")
_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class _File:
    """File of the log, with the rows `first` to `last`."""

    path: Path
    first: int
    last: int


class ChangeLog:
    """Log of changes in a folder, which one process at a time can open.

    Attributes:
        id: unique and constant, so that an offset of another log is refused.
        end: number of the last row; 0 if the log has no rows.
        newest_ids: ids of the changes in the newest file.
    """

    def __init__(self, folder: Path, object_type: str, schema: pa.Schema) -> None:
        """Describe the log; `open` opens it.

        Args:
            folder: of the log; `open` makes it if it does not exist.
            object_type: name of the type of the objects.
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
        """Lock the folder and read the state of the log.

        Raises:
            ConfigError: another process has the folder, it cannot be used, or it holds another log.
        """
        try:
            self.folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
            sync_folder(self.folder.parent)  # offsets name the log: it may not vanish
            lock_message = (
                f"{self.folder}: another query works with this state: give each query its own folder"
            )
            self._stack.enter_context(
                lock_file(self.folder / "lock", wait_s=TAKEN_WAIT_S, message=lock_message)
            )
            self._load()
        except OSError as error:
            self.close()
            raise ConfigError(
                f"state folder {self.folder} cannot be used: {explain_folder_error(error)}"
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Unlock the folder."""
        self._stack.close()

    @property
    def is_new(self) -> bool:
        """True if the consumer has no row yet."""
        return self._released == 0

    def append(self, rows: pa.RecordBatch) -> None:
        """Append rows, and return when they are on the disk.

        Args:
            rows: with the numbers that follow `end`.

        Raises:
            OSError: the rows cannot be written; the log is unchanged.
        """
        first, last = self.end + 1, self.end + rows.num_rows
        path = self.folder / f"{first:012}-{last:012}.arrow"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        try:
            replace_file(path, [memoryview(sink.getvalue())])
        except BaseException:
            path.unlink(missing_ok=True)  # its name may not be on the disk: other rows get these numbers
            raise
        self._files.append(_File(path, first, last))
        self.newest_ids = frozenset(rows.column(CHANGE_ID).to_pylist())
        self.end = last

    def read_between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after `start` up to `end`, the same ones at each call.

        Raises:
            ConfigError: the log does not have them yet, or not any more.
        """
        self.check(start)
        self.check(end)
        for file in self._files:
            first, last = max(file.first, start + 1), min(file.last, end)
            if first <= last:
                yield _read(file.path).slice(first - file.first, last - first + 1)

    def check(self, number: int) -> None:
        """Check that the log has all rows after a number.

        Raises:
            ConfigError: some of these rows are missing.
        """
        oldest = self._files[0].first if self._files else self.end + 1
        if not oldest - 1 <= number <= self.end:
            raise ConfigError(
                f"{self.folder} holds the changes {oldest} to {self.end}, and the checkpoint goes on behind "
                f"{number}: bring back the folder that belongs to the checkpoint, or begin anew with another "
                "checkpoint and another state folder"
            )

    def release(self, number: int) -> None:
        """Release the rows up to a number, which the consumer has.

        Files without other rows are deleted.

        Raises:
            OSError: the number cannot be written, or files cannot be deleted.
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
        """Check the head of the log; write one into an empty folder.

        Raises:
            ConfigError: the log has another type or other columns, or the folder holds other files.
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
    """Read the rows of a file of the log.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        with pa.ipc.open_file(pa.py_buffer(path.read_bytes())) as reader:
            return reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} is damaged ({error}): bring back a copy of the folder") from error
