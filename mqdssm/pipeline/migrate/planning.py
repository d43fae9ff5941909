"""Planning a migration: decide what would happen to every row.

The decisions are written to a folder.

Jobs of planning: a runner distributes the work; workers read and write files themselves.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self, Unpack, runtime_checkable

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.pipeline.access import DirectoryAccess, PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.engines import EngineKind, JobEngine
from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.deletes import Planned, plan_deletes
from mqdssm.pipeline.migrate.outcome import WORK_NAME, PlanSummary, TaskResult, put_together, write_sids
from mqdssm.pipeline.migrate.plan_file import (
    PLAN_NAME,
    SIDS_NAME,
    SOURCE_NAME,
    MigrationPlan,
    PlanOptions,
    PlanTarget,
    Policy,
)
from mqdssm.pipeline.migrate.progress import Watch, report_count, tell
from mqdssm.pipeline.migrate.row_planner import RowPlanner, RowPlanOptions, read_planning_progress
from mqdssm.pipeline.migrate.shared_lookups import SharedLookups
from mqdssm.pipeline.migrate.sids import SidMap, load_sid_map
from mqdssm.pipeline.migrate.staging import StagedPart, begin, list_staged_parts
from mqdssm.pipeline.migrate.staging import stage as stage_file
from mqdssm.pipeline.migrate.target import (
    DEFAULT_PROFILE,
    find_sids,
    gather,
    list_all_sites,
    open_offline_session,
    read_domain_sid,
    resolve_sids,
)
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.folder import (
    SourceFile,
    SourceTable,
    describe_left_out,
    find_files,
    read_source_table,
)
from mqdssm.pipeline.mqis.mapping import (
    SourceMapping,
    is_jdbc,
    list_spark_settings,
    load_mapping,
    refuse_secret,
    shorten_url,
)
from mqdssm.pipeline.runner import Calls, Job, Runner, StopRequest
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.tables.mqis import MQIS_TABLES, SITE

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

WITNESS_NAME: Final = "witness"
"""File by which the machines of a cluster check that they share the folder."""
DATABASE_NAME: Final = "database"
"""Folder of a copy of a database's tables, while they are being read."""
FIRST_TABLES: Final = ("Enterprise", "Machine", "User")
LAST_TABLES: Final = ("RoutingLink", "Queue", "ConnectedNetwork", "Deleted")
"""Tables that depend on the accepted machines, or can wait as well."""
_PRIVATE: Final = 0o700


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """Source and options of a plan that is to be made.

    Attributes:
        source: a folder, or the JDBC URL of a database.
        on_conflict: what to do with objects that exist and differ.
        allow_deletes: how many objects that the source does not have may be deleted; 0: none is.
        create_computers: make the computers of machines that the target lacks.
        sid_map: file of old and new SIDs.
        mapping: file with names of tables and columns.
    """

    source: str
    on_conflict: Policy = "fail"
    allow_deletes: int = 0
    create_computers: bool = False
    sid_map: Path | None = None
    mapping: Path | None = None

    @property
    def shown_source(self) -> str:
        """Source as the plan names it: absolute path, or URL without credentials."""
        return shorten_url(self.source) if is_jdbc(self.source) else str(Path(self.source).resolve())


@dataclass(frozen=True, slots=True)
class MigrationSource:
    """A source that was checked, but not read yet.

    Attributes:
        request: the request that the source is for.
        mapping: how it holds tables.
        files: of a folder; None for a database.
        sids: the map of SIDs, as it was given.
    """

    request: PlanRequest
    mapping: SourceMapping
    files: "dict[str, TableFiles] | None"
    sids: SidMap

    @classmethod
    def of(cls, request: PlanRequest) -> Self:
        """Check the source of a request, and read its mapping and its map of SIDs.

        Raises:
            ConfigError: there is no such source, or its mapping or its map of SIDs cannot be used.
        """
        mapping = SourceMapping() if request.mapping is None else load_mapping(request.mapping)
        if is_jdbc(request.source):
            refuse_secret(request.source)
            files = None
        else:
            files = find_files(Path(request.source), mapping)
        return cls(
            request, mapping, files, SidMap() if request.sid_map is None else load_sid_map(request.sid_map)
        )

    def choose_engine(self, kind: str, on: SparkOptions, workers: int | None) -> JobEngine:
        """Choose the engine, see `choose_source_engine`."""
        return choose_source_engine(kind, on, workers, has_database=self.files is None)

    def describe_left_out(self, tables: Sequence[SourceTable]) -> Iterator[str]:
        """Yield notes about parts of the source that MQIS lacks, which are not read.

        Args:
            tables: of the source.
        """
        folder = None if self.files is None else Path(self.request.source)
        return describe_left_out(folder, tables, self.mapping)

    def stage(self, runner: Runner, folder: Path) -> tuple[SourceTable, ...]:
        """Read the source into the folder of the plan, and return its tables."""
        begin(folder)
        copy = folder / WORK_NAME / DATABASE_NAME
        files = self.files
        if files is None:
            files = copy_tables(runner, self.request.source, self.mapping, copy)
        tables = tuple(read_source_table(file, self.mapping) for file in files.values())
        for table in tables:
            (folder / SOURCE_NAME / table.table.name).mkdir(exist_ok=True)
        sources = tuple(file for table in tables for file in table.files)
        names = tuple(f"reading {file.path.name}" for file in sources)
        size = sum(file.path.stat().st_size for file in sources)
        task = StageTask(folder, sources, self.mapping)
        runner.run(Job(Calls(task), names, is_small=size < SMALL_BYTES))
        shutil.rmtree(copy, ignore_errors=True)
        return tables


def choose_source_engine(
    kind: str, on: SparkOptions, workers: int | None, *, has_database: bool
) -> JobEngine:
    """Choose the engine, and check that it could run here: a database needs Spark.

    Raises:
        ConfigError: options that exclude each other, or a missing package.
    """
    if has_database and kind == EngineKind.LOCAL:
        raise ConfigError(NEEDS_SPARK)
    chosen = JobEngine.of(EngineKind.SPARK if has_database else kind, on, workers)
    chosen.check()
    return chosen


def plan_migration(
    request: PlanRequest,
    urls: str | Sequence[str],
    to: Path,
    *,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> MigrationPlan:
    """Plan a migration; only the folder of the plan is written.

    Args:
        request: what for.
        urls: LDAP servers, tried in turn.
        to: a new or empty folder.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; a database needs
            Spark.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.
        watch: is told what is being done, and how far it is; from another thread, too.
        **login: see `PipelineLogIn`.

    Returns:
        The plan, as it was written.

    Raises:
        ConfigError: something that was given cannot be used; with what, and what is expected.
        DirectoryError: the target cannot be asked.
        SparkFailed: Spark itself failed.
    """
    source = MigrationSource.of(request)
    chosen = source.choose_engine(engine, on, workers)
    credentials = read_variable(login) if chosen.is_local else login
    with open_access(urls, credentials, chosen.on) as access, access.connect() as directory:
        session = directory.session
        session.check_msmq()
        at = access.at(session.server_url or access.urls[0])
        enter = partial(_open_directory_session, at.for_executors(chosen.on))
        return _plan_source(source, session, enter, to, chosen, watch=watch)


def plan_for_ldif(
    request: PlanRequest,
    root: str,
    to: Path,
    *,
    profile: str = DEFAULT_PROFILE,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    watch: Watch | None = None,
) -> MigrationPlan:
    """Plan a migration into an empty directory, without a server; for LDIF.

    Args:
        request: what for.
        root: the root of the names, a DN.
        to: a new or empty folder.
        profile: the kind of server.
        engine: ``local``, ``spark`` or ``auto``; see `plan_migration`.
        workers: processes of the local engine.
        on: where Spark runs.
        watch: is told what is being done, and how far it is; from another thread, too.

    Returns:
        The plan, as it was written; it names no server, and is not to be applied.

    Raises:
        ConfigError: something that was given cannot be used; with what, and what is expected.
        SparkFailed: Spark itself failed.
    """
    source = MigrationSource.of(request)
    session = open_offline_session(root, profile)
    chosen = source.choose_engine(engine, on, workers)
    enter = partial(_open_offline_session, root, profile)
    return _plan_source(source, session, enter, to, chosen, watch=watch)


def _plan_source(
    source: MigrationSource,
    session: "Session",
    enter: "Enter",
    to: Path,
    engine: JobEngine,
    *,
    watch: Watch | None,
) -> MigrationPlan:
    sids = resolve_sids(session, source.sids)
    folder = prepare_folder(to)
    files = [folder / WORK_NAME / WITNESS_NAME]
    with engine.runner("mqdssm plan", files, conf=list_spark_settings(source.mapping)) as runner:
        return Planning(source, folder, session, runner, enter, watch, engine.kind.value).run(sids)


@dataclass
class Planning:
    """One run that makes a plan.

    Attributes:
        source: source of the migration.
        folder: folder of the plan, prepared.
        session: session to the target.
        runner: runner of the jobs.
        enter: opens sessions to the target, in workers.
        watch: is told what is being done, and how far it is; from another thread, too.
        engine: name of the engine, for the plan.
    """

    source: MigrationSource
    folder: Path
    session: "Session"
    runner: Runner
    enter: "Enter"
    watch: Watch | None = None
    engine: str = "local"
    _summary: PlanSummary = field(init=False, default_factory=PlanSummary)
    _numbers: dict[Path, int] = field(init=False, default_factory=dict)
    _tables: tuple[SourceTable, ...] = field(init=False, default=())

    @property
    def _row_options(self) -> RowPlanOptions:
        root, request = self.session.naming.root, self.source.request
        parts = [value for rdn in root.rdns for name, value in rdn if name.upper() == "DC"]
        return RowPlanOptions(
            self.folder, request.on_conflict, request.create_computers, ".".join(parts).lower()
        )

    def run(self, sids: SidMap) -> MigrationPlan:
        """Read the source, decide about all rows, and write the plan.

        Args:
            sids: the map of SIDs, resolved.

        Raises:
            MqdssmError: as `plan_migration`.
        """
        with _convert_disk_errors(self.folder):
            tell(self.watch, "reading the source")
            self._tables = self.source.stage(self.runner, self.folder)
            tell(self.watch, "looking at the directory")
            create = self.source.request.create_computers
            lookups = gather(self.session, self.folder, sids, create_computers=create)
            lookups = self._compare(lookups)
            put_together(self.folder)
            plan = self._plan(sids, lookups)
            shutil.rmtree(self.folder / WORK_NAME, ignore_errors=True)
            plan.write(self.folder)
        return plan

    def _compare(self, lookups: SharedLookups) -> SharedLookups:
        """Decide about all rows, and return the look-ups with the sites."""
        parts = [part for table in MQIS_TABLES.values() for part in list_staged_parts(self.folder, table)]
        progress = read_planning_progress(self.folder)
        progress.begin()
        with report_count(self.watch, "comparing", sum(part.rows for part in parts), progress):
            lookups = self._decide_sites(lookups)
            self._decide(FIRST_TABLES, lookups)
            self._decide(LAST_TABLES, lookups.without_machines(self._summary.refused))
        return lookups

    def _decide_sites(self, lookups: SharedLookups) -> SharedLookups:
        """Decide about the sites in this process.

        Sites come before other rows, which refer to them; sites are few.
        """
        planner = RowPlanner(self.session, lookups, self._row_options)
        parts = list_staged_parts(self.folder, SITE)
        self._summary.add([planner.decide(part, self._number_part(part)) for part in parts])
        return replace(lookups, sites=list_all_sites(self.session, self.folder, self._summary.refused))

    def _decide(self, names: Sequence[str], lookups: SharedLookups) -> None:
        parts = [part for name in names for part in list_staged_parts(self.folder, MQIS_TABLES[name])]
        numbered = tuple((self._number_part(part), part) for part in parts)
        tasks = tuple(f"deciding about {part.path}" for part in parts)
        rows = sum(part.rows for part in parts)
        work = RowPlanWork(self.enter, lookups, self._row_options, numbered)
        self._summary.add(self.runner.run(Job(work, tasks, is_small=rows < SMALL_ROWS)))

    def _number_part(self, part: StagedPart) -> int:
        """Return the number of a staged file among all."""
        return self._numbers.setdefault(part.path, len(self._numbers))

    def _plan(self, sids: SidMap, lookups: SharedLookups) -> MigrationPlan:
        request, summary, session = self.source.request, self._summary, self.session
        files = [*(file for level in summary.levels for file in level.files), *summary.equal]
        planned = Planned(self.folder, files, lookups.sites)
        refused, deletes = plan_deletes(session, self.folder, request.allow_deletes, planned)
        summary.add(deletes)
        if summary.stopped:
            refused = f"{summary.stopped} objects exist and differ: use --on-conflict skip or update"
        return MigrationPlan(
            made=datetime.now(UTC).replace(microsecond=0),
            source=request.shown_source,
            target=target_of(session),
            options=PlanOptions(
                on_conflict=request.on_conflict,
                allow_deletes=request.allow_deletes,
                create_computers=request.create_computers,
                sid_map=sids.sha256 or None,
                mapping=None if request.mapping is None else hash_file(request.mapping),
            ),
            tables=summary.count_tables(self.folder),
            operations=summary.operations,
            deletes={
                result.table: sum(result.operations.values()) for result in deletes if result.operations
            },
            levels=summary.levels,
            equal=summary.equal,
            notes=tuple(self._list_notes()),
            refused=refused,
            engine=self.engine,
        )

    def _list_notes(self) -> Iterator[str]:
        yield from self.source.describe_left_out(self._tables)
        computer_count = self._summary.operations.get("computer add", 0)
        if computer_count and self.session.profile.makes_guid and read_domain_sid(self.session) is None:
            yield f"{computer_count} computers are made without objectSid: the root of the directory has none"
        unmapped = self._summary.unmapped
        existing_sids = find_sids(self.session, sorted({sid for sid, _ in unmapped}))
        count = write_sids(self.folder, unmapped, existing_sids)
        if count:
            who = f"{count} SIDs of accounts are neither mapped nor known to the directory"
            yield f"{who}: {SIDS_NAME} lists them"


def target_of(session: "Session") -> PlanTarget:
    """Return the directory of a session as the target of a plan."""
    return PlanTarget(
        urls=() if session.server_url is None else (session.server_url,),
        profile=session.profile.name,
        root=str(session.naming.root),
        configuration=str(session.naming.configuration),
        keeps_guids=session.keeps_guids,
    )


def prepare_folder(to: Path) -> Path:
    """Create the folder of a plan; return its absolute path.

    The folder of an interrupted planning is emptied.

    Raises:
        ConfigError: it holds something else.
    """
    with convert_folder_errors(f"{to} cannot be used"):
        to.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in to.iterdir()}
        if PLAN_NAME in names:
            raise ConfigError(f"{to} holds a plan already: name another folder")
        if names and WORK_NAME not in names:
            raise ConfigError(f"{to} is not empty: a plan needs a folder of its own")
        for name in names:
            path = to / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (to / WORK_NAME).mkdir()
        (to / WORK_NAME / WITNESS_NAME).touch()
        to.chmod(_PRIVATE)
    return to.resolve()


@contextmanager
def plan_folder(to: Path) -> Iterator[Path]:
    """Prepare the folder of a plan, and yield its absolute path.

    After an error the files of the plan are removed, and a folder that did not exist before.

    Raises:
        ConfigError: the folder holds something else, or the plan cannot be written.
    """
    is_new = not to.exists()
    folder = prepare_folder(to)
    try:
        with convert_folder_errors(f"the plan in {folder} cannot be written"):
            yield folder
    except BaseException:
        remove_plan(folder, keep_folder=not is_new)
        raise
    shutil.rmtree(folder / WORK_NAME, ignore_errors=True)


def remove_plan(folder: Path, *, keep_folder: bool) -> None:
    """Remove the files of an unused plan, and its folder unless that is kept."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not keep_folder:
        folder.rmdir()


@contextmanager
def _convert_disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into `ConfigError`."""
    try:
        yield
    except ConnectionError:
        raise  # not of the disk: the connection to Java is lost, and the session says why
    except OSError as error:
        raise ConfigError(f"the plan in {folder} cannot be written: {error.strerror or error}") from error


SMALL_BYTES: Final = 16 * 1024 * 1024
SMALL_ROWS: Final = 10_000
"""Rows of all parts below which a job is small: starting a task costs as much as some thousand rows."""
NEEDS_SPARK: Final = "a database is read by Spark: leave '--engine local' out"

Enter = Callable[[], AbstractContextManager["Session"]]
"""Opens a session to the target, in a worker."""


@dataclass(frozen=True, slots=True)
class StageTask:
    """Task for workers: read the files of the source.

    Attributes:
        folder: of the plan.
        files: of the source; each is a piece of work.
        mapping: how the source holds values.
    """

    folder: Path
    files: tuple[SourceFile, ...]
    mapping: SourceMapping

    def __call__(self, number: int, stop: StopRequest) -> int:
        """Read one file of the source; a stop takes effect between two rows."""
        with _convert_disk_errors(self.folder):
            return stage_file(self.folder, number, self.files[number], self.mapping, stop)


@contextmanager
def _open_directory_session(access: DirectoryAccess) -> "Iterator[Session]":
    """Open a session to a directory, in a worker."""
    with access.connect() as directory:
        yield directory.session


def _open_offline_session(root: str, profile: str) -> "AbstractContextManager[Session]":
    """Return a session to an offline target, in a worker.

    See `mqdssm.pipeline.migrate.target`.
    """
    return nullcontext(open_offline_session(root, profile))


@dataclass(frozen=True, slots=True)
class RowPlanWork:
    """Work that decides about staged rows (`mqdssm.pipeline.runner.Work`).

    Attributes:
        enter: opens a session to the target.
        lookups: what the source and the target hold.
        options: what was asked for.
        parts: staged files, each with a number that no other one has.
    """

    enter: Enter
    lookups: SharedLookups
    options: RowPlanOptions
    parts: tuple[tuple[int, StagedPart], ...]

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Callable[[int], TaskResult]]:
        """Open one session for all files of a worker; see `Work`."""
        with self.enter() as session:
            yield lambda number: self._plan_rows(
                RowPlanner(session, self.lookups, self.options, stop), number
            )

    def _plan_rows(self, planner: RowPlanner, number: int) -> TaskResult:
        """Decide about the rows of one staged file.

        Raises:
            DirectoryError: the target cannot be asked.
            ConfigError: the file is damaged, or nothing can be written.
            Stopped: the stop was set.
        """
        part_number, part = self.parts[number]
        with _convert_disk_errors(self.options.folder):
            return planner.decide(part, part_number)


@runtime_checkable
class DatabaseRunner(Protocol):
    """Runner that also reads databases: Spark's, which has the drivers."""

    def copy_tables(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """Copy the tables of a database to files; see `mqdssm.spark.jdbc.copy_tables`."""


def copy_tables(runner: Runner, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
    """Copy the tables of a database to files (`DatabaseRunner`).

    Raises:
        ConfigError: the runner is not Spark's, which has the drivers.
    """
    if not isinstance(runner, DatabaseRunner):
        raise ConfigError(NEEDS_SPARK)
    return runner.copy_tables(url, mapping, folder)
