"""Which files of a folder are tables of MQIS, and what is said where they are not."""

import csv

import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline.mqis.csv_files import read_csv_header
from mqdssm.pipeline.mqis.folder import describe_left_out, find_files
from mqdssm.pipeline.mqis.mapping import SourceMapping


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def test_tables_are_files_or_folders_in_any_case(tmp_path):
    touch(tmp_path, "queue.PARQUET", "Machine/part-1.csv", "Machine/part-2.csv", "Machine/_SUCCESS")
    touch(tmp_path, "User.jsonl/part-1.jsonl", "README.txt", "faults.jsonl", "Queue.txt", ".hidden", "notes")
    found = find_files(tmp_path, SourceMapping())
    assert {name: (files.form, len(files.files)) for name, files in found.items()} == {
        "Machine": ("csv", 2),
        "Queue": ("parquet", 1),
        "User": ("jsonl", 1),
    }
    assert list(found) == ["Machine", "Queue", "User"]  # as the tables are listed
    (words,) = describe_left_out(tmp_path, [], SourceMapping())
    assert words.endswith(": Queue.txt, README.txt, faults.jsonl, notes")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "holds no table of MQIS: expected are Enterprise.parquet"),
        (("manifest.json", "queue/part-0.parquet"), "is an export, not MQIS tables: name it without --mqis"),
        (("queue/part-0.parquet.crc",), "must hold parts of one form"),
        (("Queue.csv", "queue.parquet"), "holds table Queue twice: Queue.csv and queue.parquet"),
        (("Queue/a.csv", "Queue/b.jsonl"), "it holds csv, jsonl"),
        (("Queue/a.csv", "Queue/Year=1999/b.csv"), "Year=1999 is a folder: parts of table Queue must lie in"),
        (
            ("Queue.csv", "Machines.csv"),
            r"Machines.csv is no table of MQIS, and there is no Machine: call it",
        ),
        (("Queue.csv", "machine.csv.gz"), r"machine.csv.gz is no table of MQIS, and there is no Machine: "),
        (("Queue.csv", "Machine.snappy.parquet"), "and there is no Machine: call it Machine.parquet or .csv"),
        (("Queue.csv", "Site"), "Site is no table of MQIS, and there is no Site"),
        (("Queue.csv", "RoutingLinks/part-0.csv"), "there is no RoutingLink: call it"),
    ],
)
def test_what_cannot_be_used_is_told(tmp_path, names, words):
    touch(tmp_path, *names)
    with pytest.raises(ConfigError, match=words):
        find_files(tmp_path, SourceMapping())


def test_of_a_header_without_end_little_is_read(tmp_path):
    file = tmp_path / "Queue.csv"
    for begin, text in (("", "x" * 100_000 + ","), ('"', "line\n" * 20_000)):
        with file.open("w", encoding="utf-8", newline="") as written:
            written.writelines([begin, *[text] * 100])
        with file.open(encoding="utf-8", newline="") as lines:
            with pytest.raises(csv.Error, match=r"more than 1,048,576 characters|field limit"):
                read_csv_header(lines)
            assert lines.buffer.tell() < 2_000_000
    file.write_text('a,"b\nc",d\n1,2,3\n', encoding="utf-8")
    with file.open(encoding="utf-8", newline="") as lines:
        assert read_csv_header(lines).names == ("a", "b\nc", "d")


def test_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="is no folder of MQIS tables"):
        find_files(tmp_path / "nowhere", SourceMapping())
