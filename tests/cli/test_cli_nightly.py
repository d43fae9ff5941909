"""``mqdssm validate`` night after night: baseline, suppressions, thresholds, history, metrics."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.enterprises.rules_world import guid, queue, sound, tables
from support.spark.engines import chosen_engine
from support.spark.exports import write_export
from typer.testing import CliRunner

from mqdssm.cli.main import app

pytestmark = [pytest.mark.both_engines, pytest.mark.usefixtures("engine")]

RULES = """
[fail]
error = 0
[[suppress]]
object = "{guid}"
reason = "goes in spring"
until = {until}
"""


def world(folder: Path, *quotas: int) -> Path:
    """An export with a queue for each quota; -1 is none."""
    made = sound()
    made["queue"] += [queue(80 + n, "web01", f"q{n}", Quota=quota) for n, quota in enumerate(quotas)]
    write_export(folder, tables(made))
    return folder


def validate(folder: Path, *options: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["validate", str(folder), "--engine", chosen_engine(), *options])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.slow
def test_only_new_findings_fail_and_each_night_is_remembered(tmp_path: Path) -> None:
    first, second = world(tmp_path / "first", -1, 5), world(tmp_path / "second", 5, -1, -1)
    known, history, metrics = tmp_path / "known.jsonl", tmp_path / "history", tmp_path / "mqdssm.prom"
    kept = ("--history", str(history), "--metrics", str(metrics))
    assert "1 errors" not in validate(first, "--write-baseline", str(known), *kept).stdout
    assert "mqdssm_validation_failed 0\n" in metrics.read_text()
    report = tmp_path / "report.html"
    night = validate(second, "--baseline", str(known), *kept, "--report", str(report), code=1)
    said = " ".join(night.output.split())
    assert "2 new, 0 known, 0 suppressed" in said
    assert "2 appeared, 1 mended" in said
    assert "too many new findings: error: 2, 0 allowed" in said
    assert "mqdssm_validation_failed 1\n" in metrics.read_text()
    assert "Mended since" in report.read_text(encoding="utf-8")
    again = validate(first, "--baseline", str(known), *kept, "-o", "json")
    assert [json.loads(line)["state"] for line in again.stdout.splitlines()[:-1]] == ["known"]
    assert len((history / "runs.jsonl").read_text().splitlines()) == 3


def test_suppressions_end_with_their_day(tmp_path: Path) -> None:
    folder, rules = world(tmp_path / "export", -1), tmp_path / "rules.toml"
    rules.write_text(RULES.format(guid=guid(80), until="2999-12-31"))
    assert "0 new, 0 known, 1 suppressed" in " ".join(validate(folder, "--rules", str(rules)).output.split())
    known = tmp_path / "known.jsonl"
    validate(folder, "--rules", str(rules), "--write-baseline", str(known))
    assert len(known.read_text().splitlines()) == 1  # its head: suppressed findings are no known ones
    rules.write_text(RULES.format(guid=guid(80), until="2026-01-31"))
    validate(folder, "--rules", str(rules), "--baseline", str(known), code=1)
    found = validate(folder, "--rules", str(rules), "-o", "json", code=1)
    *lines, _ = (json.loads(line) for line in found.stdout.splitlines())
    assert {(one["rule"], one["severity"], one["state"]) for one in lines} >= {
        ("suppression-expired", "warning", "new")
    }
    assert {one["state"] for one in lines} == {"new"}
    refused = validate(folder, "--baseline", str(tmp_path / "nowhere"), code=2)
    assert "nowhere cannot be read" in refused.output
