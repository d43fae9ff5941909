"""Findings as SARIF 2.1.0."""

import json
from datetime import UTC, datetime

from mqdssm.spark.findings import RuleResult, Skipped, Summary
from mqdssm.spark.rules import Finding
from mqdssm.spark.sarif import sarif

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FINDING = Finding("a-rule", "info", "queue", "CN=q,DC=x", "guid", "Label", 'wrong: \u2028 "x"', "[MS-X] 1")


def made(*findings: Finding) -> dict:
    rule = RuleResult("a-rule", "info", "row", "all is well", "[MS-X] 1", ("queue",), len(findings), ())
    summary = Summary(
        "a folder", NOW, NOW, {"queue": 3}, (rule,), (Skipped("b-rule", "no type"),), {"mqdssm": "1"}
    )
    return json.loads("".join(sarif(summary, findings)))


def test_a_finding() -> None:
    log = made(FINDING)
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    (run,) = log["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("a-rule", 0, "note")
    assert result["message"] == {"text": FINDING.message}
    ((place,),) = [one["logicalLocations"] for one in result["locations"]]
    assert place == {"name": "CN=q", "fullyQualifiedName": "CN=q,DC=x", "kind": "resource"}
    (driver_rule,) = run["tool"]["driver"]["rules"]
    assert driver_rule["defaultConfiguration"] == {"level": "note"}
    (invocation,) = run["invocations"]
    assert invocation["startTimeUtc"] == "2026-01-02T03:04:05Z"
    assert "b-rule was not applied" in invocation["toolConfigurationNotifications"][0]["message"]["text"]


def test_an_object_without_a_dn_is_called_by_its_guid() -> None:
    nameless = Finding("a-rule", "info", "queue", None, "guid", "Label", "wrong", "")
    (run,) = made(nameless)["runs"]
    assert run["results"][0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "guid"


def test_no_findings() -> None:
    assert made()["runs"][0]["results"] == []
