"""Where a watcher stands, in a file: it survives the watcher, and never half of it is there.

Lines of JSON: what the state is of, one line for each object, and the digest of all lines before. Written to
a file beside it, brought to the disk and renamed: a reader finds the old state or the new one.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.events.watching.mirror import Known, Mirror

FORMAT: Final = "mqdssm watch"
VERSION: Final = 1
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than any object may have in a directory."""
MODE: Final = 0o600
"""It holds what the directory shows to the watcher, and perhaps to nobody else."""

_KEY: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a state is of: one of another directory, or of other objects, is not gone on with.

    Attributes:
        directory: identifies it: the GUID of its root.
        root: the naming context that is watched.
        types: that are watched.
    """

    directory: str
    root: str
    types: tuple[str, ...]


@dataclass(slots=True)
class State:
    """Where a watcher stands.

    Attributes:
        subject: what is watched; None: nobody knows yet.
        server: whose place it is, as a URL.
        place: where to go on there; None: with a full comparison.
        mirror: what is known.
    """

    subject: Subject | None = None
    server: str = ""
    place: str | None = None
    mirror: Mirror = field(default_factory=Mirror)


class StateFile:
    """A state in a file; one watcher at a time has it."""

    def __init__(self, path: str | Path) -> None:
        """Nothing is opened yet."""
        self.path = Path(path)
        self._lock: IO[str] | None = None

    def load(self) -> State:
        """The state; an empty one where there is no file. From now on it is ours, until `close`.

        Raises:
            ConfigError: it is damaged, of another version, or another watcher has it.
            OSError: the file cannot be read.
        """
        self._take()
        try:
            return self._load()
        except BaseException:
            self.close()
            raise

    def save(self, state: State) -> None:
        """Write the state; on the disk when it returns.

        Raises:
            OSError: it cannot be written; then the old one is still there.
        """
        beside = self.path.with_name(self.path.name + ".new")
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), MODE)
        with open(handle, "wb") as file:  # noqa: PTH123  of a handle: its mode is ours from the beginning
            digest = hashlib.sha256()
            for line in _lines(state):
                file.write(line)
                digest.update(line)
            file.write(
                json.dumps({"objects": len(state.mirror), "sha256": digest.hexdigest()}).encode() + b"\n"
            )
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        _sync_folder(self.path.parent)

    def close(self) -> None:
        """Let another watcher have it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take(self) -> None:
        try:
            import fcntl  # noqa: PLC0415  not everywhere
        except ImportError:  # pragma: no cover  nothing to lock with
            return
        lock = self.path.with_name(self.path.name + ".lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise ConfigError(
                f"{self.path}: another watcher works with this state: give each its own"
            ) from None
        self._lock = lock

    def _load(self) -> State:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return State()
        with file:
            state, digest, count = State(), hashlib.sha256(), 0
            for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b"")):
                said = self._parsed(line)
                if number == 0:
                    self._begin(state, said)
                elif "sha256" in said:
                    if (said["sha256"], said.get("objects")) != (digest.hexdigest(), count) or file.read(1):
                        raise self._damaged("its digest is another one")
                    state.mirror.is_complete = True
                    return state
                else:
                    self._put(state.mirror, said)
                    count += 1
                digest.update(line)
        raise self._damaged("its end is missing")

    def _begin(self, state: State, said: dict[str, Any]) -> None:
        if said.get("format") != FORMAT:
            raise ConfigError(f"{self.path}: this is no state of mqdssm watch: name another file")
        if said.get("version") != VERSION:
            raise ConfigError(
                f"{self.path}: its version is {said.get('version')!r}, not {VERSION}: it is another mqdssm's; "
                "go on with that one, or remove the file to begin anew"
            )
        try:
            subject = said["subject"]
            state.subject = Subject(
                directory=str(subject["directory"]), root=str(subject["root"]), types=tuple(subject["types"])
            )
            state.server, state.place = str(said["server"]), said["place"]
        except (KeyError, TypeError):
            raise self._damaged("its first line lacks something") from None
        if state.place is not None and not isinstance(state.place, str):
            raise self._damaged("its place is no text")

    def _put(self, mirror: Mirror, said: dict[str, Any]) -> None:
        try:
            key, known = said.pop("key"), Known(**said)
        except (KeyError, TypeError):
            raise self._damaged("an object lacks something") from None
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise self._damaged(f"{key!r} is no key")
        mirror.put(key, known)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            said = json.loads(line)
        except ValueError:
            raise self._damaged("a line is no JSON") from None
        if not isinstance(said, dict):
            raise self._damaged("a line is no object")
        return said

    def _damaged(self, words: str) -> ConfigError:
        return ConfigError(
            f"{self.path}: this state is damaged, {words}: bring back a copy, or remove it to begin anew "
            "(what happened since is not told then)"
        )


def _lines(state: State) -> Iterator[bytes]:
    head = {
        "format": FORMAT,
        "version": VERSION,
        "subject": None if state.subject is None else asdict(state.subject),
        "server": state.server,
        "place": state.place,
    }
    yield _line(head)
    for key, known in state.mirror:
        yield _line({"key": key, **asdict(known)})


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"


def _sync_folder(folder: Path) -> None:
    """Bring the renaming to the disk, where folders can be."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
