"""``mqdssm validate`` on a machine with neither Java nor pyspark: workers, kills, signals, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from support.enterprises import planted
from support.enterprises.rules_world import guid, link, queue, sound, tables
from support.spark.export_command import readers
from support.spark.exports import write_export
from support.spark.runner_work import are_gone
from support.spark.without_java import (
    NOT_NEEDED,
    OF_SPARK,
    environment_without_java,
    run_mqdssm,
    start_mqdssm,
)

from mqdssm.samples.faults import Truth, compare_with_truth

pytestmark = pytest.mark.slow  # starts programs

COPIES = 3_000
"""Of the queues of a small world."""
MANY_PIECES = (
    "from mqdssm.pipeline.validate import worker\nworker.SMALL_WORK, worker.TASK_WORK_MAX = 0, 10_000"
)
"""Makes everything too much for one process."""
WAIT_S = 60.0


def broken() -> dict[str, pa.Table]:
    world = sound()
    world["queue"] += [queue(80, "gone", "q", Quota=-1), queue(81, "web01", "Orders", MulticastAddress="x")]
    world["routing-link"].append(link(84, 10, 99, ActualCost=0))
    return tables(world)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write_export(folder, broken())
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = broken()
    made["queue"] = pa.concat_tables([made["queue"]] * COPIES)
    folder = tmp_path_factory.mktemp("large")
    write_export(folder, made)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a machine with the extra ``pipeline`` alone, or less."""
    (tmp_path / "temporary").mkdir()
    return environment_without_java(tmp_path, NOT_NEEDED, {"TMPDIR": str(tmp_path / "temporary")})


@contextmanager
def working(environment: dict[str, str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a validation, and wait until its two workers are there."""
    process = start_mqdssm(environment, "validate", str(folder), "--workers", "2", before=MANY_PIECES)
    try:
        deadline = time.monotonic() + WAIT_S
        while len(found := readers(process.pid)) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no workers"
            time.sleep(0.005)
        yield process, found
    finally:
        process.kill()
        process.communicate()


def left(environment: dict[str, str]) -> list[str]:
    return [path.name for path in Path(environment["TMPDIR"]).iterdir()]


def test_findings_and_engine(small: Path, environment: dict[str, str]) -> None:
    out, err = run_mqdssm(environment, "validate", str(small), code=1)
    assert "queue-quota-range" in out
    assert err.splitlines()[-1].endswith("engine: local")
    listed, _ = run_mqdssm(environment, "validate", str(small), "-o", "json", "--workers", "1", code=1)
    *found, totals = (json.loads(line) for line in listed.splitlines())
    assert totals["findings"] == len(found)
    assert totals["engine"] == "local"
    assert {one["guid"] for one in found} == {guid(60), guid(80), guid(81), guid(84)}
    log = json.loads(run_mqdssm(environment, "validate", str(small), "-o", "sarif", code=1)[0])
    assert log["runs"][0]["properties"]["engine"] == "local"
    assert left(environment) == []


def test_mqis_tables(environment: dict[str, str], tmp_path: Path) -> None:
    wanted = planted.tables(tmp_path / "mqis", 1)
    out, _ = run_mqdssm(environment, "validate", "--mqis", str(tmp_path / "mqis"), "-o", "json", code=1)
    found = [json.loads(line) for line in out.splitlines()][:-1]
    outcome = compare_with_truth(
        wanted, (Truth(one["rule"], one["type"], one["guid"], one["dn"]) for one in found)
    )
    assert outcome.missed == ()
    assert outcome.planted > 100


def test_a_report_says_by_what_it_was_made(small: Path, environment: dict[str, str], tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path / "other", OF_SPARK, {"TMPDIR": environment["TMPDIR"]})
    page = tmp_path / "report.html"
    run_mqdssm(environment, "validate", str(small), "--report", str(page), code=1)
    assert "<dt>Engine</dt><dd>local</dd>" in page.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="looks for processes in /proc")
def test_a_killed_worker_is_replaced(large: Path, environment: dict[str, str]) -> None:
    with working(environment, large) as (process, workers):
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=WAIT_S * 3)
        assert process.returncode == 1, err
    quiet, _ = run_mqdssm(environment, "validate", str(large), "--workers", "1", code=1)
    assert out == quiet
    assert f"{COPIES} " in out
    assert left(environment) == []


@pytest.mark.skipif(sys.platform == "win32", reason="looks for processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_it_and_leave_nothing(large: Path, environment: dict[str, str], number, code) -> None:
    with working(environment, large) as (process, workers):
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert are_gone(workers)
    assert left(environment) == []


def test_an_unknown_construct_is_refused_by_name(small: Path, tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path, OF_SPARK)
    rules, secret = tmp_path / "ours.toml", tmp_path / "password"
    secret.write_text("secret\n")
    rules.write_text(
        """
[[rule]]
id = "ours"
severity = "info"
types = ["queue"]
what = "ours"
condition = "sha2(Label, 256) is null"
message = "{Label}"
"""
    )
    _, err = run_mqdssm(environment, "validate", str(small), "--rules", str(rules), code=6)
    assert "rule ours, type queue: SHA2(Label, 256) is not known outside Spark" in err
    assert "'--engine spark' evaluates all of Spark SQL" in err
    asked = ("--url", "ldaps://127.0.0.1:1", "--user", "ann", "--password-file", str(secret))
    _, err = run_mqdssm(environment, "validate", *asked, "--rules", str(rules), code=6)
    assert "rule ours, type queue" in err  # nothing of the server, which cannot be reached
    rules.write_text(rules.read_text().replace("sha2(Label, 256) is null", "upper(Label) like '%8_'"))
    out, _ = run_mqdssm(environment, "validate", str(small), "--rules", str(rules), "-o", "json", code=1)
    ours = {json.loads(line)["guid"] for line in out.splitlines() if '"ours"' in line}
    assert ours == {guid(80), guid(81)}


def test_spark_is_refused_in_words(small: Path, environment: dict[str, str]) -> None:
    _, err = run_mqdssm(environment, "validate", str(small), "--engine", "spark", code=6)
    assert "this runs on Spark, which needs Java 17" in err
    _, err = run_mqdssm(environment, "validate", str(small), "--workers", "2", "--engine", "spark", code=2)
    assert "workers are those of the local engine" in err


@pytest.mark.parametrize("command", ["validate", "inventory"])
def test_tables_that_are_called_and_coded_otherwise(
    environment: dict[str, str], tmp_path: Path, command: str
) -> None:
    folder, mapping = tmp_path / "mqis", tmp_path / "mapping.toml"
    folder.mkdir()
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    (folder / "q.csv").write_bytes(f"PROPID_Q_INSTANCE,PROPID_Q_LABEL\n{guid},Größe\n".encode("utf-16"))
    mapping.write_text('[tables.Queue]\ntable = "q"\n', encoding="utf-8")
    options = ("--mqis", str(folder), "--mapping", str(mapping))
    run_mqdssm(environment, command, *options, "--output", "json")
    _, said = run_mqdssm(environment, command, *options[2:], code=2)
    assert "--mapping is about MQIS tables: name their folder with --mqis" in said
    mapping.write_text('encoding = "cp1252"\n[tables.Queue]\ntable = "q"\n', encoding="utf-8")
    (folder / "q.csv").write_bytes("PROPID_Q_INSTANCE\n".encode("utf-16-le"))
    _, said = run_mqdssm(environment, command, *options, code=6)
    assert "is not in cp1252 but in utf-16-le: write encoding" in said
    assert "\0" not in said
