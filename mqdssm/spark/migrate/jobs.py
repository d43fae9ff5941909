"""The jobs of planning: Spark hands out pieces of work, workers read and write files themselves."""

import contextlib
import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.spark.access import Access
from mqdssm.spark.failures import SparkFailed, pack, unpack
from mqdssm.spark.migrate.deciding import Decider, Wanted
from mqdssm.spark.migrate.known import Known
from mqdssm.spark.migrate.outcome import Done
from mqdssm.spark.migrate.staging import StagedPart
from mqdssm.spark.migrate.staging import stage as stage_file
from mqdssm.spark.mqis_files import TableFiles
from mqdssm.spark.sources.folder import SourceFile
from mqdssm.spark.sources.jdbc import copy_tables
from mqdssm.spark.sources.mapping import SourceMapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqdssm.directory.session import Session

SMALL_BYTES: Final = 16 * 1024 * 1024
SMALL_ROWS: Final = 10_000
"""Of all pieces of work together: starting a task costs as much as some thousand rows."""
_OUTCOME: Final = "done binary, error string"
_SCHEMA: Final = pa.schema([("done", pa.binary()), ("error", pa.string())])

Work = Callable[[int], Any]
Enter = Callable[[], AbstractContextManager["Session"]]
"""Opens a session to the target, in a worker."""


@dataclass(frozen=True, slots=True)
class StageTask:
    """Reading the source, as workers need to know it.

    Attributes:
        folder: of the plan.
        files: of the source; each is a piece of work.
        mapping: how the source holds values.
    """

    folder: Path
    files: tuple[SourceFile, ...]
    mapping: SourceMapping

    def __call__(self, number: int) -> int:
        """Read one file."""
        try:
            return stage_file(self.folder, number, self.files[number], self.mapping)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written: {error.strerror or error}") from error


class Runner(Protocol):
    """Does pieces of work, somewhere."""

    def copy(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """Copy the tables of a database to files (`mqdssm.spark.sources.jdbc.copy_tables`)."""

    def stage(self, task: StageTask) -> int:
        """Read the files of a source; gives the number of rows."""

    def decide(self, known: Known, wanted: Wanted, parts: Sequence[tuple[int, StagedPart]]) -> list[Done]:
        """Decide about staged rows; each part has a number that no other one has."""


def into(access: Access) -> "Enter":
    """How workers get into a directory."""

    @contextlib.contextmanager
    def enter() -> "Iterator[Session]":
        with access.connect() as directory:
            yield directory.session

    return enter


class SparkRunner:
    """Lets Spark's workers do it.

    Every method raises the errors of ours that a worker raised, and SparkFailed where Spark itself failed.

    Args:
        spark: the session.
        enter: how workers get into the target; None: there is none, and nothing can be decided.
    """

    def __init__(self, spark: "SparkSession", enter: "Enter | None" = None) -> None:
        self._spark = spark
        self._enter = enter

    def copy(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """See `Runner`."""
        return copy_tables(self._spark, url, mapping, folder)

    def stage(self, task: StageTask) -> int:
        """See `Runner`."""
        size = sum(file.path.stat().st_size for file in task.files)
        return sum(run(self._spark, task, len(task.files), is_small=size < SMALL_BYTES))

    def decide(self, known: Known, wanted: Wanted, parts: Sequence[tuple[int, StagedPart]]) -> list[Done]:
        """See `Runner`."""
        enter = self._enter
        if enter is None:
            raise ValueError("nothing can be decided without a target")
        if not parts:
            return []
        shipped = self._spark.sparkContext.broadcast(known)

        @contextlib.contextmanager
        def ready() -> Iterator[Work]:
            with enter() as session:
                yield lambda number: decided(session, shipped.value, wanted, *parts[number])

        rows = sum(part.rows for _, part in parts)
        try:
            return run_ready(self._spark, ready, len(parts), is_small=rows < SMALL_ROWS)
        finally:
            shipped.destroy()


def decided(session: "Session", known: Known, wanted: Wanted, number: int, part: StagedPart) -> Done:
    """Decide about the rows of one staged file.

    Raises:
        DirectoryError: the target cannot be asked.
        ConfigError: the file is damaged, or nothing can be written.
    """
    try:
        return Decider(session, known, wanted).decide(part, number)
    except OSError as error:
        raise ConfigError(f"{wanted.folder} cannot be written: {error.strerror or error}") from error


def run(spark: "SparkSession", work: Work, count: int, *, is_small: bool = False) -> list[Any]:
    """Do numbered pieces of work that need nothing opened, as `run_ready`."""
    return run_ready(spark, lambda: contextlib.nullcontext(work), count, is_small=is_small)


def run_ready(
    spark: "SparkSession", ready: Callable[[], AbstractContextManager[Work]], count: int, *, is_small: bool
) -> list[Any]:
    """Do numbered pieces of work: one a task, or some together where starting tasks would be most of it.

    Args:
        spark: the session.
        ready: opens what a task needs for all of its pieces.
        count: how many pieces there are.
        is_small: do some of them together.

    Returns:
        What they gave, in no order.
    """
    if not count:
        return []
    tasks = min(count, spark.sparkContext.defaultParallelism) if is_small else count
    numbers = spark.range(0, count, 1, tasks)
    outcomes = numbers.mapInArrow(_worker(ready), _OUTCOME).collect()
    errors = [one["error"] for one in outcomes if one["error"] is not None]
    if errors:
        raise unpack(f"MqdssmSparkError: {errors[0]}") or SparkFailed(errors[0])
    # what our own workers made in this very run, on its way through the JVM
    return [pickle.loads(one["done"]) for one in outcomes]  # noqa: S301


def _worker(
    ready: Callable[[], AbstractContextManager[Work]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs. An error is an answer: Spark would try again what only a crash deserves."""

    def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.disable()  # no cycles are made, and looking for them costs a lot
        answers: list[dict[str, Any]] = []
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        try:
            with ready() as work:
                answers += [{"done": pickle.dumps(work(number)), "error": None} for number in numbers]
        except (MqdssmError, MemoryError) as error:
            answers.append({"done": None, "error": str(pack(error))})
        finally:
            gc.enable()
        yield pa.RecordBatch.from_pylist(answers, schema=_SCHEMA)

    return work_on
