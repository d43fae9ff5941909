"""Document ``plan.json``: target, options, counts and files of a plan."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from mqdssm.pipeline.documents import read_document, write_document

PLAN_NAME: Final = "plan.json"
PLAN_VERSION: Final = 1
OPERATIONS_NAME: Final = "operations"
EQUAL_NAME: Final = "equal"
REJECTS_NAME: Final = "rejects"
NOT_CARRIED_NAME: Final = "not-carried"
CONFLICTS_NAME: Final = "conflicts.jsonl"
SIDS_NAME: Final = "sids.json"
SOURCE_NAME: Final = ".source"

Policy = Literal["skip", "update", "fail"]
_CONFIG: Final = ConfigDict(frozen=True, extra="forbid")


class PlanFile(BaseModel):
    """One file of a plan.

    Attributes:
        path: relative to the plan's folder, with forward slashes.
        rows: in it.
        sha256: digest of its bytes, lower-case hexadecimal.
    """

    model_config = _CONFIG

    path: str = Field(pattern=r"^[.a-z0-9A-Z-]+(/[^/\\]+)+$")
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Level(BaseModel):
    """Operations that do not depend on each other; levels are applied in the order of their numbers."""

    model_config = _CONFIG

    number: int
    name: str
    files: tuple[PlanFile, ...]

    @property
    def rows(self) -> int:
        """Number of operations."""
        return sum(file.rows for file in self.files)


class PlanTarget(BaseModel):
    """Directory that a plan was made for.

    Attributes:
        urls: servers, without credentials; empty if the plan was made without a directory, for LDIF.
        profile: kind of server.
        root: DN below which computers, queues and users are.
        configuration: the configuration naming context.
        keeps_guids: objects keep the GUIDs that they had (decision M37).
    """

    model_config = _CONFIG

    urls: tuple[str, ...]
    profile: str
    root: str
    configuration: str
    keeps_guids: bool


class PlanOptions(BaseModel):
    """Options that a plan was made with.

    Attributes:
        on_conflict: what to do with objects that exist and differ.
        allow_deletes: how many objects may be deleted.
        create_computers: make the computers of machines that the target lacks.
        sid_map: SHA-256 of the map of SIDs, if one was given.
        mapping: SHA-256 of the mapping file, if one was given.
    """

    model_config = _CONFIG

    on_conflict: Policy = "fail"
    allow_deletes: int = Field(default=0, ge=0)
    create_computers: bool = False
    sid_map: str | None = None
    mapping: str | None = None


class TableCounts(BaseModel):
    """Counts of the rows of a table, by what the plan makes of them.

    Attributes:
        type: of the objects; None: no directory keeps them.
        read: rows.
        add: objects that will be made.
        modify: objects that exist and will be changed.
        equal: objects that exist and are equal.
        skipped: objects that exist, differ and stay as they are.
        conflicts: rows whose objects exist and differ, with any policy.
        rejected: rows that cannot be carried over.
        not_carried: column -> rows whose value no directory keeps.
    """

    model_config = _CONFIG

    type: str | None
    read: int = 0
    add: int = 0
    modify: int = 0
    equal: int = 0
    skipped: int = 0
    conflicts: int = 0
    rejected: int = 0
    not_carried: Mapping[str, int] = {}


class MigrationPlan(BaseModel):
    """Plan of a migration.

    Attributes:
        version: `PLAN_VERSION` of the program that made it.
        made: when.
        source: folder, or URL of the database without credentials.
        target: the directory.
        options: what was asked for.
        tables: what becomes of the rows, by table.
        operations: role and action -> how many, as ``computer add``.
        deletes: type -> how many objects will be deleted.
        levels: the files of operations, in order.
        equal: files of the objects that are equal.
        notes: facts that people should know, as values that the target cannot keep.
        refused: why it cannot be applied as it is; None: it can.
        engine: ``local`` or ``spark``; empty in plans of earlier programs.
    """

    model_config = _CONFIG

    version: int = PLAN_VERSION
    made: AwareDatetime
    source: str
    target: PlanTarget
    options: PlanOptions
    tables: Mapping[str, TableCounts]
    operations: Mapping[str, int]
    deletes: Mapping[str, int] = {}
    levels: tuple[Level, ...]
    equal: tuple[PlanFile, ...]
    notes: tuple[str, ...] = ()
    refused: str | None = None
    engine: str = ""

    @property
    def total(self) -> Counter[str]:
        """Sums of the counts over all tables that hold objects of a directory."""
        names = ("read", "add", "modify", "equal", "skipped", "conflicts", "rejected")
        sums: Counter[str] = Counter(dict.fromkeys(names, 0))
        for counts in self.tables.values():
            if counts.type is not None:
                sums.update({name: getattr(counts, name) for name in names})
        return sums

    def write(self, folder: Path) -> None:
        """Write ``plan.json`` atomically: a folder without this file is no plan."""
        write_document(folder / PLAN_NAME, self)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the plan in a folder.

        Raises:
            ConfigError: there is none, or one of another version.
        """
        return read_document(
            cls,
            folder / PLAN_NAME,
            other="is no plan of this version of the program: plan again",
            absent=f"{folder} holds no plan: make one with 'mqdssm plan'",
        )
