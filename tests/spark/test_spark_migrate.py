"""plan, apply and migrate through Spark: on the command line, and when Spark tries again."""

import re

import pytest
from applying import everything, login_to, tables, undo
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.spark.migrate.report import Report
from mqdssm.testing.openldap import OpenLdapServer


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
