"""The Spark data source ``mqdssm``: a directory's objects as a data frame.

A data frame has the objects of one type.

    spark.dataSource.register(MqdssmDataSource)
    spark.read.format("mqdssm").options(url=..., object="queue", user=..., credentialsfile=...).load()

The methods run in processes of Spark, never in the calling program: state is passed by options, and the
secret is read where the search runs. The default is one partition, since one reader already keeps slapd,
Python and the JVM of a small machine busy. Batches are bounded, so memory does not grow with the directory.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mqdssm.directory.filters import LdapFilter, all_of, to_text
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError
from mqdssm.pipeline.failures import pack, pack_errors
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import Column
from mqdssm.pipeline.frames.partitions import SearchSlice, divide_objects
from mqdssm.pipeline.runner import without_collector
from mqdssm.spark.options import STREAM_NAMES, SourceOptions, StreamOptions
from mqdssm.spark.pushdown import Matching, Term, attributes_of, term_of, to_ldap

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from mqdssm.spark.stream import MqdssmStreamReader
    from mqdssm.spark.writer import MqdssmWriter

FORMAT: Final = "mqdssm"

log = logging.getLogger(__name__)


class MqdssmDataSource(DataSource):
    """Format ``mqdssm``; `mqdssm.spark.options.SourceOptions` has its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the element, or those in option ``columns``.

        A stream has more.
        """
        if StreamOptions.is_meant(self.options):
            return self._make_stream_reader().schema
        return make_spark_schema(self._parse_options().columns)

    def streamReader(self, schema: StructType) -> "MqdssmStreamReader":  # noqa: N802  Spark's name
        """Make the reader of changes.

        `mqdssm.spark.options.StreamOptions` has its options.
        """
        reader = self._make_stream_reader()
        if schema != reader.schema:
            raise pack(ConfigError("a stream of changes has its own schema: leave it out, and use columns"))
        return reader

    def reader(self, schema: StructType) -> "MqdssmReader":
        """Make the reader; a schema given by the caller selects columns."""
        if StreamOptions.is_meant(self.options):
            raise pack(
                ConfigError(f"{', '.join(STREAM_NAMES)} are options of spark.readStream: leave them out")
            )
        options = self._parse_options()
        columns = options.columns
        if schema != make_spark_schema(columns):
            try:
                columns = options.frame.select(schema.names)
            except ValueError as error:
                raise pack(ConfigError(str(error))) from None
            if schema != make_spark_schema(columns):
                raise pack(
                    ConfigError(f"the schema given has other types than {options.object}: leave it out")
                )
        return (FilteringReader if options.pushdown else MqdssmReader)(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> "MqdssmWriter":
        """Make the writer; `mqdssm.spark.options.WriteOptions` has its options."""
        from mqdssm.spark.writer import MqdssmWriter

        with pack_errors():
            return MqdssmWriter(dict(self.options), schema, overwrite=overwrite)

    def _make_stream_reader(self) -> "MqdssmStreamReader":
        from mqdssm.spark.stream import MqdssmStreamReader

        with pack_errors():
            return MqdssmStreamReader(StreamOptions.parse(dict(self.options)))

    def _parse_options(self) -> SourceOptions:
        with pack_errors():
            return SourceOptions.parse(dict(self.options))


class MqdssmReader(DataSourceReader):
    """Reader of one type, which is pickled into every task.

    The reader holds options, never a connection or a secret.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._terms: tuple[Term, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one search, or several that find each object once.

        Only several searches need a scan of the directory.

        Raises:
            MqdssmSparkError: any error of this package, in the form that reaches the driver.
        """
        options = self._options
        if options.numpartitions == 1:
            return [InputPartition(SearchSlice())]
        with pack_errors(), options.connect() as directory:
            where = self._make_object_filter(directory.session)
            search_slices = divide_objects(
                directory, options.frame, options.numpartitions, where=where, base=options.base
            )
        return [InputPartition(search_slice) for search_slice in search_slices]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Search and yield the objects as Arrow batches.

        Raises:
            MqdssmSparkError: any error of this package, in the form that reaches the driver.
        """
        options = self._options
        search_slice = partition.value if isinstance(partition.value, SearchSlice) else SearchSlice()
        # in a process of Spark: no cycles are made here, and looking for them costs a lot
        with pack_errors(), without_collector(), options.connect(search_slice.server) as directory:
            search_slice.refuse_other(directory.session)
            where = self._make_object_filter(directory.session, search_slice.ldap_filter)
            yield from read_batches(
                directory,
                options.frame,
                self._columns,
                where=where,
                base=options.base,
                attributes=options.attributes,
            )
            search_slice.refuse_other(directory.session)  # after a lost connection

    def _make_object_filter(
        self, session: Session, search_filter: LdapFilter | None = None
    ) -> LdapFilter | None:
        """Return the filter for the objects besides their type; None if there is none."""
        terms = [
            term
            for term in (self._options.filter, search_filter, *self._convert_filters(session))
            if term is not None
        ]
        if not terms:
            return None
        where = all_of(*terms)
        log.info("%s: asking for %s", self._options.object, to_text(where))
        return where

    def _convert_filters(self, session: Session) -> list[LdapFilter]:
        """Return Spark's filters as LDAP filters, as far as this server supports them."""
        if not self._terms:
            return []
        frame, profile = self._options.frame, session.profile
        matching = Matching.of(
            session, [name for term in self._terms for name in attributes_of(term, frame, profile)]
        )
        filters = [to_ldap(term, frame, profile, matching) for term in self._terms]
        return [search_filter for search_filter in filters if search_filter is not None]


class FilteringReader(MqdssmReader):
    """Reader that takes Spark's filters (decision W21).

    The reader is for a data frame that is used once.
    Spark up to 4.3 keeps one planned reader for a data frame. Another use of that frame, in the same query or
    a later one, would read with the filters of this use, and this reader cannot notice.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Keep the filters that can be sent to a server.

        Spark checks all filters itself as well.
        """
        self._terms = tuple(term for term in map(term_of, filters) if term is not None)
        return filters


def make_spark_schema(columns: Sequence[Column]) -> StructType:
    """Return the Spark schema of some columns."""
    return from_arrow_schema(make_arrow_schema(columns))


def read(
    spark: "SparkSession",
    element: str,
    *,
    columns: Iterable[str] | None = None,
    **options: str | int | None,
) -> "DataFrame":
    """Make the data frame of a type of objects.

    Args:
        spark: the session.
        element: ``queue``, ``Queue``, ``ldap``, and so on.
        columns: names of the columns wanted; None is all. Fewer are faster.
        options: the further options of the data source: ``url``, ``user``, ``credentialsfile``, ...;
            numbers and booleans as such or in text. None leaves an option out. ``pushdown`` is safe only for
            a frame that one query uses once: another use loses rows (decision W21).

    Raises:
        ConfigError: an option is wrong.
    """
    text_options = {name: str(value) for name, value in options.items() if value is not None}
    all_options = {**text_options, "object": element}
    if columns is not None:
        all_options["columns"] = ",".join(columns)
        if not all_options["columns"]:
            raise ConfigError("columns names no column: leave it out for all of them")
    SourceOptions.parse(all_options)  # here, where the error keeps its class
    register(spark)
    return spark.read.format(FORMAT).options(**cast("dict[str, Any]", all_options)).load()


def register(spark: "SparkSession") -> None:
    """Register the format in a session.

    An installed wheel does it by `mqdssm.spark.registration`.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    try:
        spark.dataSource.register(MqdssmDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark 4.3 checks the active session, which is another one: this one does not know the name
        active = SparkSession.getActiveSession()
        with _activate_session(spark, active):
            spark.dataSource.register(MqdssmDataSource)


@contextlib.contextmanager
def _activate_session(spark: "SparkSession", before: "SparkSession | None") -> Iterator[None]:
    """Make a session the active one for a while, by making a data frame with it."""
    spark.createDataFrame([], "nothing string")
    try:
        yield
    finally:
        if before is not None:
            before.createDataFrame([], "nothing string")
