"""Recorder: thread that appends each change of a directory to a log, once.

See decision M101.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError
from mqdssm.events.facade import Directory
from mqdssm.events.watching.watch import Pauses, Watch, is_for_people
from mqdssm.model.watching import ObjectChange
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.changes.change_log import ChangeLog
from mqdssm.pipeline.changes.change_rows import change_rows
from mqdssm.pipeline.frames.columns import Column, FrameType

log: Final = logging.getLogger(__name__)

ROWS_MAX: Final = 1_000
"""Largest number of changes in one append: the rows of a file, and of a Spark task."""
_STATE: Final = "watch"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Settings of a recorder: directory, type and columns of the objects.

    Attributes:
        access: where and how to log in.
        frame: the type of the objects.
        columns: of the objects.
        snapshot: record the existing objects first.
    """

    access: DirectoryAccess
    frame: FrameType
    columns: Sequence[Column]
    snapshot: bool = False


class Recorder:
    """Recorder of changes between `start` and `stop`.

    The recorder restores a lost connection.
    A change is appended to the log, synced to the disk, and only then committed to the watch. If the program
    ends in between, the watch reports the change again with its old id, and it is not appended again.
    """

    def __init__(self, recorded: Recorded, changes: ChangeLog, *, pauses: Pauses | None = None) -> None:
        """Prepare the recorder; `start` begins.

        Args:
            recorded: settings of the recorder.
            changes: the log, open.
            pauses: waiting times for a server that cannot be reached.
        """
        self._recorded, self._log, self._pauses = recorded, changes, pauses or Pauses()
        self._news = threading.Condition()
        self._stopped = threading.Event()
        self._watch: Watch | None = None
        self._error: Exception | None = None
        self._is_settled = self._was_settled = False
        self._thread = threading.Thread(target=self._run, name="mqdssm recorder", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait until it has ended."""
        self._stopped.set()
        watch = self._watch
        if watch is not None:
            watch.stop()
        if self._thread.is_alive():
            self._thread.join()

    def wait_for_news(self, number: int, timeout_s: float) -> None:
        """Wait until the log has more than `number` rows, or for `timeout_s` seconds.

        Raises:
            Exception: the error that ended the recorder.
        """
        with self._news:
            self._news.wait_for(lambda: self._log.end > number or self._error is not None, timeout_s)
        self._raise()

    def wait_until_settled(self) -> None:
        """Wait until all earlier changes of the directory are recorded.

        Raises:
            Exception: the error that ended the recorder.
        """
        with self._news:
            self._news.wait_for(lambda: self._is_settled or self._error is not None)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # -- in the thread

    def _run(self) -> None:
        failures = 0
        try:
            while not self._stopped.is_set():
                self._is_settled = False
                try:
                    self._record()
                except DirectoryError as error:
                    if is_for_people(error) or not self._was_settled:
                        raise
                    failures = 1 if self._is_settled else failures + 1
                    pause_s = self._pauses.after(failures)
                    log.warning("%s; trying again in %.1f s", error, pause_s)
                    self._stopped.wait(pause_s)
        except Exception as error:  # noqa: BLE001  raised in waiting threads
            with self._news:
                self._error = error
                self._news.notify_all()

    def _record(self) -> None:
        """Watch and append changes until the stop.

        The watch ends earlier if it cannot connect again.
        """
        recorded, pending = self._recorded, _Pending()
        kinds = () if recorded.frame.element is None else (recorded.frame.element,)
        with recorded.access.connect() as directory:
            watch = directory.watch(
                *kinds,
                state=self._log.folder / _STATE,
                snapshot=recorded.snapshot,
                pauses=self._pauses,
                on_ready=lambda _: self._finish_settled(pending),
                on_quiet=lambda: self._append(pending),
            )
        with ExitStack() as stack:
            self._watch = pending.watch = stack.enter_context(watch)
            stack.callback(pending.close)
            if self._stopped.is_set():
                return
            for change in watch:
                pending.changes.append(change)
                if len(pending.changes) >= ROWS_MAX:
                    self._append(pending)

    def _finish_settled(self, pending: "_Pending") -> None:
        self._append(pending)
        with self._news:
            self._is_settled = self._was_settled = True
            self._news.notify_all()

    def _append(self, pending: "_Pending") -> None:
        """Append the pending changes to the log, and commit them to the watch.

        Raises:
            DirectoryError: the objects cannot be read.
            OSError: the log or the state cannot be written.
        """
        if not pending.changes or pending.watch is None:
            return
        new = [change for change in pending.changes if change.id not in self._log.newest_ids]
        if new:
            recorded = self._recorded
            rows = change_rows(
                pending.open_reader(), recorded.frame, recorded.columns, new, self._log.end + 1
            )
            pending.watch.sync()  # saves the ids, so that a repeated change has the id that the log has
            with self._news:
                self._log.append(rows)
                self._news.notify_all()
        pending.watch.commit()
        pending.changes.clear()


@dataclass
class _Pending:
    """Changes that a watch reported and the log does not have yet, with their server."""

    watch: Watch | None = None
    changes: list[ObjectChange] = field(default_factory=list)
    directory: Directory | None = None

    def open_reader(self) -> Directory:
        """Return a session with the watched server.

        Other servers may have an older state.

        Raises:
            DirectoryError: the server cannot be reached, or no server is watched.
        """
        options = None if self.watch is None else self.watch.connection
        if options is None:
            raise DirectoryError("no server is watched")
        if self.directory is None or self.directory.session.options != options:
            self.close()
            self.directory = Directory(Session.open(options))
        return self.directory

    def close(self) -> None:
        """End the session."""
        if self.directory is not None:
            self.directory.close()
            self.directory = None
