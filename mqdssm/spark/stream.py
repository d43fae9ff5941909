"""``spark.readStream.format("mqdssm")``: changes of a directory.

With Spark's checkpoint each change comes exactly once.
A thin layer over `mqdssm.pipeline.changes`: a thread in the process that plans the batches watches the
directory and numbers the changes in a folder. An offset is such a number, so a batch that is read again has
the same rows. The partitions carry the rows to the tasks: executors need neither folder nor directory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.pipeline.changes.change_log import ChangeLog
from mqdssm.pipeline.changes.change_rows import change_schema
from mqdssm.pipeline.changes.recorder import ROWS_MAX, Recorded, Recorder
from mqdssm.pipeline.failures import pack_errors
from mqdssm.spark.options import StreamOptions

NEWS_WAIT_S: Final = 0.5
"""Seconds that a request for the latest offset waits for changes: else Spark would ask 100 times a second."""
_LOG: Final = "log"
_SEQUENCE: Final = "sequence"
Offset = dict[str, Any]


class MqdssmStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of the changes of one type.

    The reader holds only options when Spark pickles it into tasks.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._opened: ChangeLog | None = None
        self._recorder: Recorder | None = None
        self._last: int | None = None

    @property
    def schema(self) -> StructType:
        """Columns of the stream."""
        return from_arrow_schema(change_schema(self._options.source.columns))

    # -- in the process that plans the batches

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which a query without a checkpoint begins.

        Raises:
            MqdssmSparkError: the state folder belongs to another checkpoint, or cannot be used.
        """
        with _pack_errors():
            log = self._log()
            if not log.is_new:
                raise ConfigError(
                    f"a query has taken changes of {log.folder}, and this one has no checkpoint: go on with "
                    "the checkpoint that belongs to this folder, or begin anew with another state folder"
                )
            return self._make_offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the maximum number of changes in a batch."""
        return ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which the next batch ends; `start` if nothing has changed.

        Raises:
            MqdssmSparkError: the directory cannot be watched, or the changes behind `start` are not there.
        """
        with _pack_errors():
            log, begun = self._log(), self._read_number(start)
            log.check(begun)
            self._start_recorder().wait_for_news(begun, 0 if self._last is not None else NEWS_WAIT_S)
            end = log.end if self._last is None else min(log.end, max(self._last, begun))
            if isinstance(limit, ReadMaxRows):
                end = min(end, begun + limit.max_rows)
            return self._make_offset(end)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Wait until all earlier changes are recorded: the query ends with them.

        Raises:
            MqdssmSparkError: the directory cannot be watched.
        """
        with _pack_errors():
            log = self._log()
            self._start_recorder().wait_until_settled()
            self._last = log.end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the changes between two offsets.

        The result is always the same for the same offsets.

        Raises:
            MqdssmSparkError: the changes have been removed.
        """
        with _pack_errors():
            rows = self._log().read_between(self._read_number(start), self._read_number(end))
            return [InputPartition(_encode_ipc(some)) for some in _combine_batches(rows)]

    def commit(self, end: Offset) -> None:
        """Remove the changes up to an offset, which the query has processed.

        Raises:
            MqdssmSparkError: the folder cannot be written.
        """
        with _pack_errors():
            self._log().release(self._read_number(end))

    def stop(self) -> None:
        """End the watch, and release the folder for another query."""
        if self._recorder is not None:
            self._recorder.stop()
        if self._opened is not None:
            self._opened.close()
        self._recorder = self._opened = None

    def _log(self) -> ChangeLog:
        if self._opened is None:
            options = self._options
            schema = change_schema(options.source.columns)
            self._opened = ChangeLog(Path(options.state), options.source.object, schema).open()
        return self._opened

    def _start_recorder(self) -> Recorder:
        if self._recorder is None:
            source = self._options.source
            recorded = Recorded(source.access, source.frame, source.columns, self._options.snapshot)
            self._recorder = Recorder(recorded, self._log())
            self._recorder.start()
        return self._recorder

    def _make_offset(self, number: int) -> Offset:
        return {_LOG: self._log().id, _SEQUENCE: number}

    def _read_number(self, offset: Offset) -> int:
        """Return the number in an offset.

        Raises:
            ConfigError: it is of another log.
        """
        log = self._log()
        if offset.get(_LOG) != log.id:
            raise ConfigError(
                f"the checkpoint does not belong to the state folder {log.folder}: bring back the folder "
                "that does, or begin anew with another checkpoint and another state folder"
            )
        return int(offset[_SEQUENCE])

    # -- in a task

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the changes of a partition."""
        with pa.ipc.open_stream(partition.value) as reader:
            yield from reader


@contextmanager
def _pack_errors() -> Iterator[None]:
    """Convert errors into the form that reaches the driver.

    Raises:
        MqdssmSparkError: any error of this package.
    """
    with pack_errors():
        try:
            yield
        except OSError as error:
            if isinstance(error, MqdssmError):
                raise
            raise ConfigError(f"the state folder of the stream cannot be used: {error}") from error


def _combine_batches(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.Table"]:
    """Combine small batches, since each partition is a task."""
    chunk: list[pa.RecordBatch] = []
    for batch in batches:
        if chunk and sum(part.num_rows for part in chunk) + batch.num_rows > ROWS_MAX:
            yield pa.Table.from_batches(chunk)
            chunk = []
        chunk.append(batch)
    if chunk:
        yield pa.Table.from_batches(chunk)


def _encode_ipc(rows: "pa.Table") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    octets: bytes = sink.getvalue().to_pybytes()
    return octets
