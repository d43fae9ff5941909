"""Encodings of MQIS tables: all read them by one reader, and a wrong one is named."""

import codecs
import csv
import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest

from mqdssm.errors import ConfigError
from mqdssm.model.propids import BLOBS
from mqdssm.pipeline.inventory import Inventory, open_source
from mqdssm.pipeline.mqis.folder import SourceRow, find_files, read_rows, read_source_table
from mqdssm.pipeline.mqis.mapping import SourceMapping, TableMapping
from mqdssm.pipeline.validate.run import validation
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.tables.mqis import MQIS_TABLES

SAMPLE = EnterprisePlan(sites=2, machines=6, queues=30, users=3, seed=3)
MARKS = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}


def rows_of(folder: Path, mapping: SourceMapping | None = None) -> dict[str, list[SourceRow]]:
    mapping = mapping or SourceMapping()
    return {
        name: [row for part in read_source_table(files, mapping).files for row in read_rows(part, mapping)]
        for name, files in find_files(folder, mapping).items()
    }


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Tables in UTF-8 with letters of all kinds."""
    generate(SAMPLE, tmp_path / "made", SampleForm.MQIS, table_form=TableForm.CSV)
    return tmp_path / "made"


def encode(folder: Path, encoding: str, mark: bytes = b"", *, tabs: bool = False) -> None:
    for file in folder.glob("*.csv"):
        text = file.read_text(encoding="utf-8")
        if tabs:
            with file.open(encoding="utf-8", newline="") as lines:
                rows = [[cell.replace("\t", " ") for cell in row] for row in csv.reader(lines)]
            with file.open("w", encoding="utf-8", newline="") as lines:
                csv.writer(lines, delimiter="\t", quoting=csv.QUOTE_MINIMAL).writerows(rows)
            text = file.read_text(encoding="utf-8")
        file.write_bytes(mark + text.encode(encoding))


@pytest.mark.parametrize("encoding", MARKS)
def test_a_byte_order_mark_counts(written: Path, encoding: str) -> None:
    before = rows_of(written)
    assert any(not cell.isascii() for row in before["Queue"] for cell in row.cells.values())
    encode(written, encoding, MARKS[encoding])
    assert rows_of(written) == before
    assert rows_of(written, SourceMapping(encoding="cp1252")) == before


@pytest.mark.parametrize(("encoding", "said"), [("utf-16-le", "utf-16"), ("utf-16-be", "utf-16-be")])
def test_utf_16_without_a_mark(written: Path, encoding: str, said: str) -> None:
    before = rows_of(written)
    encode(written, encoding)
    assert rows_of(written, SourceMapping(encoding=said)) == before


def test_tabs_as_spreadsheets_write_them(written: Path) -> None:
    before = [filled(row) for row in rows_of(written)["Machine"]]
    encode(written, "utf-16-le", codecs.BOM_UTF16_LE, tabs=True)
    assert [filled(row) for row in rows_of(written)["Machine"]] == before


def filled(row: SourceRow) -> dict[str, str]:
    """The cells that are not empty: spreadsheets do not tell an empty text from none."""
    return {name: cell for name, cell in row.cells.items() if cell}


def test_json_lines_in_utf_16(tmp_path: Path) -> None:
    line = json.dumps({"PROPID_Q_INSTANCE": "1", "PROPID_Q_LABEL": "Größe 𝄞"}, ensure_ascii=False) + "\n"
    (tmp_path / "Queue.jsonl").write_bytes(codecs.BOM_UTF16_LE + line.encode("utf-16-le"))
    (row,) = rows_of(tmp_path)["Queue"]
    assert row.cells == {"PROPID_Q_INSTANCE": "1", "PROPID_Q_LABEL": "Größe 𝄞"}


@pytest.mark.parametrize("separator", ["\t", ","])
def test_files_of_bcp(tmp_path: Path, separator: str) -> None:
    """No names, no quotes, octets in hexadecimal digits, NUL for an empty text, nothing for NULL."""
    generate(SAMPLE, tmp_path / "made", SampleForm.MQIS, table_form=TableForm.JSONL)
    table = MQIS_TABLES["Queue"]
    before = rows_of(tmp_path / "made")["Queue"]
    names = tuple(column.name for column in table.columns if any(column.name in row.cells for row in before))
    lines = []
    before = [replace(row, cells={**row.cells, "PROPID_Q_LABEL": label_of(row, separator)}) for row in before]
    for row in before:
        values = []
        for name in names:
            cell = row.cells.get(name)
            if cell is not None and table.column(name).variant in BLOBS:
                cell = b64decode(cell).hex().upper()
            values.append("\0" if cell == "" else cell or "")
        lines.append(separator.join(values) + "\r\n")
    folder = tmp_path / "bcp"
    folder.mkdir()
    (folder / "Queue.csv").write_bytes(codecs.BOM_UTF16_LE + "".join(lines).encode("utf-16-le"))
    assert any(table.column(name).variant in BLOBS for name in names)
    mapping = SourceMapping(tables={"Queue": TableMapping(bcp_columns=names)})
    assert rows_of(folder, mapping)["Queue"] == before


def label_of(row: SourceRow, separator: str) -> str:
    """A quote at the beginning, which quotes nothing; or no letter at all."""
    return '"' + row.cells["PROPID_Q_LABEL"].replace(separator, " ") if row.number % 2 else ""


def test_a_row_of_bcp_that_has_too_few_values_is_named_by_its_number(tmp_path: Path) -> None:
    mapping = SourceMapping(
        tables={"Queue": TableMapping(bcp_columns=("PROPID_Q_INSTANCE", "PROPID_Q_LABEL"))}
    )
    (tmp_path / "Queue.csv").write_bytes("1\ta\r\n2\r\n3\tc\r\n".encode("utf-16"))
    rows = rows_of(tmp_path, mapping)["Queue"]
    assert [(row.number, bool(row.problems)) for row in rows] == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_table_without_rows_is_an_empty_file_of_bcp(tmp_path: Path, encoding: str) -> None:
    table = TableMapping(bcp_columns=("PROPID_Q_INSTANCE",))
    mapping = SourceMapping(encoding=encoding, tables={"Queue": table})
    (tmp_path / "Queue.csv").write_bytes(b"")
    assert rows_of(tmp_path, mapping)["Queue"] == []


@pytest.mark.parametrize(
    ("octets", "encoding", "words"),
    [
        ("PROPID_Q_INSTANCE\n1\n".encode("utf-16-le"), "utf-8", "not in utf-8 but in utf-16-le: write"),
        ("PROPID_Q_INSTANCE\n1\n".encode("utf-16-be"), "cp1252", "not in cp1252 but in utf-16-be: write"),
        (b"PROPID_Q_INSTANCE\n1\n", "utf-16", "not in utf-16, as the mapping says: it has one octet a let"),
        ("PROPID_Q_INSTANCE\n1\n".encode("utf-32"), "utf-8", "is in UTF-32: convert it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_wrong_encoding_is_named(
    tmp_path: Path, form: str, octets: bytes, encoding: str, words: str
) -> None:
    (tmp_path / f"Queue.{form}").write_bytes(octets)
    with pytest.raises(ConfigError, match=words) as caught:
        rows_of(tmp_path, SourceMapping(encoding=encoding))
    assert str(caught.value).isprintable()
    assert str(tmp_path) in str(caught.value)


def test_a_cell_in_another_encoding_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    text = "PROPID_Q_INSTANCE,PROPID_Q_LABEL\n1,Größe\n2,\ud800x\n3,ok\n"
    (tmp_path / "Queue.csv").write_bytes(codecs.BOM_UTF16_LE + text.encode("utf-16-le", "surrogatepass"))
    first, second, third = rows_of(tmp_path)["Queue"]
    assert (first.cells["PROPID_Q_LABEL"], third.cells["PROPID_Q_LABEL"]) == ("Größe", "ok")
    assert second.problems["PROPID_Q_LABEL"].startswith("its bytes are no text of code page utf-8: ")


def test_a_file_that_ends_within_a_character(tmp_path: Path) -> None:
    octets = codecs.BOM_UTF16_LE + "PROPID_Q_INSTANCE\n1\n".encode("utf-16-le")[:-1]
    (tmp_path / "Queue.csv").write_bytes(octets)
    with pytest.raises(ConfigError, match="ends within a character of UTF-16"):
        rows_of(tmp_path)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
def test_validation_and_inventory_take_a_mapping(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    (folder / "qm.csv").write_bytes(f"id,PROPID_QM_PATHNAME\n{guid},Größe\n".encode(encoding))
    text = f'encoding = "{encoding}"\n[tables.Machine]\ntable = "qm"\n[tables.Machine.columns]\n'
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(text + 'PROPID_QM_MACHINE_ID = "id"\n', encoding="utf-8")
    with validation(mqis=folder, mapping=mapping, engine="local") as found:
        assert found.summary.objects == {"queue-manager": 1}
        (names,) = (one.read_table(["ComputerName"]) for one in found.sets.values())
        assert names.to_pylist() == [{"ComputerName": "Größe"}]
        assert "attribute-unreadable" not in found.summary.rules
    with open_source(mqis=folder, mapping=mapping, engine="local") as source:
        assert Inventory(source, engine="local").counts == {"queue-manager": 1}
