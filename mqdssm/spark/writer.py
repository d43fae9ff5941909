"""The writer of the data source ``mqdssm``.

The writer is a thin layer over `mqdssm.spark.writing`.

df.write.format("mqdssm").mode("append").options(url=..., object="queue", ...).save()
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqdssm.errors import ConfigError
from mqdssm.pipeline.failures import pack, pack_errors
from mqdssm.pipeline.runner import without_collector
from mqdssm.spark.options import WriteOptions
from mqdssm.spark.writing.task import Write, WrittenRows, write

if TYPE_CHECKING:
    import pyarrow as pa

NO_TABLE: Final = (
    "a directory is no table of a catalog: saveAsTable, writeTo and CREATE TABLE are refused, and nothing "
    "was written; use save()"
)


@dataclass
class TaskMessage(WriterCommitMessage):
    """Message of a task to the driver.

    Attributes:
        written: its result.
    """

    written: WrittenRows


class MqdssmWriter(DataSourceArrowWriter):
    """Writer of one data frame, which is pickled into every task.

    The writer holds options, never a connection or a secret.

    Args:
        options: of ``df.write``.
        schema: of the data frame.
        overwrite: mode ``overwrite``, which would mean to delete.

    Raises:
        ConfigError: an option, a mode or a column that cannot be.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("objects are added and updated, none is deleted: use mode append")
        if not options:  # CREATE TABLE ... AS SELECT in SQL does not pass them
            raise ConfigError(NO_TABLE)
        parsed = WriteOptions.parse(options)
        try:
            parsed.frame.select(schema.names)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        now = datetime.now(UTC)
        folder = None
        if parsed.journal is not None:
            folder = Path(parsed.journal) / f"write-{now:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"
        self._write = Write(parsed, folder, now)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        """Write the rows of a task.

        Raises:
            MqdssmSparkError: any error of this package, in the form that reaches the driver.
        """
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        if context is not None and _is_making_a_table(context):
            raise pack(ConfigError(NO_TABLE))
        # in a process of Spark: no cycles are made here, and looking for them costs a lot
        with pack_errors(), without_collector():
            return TaskMessage(write(iterator, self._write.options, self._write.folder, partition))

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Finish the write after all tasks have ended.

        Raises:
            MqdssmSparkError: rows were not written, or the deferred rows could not be.
        """
        with pack_errors():
            self._write.commit([message.written for message in messages if isinstance(message, TaskMessage)])

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Finish the write after a task has failed."""
        self._write.abort(
            [message.written if isinstance(message, TaskMessage) else None for message in messages]
        )


def _is_making_a_table(context: TaskContext) -> bool:
    """Return True if the write is part of the creation of a table (decision M100).

    Spark does not tell a source about it. It runs the write as an execution inside the one that makes the
    table. `foreachBatch` nests executions, too, but there the outer execution is that of a stream.
    """
    execution_id = context.getLocalProperty("spark.sql.execution.id")
    root = context.getLocalProperty("spark.sql.execution.root.id")
    return execution_id != root and context.getLocalProperty("sql.streaming.queryId") is None
