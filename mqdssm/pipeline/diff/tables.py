"""MQIS tables as a side of a comparison: files or a database, with names and codes by a mapping.

The tables are read and SIDs replaced by the rules of a migration, so that a migration and a later comparison
use the same values.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.pipeline.migrate.jobs import Jobs
from mqdssm.pipeline.migrate.planning import MigrationSource
from mqdssm.pipeline.migrate.planning import PlanRequest as Planned
from mqdssm.pipeline.migrate.sids import SidMap, SidRewriter
from mqdssm.pipeline.mqis.folder import source_table
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import scratch
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.pipeline.validate.mqis_sets import mqis_sets

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.datasets import Dataset

log: Final = logging.getLogger(__name__)

SID: Final = "SecurityIdentifier"
DESCRIPTOR: Final = "Security"


@contextlib.contextmanager
def tables_of(
    runner: Runner, source: str, mapping: Path | None, sids: SidMap, on: SparkOptions
) -> "Iterator[Mapping[str, Dataset]]":
    """Convert MQIS tables into files of objects, which are removed at the end of the context.

    Args:
        runner: does the work; for a database that of Spark, with the JDBC driver.
        source: a folder, or the JDBC URL of a database.
        mapping: file with names of tables and columns; None: the names of MQIS.
        sids: map from old to new SIDs, resolved.
        on: where the runner works.

    Raises:
        ConfigError: MQIS tables are missing or damaged, or the mapping cannot be used.
    """
    planned = MigrationSource.of(Planned(source=source, mapping=mapping))
    with scratch(on, "mqdssm-diff-") as folder:
        files = planned.files
        if files is None:
            files = Jobs(runner).copy(source, planned.mapping, folder / "database")
        tables = tuple(source_table(one, planned.mapping) for one in files.values())
        for words in planned.left_out(tables):
            log.warning("%s: %s", planned.asked.shown_source, words)
        rewrite = NewSids(sids) if sids.sids or sids.domains else None
        made = folder / "objects"
        made.mkdir()
        yield mqis_sets(runner, tables, planned.mapping, made, rewrite)


@dataclass(frozen=True, slots=True)
class NewSids:
    """Function that replaces SIDs in users and security descriptors.

    Attributes:
        sids: the map, resolved; other SIDs stay unchanged.
    """

    sids: SidMap

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of objects with its SIDs replaced."""
        rewriter = SidRewriter(self.sids)
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in (SID, DESCRIPTOR):
            if name in arrays:
                new = [_new(rewriter, name, value) for value in arrays[name].to_pylist()]
                arrays[name] = pa.array(new, arrays[name].type)
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=batch.schema)


def _new(rewriter: SidRewriter, name: str, value: str | bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return rewriter.sid(value, name)
        return rewriter.descriptor(bytes(value), name)
    except ValueError:
        return value  # no SID or no descriptor: compared unchanged
