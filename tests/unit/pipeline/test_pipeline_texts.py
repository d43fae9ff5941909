"""CSV and JSON Lines lose nothing."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.texts import (
    format_csv_head,
    format_csv_records,
    format_jsonl_records,
    read_csv,
    read_jsonl,
)

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("truth", pa.bool_()),
        ("octets", pa.binary()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("texts", pa.list_(pa.field("element", pa.string()))),
        ("images", pa.list_(pa.field("element", pa.binary()))),
        ("raw", pa.map_(pa.string(), pa.list_(pa.field("element", pa.binary())))),
    ]
)
TEXT = st.one_of(
    st.sampled_from(
        ["", " ", " a ", '"', "\\N", r"\N", "a,b", "a\nb", "a\r\nb", "\u2028", "\0", "NULL", "null"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OCTETS = st.binary(max_size=100)
TIME = st.integers(-11_644_473_600_000_000, 253_402_214_400_000_000).map(
    lambda n: EPOCH + timedelta(microseconds=n)
)
ROW = st.fixed_dictionaries(
    {
        "text": st.none() | TEXT,
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "truth": st.none() | st.booleans(),
        "octets": st.none() | OCTETS,
        "time": st.none() | TIME,
        "texts": st.none() | st.lists(TEXT, max_size=3),
        "images": st.none() | st.lists(OCTETS, max_size=3),
        "raw": st.none()
        | st.dictionaries(TEXT, st.lists(OCTETS, max_size=2), max_size=3).map(lambda d: [*d.items()]),
    }
)


@given(rows=st.lists(ROW, max_size=5))
def test_csv_there_and_back(tmp_path_factory, rows) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    path = tmp_path_factory.mktemp("csv") / "part.csv"
    path.write_bytes(format_csv_head(SCHEMA) + b"".join(format_csv_records(batch)))
    assert read_csv(path, SCHEMA).to_pylist() == batch.to_pylist()


@given(rows=st.lists(ROW, max_size=5))
def test_jsonl_there_and_back(tmp_path_factory, rows) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    path = tmp_path_factory.mktemp("jsonl") / "part.jsonl"
    lines = list(format_jsonl_records(batch))
    assert all(line.count(b"\n") == 1 for line in lines)
    path.write_bytes(b"".join(lines))
    assert read_jsonl(path, SCHEMA).to_pylist() == batch.to_pylist()


def test_what_the_cells_look_like() -> None:
    row = {
        "text": 'a "b"',
        "number": -1,
        "octets": bytes(60),
        "time": datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC),
        "texts": ["x", "y"],
    }
    batch = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
    (line,) = format_csv_records(batch)
    octets = "A" * 80  # in one line
    assert line.decode() == (
        f'"a ""b""",-1,\\N,"{octets}","2026-01-31T12:00:00.000005Z","[""x"",""y""]",\\N,\\N\n'
    )
    (line,) = format_jsonl_records(batch)
    assert json.loads(line) == {
        "text": 'a "b"',
        "number": -1,
        "truth": None,
        "octets": octets,
        "time": "2026-01-31T12:00:00.000005Z",
        "texts": ["x", "y"],
        "images": None,
        "raw": None,
    }


@pytest.mark.parametrize("name", FRAME_TYPES)
def test_every_type_can_be_written(name: str, tmp_path) -> None:
    schema = make_arrow_schema(FRAME_TYPES[name].columns)
    batch = pa.RecordBatch.from_pylist([{}], schema=schema)
    path = tmp_path / "part"
    path.write_bytes(format_csv_head(schema) + b"".join(format_csv_records(batch)))
    assert read_csv(path, schema).equals(pa.Table.from_batches([batch]))
    path.write_bytes(b"".join(format_jsonl_records(batch)))
    assert read_jsonl(path, schema).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize("size", [0, 1_600_000, 9_000_000])
def test_long_rows(tmp_path, size: int) -> None:
    """Certificates of a user reach 1 MiB each, and raw entries hold photographs."""
    schema = pa.schema([("a", pa.string()), ("b", pa.binary())])
    rows = [{"a": "x", "b": b"short"}, {"a": "\n", "b": bytes(size)}, {"a": None, "b": b"short"}]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    path = tmp_path / "long.csv"
    path.write_bytes(format_csv_head(schema) + b"".join(format_csv_records(batch)))
    assert read_csv(path, schema).to_pylist() == rows
