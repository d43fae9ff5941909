"""Text of a directory stays text, whichever writer gets it: LDIF, CSV, JSON, logs, terminals, pages."""

import contextlib
import csv
import io
import json
import logging
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.ldif_reader import read_ldif
from support.mqis.guid_map import read_guid_map

from mqdssm.cli import exits, logs
from mqdssm.cli.output import Output, say
from mqdssm.cli.table_layout import layout_of
from mqdssm.cli.watch.lines import format_status
from mqdssm.errors import GenericDirectoryError, MappingError
from mqdssm.model.elements import Queue
from mqdssm.model.safe_text import escape_json, make_visible
from mqdssm.pipeline.diff.changes import _Changes, _format_comment
from mqdssm.pipeline.inventory.writers import _format_csv_line, format_cell, format_json_line
from mqdssm.pipeline.ldif import make_replacement, record
from mqdssm.pipeline.migrate.places import MapRow, write_guid_map
from mqdssm.pipeline.report.page import format_value
from mqdssm.pipeline.texts import format_csv_head, format_csv_records, format_jsonl_records
from mqdssm.samples.generate import _format_csv_line as sample_line
from mqdssm.tables.ldif import fold

GUID = UUID("11111111-2222-3333-4444-555555555555")
PIECES = (
    "\n", "\r", "\r\n", "\n\ndn: cn=x\nchangetype: delete\n\n", "\nCNF:", "\x00", "\x1b[2J", "\x07", "\x7f",
    "\x85", "\x9b31m", "\u2028", "\u202e", "\u2066", "\u200f", '"', "'", ",", ";", "=1+1", "# ", ": ", "\\",
    " ", "a", "ü", "\U0001f600", "\U000e0041", "\t",
)  # fmt: skip
HOSTILE = st.lists(
    st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12
).map("".join)


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@contextlib.contextmanager
def printed():
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        yield out


@given(HOSTILE, HOSTILE)
def test_ldif_holds_the_records_that_were_written(dn: str, value: str) -> None:
    made = record(dn, [("description", [value.encode()]), ("cn", [b"x"])], "add")
    made += make_replacement(dn, [("description", [value.encode()])])
    text = _format_comment(f"{dn}: {value}") + made.decode("ascii") + _format_comment(value)
    assert is_harmless(text)
    assert text.isascii()
    first, second = read_ldif(text.encode())
    assert (first[0], second[0]) == (dn, dn)
    assert first[1] == {"changetype": [b"add"], "description": [value.encode()], "cn": [b"x"]}
    assert second[1]["description"] == [value.encode()]


@given(HOSTILE)
def test_ldif_takes_no_text_for_the_name_of_an_attribute(name: str) -> None:
    for write in (lambda: fold(name, b"x"), lambda: make_replacement("cn=x", [(name, [])])):
        try:
            made = write()
        except MappingError:
            continue
        lines = made.decode().splitlines() if isinstance(made, bytes) else made
        assert any(line.endswith(name) or line == f"{name}: x" for line in lines)
        assert name.isascii()
        assert name.isprintable()


@given(HOSTILE, HOSTILE)
def test_differences_that_are_left_are_comments(name: str, why: str) -> None:
    class Left:
        type, key = "queue", None

    Left.name = name

    def records():
        raise GenericDirectoryError(why, dn=name)
        yield ""

    text = "".join(_Changes._with_comment(None, Left, records()))  # type: ignore[arg-type]
    assert is_harmless(text)
    assert all(line.startswith("#") or not line for line in text.split("\n"))
    assert list(read_ldif(text.encode())) == []


def test_a_value_that_cannot_be_is_named_without_words_of_pydantic() -> None:
    class Left:
        type, name, key = "queue", "web01\\a", None

    def records():
        yield str(Queue.model_validate({"Label": "x" * 125}))

    (text,) = _Changes._with_comment(None, Left, records())  # type: ignore[arg-type]
    words = "Label is 125 UTF-16 code units long: the limit is 124"
    assert text == f"# queue web01\\a is left as it is: {words}\n\n"


@given(HOSTILE, HOSTILE)
def test_csv_has_one_row_for_each(first: str, second: str) -> None:
    schema = pa.schema([("a,b\n", pa.string()), ("list", pa.list_(pa.string()))])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([first]), pa.array([[second]], pa.list_(pa.string()))], schema=schema
    )
    exported = b"".join([format_csv_head(schema), *format_csv_records(batch)]).decode()
    head, row = csv.reader(io.StringIO(exported, newline=""), strict=True)
    assert head == ["a,b\n", "list"]
    assert (row[0], json.loads(row[1])) == (first, [second])
    sampled = sample_line(["a", "b"], {"a": first, "b": second})
    assert list(csv.reader(io.StringIO(sampled, newline=""), strict=True)) == [[first, second]]
    listed = _format_csv_line([format_cell(first), format_cell([second, 1]), format_cell(None)])
    assert is_harmless(listed.removesuffix("\r\n"))
    ((one, two, none),) = csv.reader(io.StringIO(listed, newline=""), strict=True)
    assert one.removeprefix("'") == make_visible(first) or one == make_visible(first)
    assert one[:1] not in set("=+-@\t\r")
    assert (two[-3:], none) == ("; 1", "")


@given(HOSTILE)
def test_a_guid_map_keeps_its_lines(tmp_path_factory, dn: str) -> None:
    folder = tmp_path_factory.mktemp("map")
    rows = [MapRow("queue", GUID, GUID, dn), MapRow("queue", GUID, GUID, "cn=x")]
    write_guid_map(folder, rows)
    assert read_guid_map(folder / "guid-map.csv") == rows


@given(HOSTILE)
def test_json_means_what_it_meant(text: str) -> None:
    value = {text: [text, 1]}
    for made in (json.dumps(value, ensure_ascii=False), json.dumps(value, ensure_ascii=False, indent=2)):
        assert json.loads(escape_json(made)) == value
        assert is_harmless(escape_json(made))
    assert is_harmless(format_json_line(value))
    told = format_status(("1", datetime(2026, 1, 31, tzinfo=UTC)), "ready", text=text)
    assert told.isprintable()
    assert json.loads(told)["text"] == text
    schema = pa.schema([("text", pa.string())])
    lines = b"".join(format_jsonl_records(pa.RecordBatch.from_arrays([pa.array([text])], schema=schema)))
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == [{"text": text}]


@given(HOSTILE)
def test_terminals_are_not_steered(text: str) -> None:
    with printed() as out:
        output, programs = Output(), Output(is_json=True)
        output.line(text)
        output.rows([text], [[text]])
        output.pairs([("name", text)])
        output.note(text)
        say(text)
        programs.document({text: text})
        programs.json_array([json.dumps({text: text}, ensure_ascii=False)])
        programs.json_line(json.dumps(text, ensure_ascii=False))
        say(exits.words_of(GenericDirectoryError(text, dn=text, server_text=text)))
        say(exits.as_json(GenericDirectoryError(text, dn=text, server_text=text), 6))
    assert is_harmless(out.getvalue())
    assert out.getvalue().splitlines()[0] == make_visible(text)


@given(HOSTILE, st.integers(20, 200))
def test_tables_of_a_terminal_are_not_steered(text: str, width: int) -> None:
    from rich.console import Console

    drawn = io.StringIO()
    console = Console(file=drawn, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    rows = [[make_visible(text), str(GUID)]]
    console.print(layout_of(["Label", "Identifier"], rows, width).render(rows, head=True))
    assert is_harmless(drawn.getvalue())


@given(HOSTILE)
def test_a_record_of_a_log_is_one_line(text: str) -> None:
    record = logging.LogRecord("mqdssm", logging.WARNING, "", 0, "%s is damaged", (text,), None)
    line = logs._FORMAT.format(record)
    assert line.isprintable()
    try:
        raise ValueError(text)  # noqa: TRY301
    except ValueError as error:
        record.exc_info = (ValueError, error, None)
    first, *rest = logs._FORMAT.format(record).split("\n")
    assert first.isprintable()
    assert all(line.isprintable() for line in rest)


@given(HOSTILE)
def test_pages_show_what_is_not_seen(text: str) -> None:
    assert format_value(text).isprintable()


@pytest.mark.parametrize(
    "name", ["cn", "userCertificate;binary", "member;range=0-1499", "1.2.840.113556.1.4.1"]
)
def test_descriptions_of_attributes(name: str) -> None:
    assert fold(name, b"x") == [f"{name}: x"]
