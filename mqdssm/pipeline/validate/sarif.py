"""Findings as SARIF 2.1.0 (OASIS), a format for analysis tools.

The objects of a directory have no lines: each result has a logical location, its DN, or its GUID if the
source has no DNs.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mqdssm.pipeline.validate.findings import ValidationSummary
from mqdssm.pipeline.validate.nightly.assessment import FindingAssessor, FindingState, JudgedFinding
from mqdssm.pipeline.validate.rules.rule import Finding

SCHEMA_URI: Final = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION: Final = "2.1.0"
_FIRST_RDN: Final = re.compile(r"(?:[^,\\]|\\.)*", re.DOTALL)
"""Text before the first unescaped comma of a DN; matches any text, if only its empty beginning."""
_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}


def format_sarif(
    summary: ValidationSummary, findings: Iterable[Finding], judge: FindingAssessor | None = None
) -> Iterator[str]:
    """Yield the document in pieces, since there may be many findings.

    Args:
        summary: of the validation.
        findings: in the order of the document.
        judge: baseline and suppressions; None: there are none.

    Yields:
        Text.
    """
    indexes = {rule.id: number for number, rule in enumerate(summary.rules)}
    run: dict[str, Any] = {
        "tool": {"driver": _make_driver(summary)},
        "invocations": [
            {
                "executionSuccessful": True,
                "startTimeUtc": f"{summary.started:%Y-%m-%dT%H:%M:%SZ}",
                "endTimeUtc": f"{summary.ended:%Y-%m-%dT%H:%M:%SZ}",
                "toolConfigurationNotifications": [
                    {
                        "level": "note",
                        "message": _make_message(str(skipped)),
                        "associatedRule": {"id": skipped.id},
                    }
                    for skipped in summary.not_judged
                ],
            }
        ],
        "properties": {
            "source": summary.source,
            "objects": dict(summary.objects),
            "engine": summary.engine,
        },
        "columnKind": "utf16CodeUnits",
    }
    head = json.dumps({"$schema": SCHEMA_URI, "version": VERSION}, ensure_ascii=False)[:-1]
    body = json.dumps(run, ensure_ascii=False)[:-1]
    yield f'{head}, "runs": [{body}, "results": ['
    separator = "\n"
    for judged_finding in (judge or FindingAssessor(summary.ended)).judge_findings(findings):
        result = _make_result(judged_finding.finding, indexes[judged_finding.finding.rule]) | _describe_state(
            judged_finding, judge
        )
        yield separator + json.dumps(result, ensure_ascii=False)
        separator = ",\n"
    yield "\n]}]}\n"


def _describe_state(judged_finding: JudgedFinding, judge: FindingAssessor | None) -> dict[str, Any]:
    """Return properties of a result: its state, and its suppression.

    The state comes from a baseline; a suppression has a reason.
    """
    state: dict[str, Any] = {}
    if judge is not None and judge.baseline.created is not None:
        state["baselineState"] = "new" if judged_finding.state is FindingState.NEW else "unchanged"
    if judged_finding.suppression is not None:
        state["suppressions"] = [{"kind": "external", "justification": judged_finding.suppression.reason}]
    return state


def _make_driver(summary: ValidationSummary) -> dict[str, Any]:
    return {
        "name": "mqdssm",
        "version": summary.versions.get("mqdssm", "0"),
        "rules": [
            {
                "id": rule.id,
                "shortDescription": _make_message(rule.requirement),
                "help": _make_message(rule.section or rule.requirement),
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
                "properties": {"form": rule.kind, "types": list(rule.types), "section": rule.section},
            }
            for rule in summary.rules
        ],
    }


def _make_message(text: str) -> dict[str, Any]:
    """Return a message for text, with doubled braces.

    Single braces mark placeholders (SARIF 3.11.5).
    """
    return {"text": text.replace("{", "{{").replace("}", "}}")}


def _make_result(finding: Finding, index: int) -> dict[str, Any]:
    name = finding.dn or finding.guid or finding.type
    place = {"name": _FIRST_RDN.findall(name)[0], "fullyQualifiedName": name, "kind": "resource"}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": _make_message(finding.message),
        "locations": [{"logicalLocations": [place]}],
        "properties": {
            "type": finding.type,
            "guid": finding.guid,
            "attribute": finding.attribute,
            "section": finding.section,
        },
    }
