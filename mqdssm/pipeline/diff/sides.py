"""Sides of a comparison as Parquet files of the same columns.

A side is a directory, an export or MQIS tables.

MQIS tables as a side of a comparison: files or a database, with names and codes by a mapping.

The tables are read and SIDs replaced by the rules of a migration, so that a migration and a later comparison
use the same values.
"""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.pipeline.access import PipelineLogIn, open_access
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.manifest import MANIFEST_NAME, Manifest
from mqdssm.pipeline.migrate.planning import MigrationSource, copy_tables
from mqdssm.pipeline.migrate.planning import PlanRequest as Planned
from mqdssm.pipeline.migrate.sids import SidMap, SidRewriter
from mqdssm.pipeline.mqis.folder import read_source_table
from mqdssm.pipeline.mqis.mapping import shorten_url
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import make_scratch
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.pipeline.validate.datasets import Dataset
from mqdssm.pipeline.validate.mqis_sets import write_mqis_sets
from mqdssm.pipeline.validate.rules.rule import FRAMES
from mqdssm.pipeline.validate.sources import export_source

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

log: Final = logging.getLogger(__name__)

SID: Final = "SecurityIdentifier"
DESCRIPTOR: Final = "Security"


@contextlib.contextmanager
def tables_of(
    runner: Runner, source: str, mapping: Path | None, sids: SidMap, on: SparkOptions
) -> "Iterator[Mapping[str, Dataset]]":
    """Convert MQIS tables into files of objects.

    The files are removed at the end of the context.

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
    with make_scratch(on, "mqdssm-diff-") as folder:
        files = planned.files
        if files is None:
            files = copy_tables(runner, source, planned.mapping, folder / "database")
        tables = tuple(read_source_table(file, planned.mapping) for file in files.values())
        for words in planned.describe_left_out(tables):
            log.warning("%s: %s", planned.request.shown_source, words)
        rewrite = NewSids(sids) if sids.sids or sids.domains else None
        objects_folder = folder / "objects"
        objects_folder.mkdir()
        yield write_mqis_sets(runner, tables, planned.mapping, objects_folder, rewrite)


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
                new = [_rewrite_value(rewriter, name, value) for value in arrays[name].to_pylist()]
                arrays[name] = pa.array(new, arrays[name].type)
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=batch.schema)


def _rewrite_value(rewriter: SidRewriter, name: str, value: str | bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return rewriter.rewrite_sid(value, name)
        return rewriter.rewrite_descriptor(bytes(value), name)
    except ValueError:
        return value  # no SID or no descriptor: compared unchanged


class Sort(StrEnum):
    """Kind of a side."""

    DIRECTORY = "directory"
    EXPORT = "export"
    MQIS = "MQIS tables"


@dataclass(frozen=True, slots=True)
class GivenSide:
    """Source of a side, as a user names it.

    Attributes:
        folder: of an export or of MQIS tables; or
        database: the JDBC URL of MQIS tables; or
        urls: the servers of a directory, with
        login: log-in options. They may hold a password, so `repr` does not show them.
        name: of the side in messages; empty: its folder or server.
    """

    folder: Path | None = None
    database: str = ""
    urls: tuple[str, ...] = ()
    login: PipelineLogIn = field(default_factory=PipelineLogIn, repr=False)
    name: str = ""

    @property
    def is_directory(self) -> bool:
        """True if the source is a directory."""
        return self.folder is None and not self.database

    @property
    def is_mqis(self) -> bool:
        """True if the source is MQIS tables: a database, or a folder that is no export."""
        return bool(self.database) or (self.folder is not None and not is_export(self.folder))

    @contextlib.contextmanager
    def connect(self) -> "Iterator[Directory]":
        """Connect to the directory, read-only.

        Raises:
            DirectoryError: the directory cannot be reached, or refuses the log-in.
        """
        with open_access(self.urls, self.login) as access, access.connect() as directory:
            yield directory


@dataclass(frozen=True, slots=True)
class Side:
    """Side of a comparison, as files.

    Attributes:
        letter: A or B.
        sort: kind of the side.
        name: for messages.
        sets: files of each type.
        root: DN of the root of its tree; None for MQIS tables.
        profile: kind of server of the directory or export; empty for MQIS tables.
        given: the source, as a user named it.
    """

    letter: str
    sort: Sort
    name: str
    sets: Mapping[str, Dataset]
    root: DN | None = None
    profile: str = ""
    given: GivenSide = field(default_factory=GivenSide, repr=False)

    @property
    def is_directory(self) -> bool:
        """True if the side is a directory, which can be read again."""
        return self.sort is Sort.DIRECTORY

    @property
    def label(self) -> str:
        """Letter and name of the side, for messages."""
        return f"{self.letter} ({self.name})"


def is_export(folder: Path) -> bool:
    """Return True if a folder has a manifest.

    A folder with a manifest is an export, a folder without it has MQIS tables.
    """
    return (folder / MANIFEST_NAME).is_file()


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Options for reading sources.

    Attributes:
        engine: that reads them.
        mapping: file with names of tables and columns of MQIS; None: the names of MQIS.
        sids: map from old to new SIDs for MQIS tables, resolved.
    """

    engine: JobEngine
    mapping: Path | None = None
    sids: SidMap = field(default_factory=SidMap)


@contextlib.contextmanager
def open_side(
    runner: Runner,
    letter: str,
    given_side: GivenSide,
    types: Collection[str] | None,
    reading: SourceReading,
) -> Iterator[Side]:
    """Open a side as files.

    Files of a directory or of MQIS tables are removed at the end.

    Args:
        runner: does the work; for a database that of Spark.
        letter: A or B.
        given_side: the source.
        types: those to read; None: all.
        reading: options.

    Raises:
        ConfigError: the source is missing or incomplete.
        DirectoryError: a directory cannot be read.
    """
    if given_side.is_directory:
        with _open_directory(letter, given_side, types, reading.engine) as side:
            yield side
    elif given_side.folder is not None and is_export(given_side.folder):
        yield _of_export(letter, Sort.EXPORT, given_side, given_side.folder)
    else:
        if given_side.folder is not None and not given_side.folder.is_dir():
            raise ConfigError(f"{given_side.folder} is no folder: name an export, MQIS tables or a directory")
        source = given_side.database or str(given_side.folder)
        with tables_of(runner, source, reading.mapping, reading.sids, reading.engine.on) as sets:
            name = given_side.name or (
                shorten_url(given_side.database) if given_side.database else str(given_side.folder)
            )
            yield Side(letter, Sort.MQIS, name, sets, given=given_side)


@contextlib.contextmanager
def _open_directory(
    letter: str, given_side: GivenSide, types: Collection[str] | None, engine: JobEngine
) -> Iterator[Side]:
    type_names = [name for name in FRAMES if types is None or name in types]
    with make_scratch(engine.on, "mqdssm-diff-") as scratch_folder:
        folder = scratch_folder / "export"
        export(given_side.urls, type_names, folder, **engine.arguments(), **given_side.login)
        yield _of_export(letter, Sort.DIRECTORY, given_side, folder)


def _of_export(letter: str, sort: Sort, given_side: GivenSide, folder: Path) -> Side:
    manifest = Manifest.load(folder)
    source = export_source(folder)
    name = given_side.name or (str(folder) if sort is Sort.EXPORT else manifest.server)
    root = DN.parse(manifest.naming_context)
    return Side(letter, sort, name, source.sets, root, manifest.profile, given_side)
