"""Files of a plan: ``plan.json``, and the Parquet files of its operations.

Operations of a plan: adds, changes, moves and deletions, as rows of Parquet files.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AwareDatetime, Field

from mqdssm.directory.entries import Entry
from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.pipeline.documents import Document, read_document, write_document

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


class PlanFile(Document):
    """One file of a plan.

    Attributes:
        path: relative to the plan's folder, with forward slashes.
        rows: in it.
        sha256: digest of its bytes, lower-case hexadecimal.
    """

    path: str = Field(pattern=r"^[.a-z0-9A-Z-]+(/[^/\\]+)+$")
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Level(Document):
    """Operations that do not depend on each other.

    Levels are applied in the order of their numbers.
    """

    number: int
    name: str
    files: tuple[PlanFile, ...]

    @property
    def rows(self) -> int:
        """Number of operations."""
        return sum(file.rows for file in self.files)


class PlanTarget(Document):
    """Directory that a plan was made for.

    Attributes:
        urls: servers, without credentials; empty if the plan was made without a directory, for LDIF.
        profile: kind of server.
        root: DN below which computers, queues and users are.
        configuration: the configuration naming context.
        keeps_guids: objects keep the GUIDs that they had (decision M37).
    """

    urls: tuple[str, ...]
    profile: str
    root: str
    configuration: str
    keeps_guids: bool


class PlanOptions(Document):
    """Options that a plan was made with.

    Attributes:
        on_conflict: what to do with objects that exist and differ.
        allow_deletes: how many objects may be deleted.
        create_computers: make the computers of machines that the target lacks.
        sid_map: SHA-256 of the map of SIDs, if one was given.
        mapping: SHA-256 of the mapping file, if one was given.
        reads_everything: of a plan for orphans: the user states that no object is hidden.
    """

    on_conflict: Policy = "fail"
    allow_deletes: int = Field(default=0, ge=0)
    create_computers: bool = False
    sid_map: str | None = None
    mapping: str | None = None
    reads_everything: bool = False


class PlanKind(StrEnum):
    """Purpose of a plan: it determines which operations the plan may have."""

    MIGRATION = "migration"
    ORPHANS = "orphans"
    REPLACEMENT = "replacement"


class TableCounts(Document):
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

    type: str | None
    read: int = 0
    add: int = 0
    modify: int = 0
    equal: int = 0
    skipped: int = 0
    conflicts: int = 0
    rejected: int = 0
    not_carried: Mapping[str, int] = {}


class MigrationPlan(Document):
    """Plan of a migration, or of other changes in the same form.

    Attributes:
        version: `PLAN_VERSION` of the program that made it.
        kind: what it is for.
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

    version: int = PLAN_VERSION
    kind: PlanKind = PlanKind.MIGRATION
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

    @property
    def changes(self) -> tuple[PlanFile, ...]:
        """Files of the operations of all levels."""
        return tuple(file for level in self.levels for file in level.files)

    @property
    def files(self) -> tuple[PlanFile, ...]:
        """Files of all operations, and of the equal objects."""
        return (*self.changes, *self.equal)

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


Values = Mapping[str, Sequence[bytes]]
"""LDAP attribute -> values."""

_VALUES: Final = pa.map_(pa.string(), pa.list_(pa.binary()))
OPERATIONS: Final = pa.schema(
    [
        pa.field("row_id", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("role", pa.string()),
        pa.field("guid", pa.binary()),
        pa.field("dn", pa.string()),
        pa.field("action", pa.string()),
        pa.field("class", pa.string()),
        pa.field("values", _VALUES),
        pa.field("before", _VALUES),
        pa.field("same", _VALUES),
        pa.field("later", pa.map_(pa.string(), pa.list_(pa.string()))),
        pa.field("table", pa.string()),
        pa.field("source_row", pa.int64()),
    ]
)
"""Columns of the files in ``operations`` and ``equal``."""
_MAPS: Final = ("values", "before", "same", "later")
"""Columns of attributes with their values."""

LEVELS: Final = {
    1: "1-top",
    2: "2-machines",
    3: "3-children",
    4: "4-settings",
    5: "5-deletes",
    6: "6-deletes",
}
"""Number -> folder. Operations of a level depend on none of the same level or a later one."""
CHILDREN: Final = 5
PARENTS: Final = 6
"""Levels of deletions: children are deleted before their parents."""


class PlanAction(StrEnum):
    """Change of an entry that a plan contains."""

    ADD = "add"
    MODIFY = "modify"
    MOVE = "move"
    DELETE = "delete"
    EQUAL = "equal"


PLACE: Final = "distinguishedName"
PARENT_GUID: Final = "parentGUID"
"""Attributes of a move: DN of the object, and objectGUID of the entry above ([MS-ADTS] 3.1.1.4.5.32)."""


class EntryRole(StrEnum):
    """Role of an entry: the object of a row, or a related entry."""

    OBJECT = "object"
    COMPUTER = "computer"
    KEYS = "keys"
    CONTAINER = "container"
    SETTINGS = "settings"


ROW_ID_FILE: Final = 20
ROW_ID_LEVEL: Final = 40
"""Bits by which the number of the file, and that of the level, are shifted in a row_id."""
BATCH_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOperation:
    """One operation, as ``docs/migration-reference.md`` describes its columns.

    Attributes:
        row_id: unique in the plan; 0 until it is written.
        type: of the object that it belongs to, as on the command line.
        role: role of the entry for that object: the object itself, or a companion.
        guid: GUID of the object in the source (of a deletion: in the target); None for companions.
        dn: in the target.
        action: one of `PlanAction`.
        ldap_class: structural class.
        values: values that are written; an attribute without values is removed. Of a move the new `PLACE`
            and `PARENT_GUID`.
        before: present values of the attributes that are written.
        same: values that the target has already.
        later: references that wait for their targets: attribute -> GUIDs of the source.
        table: of the source.
        source_row: its row there.
    """

    type: str
    role: str
    guid: UUID | None
    dn: str
    action: str
    ldap_class: str
    values: Values = field(default_factory=dict)
    before: Values = field(default_factory=dict)
    same: Values = field(default_factory=dict)
    later: Mapping[str, Sequence[str]] = field(default_factory=dict)
    table: str = ""
    source_row: int = 0
    row_id: int = 0

    @property
    def dn_after(self) -> str:
        """DN that the entry has after the operation."""
        return self.values[PLACE][0].decode() if self.action == PlanAction.MOVE else self.dn

    def to_cells(self, row_id: int) -> dict[str, Any]:
        """Return the operation as a row of `OPERATIONS`."""
        cells = {field.name: getattr(self, field.name) for field in fields(self)}
        maps = {name: [(key, list(some)) for key, some in cells[name].items()] for name in _MAPS}
        guid = None if self.guid is None else self.guid.bytes_le
        return cells | maps | {"row_id": row_id, "guid": guid, "class": self.ldap_class}

    @classmethod
    def of(cls, cells: Mapping[str, Any]) -> Self:
        """Return the operation in a row of `OPERATIONS`."""
        maps = {name: {key: tuple(some) for key, some in cells[name] or ()} for name in _MAPS}
        guid = None if cells["guid"] is None else UUID(bytes_le=cells["guid"])
        other_cells = {name: value for name, value in cells.items() if name != "class"}
        return cls(**other_cells | maps | {"guid": guid, "ldap_class": cells["class"]})


class OperationsFile:
    """Writes one file of operations, which gets its name when it is complete.

    Args:
        path: of the file.
        first_id: row_id of its first row.
    """

    def __init__(self, path: Path, first_id: int) -> None:
        self.path = path
        self.rows = 0
        self._first_id = first_id
        self._draft = path.with_name(path.name + ".new")
        self._waiting: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._draft, OPERATIONS, compression="zstd")

    def write(self, operation: PlanOperation) -> None:
        """Write an operation."""
        self._waiting.append(operation.to_cells(self._first_id + self.rows))
        self.rows += 1
        if len(self._waiting) >= BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Complete the file, and give it its name."""
        self._flush()
        self._writer.close()
        self._draft.replace(self.path)

    def abandon(self) -> None:
        """Remove the incomplete file."""
        self._writer.close()
        self._draft.unlink(missing_ok=True)

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows:
            self._writer.write_table(pa.Table.from_pylist(rows, schema=OPERATIONS))


def plan_deletion(type_name: str, entry: Entry, ldap_class: str, role: str) -> PlanOperation:
    """Return the operation that deletes an entry.

    The entry was read with all its attributes.
    """
    return PlanOperation(
        type=type_name,
        role=role,
        guid=guid_of(entry.attributes),
        dn=entry.dn,
        action=PlanAction.DELETE,
        ldap_class=ldap_class,
        before={name: tuple(values) for name, values in entry.attributes.items()},
    )


def make_row_id(level: int, file: int, row: int) -> int:
    """Return the row_id for the numbers of a level, a file and a row of the file."""
    return (level << ROW_ID_LEVEL) + (file << ROW_ID_FILE) + row


def read_operations(path: Path) -> Iterator[PlanOperation]:
    """Yield the operations of a file, in its order."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield from map(PlanOperation.of, batch.to_pylist())
