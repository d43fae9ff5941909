"""DuckDB, for joins and sorts that may be larger than memory.

DuckDB is used for nothing else.
`open_database` opens it. DuckDB sees the given files and its own folder alone. It loads no extension
and opens no connection, and a query cannot change its settings.
"""

import atexit
import contextlib
import errno
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from mqdssm.errors import ConfigError, MqdssmError, make_full_disk_error
from mqdssm.pipeline.runner import StopRequest

MEMORY_MB: Final = 512
"""Memory limit of a database, which spills to its folder. DuckDB itself takes up to 90 MB more."""
THREADS: Final = 2
_POLL_S: Final = 0.1
"""Interval between two checks of the stop request."""
_NO_SPACE: Final = ("max_temp_directory_size", os.strerror(errno.ENOSPC))
"""Texts in DuckDB's errors about a full disk: its limit is a share of the space that was free at first."""
_LOCKED: Final = (
    "enable_progress_bar = false",  # it would go to the standard output
    "enable_external_access = false",
    "lock_configuration = true",
)
"""Last settings, in this order: no query can allow anything after them."""

# DuckDB's binding reports on stderr each of its objects that is not collected when the program ends
atexit.unregister(gc.freeze)

T = TypeVar("T")


class DatabaseFailed(MqdssmError):  # noqa: N818  as WorkerFailed
    """DuckDB failed, for another reason than too little memory or disk."""


@contextlib.contextmanager
def open_database(
    folder: Path, files: Sequence[str], stop: StopRequest, *, memory_mb: int = MEMORY_MB
) -> "Iterator[Database]":
    """Open a database in memory.

    Args:
        folder: an empty folder, for data that does not fit into memory and files that queries write.
        files: paths that queries may read.
        stop: ends a query early.
        memory_mb: memory limit of the database.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_mb}MB",
        "threads": THREADS,
        "temp_directory": str(folder),
        "preserve_insertion_order": False,  # else it needs more memory
        "python_enable_replacements": False,  # names in queries are no variables of Python
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"set allowed_directories = {_quote_texts([f'{folder}/'])}")
        connection.execute(f"set allowed_paths = {_quote_texts(files)}")
        for setting in _LOCKED:
            connection.execute(f"set {setting}")
        with ThreadPoolExecutor(1) as thread:
            yield Database(connection, thread, stop, folder, memory_mb)
    finally:
        connection.close()


class Database:
    """DuckDB database that `open_database` opened.

    Queries run in another thread: a signal that raises an exception in the caller ends them within a second.

    Args:
        connection: to the database.
        thread: runs the queries.
        stop: ends a query early.
        folder: for data that does not fit into memory, named in messages.
        memory_mb: memory limit, named in messages.
    """

    def __init__(
        self,
        connection: "duckdb.DuckDBPyConnection",
        thread: ThreadPoolExecutor,
        stop: StopRequest,
        folder: Path,
        memory_mb: int,
    ) -> None:
        self._connection = connection
        self._thread = thread
        self._stop = stop
        self._folder = folder
        self._memory_mb = memory_mb

    def run(self, query: str) -> None:
        """Run a query without a result.

        Raises:
            ConfigError: the disk is full, or the query needs more memory than the limit.
            DatabaseFailed: the query failed for another reason.
            Stopped: `stop` was set.
        """
        self._wait(lambda: self._connection.execute(query))

    def read_batches(self, query: str, rows: int) -> Iterator[pa.RecordBatch]:
        """Run a query, and yield its result in batches.

        Args:
            query: in SQL.
            rows: number of rows of a batch.

        Raises:
            As `run`.
        """
        reader: pa.RecordBatchReader = self._wait(lambda: self._connection.sql(query).to_arrow_reader(rows))
        while (batch := self._wait(lambda: next(reader, None))) is not None:
            yield batch

    def _wait(self, call: Callable[[], T]) -> T:
        """Call a function in the thread, and wait for its end.

        The query of the function is interrupted if a stop is requested or an exception comes.
        """
        future: Future[T] = self._thread.submit(call)
        try:
            while True:
                self._stop.check()
                with contextlib.suppress(FutureTimeout):
                    return future.result(_POLL_S)
        except duckdb.Error as error:
            raise self._convert_error(error) from error
        except BaseException:
            while not (future.cancel() or future.done()):
                self._connection.interrupt()  # repeated: an interrupt before the query begins is lost
                wait([future], _POLL_S)
            raise

    def _convert_error(self, error: "duckdb.Error") -> MqdssmError:
        """Return the error that names the cause of a failure.

        Causes are a full disk, too little memory, or DuckDB's own message.
        """
        text = str(error)
        words = text.splitlines()[0]
        if any(mark in text for mark in _NO_SPACE):
            return make_full_disk_error(self._folder)
        if isinstance(error, duckdb.OutOfMemoryException):
            return ConfigError(
                f"the comparison needs more memory than {self._memory_mb} MB: use --engine spark ({words})"
            )
        return DatabaseFailed(f"DuckDB: {words}")


def format_file_list(paths: Sequence[str]) -> str:
    """Return an SQL expression for the rows of Parquet files."""
    return f"read_parquet({_quote_texts(paths)})"


def _quote_texts(texts: Sequence[str]) -> str:
    """Return a list of texts as an SQL literal."""
    quoted = ("'" + text.replace("'", "''") + "'" for text in texts)
    return f"[{', '.join(quoted)}]"
