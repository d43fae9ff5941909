"""Findings as SARIF 2.1.0."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.spark.sarif_model import KINDS, kinds_in

from mqdssm.pipeline.validate.findings import RuleResult, Skipped, ValidationSummary
from mqdssm.pipeline.validate.rules.rule import Finding, Severity
from mqdssm.pipeline.validate.sarif import format_sarif

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FINDING = Finding("a-rule", "info", "queue", "CN=q,DC=x", "guid", "Label", 'wrong: \u2028 "x"', "[MS-X] 1")


def made(*findings: Finding, left_out: str = "") -> dict:
    count = len(findings)
    rule = RuleResult("a-rule", "info", "row", "all is well", "[MS-X] 1", ("queue",), count, (), left_out)
    summary = ValidationSummary(
        "a folder", NOW, NOW, {"queue": 3}, (rule,), (Skipped("b-rule", "no type"),), {"mqdssm": "1"}
    )
    return json.loads("".join(format_sarif(summary, findings)))


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


def test_rules_that_were_not_applied_to_all_are_named_with_the_reason() -> None:
    (invocation,) = made(left_out="type site is not in the source")["runs"][0]["invocations"]
    assert [
        (one["associatedRule"]["id"], one["message"]["text"])
        for one in invocation["toolConfigurationNotifications"]
    ] == [
        ("b-rule", "not applied: b-rule: no type"),
        ("a-rule", "applied to queue alone: a-rule: type site is not in the source"),
    ]


def test_braces_are_no_placeholders() -> None:
    """SARIF 3.11.5."""
    (result,) = made(replace(FINDING, message="no object {0}"))["runs"][0]["results"]
    assert result["message"]["text"] == "no object {{0}}"


@pytest.mark.parametrize(
    ("severity", "level"), [("info", "note"), ("warning", "warning"), ("error", "error")]
)
def test_severities_are_levels(severity: Severity, level: str) -> None:
    (run,) = made(replace(FINDING, severity=severity))["runs"]
    assert run["results"][0]["level"] == level


def test_an_object_without_a_dn_is_called_by_its_guid() -> None:
    nameless = Finding("a-rule", "info", "queue", None, "guid", "Label", "wrong", "")
    (run,) = made(nameless)["runs"]
    assert run["results"][0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "guid"


def test_the_document_has_what_the_standard_knows_and_nothing_else() -> None:
    assert kinds_in(made(FINDING, replace(FINDING, dn="CN=r"))) == KINDS
    assert KINDS - kinds_in(made()) >= {"result", "location", "logicalLocation"}


def first_result(log: dict) -> dict:
    return log["runs"][0]["results"][0]


def invocation_of(log: dict) -> dict:
    return log["runs"][0]["invocations"][0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: log.pop("version"),
        lambda log: log.update(version="2.1"),
        lambda log: log.update(rules=[]),
        lambda log: log["runs"][0].pop("tool"),
        lambda log: log["runs"][0]["tool"]["driver"]["rules"].append(
            log["runs"][0]["tool"]["driver"]["rules"][0]
        ),
        lambda log: first_result(log).pop("message"),
        lambda log: first_result(log).update(level="info"),
        lambda log: first_result(log).update(ruleIndex="0"),
        lambda log: first_result(log).update(ruleIndex=True),
        lambda log: first_result(log).update(ruleIndex=-2),
        lambda log: first_result(log).update(dn="CN=q"),
        lambda log: first_result(log).update(properties=[]),
        lambda log: first_result(log)["message"].pop("text"),
        lambda log: first_result(log)["locations"][0]["logicalLocations"][0].update(name=None),
        lambda log: invocation_of(log).update(executionSuccessful=1),
        lambda log: invocation_of(log).update(startTimeUtc="2026-01-02 03:04:05"),
        lambda log: invocation_of(log).update(toolConfigurationNotifications={}),
        lambda log: invocation_of(log)["toolConfigurationNotifications"][0]["associatedRule"].clear(),
    ],
)
def test_the_model_of_the_standard_refuses_others(spoil: Callable[[dict], object]) -> None:
    log = made(FINDING)
    spoil(log)
    with pytest.raises(AssertionError):
        kinds_in(log)


def test_results_point_at_their_rules() -> None:
    (run,) = made(FINDING, FINDING)["runs"]
    ids = [one["id"] for one in run["tool"]["driver"]["rules"]]
    assert len(set(ids)) == len(ids)
    assert [ids[one["ruleIndex"]] for one in run["results"]] == [one["ruleId"] for one in run["results"]]


def test_a_name_with_a_comma_is_whole() -> None:
    odd = Finding("a-rule", "info", "queue", r"CN=a\,b,DC=x", "guid", "Label", "wrong", "")
    (run,) = made(odd)["runs"]
    (place,) = run["results"][0]["locations"][0]["logicalLocations"]
    assert place["name"] == r"CN=a\,b"


def test_no_findings() -> None:
    assert made()["runs"][0]["results"] == []
