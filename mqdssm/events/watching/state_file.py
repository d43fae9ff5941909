"""State file of a watch, replaced atomically.

Lines of JSON: what the state is of, one line for each object, and the digest of all lines before. Written to
a file beside it, brought to the disk and renamed: a reader finds the old state or the new one. What happens
after that is appended to a journal beside it; a new state is written when the journal is as large as the old.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import lock_file, sync_folder
from mqdssm.events.watching.journal import LINE_BYTES_MAX, MODE, ObjectNote, WatchJournal, WatchPlace
from mqdssm.events.watching.watch_cache import KnownObject, WatchCache

FORMAT: Final = "mqdssm watch"
VERSION: Final = 2
_VERSION_1: Final = 1
"""Format without versions of entries, so that everything is compared. Changes that were told after it
are in another file, and all but the last of them arrived."""
_BEGINNING: Final = b"{"
"""First character of a state file; other files are never suggested for removal."""
JOURNAL_BYTES_MIN: Final = 1024 * 1024
"""Minimum size of a journal before a new state replaces it, in octets."""

_OTHER: Final = frozenset({"key", "version"})
"""Fields in the line of an entry that is not watched (`WatchCache.others`)."""
_KEY: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Directory and types of a state; a state of others is refused (decision W6).

    Attributes:
        directory: identifies it: the GUID of its root.
        root: the naming context that is watched.
        types: that are watched.
    """

    directory: str
    root: str
    types: tuple[str, ...]


@dataclass(slots=True)
class WatchState:
    """State of a watch (decision W7).

    Attributes:
        subject: the subject of the watch; None if it is unknown yet.
        server: URL of the server that understands the place.
        place: where to go on there; None: with a full comparison.
        mirror: the objects as they were when all acknowledged changes had been told.
        is_first: what existed before the first start is still being told.
        doubts: notes from the first change that was not acknowledged on.
    """

    subject: Subject | None = None
    server: str = ""
    place: str | None = None
    mirror: WatchCache = field(default_factory=WatchCache)
    is_first: bool = False
    doubts: deque[ObjectNote] = field(default_factory=deque)


class StateFile:
    """State file with its journal, locked for one watch (decisions W6, W7).

    Attributes:
        path: of the file.
        journal: of what happened after the state was saved.
        is_begun: there is a state, so that notes can be made.
    """

    def __init__(self, path: str | Path) -> None:
        """Initialize without opening the file."""
        state_path = Path(path)
        # the target of a symbolic link is the state, so that two names share one lock
        self.path = state_path.resolve() if state_path.is_symlink() else state_path
        self._stack = contextlib.ExitStack()
        self._size = 0
        self.journal = WatchJournal(self._make_path_beside(".journal"))
        self.is_begun = False

    def load(self) -> WatchState:
        """Lock and read the state until `close`.

        Returns an empty state if there is no file.

        Raises:
            ConfigError: it is damaged, of another version, another watcher has it, or it cannot be
                kept there.
            OSError: the file cannot be read.
        """
        self._check_place()
        self._take()
        try:
            return self._load()
        except BaseException:
            self.close()
            raise

    @property
    def is_due(self) -> bool:
        """True if the journal is large enough for a new state."""
        return self.journal.size > max(JOURNAL_BYTES_MIN, self._size)

    def save(self, state: WatchState) -> None:
        """Write the state to disk, and begin a new journal.

        Every change that the journal has must be acknowledged.

        Raises:
            OSError: it cannot be written, and the old one is still there; or its name cannot be synced.
        """
        beside = self._make_path_beside(".new")
        beside.unlink(missing_ok=True)
        try:
            digest = self._write(beside, state)
            beside.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)  # a full disk needs the room
            raise
        try:
            sync_folder(self.path.parent)
        finally:  # on an error, too: later notes belong to the state that is there
            self.journal.begin(digest)
            self._size = self.path.stat().st_size
            self.is_begun = True

    def _write(self, beside: Path, state: WatchState) -> str:
        """Write a state to disk; return its digest."""
        digest = hashlib.sha256()
        with open(beside, "xb", opener=_open_private) as file:
            for line in _encode_state(state):
                file.write(line)
                digest.update(line)
            count = len(state.mirror) + len(state.mirror.others)
            file.write(_encode_record({"objects": count, "sha256": digest.hexdigest()}))
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _make_path_beside(self, suffix: str) -> Path:
        return self.path.parent / f"{self.path.name}{suffix}"

    def close(self) -> None:
        """Close the journal and unlock the state."""
        self.journal.close()
        self._stack.close()

    def _check_place(self) -> None:
        """Raise ConfigError if the path cannot be a file.

        Raises:
            ConfigError: it has no name, is a folder, or is in one that does not exist.
        """
        if not self.path.name:
            raise ConfigError(f"{str(self.path)!r} is no place for a state: name a file")
        if self.path.is_dir():
            raise ConfigError(f"{self.path}: this is a folder: name a file for the state")
        if not self.path.parent.is_dir():
            raise ConfigError(
                f"{self.path}: there is no folder {self.path.parent}: make it, or name another file"
            )

    def _take(self) -> None:
        lock_message = f"{self.path}: another watcher works with this state: give each its own"
        try:
            self._stack.enter_context(
                lock_file(self._make_path_beside(".lock"), wait_s=0, message=lock_message)
            )
        except PermissionError as error:
            raise ConfigError(
                f"{self.path}: the state, and files beside it, cannot be written in this folder "
                f"({error.strerror}): name a file where you may write"
            ) from error

    def _load(self) -> WatchState:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return WatchState()
        with file:
            state, digest, count = WatchState(), hashlib.sha256(), 0
            for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b"")):
                if number == 0 and not line.startswith(_BEGINNING):
                    raise ConfigError(f"{self.path}: this is no state of mqdssm watch: name another file")
                record = self._parse_record(line)
                if number == 0:
                    self._begin(state, record)
                elif "sha256" in record:
                    if (record["sha256"], record.get("objects")) != (digest.hexdigest(), count) or file.read(
                        1
                    ):
                        raise self._make_damaged("its digest is another one")
                    state.mirror.is_complete = True
                    self._size = file.tell()
                    self._resume_journal(state, digest.hexdigest())
                    return state
                else:
                    self._put(state.mirror, record)
                    count += 1
                digest.update(line)
        raise self._make_damaged("its end is missing")

    def _begin(self, state: WatchState, record: dict[str, Any]) -> None:
        if record.get("format") != FORMAT:
            raise ConfigError(f"{self.path}: this is no state of mqdssm watch: name another file")
        version = record.get("version")
        if version not in {_VERSION_1, VERSION}:
            raise ConfigError(
                f"{self.path}: its version is {version!r}, not {VERSION}: "
                "go on with that one, or remove the file to begin anew"
            )
        try:
            subject = record["subject"]
            state.subject = Subject(
                directory=str(subject["directory"]), root=str(subject["root"]), types=tuple(subject["types"])
            )
            state.server, state.place = str(record["server"]), record["place"]
            state.is_first = version == VERSION and record["first"] is True
            if version == _VERSION_1 and record["told"] is not None:
                state.doubts.append(_make_note(record["told"]))
        except (KeyError, TypeError, ValueError):
            raise self._make_damaged("its first line lacks something") from None
        if state.place is not None and not isinstance(state.place, str):
            raise self._make_damaged("its place is no text")
        if version == _VERSION_1:
            state.place = None

    def _put(self, mirror: WatchCache, record: dict[str, Any]) -> None:
        try:
            if record.keys() == _OTHER:
                mirror.others[_parse_key(record)] = str(record["version"])
            else:
                mirror.put(*_parse_known(record))
        except (KeyError, TypeError, ValueError):
            raise self._make_damaged("an object lacks something") from None

    def _resume_journal(self, state: WatchState, digest: str) -> None:
        """Apply the journal to a state, and resume it."""
        if not self.journal.resume(digest):
            doubts = [*state.doubts, *self._read_version_1_changes(digest)]
            self.journal.begin(digest, doubts, acknowledged=max(0, len(doubts) - 1))
        self._make_path_beside(".told").unlink(missing_ok=True)
        self.is_begun = True
        state.doubts.clear()
        for record in self.journal.read_records():
            if isinstance(record, WatchPlace):
                if not state.doubts:
                    state.server, state.place, state.is_first = record.server, record.place, record.is_first
            elif state.doubts or (record.is_change and record.number > self.journal.acknowledged):
                state.doubts.append(record)
            else:
                state.mirror.put(record.key, record.known_object)

    def _read_version_1_changes(self, digest: str) -> Iterator[ObjectNote]:
        """Yield the changes that version 1 returned after a state.

        An incomplete line was never returned.
        """
        try:
            file = self._make_path_beside(".told").open("rb")
        except FileNotFoundError:
            return
        with file:
            if file.readline(LINE_BYTES_MAX) != _encode_record({"state": digest}):
                return  # of an older state
            for line in iter(lambda: file.readline(LINE_BYTES_MAX), b""):
                if line.endswith(b"\n"):
                    try:
                        yield _make_note(self._parse_record(line))
                    except (KeyError, TypeError, ValueError):
                        raise self._make_damaged("what was told since lacks something") from None

    def _parse_record(self, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise self._make_damaged("a line is no JSON") from None
        if not isinstance(record, dict):
            raise self._make_damaged("a line is no object")
        return record

    def _make_damaged(self, words: str) -> ConfigError:
        return ConfigError(
            f"{self.path}: this state is damaged, {words}: bring back a copy, or remove it to begin anew "
            "(what happened since is not told then)"
        )


def _make_note(record: dict[str, Any]) -> ObjectNote:
    """Make a note from a change of version 1.

    Raises:
        KeyError, TypeError, ValueError: something else.
    """
    key, known_object = _parse_known(record)
    return ObjectNote(key=key, known_object=known_object, id=str(uuid4()), time=time.time())


def _encode_state(state: WatchState) -> Iterator[bytes]:
    head = {
        "format": FORMAT,
        "version": VERSION,
        "subject": None if state.subject is None else asdict(state.subject),
        "server": state.server,
        "place": state.place,
        "first": state.is_first,
    }
    yield _encode_record(head)
    for key, known_object in state.mirror:
        yield _encode_record({"key": key, **asdict(known_object)})
    for key, version in state.mirror.others.items():
        yield _encode_record({"key": key, "version": version})


def _parse_known(record: dict[str, Any]) -> tuple[str, KnownObject | None]:
    """Make an object from a parsed line.

    Raises:
        KeyError, TypeError, ValueError: something else.
    """
    key = _parse_key(record)
    return key, KnownObject(**record) if record else None


def _parse_key(record: dict[str, Any]) -> str:
    key = record.pop("key")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key")
    return key


def _encode_record(record: dict[str, Any]) -> bytes:
    return (
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"
    )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, MODE)
