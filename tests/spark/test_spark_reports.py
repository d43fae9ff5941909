"""Reports and the inventory on the command line, of a real directory and its export."""

import csv
import json

from support.spark import SPARK_IN_SOAK
from typer.testing import CliRunner

from mqdssm.cli.main import app


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, args, env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@SPARK_IN_SOAK
def test_report_and_inventory(engine, enterprise, login, tmp_path):
    folder, report, page = tmp_path / "export", tmp_path / "report.html", tmp_path / "inventory.html"
    on = ("--engine", engine)
    invoke("export", "--type", "all", "--to", str(folder), *on, **login)
    invoke("validate", str(folder), "--report", str(report), *on)
    text = report.read_text(encoding="utf-8")
    assert "Paris" in text
    assert "Link Oslo to Paris, cost 7" in text or "Link Paris to Oslo, cost 7" in text
    result = invoke("inventory", str(folder), "--html", str(page), "--csv", str(tmp_path / "csv"), *on)
    assert [
        line.split()[:4] for line in result.stdout.splitlines() if line.startswith(("Oslo", "Paris"))
    ] == [
        ["Oslo", "1", "1", "0"],
        ["Paris", "2", "3", "1"],
    ]
    assert r"web02\orders#1" in page.read_text(encoding="utf-8")
    with (tmp_path / "csv" / "queues.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["Pathname"] for row in csv.DictReader(file)} == {
            rf"web0{n % 2 + 1}\orders#{n}" for n in range(3)
        }


@SPARK_IN_SOAK
def test_inventory_of_a_directory(engine, enterprise, login):
    result = invoke("inventory", "-o", "json", "--engine", engine, **login)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found[0]["engine"] == engine
    machines = {one["ComputerName"]: one["Queues"] for one in found if one["record"] == "machine"}
    assert machines == {"web01": 2, "web02": 1}


def test_no_source_two_sources_and_files_that_cannot_be(tmp_path):
    assert "nothing to list" in invoke("inventory", code=2).stderr
    assert "one source" in invoke("inventory", "a", "--mqis", "b", code=2).stderr
    for command in ("inventory", "validate"):
        option = "--html" if command == "inventory" else "--report"
        words = invoke(command, "a", option, str(tmp_path / "no" / "f.html"), code=2).stderr
        assert "does not exist" in words
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "not empty" in invoke("inventory", "a", "--csv", str(tmp_path / "full"), code=2).stderr
    assert "manifest" in invoke("inventory", str(tmp_path), code=6).stderr
