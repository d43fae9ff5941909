"""Findings as SARIF 2.1.0 (OASIS), which tools for code and security read.

The objects of a directory have no lines: each result has a logical location, its DN, or its GUID where the
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
"""What stands before the first comma of a DN that is not escaped: of any text something, if only nothing."""
_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}


def sarif(
    summary: ValidationSummary, findings: Iterable[Finding], judge: FindingAssessor | None = None
) -> Iterator[str]:
    """Write the document in pieces: findings may be many.

    Args:
        summary: of the validation.
        findings: in the order in which they are to stand.
        judge: what is known and accepted; None: nothing is.

    Yields:
        Text.
    """
    indexes = {rule.id: number for number, rule in enumerate(summary.rules)}
    run: dict[str, Any] = {
        "tool": {"driver": _driver(summary)},
        "invocations": [
            {
                "executionSuccessful": True,
                "startTimeUtc": f"{summary.started:%Y-%m-%dT%H:%M:%SZ}",
                "endTimeUtc": f"{summary.ended:%Y-%m-%dT%H:%M:%SZ}",
                "toolConfigurationNotifications": [
                    {
                        "level": "note",
                        "message": _message(str(one)),
                        "associatedRule": {"id": one.id},
                    }
                    for one in summary.not_judged
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
    for one in (judge or FindingAssessor(summary.ended)).judged(findings):
        result = _result(one.finding, indexes[one.finding.rule]) | _state(one, judge)
        yield separator + json.dumps(result, ensure_ascii=False)
        separator = ",\n"
    yield "\n]}]}\n"


def _state(one: JudgedFinding, judge: FindingAssessor | None) -> dict[str, Any]:
    """Properties of a result that compare it with a baseline, and say why it is suppressed."""
    state: dict[str, Any] = {}
    if judge is not None and judge.baseline.made is not None:
        state["baselineState"] = "new" if one.state is FindingState.NEW else "unchanged"
    if one.suppression is not None:
        state["suppressions"] = [{"kind": "external", "justification": one.suppression.reason}]
    return state


def _driver(summary: ValidationSummary) -> dict[str, Any]:
    return {
        "name": "mqdssm",
        "version": summary.versions.get("mqdssm", "0"),
        "rules": [
            {
                "id": rule.id,
                "shortDescription": _message(rule.what),
                "help": _message(rule.section or rule.what),
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
                "properties": {"form": rule.kind, "types": list(rule.types), "section": rule.section},
            }
            for rule in summary.rules
        ],
    }


def _message(text: str) -> dict[str, Any]:
    """A text as a message: a single brace would be that of a placeholder (SARIF 3.11.5)."""
    return {"text": text.replace("{", "{{").replace("}", "}}")}


def _result(finding: Finding, index: int) -> dict[str, Any]:
    name = finding.dn or finding.guid or finding.type
    place = {"name": _FIRST_RDN.findall(name)[0], "fullyQualifiedName": name, "kind": "resource"}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": _message(finding.message),
        "locations": [{"logicalLocations": [place]}],
        "properties": {
            "type": finding.type,
            "guid": finding.guid,
            "attribute": finding.attribute,
            "section": finding.section,
        },
    }
