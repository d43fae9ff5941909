"""``mqdssm exposure``: an export, and OpenLDAP, where computers have no system and no log-on."""

import json
from pathlib import Path

import pytest
from support.enterprises.rules_world import descriptor, sound, tables
from support.spark.exports import write_export

from mqdssm.pipeline.exposure.rules import SCORE_RULES
from mqdssm.wire.acl import allow
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE


@pytest.fixture
def export(tmp_path: Path) -> Path:
    world = sound()
    world["queue"][0]["Security"] = descriptor(allow(EVERYONE, QueueAccess.GENERIC_ALL))
    world["queue-manager"][1]["OperatingSystemVersion"] = "6.3 (9600)"
    folder = tmp_path / "export"
    write_export(folder, tables(world))
    return folder


def test_tables_and_exit_codes(alone, export) -> None:
    result = alone("exposure", str(export))
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "support-ended 1" in lines
    place = lines.index("score machine system support last log-on findings")
    assert lines[place + 1].startswith(
        "35 oslo01 Windows Server 2012 R2 ended 2023-10-10 unknown support-ended"
    )
    assert "5 machines, highest score 35" in result.stderr
    assert alone("exposure", str(export), "--fail-on", "35", code=1).stdout == result.stdout
    alone("exposure", str(export), "--fail-on", "36")


def test_files_and_json(alone, export, tmp_path) -> None:
    html, folder = tmp_path / "e.html", tmp_path / "csv"
    result = alone("exposure", str(export), "--html", str(html), "--csv", str(folder), "-o", "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["highest"] == 35
    assert "queue-open" in html.read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.iterdir()) == ["machines.csv", "queues.csv", "rules.csv"]
    assert "not empty" in alone.error("exposure", str(export), "--csv", str(folder), code=2)


def test_the_rules_are_explained(alone) -> None:
    assert len(alone.json("exposure", "--explain")) == len(SCORE_RULES)
    shown = alone("exposure", "--explain").stdout
    assert all(rule.id in shown and rule.reason in shown for rule in SCORE_RULES)


def test_the_page_of_the_documentation_has_all_rules() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "exposure.md").read_text(encoding="utf-8")
    for rule in SCORE_RULES:
        assert f"| `{rule.id}` | {rule.points} | {rule.most} |" in page


@pytest.mark.server
def test_openldap_has_no_systems_and_no_log_ons(cli, machine) -> None:
    found = [json.loads(line) for line in cli("exposure", "-o", "json").stdout.splitlines()]
    (record,) = [one for one in found if one["record"] == "machine" and one["ComputerName"] == machine.name]
    assert (record["Support"], record["LastLogon"], record["Stale"]) == ("unknown", None, None)
