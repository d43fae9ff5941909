"""Text files that are replaced at once: readers see the old file or the new one, whole."""

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
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
