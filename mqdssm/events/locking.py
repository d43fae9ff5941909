"""File lock that is released when its process ends."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError

_POLL_S: Final = 0.1


@contextlib.contextmanager
def locked(path: Path, *, wait_s: float, taken: str) -> Iterator[None]:
    """Lock a file for this process (of a watch: decision W7).

    Args:
        path: the file; it is made, and stays.
        wait_s: how long to wait for another process that holds it, in seconds.
        taken: what to say when it does not let go.

    Raises:
        ConfigError: another process holds it.
    """
    deadline = time.monotonic() + wait_s
    with path.open("ab") as file:
        while not _try(file.fileno()):
            if time.monotonic() >= deadline:
                raise ConfigError(taken)
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
