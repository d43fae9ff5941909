"""Files that survive a crash: locked by one process, replaced atomically, synced to the disk."""

import contextlib
import errno
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError

_POLL_S: Final = 0.1
_SYNCS_FOLDERS: Final = os.name == "posix"
"""False on Windows, which opens no folders, and syncs names itself."""
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Answers of file systems that cannot sync a folder."""


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


def replace_file(path: Path, pieces: "Iterable[bytes | memoryview]", *, mode: int = 0o600) -> None:
    """Write a file under a temporary name, sync it, rename it and sync its name (decision M97).

    Readers see the whole old file or the whole new one.

    Args:
        path: of the file, which is replaced.
        pieces: its content.
        mode: permissions of the file.

    Raises:
        OSError: the file cannot be written, and is as it was; or its new name cannot be synced.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk; do nothing where the system cannot (decision M97).

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


@contextlib.contextmanager
def locked(path: Path, *, wait_s: float, message: str) -> Iterator[None]:
    """Lock a file for this process (of a watch: decision W7).

    Args:
        path: the file; it is made, and stays.
        wait_s: how long to wait for another process that holds it, in seconds.
        message: of the error.

    Raises:
        ConfigError: another process holds it.
    """
    deadline = time.monotonic() + wait_s
    with path.open("ab") as file:
        while not _try(file.fileno()):
            if time.monotonic() >= deadline:
                raise ConfigError(message)
            time.sleep(_POLL_S)
        yield  # closing the file releases the lock


if sys.platform == "win32":
    import msvcrt

    def _try(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
