"""Operations of a plan: adds, changes and deletions, as rows of Parquet files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.directory.entries import Entry

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

ADD: Final = "add"
MODIFY: Final = "modify"
DELETE: Final = "delete"
EQUAL: Final = "equal"

OBJECT: Final = "object"
COMPUTER: Final = "computer"
KEYS: Final = "keys"
CONTAINER: Final = "container"
SETTINGS: Final = "settings"

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
        action: `ADD`, `MODIFY`, `DELETE` or `EQUAL`.
        ldap_class: structural class.
        values: values that are written; an attribute without values is removed.
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

    def cells(self, row_id: int) -> dict[str, Any]:
        """Return the operation as a row of `OPERATIONS`."""
        return {
            "row_id": row_id,
            "type": self.type,
            "role": self.role,
            "guid": None if self.guid is None else self.guid.bytes_le,
            "dn": self.dn,
            "action": self.action,
            "class": self.ldap_class,
            "values": _pairs(self.values),
            "before": _pairs(self.before),
            "same": _pairs(self.same),
            "later": _pairs(self.later),
            "table": self.table,
            "source_row": self.source_row,
        }

    @classmethod
    def of(cls, cells: Mapping[str, Any]) -> Self:
        """Return the operation in a row of `OPERATIONS`."""
        guid = cells["guid"]
        return cls(
            row_id=cells["row_id"],
            type=cells["type"],
            role=cells["role"],
            guid=None if guid is None else UUID(bytes_le=guid),
            dn=cells["dn"],
            action=cells["action"],
            ldap_class=cells["class"],
            values=_mapped(cells["values"]),
            before=_mapped(cells["before"]),
            same=_mapped(cells["same"]),
            later=_mapped(cells["later"]),
            table=cells["table"],
            source_row=cells["source_row"],
        )


def _pairs(values: Mapping[str, Sequence[Any]]) -> list[tuple[str, list[Any]]]:
    return [(name, list(some)) for name, some in values.items()]


def _mapped(pairs: Any) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(some) for name, some in pairs or ()}


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
        self._waiting.append(operation.cells(self._first_id + self.rows))
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


def deletion(type_name: str, entry: Entry, ldap_class: str, role: str) -> PlanOperation:
    """Return the operation that deletes an entry, which was read with all its attributes."""
    raw = entry.first("objectGUID")
    return PlanOperation(
        type=type_name,
        role=role,
        guid=None if raw is None or len(raw) != 16 else UUID(bytes_le=raw),
        dn=entry.dn,
        action=DELETE,
        ldap_class=ldap_class,
        before={name: tuple(values) for name, values in entry.attributes.items()},
    )


def row_id(level: int, file: int, row: int) -> int:
    """Return the row_id for the numbers of a level, a file and a row of the file."""
    return (level << ROW_ID_LEVEL) + (file << ROW_ID_FILE) + row


def read_operations(path: Path) -> Iterator[PlanOperation]:
    """Yield the operations of a file, in its order."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield from map(PlanOperation.of, batch.to_pylist())
