"""CSV of MQIS tables: no value is changed without a word, and no row is lost."""

import csv
import io

import pyarrow.csv as pcsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.mqis.csv_files import find_misquoted_rows
from mqdssm.pipeline.mqis.folder import MISQUOTED, ROW, find_files, read_rows, read_source_table
from mqdssm.pipeline.mqis.mapping import SourceMapping

NAMES = "PROPID_Q_INSTANCE,PROPID_Q_LABEL,PROPID_Q_PATHNAME"


def labels_in(folder, text, names=NAMES):
    """Number and label of each row; its problem if it was not read."""
    (folder / "Queue.csv").write_bytes(f"{names}\n{text}".encode())
    mapping = SourceMapping()
    table = read_source_table(find_files(folder, mapping)["Queue"], mapping)
    return [
        (row.number, row.problems.get(ROW, row.cells.get("PROPID_Q_LABEL")))
        for part in table.files
        for row in read_rows(part, mapping)
    ]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('1,"a",p\n2,"b"c,q\n3,d,r\n', ["a", MISQUOTED, "d"]),
        ('1,"a "blue" queue",p\n2,b,q\n', [MISQUOTED, "b"]),
        ('1,"a\n"b,p\n\n2,b,q\n', [MISQUOTED, "b"]),
        ('1,""a,p\r\n2,"""b""",q', [MISQUOTED, '"b"']),
        ('1,a"b,p\n2,"",q\n3,,r\n', ['a"b', "", None]),
        ('1,"a\r\nb",p\r\n2," b ",q\r\n', ["a\r\nb", " b "]),
        ('1,x\n2,"a"b,q\n3,c,r\n', ["2 values where 3 are expected: 1,x", MISQUOTED, "c"]),
        ('1,a,p\n2,"b,q\n', ["a", '2 values where 3 are expected: 2,"b,q']),
    ],
)
def test_values_and_rows(tmp_path, text, labels):
    assert labels_in(tmp_path, text) == list(enumerate(labels, 1))


def test_empty_lines_before_the_names(tmp_path):
    assert labels_in(tmp_path, "1,a,p\n", f"\n\r\n{NAMES}") == [(1, "a")]


@given(st.lists(st.lists(st.text('a",\r\n ', max_size=5), min_size=2, max_size=2), max_size=8))
def test_rows_of_a_writer_are_well_quoted(rows):
    written = io.StringIO(newline="")
    csv.writer(written).writerows([["x", "y"], *rows])
    assert list(find_misquoted_rows(io.BytesIO(written.getvalue().encode()), ",")) == []


@given(st.text('a",\r\n', max_size=20))
def test_rows_are_counted_as_arrow_does(text):
    """A wrong row at the end has the number that Arrow gives it, unless the text ends within a value."""

    def rows_of(octets):
        skipped = []
        table = pcsv.read_csv(
            io.BytesIO(octets),
            parse_options=pcsv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=lambda row: skipped.append(row) or "skip"
            ),
            read_options=pcsv.ReadOptions(use_threads=False),
        )
        return table.num_rows + len(skipped)

    octets = b"x,y\n" + text.encode()
    wrong = octets + b'\n"s"t,u\n'
    if rows_of(wrong) == rows_of(octets) + 1:
        assert list(find_misquoted_rows(io.BytesIO(wrong), ","))[-1] == rows_of(wrong)
