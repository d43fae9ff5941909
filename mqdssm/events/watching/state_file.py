"""Where a watcher stands, in a file: it survives the watcher, and never half of it is there.

Lines of JSON: what the state is of, one line for each object, and the digest of all lines before. Written to
a file beside it, brought to the disk and renamed: a reader finds the old state or the new one. Between two
states each change is noted, before it is told, in another file beside it.
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
from mqdssm.events.locking import locked
from mqdssm.events.watching.mirror import Known, Mirror

FORMAT: Final = "mqdssm watch"
VERSION: Final = 1
_BEGINNING: Final = b"{"
"""A file that begins otherwise is somebody else's: nobody is told to remove it."""
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than any object may have in a directory."""
MODE: Final = 0o600
"""It holds what the directory shows to the watcher, and perhaps to nobody else."""

_KEY: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a state is of: one of another directory, or of other objects, is not gone on with (decision W6).

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
    """Where a watcher stands (decision W7).

    Attributes:
        subject: what is watched; None: nobody knows yet.
        server: whose place it is, as a URL.
        place: where to go on there; None: with a full comparison.
        mirror: what is known.
        told: what was about to be told when the state was saved.
    """

    subject: Subject | None = None
    server: str = ""
    place: str | None = None
    mirror: Mirror = field(default_factory=Mirror)
    told: list[tuple[str, Known | None]] = field(default_factory=list)


class StateFile:
    """A state in a file; one watcher at a time has it (decisions W6, W7)."""

    def __init__(self, path: str | Path) -> None:
        """Nothing is opened yet."""
        given = Path(path)
        # what a link leads to is the state: two names of it have one lock, and the link stays one
        self.path = given.resolve() if given.is_symlink() else given
        self._stack = contextlib.ExitStack()
        self._notes: IO[bytes] | None = None
        self._last: tuple[str, Known | None] | None = None

    def load(self) -> State:
        """The state; an empty one where there is no file. From now on it is ours, until `close`.

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

    def note(self, key: str, known: Known | None) -> None:
        """Note what is about to be told, once the first state was saved: all that was noted before was told.

        Raises:
            OSError: it cannot be written.
        """
        self._last = key, known
        if self._notes is not None:
            self._notes.write(_line(_with_key(key, known)))
            self._notes.flush()  # survives us, which is what counts; a crash of the machine may repeat more

    def told(self) -> None:
        """All that was noted has been told."""
        self._last = None

    def save(self, state: State) -> None:
        """Write the state; on the disk when it returns.

        Raises:
            OSError: it cannot be written; then the old one is still there.
        """
        beside = self._beside(".new")
        beside.unlink(missing_ok=True)
        try:
            digest = self._write(beside, state)
            beside.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)  # a full disk needs the room
            raise
        _sync_folder(self.path.parent)
        self._begin_notes(digest)

    def _write(self, beside: Path, state: State) -> str:
        """Bring a state to the disk; its digest."""
        digest = hashlib.sha256()
        with open(beside, "xb", opener=_private) as file:
            for line in _lines(state, self._last):
                file.write(line)
                digest.update(line)
            file.write(_line({"objects": len(state.mirror), "sha256": digest.hexdigest()}))
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _begin_notes(self, digest: str) -> None:
        """Note from now on what is told beyond the state of a digest."""
        self._end_notes()
        place = self._beside(".told")
        place.unlink(missing_ok=True)
        self._notes = open(place, "xb", opener=_private)  # noqa: SIM115  closed with this
        self._notes.write(_line({"state": digest}))
        self._notes.flush()

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def close(self) -> None:
        """Let another watcher have it."""
        self._end_notes()
        self._stack.close()

    def _check_place(self) -> None:
        """Refuse what can be no file; whether it can be written, its lock tells.

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

    def _end_notes(self) -> None:
        notes, self._notes = self._notes, None
        if notes is not None:
            with contextlib.suppress(OSError):  # that it could not be written was said when it was noted
                notes.close()

    def _take(self) -> None:
        taken = f"{self.path}: another watcher works with this state: give each its own"
        try:
            self._stack.enter_context(locked(self._beside(".lock"), wait_s=0, taken=taken))
        except PermissionError as error:
            raise ConfigError(
                f"{self.path}: the state, and files beside it, cannot be written in this folder "
                f"({error.strerror}): name a file where you may write"
            ) from error

    def _load(self) -> State:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return State()
        with file:
            state, digest, count = State(), hashlib.sha256(), 0
            for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b"")):
                if number == 0 and not line.startswith(_BEGINNING):
                    raise ConfigError(f"{self.path}: this is no state of mqdssm watch: name another file")
                said = self._parsed(line)
                if number == 0:
                    self._begin(state, said)
                elif "sha256" in said:
                    if (said["sha256"], said.get("objects")) != (digest.hexdigest(), count) or file.read(1):
                        raise self._damaged("its digest is another one")
                    state.mirror.is_complete = True
                    state.mirror.replay([*state.told, *self._noted_since(digest.hexdigest())])
                    self._last = state.mirror.doubt
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
                f"{self.path}: its version is {said.get('version')!r}, not {VERSION}: "
                "go on with that one, or remove the file to begin anew"
            )
        try:
            subject = said["subject"]
            state.subject = Subject(
                directory=str(subject["directory"]), root=str(subject["root"]), types=tuple(subject["types"])
            )
            state.server, state.place = str(said["server"]), said["place"]
            state.told = [] if said["told"] is None else [_known_in(said["told"])]
        except (KeyError, TypeError, ValueError):
            raise self._damaged("its first line lacks something") from None
        if state.place is not None and not isinstance(state.place, str):
            raise self._damaged("its place is no text")

    def _put(self, mirror: Mirror, said: dict[str, Any]) -> None:
        try:
            mirror.put(*_known_in(said))
        except (KeyError, TypeError, ValueError):
            raise self._damaged("an object lacks something") from None

    def _noted_since(self, digest: str) -> Iterator[tuple[str, Known | None]]:
        """What was noted beyond the state of a digest; a line that is not whole was never told."""
        try:
            lines = self._beside(".told").read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return
        if not lines or lines[0] != _line({"state": digest}):
            return  # of an older state
        for line in lines[1:]:
            if line.endswith(b"\n"):
                try:
                    yield _known_in(self._parsed(line))
                except (KeyError, TypeError, ValueError):
                    raise self._damaged("what was told since lacks something") from None

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged("a line is no JSON") from None
        if not isinstance(said, dict):
            raise self._damaged("a line is no object")
        return said

    def _damaged(self, words: str) -> ConfigError:
        return ConfigError(
            f"{self.path}: this state is damaged, {words}: bring back a copy, or remove it to begin anew "
            "(what happened since is not told then)"
        )


def _lines(state: State, told: tuple[str, Known | None] | None) -> Iterator[bytes]:
    head = {
        "format": FORMAT,
        "version": VERSION,
        "subject": None if state.subject is None else asdict(state.subject),
        "server": state.server,
        "place": state.place,
        "told": None if told is None else _with_key(*told),
    }
    yield _line(head)
    for key, known in state.mirror:
        yield _line(_with_key(key, known))


def _with_key(key: str, known: Known | None) -> dict[str, Any]:
    return {"key": key} if known is None else {"key": key, **asdict(known)}


def _known_in(said: dict[str, Any]) -> tuple[str, Known | None]:
    """An object of a line.

    Raises:
        KeyError, TypeError, ValueError: something else.
    """
    key = said.pop("key")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key")
    return key, Known(**said) if said else None


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, MODE)


def _sync_folder(folder: Path) -> None:
    """Bring the renaming to the disk, where folders can be."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
