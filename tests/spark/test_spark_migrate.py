"""plan, apply and migrate: on the command line with both engines, and when Spark tries again."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.mqis.applied_plans import everything, login_to, tables, undo
from support.mqis.plans import plan_here, write_rows
from support.servers.bad_places import small_disk
from support.spark import SPARK_IN_SOAK
from support.spark.cluster import spark_cluster
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["spark_cluster"]


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def test_migrate_and_undo(engine, server, tmp_path):
    login, source = login_to(server, tmp_path), tables(server, tmp_path, machines=5, queues=20)
    before, to = everything(server), tmp_path / "plan"
    command = ["migrate", str(source), "--to", str(to), "--create-computers", "--engine", engine]
    result = CliRunner().invoke(app, command, env=login)
    assert result.exit_code == 0, result.output
    report = MigrationReport.load(to)
    assert result.stdout.rstrip().splitlines()[-1] == report.last_line
    assert re.fullmatch(r"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost", report.last_line)
    assert f"undoes {report.undo_records} changes" in result.stderr
    assert f"applied to {report.server}, engine: {report.engine}" in result.stderr
    assert report.engine == engine
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["Queue", "PROPID_Q_SEQNUM", "20"] in lines  # nothing is dropped silently
    assert f"what no directory keeps is in {to / 'not-carried'}" in result.stderr
    undo(server, to)
    assert everything(server) == before


@SPARK_IN_SOAK
def test_what_the_plan_rejected_is_told(engine, server, tmp_path):
    """Also where one command does both; and what the target refused is told once."""
    login, source, to = login_to(server, tmp_path), tmp_path / "mqis", tmp_path / "plan"
    on = ("--engine", engine)
    site = {"S_SITEID": "11111111-0000-4000-8000-000000000001", "S_PATHNAME": "Paris"}
    write_rows(source, "Site", [site, {"S_SITEID": "none", "S_PATHNAME": "Oslo"}])
    result = CliRunner().invoke(app, ["migrate", str(source), "--to", str(to), *on], env=login)
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stdout.splitlines() if "PROPID_S_SITEID" in line]
    assert line.split()[:2] == ["Site", "2"]
    assert result.stdout.rstrip().endswith("2 read, 1 written, 0 equal, 1 rejected, 0 lost")
    (to / "rejects" / "applied.jsonl").write_text('{"table": "Site", "reason": "refused"}\n')
    again = CliRunner().invoke(app, ["apply", str(to), *on], env=login)
    assert again.exit_code == 1, again.output
    assert again.stdout == result.stdout


@pytest.mark.soak
def test_a_full_disk(engine, server, tmp_path):
    login, source = login_to(server, tmp_path), tables(server, tmp_path, machines=5, queues=20)
    plan_here(server, source, tmp_path / "made", create_computers=True)
    with small_disk(tmp_path / "small", "4m") as disk:
        folder = Path(shutil.copytree(tmp_path / "made", disk / "plan"))
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 40_000))
        refused = CliRunner().invoke(app, ["apply", str(folder), "--engine", engine], env=login)
        assert refused.exit_code == 6, refused.output
        assert "cannot be written: No space left on device; when that is mended" in refused.stderr
        assert "Traceback" not in refused.output
        (disk / "filler").unlink()
        result = CliRunner().invoke(app, ["apply", str(folder), "--engine", engine], env=login)
        assert result.exit_code == 0, result.output
        assert "it was broken off 1 times, and went on" in result.stderr


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_slow_tasks_are_begun_twice(spark_cluster, server, tmp_path):
    """Spark's own speculation: another attempt at a file waits for the first, and finds all of it done."""
    login = login_to(server, tmp_path)
    shared = spark_cluster.shared / "speculation"
    shared.mkdir()
    source, before, folder = (
        tables(server, shared, machines=5, queues=400),
        everything(server),
        shared / "plan",
    )
    plan_here(server, source, folder, create_computers=True)
    events = shared / "events"
    events.mkdir()
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    chosen = [word for name, value in settings.items() for word in ("--spark-conf", f"{name}={value}")]
    command = [sys.executable, "-m", "mqdssm.cli.main", "apply", str(folder), "--max-rate", "60"]
    ran = subprocess.run(
        [*command, *spark_cluster.options, *chosen],
        env={**os.environ, **login, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    begun = [json.loads(line) for path in events.iterdir() for line in path.read_text().splitlines()]
    assert any(one.get("Task Info", {}).get("Speculative") for one in begun), "no task was begun twice"
    report = MigrationReport.load(folder)
    assert re.fullmatch(r"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost", report.last_line)
    assert not [name for name in report.operations if name.endswith(" equal")]  # nothing was sent twice
    undo(server, folder)
    assert everything(server) == before


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_cluster_migrates(spark_cluster, server, tmp_path):
    login = login_to(server, tmp_path)
    shared = spark_cluster.shared / "migration"
    shared.mkdir()
    source, before, to = tables(server, shared, machines=20, queues=2000), everything(server), shared / "plan"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mqdssm.cli.main", "migrate", str(source), "--to", str(to)),
            *("--create-computers", *spark_cluster.options),
        ],
        env={**os.environ, **login, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(
        r"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost", MigrationReport.load(to).last_line
    )
    assert spark_cluster.worked() == {0, 1}
    assert not any(server.password.encode() in path.read_bytes() for path in to.rglob("*") if path.is_file())
    undo(server, to)
    assert everything(server) == before
