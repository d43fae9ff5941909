"""The runner on Spark, which only schedules.

Tasks get numbers, and results pass the JVM unchanged.
Every Python worker of Spark imports this module. Validation rules that Spark evaluates are imported on use.
"""

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mqdssm.errors import ConfigError
from mqdssm.pipeline.local import defer_signals
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.mapping import SourceMapping
from mqdssm.pipeline.runner import (
    ATTEMPTS,
    Job,
    OnDone,
    Results,
    Stopped,
    StopRequest,
    Work,
    perform_pieces,
    run_in_background,
)
from mqdssm.pipeline.shared_folder import make_temporary_folder
from mqdssm.pipeline.spark_options import LOCAL, SparkOptions
from mqdssm.pipeline.worker import GRACE_S
from mqdssm.spark.cluster import probe, refuse_speculation
from mqdssm.spark.jdbc import copy_tables
from mqdssm.spark.session import check_spark, spark_session

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from mqdssm.pipeline.validate.rules.rule import Rule
    from mqdssm.pipeline.validate.run import Applied
    from mqdssm.pipeline.validate.sources import ValidationSource
    from mqdssm.spark.diff_join import SparkJoin


def _types_of(applied: "Sequence[Applied]") -> dict[str, None]:
    from mqdssm.pipeline.validate.rules.rule import MissingReference

    names: dict[str, None] = {}
    for rule, types in applied:
        names.update(dict.fromkeys(types))
        if isinstance(rule, MissingReference):
            names[rule.target] = None
    return names


RETRIES: Final = {"spark.master": f"local[*,{ATTEMPTS}]"}
"""Settings that repeat failed tasks: plain local mode gives up at the first crash of a worker."""
_OUTCOME: Final = "number long, answer binary"
_SCHEMA: Final = pa.schema([("number", pa.int64()), ("answer", pa.binary())])
_POLL_S: Final = 0.2
_GROUP: Final = "spark.jobGroup.id"
_FAILURE: Final = ".failure"
"""End of the names of files with answers of failed pieces, beside a stop file."""


class SparkRunner:
    """Runner on Spark's workers; see `mqdssm.pipeline.runner.Runner`.

    Each piece is a task; the pieces of a small job share as many tasks as there are cores.

    A stop reaches the pieces through a file that their workers poll, so that they end at a safe place as with
    the local runner (decision M110). A piece that fails also writes its error into a file beside it, in case
    its worker is lost before it can answer.

    Args:
        spark: the session.
        shared: a folder that all machines of a cluster see; without it a stop cancels the job at once.

    Attributes:
        spark: the session.
    """

    def __init__(self, spark: "SparkSession", shared: Path | None = None) -> None:
        self.spark: Final = spark
        self._shared = shared

    def concurrency(self, count: int, *, is_small: bool = False) -> int:  # noqa: ARG002  it is the same
        """See `Runner`."""
        return min(count, int(self.spark.sparkContext.defaultParallelism))

    def run(self, job: Job, *, on_done: OnDone | None = None, stop: StopRequest | None = None) -> list[Any]:
        """See `Runner`."""
        count = len(job.names)
        if not count:
            return []
        stop = stop or StopRequest()
        stop.check()
        tasks = self.concurrency(count) if job.is_small else count
        numbers = self.spark.range(0, count, 1, tasks)
        # unpickled once in each worker, not once a task: it may be large
        work = self.spark.sparkContext.broadcast(job.work)
        results = Results(count)
        try:
            with defer_signals(stop), stop_file(str(self.spark.sparkContext.master), self._shared) as path:
                with self._observe_job(on_done, stop, path, count, tasks):
                    rows = numbers.mapInArrow(_make_worker(work, path), _OUTCOME).collect()
                for row in sorted(rows, key=lambda row: row["number"]):
                    results.add(row["number"], bytes(row["answer"]))
                return _read_values(results, path)
        finally:
            with contextlib.suppress(Exception):  # Java may have ended, which is reported already
                work.destroy()

    def copy_tables(self, url: str, mapping: SourceMapping, folder: Path) -> dict[str, TableFiles]:
        """Copy the tables of a database to files; see `mqdssm.spark.jdbc.copy_tables`."""
        return copy_tables(self.spark, url, mapping, folder)

    def check_workers(self, on: SparkOptions, files: Sequence[Path] = ()) -> None:
        """See `mqdssm.pipeline.validate.run.SqlRunner`."""
        probe(self.spark, on, files)

    def check_rules(self, rules: "Sequence[Rule]", source: "ValidationSource") -> None:
        """Check that Spark can evaluate rules.

        Raises:
            ConfigError: it cannot evaluate one; naming the rule.
        """
        from pyspark.errors import AnalysisException, ParseException

        from mqdssm.pipeline.validate.rules.rule import Wrong
        from mqdssm.spark.plans import make_message_sql, read_frame

        present = source.list_present()
        for rule in rules:
            types = rule.applies(present).types
            for name in types:
                frame = read_frame(self.spark, source.sets[name]).limit(0)
                try:
                    bad = frame.selectExpr(f"({rule.condition}) as bad") if isinstance(rule, Wrong) else frame
                    frame.selectExpr(f"{make_message_sql(rule.message, frame)} as message")
                    kind = bad.schema[0].dataType.simpleString()
                except (AnalysisException, ParseException) as error:
                    words = str(error).splitlines()[0]
                    raise ConfigError(f"rule {rule.id}, type {name}: {words}") from None
                if kind not in {"boolean", "void"}:
                    raise ConfigError(f"rule {rule.id}: its condition gives {kind}, not true or false")

    def find_by_rules(
        self, rules: "Sequence[Applied]", source: "ValidationSource", folder: Path
    ) -> Iterator[pa.RecordBatch]:
        """Apply rules by Spark; see `mqdssm.pipeline.validate.run.SqlRunner`."""
        import pyarrow.parquet as pq

        from mqdssm.pipeline.validate.scan import SCHEMA
        from mqdssm.spark.plans import make_plans, name_to_write, read_frame, union_of

        frames = {name: read_frame(self.spark, source.sets[name]) for name in _types_of(rules)}
        frame = union_of(make_plans(frames, rules, source.dns))
        frame.write.option("compression", "none").parquet(name_to_write(folder))
        for path in sorted(folder.glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    yield batch.cast(SCHEMA)

    def join(self) -> "SparkJoin":
        """See `mqdssm.pipeline.diff.pairing.JoinRunner`."""
        from mqdssm.spark.diff_join import SparkJoin

        return SparkJoin(self.spark)

    @contextlib.contextmanager
    def _observe_job(
        self, on_done: OnDone | None, stop: StopRequest, path: str | None, count: int, tasks: int
    ) -> Iterator[None]:
        """Report progress and pass a stop on to the workers, while a job runs.

        Raises:
            Stopped: the stop was set, and Spark cancelled the job because it did not end in time.
        """
        context: Any = self.spark.sparkContext
        before = context.getLocalProperty(_GROUP)
        group = f"mqdssm-{uuid.uuid4()}"

        def watch(ended: threading.Event) -> None:
            deadline = None
            while not ended.wait(_POLL_S):
                if stop.is_set:
                    if deadline is None:
                        deadline = time.monotonic() + (GRACE_S if StopFile(path).write() else 0.0)
                    if time.monotonic() >= deadline:
                        context.cancelJobGroup(group)
                if on_done is not None:
                    on_done(_count_finished(context, group) * count // tasks, count)

        context.setLocalProperty(_GROUP, group)
        try:
            with run_in_background(watch):
                yield
        except Exception as error:
            if stop.is_set:
                raise Stopped("the work was stopped") from error
            raise
        finally:
            context.setLocalProperty(_GROUP, before)
        if on_done is not None:
            on_done(count, count)


def _count_finished(context: Any, group: str) -> int:
    """Return the number of finished tasks of a job group."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


class StopFile(StopRequest):
    """Stop request that the program and the workers of a job share as a file.

    Args:
        path: of the file, which exists when the stop is requested; None: the request is not shared.
    """

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self._path = None if path is None else Path(path)
        self._next_s = 0.0

    def set(self) -> None:
        """Request the stop for all workers of the job."""
        super().set()
        self.write()

    def set_failed(self, number: int, answer: bytes) -> None:
        """Record a failed piece, and request the stop; see `StopRequest`.

        The answer is written to a file before the stop reaches other workers.
        """
        if self._path is not None:
            with contextlib.suppress(OSError):
                new_path = self._path.with_name(f"{uuid.uuid4()}.new")
                new_path.write_bytes(answer)
                new_path.replace(self._path.with_name(f"{number}{_FAILURE}"))
        self.set()

    def read_failures(self) -> list[tuple[int, bytes]]:
        """Return numbers and answers of the pieces that failed.

        The pieces are in the order of their numbers.
        """
        if self._path is None:
            return []
        paths = self._path.parent.glob(f"*{_FAILURE}")
        return sorted((int(path.name.removesuffix(_FAILURE)), path.read_bytes()) for path in paths)

    def write(self) -> bool:
        """Write the file; False if the workers do not see it."""
        try:
            if self._path is not None:
                self._path.touch()
        except OSError:
            return False
        return self._path is not None

    @property
    def is_set(self) -> bool:
        """True if the stop was requested; looks at the file every `_POLL_S` seconds."""
        now = time.monotonic()
        if self._path is not None and now >= self._next_s and not super().is_set:
            self._next_s = now + _POLL_S
            if os.path.exists(self._path):  # noqa: PTH110  cheaper: loops of workers call this
                super().set()
        return super().is_set


def _read_values(results: Results, stop_path: str | None) -> list[Any]:
    """Return the results of all pieces.

    If a piece was not answered, its error is raised.

    Raises:
        MqdssmError: a piece failed, and its worker was lost; other workers stopped their pieces.
        Stopped: a piece was stopped, and none failed.
    """
    try:
        return results.values()
    except Stopped:
        for number, answer in StopFile(stop_path).read_failures():
            results.add(number, answer)
        raise


@contextlib.contextmanager
def stop_file(master: str, shared: Path | None) -> Iterator[str | None]:
    """Yield the path of a stop file that all workers see.

    The path is None on a cluster without a shared folder.

    Raises:
        ConfigError: the folder cannot be used.
    """
    is_here = LOCAL.fullmatch(master) is not None
    if not is_here and shared is None:
        yield None
        return
    with make_temporary_folder(None if is_here else shared, "mqdssm-stop-") as folder:
        yield str(folder / "stop")


def _make_worker(
    work: "Broadcast[Work]", stop_path: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a task runs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for number, answer in perform_pieces(work.value, numbers, StopFile(stop_path)):
            yield pa.RecordBatch.from_pylist([{"number": number, "answer": answer}], schema=_SCHEMA)
        for _ in numbers:  # after an error: Spark ends a worker that leaves a part of its input
            pass

    return run


def check() -> None:
    """See `mqdssm.pipeline.engines.SparkEngine`."""
    check_spark()


@contextlib.contextmanager
def runner(
    app: str,
    on: SparkOptions,
    files: Sequence[Path],
    *,
    conf: Mapping[str, str],
    may_speculate: bool,
    brief: bool,
) -> Iterator[SparkRunner]:
    """See `mqdssm.pipeline.engines.SparkEngine`."""
    with spark_session(app, brief=brief, conf={**RETRIES, **conf}, on=on) as spark:
        if not may_speculate:
            refuse_speculation(spark)
        probe(spark, on, files)
        yield SparkRunner(spark, on.shared)
