"""A run of a nightly validation as a whole: what it reads, judges, writes and shows."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.enterprises import report_world as world

from mqdssm.errors import ConfigError
from mqdssm.pipeline.report import write_report
from mqdssm.pipeline.validate.nightly.run import (
    NOTHING_ACCEPTED,
    NightlyFiles,
    NightlyRun,
    RunOutcome,
    load_acceptance,
)
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.sarif import format_sarif

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
IDS = [rule.id for rule in RULES]
ACCEPTED = """
[fail]
error = 5
"{rule}" = 1000

[[suppress]]
object = "{guid}"
reason = "goes in spring"
until = 2026-12-31
"""


@pytest.fixture
def night(tmp_path: Path) -> Any:
    """A validation with 200 findings, and what a run makes of it."""

    def run(files: NightlyFiles, count: int = 200, *, days: int = 0, accepted: Any = NOTHING_ACCEPTED) -> Any:
        folder = tmp_path / f"findings-{count}"
        folder.mkdir(exist_ok=True)
        findings = world.saved(folder, world.findings_of(count))
        summary = world.summary_of(findings, {})
        moved = {
            "started": summary.started + timedelta(days=days),
            "ended": summary.ended + timedelta(days=days),
        }
        summary = replace(summary, **moved)
        return (
            summary,
            findings,
            NightlyRun.prepare(files, NOW, accepted=accepted).conclude(summary, findings),
        )

    return run


def results(summary: Any, findings: Any, outcome: RunOutcome) -> list[dict[str, Any]]:
    document = json.loads("".join(format_sarif(summary, findings, outcome.judge)))
    found: list[dict[str, Any]] = document["runs"][0]["results"]
    return found


def test_without_anything_known_every_finding_is_new(night: Any) -> None:
    summary, findings, outcome = night(NightlyFiles())
    assert outcome.words == "200 new, 0 known, 0 suppressed"
    assert bool(outcome.exceeded) == (summary.count_of("error") > 0)
    assert not any("baselineState" in one for one in results(summary, findings, outcome))


def test_what_a_baseline_knows_does_not_fail_and_stays_visible(night: Any, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    _, _, first = night(NightlyFiles(new_baseline=known))
    assert (first.words, first.exceeded) == ("0 new, 200 known, 0 suppressed", ())
    summary, findings, second = night(NightlyFiles(baseline=known), 230)
    assert second.words == "30 new, 200 known, 0 suppressed"
    states = [one["baselineState"] for one in results(summary, findings, second)]
    assert (states.count("new"), states.count("unchanged")) == (30, 200)


def test_a_baseline_of_equal_findings_is_left_as_it_is(night: Any, tmp_path: Path) -> None:
    """So it can be kept in version control, though every night writes it."""
    known = tmp_path / "known.jsonl"
    night(NightlyFiles(new_baseline=known))
    first = known.read_bytes()
    night(NightlyFiles(baseline=known, new_baseline=known), days=1)
    assert known.read_bytes() == first
    night(NightlyFiles(baseline=known, new_baseline=known), 201, days=2)
    assert known.read_bytes() != first
    known.write_text("damaged")
    night(NightlyFiles(new_baseline=known))
    assert known.read_bytes() == first


def test_a_file_of_rules_suppresses_and_allows(night: Any, tmp_path: Path) -> None:
    _, findings, _ = night(NightlyFiles())
    one = next(found for found in findings if found.guid)
    path = tmp_path / "rules.toml"
    path.write_text(ACCEPTED.format(rule=one.rule, guid=one.guid))
    accepted = load_acceptance(path, IDS)
    summary, findings, outcome = night(NightlyFiles(), accepted=accepted)
    count = sum(found.guid == one.guid for found in findings)
    assert outcome.words == f"{200 - count} new, 0 known, {count} suppressed"
    assert not any(words.startswith(one.rule) for words in outcome.exceeded)
    kept = [found for found in results(summary, findings, outcome) if "suppressions" in found]
    assert [found["suppressions"] for found in kept] == [
        [{"kind": "external", "justification": "goes in spring"}]
    ] * count


def test_history_metrics_and_report_show_what_changed(night: Any, tmp_path: Path) -> None:
    files = NightlyFiles(history=tmp_path / "history", metrics=tmp_path / "mqdssm.prom")
    _, _, first = night(files, 200)
    assert first.changes.since is None
    summary, findings, second = night(files, 210, days=1)
    assert [(one.appeared, one.mended) for one in second.lines] == [(0, 0), (10, 0)]
    assert "mqdssm_validation_appeared 10\n" in (tmp_path / "mqdssm.prom").read_text()
    _, _, third = night(files, 190, days=2)
    assert (third.lines[-1].appeared, third.lines[-1].mended) == (0, 20)
    write_report(tmp_path / "report.html", summary, findings, {}, second)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<section id="new">' in text
    assert text.count("<polyline") == 4
    assert "Appeared since" in text


def test_a_report_without_history_has_no_such_part(night: Any, tmp_path: Path) -> None:
    summary, findings, outcome = night(NightlyFiles())
    write_report(tmp_path / "report.html", summary, findings, {}, outcome)
    assert '<section id="new">' not in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[suppress]]\nrule = 'no-rule'\nreason = 'x'\nuntil = 2027-01-01", "no rule is called 'no-rule'"),
        ("[fail]\nerrors = 1", "neither a severity nor a rule"),
        ("fail = 1", "no table"),
        ("[[suppress]", "no TOML file"),
    ],
)
def test_a_file_that_cannot_be_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_acceptance(path, IDS)
    assert str(path) in str(caught.value)
