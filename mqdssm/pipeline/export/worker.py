"""Work of an export in a worker: read a work item and write its files."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.events.durable_files import lock_file, read_umask, set_umask
from mqdssm.model.closeable import Closeable
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.export.file_writer import (
    PARQUET,
    ExportFiles,
    PartOptions,
    head_of,
    read_exported_keys,
    read_rows,
    without,
)
from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan, ItemFinished, ItemJournal, tell_progress
from mqdssm.pipeline.export.objects import make_schema
from mqdssm.pipeline.failures import MqdssmSparkError, pack, unpack
from mqdssm.pipeline.frames.partitions import refuse_other
from mqdssm.pipeline.runner import Stopped, StopRequest
from mqdssm.pipeline.shared_folder import WitnessFile

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

STOP_NAME: Final = "stop"
"""File that shows the other workers that one worker has failed."""
LOCK_WAIT_S: Final = 30.0
"""Seconds to wait for a lock. A worker of a killed export ends within seconds."""
LOST_WAIT_S: Final = 180.0
"""Seconds to wait for a lock on a cluster. NFS releases locks of a lost machine after 90 s."""
PROGRESS_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Export, as pickled into every worker, without a secret.

    Attributes:
        access: log-in settings.
        folder: of the export.
        plan: of the export.
        witness: file that all machines of a cluster must see; None: no cluster.
        controller: dsServiceName of the domain controller to read, as one URL may lead to several; empty for
            other servers.
        umask: of the program, for the files; workers of Spark may have another one.
    """

    access: DirectoryAccess
    folder: str
    plan: ExportPlan
    witness: WitnessFile | None = None
    controller: str = ""
    umask: int = field(default_factory=read_umask)


@dataclass(frozen=True, slots=True)
class ExportWork:
    """Work items of an export as a `mqdssm.pipeline.runner.Work`.

    Attributes:
        task: the export.
        items: type and number of each work item.
    """

    task: ExportTask
    items: tuple[tuple[str, int], ...]

    @contextlib.contextmanager
    def open(self, stop: StopRequest) -> Iterator[Callable[[int], None]]:
        """Yield the function that does a work item; see `Work`.

        The first work item opens the connection, and fails if it cannot be opened.
        """
        with set_umask(self.task.umask), WorkerConnection(self.task.access) as connection:
            yield lambda number: self._export(number, stop, connection)

    def _export(self, number: int, stop: StopRequest, connection: "WorkerConnection") -> None:
        """Do a work item.

        If it fails, the stop file for the workers of other machines is written.
        """
        task = self.task
        try:
            if task.witness is not None:
                task.witness.check()
            export_item(task, *self.items[number], stop, connection)
        except (MqdssmError, OSError, MemoryError) as error:
            if not isinstance(error, Stopped):  # a worker that was asked to end has not failed
                with contextlib.suppress(OSError):
                    (ExportFolder(Path(task.folder)).work / STOP_NAME).touch()
            reported = as_config_error(error, Path(task.folder))
            if task.witness is not None and not isinstance(error, Stopped):
                where = f"{pack(reported)} (on executor {socket.gethostname()})"
                reported = unpack(f"{MqdssmSparkError.__name__}: {where}") or reported
            raise reported from (None if reported is error else error)


class WorkerConnection(Closeable):
    """Connection of a worker, shared by its work items.

    The connection is opened again after a failure.

    Args:
        access: how to log in.
    """

    def __init__(self, access: DirectoryAccess) -> None:
        self._access = access
        self._directory: Directory | None = None

    @contextlib.contextmanager
    def directory(self) -> "Iterator[Directory]":
        """Yield the directory for one work item, and close the connection on an error."""
        if self._directory is None:
            self._directory = self._access.connect()
        try:
            yield self._directory
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._directory is not None:
            directory, self._directory = self._directory, None
            directory.close()


def as_config_error(error: Exception, folder: Path) -> Exception:
    """Return an `OSError` as a `ConfigError` that names the folder.

    Other errors are returned unchanged.
    """
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        return ConfigError(f"the export to {folder} failed: {why}; when that is mended, go on with --resume")
    return error


def export_item(
    task: ExportTask, type_name: str, item: int, stop: StopRequest, connection: WorkerConnection
) -> None:
    """Export the objects of a work item that its finished files do not hold yet.

    Args:
        task: the export.
        type_name: of the objects.
        item: number of the work item.
        stop: ends the work between two batches; complete files stay.
        connection: of the worker.

    Raises:
        Stopped: the stop was set, or another work item failed.
        DirectoryError: reading failed; complete files stay.
        ConfigError: another export writes into the folder.
        OSError: a file cannot be written, as when the disk is full.
    """
    folder = ExportFolder(Path(task.folder))
    journal = ItemJournal(folder.work, type_name, item)
    lock = journal.path.with_suffix(".lock")
    wait_s = LOCK_WAIT_S if task.witness is None else LOST_WAIT_S
    lock_message = f"another export writes into {task.folder}: wait for its end"
    with lock_file(lock, wait_s=wait_s, message=lock_message):
        finished = journal.read()
        if journal.done:
            return
        with connection.directory() as directory:
            _refuse_other(task, directory)
            options = make_part_options(folder, task.plan, type_name, item)
            _export(task, directory, journal, options, finished, stop=stop)
            _refuse_other(task, directory)  # a reconnection may have reached another server
        journal.finish()


def _refuse_other(task: ExportTask, directory: "Directory") -> None:
    """Refuse another domain controller.

    The other one's state may be older, and its USNs are its own.
    """
    if task.controller:
        refuse_other(
            directory.session,
            task.controller.encode(),
            why="whose state may be another one",
            hint="name one domain controller in the URL",
        )


def make_part_options(folder: ExportFolder, plan: ExportPlan, type_name: str, item: int) -> PartOptions:
    """Return the options for the files of a work item."""
    is_parquet = plan.format == PARQUET
    return PartOptions(
        folder=folder,
        type_name=type_name,
        format=plan.format,
        compression=plan.compression,
        item=item,
        file_rows=plan.file_rows,
        head=b"" if is_parquet else head_of(plan.format, type_name),
        schema=make_schema(type_name) if is_parquet else None,
        readable=plan.readable,
    )


def _export(
    task: ExportTask,
    directory: "Directory",
    journal: ItemJournal,
    options: PartOptions,
    finished: Iterable[ItemFinished],
    *,
    stop: StopRequest,
) -> None:
    plan = task.plan
    files = list(finished)
    exported = read_exported_keys(options.folder, plan, files)
    count = sum(item.file.rows for item in files)
    parts = ExportFiles(options, files)
    progress = _Progress(options.folder, f"{options.type_name}-{options.item:03d}", count)
    where = plan.items[options.type_name][options.item].where
    try:
        for batch in read_rows(directory, options.type_name, plan.format, plan.dialect, where):
            stop.check()
            rows = without(batch, exported) if exported else batch
            if len(rows):
                for complete in parts.add(rows):
                    journal.add(complete)
                progress.add(rows.objects)
        for complete in parts.finish(empty=options.item == 0):
            journal.add(complete)
        progress.tell()
    finally:
        parts.abandon()


class _Progress:
    """Reporter of the progress of a work item.

    The reporter also stops the item if another one has failed.
    """

    def __init__(self, folder: ExportFolder, name: str, rows: int) -> None:
        self._folder = folder
        self._name = name
        self._rows = rows
        self._next = 0.0

    def add(self, rows: int) -> None:
        self._rows += rows
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_S
            self.tell()
            if (self._folder.work / STOP_NAME).exists():
                raise Stopped("another part of the export failed")

    def tell(self) -> None:
        tell_progress(self._folder.progress, self._name, self._rows)
