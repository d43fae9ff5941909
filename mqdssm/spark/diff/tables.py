"""MQIS tables as a side of a comparison: files or a database, called and coded as a mapping says.

Tables without a mapping are read by Spark itself. Others are read by the rules of a plan, row by row, so that
a migration and the comparison behind it see the same cells. SIDs are replaced as a migration replaces them.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.spark.cluster import SparkOptions, probe, scratch
from mqdssm.spark.migrate.jobs import Jobs
from mqdssm.spark.migrate.plan_file import SOURCE_NAME
from mqdssm.spark.migrate.planning import Asked as Planned
from mqdssm.spark.migrate.planning import Source
from mqdssm.spark.migrate.sids import SidMap, SidRewriter
from mqdssm.spark.mqis import frames_of, mqis_frames
from mqdssm.spark.mqis_files import BROKEN, RawTable, find_tables
from mqdssm.spark.runner import SparkRunner
from mqdssm.spark.validate_sources import frames_source
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mqdssm.spark.datasets import Dataset

log: Final = logging.getLogger(__name__)

SID: Final = "SecurityIdentifier"
DESCRIPTOR: Final = "Security"
_STAGED: Final = "cells map<string, string>, problems map<string, string>"


@contextlib.contextmanager
def tables_of(
    spark: "SparkSession", source: str, mapping: Path | None, sids: SidMap, on: SparkOptions
) -> "Iterator[Mapping[str, Dataset]]":
    """Make files of MQIS tables, which are removed afterwards.

    Args:
        spark: the session; for a database with its driver.
        source: a folder, or the JDBC URL of a database.
        mapping: file with names of tables and columns; None: they are called as in MQIS.
        sids: what stands for old SIDs, resolved.
        on: where the session runs.

    Raises:
        ConfigError: there are no MQIS tables, or damaged ones; the mapping cannot be used.
    """
    planned = Source.of(Planned(source=source, mapping=mapping))
    files = [path for files in (planned.files or {}).values() for path in files.files[:1]]
    probe(spark, on, files if on.is_cluster else ())
    with scratch(on, "mqdssm-diff-") as folder:
        if mapping is None and planned.files is not None:
            find_tables(Path(source))
            frames = mqis_frames(spark, Path(source))
        else:
            frames = frames_of(_staged(spark, planned, folder))
        replaced = {name: with_new_sids(frame, sids) for name, frame in frames.items()}
        with frames_source(replaced, planned.asked.shown_source, on) as made:
            yield made.sets


def _staged(spark: "SparkSession", source: Source, folder: Path) -> dict[str, RawTable]:
    """The tables as the plan of a migration reads them."""
    tables = source.stage(Jobs(SparkRunner(spark)), folder)
    found = {}
    for words in source.left_out(tables):
        log.warning("%s: %s", source.asked.shown_source, words)
    for one in tables:
        frame = spark.read.schema(_STAGED).parquet((folder / SOURCE_NAME / one.table.name).as_uri())
        columns = one.columns or one.table.columns
        found[one.table.name] = RawTable(one.table, frame.select(*_cells(columns)), columns, one.others)
    return {name: found[name] for name in MQIS_TABLES if name in found}


def _cells(columns: tuple[MqisColumn, ...]) -> "Iterator[Column]":
    """The cells of staged rows as columns, and what could not be read."""
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    for column in columns:
        name = F.lit(column.name)
        cell = F.try_element_at("cells", name)
        yield F.when(~F.map_contains_key("problems", name), cell).alias(column.name)
    each = F.transform(F.map_entries("problems"), lambda one: F.concat_ws(": ", one["key"], one["value"]))
    yield F.when(F.size("problems") > 0, F.array_join(each, "; ")).alias(BROKEN)


def with_new_sids(frame: "DataFrame", sids: SidMap) -> "DataFrame":
    """A frame of the abstract model with new SIDs in users and security descriptors.

    Args:
        frame: of any type.
        sids: the map, resolved; a SID that it does not know stays.
    """
    names = [name for name in (SID, DESCRIPTOR) if name in frame.columns]
    if not names or not (sids.sids or sids.domains):
        return frame
    return frame.mapInArrow(_rewriting(names, sids), frame.schema)


def _rewriting(
    names: Sequence[str], sids: SidMap
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rewrite(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rewriter = SidRewriter(sids)
        for batch in batches:
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in names:
                new = [_new(rewriter, name, value) for value in arrays[name].to_pylist()]
                arrays[name] = pa.array(new, arrays[name].type)
            yield pa.RecordBatch.from_arrays(list(arrays.values()), schema=batch.schema)

    return rewrite


def _new(rewriter: SidRewriter, name: str, value: str | bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return rewriter.sid(value, name)
        return rewriter.descriptor(bytes(value), name)
    except ValueError:
        return value  # it is no SID, or no descriptor: so it is compared as it is
