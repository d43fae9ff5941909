"""The command plan on both engines; what workers do is in tests/servers."""

import json
import re

import pytest
from support.spark import SPARK_IN_SOAK
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, list(map(str, args)), env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@SPARK_IN_SOAK
def test_a_plan_on_the_command_line(engine, enterprise, login, tmp_path):
    generate(
        EnterprisePlan(sites=2, machines=5, queues=20, users=1, seed=4), tmp_path / "mqis", SampleForm.MQIS
    )
    command = ["plan", tmp_path / "mqis", "--to", tmp_path / "plan", "--create-computers", "--engine", engine]
    command += ["--on-conflict", "skip"]  # the directory has a Paris of its own
    result = invoke(*command, "--to-ldif", tmp_path / "ldif", code=1, **login)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["Queue", "20", "20", "0", "0", "0", "0", "0", "100"] in lines
    assert ["computer", "add", "5"] in lines
    assert ["Queue", "PROPID_Q_SEQNUM", "20"] in lines
    (last,) = [line for line in result.stdout.splitlines() if " read, " in line]
    assert re.fullmatch(r"30 read, 27 to add, 1 to change, 0 equal, 1 skipped, 1 rejected", last)
    assert "the directory has no user with the SID" in result.stdout
    assert f"'mqdssm apply {tmp_path / 'plan'}' does it" in result.stderr
    assert (tmp_path / "ldif" / "3-children.ldif").read_text().count("objectClass: mSMQQueue") == 20

    plan = MigrationPlan.load(tmp_path / "plan")
    assert plan.total["add"] == 27
    assert plan.engine == engine
    secret = enterprise.server.password
    assert not any(
        secret in path.read_text(errors="replace") for path in (tmp_path / "plan").rglob("*.json*")
    )
    again = invoke(*command, code=6, **login)
    assert "holds a plan already: name another folder" in again.stderr


@SPARK_IN_SOAK
def test_ldif_without_a_server(engine, tmp_path, monkeypatch):
    for name in ("URL", "CONFIG", "CONNECTION"):
        monkeypatch.delenv(f"MQDSSM_{name}", raising=False)
    generate(
        EnterprisePlan(sites=2, machines=5, queues=20, users=0, seed=4), tmp_path / "mqis", SampleForm.MQIS
    )
    command = ["plan", tmp_path / "mqis", "--to", tmp_path / "plan", "--create-computers", "--engine", engine]
    command += ["--to-ldif", tmp_path / "ldif"]
    refused = invoke(*command, code=2)
    assert "it needs the root of the names, as --naming-context DC=example,DC=com" in refused.stderr
    refused = invoke(*command, "--naming-context", "OU=x", code=2)
    assert "has to begin with DC=" in refused.stderr
    result = invoke(*command, "--naming-context", "DC=contoso,DC=test")
    assert "it is for LDIF alone" in result.stderr
    text = (tmp_path / "ldif" / "3-children.ldif").read_text()
    assert text.count("objectClass: mSMQQueue") == 20
    assert "dc=contoso,dc=test" in text.lower()
    refused = invoke("apply", tmp_path / "plan", "--url", "ldap://x", code=6)
    assert "the plan was made without a directory" in refused.stderr


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere", "is no folder of MQIS tables"),
        ("jdbc:postgresql://host/mqis?password=x", "the JDBC URL may not hold a password"),
    ],
)
def test_sources_that_cannot_be_used_are_told_before_java_starts(login, enterprise, tmp_path, source, words):
    result = invoke("plan", source, "--to", tmp_path / "plan", "-o", "json", code=6, **login)
    assert words in json.loads(result.stderr.splitlines()[-1])["message"]
    assert not (tmp_path / "plan").exists()
