"""Planning a migration: what would happen to every row, found out and written down; nothing is changed."""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.spark.access import Access, password_file
from mqdssm.spark.migrate import jobs
from mqdssm.spark.migrate.deciding import Decider, Wanted
from mqdssm.spark.migrate.deletes import plan_deletes
from mqdssm.spark.migrate.gathering import all_sites, gather, resolved
from mqdssm.spark.migrate.known import Known
from mqdssm.spark.migrate.outcome import WORK_NAME, put_together
from mqdssm.spark.migrate.plan_file import (
    PLAN_NAME,
    SIDS_NAME,
    SOURCE_NAME,
    MigrationPlan,
    PlanOptions,
    Policy,
    Target,
)
from mqdssm.spark.migrate.sids import SidMap, load_sid_map
from mqdssm.spark.migrate.staging import StagedPart, begin, staged_parts
from mqdssm.spark.migrate.summary import Summary, write_sids
from mqdssm.spark.migrate.target import sids_there
from mqdssm.spark.session import check_spark, spark_session
from mqdssm.spark.sources.folder import find_files, source_table
from mqdssm.spark.sources.jdbc import copy_tables, is_jdbc, shown_url, spark_settings
from mqdssm.spark.sources.mapping import SourceMapping, load_mapping, refuse_secret
from mqdssm.tables.mqis import MQIS_TABLES, SITE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqdssm.directory.session import Session
    from mqdssm.spark.mqis_files import TableFiles

DATABASE_NAME: Final = "database"
"""Folder of a copy of a database's tables, while they are being read."""
FIRST_TABLES: Final = ("Enterprise", "Machine", "User")
LAST_TABLES: Final = ("RoutingLink", "Queue", "ConnectedNetwork", "Deleted")
"""What depends on which machines were accepted, or can as well wait."""
_PRIVATE: Final = 0o700

Watch = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan is asked for.

    Attributes:
        source: a folder, or the JDBC URL of a database.
        on_conflict: what to do with objects that are there and differ.
        allow_deletes: how many objects that the source does not have may be deleted; 0: none is.
        create_computers: make the computers of machines that the target lacks.
        sid_map: file of old and new SIDs.
        mapping: file with names of tables and columns.
    """

    source: str
    on_conflict: Policy = "fail"
    allow_deletes: int = 0
    create_computers: bool = False
    sid_map: Path | None = None
    mapping: Path | None = None

    @property
    def shown_source(self) -> str:
        """The source as the plan names it."""
        return shown_url(self.source) if is_jdbc(self.source) else str(Path(self.source).resolve())


@dataclass(frozen=True, slots=True)
class _Source:
    """A source that was looked at: nothing of it has been read."""

    asked: Asked
    mapping: SourceMapping
    files: "dict[str, TableFiles] | None"

    @classmethod
    def of(cls, asked: Asked) -> "_Source":
        mapping = SourceMapping() if asked.mapping is None else load_mapping(asked.mapping)
        if is_jdbc(asked.source):
            refuse_secret(asked.source)
            return cls(asked, mapping, None)
        return cls(asked, mapping, find_files(Path(asked.source), mapping))

    def stage(self, spark: "SparkSession", folder: Path) -> None:
        begin(folder)
        copy = folder / WORK_NAME / DATABASE_NAME
        files = self.files
        if files is None:
            files = copy_tables(spark, self.asked.source, self.mapping, copy)
        tables = [source_table(one, self.mapping) for one in files.values()]
        for table in tables:
            (folder / SOURCE_NAME / table.table.name).mkdir(exist_ok=True)
        jobs.stage(spark, folder, [file for table in tables for file in table.files], self.mapping)
        shutil.rmtree(copy, ignore_errors=True)


def plan_for(asked: Asked, urls: str | Sequence[str], to: Path, **login: Any) -> MigrationPlan:
    """Plan a migration to the directory of some servers.

    Args:
        asked: what for.
        urls: LDAP servers, tried in turn.
        to: a new or empty folder.
        **login: how to get in, as `mqdssm.spark.export.export` takes it.

    Raises:
        MqdssmError: as `plan_migration`.
    """
    password = login.pop("password", None)
    with password_file(password) as secret:
        access = Access((urls,) if isinstance(urls, str) else tuple(urls), password_file=secret, **login)
        return plan_migration(asked, access, to)


def plan_migration(asked: Asked, access: Access, to: Path, *, watch: Watch = lambda _: None) -> MigrationPlan:
    """Plan a migration.

    Args:
        asked: what for.
        access: how to get into the target.
        to: a new or empty folder.
        watch: is told what is being done.

    Returns:
        The plan, as it was written.

    Raises:
        ConfigError: something that was given cannot be used; with what, and what is expected.
        DirectoryError: the target cannot be asked.
        SparkFailed: Spark itself failed.
    """
    source = _Source.of(asked)
    sids = SidMap() if asked.sid_map is None else load_sid_map(asked.sid_map)
    settings = spark_settings(source.mapping)
    check_spark()
    with access.connect() as directory:
        session = directory.session
        session.check_msmq()
        sids = resolved(session, sids)
        folder = _prepared(to)
        with (
            _told(folder),
            spark_session("mqdssm plan", brief=True, conf={**jobs.RETRIES, **settings}) as spark,
        ):
            watch("reading the source")
            source.stage(spark, folder)
            at = access.at(session.server_url or access.urls[0])
            return _Planning(asked, at, folder, session, spark).run(sids, watch)


class _Planning:
    """One planning, of a source that is staged.

    Args:
        asked: what for.
        access: how workers get into the target.
        folder: of the plan.
        session: to the target.
        spark: the session.
    """

    def __init__(
        self, asked: Asked, access: Access, folder: Path, session: "Session", spark: "SparkSession"
    ) -> None:
        self._asked = asked
        self._access = access
        self._folder = folder
        self._session = session
        self._spark = spark
        self._summary = Summary()
        self._numbers: dict[Path, int] = {}
        parts = [value for rdn in session.naming.root.rdns for name, value in rdn if name.upper() == "DC"]
        self._wanted = Wanted(folder, asked.on_conflict, asked.create_computers, ".".join(parts).lower())

    def run(self, sids: SidMap, watch: Watch) -> MigrationPlan:
        """Decide about everything, and write the plan."""
        watch("looking at the target")
        create = self._asked.create_computers
        known = gather(self._session, self._folder, sids, create_computers=create)
        watch("comparing")
        known = self._sites(known)
        self._decide(FIRST_TABLES, known)
        self._decide(LAST_TABLES, known.without_machines(self._summary.refused))
        put_together(self._folder)
        plan = self._plan(sids)
        shutil.rmtree(self._folder / WORK_NAME, ignore_errors=True)
        plan.write(self._folder)
        return plan

    def _sites(self, known: Known) -> Known:
        """Decide about the sites, few as they are, here: everything refers to them."""
        decider = Decider(self._session, known, self._wanted)
        parts = staged_parts(self._folder, SITE)
        self._summary.add([decider.decide(part, self._number(part)) for part in parts])
        return replace(known, sites=all_sites(self._session, self._folder, self._summary.refused))

    def _decide(self, names: Sequence[str], known: Known) -> None:
        parts = [part for name in names for part in staged_parts(self._folder, MQIS_TABLES[name])]
        numbered = [(self._number(part), part) for part in parts]
        self._summary.add(jobs.decide(self._spark, self._access, known, self._wanted, numbered))

    def _number(self, part: StagedPart) -> int:
        """The number of a staged file among all."""
        return self._numbers.setdefault(part.path, len(self._numbers))

    def _plan(self, sids: SidMap) -> MigrationPlan:
        asked, summary, naming = self._asked, self._summary, self._session.naming
        refused, deletes = plan_deletes(self._session, self._folder, asked.allow_deletes)
        summary.add(deletes)
        if summary.stopped:
            refused = (
                f"{summary.stopped} objects exist and differ: plan again with --on-conflict skip or update"
            )
        mapping = None if asked.mapping is None else hashlib.sha256(asked.mapping.read_bytes()).hexdigest()
        return MigrationPlan(
            made=datetime.now(UTC).replace(microsecond=0),
            source=asked.shown_source,
            target=Target(
                urls=self._access.urls,
                profile=self._session.profile.name,
                root=str(naming.root),
                configuration=str(naming.configuration),
                keeps_guids=self._session.keeps_guids,
            ),
            options=PlanOptions(
                on_conflict=asked.on_conflict,
                allow_deletes=asked.allow_deletes,
                create_computers=asked.create_computers,
                sid_map=sids.sha256 or None,
                mapping=mapping,
            ),
            tables=summary.tables(self._folder),
            operations=summary.operations,
            deletes={one.table: sum(one.operations.values()) for one in deletes if one.operations},
            levels=summary.levels,
            equal=summary.equal,
            notes=tuple(self._notes()),
            refused=refused,
        )

    def _notes(self) -> Iterator[str]:
        unmapped = self._summary.unmapped
        there = sids_there(self._session, sorted({sid for sid, _ in unmapped}))
        count = write_sids(self._folder, unmapped, there)
        if count:
            yield f"{count} SIDs are neither mapped nor known to the target: {SIDS_NAME} lists them"


def _prepared(to: Path) -> Path:
    """The folder of the plan, made; one of a planning that broke off is begun anew.

    Raises:
        ConfigError: it holds something else.
    """
    try:
        to.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in to.iterdir()}
        if PLAN_NAME in names:
            raise ConfigError(f"{to} holds a plan already: name another folder")
        if names and WORK_NAME not in names:
            raise ConfigError(f"{to} is not empty: a plan needs a folder of its own")
        for name in names:
            path = to / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (to / WORK_NAME).mkdir()
        to.chmod(_PRIVATE)
    except OSError as error:
        raise ConfigError(f"{to} cannot be used: {error.strerror}") from error
    return to.resolve()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Errors of the disk in our own words."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"the plan in {folder} cannot be written: {error.strerror or error}") from error
