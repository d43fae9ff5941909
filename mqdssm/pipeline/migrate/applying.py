"""Applying a plan: level by level, then references, then verification.

References that wait for objects are set when all levels are done.
The journal records what was done: an interrupted run resumes when the same plan is applied again. The undo
file is on disk before the first change.

Migration in one step: make a plan and apply it, with one session of Spark.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import pyarrow.parquet as pq
from pydantic import AwareDatetime

from mqdssm.directory.loading.items import WINDOW, Effect, LoadOptions
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import lock_file
from mqdssm.model.dn import DN
from mqdssm.pipeline.access import DirectoryAccess, PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.documents import Document, read_document, write_document
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.migrate.apply_journal import JOURNAL_NAME, LATER, ApplyJournal
from mqdssm.pipeline.migrate.apply_work import (
    APPLY_NAME,
    ERRORS_NAME,
    Absences,
    ApplyTask,
    FileDone,
    convert_disk_errors,
)
from mqdssm.pipeline.migrate.orphan_plan import check_orphans
from mqdssm.pipeline.migrate.places import (
    ReferencedPlaces,
    find_existing_targets,
    find_made_in,
    find_referred_to,
    look_up,
    write_guid_map,
)
from mqdssm.pipeline.migrate.plan_check import check_files, check_operations
from mqdssm.pipeline.migrate.plan_file import (
    PLAN_NAME,
    EntryRole,
    Level,
    MigrationPlan,
    PlanKind,
    read_operations,
)
from mqdssm.pipeline.migrate.planning import MigrationSource, PlanRequest, plan_migration
from mqdssm.pipeline.migrate.progress import LineCounter, Watch, WorkerProgress, report_count, tell
from mqdssm.pipeline.migrate.report import (
    LISTED_MAX,
    LostRow,
    MigrationReport,
    tables_of,
    write_refused,
)
from mqdssm.pipeline.migrate.undo import begin_undo, keep_what_was_done, write_undo
from mqdssm.pipeline.migrate.verification import FileVerification, VerifyTask
from mqdssm.pipeline.mqis.mapping import list_spark_settings
from mqdssm.pipeline.runner import Calls, Job, Runner
from mqdssm.pipeline.spark_options import HERE, SparkOptions

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

STATE_NAME: Final = "state.json"
LOCK_NAME: Final = "lock"
VERIFIED_NAME: Final = "verified"
"""Subfolder of `APPLY_NAME` with the progress of each worker in verification."""
WINDOW_MIN: Final = 16
"""Fewest changes that may be under way if errors are limited: fewer would be slow."""
CHILDREN_LEVEL: Final = 3
"""First level whose names hold GUIDs: names of routing links do."""
SMALL_ROWS: Final = 10_000
"""Rows of all files below which a job is small: servers take changes singly, so more workers help little."""


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    """Options for applying a plan.

    Attributes:
        max_rate: most changes a second, of all workers together; None: as fast as the server can.
        max_errors: errors after which nothing more is begun; what is under way then may fail, too: of each
            worker no more than `LoadOptions.window` as `window` has it. None: any number.
        allow_deletes: how many objects may be deleted; None: as many as the plan was allowed.
        transactions: objects added in one transaction ([RFC5805]), where the server has them; 0: none.
        verify: read everything back.

    Raises:
        ConfigError: a number out of range.
    """

    max_rate: float | None = None
    max_errors: int | None = None
    allow_deletes: int | None = None
    transactions: int = 0
    verify: bool = True

    def compute_window(self, workers: int) -> int:
        """Return how many changes of one worker may be under way.

        A limit of errors is shared out among the workers.
        """
        if self.max_errors is None:
            return WINDOW
        return min(WINDOW, max(WINDOW_MIN, self.max_errors // workers))

    def __post_init__(self) -> None:
        LoadOptions(max_rate=self.max_rate, transactions=self.transactions)
        for name, number in (("max_errors", self.max_errors), ("allow_deletes", self.allow_deletes)):
            if number is not None and number < 0:
                raise ConfigError(f"{name} {number} is less than nothing")


class ApplyState(Document):
    """Document ``state.json``: how far a plan has been applied.

    Attributes:
        started: for the first time.
        resumed: how often it was broken off and went on.
        undo_is_whole: the undo file is on disk: changes may have been made.
        ended: when all was done; None: it is not.
    """

    started: AwareDatetime
    resumed: int = 0
    undo_is_whole: bool = False
    ended: AwareDatetime | None = None

    @classmethod
    def load(cls, folder: Path) -> "ApplyState | None":
        """Read the state of a plan; None if applying has not begun.

        Raises:
            ConfigError: it cannot be read.
        """
        path = folder / STATE_NAME
        if not path.exists():
            return None
        return read_document(cls, path, other="cannot be used: it does not say how far the plan is applied")

    def write(self, folder: Path) -> "ApplyState":
        """Write the state to a folder atomically, and return it."""
        write_document(folder / STATE_NAME, self)
        return self


def apply_plan(
    folder: Path,
    urls: str | Sequence[str],
    options: ApplyOptions | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> MigrationReport:
    """Apply a plan, or resume applying one after an interruption.

    Args:
        folder: of the plan.
        urls: LDAP servers, tried in turn; of the directory that was planned for.
        options: how.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.
        watch: is told what is being done, and how far it is; from another thread, too.
        **login: see `PipelineLogIn`.

    Returns:
        The report, as it was written to ``report.json``.

    Raises:
        ConfigError: the plan cannot be applied: why, and what to do.
        DirectoryError: the target cannot be asked, or is gone; apply it again to go on.
        SparkFailed: Spark itself failed; as above.
    """
    chosen, folder = options or ApplyOptions(), folder.resolve()
    plan = MigrationPlan.load(folder)
    refuse(plan, chosen)
    runs_on = JobEngine.of(engine, on, workers)
    runs_on.check()
    credentials = read_variable(login) if runs_on.is_local else login
    work = folder / APPLY_NAME
    with convert_disk_errors(folder):
        work.mkdir(exist_ok=True)
        with lock_file(work / LOCK_NAME, wait_s=0, message=f"another program applies the plan in {folder}"):
            check_files(folder, plan.files)
            check_operations(plan, folder, chosen.allow_deletes)
            with (
                open_access(urls, credentials, runs_on.on) as access,
                access.connect(read_only=False) as directory,
            ):
                session = directory.session
                check_target(plan, session)
                if plan.kind is PlanKind.ORPHANS:
                    tell(watch, "searching the orphans again")
                    check_orphans(plan, folder, session)
                at = access.at(session.server_url or access.urls[0])
                with runs_on.runner("mqdssm apply", [folder / PLAN_NAME]) as runner:
                    workers_access, kind = at.for_executors(runs_on.on), runs_on.kind.value
                    return Applying(plan, chosen, workers_access, folder, session, runner, watch, kind).run()


def refuse(plan: MigrationPlan, options: ApplyOptions) -> None:
    """Refuse a plan that may not be applied.

    Raises:
        ConfigError: why.
    """
    if plan.refused is not None:
        raise ConfigError(f"the plan cannot be applied: {plan.refused}")
    if not plan.target.urls:
        raise ConfigError("the plan was made without a directory, for LDIF alone: plan again with one")
    deletes = sum(plan.deletes.values())
    if options.allow_deletes is None and plan.kind is PlanKind.ORPHANS:
        raise ConfigError(f"the plan deletes {deletes} objects: allow them with --allow-deletes {deletes}")
    if options.allow_deletes is not None and deletes > options.allow_deletes:
        raise ConfigError(
            f"the plan deletes {deletes} objects, {options.allow_deletes} are allowed (--allow-deletes)"
        )


def check_target(plan: MigrationPlan, session: "Session") -> None:
    """Check that a session is to the directory that the plan was made for.

    Raises:
        ConfigError: it is another one.
    """
    target, naming = plan.target, session.naming
    mine = (target.profile, DN.parse(target.root), DN.parse(target.configuration), target.keeps_guids)
    actual = (session.profile.name, naming.root, naming.configuration, session.keeps_guids)
    if mine != actual:
        wording = {True: "keeps GUIDs", False: "makes GUIDs itself"}
        raise ConfigError(
            f"the plan is for {target.root} ({target.profile}, {wording[target.keeps_guids]}), "
            f"this is {naming.root} ({session.profile.name}, {wording[session.keeps_guids]})"
        )


@dataclass
class Applying:
    """One run that applies a plan, whose files were checked.

    Attributes:
        plan: the plan.
        options: options of the run.
        access: access of workers to the target.
        folder: folder of the plan.
        session: session to the target.
        runner: runner of the jobs.
        watch: is told what is being done, and how far it is; from another thread, too.
        engine: name of the engine, for the report.
    """

    plan: MigrationPlan
    options: ApplyOptions
    access: DirectoryAccess
    folder: Path
    session: "Session"
    runner: Runner
    watch: Watch | None = None
    engine: str = ""
    _done: list[FileDone] = field(init=False, default_factory=list)
    _verified: list[FileVerification] = field(init=False, default_factory=list)
    _left: set[tuple[str, int]] = field(init=False, default_factory=set)
    _stopped: str | None = field(init=False, default=None)

    def run(self) -> MigrationReport:
        """Apply the levels, set references, verify, and write the report.

        Raises:
            ConfigError: the disk is full, say; apply it again to go on.
            DirectoryError: the target is gone; likewise.
        """
        with convert_disk_errors(self.folder):
            return self._run()

    def _run(self) -> MigrationReport:
        state = self._begin()
        places = ReferencedPlaces()
        for level in sorted(self.plan.levels, key=lambda plan_level: plan_level.number):
            if self._stopped is not None:
                self._leave(level)
                continue
            if level.number >= CHILDREN_LEVEL and not self.plan.target.keeps_guids and not places.by_guid:
                places = self._look_up_places()
            self._apply([file.path for file in level.files], "", places, f"level {level.name}", level.rows)
        if self._stopped is not None:
            self._leave_references()
        else:
            places = self._set_references(places)
            if self.options.verify:
                self._verify(places)
        return self._report(state)

    def _begin(self) -> ApplyState:
        """Create the folders, the state and the undo file, all before the first change."""
        work = self.folder / APPLY_NAME
        shutil.rmtree(work / ERRORS_NAME, ignore_errors=True)
        for folder in (work / ERRORS_NAME, self.folder / JOURNAL_NAME):
            folder.mkdir(parents=True, exist_ok=True)
        state = ApplyState.load(self.folder)
        if state is None:
            state = ApplyState(started=_read_clock()).write(self.folder)
        elif state.ended is None:
            state = state.model_copy(update={"resumed": state.resumed + 1}).write(self.folder)
        if not state.undo_is_whole:
            tell(self.watch, "writing the undo file")
            write_undo(self.session, self.folder, self.plan)
            state = state.model_copy(update={"undo_is_whole": True}).write(self.folder)
        begin_undo(self.folder)
        return state

    def _apply(
        self, parts: Sequence[str], stage: str, places: ReferencedPlaces, activity: str, rows: int
    ) -> None:
        if not parts:
            return
        workers = self.runner.concurrency(len(parts), is_small=rows < SMALL_ROWS)
        rate = self.options.max_rate
        task = ApplyTask(
            folder=self.folder,
            access=self.access,
            parts=tuple(parts),
            stage=stage,
            places=places,
            absences=self._absences,
            load=LoadOptions(
                window=self.options.compute_window(workers),
                max_rate=None if rate is None else rate / workers,
                transactions=self.options.transactions,
                identify=not self.plan.target.keeps_guids,
            ),
            errors_max=self.options.max_errors,
        )
        lines = LineCounter([ApplyJournal(self.folder, part, stage).path for part in parts])
        with report_count(self.watch, activity, rows, lines):
            results: list[FileDone] = self._run_pieces(task, "applying", rows)
        self._done += results
        for result in results:
            self._left.update(result.left)
        if unmoved := [dn for file in results for dn in file.unmoved]:
            self._stopped = f"{', '.join(unmoved)} was not moved"  # all later operations depend on that
        if any(file.stopped for file in results):
            self._stopped = f"more than {self.options.max_errors} errors (--max-errors)"

    def _run_pieces(self, task: ApplyTask | VerifyTask, activity: str, rows: int) -> list[Any]:
        names = tuple(f"{activity} {part}" for part in task.parts)
        return self.runner.run(Job(Calls(task), names, is_small=rows < SMALL_ROWS))

    def _leave(self, level: Level) -> None:
        """Count the rows of a level that is not tried any more."""
        for file in level.files:
            self._left.update(_rows_of(self.folder / file.path))

    # -- references

    def _leave_references(self) -> None:
        """Count the rows whose references are not tried any more."""
        for part in self._list_parts_with_later():
            recorded_lines = ApplyJournal(self.folder, part, LATER).read()
            self._left.update(
                (operation.table, operation.source_row)
                for operation in read_operations(self.folder / part)
                if operation.later
                and not (operation.row_id in recorded_lines and recorded_lines[operation.row_id].is_over)
            )

    def _list_parts_with_later(self) -> list[str]:
        return [file.path for file in self.plan.changes if _count_later_rows(self.folder / file.path)]

    def _look_up_places(self) -> ReferencedPlaces:
        parts = [file.path for file in self.plan.files]
        planned = find_referred_to(self.folder, parts)
        absent = self._absences.by_guid
        dns = {guid: dn for guid, dn in planned.items() if guid not in absent}
        return look_up(self.session, dns | find_existing_targets(self.session, self.folder, parts, planned))

    @property
    def _absences(self) -> Absences:
        """Objects that the target lacks, since it refused them so far."""
        return Absences.of(absence for file in self._done for absence in file.absent)

    def _set_references(self, places: ReferencedPlaces) -> ReferencedPlaces:
        """Set the references that had to wait.

        Returns the places of referenced objects.
        """
        parts = self._list_parts_with_later()
        if parts:
            places = self._look_up_places()
            rows = sum(_count_later_rows(self.folder / part) for part in parts)
            self._apply(parts, LATER, places, "setting references", rows)
        return places

    # -- the end

    def _verify(self, places: ReferencedPlaces) -> None:
        parts = tuple(file.path for file in self.plan.files)
        rows = sum(file.rows for file in self.plan.files)
        progress = WorkerProgress(self.folder / APPLY_NAME / VERIFIED_NAME)
        progress.begin()
        task = VerifyTask(
            folder=self.folder,
            access=self.access,
            parts=parts,
            places=places,
            made_objects=find_made_in(self.folder, parts, keeps_guids=self.plan.target.keeps_guids),
            progress=progress,
        )
        with report_count(self.watch, "reading everything back", rows, progress):
            self._verified = self._run_pieces(task, "reading back", rows)

    def _report(self, state: ApplyState) -> MigrationReport:
        tell(self.watch, "writing the report")
        ended = None if self._stopped else _read_clock()
        guids = [row for file in self._verified for row in file.guids]
        if guids or (not self.plan.target.keeps_guids and self._verified):
            write_guid_map(self.folder, sorted(guids, key=lambda row: (row.type, row.dn.lower())))
        refused = [operation for file in self._done for operation in (*file.refused, *file.dangling)]
        write_refused(self.folder, refused)
        lost = [lost_object for file in self._verified for lost_object in file.lost]
        rows = [operation.row for operation in refused] + [lost_object.row for lost_object in lost]
        operations: Counter[str] = Counter()
        for file in self._done:
            operations.update(file.effects)
        report = MigrationReport(
            source=self.plan.source,
            server=self.access.urls[0],
            started=state.started,
            ended=_read_clock(),
            resumed=state.resumed,
            verified=bool(self._verified) or (self.options.verify and not self._stopped),
            stopped=self._stopped,
            tables=tables_of(self.plan, self._done, self._verified, self._left, self._find_changing(lost)),
            deleted=self._count_deleted(operations),
            not_deleted=rows.count(0),
            operations=dict(sorted(operations.items())),
            refused_count=len(refused),
            refused=tuple(refused[:LISTED_MAX]),
            lost_count=len(lost),
            lost=tuple(lost[:LISTED_MAX]),
            not_carried={
                name: table.not_carried for name, table in self.plan.tables.items() if table.not_carried
            },
            guid_map=len(guids),
            undo_records=self._undo(),
            engine=self.engine,
        )
        report.write(self.folder)
        state.model_copy(update={"ended": ended}).write(self.folder)
        return report

    def _count_deleted(self, operations: Mapping[str, int]) -> int:
        """Return the number of deleted objects.

        A settings object counts only in a plan for orphans.
        """
        is_for_orphans = self.plan.kind is PlanKind.ORPHANS
        roles = (EntryRole.OBJECT, EntryRole.SETTINGS) if is_for_orphans else (EntryRole.OBJECT,)
        return sum(operations.get(f"{role} {Effect.DELETED}", 0) for role in roles)

    def _find_changing(self, lost: Iterable[LostRow]) -> set[tuple[str, int]]:
        """Return the rows that lost an equal entry and have other operations.

        The entry was equal when the plan was made; the operations are those of the plan.
        """
        rows = {(lost_object.table, lost_object.row) for lost_object in lost if lost_object.was_equal}
        files = self.plan.changes if rows else ()
        return {row for file in files for row in _rows_of(self.folder / file.path) if row in rows}

    def _undo(self) -> int:
        """Reduce the undo file to what was done, and count its records.

        An object that existed already counts as done: it did not exist when the plan was made.
        """
        completed_rows: set[int] = set()
        partly: set[int] = set()
        for file in self.plan.changes:
            for stage in ("", LATER):
                for line in ApplyJournal(self.folder, file.path, stage).read().values():
                    if line.is_done:
                        completed_rows.add(line.row)
                    elif line.effect is Effect.REJECTED:
                        partly.add(line.row)
        names = {row: name for file in self._done for row, name in file.names.items()}
        return keep_what_was_done(self.folder, completed_rows, partly, names)


def _rows_of(path: Path) -> Iterator[tuple[str, int]]:
    """Return the table and the row of each operation in a file."""
    table = pq.read_table(path, columns=["table", "source_row"])
    return zip(table.column("table").to_pylist(), table.column("source_row").to_pylist(), strict=True)


def _count_later_rows(path: Path) -> int:
    """Count the operations in a file with references that are set last."""
    column = pq.read_table(path, columns=["later"]).column("later")
    return sum(bool(value) for chunk in column.chunks if len(chunk.keys) for value in chunk.to_pylist())


def _read_clock() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class Migrated(NamedTuple):
    """Plan and report of a migration.

    Attributes:
        plan: what was to be done.
        report: the outcomes; None: the plan could not be applied (`MigrationPlan.refused`).
    """

    plan: MigrationPlan
    report: "MigrationReport | None"


def migrate(
    request: PlanRequest,
    urls: str | Sequence[str],
    to: Path,
    options: ApplyOptions | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> Migrated:
    """Plan a migration and apply the plan.

    If it is interrupted after the plan was made, `apply_plan` resumes it.

    Args:
        request: what for.
        urls: LDAP servers, tried in turn.
        to: a new or empty folder for the plan.
        options: how it is applied.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; a database needs
            Spark.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.
        watch: is told what is being done, and how far it is; from another thread, too.
        **login: see `PipelineLogIn`.

    Raises:
        ConfigError: something that was given cannot be used; with what, and what is expected.
        DirectoryError: the target cannot be asked, or is gone.
        SparkFailed: Spark itself failed.
    """
    source = MigrationSource.of(request)  # invalid requests are refused before Java starts
    chosen = source.choose_engine(engine, on, workers)
    with open_access(urls, login, on) as access, access.connect() as directory:
        directory.session.check_msmq()
    where = chosen.arguments()
    with chosen.runner("mqdssm migrate", conf=list_spark_settings(source.mapping)):  # one session for both
        plan = plan_migration(request, urls, to, **where, watch=watch, **login)
        if plan.refused is not None:
            return Migrated(plan, None)
        report = apply_plan(to, urls, options, **where, watch=watch, **login)
        return Migrated(plan, report)
