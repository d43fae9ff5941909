"""The join without Java: it loses no difference, whatever values look like, and keeps what is asked of it."""

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mqis.comparison import KilledOnce, all_differences, compared_queues, queue_pair, rows_in
from support.mqis.tables import write_jsonl
from support.servers.bad_places import small_disk
from support.spark.without_java import OF_SPARK, environment_without_java, run_mqdssm
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.errors import ConfigError
from mqdssm.pipeline.diff import local_join
from mqdssm.pipeline.diff.local_join import LocalJoin
from mqdssm.pipeline.diff.run import ComparisonRequest, compare_sources, write_map
from mqdssm.pipeline.diff.sides import GivenSide
from mqdssm.pipeline.local import LocalRunner
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

LABELS = [
    "",
    "a",
    "A",
    "İ",
    "i",
    "ı",
    "I",
    "ß",
    "ss",
    "Σ",
    "ς",
    "σ",
    "K",
    "k",
    "é",
    "É",
    "x' or 1=1 --",
    "\\",
]
PLACES = ["CN=q,{}", "cn=Q,{}", "CN=É,{}", "CN=é,{}", "CN=İ,{}", "{}", "CN=q,DC=elsewhere", "no DN"]


def guid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


def queues(root: str) -> st.SearchStrategy[list[dict[str, object]]]:
    row = st.fixed_dictionaries(
        {
            "Identifier": st.integers(0, 20).map(guid),
            "Label": st.none() | st.sampled_from(LABELS),
            "Quota": st.none() | st.sampled_from([0, 7, 0xFFFFFFFF]),
            "Journaling": st.none() | st.booleans(),
            "Security": st.none() | st.sampled_from([b"", b"\x01", b"\x01\x00", b"'"]),
            "FullPath": st.none() | st.sampled_from(PLACES).map(lambda text: text.format(root)),
        }
    )
    return st.lists(row, max_size=40)


@pytest.mark.slow
@given(queues("DC=example,DC=com"), queues("DC=other"))
def test_the_join_loses_nothing(a, b) -> None:
    compared = compared_queues()
    with tempfile.TemporaryDirectory() as name:
        pair = queue_pair(Path(name), a, b)
        found = rows_in(LocalJoin(LocalRunner(1)).find([compared], pair, Path(name)))
        assert found == all_differences(pair, compared)


def test_equal_objects_are_not_looked_at(tmp_path, monkeypatch) -> None:
    """Letters, defaults and the roots of trees make no candidates; else the join would be for nothing."""
    same = {"Identifier": guid(1), "Journaling": False}
    a = [same | {"Label": "Orders", "Quota": None, "FullPath": "CN=q,DC=example,DC=com"}]
    b = [same | {"Label": "ORDERS", "Quota": 0xFFFFFFFF, "FullPath": "cn=Q,dc=OTHER"}]
    looked: list[int] = []
    real = local_join.FieldByField.find_differences

    def count(self, batches):
        kept = list(batches)
        looked.append(sum(batch.num_rows for batch in kept))
        return real(self, kept)

    monkeypatch.setattr(local_join.FieldByField, "find_differences", count)
    pair = queue_pair(tmp_path, a, b)
    assert LocalJoin(LocalRunner(1)).find([compared_queues()], pair, tmp_path) == ()
    assert sum(looked) == 0


def test_guids_that_a_map_says_were_changed(tmp_path) -> None:
    (tmp_path / "map.csv").write_text(f"type,old,new\nqueue,{guid(1)},{guid(9)}\n")
    pair = queue_pair(
        tmp_path,
        [{"Identifier": guid(1), "Label": "a"}],
        [{"Identifier": guid(9), "Label": "b"}],
        guid_map=write_map(tmp_path / "map.csv", tmp_path),
    )
    (found,) = rows_in(LocalJoin(LocalRunner(1)).find([compared_queues()], pair, tmp_path))
    assert (found["what"], found["key"], found["attributes"]) == ("different", guid(9), ["Label"])


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    plan = EnterprisePlan(sites=3, machines=12, queues=150, users=12, seed=5)
    generate(plan, folder / "a", SampleForm.MQIS)
    generate(plan, folder / "b", SampleForm.MQIS, faults=True)
    return folder


def keys_of(samples: Path, workers: int) -> list[tuple[object, ...]]:
    a, b = GivenSide(folder=samples / "a"), GivenSide(folder=samples / "b")
    with compare_sources(a, b, ComparisonRequest(), engine="local", workers=workers) as found:
        assert found.engine == "local"
        return [(one.type, one.kind, one.key, one.name, one.attributes) for one in found.differences]


@pytest.mark.slow
def test_processes_find_what_one_process_finds(samples, monkeypatch) -> None:
    here = keys_of(samples, 1)
    assert len(here) > 200
    monkeypatch.setattr(local_join, "SMALL_ROWS", 1)
    assert keys_of(samples, 2) == here


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_worker_is_replaced(samples, tmp_path, monkeypatch) -> None:
    here = keys_of(samples, 1)
    killed, real = tmp_path / "killed", LocalRunner.run

    def run(self, job, **more):
        is_join = isinstance(job.work, local_join.JoinWork)
        return real(self, replace(job, work=KilledOnce(job.work, killed)) if is_join else job, **more)

    monkeypatch.setattr(local_join, "SMALL_ROWS", 1)
    monkeypatch.setattr(LocalRunner, "run", run)
    assert keys_of(samples, 2) == here
    assert killed.exists()


@pytest.mark.slow
def test_without_java_and_pyspark(samples, tmp_path) -> None:
    words = ("diff", str(samples / "a"), str(samples / "b"), "-o", "json")
    out, _ = run_mqdssm(environment_without_java(tmp_path, OF_SPARK), *words, code=1)
    *lines, summary = map(json.loads, out.splitlines())
    assert summary["engine"] == "local"
    assert len(lines) == summary["missing"] + summary["extra"] + summary["different"] > 200


def test_a_full_disk_is_named_with_a_way_out(tmp_path) -> None:
    rows = [[{"Identifier": guid(number), "Label": side} for number in range(500)] for side in "ab"]
    pair = queue_pair(tmp_path, *rows)
    with small_disk(tmp_path / "small", "100k") as disk:
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 8_192))
        with pytest.raises(ConfigError, match=rf"^the disk of {disk}.* is full: .*TMPDIR"):
            LocalJoin(LocalRunner(1)).find([compared_queues()], pair, disk)


def test_what_needs_spark_says_so(tmp_path) -> None:
    write_jsonl(tmp_path / "a", "Queue.jsonl", {"PROPID_Q_INSTANCE": guid(1)})
    words = ["diff", str(tmp_path / "a"), "jdbc:postgresql://127.0.0.1/mqis", "--engine", "local"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 6
    assert "a database is read by Spark: leave '--engine local' out" in result.output


def test_a_sort_of_differences(tmp_path) -> None:
    schema = local_join.SCHEMA
    names = ["b", "a", "ä", "", "B"]
    rows = [{"type": "queue", "what": "missing", "key": name, "name": "n", "a": None} for name in names]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "some.parquet")
    (tmp_path / "out").mkdir()
    paths = LocalJoin(LocalRunner(1)).sort(tmp_path / "some.parquet", tmp_path / "out")
    assert [row["key"] for row in rows_in(paths)] == sorted(names)
