"""Write a sample enterprise to a folder."""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TextIO

from mqdssm.errors import ConfigError, convert_folder_errors, require_packages
from mqdssm.model.propids import Variant
from mqdssm.model.safe_text import format_csv_cell
from mqdssm.samples import elements
from mqdssm.samples.entries import BASE_TREE, OBJECTS, SampleEntries, build_base_tree, make_objects
from mqdssm.samples.fault_table import FAULTS
from mqdssm.samples.faults import EnterpriseForm, Planted, Truth, plant
from mqdssm.samples.forms import FAULTS_NAME, LoadingMode, SampleForm, TableForm
from mqdssm.samples.mqis import MqisRow, SampleRows, columns_of
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.planting import make_planted_entries, make_planted_rows
from mqdssm.tables.ldif import format_entry
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

PIECE_ROWS: Final = 5_000
"""Number of rows in memory, and in one row group of a Parquet file."""


class TableWriter:
    """Writer of the rows of one table to one file.

    Args:
        folder: folder of the file, whose name is that of the table.
        table: the table.
        form: the format of the file.
    """

    def __init__(self, folder: Path, table: MqisTable, form: TableForm) -> None:
        self.path = folder / f"{table.name}.{form}"
        self.rows = 0
        self._columns = columns_of(table)
        self._form = form
        self._waiting: list[MqisRow] = []

    @contextmanager
    def open(self) -> Iterator["TableWriter"]:
        """Open the file; it is complete when the context ends without an error."""
        if self._form is TableForm.PARQUET:
            with self._open_parquet():
                yield self
                self._flush()
        else:
            with self.path.open("w", encoding="utf-8", newline="\n") as file:
                self._file = file
                if self._form is TableForm.CSV:
                    file.write(",".join(column.name for column in self._columns) + "\n")
                yield self
                self._flush()

    def write(self, row: MqisRow) -> None:
        """Write a row."""
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= PIECE_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        if self._form is TableForm.PARQUET:
            self._write_batch(rows)
        else:
            line = _format_csv_line if self._form is TableForm.CSV else _format_json_line
            names = [column.name for column in self._columns]
            self._file.writelines(line(names, row) for row in rows)

    _file: IO[str]

    # -- Parquet

    @contextmanager
    def _open_parquet(self) -> Iterator[None]:
        import pyarrow as pa  # noqa: PLC0415  only Parquet needs it
        import pyarrow.parquet as pq  # noqa: PLC0415

        whole = {variant: pa.int64() if variant is Variant.UI4 else pa.int32() for variant in Variant}
        types = whole | {
            Variant.LPWSTR: pa.string(),
            Variant.CLSID: pa.string(),
            Variant.BLOB: pa.binary(),
            Variant.BYTES: pa.binary(),
            Variant.CLSIDS: pa.list_(pa.string()),
            Variant.LPWSTRS: pa.list_(pa.string()),
        }
        self._schema = pa.schema([(column.name, types[column.variant]) for column in self._columns])
        with pq.ParquetWriter(self.path, self._schema) as writer:
            self._writer = writer
            yield

    _schema: Any
    _writer: Any

    def _write_batch(self, rows: Sequence[MqisRow]) -> None:
        import pyarrow as pa  # noqa: PLC0415

        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in self._schema]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def _format_csv_line(names: Sequence[str], row: MqisRow) -> str:
    return ",".join(_format_csv_cell(row[name]) for name in names) + "\n"


def _format_csv_cell(value: Any) -> str:
    """Return a cell ([RFC4180]): an empty one for NULL, two quotes for an empty text."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    cell = _encode_octets(value)
    if not isinstance(cell, str):
        cell = json.dumps(cell)
    return format_csv_cell(cell)


def _format_json_line(names: Sequence[str], row: MqisRow) -> str:
    record = {name: _encode_octets(row[name]) for name in names}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _encode_octets(value: Any) -> Any:
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


REPORT_EVERY = 500  # objects between two reports of progress

Report = Callable[[int], None]


@dataclass(slots=True)
class WrittenSample:
    """Result of `generate`: files, objects and planted defects.

    Attributes:
        files: their names, in the order of loading.
        objects: the number of each table or type.
        faults: the number of planted defects, by rule: objects that findings must name.
    """

    files: list[str] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


def generate(
    plan: EnterprisePlan,
    folder: Path,
    form: SampleForm,
    table_form: TableForm = TableForm.PARQUET,
    loader: LoadingMode = LoadingMode.LDAPADD,
    *,
    faults: bool = False,
    report: Report = lambda _: None,
) -> WrittenSample:
    """Write a sample enterprise to a new or empty folder.

    Args:
        plan: the enterprise.
        folder: the target folder.
        form: tables of MQIS or LDIF.
        table_form: for tables: Parquet, CSV or JSON Lines.
        loader: for LDIF: the program that loads it.
        faults: plant defects, and list them in ``faults.jsonl``.
        report: call-back with the number of objects written since the last call.

    Raises:
        ConfigError: the folder is not empty, or cannot be written; Parquet needs a package that is missing.
    """
    if form is SampleForm.MQIS and table_form is TableForm.PARQUET:
        require_packages("pyarrow")
    with convert_folder_errors(f"cannot write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: name a new or an empty folder")
        written = WrittenSample()
        with ExitStack() as stack:
            truth = _Truths(stack, folder, written) if faults else None
            if form is SampleForm.MQIS:
                planted = plant(plan, EnterpriseForm.MQIS, FAULTS) if faults else []
                _write_tables(plan, folder, table_form, planted, _Sink(written, truth, report))
            else:
                planted = plant(plan, EnterpriseForm(loader), FAULTS) if faults else []
                entries = SampleEntries(plan, operational=loader is LoadingMode.SLAPADD)
                _write_ldif(plan, folder, entries, planted, _Sink(written, truth, report))
    return written


class _Truths:
    """Writer of the list of expected findings."""

    def __init__(self, stack: ExitStack, folder: Path, written: WrittenSample) -> None:
        self._file: TextIO = stack.enter_context(
            (folder / FAULTS_NAME).open("w", encoding="utf-8", newline="\n")
        )
        self._written = written

    def write(self, truths: Iterable[Truth]) -> None:
        for truth in truths:
            self._file.write(json.dumps(truth._asdict(), ensure_ascii=False) + "\n")
            self._written.faults[truth.rule] += 1


class _Sink:
    """Counter of the written objects, which also passes on the expected findings."""

    def __init__(self, written: WrittenSample, truths: _Truths | None, report: Report) -> None:
        self.written = written
        self._truths = truths
        self._report = report
        self._unreported = 0

    def count(self, kind: str) -> None:
        self.written.objects[kind] += 1
        self._unreported += 1
        if self._unreported >= REPORT_EVERY:
            self._report(self._unreported)
            self._unreported = 0

    def note_found(self, truths: Iterable[Truth]) -> None:
        if self._truths is not None:
            self._truths.write(truths)


def _write_tables(
    plan: EnterprisePlan, folder: Path, form: TableForm, planted: list[Planted], sink: _Sink
) -> None:
    rows = SampleRows(plan)
    extra: dict[str, list[MqisRow]] = {name: [] for name in MQIS_TABLES}
    for name, row, truths in make_planted_rows(planted, rows):
        extra[name].append(row)
        sink.note_found(truths)
    for name, table in MQIS_TABLES.items():
        writer = TableWriter(folder, table, form)
        sink.written.files.append(writer.path.name)
        # a planted enterprise object replaces the sound one
        sound = () if name == "Enterprise" and extra[name] else rows.all_of(name)
        with writer.open():
            for some in (sound, extra[name]):
                for row in some:
                    writer.write(row)
                    sink.count(name)


def _write_ldif(
    plan: EnterprisePlan, folder: Path, entries: SampleEntries, planted: list[Planted], sink: _Sink
) -> None:
    enterprises = []
    sink.written.files += [BASE_TREE, OBJECTS]
    with (folder / OBJECTS).open("w", encoding="ascii", newline="\n") as file:
        for entry in make_objects(plan, entries):
            file.write(format_entry(entry.list_pairs()) + "\n")
            if entry.type:
                sink.count(entry.type)
        for object_entries, truths in make_planted_entries(planted, entries):
            sink.note_found(truths)
            for entry in object_entries:
                if entry.type == "enterprise":
                    enterprises.append(entry)
                    continue
                file.write(format_entry(entry.list_pairs()) + "\n")
                if entry.type:
                    sink.count(entry.type)
    enterprises = enterprises or [entries.make_enterprise(elements.make_enterprise(plan))]
    with (folder / BASE_TREE).open("w", encoding="ascii", newline="\n") as file:
        for pairs in build_base_tree(plan, enterprises):
            file.write(format_entry(pairs) + "\n")
    for _ in enterprises:
        sink.count("enterprise")
