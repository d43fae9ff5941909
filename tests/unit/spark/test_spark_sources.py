"""Sources of MQIS tables: files of all forms are the same rows; what cannot be read is told."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.rows import read_row
from mqdssm.pipeline.mqis import folder
from mqdssm.pipeline.mqis.cells import build_cell_maker
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.folder import ROW, SourceRow, find_files, read_rows, read_source_table
from mqdssm.pipeline.mqis.mapping import SourceMapping, is_jdbc, load_mapping, refuse_secret, shorten_url
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.spark.jdbc import explain_unreached
from mqdssm.tables.mqis import MQIS_TABLES, QUEUE

GUID = "01234567-89ab-cdef-0123-456789abcdef"
SAMPLE = EnterprisePlan(sites=2, machines=6, queues=30, users=3, seed=3)


def rows_of(folder: Path, mapping: SourceMapping | None = None) -> dict[str, list[SourceRow]]:
    mapping = mapping or SourceMapping()
    return {
        name: [row for part in read_source_table(files, mapping).files for row in read_rows(part, mapping)]
        for name, files in find_files(folder, mapping).items()
    }


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without end")
def test_a_mapping_without_end() -> None:
    with pytest.raises(ConfigError, match="/dev/zero is no mapping: it is longer than 1048576 bytes"):
        load_mapping(Path("/dev/zero"))


def mapping_of(folder: Path, text: str) -> SourceMapping:
    path = folder / "mapping.toml"
    path.write_text(text, encoding="utf-8")
    return load_mapping(path)


def plain(cells):
    """Lists as lists: how their text is spaced does not count."""
    return {name: json.loads(cell) if cell[:1] == "[" else cell for name, cell in cells.items()}


def test_all_forms_are_the_same_rows(tmp_path):
    found = []
    for form in TableForm:
        generate(SAMPLE, tmp_path / form, SampleForm.MQIS, table_form=form)
        rows = rows_of(tmp_path / form)
        found.append({name: [(one.number, plain(one.cells)) for one in some] for name, some in rows.items()})
        assert not any(row.problems for some in rows.values() for row in some)
    assert found[0] == found[1] == found[2]
    assert [number for number, _ in found[0]["Queue"]] == list(range(1, 31))


def test_large_parquet_files_are_cut_between_row_groups(tmp_path):
    table = pa.table({"PROPID_Q_INSTANCE": [str(UUID(int=n)) for n in range(10)]})
    pq.write_table(table, tmp_path / "Queue.parquet", row_group_size=3)
    rows = rows_of(tmp_path)["Queue"]
    assert [(row.number, row.cells["PROPID_Q_INSTANCE"]) for row in rows] == [
        (n + 1, str(UUID(int=n))) for n in range(10)
    ]


def test_names_and_code_pages_of_a_database(tmp_path):
    text = """
    [tables.Queue]
    table = "msmq_queue"
    columns = { PROPID_Q_INSTANCE = { column = "id", guid_bytes = "text" }, propid_q_quota = "quota" }
    [tables.Queue.columns.PROPID_Q_LABEL]
    column = "Label"
    code_page = "cp1252"
    """.replace("columns = {", "columns = {")
    with pytest.raises(ConfigError, match="no TOML"):
        mapping_of(tmp_path, text)  # a table is defined once
    mapping = mapping_of(
        tmp_path,
        """
        [tables.Queue]
        table = "msmq_queue"
        [tables.Queue.columns]
        propid_q_quota = "quota"
        PROPID_Q_INSTANCE = { column = "id", guid_bytes = "text" }
        PROPID_Q_LABEL = { column = "Label", code_page = "windows-1252" }
        """,
    )
    table = pa.table(
        {
            "ID": [UUID(GUID).bytes] * 3,
            "label": ["Größe".encode("cp1252"), b"\x81", None],
            "quota": pa.array([-1, 5, None], pa.int32()),
            "PROPID_Q_PATHNAME": ["a\\b", "a\\c", "a\\d"],
            "rowid": [1, 2, 3],
        }
    )
    pq.write_table(table, tmp_path / "MSMQ_Queue.parquet")
    (queue,) = find_files(tmp_path, mapping).values()
    assert read_source_table(queue, mapping).others == ("rowid",)
    first, second, third = rows_of(tmp_path, mapping)["Queue"]
    assert first.cells == {
        "PROPID_Q_INSTANCE": GUID,
        "PROPID_Q_LABEL": "Größe",
        "PROPID_Q_QUOTA": "-1",
        "PROPID_Q_PATHNAME": "a\\b",
    }
    assert second.problems == {
        "PROPID_Q_LABEL": "its bytes are no text of code page charmap: character maps to <undefined>"
    }
    assert "PROPID_Q_LABEL" not in third.cells


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_text_files_in_a_code_page_are_decoded_strictly(tmp_path, form):
    if form == "csv":
        text = 'PROPID_Q_INSTANCE,PROPID_Q_LABEL\n1,"Grö""ße"\n2,?\n3,\n4,""\n'
    else:
        text = "".join(
            json.dumps({"PROPID_Q_INSTANCE": str(n), "PROPID_Q_LABEL": label}, ensure_ascii=False) + "\n"
            for n, label in [(1, 'Grö"ße'), (2, "?"), (3, None), (4, "")]
        )
    (tmp_path / f"Queue.{form}").write_bytes(text.encode("cp1252").replace(b"?", b"\x81"))
    rows = rows_of(tmp_path, mapping_of(tmp_path, 'encoding = "cp1252"'))["Queue"]
    assert rows[0].cells["PROPID_Q_LABEL"] == 'Grö"ße'
    assert rows[1].problems
    assert "PROPID_Q_LABEL" not in rows[2].cells
    assert rows[3].cells["PROPID_Q_LABEL"] == ""


def test_names_of_columns_in_a_code_page(tmp_path):
    (tmp_path / "Queue.csv").write_bytes("PROPID_Q_INSTANCE,Größe\n1,7\n".encode("cp1252"))
    text = 'encoding = "cp1252"\n[tables.Queue.columns]\nPROPID_Q_QUOTA = "größe"'
    (row,) = rows_of(tmp_path, mapping_of(tmp_path, text))["Queue"]
    assert row.cells == {"PROPID_Q_INSTANCE": "1", "PROPID_Q_QUOTA": "7"}
    (tmp_path / "Queue.csv").write_bytes(b"\xef\xbb\xbfPROPID_Q_INSTANCE\n1\n")
    (row,) = rows_of(tmp_path)["Queue"]
    assert row.cells == {"PROPID_Q_INSTANCE": "1"}


def test_ragged_lines_shift_no_number(tmp_path, monkeypatch):
    """Whatever piece of the file they are in, and at its end."""
    monkeypatch.setattr(folder, "BLOCK_BYTES", 4096)
    lines = [f"{n}" if n % 100 == 0 else f"{n},label {n}" for n in range(1, 2001)]
    (tmp_path / "Queue.csv").write_text("\n".join(["PROPID_Q_INSTANCE,PROPID_Q_LABEL", *lines]) + "\n")
    rows = rows_of(tmp_path)["Queue"]
    assert [row.number for row in rows] == list(range(1, 2001))
    assert all(row.cells.get("PROPID_Q_INSTANCE", str(row.number)) == str(row.number) for row in rows)
    assert [row.number for row in rows if row.problems] == list(range(100, 2001, 100))


def test_a_copied_table_is_named_as_the_database_has_it(tmp_path):
    """Rows are counted through its parts: their files are deleted before anybody reads of them."""
    place = tmp_path / "Queue"
    place.mkdir()
    for part in range(2):
        names = [f"{part}{number}" for number in range(3)]
        pq.write_table(pa.table({"PROPID_Q_INSTANCE": names}), place / f"part-{part}.parquet")
    files = TableFiles(
        MQIS_TABLES["Queue"], "parquet", place, tuple(sorted(place.iterdir())), '"dbo"."Queue"'
    )
    table = read_source_table(files, SourceMapping())
    assert {part.label for part in table.files} == {'"dbo"."Queue"'}
    numbers = [row.number for part in table.files for row in read_rows(part, SourceMapping())]
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_rows_that_cannot_be_taken_apart(tmp_path):
    (tmp_path / "Queue.csv").write_text("PROPID_Q_INSTANCE,PROPID_Q_LABEL\n1,a\n2\n3,b,c\n4,d\n")
    (tmp_path / "Site.jsonl").write_text(
        '{"PROPID_S_SITEID": "1"}\n{broken\n\n[1]\n{"PROPID_S_SITEID": "2"}\n'
    )
    rows = rows_of(tmp_path)
    assert [(row.number, row.cells.get("PROPID_Q_LABEL")) for row in rows["Queue"]] == [
        (1, "a"),
        (2, None),
        (3, None),
        (4, "d"),
    ]
    assert rows["Queue"][1].problems[ROW] == "1 values where 2 are expected: 2"
    assert [(row.number, row.cells.get("PROPID_S_SITEID")) for row in rows["Site"]] == [
        (1, "1"),
        (2, None),
        (4, None),
        (5, "2"),
    ]
    assert rows["Site"][1].problems[ROW].startswith("no JSON: ")
    assert rows["Site"][2].problems == {ROW: "no JSON object"}


def test_half_a_surrogate_pair_is_no_text(tmp_path):
    (tmp_path / "Site.jsonl").write_text('{"PROPID_S_SITEID": "1", "PROPID_S_PATHNAME": "a\\ud800"}\n')
    (row,) = rows_of(tmp_path)["Site"]
    assert row.problems == {"PROPID_S_PATHNAME": "it contains half of a surrogate pair"}
    assert row.cells["PROPID_S_PATHNAME"] == "a\\ud800"


def test_times_are_seconds_also_of_the_year_0(tmp_path):
    stamps = pa.array([-62_167_219_200_000_000, -1, 1_500_000, None], pa.timestamp("us"))
    table = pa.table({"PROPID_Q_INSTANCE": [GUID] * 4, "PROPID_Q_CREATE_TIME": stamps})
    pq.write_table(table, tmp_path / "Queue.parquet")
    cells = [row.cells.get("PROPID_Q_CREATE_TIME") for row in rows_of(tmp_path)["Queue"]]
    assert cells == ["-62167219200", "-1", "1", None]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (True, "1"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (float("nan"), "nan"),
        (Decimal(4294967295), "4294967295"),
        (Decimal("1E+3"), "1000"),
        (datetime(1970, 1, 2, tzinfo=UTC), "86400"),
        (datetime(1970, 1, 2), "86400"),  # noqa: DTZ001  as databases give it
        (date(1970, 1, 2), "86400"),
        (["a", None], '["a", null]'),
        (None, None),
    ],
)
def test_values_as_cells(value, cell):
    assert build_cell_maker(QUEUE.column("PROPID_Q_QUOTA"))(value) == cell


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tables.Queues]", "there is no table Queues: did you mean Queue"),
        (
            '[tables.Queue.columns]\nPROPID_Q_LABLE = "x"',
            "has no column PROPID_Q_LABLE: did you mean PROPID_Q_LABEL",
        ),
        ('[tables.Queue.columns]\nPROPID_Q_QUOTA = {column="x", code_page="cp1252"}', "is no text"),
        (
            '[tables.Queue.columns]\nPROPID_Q_LABEL = {column="x", code_page="cp99"}',
            "there is no code page 'cp99'",
        ),
        ('[tables.Queue.columns]\nPROPID_Q_LABEL = {column="x", guid_bytes="text"}', "is no GUID"),
        ('encoding = "utf-32"', "have to be converted to UTF-8 or UTF-16 first"),
        ('encoding = "rot13"', "is no code page of text"),
        ('[jdbc]\nproperties = { password = "secret" }', "properties may not hold password"),
        ('[jdbc]\npassword_file = "a"\npassword_env = "B"', "exclude each other"),
        ('[tables.Queue]\npartition_column = "n"', "needs bounds"),
        ("x = 1", "x: there is no such setting"),
        ("[", "is no TOML"),
    ],
)
def test_mappings_that_cannot_be_used(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words) as caught:
        mapping_of(tmp_path, text)
    assert "secret" not in str(caught.value)


def test_columns_that_are_missing(tmp_path):
    (tmp_path / "Queue.csv").write_text("PROPID_Q_LABEL\n")
    with pytest.raises(ConfigError, match="has no column PROPID_Q_INSTANCE, which holds the GUIDs"):
        rows_of(tmp_path)
    named = '[tables.Queue.columns]\nPROPID_Q_INSTANCE = "id"'
    with pytest.raises(ConfigError, match="has no column id, which the mapping names for PROPID_Q_INSTANCE"):
        rows_of(tmp_path, mapping_of(tmp_path, named))
    (tmp_path / "Queue.csv").write_text("PROPID_Q_INSTANCE,PROPID_Q_LABLE\n")
    with pytest.raises(ConfigError, match="did you mean PROPID_Q_LABEL"):
        rows_of(tmp_path)


def test_passwords_of_databases(tmp_path, monkeypatch):
    for url in (
        "jdbc:postgresql://h/d?password=x",
        "jdbc:postgresql://h/d?%70assword=x",
        "jdbc:sqlserver://h;pwd=x",
        "jdbc:sqlserver://h;accessToken=x",
        "jdbc:postgresql://u:p@h/d",
        "jdbc:oracle:thin:scott/tiger@//h:1521/d",
    ):
        with pytest.raises(ConfigError, match="may not hold a password"):
            refuse_secret(url)
    refuse_secret("jdbc:postgresql://host:5432/mqis?ssl=true")
    refuse_secret("jdbc:oracle:thin:@//host:1521/mqis")
    (tmp_path / "secret").write_text("s3cret\n")
    in_file = mapping_of(tmp_path, '[jdbc]\npassword_file = "secret"')
    assert in_file.jdbc.read_password() == "s3cret"
    assert "s3cret" not in repr(in_file)
    in_environment = mapping_of(tmp_path, '[jdbc]\npassword_env = "MQIS_PASSWORD"')
    with pytest.raises(ConfigError, match="MQIS_PASSWORD is not set"):
        in_environment.jdbc.read_password()
    monkeypatch.setenv("MQIS_PASSWORD", "other")
    assert in_environment.jdbc.read_password() == "other"
    assert is_jdbc("JDBC:postgresql://h/d")
    assert not is_jdbc("mqis")
    assert shorten_url("jdbc:sqlserver://h:1433;databaseName=mqis;user=x") == "jdbc:sqlserver://h:1433"


HEAD = b"PROPID_Q_INSTANCE,PROPID_Q_LABEL,PROPID_Q_QUOTA,PROPID_Q_SECURITY\n"
PIECES = st.sampled_from(
    [
        b'"',
        b",",
        b"\n",
        b"\r\n",
        b"\x00",
        b"\xff",
        b"{",
        b"}",
        b"[",
        b"\\",
        b":",
        b"1",
        b"a",
        b"\xef\xbb\xbf",
        b"null",
    ]
)


@given(
    st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=40),
    st.sampled_from(["utf-8", "cp1252", "cp932"]),
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_whatever_is_in_a_file_is_rows_or_told(tmp_path, form, pieces, encoding):
    line = b'{"PROPID_Q_INSTANCE": "1"}\n'
    (tmp_path / f"Queue.{form}").write_bytes((HEAD if form == "csv" else line) + b"".join(pieces))
    mapping = SourceMapping(encoding=encoding)
    try:
        rows = rows_of(tmp_path, mapping)["Queue"]
    except ConfigError:
        rows = []  # a file that cannot be read at all
    for row in rows:
        found = read_row(QUEUE, row.cells, row.problems, keeps_create_time=True)
        assert (found.element is None) == bool(found.reasons)
        json.dumps(dict(row.cells)).encode()
        pa.array(list(row.cells.values()), pa.string())


@pytest.mark.parametrize(
    ("text", "said", "words"),
    [
        (
            "PSQLException: it failed.\nCaused by: java.net.UnknownHostException: no.such.host\n\tat c",
            "no.such.host",
            "there is no host no.such.host; is its name right?",
        ),
        (
            "Caused by: java.net.ConnectException: Connection refused",
            "Connection refused",
            "Connection refused; is it running, and are host and port right?",
        ),
        (
            "SQLServerException: The TCP/IP connection to the host d, port 1 failed.",
            "The TCP/IP connection to the host d, port 1 failed.",
            "The TCP/IP connection to the host d, port 1 failed; is it running, and are host and port right?",
        ),
        ('PSQLException: ERROR: relation "sites" does not exist', "ERROR: relation", None),
    ],
)
def test_a_database_that_is_not_reached(text, said, words):
    assert explain_unreached(text, said) == words
