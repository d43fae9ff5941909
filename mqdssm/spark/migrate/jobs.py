"""The jobs of planning: Spark hands out pieces of work, workers read and write files themselves."""

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.spark.access import Access
from mqdssm.spark.export import TASK_ATTEMPTS
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

RETRIES: Final = {"spark.master": f"local[*,{TASK_ATTEMPTS}]"}
"""Plain local mode gives up when a worker crashes for the first time."""
_OUTCOME: Final = "done binary, error string"
_SCHEMA: Final = pa.schema([("done", pa.binary()), ("error", pa.string())])

Work = Callable[[int], Any]


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


class SparkRunner:
    """Lets Spark's workers do it.

    Every method raises the errors of ours that a worker raised, and SparkFailed where Spark itself failed.

    Args:
        spark: the session.
        access: how workers get into the target.
    """

    def __init__(self, spark: "SparkSession", access: Access) -> None:
        self._spark = spark
        self._access = access

    def copy(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """See `Runner`."""
        return copy_tables(self._spark, url, mapping, folder)

    def stage(self, task: StageTask) -> int:
        """See `Runner`."""
        return sum(run(self._spark, task, len(task.files)))

    def decide(self, known: Known, wanted: Wanted, parts: Sequence[tuple[int, StagedPart]]) -> list[Done]:
        """See `Runner`."""
        if not parts:
            return []
        shipped = self._spark.sparkContext.broadcast(known)
        access = self._access

        def work(number: int) -> Done:
            position, part = parts[number]
            with access.connect() as directory:
                return decided(directory.session, shipped.value, wanted, position, part)

        try:
            return run(self._spark, work, len(parts))
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


def run(spark: "SparkSession", work: Work, count: int) -> list[Any]:
    """Do numbered pieces of work, one a task."""
    if not count:
        return []
    numbers = spark.range(0, count, 1, count)
    outcomes = numbers.mapInArrow(_worker(work), _OUTCOME).collect()
    errors = [one["error"] for one in outcomes if one["error"] is not None]
    if errors:
        raise unpack(f"MqdssmSparkError: {errors[0]}") or SparkFailed(errors[0])
    # what our own workers made in this very run, on its way through the JVM
    return [pickle.loads(one["done"]) for one in outcomes]  # noqa: S301


def _worker(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.disable()  # no cycles are made, and looking for them costs a lot
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield pa.RecordBatch.from_pylist([_answer(work, number)], schema=_SCHEMA)
        finally:
            gc.enable()

    return run


def _answer(work: Work, number: int) -> dict[str, Any]:
    """Do a piece of work. An error is an answer: Spark would try again what only a crash deserves."""
    try:
        return {"done": pickle.dumps(work(number)), "error": None}
    except (MqdssmError, MemoryError) as error:
        return {"done": None, "error": str(pack(error))}
