"""plan, apply and migrate through Spark: on the command line, and when Spark tries again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from applying import everything, login_to, tables, undo
from spark_cluster import spark_cluster
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.spark.migrate.report import Report
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["spark_cluster"]


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def test_migrate_and_undo(spark, server, tmp_path):
    login, source = login_to(server, tmp_path), tables(server, tmp_path, machines=5, queues=20)
    before, to = everything(server), tmp_path / "plan"
    command = ["migrate", str(source), "--to", str(to), "--create-computers"]
    result = CliRunner().invoke(app, command, env=login)
    assert result.exit_code == 0, result.output
    report = Report.load(to)
    assert result.stdout.rstrip().splitlines()[-1] == report.last_line
    assert re.fullmatch(r"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost", report.last_line)
    assert f"undoes {report.undo_records} changes" in result.stderr
    undo(server, to)
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
    assert re.fullmatch(r"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost", Report.load(to).last_line)
    assert spark_cluster.worked() == {0, 1}
    assert not any(server.password.encode() in path.read_bytes() for path in to.rglob("*") if path.is_file())
    undo(server, to)
    assert everything(server) == before
