"""Look-ups that all workers share.

The look-ups are made once from the source's keys and the target.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.pipeline.frames.arrow_functions import is_in_part
from mqdssm.pipeline.migrate.rows import list_sites_served
from mqdssm.pipeline.migrate.sids import SidMap
from mqdssm.pipeline.migrate.staging import (
    concatenate_parts,
    list_staged_parts,
    read_keys,
    read_keys_by_part,
    read_staged_rows,
)
from mqdssm.tables.mqis import MACHINE, MQIS_TABLES, ROUTING_LINK, SITE, MqisTable
from mqdssm.wire.sid import Sid

KEYS_HELD_MAX: Final = 3_000_000
"""Rows whose keys are in memory together; more are looked through in shares."""
NAMED_MAX: Final = 5
"""Rows that the reason of a duplicate names."""

NAMES: Final = {"User": "SID", "RoutingLink": "sites", "Enterprise": "place", "Queue": "path name"}
"""Words for the key that no two rows of a table may share, if it is not a name."""

RowId = tuple[str, int]
"""Table and number of a row."""


class Computer(NamedTuple):
    """A computer that queues and queue managers belong to.

    Attributes:
        name: as it is written.
        dn: where it is, or will be.
        sid: its SID, as text.
        exists: the target has it.
        problem: why nothing can be below it.
    """

    name: str
    dn: str
    sid: str | None
    exists: bool
    problem: str | None = None


class KnownSite(NamedTuple):
    """A site that objects refer to.

    Attributes:
        name: of the site.
        dn: where it is, or will be.
        guid: its GUID in the target; None: it is not there yet.
        in_source: the source has it.
    """

    name: str
    dn: str
    guid: UUID | None
    in_source: bool = False


@dataclass(frozen=True, slots=True)
class SharedLookups:
    """Facts about source and target that all workers need.

    Attributes:
        sites: GUID in the source -> site; of sites that only the target has: GUID there.
        machines: GUID in the source -> key of the computer's name (`Profile.name_key`); those that are
            refused are not in it.
        computers: by the key of the name.
        gates: GUID of a site -> its gates.
        served: sites whose gates some routing link gets.
        duplicates: row -> why it is refused.
        empty: classes that the target has no object of.
        sids: the map of SIDs, its names resolved.
    """

    sites: Mapping[UUID, KnownSite] = field(default_factory=dict)
    machines: Mapping[UUID, str] = field(default_factory=dict)
    computers: Mapping[str, Computer] = field(default_factory=dict)
    gates: Mapping[UUID, tuple[UUID, ...]] = field(default_factory=dict)
    served: frozenset[UUID] = frozenset()
    duplicates: Mapping[RowId, str] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    sids: SidMap = field(default_factory=SidMap)

    def without_machines(self, guids: Iterable[UUID]) -> "SharedLookups":
        """Return a copy without the queue managers that were refused."""
        gone = frozenset(guids)
        return replace(
            self, machines={guid: name for guid, name in self.machines.items() if guid not in gone}
        )


def find_duplicates(
    folder: Path, name_key: Callable[[str], str], sids: SidMap | None = None
) -> dict[RowId, str]:
    """Return the rows that share a GUID, or a name within their table.

    All of them are refused.

    Args:
        folder: of the plan, with the staged source.
        name_key: what the target compares of a name.
        sids: the map of SIDs, resolved: users whose new SIDs are the same share it.
    """
    tables = [table for table in MQIS_TABLES.values() if table.element is not None]
    count = sum(part.rows for table in tables for part in list_staged_parts(folder, table))
    shares = max(1, -(-count // KEYS_HELD_MAX))
    problems: dict[RowId, str] = {}
    for by in (["guid"], ["name", "table"]):
        for share in range(shares):
            parts = read_keys_by_part(folder, tables, by[:1])
            keys = concatenate_parts((_select_share(part, name_key, share, shares) for part in parts), by[:1])
            for rows in _group_rows(keys, by):
                _add_reasons(problems, "GUID" if by == ["guid"] else NAMES.get(rows[0][0], "name"), rows)
    if sids is not None and (sids.sids or sids.domains):
        for rows in _of_one_new_sid(folder, sids):
            if not all(row in problems for row in rows):  # else the rows are duplicates already
                _add_reasons(problems, "new SID (--sid-map)", rows)
    return problems


def _select_share(keys: pa.Table, name_key: Callable[[str], str], share: int, shares: int) -> pa.Table:
    """Return the rows with a key in one share of all keys.

    Names become what the target compares of them. Equal keys are in one share.
    """
    name = keys.column_names[0]
    keys = keys.filter(pc.is_valid(keys.column(name)))
    if name == "name":
        names = pa.array(map(name_key, keys.column(name).to_pylist()), pa.string())
        keys = keys.set_column(0, name, names)
    if shares == 1:
        return keys
    values = keys.column(name).cast(pa.binary()).combine_chunks()
    return keys.filter(is_in_part(values, share, shares))


def _add_reasons(problems: dict[RowId, str], words: str, rows: Sequence[RowId]) -> None:
    """Add to each of some rows the reason that it shares a key with the others."""
    for row in rows:
        other_rows = [f"{table} row {number}" for table, number in rows if (table, number) != row]
        more = f" and {len(other_rows) - NAMED_MAX} more" if len(other_rows) > NAMED_MAX else ""
        text = f"the same {words} as {', '.join(other_rows[:NAMED_MAX])}{more}"
        problems[row] = f"{problems[row]}; {text}" if row in problems else text


def _of_one_new_sid(folder: Path, sids: SidMap) -> Iterator[list[RowId]]:
    """Yield groups of rows of User that have one SID after mapping.

    One row of a group may have had that SID before.
    """
    table = MQIS_TABLES["User"]
    keys = read_keys(folder, [table], ["name"])
    rows: dict[str, list[RowId]] = {}
    for text, number in zip(keys.column("name").to_pylist(), keys.column("number").to_pylist(), strict=True):
        if text is not None:
            new = sids.look_up(Sid.parse(text))
            rows.setdefault(text if new is None else new.text, []).append((table.name, number))
    yield from (some for some in rows.values() if len(some) > 1)


def _group_rows(keys: pa.Table, by: list[str]) -> Iterator[list[RowId]]:
    """Yield the rows of each key that several rows share."""
    some = keys.select([*by, "table", "number"] if "table" not in by else [*by, "number"])
    some = some.filter(pc.is_valid(some.column(by[0])))
    counted = some.group_by(by).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted.column("count_all"), 1)).select(by)
    if not several.num_rows:
        return
    groups: dict[tuple[object, ...], list[RowId]] = {}
    for row in some.join(several, by, join_type="inner").to_pylist():
        groups.setdefault(tuple(row[name] for name in by), []).append((row["table"], row["number"]))
    for rows in groups.values():
        yield sorted(rows)


def read_names(folder: Path, table: MqisTable) -> dict[UUID, str]:
    """Return the names of the machines or sites in the source, by GUID."""
    keys = read_keys(folder, [table], ["guid", "computer"]).to_pylist()
    return {UUID(bytes_le=row["guid"]): row["computer"] for row in keys if row["guid"] and row["computer"]}


def read_gates(folder: Path) -> dict[UUID, tuple[UUID, ...]]:
    """Return GUID -> gates of all rows of Site with a GUID."""
    keys = read_keys(folder, [SITE], ["guid", "gates"]).to_pylist()
    return {
        UUID(bytes_le=row["guid"]): tuple(UUID(bytes_le=gate) for gate in row["gates"] or ())
        for row in keys
        if row["guid"]
    }


def read_served_sites(folder: Path) -> frozenset[UUID]:
    """Return the sites whose gates some row of RoutingLink gets, or names itself."""
    gates = read_gates(folder)
    rows = (row for part in list_staged_parts(folder, ROUTING_LINK) for row in read_staged_rows(part))
    return frozenset(site for row in rows for site in list_sites_served(row.cells, gates))


def find_named_computers(folder: Path, name_key: Callable[[str], str]) -> dict[str, str]:
    """Return the computers that machines and queues name.

    The result is key of the name -> name as first written.
    """
    names: dict[str, str] = {}
    for table in (MACHINE, MQIS_TABLES["Queue"]):
        for name in pc.unique(read_keys(folder, [table], ["computer"]).column("computer")).to_pylist():
            if name:
                names.setdefault(name_key(name), name)
    return names
