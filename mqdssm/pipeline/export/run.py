"""Export of the objects of a directory: files, and a manifest of them.

Workers write the files.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from mqdssm.errors import ConfigError, DirectoryError, MqdssmError
from mqdssm.events.durable_files import lock_file
from mqdssm.pipeline.access import DirectoryAccess, PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.export.journal import (
    FILE_ROWS,
    PLAN_NAME,
    ExportFolder,
    ExportPlan,
    prepare,
    progress_of,
)
from mqdssm.pipeline.failures import SparkFailed
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.manifest import SCHEMA_VERSION, ExportedType, Manifest, list_versions, to_utc_seconds
from mqdssm.pipeline.runner import Job, WorkerFailed, run_in_background
from mqdssm.pipeline.shared_folder import WitnessFile
from mqdssm.pipeline.spark_options import HERE, SparkOptions

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.pipeline.export.worker import ExportTask

EXPORTED: Final = tuple(FRAME_TYPES)
"""All types, by their names on the command line."""
FORMATS: Final = ("parquet", "csv", "jsonl", "ldif")
DIALECTS: Final = ("openldap", "ad")
COMPRESSIONS: Final = ("none", "zstd", "snappy")
_SAID_AGAIN: Final[Mapping[type[MqdssmError], type[MqdssmError]]] = {
    error_class: error_class for error_class in (ConfigError, SparkFailed, WorkerFailed)
}
SMALL_OBJECTS: Final = 10_000
"""Fewer objects than these are exported in this process, without workers."""
PROGRESS_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an export.

    Attributes:
        rows: number of objects read so far.
        total: number of objects to read; None until they are counted.
    """

    rows: int
    total: int | None


Watch = Callable[[Progress], None]


def export(
    urls: str | Sequence[str],
    types: Sequence[str],
    to_dir: str | os.PathLike[str],
    *,
    format: str = "parquet",  # noqa: A002  what everybody calls it
    dialect: str | None = None,
    compression: str = "none",
    file_rows: int | None = None,
    partitions: int = 1,
    resume: bool = False,
    readable: bool = False,
    watch: Watch | None = None,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    **login: Unpack[PipelineLogIn],
) -> Manifest:
    """Export types of objects as files, and write the manifest last.

    The files are ``DIR/<type>/part-*.<format>`` and ``DIR/manifest.json``.
    Wrong settings are found before workers start: a folder that is not empty, Spark without Java, a server
    that refuses the log-in. Complete files of an interrupted export stay in the folder, and ``resume`` keeps
    them. An attribute that is not set is NULL if the specification gives no default.

    Args:
        urls: one or several LDAP servers, tried in turn; the first server that answers is read.
        types: names as on the command line (``queue``, ``queue-manager``, ..., or ``ldap``).
        to_dir: the folder; it is made, or must be empty or hold the export to resume.
        format: ``parquet``, ``csv``, ``jsonl`` or ``ldif``.
        dialect: of LDIF: ``openldap`` or ``ad``; None: that of the server.
        compression: of Parquet: ``none``, ``zstd`` or ``snappy``.
        file_rows: objects after which a file ends; None: 100,000.
        partitions: number of parallel searches of each type. Dividing a type costs a scan of one attribute;
            different types are always read in parallel.
        resume: resume an interrupted export; begin a new one if the folder is empty.
        readable: let others read the files, as the umask allows; False: mode 0600, which files of LDIF and
            type ``ldap`` always have.
        watch: called every half second, from another thread, with the progress.
        engine: ``local`` reads with processes of this machine, without Java and pyspark; ``spark`` with
            Spark's workers. ``auto`` is Spark if `on` has an option or this program has an active Spark
            session, else local, for any number of objects.
        workers: processes of the local engine; None: one a core, fewer if memory is short.
        on: where Spark runs. On a cluster the folder must be one that all of its machines share.
        login: log-in options, see `mqdssm.pipeline.access.PipelineLogIn`.

    Returns:
        The manifest that was written.

    Raises:
        ConfigError: a missing package, a folder that cannot be used, an unknown type, a full disk, or a
            resume with other arguments.
        DirectoryNotConnected: no server can be reached, or none accepts the log-in.
        DirectoryError: a search failed; complete files stay.
        WorkerFailed: a worker crashed too often; complete files stay.
        SparkFailed: Spark itself failed; complete files stay.
    """
    request = ExportRequest(
        types=types,
        format=format,
        dialect=dialect,
        compression=compression,
        file_rows=FILE_ROWS if file_rows is None else file_rows,
        partitions=partitions,
        readable=readable,
    )
    chosen = JobEngine.of(engine, on, workers)
    chosen.check()
    credentials = read_variable(login) if chosen.is_local else login
    with open_access(urls, credentials, chosen.on, check_msmq=request.needs_msmq) as access:
        return _check_and_export(request, Path(to_dir), access, chosen, watch, resume=resume)


def _check_and_export(
    request: "ExportRequest",
    to_dir: Path,
    access: DirectoryAccess,
    engine: JobEngine,
    watch: Watch | None,
    *,
    resume: bool,
) -> Manifest:
    """Check folder and directory, then export."""
    unfinished = prepare(to_dir, resume=resume)
    folder = ExportFolder(to_dir.resolve())
    from mqdssm.pipeline.export import objects

    with access.connect() as directory:
        plan = request.plan(directory, access.naming_context)
        server = directory.session.server_url or ""
        is_small = engine.is_local and objects.are_fewer(directory, plan.types, SMALL_OBJECTS)
    with _explain_resuming(folder), _lock_folder(folder):
        begun = _begin_export(folder, plan, unfinished=unfinished)
        task = _make_task(folder, begun, access.at(server), engine, plan.marks.server)
        return _export(task, access.at(server), engine, watch, is_small=is_small)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Checked options of an export.

    Attributes:
        types: names as on the command line.
        format: format of the files.
        dialect: of LDIF; None: that of the server.
        compression: of Parquet.
        file_rows: objects after which a file ends.
        partitions: number of parallel searches of each type.
        readable: let others read the files.

    Raises:
        ConfigError: an unknown name, or options that exclude each other.
    """

    types: Sequence[str]
    format: str
    dialect: str | None
    compression: str
    file_rows: int
    partitions: int
    readable: bool = False

    def __post_init__(self) -> None:
        if min(self.partitions, self.file_rows) < 1:
            raise ConfigError("file_rows and partitions are 1 at least")
        if not self.types:
            raise ConfigError(f"nothing to export: name one of {', '.join(EXPORTED)}")
        for label, value, choices in (
            *(("type", name, EXPORTED) for name in self.types),
            ("format", self.format, FORMATS),
            ("dialect", self.dialect or DIALECTS[0], DIALECTS),
            ("compression", self.compression, COMPRESSIONS),
        ):
            if value not in choices:
                raise ConfigError(f"{value!r} is no {label}: use one of {', '.join(choices)}")
        if self.dialect is not None and self.format != "ldif":
            raise ConfigError(f"a dialect is for LDIF alone, not for {self.format}: leave it out")
        if self.compression != "none" and self.format != "parquet":
            raise ConfigError(f"compression is for Parquet alone, not for {self.format}: leave it out")

    @property
    def needs_msmq(self) -> bool:
        """True if the directory must hold MSMQ objects.

        An export of ``ldap`` alone needs no MSMQ objects.
        """
        return any(FRAME_TYPES[name].ldap_class is not None for name in self.types)

    def plan(self, directory: "Directory", context: str | None) -> ExportPlan:
        """Return the plan for a directory, with its current position.

        Args:
            directory: to export.
            context: base of computers, queues and users; None: the default one.
        """
        from mqdssm.pipeline.export.journal import ExportItem
        from mqdssm.pipeline.export.server_position import Marks
        from mqdssm.pipeline.frames.partitions import divide_objects

        session = directory.session
        usual = "ad" if session.profile.translates_security else "openldap"
        types = tuple(dict.fromkeys(self.types))
        return ExportPlan(
            types=types,
            format=self.format,
            dialect=(self.dialect or usual) if self.format == "ldif" else None,
            compression=self.compression,
            profile=session.profile.name,
            naming_context=str(session.naming.root),
            context=context,
            started=datetime.now(UTC),
            marks=Marks.read(session),
            items={
                name: tuple(map(ExportItem.of, divide_objects(directory, FRAME_TYPES[name], self.partitions)))
                for name in types
            },
            file_rows=self.file_rows,
            readable=self.readable,
        )


@contextlib.contextmanager
def _explain_resuming(folder: ExportFolder) -> Iterator[None]:
    """Add to an error that complete files stay in the folder, and how to resume."""
    from mqdssm.pipeline.export.worker import as_config_error

    try:
        yield
    except OSError as error:
        raise as_config_error(error, folder.path) from error
    except MqdssmError as error:
        hint = f"what is complete stays in {folder.path}: go on with --resume"
        if "--resume" in str(error) or not (folder.work / PLAN_NAME).exists():
            raise
        if isinstance(error, DirectoryError):
            error.hint = "; ".join(filter(None, (error.hint, hint)))
            raise
        raise _SAID_AGAIN.get(type(error), MqdssmError)(f"{error}; {hint}") from error


@contextlib.contextmanager
def _lock_folder(folder: ExportFolder) -> Iterator[None]:
    """Lock the folder against exports of other programs."""
    folder.work.mkdir(exist_ok=True)
    lock_message = f"another export is writing into {folder.path}: wait for its end, or name another folder"
    with lock_file(folder.work / "lock", wait_s=0, message=lock_message):
        yield


def _begin_export(folder: ExportFolder, new_plan: ExportPlan, *, unfinished: bool) -> ExportPlan:
    """Begin or resume an export, and return its plan."""
    from mqdssm.pipeline.export.worker import STOP_NAME

    if not unfinished:
        folder.begin(new_plan)
        return new_plan
    plan = ExportPlan.load(folder.work)
    plan.refuse_other(new_plan, folder.path)
    (folder.work / STOP_NAME).unlink(missing_ok=True)
    folder.verify(plan)
    plan = plan.model_copy(update={"resumed": plan.resumed + 1})
    plan.write(folder.work)
    return plan


def _make_task(
    folder: ExportFolder, plan: ExportPlan, access: DirectoryAccess, engine: JobEngine, controller: str
) -> "ExportTask":
    """Return the task that workers get."""
    from mqdssm.pipeline.export.worker import ExportTask

    witness = WitnessFile.of(folder.work / PLAN_NAME) if engine.on.is_cluster else None
    return ExportTask(access.for_executors(engine.on), str(folder.path), plan, witness, controller)


def _export(
    task: "ExportTask", access: DirectoryAccess, engine: JobEngine, watch: Watch | None, *, is_small: bool
) -> Manifest:
    from mqdssm.pipeline.export.load_order import load_order, write_parents
    from mqdssm.pipeline.export.reconcile import settle

    folder, plan = ExportFolder(Path(task.folder)), task.plan
    with _watch_progress(folder, plan, access, watch):
        _read(task, engine, is_small=is_small)
        with access.connect() as directory:
            settled = settle(directory, folder, plan)
            parents = write_parents(directory, folder, plan, settled.marks)
    types = {name: _describe_type(folder, plan, name) for name in plan.types}
    files = [(name, exported.files) for name, exported in types.items()]
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        server=access.urls[0],
        profile=plan.profile,
        naming_context=plan.naming_context,
        format=plan.format,
        dialect=plan.dialect,
        started=to_utc_seconds(plan.started),
        ended=to_utc_seconds(datetime.now(UTC)),
        resumed=plan.resumed,
        consistent=settled.consistent and not parents.changed,
        changed=(*settled.changed, *parents.changed),
        types=types,
        parents=parents.files,
        load_order=load_order(files, parents) if plan.format == "ldif" else (),
        engine=engine.kind.value,
        versions=list_versions(),
    )
    manifest.write(folder.path, readable=plan.readable)
    folder.finish()
    return manifest


def _read(task: "ExportTask", engine: JobEngine, *, is_small: bool) -> None:
    """Let the workers of the engine do all unfinished work items."""
    from mqdssm.pipeline.export.worker import ExportWork

    folder = ExportFolder(Path(task.folder))
    items = tuple(
        (name, item)
        for name in task.plan.types
        for item, journal in enumerate(folder.list_journals(task.plan, name))
        if not journal.done
    )
    if not items:
        return
    names = tuple(f"the export of {name} (part {item})" for name, item in items)
    with engine.runner("mqdssm export", [folder.work / PLAN_NAME], may_speculate=False) as runner:
        runner.run(Job(ExportWork(task, items), names, is_small=is_small))


@contextlib.contextmanager
def _watch_progress(
    folder: ExportFolder, plan: ExportPlan, access: DirectoryAccess, watch: Watch | None
) -> Iterator[None]:
    """Call `watch` with the progress every half second.

    The objects are counted meanwhile.
    """
    if watch is None:
        yield
        return
    total: list[int] = []

    def count() -> None:
        from mqdssm.pipeline.export import objects

        with contextlib.suppress(MqdssmError), access.connect() as directory:
            total.append(sum(objects.count(directory, name) for name in plan.types))

    def tell(ended: threading.Event) -> None:
        while not ended.wait(PROGRESS_S):
            rows = sum(progress_of(folder.progress).values())
            watch(Progress(rows, total[0] if total else None))

    threading.Thread(target=count, daemon=True).start()
    with run_in_background(tell):
        yield


def _describe_type(folder: ExportFolder, plan: ExportPlan, name: str) -> ExportedType:
    from mqdssm.pipeline.export.objects import make_schema
    from mqdssm.pipeline.texts import list_column_types

    files = [item.file for journal in folder.list_journals(plan, name) for item in journal.read()]
    return ExportedType(
        rows=sum(file.rows for file in files),
        files=tuple(sorted(files, key=lambda file: file.path)),
        columns={} if plan.format == "ldif" else list_column_types(make_schema(name)),
    )
