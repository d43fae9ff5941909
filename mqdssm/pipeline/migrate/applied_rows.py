"""Rejected rows, values left out and DNs of objects, read from the folder of an applied plan."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from mqdssm.model.dn import normalize
from mqdssm.pipeline.migrate.operations import OBJECT, read_operations
from mqdssm.pipeline.migrate.plan_file import NOT_CARRIED_NAME, REJECTS_NAME, MigrationPlan
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable


class Reject(NamedTuple):
    """A row that was not carried over, or not all of it.

    Attributes:
        table: that it is in.
        row: its number there.
        guid: of its object, as text; None: it has none.
        values: what it says, as text.
        columns: the guilty columns, or attributes, as far as they are known.
        reason: why.
    """

    table: MqisTable
    row: int
    guid: str | None
    values: dict[str, str]
    columns: str
    reason: str


def rejects(folder: Path) -> Iterator[Reject]:
    """Yield the rows that a plan rejected or the target refused, each once.

    Args:
        folder: of the plan.
    """
    seen = set()
    for path in sorted((folder / REJECTS_NAME).glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                place = (line["table"], line["row"])
                if line["row"] and place not in seen:  # 0: it belongs to no row
                    seen.add(place)
                    table = MQIS_TABLES[line["table"]]
                    columns = line.get("attribute") or ", ".join(line.get("attributes", ()))
                    values = line["values"]
                    yield Reject(table, line["row"], values.get(table.key), values, columns, line["reason"])


def left_out(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the GUID of the object and the name of the column for each value not carried over."""
    for path in sorted((folder / NOT_CARRIED_NAME).glob("*/*.parquet")):
        read = pq.read_table(path, columns=["guid", "column"])
        yield from zip(read["guid"].to_pylist(), read["column"].to_pylist(), strict=True)


def places(plan: MigrationPlan, folder: Path) -> dict[str, str]:
    """Return the normalised DN of each object with a GUID in the plan, and this GUID.

    Args:
        plan: the plan.
        folder: of it.
    """
    files = [*(file for level in plan.levels for file in level.files), *plan.equal]
    operations = (one for file in files for one in read_operations(folder / file.path))
    return {
        normalize(one.dn): str(one.guid) for one in operations if one.role == OBJECT and one.guid is not None
    }
