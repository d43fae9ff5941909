"""Files that are replaced at once: readers see the old file or the new one, whole."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mqdssm.errors import ConfigError


def write_atomically(path: Path, pieces: Iterable[str], *, mode: int = 0o600) -> None:
    """Write a text file beside its place, and move it there.

    Args:
        path: of the file, which is replaced.
        pieces: its text, UTF-8.
        mode: who may read it.

    Raises:
        ConfigError: it cannot be written; the old file is as it was.
    """
    try:
        replace_file(path, (piece.encode() for piece in pieces), mode=mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def replace_file(path: Path, pieces: "Iterable[bytes | memoryview]", *, mode: int = 0o600) -> None:
    """Write a file beside its place, bring it to the disk, and move it there.

    Args:
        path: of the file, which is replaced.
        pieces: its content.
        mode: who may read it.

    Raises:
        OSError: it cannot be written; the old file is as it was.
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
    """Make sure that the names in a folder are on the disk."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders, and keeps names safe itself
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
