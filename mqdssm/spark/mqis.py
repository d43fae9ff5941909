"""MQIS tables as data frames of the abstract model: the same columns as those of a directory.

Columns that MQIS has no counterpart for are absent, above all FullPath: there is no tree. A cell that cannot
be read is NULL, and listed in the column Unreadable as ``Attribute: reason``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mqdssm.model.elements import QueueManager
from mqdssm.model.enums import DirectoryServerType
from mqdssm.model.fieldtypes import spec_name
from mqdssm.spark.columns import TYPES, columns_of
from mqdssm.spark.mqis_files import BROKEN, RawTable, find_tables, read_table
from mqdssm.spark.mqis_values import decoded, plain, shown
from mqdssm.tables.compute import SERVICE_BITS
from mqdssm.tables.mqis import MACHINE, SITE, MqisColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

UNREADABLE: Final = "Unreadable"
GATES: Final = "SiteGateIdentifierList"
SITE_GATES: Final = SITE.column("PROPID_S_GATES")
SERVICE: Final = MACHINE.column("PROPID_QM_SERVICE")
_GATES_OF_SITE: Final = "__gates"


class _Cell(NamedTuple):
    """A cell and what became of it."""

    column: MqisColumn
    value: "Column"
    problem: "Column"


def read_tables(spark: "SparkSession", folder: Path) -> dict[str, RawTable]:
    """Read the MQIS tables of a folder, nothing decoded, by the names of the tables.

    Raises:
        ConfigError: no table is there, or one that cannot be used; with what is expected.
    """
    return {name: read_table(spark, files) for name, files in find_tables(folder).items()}


def mqis_frames(spark: "SparkSession", folder: Path) -> "dict[str, DataFrame]":
    """Read MQIS tables as frames of the types on the command line.

    Args:
        spark: the session.
        folder: with ``Queue.parquet``, ``Queue.csv`` or ``Queue.jsonl`` and so on, or folders of such parts;
            tables may be missing.

    Returns:
        The frames by type: the specification's attributes, then Unreadable.

    Raises:
        ConfigError: no table is there, or one that cannot be used; with what is expected.
    """
    return frames_of(read_tables(spark, folder))


def frames_of(tables: dict[str, RawTable]) -> "dict[str, DataFrame]":
    """The frames of tables that were read, by the types of the command line."""
    frames = {}
    for name, raw in tables.items():
        if raw.table.type_name is not None:
            frame = _frame(raw)
            if name == "RoutingLink":
                frame = _with_gates(frame, tables.get("Site"))
            frames[raw.table.type_name] = frame
    return frames


def _frame(raw: RawTable) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    cells = list(_cells(raw))
    found: dict[str, Column] = {}
    for column in columns_of(TYPES[raw.table.type_name or ""]):
        of_attribute = [
            cell for holder in raw.table.holding(column.name) for cell in cells if cell.column is holder
        ]
        if of_attribute:
            found[column.name] = F.coalesce(*(cell.value for cell in of_attribute))
    if raw.table.element is QueueManager:
        found = _with_roles(found, cells)
    problems = [cell.problem for cell in cells]
    if BROKEN in raw.frame.columns:
        broken = F.substring(F.col(BROKEN), 1, 60)
        problems.append(
            F.when(F.col(BROKEN).isNotNull(), F.concat(F.lit("row: it cannot be taken apart: "), broken))
        )
    listed = F.filter(F.array(*problems), lambda one: one.isNotNull())
    names = [column.name for column in columns_of(TYPES[raw.table.type_name or ""]) if column.name in found]
    return raw.frame.select(
        *(found[name].alias(name) for name in names),
        F.when(F.size(listed) > 0, listed).alias(UNREADABLE),
    )


def _cells(raw: RawTable) -> Iterator[_Cell]:
    """The cells that hold attributes, decoded."""
    from pyspark.sql import functions as F  # noqa: N812

    for column in raw.columns:
        if column.row is None and column is not SITE_GATES:
            continue
        cell, stored = F.col(column.name), raw.frame.schema[column.name].dataType
        whole = column.bits or column.row is None
        value = plain(column.variant, cell, stored) if whole else decoded(column, cell, stored)
        called = column.adm or GATES
        words = F.concat(F.lit(f"{called}: "), shown(cell, stored), F.lit(f" is no {_expected(column)}"))
        yield _Cell(column, value, F.when(cell.isNotNull() & value.isNull(), words))


def _expected(column: MqisColumn) -> str:
    """What a cell of a column must be, for people."""
    if column.codes is not None and column.row is not None and column.row.kind == "boolean":
        return f"{' or '.join(map(str, column.codes))} ({column.name})"
    return f"{column.variant} ({column.name})"


def _with_roles(found: "dict[str, Column]", cells: list[_Cell]) -> "dict[str, Column]":
    """What the bits of PROPID_QM_SERVICE say, unless a property of its own says it ([MS-MQDS] 3.1.4.21.8)."""
    from pyspark.sql import functions as F  # noqa: N812

    bits = next((cell.value for cell in cells if cell.column is SERVICE), None)
    if bits is None:
        return found

    def has(mask: int) -> "Column":
        return bits.bitwiseAND(F.lit(mask).cast("long")) != 0

    roles = {
        name: has(int(SERVICE_BITS[name]))
        for name in ("RoutingServer", "RemoteAccessServer", "DirectoryServer")
    }
    made = {name: F.coalesce(found[name], role) if name in found else role for name, role in roles.items()}
    kind = F.when(made["DirectoryServer"], F.lit(spec_name(DirectoryServerType.STANDALONE)))
    for one in sorted(
        DirectoryServerType
    ):  # its number is its bit; should several be set, the highest counts
        if one is not DirectoryServerType.STANDALONE:
            kind = F.when(has(int(one)), F.lit(spec_name(one))).otherwise(kind)
    return found | made | {"DirectoryServerType": kind}


def _with_gates(links: "DataFrame", sites: RawTable | None) -> "DataFrame":
    """Give links without gates of their own those of their two sites, as MSMQ 1.0 keeps them."""
    from pyspark.sql import functions as F  # noqa: N812

    if sites is None or SITE_GATES not in sites.columns:
        return links
    ends = [name for name in ("Site1Identifier", "Site2Identifier") if name in links.columns]
    cells = {cell.column.name: cell.value for cell in _cells(sites)}
    gates = (
        sites.frame.select(
            cells[sites.table.key].alias("__site"), cells[SITE_GATES.name].alias(_GATES_OF_SITE)
        )
        .where(F.col("__site").isNotNull())
        .dropDuplicates(["__site"])  # two sites of one GUID are a finding, not two links
    )
    joined = links
    lists = []
    for end in ends:
        of_end = gates.select(
            F.col("__site").alias(f"__{end}"), F.col(_GATES_OF_SITE).alias(f"__gates_{end}")
        )
        joined = joined.join(F.broadcast(of_end), F.col(end) == F.col(f"__{end}"), "left")
        lists.append(F.coalesce(F.col(f"__gates_{end}"), F.array().cast("array<string>")))
    both = F.array_distinct(F.concat(*lists)) if lists else F.array().cast("array<string>")
    own = F.coalesce(F.col(GATES), both) if GATES in links.columns else both
    names = [column.name for column in columns_of(TYPES["routing-link"])]
    picked = [
        (own if name == GATES else F.col(name)).alias(name)
        for name in names
        if name in (*links.columns, GATES)
    ]
    return joined.select(*picked, F.col(UNREADABLE))
