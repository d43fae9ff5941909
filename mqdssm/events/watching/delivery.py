"""Delivery of a watch's changes.

Each change is noted before it is returned, until it is acknowledged.
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.events.watching.follower import Follower
from mqdssm.events.watching.journal import ObjectNote, WatchPlace
from mqdssm.events.watching.reader import Selection
from mqdssm.events.watching.state_file import StateFile, WatchState
from mqdssm.events.watching.watch_cache import KnownObject
from mqdssm.model.watching import ChangeEvent, ObjectChange

log: Final = logging.getLogger(__name__)

UNACKNOWLEDGED_MAX: Final = 100_000
"""Maximum changes without an acknowledgement: all of them are returned again after a crash."""
UNACKNOWLEDGED_MANY: Final = 1_000
"""Changes without any acknowledgement after which a warning is logged."""
SYNC_EVERY_S: Final = 1.0
"""Seconds between writes of the notes to disk (fsync); they matter only after a power failure."""
PLACE_EVERY_S: Final = 60.0
"""Seconds between notes of the place while no change is returned: other changes move it."""
_ID_OCTETS: Final = 8


class Delivery:
    """Assigns ids to changes, records acknowledgements (decisions W13, W14).

    The changes are recorded as well.

    Attributes:
        selection: of the changes that are told.
    """

    def __init__(self, state: WatchState, file: StateFile | None, selection: Selection) -> None:
        """Initialize with a state.

        Args:
            state: where to begin; its mirror holds the noted objects.
            file: that keeps it; None: nothing is kept.
            selection: of the changes that are told.
        """
        self._state, self._file, self.selection = state, file, selection
        self._start = secrets.token_hex(_ID_OCTETS)
        self._ids = count(1)
        self._lock = threading.RLock()
        self._last_number = self._returned = self._open = 0
        self._has_acknowledged = False
        self._placed = self._make_place()
        self._is_told = False
        self._placed_at = self._synced_at = 0.0

    # -- changes

    def stamp(self) -> tuple[str, float]:
        """Return a new id, and the time in seconds since 1970."""
        return f"{self._start}-{next(self._ids)}", time.time()

    def note(
        self, key: str, known_object: KnownObject | None, change: ObjectChange | None
    ) -> ObjectChange | None:
        """Record the new state of an object, and its change.

        Returns:
            The change as it is told; None: nothing is told.

        Raises:
            ConfigError: too many changes were told without an acknowledgement.
            OSError: the note cannot be written.
        """
        if change is not None and change.event is ChangeEvent.CREATED and self._state.is_first:
            change = replace(change, event=ChangeEvent.EXISTING)
        if change is None or not self.selection.accepts(change):
            self._write(ObjectNote(key=key, known_object=known_object))
            return None
        self._check_open()
        name, seconds = self.stamp()
        self._last_number = self._write(
            ObjectNote(key=key, known_object=known_object, id=name, time=seconds, event=change.event)
        )
        self._open += 1
        return replace(change, id=name, time=_time_of(seconds))

    def again(self, follower: Follower) -> Iterator[ObjectChange]:
        """Yield again the changes that were not acknowledged.

        The previous watch returned them.

        Raises:
            DirectoryError: an object could not be read.
        """
        for note, change in follower.repeat_unacknowledged(self._state.doubts):
            self._last_number = note.number
            self._open += 1
            event = change.event if note.event is None else note.event
            yield replace(change, event=event, id=note.id, time=_time_of(note.time))

    def record_returned(self) -> None:
        """Record that the last change was returned to the caller."""
        self._returned = self._last_number

    def acknowledge(self) -> None:
        """Acknowledge every change that was returned.

        Raises:
            OSError: that cannot be written; then they are told again.
        """
        with self._lock:
            self._has_acknowledged, self._open = True, 0
            if self._file is None or not self._file.is_begun:
                return
            journal = self._file.journal
            if self._returned > journal.acknowledged:
                journal.acknowledge(self._returned)
                self._is_told = True
                self._sync(time.monotonic())

    def _check_open(self) -> None:
        if self._file is None:
            return
        if self._open >= UNACKNOWLEDGED_MAX:
            raise ConfigError(
                f"{self._file.path}: {self._open} changes were told, and none acknowledged: "
                "call commit() after those that were handled"
            )
        if self._open == UNACKNOWLEDGED_MANY and not self._has_acknowledged:
            log.warning(
                "%s: %d changes were told, and none was acknowledged: without commit() all are told again",
                self._file.path,
                self._open,
            )

    # -- state and journal

    def begin(self) -> None:
        """Save the first state, if it is complete.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if self._file is not None and not self._file.is_begun and self._state.mirror.is_complete:
                self._save(self._file)

    def perform_due_work(self) -> None:
        """Perform due work: note the place, write notes to disk, save the state.

        Raises:
            OSError: something cannot be written.
        """
        self.begin()
        with self._lock:
            if self._file is None or not self._file.is_begun:
                return
            now = time.monotonic()
            snapshot_ended = self._placed.is_first and not self._state.is_first
            is_due = now >= self._placed_at + (SYNC_EVERY_S if self._is_told else PLACE_EVERY_S)
            if snapshot_ended or is_due:  # else a crash would have new objects reported as existing
                self._note_place(self._file, now)
            self._sync(now)
            if self._file.is_due and self._file.journal.is_settled:
                self._save(self._file)

    def sync(self) -> None:
        """Write notes and acknowledgements to disk (fsync).

        Raises:
            OSError: it cannot be.
        """
        with self._lock:
            if self._file is not None and self._file.is_begun:
                self._file.journal.sync()

    def close(self) -> None:
        """Note the last place, and unlock the state for another watch.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            file = self._file
            if file is None:
                return
            try:
                if file.is_begun:
                    self._note_place(file, time.monotonic())
                    file.journal.sync()
            finally:
                file.close()
                file.is_begun = False
        if self._returned and not self._has_acknowledged:
            log.warning("%s: no change was acknowledged: without commit() all are told again", file.path)
            self._returned = 0

    def _save(self, file: StateFile) -> None:
        try:
            file.save(self._state)
        finally:  # on an error, too: all is acknowledged, and the journal may be a new one
            self._last_number = self._returned = 0
        self._placed = self._make_place()

    def _make_place(self) -> WatchPlace:
        state = self._state
        return WatchPlace(server=state.server, place=state.place, is_first=state.is_first)

    def _note_place(self, file: StateFile, now: float) -> None:
        place = self._make_place()
        if place != self._placed:
            file.journal.place(place)
        self._placed, self._placed_at, self._is_told = place, now, False

    def _sync(self, now: float) -> None:
        if self._file is not None and now >= self._synced_at + SYNC_EVERY_S:
            self._file.journal.sync()
            self._synced_at = now

    def _write(self, note: ObjectNote) -> int:
        with self._lock:
            if self._file is None or not self._file.is_begun:
                return 0
            return self._file.journal.note(note)


def _time_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
