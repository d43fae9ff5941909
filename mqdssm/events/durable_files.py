"""Files that survive a crash, and that belong to this user.

A file is locked by one process, replaced atomically, and synced to the disk.
"""

import contextlib
import errno
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from mqdssm.errors import ConfigError, convert_folder_errors

T = TypeVar("T")

_POLL_S: Final = 0.1
_SYNCS_FOLDERS: Final = os.name == "posix"
"""False on Windows, which opens no folders, and syncs names itself."""
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Answers of file systems that cannot sync a folder."""
_STRICT: Final = 0o077


def read_umask() -> int:
    """Return the umask of this process, which can only be read by setting one."""
    umask = os.umask(_STRICT)
    os.umask(umask)
    return umask


@contextlib.contextmanager
def set_umask(umask: int) -> Iterator[None]:
    """Set the umask of this process until the context ends."""
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def write_atomically(path: Path, pieces: Iterable[str], *, mode: int = 0o600) -> None:
    """Replace a text file, as `replace_file` does (decision M97).

    Args:
        path: of the file.
        pieces: its text, UTF-8.
        mode: permissions of the file.

    Raises:
        ConfigError: the file cannot be written; it is the whole old file or the whole new one.
    """
    try:
        replace_file(path, (piece.encode() for piece in pieces), mode=mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def replace_file(
    path: Path, pieces: "Iterable[bytes | memoryview]", *, mode: int | None = 0o600, draft: Path | None = None
) -> None:
    """Write a file atomically and durably (decision M97).

    The content is written under a temporary name, synced and renamed; then the name is synced.

    Readers see the whole old file or the whole new one.

    Args:
        path: of the file, which is replaced.
        pieces: its content.
        mode: permissions of the file; None: as the umask allows.
        draft: temporary name in the same folder; None: a random one, so that several processes can write.

    Raises:
        OSError: the file cannot be written, and is as it was; or its new name cannot be synced.
    """
    draft = draft or path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(draft, "xb", opener=partial(os.open, mode=0o666 if mode is None else 0o600)) as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            draft.chmod(mode)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk (decision M97).

    Where the system cannot sync a folder, nothing is done.

    A folder that may be used and not listed, as the parent of a state folder, is synced with everything else.

    Raises:
        OSError: the folder does not exist, or the disk fails.
    """
    if not _SYNCS_FOLDERS:
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        os.sync()
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


def make_empty_folder(folder: Path, hint: str = "name a new folder") -> None:
    """Create a folder if it does not exist, and check that it is empty.

    Args:
        folder: its path.
        hint: the end of the error for a folder that is not empty.

    Raises:
        ConfigError: it has files in it, or cannot be made.
    """
    with convert_folder_errors(f"{folder} cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: {hint}")


def check_own(path: Path) -> None:
    """Check that a file or folder is this user's; nothing is checked on Windows.

    Raises:
        ConfigError: it, or a link to it, belongs to another user, or others may write to it.
        OSError: it does not exist.
    """
    if sys.platform == "win32":
        return
    status = path.stat()
    if {path.lstat().st_uid, status.st_uid} != {os.getuid()}:
        raise ConfigError(f"{path} belongs to another user: name a folder of your own")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"others may write to {path}: chmod go-w {path}, if nobody has done so yet")


@contextlib.contextmanager
def lock_file(path: Path, *, wait_s: float, message: str) -> Iterator[None]:
    """Lock a file for this process (of a watch: decision W7).

    Args:
        path: the file; it is made, and stays. A symbolic link is refused: in a folder of several users
            another one can have made it.
        wait_s: how long to wait for another process that holds it, in seconds.
        message: of the error.

    Raises:
        ConfigError: another process holds it.
        OSError: it cannot be opened, or is a symbolic link.
    """
    deadline = time.monotonic() + wait_s
    with open(path, "ab", opener=_open_no_link) as file:
        while not _try(file.fileno()):
            if time.monotonic() >= deadline:
                raise ConfigError(message)
            time.sleep(_POLL_S)
        yield  # closing the file releases the lock


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


class LockedDocument(Generic[T]):
    """JSON document of one process: locked until `close`, and replaced atomically.

    Args:
        file: holds the document; it is made with mode 0600 by the first `write`.
        title: words for the content, as "message numbers": the member ``format`` is "mqdssm TITLE".
        owner: words for a process that has such a file, as "server".
        parse: makes the content from the document; it raises ValueError, LookupError, TypeError or
            AttributeError if the document is damaged.

    Attributes:
        content: of the file when it was opened; None: there was no file.

    Raises:
        ConfigError: the file is damaged or cannot be read, or another process has it.
    """

    def __init__(self, file: Path, *, title: str, owner: str, parse: Callable[[Any], T]) -> None:
        self._file = file
        self._format = f"mqdssm {title}"
        with contextlib.ExitStack() as stack:
            try:
                lock_message = f"{file}: another {owner} has this file: give each process a folder of its own"
                stack.enter_context(
                    lock_file(file.with_name(f"{file.name}.lock"), wait_s=0, message=lock_message)
                )
                self.content: Final = self._read(parse) if file.exists() else None
            except OSError as error:
                raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
            except (ValueError, LookupError, TypeError, AttributeError):
                raise ConfigError(
                    f"{file} is damaged, or no file of {title}: remove it, or name another file"
                ) from None
            self._stack: Final = stack.pop_all()

    def _read(self, parse: Callable[[Any], T]) -> T:
        document = json.loads(self._file.read_bytes())
        if document["format"] != self._format:
            raise ValueError
        return parse(document)

    def write(self, **members: Any) -> None:
        """Replace the document.

        Raises:
            ConfigError: the file cannot be written; the old document is as it was.
        """
        write_atomically(self._file, [json.dumps({"format": self._format, **members}), "\n"])

    def close(self) -> None:
        """Unlock the file for other processes."""
        self._stack.close()


if sys.platform == "win32":
    import msvcrt

    def _try(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try(handle: int) -> bool:
        import fcntl  # noqa: PLC0415  only who locks a file needs it: the module loads without it

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
