"""``mqdssm generate``."""

import json

import pyarrow.parquet as pq
import pytest

SMALL = ("generate", "--sites", "2", "--machines", "5", "--queues", "30")


def test_tables_are_written_and_counted(alone, tmp_path):
    result = alone(*SMALL, "--format", "mqis", "--to", str(tmp_path / "x"))
    lines = dict(line.split() for line in result.stdout.splitlines())
    assert (lines["Queue"], lines["Machine"], lines["User"]) == ("30", "5", "1")
    assert pq.read_table(tmp_path / "x" / "Queue.parquet").num_rows == 30
    assert "written to" in result.stderr


def test_the_same_seed_is_the_same_enterprise(alone, tmp_path):
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        alone(*SMALL, "--format", "ldif", "--seed", seed, "--to", str(tmp_path / name))
    files = [(tmp_path / name / "objects.ldif").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_programs_get_a_document(alone, tmp_path):
    answer = alone.json(*SMALL, "--format", "ldif", "--users", "4", "--faults", "--to", str(tmp_path / "x"))
    assert answer["files"] == ["base-tree.ldif", "objects.ldif"]
    assert answer["objects"]["enterprise"] in {1, 2}
    assert answer["objects"]["user"] > 4
    lines = (tmp_path / "x" / "faults.jsonl").read_text().splitlines()
    assert sum(answer["faults"].values()) == len(lines)
    assert {json.loads(line)["rule"] for line in lines} == answer["faults"].keys()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_tables_as_text(alone, tmp_path, form):
    alone(*SMALL, "--format", "mqis", "--tables", form, "--to", str(tmp_path / "x"))
    assert (tmp_path / "x" / f"Queue.{form}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("form", "option", "value", "other"),
    [("ldif", "--tables", "csv", "mqis"), ("mqis", "--loader", "ldapadd", "ldif")],
)
def test_what_has_no_effect_is_refused(alone, tmp_path, form, option, value, other):
    words = alone.error(*SMALL, "--format", form, option, value, "--to", str(tmp_path / "x"), code=2)
    assert f"{option} is for --format {other} alone: leave it out" in words
    assert not (tmp_path / "x").exists()


def test_another_root(alone, tmp_path):
    alone(*SMALL, "--format", "ldif", "--base-dn", "DC=lab,DC=test", "--to", str(tmp_path / "x"))
    text = (tmp_path / "x" / "objects.ldif").read_text()
    assert "DC=lab,DC=test" in text
    assert "example" not in text


def test_what_cannot_be_is_told_in_one_line(alone, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("precious")
    words = alone.error(*SMALL, "--format", "mqis", "--to", str(tmp_path / "x"), code=6)
    assert "is not empty: name a new or an empty folder" in words
    few = ("generate", "--sites", "9", "--machines", "5", "--queues", "1", "--format", "mqis")
    assert "5 machines are too few for 9 sites" in alone.error(*few, "--to", str(tmp_path / "y"), code=2)
    bad = (*SMALL, "--format", "ldif", "--base-dn", "O=x", "--to", str(tmp_path / "y"))
    assert "must be like DC=example,DC=com" in alone.error(*bad, code=2)
    assert not (tmp_path / "y").exists()
