"""A disk of a few megabytes, which tests fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PIECE = 1 << 16


class SmallDisk:
    """A file system in memory.

    Args:
        path: where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no room at all."""
        handle = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        size = _PIECE
        try:
            while size:
                try:
                    os.write(handle, b"x" * size)
                except OSError:
                    size //= 2
        finally:
            os.close(handle)
        assert os.statvfs(self.path).f_bavail == 0

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink()


@contextmanager
def small_disk(path: Path, size: str = "4m") -> Iterator[SmallDisk]:
    """Mount a small disk at a new folder; root can do that, and for others the test skips."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted by root: sudo make test")
    path.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"root may not mount a disk here: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
