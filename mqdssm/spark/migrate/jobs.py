"""The jobs of planning: Spark hands out pieces of work, workers read and write files themselves."""

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.spark.access import Access
from mqdssm.spark.failures import SparkFailed, pack, unpack
from mqdssm.spark.migrate.deciding import Decider, Wanted
from mqdssm.spark.migrate.known import Known
from mqdssm.spark.migrate.outcome import Done
from mqdssm.spark.migrate.staging import StagedPart
from mqdssm.spark.migrate.staging import stage as stage_file
from mqdssm.spark.sources.folder import SourceFile
from mqdssm.spark.sources.mapping import SourceMapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ATTEMPTS: Final = 4
"""How often Spark gives a piece of work to a worker: a killed worker costs time, not the plan."""
RETRIES: Final = {"spark.master": f"local[*,{TASK_ATTEMPTS}]"}
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


def stage(spark: "SparkSession", folder: Path, files: Sequence[SourceFile], mapping: SourceMapping) -> int:
    """Let workers read the source.

    Returns:
        How many rows it has.

    Raises:
        ConfigError: a file cannot be read, or nothing can be written.
        SparkFailed: Spark itself failed.
    """
    return sum(run(spark, StageTask(folder, tuple(files), mapping), len(files)))


def decide(
    spark: "SparkSession",
    access: Access,
    known: Known,
    wanted: Wanted,
    parts: Sequence[tuple[int, StagedPart]],
) -> list[Done]:
    """Let workers decide about staged rows.

    Raises:
        DirectoryError: the target cannot be asked.
        ConfigError: a file is damaged, or nothing can be written.
        SparkFailed: Spark itself failed.
    """
    if not parts:
        return []
    shipped = spark.sparkContext.broadcast(known)

    def work(number: int) -> Done:
        position, part = parts[number]
        with access.connect() as directory:
            try:
                return Decider(directory.session, shipped.value, wanted).decide(part, position)
            except OSError as error:
                if isinstance(error, MqdssmError):
                    raise
                raise ConfigError(f"{wanted.folder} cannot be written: {error.strerror or error}") from error

    try:
        return run(spark, work, len(parts))
    finally:
        shipped.destroy()


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
