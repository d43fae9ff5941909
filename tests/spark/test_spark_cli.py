"""export, validate and demo on the command line, with the session that all tests of Spark share."""

import json

import pytest
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, args, env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def login(enterprise):
    return {
        "MQDSSM_URL": enterprise.server.url,
        "MQDSSM_USER": enterprise.server.user,
        "MQDSSM_PASSWORD_FILE": str(enterprise.password_file),
        "MQDSSM_CA_FILE": enterprise.server.ca_file,
    }


def test_export_and_validate(spark, enterprise, login, tmp_path):
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
        "settings": 0,
        "computer": 2,
    }
    assert (folder / "manifest.json").is_file()
    fine = invoke("validate", str(folder))
    assert (fine.stdout, fine.stderr) == ("no findings\n", "0 findings of 5 rules\n")
    assert json.loads(invoke("validate", str(folder), "-o", "json").stdout)["findings"] == []


def test_all_is_what_is_exported_when_nothing_is_named(spark, enterprise, login, tmp_path):
    made = invoke("export", "--to", str(tmp_path / "out"), "--format", "csv", "-o", "json", **login)
    manifest = json.loads(made.stdout)
    assert manifest["format"] == "csv"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"manifest.json", *manifest["types"]}
    assert "ldap" not in manifest["types"]


def test_ldif_and_its_dialect(spark, enterprise, login, tmp_path):
    options = ["--type", "ldap", "--format", "ldif", "--dialect", "ad"]
    result = invoke("export", *options, "--to", str(tmp_path / "out"), **login)
    assert result.stdout.split()[:4] == ["type", "objects", "files", "ldap"]
    text = b"".join(path.read_bytes() for path in (tmp_path / "out" / "ldap").iterdir())
    assert text.count(b"changetype: add") == int(result.stdout.split()[4])
    said = invoke("export", "--dialect", "ad", "--to", str(tmp_path / "other"), code=6, **login).stderr
    assert said == "error: a dialect is for LDIF alone, not for parquet: leave it out\n"


def test_findings_are_exit_code_1(spark, enterprise, login, tmp_path):
    with enterprise.connect() as directory:
        link = next(directory.search(mqdssm.RoutingLink, attributes=["FullPath"]))
        directory.session.modify(link.full_path, {"mSMQCost": [b"0"]})
    folder = tmp_path / "export"
    made = invoke("export", "--type", "routing-link", "--to", str(folder), "-o", "json", **login)
    manifest = json.loads(made.stdout)
    assert manifest["types"]["routing-link"]["rows"] == 1
    found = invoke("validate", str(folder), code=1)
    line = found.stdout.splitlines()[1]
    assert line.startswith("error     link-cost-range  routing-link  ")
    assert line.endswith("ActualCost  ActualCost is 0, not 1 to 999999")
    assert "not applied, since their types were not exported" in found.stderr
    told = json.loads(invoke("validate", str(folder), "-o", "json", code=1).stdout)
    assert [one["rule"] for one in told["findings"]] == ["link-cost-range"]
    assert "link-cost-range" in told["rules"]
    assert "security-required" in told["skipped"]


def test_an_export_needs_a_folder_of_its_own(spark, enterprise, login, tmp_path):
    (tmp_path / "mine").write_text("x")
    said = invoke("export", "--type", "site", "--to", str(tmp_path), code=6, **login).stderr
    assert "is not empty: an export needs a folder of its own" in said
    assert "is no export" in invoke("validate", str(tmp_path), code=6).stderr


def test_the_whole_demonstration(spark, tmp_path):
    shown = json.loads(invoke("demo", "--keep", str(tmp_path / "kept"), "-o", "json").stdout)
    results = [one for step in shown["steps"] for one in step["results"]]
    assert "0 findings of 5 rules" in results
    assert "2 findings of 5 rules" in results
    (table,) = [one for one in results if isinstance(one, dict) and one["columns"][0] == "rule"]
    assert [row[0] for row in table["rows"]] == ["link-cost-range", "security-required"]
    assert (tmp_path / "kept" / "export" / "sound" / "manifest.json").is_file()
