"""Jobs of planning: a runner distributes the work; workers read and write files themselves."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from mqdssm.errors import ConfigError
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.migrate.outcome import TaskResult
from mqdssm.pipeline.migrate.row_planner import RowPlanner, RowPlanOptions
from mqdssm.pipeline.migrate.shared_lookups import SharedLookups
from mqdssm.pipeline.migrate.staging import StagedPart
from mqdssm.pipeline.migrate.staging import stage as stage_file
from mqdssm.pipeline.migrate.target import offline_session
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.folder import SourceFile
from mqdssm.pipeline.mqis.mapping import SourceMapping
from mqdssm.pipeline.runner import Calls, Job, Runner, StopRequest

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

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
        try:
            return stage_file(self.folder, number, self.files[number], self.mapping, stop)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class DirectorySessions:
    """Opens sessions to a directory, in workers."""

    access: DirectoryAccess

    @contextlib.contextmanager
    def __call__(self) -> "Iterator[Session]":
        """Open a session."""
        with self.access.connect() as directory:
            yield directory.session


@dataclass(frozen=True, slots=True)
class OfflineSessions:
    """Makes sessions to an offline target (`mqdssm.pipeline.migrate.target`)."""

    root: str
    profile: str

    @contextlib.contextmanager
    def __call__(self) -> "Iterator[Session]":
        """Make a session."""
        yield offline_session(self.root, self.profile)


@dataclass(frozen=True, slots=True)
class RowPlanWork:
    """Work that decides about staged rows (`mqdssm.pipeline.runner.Work`).

    Attributes:
        enter: opens a session to the target.
        known: what the source and the target hold.
        wanted: what was asked for.
        parts: staged files, each with a number that no other one has.
    """

    enter: Enter
    known: SharedLookups
    wanted: RowPlanOptions
    parts: tuple[tuple[int, StagedPart], ...]

    @contextlib.contextmanager
    def open(self, stop: StopRequest) -> Iterator[Callable[[int], TaskResult]]:
        """Open one session for all files of a worker; see `Work`."""
        with self.enter() as session:
            yield lambda number: self._plan_rows(RowPlanner(session, self.known, self.wanted, stop), number)

    def _plan_rows(self, planner: RowPlanner, number: int) -> TaskResult:
        """Decide about the rows of one staged file.

        Raises:
            DirectoryError: the target cannot be asked.
            ConfigError: the file is damaged, or nothing can be written.
            Stopped: the stop was set.
        """
        own, part = self.parts[number]
        try:
            return planner.decide(part, own)
        except OSError as error:
            raise ConfigError(f"{self.wanted.folder} cannot be written: {error.strerror or error}") from error


@runtime_checkable
class DatabaseRunner(Protocol):
    """Runner that also reads databases: Spark's, which has the drivers."""

    def copy_tables(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """Copy the tables of a database to files; see `mqdssm.spark.jdbc.copy_tables`."""


class Jobs:
    """The jobs of planning.

    Every method raises each `MqdssmError` of a worker, and the errors of its runner.

    Args:
        runner: does the work.
        enter: how workers get into the target; None: there is none, and nothing can be decided.
    """

    def __init__(self, runner: Runner, enter: "Enter | None" = None) -> None:
        self._runner = runner
        self._enter = enter

    def copy(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """Copy the tables of a database to files (`DatabaseRunner`).

        Raises:
            ConfigError: the runner is not Spark's, which has the drivers.
        """
        if not isinstance(self._runner, DatabaseRunner):
            raise ConfigError(NEEDS_SPARK)
        return self._runner.copy_tables(url, mapping, folder)

    def stage(self, task: StageTask) -> int:
        """Read the files of a source, and return the number of rows."""
        size = sum(file.path.stat().st_size for file in task.files)
        names = tuple(f"reading {file.path.name}" for file in task.files)
        return sum(self._runner.run(Job(Calls(task), names, is_small=size < SMALL_BYTES)))

    def decide(
        self, known: SharedLookups, wanted: RowPlanOptions, parts: Sequence[tuple[int, StagedPart]]
    ) -> list[TaskResult]:
        """Decide about staged rows; the number of each part must be unique."""
        if self._enter is None:
            raise ValueError("nothing can be decided without a target")
        names = tuple(f"deciding about {part.path}" for _, part in parts)
        rows = sum(part.rows for _, part in parts)
        work = RowPlanWork(self._enter, known, wanted, tuple(parts))
        return self._runner.run(Job(work, names, is_small=rows < SMALL_ROWS))
