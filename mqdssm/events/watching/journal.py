"""Journal of a watch: changes and acknowledgements since its state was saved.

Lines are only appended, so that a watcher writes as much as it has to tell. Each line has a checksum: after a
power failure the end of a file may hold anything.
"""

import contextlib
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mqdssm.errors import ConfigError
from mqdssm.events.watching.watch_cache import KnownObject
from mqdssm.model.watching import ChangeEvent

log: Final = logging.getLogger(__name__)

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum octets of a line; no object of a directory is larger."""
MODE: Final = 0o600
"""File mode: the files hold data that perhaps only this user may read."""
_CHECKSUM_CHARS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNote:
    """Record of the new state of one object (decision W13).

    Attributes:
        key: of the object.
        known_object: its new state; None: the object is gone.
        number: position among the notes of the journal, from 1.
        id: id of the resulting change; "" if there was none.
        time: when the change was seen, in seconds since 1970.
        event: of the change; None: as the states of the object say.
    """

    key: str
    known_object: KnownObject | None
    number: int = 0
    id: str = ""
    time: float = 0.0
    event: ChangeEvent | None = None

    @property
    def is_change(self) -> bool:
        """True if the note is of a change."""
        return bool(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlace:
    """Place to resume from once every earlier change is acknowledged (decision W13).

    Attributes:
        server: URL of the server that understands the place.
        place: of `Hints.place`.
        is_first: what existed before the first start is still being told.
    """

    server: str
    place: str | None
    is_first: bool


class WatchJournal:
    """Journal file of one saved state (decisions W7, W13, W14).

    Attributes:
        size: octets of the file; 0: there is none yet.
        noted: number of the last note.
        changes: number of the last note that is of a change.
        acknowledged: number of the last note that is acknowledged, with all before it.
    """

    def __init__(self, path: Path) -> None:
        """Initialize without opening the file."""
        self._path = path
        self._handle: int | None = None
        self._is_synced = True
        self.size = self.noted = self.changes = self.acknowledged = 0

    @property
    def is_settled(self) -> bool:
        """True if every change is acknowledged."""
        return self.changes <= self.acknowledged

    def begin(self, digest: str, notes: Iterable[ObjectNote] = (), *, acknowledged: int = 0) -> None:
        """Replace the journal by a new one, and write it to disk.

        Args:
            digest: of the state that it belongs to.
            notes: the first notes.
            acknowledged: how many of these are.

        Raises:
            OSError: it cannot be written; then the old one is still there.
        """
        self.close()
        beside = self._path.with_name(self._path.name + ".new")
        beside.unlink(missing_ok=True)
        self.size = self.noted = self.changes = self.acknowledged = 0
        self._handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, MODE)
        self._append({"state": digest})
        for note in notes:
            self.note(note)
        if acknowledged:
            self.acknowledge(acknowledged)
        self.sync()
        self.close()  # where open files cannot be renamed
        beside.replace(self._path)
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def resume(self, digest: str) -> bool:
        """Resume the journal of a state; incomplete lines at its end are removed.

        Returns:
            False where there is none.

        Raises:
            OSError: the file cannot be read or written.
        """
        self.close()
        self.size = self.noted = self.changes = self.acknowledged = 0
        lines = self._read_records()
        if next(lines, None) != {"state": digest}:
            return False
        for record in lines:
            if "key" in record:
                self.noted += 1
                self.changes = self.noted if record.get("id") else self.changes
            self.acknowledged = max(self.acknowledged, record.get("acknowledged", 0))
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        if os.fstat(self._handle).st_size > self.size:
            log.warning("%s: its end is damaged: what it held is told again", self._path)
            os.ftruncate(self._handle, self.size)
        return True

    def read_records(self) -> Iterator[ObjectNote | WatchPlace]:
        """Yield notes and places, in the order in which they were written.

        Raises:
            ConfigError: a line lacks something.
            OSError: the file cannot be read.
        """
        number, end, self.size = 0, self.size, 0
        for record in self._read_records():
            try:
                if "key" in record:
                    number += 1
                    yield _note_in(record, number)
                elif "place" in record:
                    place = None if record["place"] is None else str(record["place"])
                    yield WatchPlace(
                        server=str(record["server"]), place=place, is_first=record["first"] is True
                    )
            except (KeyError, TypeError, ValueError):
                raise ConfigError(f"{self._path}: a line lacks something: remove this file") from None
        self.size = end

    def note(self, note: ObjectNote) -> int:
        """Append a note.

        Returns:
            Its number.

        Raises:
            OSError: it cannot be written; then it counts for nothing.
        """
        record: dict[str, Any] = {
            "key": note.key,
            "known": None if note.known_object is None else asdict(note.known_object),
        }
        if note.is_change:
            event = None if note.event is None else note.event.value
            record = {"id": note.id, "time": note.time, "event": event, **record}
        self._append(record)
        self.noted += 1
        if note.is_change:
            self.changes = self.noted
        return self.noted

    def acknowledge(self, number: int) -> None:
        """Append an acknowledgement of all notes up to a number.

        Raises:
            OSError: it cannot be written; then they are not.
        """
        self._append({"acknowledged": number})
        self.acknowledged = number

    def place(self, place: WatchPlace) -> None:
        """Append a place.

        Raises:
            OSError: it cannot be written; then it counts for nothing.
        """
        self._append({"server": place.server, "place": place.place, "first": place.is_first})

    def sync(self) -> None:
        """Write appended lines to disk (fsync).

        Raises:
            OSError: it cannot be.
        """
        if self._handle is not None and not self._is_synced:
            os.fsync(self._handle)
            self._is_synced = True

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):  # write errors were raised before
                os.close(handle)

    def _append(self, record: dict[str, Any]) -> None:
        if self._handle is None:
            raise ValueError(f"{self._path} is closed")
        unwritten = memoryview(_encode_record(record))
        size = self.size + len(unwritten)
        self._is_synced = False
        try:
            while unwritten:
                unwritten = unwritten[os.write(self._handle, unwritten) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self.size)  # half a line would hide those behind it
            raise
        self.size = size

    def _read_records(self) -> Iterator[dict[str, Any]]:
        """Yield the lines up to the first damaged one, and update `size`."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in iter(lambda: file.readline(LINE_BYTES_MAX), b""):
                record = _parse_record(line)
                if record is None:
                    return
                self.size += len(line)
                yield record


def _encode_record(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parse_record(line: bytes) -> dict[str, Any] | None:
    """Parse a line; None if it is damaged."""
    text = line[_CHECKSUM_CHARS + 1 : -1]
    if line != b"%08x %s\n" % (zlib.crc32(text), text):
        return None
    record = json.loads(text)
    return record if isinstance(record, dict) else None


def _note_in(record: dict[str, Any], number: int) -> ObjectNote:
    """Make a note from a parsed line.

    Raises:
        KeyError, TypeError, ValueError: something else.
    """
    known_values, event = record["known"], record.get("event")
    return ObjectNote(
        key=str(record["key"]),
        known_object=None if known_values is None else KnownObject(**known_values),
        number=number,
        id=str(record.get("id", "")),
        time=float(record.get("time", 0.0)),
        event=None if event is None else ChangeEvent(event),
    )
