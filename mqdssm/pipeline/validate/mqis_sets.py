"""Conversion of MQIS tables into files of objects, as in an export.

The objects are those of the abstract model; the columns are an export's.
A runner's workers read the tables, a file each, by the rules of a migration. Columns without a counterpart
in MQIS are missing, above all FullPath: there is no tree. A cell that cannot be read is NULL, and listed in
the column Unreadable as ``Attribute: reason``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError
from mqdssm.model.elements import QueueManager, RoutingLink
from mqdssm.model.enums import DirectoryServerType
from mqdssm.model.fieldtypes import spec_name
from mqdssm.pipeline.frames.arrow import array_of, find_arrow_type
from mqdssm.pipeline.frames.columns import FRAME_TYPES, SERVICE_TYPE, UNREADABLE, Column
from mqdssm.pipeline.migrate.rows import GATES, SERVICE, SITE_GATES, gates_of
from mqdssm.pipeline.mqis.folder import ROW, SourceFile, SourceRow, SourceTable, read_rows
from mqdssm.pipeline.mqis.mapping import SourceMapping
from mqdssm.pipeline.runner import Calls, Job, Runner, StopRequest
from mqdssm.pipeline.shared_folder import explain_full_disk
from mqdssm.pipeline.validate.datasets import Dataset, read_dataset, without_objects
from mqdssm.tables.compute import SERVICE_BITS
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn, MqisTable
from mqdssm.tables.mqis_cells import CellError, convert_cell, read_value

SMALL_BYTES: Final = 16 * 1024 * 1024
"""Limit of the tables that are read in this process: to start workers would cost more."""
BATCH_ROWS: Final = 2_000
"""Number of rows of a batch: a row holds certificates of up to 1 MiB each."""
SHOWN_CHARS_MAX: Final = 60
"""Limit of the shown text of a cell that cannot be read."""
ROLES: Final = ("RoutingServer", "RemoteAccessServer", "DirectoryServer")
SERVER_TYPE: Final = "DirectoryServerType"

GatesOfSites = Mapping[UUID, tuple[UUID, ...]]
Rewrite = Callable[[pa.RecordBatch], pa.RecordBatch]


def write_mqis_sets(
    runner: Runner,
    tables: Sequence[SourceTable],
    mapping: SourceMapping,
    folder: Path,
    rewrite: Rewrite | None = None,
) -> dict[str, Dataset]:
    """Read MQIS tables, and write their objects as Parquet files.

    Args:
        runner: does the work.
        tables: as `mqdssm.pipeline.mqis.folder.source_table` gives them.
        mapping: how the source holds values.
        folder: for the files.
        rewrite: changes each batch before it is written; pickled into workers. None: nothing is changed.

    Returns:
        The objects by type, as the command line names it.

    Raises:
        ConfigError: a table cannot be read, or nothing can be written.
    """
    by_name = _by_name(tables)
    files = tuple(file for source in by_name.values() for file in source.files)
    task = SetTask(folder, files, mapping, _map_gates(by_name.get("Site"), mapping), rewrite)
    names = tuple(f"reading {file.path.name}" for file in files)
    size = sum(file.path.stat().st_size for file in files)
    paths = runner.run(Job(Calls(task), names, is_small=size < SMALL_BYTES))
    return {
        table.type_name: read_dataset(
            table.type_name, [path for path, file in zip(paths, files, strict=True) if file.table == name]
        )
        for name, table in MQIS_TABLES.items()
        if name in by_name and table.type_name is not None
    }


def make_expected_sets(tables: Sequence[SourceTable]) -> dict[str, Dataset]:
    """Return the result of `write_mqis_sets`, with its columns but without objects."""
    by_name = _by_name(tables)
    gates: GatesOfSites | None = {} if _have_gates(by_name.get("Site")) else None
    makers = {
        source.table.type_name or "": ObjectMaker(
            source.table, {name for file in source.files for name in file.columns.values()}, gates
        )
        for source in by_name.values()
    }
    return {name: without_objects(name, maker.schema) for name, maker in makers.items()}


def _by_name(tables: Sequence[SourceTable]) -> dict[str, SourceTable]:
    """Return the tables of which objects are made, by name."""
    return {source.table.name: source for source in tables if source.table.type_name is not None}


def _have_gates(sites: SourceTable | None) -> bool:
    return sites is not None and SITE_GATES in sites.columns


def _map_gates(sites: SourceTable | None, mapping: SourceMapping) -> GatesOfSites | None:
    """Return the gates of sites by GUID; None without a column.

    If sites share a GUID, the last one counts, as in a plan.
    """
    if sites is None or not _have_gates(sites):
        return None
    key = sites.table.column(sites.table.key)
    gates: dict[UUID, tuple[UUID, ...]] = {}
    for file in sites.files:
        for row in read_rows(file, mapping):
            try:
                gates[convert_cell(key, row.cells.get(key.name, ""))] = gates_of(row.cells)
            except CellError:
                continue  # listed in the site's own row
    return gates


@dataclass(frozen=True, slots=True)
class SetTask:
    """Conversion of MQIS tables, as a callable for workers.

    Attributes:
        folder: for the files that are written.
        files: of the tables; each is a piece of work.
        mapping: how the source holds values.
        gates: of each site, for links that name none themselves; None: sites have none.
        rewrite: changes each batch; None: nothing is changed.
    """

    folder: Path
    files: tuple[SourceFile, ...]
    mapping: SourceMapping
    gates: GatesOfSites | None
    rewrite: Rewrite | None = None

    def __call__(self, number: int, stop: StopRequest) -> Path:
        """Read one file, and return the path of the file written.

        A stop ends this between two rows.
        """
        file = self.files[number]
        maker = ObjectMaker(MQIS_TABLES[file.table], set(file.columns.values()), self.gates)
        path = self.folder / f"{file.table}-{number:05d}.parquet"
        draft = path.with_name(path.name + ".new")
        rows = stop.checking(read_rows(file, self.mapping))
        try:
            with (
                explain_full_disk(self.folder),
                pq.ParquetWriter(draft, maker.schema, compression="none") as writer,
            ):
                while some := list(islice(rows, BATCH_ROWS)):
                    batch = maker.batch(some)
                    writer.write_batch(batch if self.rewrite is None else self.rewrite(batch))
            draft.replace(path)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written: {error.strerror or error}") from error
        return path


class ObjectMaker:
    """Maker of objects from the rows of a table.

    Args:
        table: which one, of a type that directories keep.
        present: the PROPIDs of the columns that the source has.
        gates: see `SetTask`.

    Attributes:
        schema: of the batches.
    """

    def __init__(self, table: MqisTable, present: set[str], gates: GatesOfSites | None) -> None:
        self._cells = [
            column
            for column in table.columns
            if column.name in present and (column.row is not None or column is SITE_GATES)
        ]
        self._gates = gates if table.element is RoutingLink else None
        self._has_roles = table.element is QueueManager and SERVICE in self._cells
        self._columns = self._columns_of(table)
        fields = [pa.field(column.name, find_arrow_type(column)) for column in self._columns]
        self.schema: Final = pa.schema(fields)

    def _columns_of(self, table: MqisTable) -> tuple[Column, ...]:
        """Return the columns of the objects.

        `_holders` gets the cells from which each column is made.
        """
        columns = FRAME_TYPES[table.type_name or ""].columns
        self._holders: dict[str, list[MqisColumn]] = {}
        for column in columns:
            holding = [holder for holder in table.list_holding(column.name) if holder in self._cells]
            if column.name == SERVICE_TYPE.adm and self._has_roles:
                holding = [SERVICE]
            is_computed = (self._has_roles and column.name in (*ROLES, SERVER_TYPE)) or (
                self._gates is not None and column.name == GATES
            )
            if holding or is_computed:
                self._holders[column.name] = holding
        return (*(column for column in columns if column.name in self._holders), UNREADABLE)

    def batch(self, rows: Sequence[SourceRow]) -> pa.RecordBatch:
        """Make a batch from rows."""
        records = [self._make_object(row) for row in rows]
        arrays = [
            array_of([record.get(column.name) for record in records], column, field.type)
            for column, field in zip(self._columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _make_object(self, row: SourceRow) -> dict[str, Any]:
        values: dict[str, Any] = {}
        problems = list(self._read(row, values))
        if ROW in row.problems:
            problems.append(f"row: it cannot be taken apart: {row.problems[ROW]}")
        record = {
            name: next((values[holder.name] for holder in holders if holder.name in values), None)
            for name, holders in self._holders.items()
        }
        if self._has_roles:
            _add_roles(record, values.get(SERVICE.name))
        if self._gates is not None and not record.get(GATES):  # an empty list names none
            record[GATES] = self._find_gates_between(record)
        record[UNREADABLE.name] = problems or None
        return record

    def _read(self, row: SourceRow, values: dict[str, Any]) -> Iterator[str]:
        """Fill in the values of the cells; yield the reasons why others have none."""
        for column in self._cells:
            cell = row.cells.get(column.name)
            called = column.adm or GATES
            if column.name in row.problems:
                yield f"{called}: {row.problems[column.name]} ({column.name})"
            elif cell is not None:
                try:
                    read = convert_cell if column.row is None else read_value
                    values[column.name] = read(column, cell)
                except CellError:
                    yield f"{called}: {cell[:SHOWN_CHARS_MAX]} is no {_describe_form(column)}"

    def _find_gates_between(self, link: Mapping[str, Any]) -> tuple[UUID, ...]:
        """Return the gates of both sites of a link, as MSMQ 1.0 keeps them."""
        gates = self._gates or {}
        ends = (link.get("Site1Identifier"), link.get("Site2Identifier"))
        return tuple(dict.fromkeys(gate for end in ends if end is not None for gate in gates.get(end, ())))


def _describe_form(column: MqisColumn) -> str:
    """Describe, for people, the form that a cell of a column must have."""
    if column.codes is not None and column.row is not None and column.row.kind == "boolean":
        return f"{' or '.join(map(str, column.codes))} ({column.name})"
    return f"{column.variant} ({column.name})"


def _add_roles(record: dict[str, Any], bits: int | None) -> None:
    """Add the roles in the bits of PROPID_QM_SERVICE.

    Roles with a property of their own are left out ([MS-MQDS] 3.1.4.21.8).
    """
    for name in ROLES:
        if record.get(name) is None and bits is not None:
            record[name] = bool(bits & int(SERVICE_BITS[name]))
    kind = spec_name(DirectoryServerType.STANDALONE) if record.get("DirectoryServer") else None
    for server_type in sorted(
        DirectoryServerType
    ):  # its number is its bit; if several are set, the highest is used
        if server_type is not DirectoryServerType.STANDALONE and (bits or 0) & int(server_type):
            kind = spec_name(server_type)
    record[SERVER_TYPE] = kind
