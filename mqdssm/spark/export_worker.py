"""What a worker of Spark does for an export: read one type, or a part of it, and write its files."""

import contextlib
import gc
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.events.locking import locked
from mqdssm.spark.access import Access
from mqdssm.spark.cluster import Witness
from mqdssm.spark.export_rows import all_rows, head_of, without
from mqdssm.spark.failures import pack
from mqdssm.spark.held import held_by
from mqdssm.spark.journal import Finished, Folder, Journal, Plan, tell_progress
from mqdssm.spark.objects import columns
from mqdssm.spark.partitions import refuse_other
from mqdssm.spark.parts import PARQUET, PartOptions, Parts

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

OUTCOME: Final = "path string, rows long, sha256 string, error string"
"""Columns of what a worker answers: a row for each file, or one with an error."""
STOP_NAME: Final = "stop"
"""A file that tells the other workers that one has failed."""
LOCK_WAIT_S: Final = 30.0
"""A worker of a killed export ends within seconds of its program."""
LOST_WAIT_S: Final = 180.0
"""A file server lets go of what a lost machine had locked when its lease ends: NFS after 90 s."""
PROGRESS_S: Final = 0.3

_SCHEMA: Final = pa.schema(
    [("path", pa.string()), ("rows", pa.int64()), ("sha256", pa.string()), ("error", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Task:
    """An export, as its workers need to know it. It is pickled into every task and holds no secret.

    Attributes:
        access: how to get in.
        folder: where the files go.
        plan: what was asked for.
        witness: a file that shows whether a machine of a cluster sees the same folder; None: all do.
        controller: what the domain controller calls itself whose marks count now: one URL may lead to
            several. Empty where all servers of a directory count alike.
    """

    access: Access
    folder: str
    plan: Plan
    witness: Witness | None = None
    controller: str = ""


def worker(
    task: Task, items: Sequence[tuple[str, int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for mapInArrow over a column of numbers, each of a work item.

    Args:
        task: the export.
        items: type and number of each.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.disable()  # in a process of Spark's: no cycles are made here, and looking for them costs a lot
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield _outcomes(task, *items[number])
        finally:
            gc.enable()

    return run


def _outcomes(task: Task, type_name: str, item: int) -> pa.RecordBatch:
    """Do a work item. An error is an answer: Spark would try again what only a crash deserves."""
    rows: list[dict[str, Any]] = []
    try:
        if task.witness is not None:
            task.witness.check()
        rows += [one.file.model_dump() for one in export_item(task, type_name, item)]
    except (MqdssmError, OSError, MemoryError) as error:
        where = "" if task.witness is None else f" (on executor {socket.gethostname()})"
        rows.append({"error": f"{pack(told(error, Path(task.folder)))}{where}"})
        with contextlib.suppress(OSError):
            (Folder(Path(task.folder)).work / STOP_NAME).touch()
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def told(error: Exception, folder: Path) -> Exception:
    """An error of the system as one that says which folder it is about."""
    if isinstance(error, OSError) and not isinstance(error, MqdssmError):
        why = error.strerror or str(error)
        return ConfigError(f"the export to {folder} failed: {why}; when that is mended, go on with --resume")
    return error


def export_item(task: Task, type_name: str, item: int) -> list[Finished]:
    """Export one type, or a part of it; what finished files hold already is not written again.

    Raises:
        DirectoryError: reading broke off; the files that are complete stay.
        ConfigError: another export writes into the folder.
        OSError: a file cannot be written, as when the disk is full.
    """
    folder = Folder(Path(task.folder))
    journal = Journal(folder.work, type_name, item)
    lock = journal.path.with_suffix(".lock")
    wait_s = LOCK_WAIT_S if task.witness is None else LOST_WAIT_S
    taken = f"another export writes into {task.folder}: wait for its end"
    with locked(lock, wait_s=wait_s, taken=taken):
        finished = journal.read()
        if journal.done:
            return finished
        with task.access.connect() as directory:
            _refuse_other(task, directory)
            _export(task, directory, journal, part_options(folder, task.plan, type_name, item), finished)
            _refuse_other(task, directory)  # a lost connection may have been made again elsewhere
        journal.finish()
        return journal.read()


def _refuse_other(task: Task, directory: "Directory") -> None:
    """Refuse another domain controller: its state is that of another time, and no mark would tell."""
    if task.controller:
        refuse_other(
            directory.session,
            task.controller.encode(),
            why="whose state may be another one",
            hint="name one domain controller in the URL",
        )


def part_options(folder: Folder, plan: Plan, type_name: str, item: int) -> PartOptions:
    """How the files of a work item are made."""
    is_parquet = plan.format == PARQUET
    return PartOptions(
        folder=folder,
        type_name=type_name,
        format=plan.format,
        compression=plan.compression,
        item=item,
        file_rows=plan.file_rows,
        head=b"" if is_parquet else head_of(plan.format, type_name),
        schema=columns(type_name) if is_parquet else None,
        readable=plan.readable,
    )


def _export(
    task: Task, directory: "Directory", journal: Journal, options: PartOptions, finished: Iterable[Finished]
) -> None:
    plan = task.plan
    files = list(finished)
    held = held_by(options.folder, plan, files)
    count = sum(one.file.rows for one in files)
    parts = Parts(options, files)
    progress = _Progress(options.folder, f"{options.type_name}-{options.item:03d}", count)
    where = plan.items[options.type_name][options.item].where
    try:
        for found in all_rows(directory, options.type_name, plan.format, plan.dialect, where):
            rows = without(found, held) if held else found
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
    """Says how far a work item is, and hears whether another one has failed."""

    def __init__(self, folder: Folder, name: str, rows: int) -> None:
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


class Stopped(MqdssmError):  # noqa: N818  no error of its own
    """This work item was ended because another one failed: its own error is the one to show."""
