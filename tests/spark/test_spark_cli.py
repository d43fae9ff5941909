"""export, validate and demo on the command line, with the session that all tests of Spark share."""

import hashlib
import json
import re
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

import pytest
from support.spark import SPARK_IN_SOAK
from support.spark.sarif_model import KINDS, kinds_in
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.demo.stage import DemoStage
from mqdssm.cli.demo.steps import compare_with_planted
from mqdssm.cli.main import app
from mqdssm.cli.output import Output
from mqdssm.pipeline.manifest import Manifest
from mqdssm.pipeline.migrate.applying import Migrated
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.report import MigrationReport


@pytest.fixture
def engine(engine, monkeypatch) -> str:
    """Each of the engines: the commands use it."""
    monkeypatch.setattr(sys.modules[__name__], "ENGINE", ("--engine", engine))
    return engine


ENGINE: tuple[str, ...] = ()
SHARED_FOLDER_IS_REFUSED = {
    "local": "--engine local needs no Spark",
    "spark": "--spark-shared is for a cluster",
}


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, [*args, *ENGINE], env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_export_and_validate(engine, enterprise, login, tmp_path):
    folder = tmp_path / "export"
    result = invoke("export", "--type", "all", "--to", str(folder), **login)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["type", "objects", "files"]
    assert {row[0]: int(row[1]) for row in rows[1:]} == {
        "queue": 3,
        "queue-manager": 2,
        "enterprise": 1,
        "site": 2,
        "routing-link": 1,
        "user": 1,
        "settings": 1,
        "computer": 2,
    }
    assert (folder / "manifest.json").is_file()
    fine = invoke("validate", str(folder))
    assert fine.stdout == "no findings\n"
    pattern = rf"^0 findings of \d+ rules about 13 objects, engine: {engine}$"
    assert re.search(pattern, fine.stderr, re.MULTILINE)
    totals = json.loads(invoke("validate", str(folder), "-o", "json").stdout)
    assert (totals["findings"], totals["objects"], totals["engine"]) == (0, 13, engine)


@SPARK_IN_SOAK
def test_all_is_what_is_exported_when_nothing_is_named(engine, enterprise, login, tmp_path):
    made = invoke("export", "--to", str(tmp_path / "out"), "--format", "csv", "-o", "json", **login)
    manifest = json.loads(made.stdout)
    assert manifest["format"] == "csv"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"manifest.json", *manifest["types"]}
    assert "ldap" not in manifest["types"]


@SPARK_IN_SOAK
def test_ldif_and_its_dialect(engine, enterprise, login, tmp_path):
    options = ["--type", "ldap", "--format", "ldif", "--dialect", "ad"]
    result = invoke("export", *options, "--to", str(tmp_path / "out"), **login)
    assert result.stdout.split()[:4] == ["type", "objects", "files", "ldap"]
    text = b"".join(path.read_bytes() for path in (tmp_path / "out" / "ldap").iterdir())
    assert text.count(b"changetype: add") == int(result.stdout.split()[4])


@SPARK_IN_SOAK
def test_findings_are_exit_code_1(engine, enterprise, login, tmp_path):
    with enterprise.connect() as directory:
        link = next(directory.search(mqdssm.RoutingLink, attributes=["FullPath"]))
        directory.session.modify(link.full_path, {"mSMQCost": [b"0"]})
    folder = tmp_path / "export"
    made = invoke("export", "--type", "routing-link", "--to", str(folder), "-o", "json", **login)
    manifest = json.loads(made.stdout)
    assert manifest["types"]["routing-link"]["rows"] == 1
    found = invoke("validate", str(folder), code=1)
    count, line = found.stdout.splitlines()[1], found.stdout.splitlines()[-1]
    assert count.split()[:3] == ["link-cost-range", "error", "1"]
    assert line.startswith("error     link-cost-range  routing-link  ")
    assert line.endswith("ActualCost  ActualCost is 0, not 1 to 999999")
    result = invoke("validate", str(folder), "-o", "json", code=1)
    not_judged = {one.pop("rule"): one for one in map(json.loads, result.stderr.splitlines())}
    assert not_judged["security-required"]["judged"] == []
    assert "type enterprise is not in the source" in not_judged["security-required"]["reason"]
    assert not_judged["guid-unique"]["judged"] == ["routing-link"]
    lines = [line for line in found.stderr.splitlines() if line.startswith(("not applied: ", "applied to "))]
    reasons = {(tuple(one["judged"]), one["reason"]) for one in not_judged.values()}
    assert len(lines) == len(reasons) < len(not_judged) / 2  # a line for each reason
    assert any(line.startswith("applied to routing-link alone: type enterprise is not") for line in lines)
    assert any(line.startswith("not applied: type enterprise is not in the source") for line in lines)
    told, totals = map(json.loads, result.stdout.splitlines())
    assert (totals["findings"], totals["engine"]) == (1, engine)
    assert list(told) == ["rule", "severity", "type", "dn", "guid", "attribute", "message", "section"]
    assert told["rule"] == "link-cost-range"
    log = json.loads(invoke("validate", str(folder), "-o", "sarif", code=1).stdout)
    assert kinds_in(log) == KINDS
    (invocation,) = log["runs"][0]["invocations"]
    named = [one["associatedRule"]["id"] for one in invocation["toolConfigurationNotifications"]]
    assert sorted(named) == sorted(not_judged)
    page = tmp_path / "report.html"
    invoke("validate", str(folder), "--report", str(page), code=1)
    assert "Not judged: type enterprise is not in the source" in page.read_text()
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == told["dn"]
    rules = tmp_path / "ours.toml"
    rules.write_text('[severity]\nlink-cost-range = "warning"\n')
    invoke("validate", str(folder), "--rules", str(rules))
    invoke("validate", str(folder), "--rules", str(rules), "--fail-on", "warning", code=1)
    rules.write_text('[off]\nrules = ["link-cost-range"]\n')
    result = invoke("validate", str(folder), "--rules", str(rules), "--report", str(page))
    assert result.stdout == "no findings\n"
    assert "not applied: switched off by the file of rules: rule link-cost-range" in result.stderr
    assert "switched off by the file of rules" in page.read_text()


def test_a_directory_is_validated_as_its_export_is(engine, enterprise, login, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with enterprise.connect() as directory:
        link = next(directory.search(mqdssm.RoutingLink, attributes=["FullPath"]))
        directory.session.modify(link.full_path, {"mSMQCost": [b"0"]})
    found = invoke("validate", "--url", enterprise.server.url, "-o", "json", code=1, **login)
    assert [json.loads(line)["rule"] for line in found.stdout.splitlines()[:-1]] == ["link-cost-range"]
    left = [one.name for one in tmp_path.iterdir() if one.name.startswith(("mqdssm-validate", "mqdssm-find"))]
    assert left == []


def test_what_is_no_source_is_told_plainly(engine, enterprise, login, tmp_path):
    folder = tmp_path / "export"
    invoke("export", "--type", "site", "--to", str(folder), **login)
    (part,) = (folder / "site").iterdir()
    image = part.read_bytes()
    part.write_bytes(image[:-1])
    assert "is not what was exported (its SHA-256 differs)" in invoke("validate", str(folder), code=6).stderr
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["types"]["site"]["files"][0]["sha256"] = hashlib.sha256(image[:-1]).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "is no whole Parquet file" in invoke("validate", str(folder), code=6).stderr
    part.unlink()
    assert "cannot be read: No such file" in invoke("validate", str(folder), code=6).stderr
    manifest["types"]["machine"] = manifest["types"].pop("site")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert (
        "holds type machine, which this program does not know"
        in invoke("validate", str(folder), code=6).stderr
    )
    assert "nothing to validate" in invoke("validate", code=2).stderr
    assert "name one source" in invoke("validate", str(folder), "--mqis", "x", code=2).stderr
    assert "name one source" in invoke("validate", str(folder), "--url", "ldap://x", code=2).stderr
    said = invoke("validate", str(folder), "--user", "CN=x", "--tls", "none", code=2).stderr
    assert "--user, --tls would have no effect beside a folder: leave it out" in said
    said = invoke("inventory", "--mqis", str(folder), "--keytab", "x", "--read-only", code=2).stderr
    assert "error: --keytab would have no effect beside a folder" in said
    said = invoke("validate", str(folder), "--spark-shared", str(tmp_path), code=2).stderr
    assert SHARED_FOLDER_IS_REFUSED[engine] in said
    rules = tmp_path / "ours.toml"
    rules.write_text("[[rule]]\nid = 'x'\n")
    said = invoke("validate", str(folder), "--rules", str(rules), code=2).stderr
    assert "ours.toml: rule x has no severity" in said


@SPARK_IN_SOAK
def test_the_rules_are_listed(engine):
    shown = invoke("validate", "--list-rules")
    assert "pathname-unique" in shown.stdout
    listed = json.loads(invoke("validate", "--list-rules", "-o", "json").stdout)
    assert shown.stderr == f"{len(listed)} rules\n"
    for idle in (
        ["x"],
        ["--mqis", "x"],
        ["--report", "x.html"],
        ["--fail-on", "error"],
        ["--url", "ldap://x"],
    ):
        assert (
            "would have no effect beside --list-rules"
            in invoke("validate", "--list-rules", *idle, code=2).stderr
        )
    assert "SARIF is for findings" in invoke("validate", "--list-rules", "-o", "sarif", code=2).stderr


@SPARK_IN_SOAK
def test_an_export_needs_a_folder_of_its_own(engine, enterprise, login, tmp_path):
    (tmp_path / "mine").write_text("x")
    said = invoke("export", "--type", "site", "--to", str(tmp_path), code=6, **login).stderr
    assert "is not empty: an export needs a folder of its own" in said
    assert "is no export" in invoke("validate", str(tmp_path), code=6).stderr


def test_the_whole_demonstration(spark, tmp_path):
    """All that is planted is rejected or found, and nothing else: its exit code says so, too."""
    size, kept = ("--sites", "3", "--machines", "12", "--queues", "90"), tmp_path / "kept"
    shown = json.loads(invoke("demo", *size, "--keep", str(kept), "-o", "json").stdout)
    results = {step["title"]: step["results"] for step in shown["steps"]}
    planted = (kept / "enterprise" / "faults.jsonl").read_text().splitlines()
    report = MigrationReport.load(kept / "plan")
    assert report.verified
    assert report.lost_count == report.refused_count == 0
    counts, reasons, told, _ = results["Migrate the tables into the directory, and verify"]
    assert {row[0]: int(row[1]) for row in counts["rows"]}["Queue"] > 90
    assert len(reasons["rows"]) == 6
    assert all(row[-1] for row in reasons["rows"])
    assert told.endswith(report.last_line)
    fates, words, _ = results["Compare what was found with what was planted"]
    assert words == f"{len(planted)} objects were broken on purpose: 0 missed, 0 found that nobody planted"
    numbers = [int(count) for _, count in fates["rows"]]
    assert sum(numbers) == len(planted)
    assert all(numbers[:-1])
    assert numbers[-1] == 0
    table, found, _ = results["Validate the export, and write a report"]
    assert len(table["rows"]) == 6
    assert int(found.split()[0]) >= numbers[1]
    assert shown["report"] == str(kept / "report.html")
    assert "<svg" in (kept / "report.html").read_text()
    assert (kept / "export" / "manifest.json").is_file()
    files, same = results["The same export and validation on Spark"]
    count = sum(len(one.files) for one in Manifest.load(kept / "export").types.values())
    assert files == f"{count} of {count} files are the same, byte by byte"
    assert same == f"{found.split()[0]} findings, all the same"
    # the same migration, and a validation that finds nothing: what was migrated broken is missed
    done = Migrated(MigrationPlan.load(kept / "plan"), report)
    nothing: Any = SimpleNamespace(findings=())
    stage = DemoStage(Output(is_json=True))
    assert not compare_with_planted(stage, done, nothing, kept, kept / "enterprise")
    (again, words, *_) = stage.steps[-1]["results"]
    assert [int(count) for _, count in again["rows"]] == [numbers[0], 0, *numbers[2:4], numbers[1]]
    assert f"{numbers[1]} missed, 0 found that nobody planted" in words
