"""Atomic replacement of files: readers see the whole old file or the whole new one."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mqdssm.errors import ConfigError


def write_atomically(path: Path, pieces: Iterable[str], *, mode: int = 0o600) -> None:
    """Write a text file under a temporary name, then rename it.

    Args:
        path: of the file, which is replaced.
        pieces: its text, UTF-8.
        mode: permissions of the file.

    Raises:
        ConfigError: the file cannot be written; the old file is as it was.
    """
    try:
        replace_file(path, (piece.encode() for piece in pieces), mode=mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def replace_file(path: Path, pieces: "Iterable[bytes | memoryview]", *, mode: int = 0o600) -> None:
    """Write a file under a temporary name, sync it to the disk, then rename it.

    Args:
        path: of the file, which is replaced.
        pieces: its content.
        mode: permissions of the file.

    Raises:
        OSError: the file cannot be written; the old file is as it was.
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


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows cannot open folders, and syncs names itself
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
