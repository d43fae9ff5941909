"""The Spark data source ``mqdssm``: the objects of one element as a data frame, read from a directory.

    spark.dataSource.register(MqdssmDataSource)
    spark.read.format("mqdssm").options(url=..., object="Queue", user=..., credentialsfile=...).load()

Its methods run in processes of Spark's, never in the program that asked: state goes in by options, and the
secret is read where the search runs. One partition, since one reader already keeps slapd, Python and the JVM
of a small machine busy; batches are bounded, so memory does not grow with the directory.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.spark.arrow import arrow_schema, batches
from mqdssm.spark.columns import Column, columns_of, element_of
from mqdssm.spark.failures import pack
from mqdssm.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "mqdssm"


class MqdssmDataSource(DataSource):
    """Format ``mqdssm``; the options are those of `mqdssm.spark.options.SourceOptions`."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns of the element, or those named in option ``columns``."""
        return spark_schema(self._checked().columns)

    def reader(self, schema: StructType) -> "MqdssmReader":
        """Make the reader; a schema given by the caller chooses among the columns."""
        options = self._checked()
        if schema == spark_schema(options.columns):
            return MqdssmReader(options, options.columns)
        try:
            columns = columns_of(element_of(options.object), schema.names)
        except ValueError as error:
            raise pack(ConfigError(str(error))) from None
        if schema != spark_schema(columns):
            raise pack(ConfigError(f"the schema given has other types than {options.object}: leave it out"))
        return MqdssmReader(options, columns)

    def _checked(self) -> SourceOptions:
        try:
            return SourceOptions.parse(dict(self.options))
        except MqdssmError as error:
            raise pack(error) from None


class MqdssmReader(DataSourceReader):
    """Reads one element. Holds options, never a connection or a secret: it is pickled into every task."""

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """One search, one partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Search and yield the objects as Arrow batches.

        Raises:
            MqdssmSparkError: any error of ours, in the form that reaches the driver.
        """
        del partition
        gc.disable()  # in a process of Spark's: no cycles are made here, and looking for them costs a lot
        element = element_of(self._options.object)
        names = [column.name for column in self._columns]
        try:
            with self._options.connect() as directory:
                # a search leaves out what an object lacks or what is damaged, also when asked by name
                # (decisions M26, M40 and M41): one object cannot stop an export
                yield from batches(directory.search(element, attributes=names), self._columns)
        except MqdssmError as error:
            raise pack(error) from None
        finally:
            gc.enable()


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Give the Spark schema of some columns."""
    return from_arrow_schema(arrow_schema(columns))


def read(
    spark: "SparkSession", element: str, *, columns: Iterable[str] | None = None, **options: str
) -> "DataFrame":
    """Make the data frame of an element.

    Args:
        spark: the session.
        element: ``Queue`` or ``queue``, and so on.
        columns: the specification's names of the attributes wanted; None is all. Fewer are faster.
        options: the further options of the data source: ``url``, ``user``, ``credentialsfile``, ...

    Raises:
        ConfigError: an option is wrong.
    """
    given = {**options, "object": element}
    if columns is not None:
        given["columns"] = ",".join(columns)
    SourceOptions.parse(given)  # here, where the error keeps its class
    spark.dataSource.register(MqdssmDataSource)
    return spark.read.format(FORMAT).options(**cast("dict[str, Any]", given)).load()
