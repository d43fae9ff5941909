"""Folders that all workers of a job see.

The workers are on this machine or on all machines of a cluster.
"""

import contextlib
import errno
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from mqdssm.errors import ConfigError, convert_folder_errors, make_full_disk_error
from mqdssm.pipeline.spark_options import SparkOptions


@dataclass(frozen=True, slots=True)
class WitnessFile:
    """File that the driver sees, to detect machines that do not share its folder.

    Attributes:
        path: of the file.
        size: in bytes.
        time_ns: time of modification in nanoseconds.
    """

    path: str
    size: int
    time_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return path, size and time of a file."""
        status = path.stat()
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Check that this machine, perhaps an executor, sees the same file.

        Raises:
            ConfigError: the file is missing or different here.
        """
        try:
            if WitnessFile.of(Path(self.path)) == self:
                return
            why = "there is another file of this name"
        except OSError as error:
            why = error.strerror or str(error)
        raise ConfigError(
            f"executor {socket.gethostname()} does not see {self.path} as this machine does ({why}): use a "
            "folder that all machines of the cluster share under the same path, and may write to"
        )


@contextlib.contextmanager
def make_scratch(on: SparkOptions, prefix: str) -> Iterator[Path]:
    """Make a temporary folder that all workers see, and remove it at the end.

    Args:
        on: where Spark runs.
        prefix: of its name.

    Raises:
        ConfigError: no shared folder was named on a cluster, or it cannot be used.
    """
    if on.is_cluster and on.shared is None:
        raise ConfigError(
            "on a cluster this needs a folder that all machines share, for what lies between: name one with "
            "--spark-shared"
        )
    with make_temporary_folder(on.shared if on.is_cluster else None, prefix) as folder:
        yield folder


@contextlib.contextmanager
def make_temporary_folder(parent: Path | None, prefix: str) -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end.

    The folder is removed even if a late worker still writes to it.

    Args:
        parent: folder above it; None: the one for temporary files.
        prefix: of its name.

    Raises:
        ConfigError: the parent cannot be used.
    """
    with convert_folder_errors(f"{parent or 'the temporary folder'} cannot be used"):
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name)


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Name the folder, and what to do, if its disk is full.

    Args:
        folder: in which files are written meanwhile, and in no other.

    Raises:
        ConfigError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise make_full_disk_error(folder) from error
