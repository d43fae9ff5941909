"""Sides of a comparison: directory, export or MQIS tables as Parquet files of the same columns."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.pipeline.access import PipelineLogIn, access_to
from mqdssm.pipeline.diff.tables import tables_of
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.manifest import MANIFEST_NAME, Manifest
from mqdssm.pipeline.migrate.sids import SidMap
from mqdssm.pipeline.mqis.mapping import shown_url
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import scratch
from mqdssm.pipeline.validate.datasets import Dataset
from mqdssm.pipeline.validate.rules.vocabulary import FRAMES
from mqdssm.pipeline.validate.sources import export_source

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory


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
    def connected(self) -> "Iterator[Directory]":
        """Connect to the directory, read-only.

        Raises:
            DirectoryError: the directory cannot be reached, or refuses the log-in.
        """
        with access_to(self.urls, self.login) as access, access.connect() as directory:
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
    """Return True if a folder has a manifest, so that it is an export and not MQIS tables."""
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
def opened(
    runner: Runner,
    letter: str,
    given: GivenSide,
    types: Collection[str] | None,
    reading: SourceReading,
) -> Iterator[Side]:
    """Open a side as files; those of a directory or of MQIS tables are removed at the end.

    Args:
        runner: does the work; for a database that of Spark.
        letter: A or B.
        given: the source.
        types: those to read; None: all.
        reading: options.

    Raises:
        ConfigError: the source is missing or incomplete.
        DirectoryError: a directory cannot be read.
    """
    if given.is_directory:
        with _directory(letter, given, types, reading.engine) as side:
            yield side
    elif given.folder is not None and is_export(given.folder):
        yield _of_export(letter, Sort.EXPORT, given, given.folder)
    else:
        if given.folder is not None and not given.folder.is_dir():
            raise ConfigError(f"{given.folder} is no folder: name an export, MQIS tables or a directory")
        source = given.database or str(given.folder)
        with tables_of(runner, source, reading.mapping, reading.sids, reading.engine.on) as sets:
            name = given.name or (shown_url(given.database) if given.database else str(given.folder))
            yield Side(letter, Sort.MQIS, name, sets, given=given)


@contextlib.contextmanager
def _directory(
    letter: str, given: GivenSide, types: Collection[str] | None, engine: JobEngine
) -> Iterator[Side]:
    wanted = [name for name in FRAMES if types is None or name in types]
    with scratch(engine.on, "mqdssm-diff-") as made:
        folder = made / "export"
        export(given.urls, wanted, folder, **engine.arguments(), **given.login)
        yield _of_export(letter, Sort.DIRECTORY, given, folder)


def _of_export(letter: str, sort: Sort, given: GivenSide, folder: Path) -> Side:
    manifest = Manifest.load(folder)
    source = export_source(folder)
    name = given.name or (str(folder) if sort is Sort.EXPORT else manifest.server)
    root = DN.parse(manifest.naming_context)
    return Side(letter, sort, name, source.sets, root, manifest.profile, given)
