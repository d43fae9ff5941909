"""Nightly validation: identity of findings, baseline, suppressions, thresholds, history and metrics."""

import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser as classic
from prometheus_client.openmetrics import parser as openmetrics

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.nightly import baseline
from mqdssm.pipeline.validate.nightly.assessment import (
    EXPIRED_RULE,
    FindingAssessor,
    FindingState,
    StateCounts,
    Thresholds,
    make_expiry_rule,
    read_suppressions,
    read_thresholds,
)
from mqdssm.pipeline.validate.nightly.baseline import Baseline, key_of, subtract_findings
from mqdssm.pipeline.validate.nightly.history import (
    LAST_NAME,
    RUNS_NAME,
    History,
    HistoryLine,
    count_findings,
    line_of,
    metrics_of,
    write_metrics,
)
from mqdssm.pipeline.validate.rules.rule import Finding

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
GUID = "0a1b2c3d-0000-4000-8000-00000000000a"
OTHER = "0a1b2c3d-0000-4000-8000-00000000000b"
THIRD = "0a1b2c3d-0000-4000-8000-00000000000c"
DN = "CN=orders,CN=msmq,CN=web01,CN=Computers,DC=example,DC=com"
RULES = ("queue-name-form", "security-owner", "site-exists")


def finding(**changed: Any) -> Finding:
    values = {
        "rule": "queue-name-form",
        "severity": "error",
        "type": "queue",
        "dn": DN,
        "guid": GUID,
        "attribute": "Pathname",
        "message": "PathName is 12 characters too long",
        "section": "",
    }
    return Finding(**values | changed)


def states(judge: FindingAssessor, *findings: Finding) -> list[str]:
    return [one.state.value for one in judge.judge_findings(findings)]


def counted(*findings: Finding, judge: FindingAssessor | None = None) -> StateCounts:
    return StateCounts.of(judge or FindingAssessor(NOW), findings)


class TestIdentity:
    def test_words_and_numbers_severity_and_place_are_no_part_of_it(self) -> None:
        reworded = finding(
            message="the name has 13 characters more than 124", severity="info", section="2", dn="CN=moved"
        )
        assert key_of(finding()) == key_of(reworded)

    @pytest.mark.parametrize(
        "changed", [{"rule": "other"}, {"type": "site"}, {"guid": OTHER}, {"attribute": "Label"}]
    )
    def test_another_rule_object_or_attribute_is_another(self, changed: dict[str, str]) -> None:
        assert key_of(finding()) != key_of(finding(**changed))

    def test_an_object_without_guid_is_known_by_its_dn(self) -> None:
        one, other = finding(guid=None), finding(guid=None, dn=DN.lower().replace(",", ", "))
        assert (
            key_of(one) == key_of(other) != key_of(finding(guid=None, dn="CN=" + DN[3:].upper() + ",DC=org"))
        )

    def test_what_is_named_is_part_of_it_in_any_order(self) -> None:
        one = finding(message=f"the sites {OTHER}, {THIRD} of {GUID} do not exist")
        other = finding(message=f"there are no {THIRD.upper()} and {OTHER}")
        less = finding(message=f"there is no {THIRD}")
        assert key_of(one) == key_of(other) != key_of(less)
        assert key_of(finding(message="full control for S-1-1-0")) != key_of(finding(message="for S-1-5-7"))


class TestBaseline:
    def test_only_what_is_new_is_new(self) -> None:
        known = Baseline.of([finding(), finding(guid=OTHER)], NOW)
        found = states(FindingAssessor(NOW, known), finding(guid=OTHER), finding(guid=THIRD), finding())
        assert found == ["known", "new", "known"]

    def test_more_of_the_same_are_new(self) -> None:
        known = Baseline.of([finding(), finding()], NOW)
        assert states(FindingAssessor(NOW, known), *[finding()] * 3) == ["known", "known", "new"]

    def test_it_is_the_same_file_in_any_order_and_comes_back(self, tmp_path: Path) -> None:
        found = [finding(guid=f"0a1b2c3d-0000-4000-8000-{n:012x}", dn=f"CN=é\n{n}") for n in range(50)]
        found += found[:7]
        Baseline.of(found, NOW).write(tmp_path / "one")
        random.Random(1).shuffle(found)
        Baseline.of(found, NOW).write(tmp_path / "two")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600
        loaded = Baseline.load(tmp_path / "one")
        assert loaded == Baseline.of(found, NOW)
        assert set(states(FindingAssessor(NOW, loaded), *found)) == {"known"}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "line 1"),
            ("", "line 1: Expecting value"),
            ("[" * 100_000, "line 1: maximum recursion"),
            ("{}\n", "line 1: its first line does not say"),
            ('{"mqdssm-baseline": 2, "made": null}\n', "version 1"),
            ("HEAD\n{\n", "line 2"),
            ("HEAD\n[]\n", "line 2"),
            ("HEAD\nLINE\nLI", "line 3"),
            ("HEAD\nZERO\n", "line 2: a field has the wrong kind"),
        ],
    )
    def test_a_damaged_file_is_named_with_its_line(self, tmp_path: Path, text: str, words: str) -> None:
        Baseline.of([finding()], NOW).write(tmp_path / "whole")
        head, line, _ = (tmp_path / "whole").read_text().split("\n")
        zero = line.replace('"count": 1', '"count": 0')
        assert zero != line
        path = tmp_path / "damaged"
        path.write_text(text.replace("HEAD", head).replace("LINE", line).replace("ZERO", zero))
        with pytest.raises(ConfigError, match=words) as caught:
            Baseline.load(path)
        assert str(path) in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            Baseline.load(tmp_path / "nowhere")

    def test_a_device_is_no_baseline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(baseline, "LINE_BYTES_MAX", 4096)
        with pytest.raises(ConfigError, match="/dev/zero is no baseline, line 1: it is longer than 4096"):
            Baseline.load(Path("/dev/zero"))

    def test_what_is_written_can_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Any number of findings; a line that could not be read is refused, and the old file stays."""
        monkeypatch.setattr(baseline, "LINE_BYTES_MAX", 400)
        many = Baseline.of([finding(guid=f"0a1b2c3d-0000-4000-8000-{n:012x}") for n in range(100)], NOW)
        many.write(tmp_path / "file")
        assert Baseline.load(tmp_path / "file").findings == many.findings
        for dn in ("CN=" + "é" * 200, "CN=" + "x" * 400):
            with pytest.raises(ConfigError, match="file cannot be written: it is longer than 400 bytes"):
                Baseline.of([finding(dn=dn)], NOW).write(tmp_path / "file")
        assert Baseline.load(tmp_path / "file").findings == many.findings

    def test_differences_count(self) -> None:
        then = Baseline.of([finding(), finding(), finding(guid=OTHER)], NOW)
        now = Baseline.of([finding(), finding(guid=THIRD)], NOW)
        assert [(one.key.object, one.count) for one in subtract_findings(now, then)] == [(THIRD, 1)]
        assert [(one.key.object, one.count) for one in subtract_findings(then, now)] == [
            (GUID, 1),
            (OTHER, 1),
        ]


def suppress(**given: Any) -> FindingAssessor:
    values = {"reason": "replaced in spring", "until": date(2026, 11, 22)} | given
    return FindingAssessor(NOW, suppressions=read_suppressions([values], RULES))


class TestSuppressions:
    @pytest.mark.parametrize(
        "given",
        [
            {"rule": "queue-name-form"},
            {"rule": "queue-*"},
            {"object": DN.lower()},
            {"object": f"{{{GUID.upper()}}}"},
            {"pattern": "*,cn=WEB0?,*"},
            {"rule": "queue-*", "object": DN},
        ],
    )
    def test_it_is_by_rule_object_or_pattern(self, given: dict[str, str]) -> None:
        assert states(suppress(**given), finding()) == ["suppressed"]

    @pytest.mark.parametrize(
        "given",
        [
            {"rule": "security-owner"},
            {"rule": "security-*", "object": DN},
            {"object": OTHER},
            {"pattern": "CN=web01,*"},
        ],
    )
    def test_other_findings_stay(self, given: dict[str, str]) -> None:
        assert states(suppress(**given), finding()) == ["new"]

    def test_an_expired_one_suppresses_nothing_and_is_a_finding(self) -> None:
        judge = suppress(object=DN, until=date(2026, 11, 21))
        assert states(judge, finding()) == ["new"]
        (expired,) = make_expiry_rule(judge.suppressions, NOW).findings
        assert (expired.rule, expired.severity) == (EXPIRED_RULE, "warning")
        assert "2026-11-21" in expired.message
        assert "replaced in spring" in expired.message
        assert not make_expiry_rule(suppress(object=DN).suppressions, NOW).findings  # its last day is today

    def test_a_suppressed_finding_uses_nothing_of_the_baseline(self) -> None:
        known = Baseline.of([finding()], NOW)
        judge = replace(suppress(object=DN), baseline=known)
        assert states(judge, finding(), finding(guid=OTHER, dn="CN=x")) == ["suppressed", "new"]

    def test_one_that_suppresses_nothing_is_named(self) -> None:
        judge = suppress(object=OTHER)
        assert counted(finding(), judge=judge).unused == judge.suppressions
        assert counted(finding(guid=OTHER), judge=judge).unused == ()

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"reason": " "}, "number 1 has no reason"),
            ({"until": "2027-01-01"}, "has no day"),
            ({"until": datetime(2027, 1, 1, tzinfo=UTC)}, "has no day"),
            ({"rule": ""}, "means everything"),
            ({"rule": "queue-nam-form"}, "no rule is called"),
            ({"object": "web01"}, "neither a GUID nor a DN"),
            ({"object": DN, "pattern": "*"}, "leave one out"),
            ({"rules": "x"}, "knows no 'rules'"),
            ({"pattern": 7}, "pattern is 7"),
        ],
    )
    def test_what_cannot_be_is_refused(self, given: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            suppress(**{"rule": "queue-name-form"} | given)


class TestThresholds:
    def test_errors_fail_as_long_as_nothing_else_is_said(self) -> None:
        assert Thresholds.of().list_exceeded(counted(finding())) == ("error: 1, 0 allowed",)
        assert Thresholds.of().list_exceeded(counted(finding(severity="warning"))) == ()
        assert Thresholds.of("info").list_exceeded(counted(finding(severity="warning"))) == (
            "warning: 1, 0 allowed",
        )

    def test_only_new_findings_count(self) -> None:
        known = FindingAssessor(NOW, Baseline.of([finding()], NOW))
        assert Thresholds.of().list_exceeded(counted(finding(), judge=known)) == ()
        assert Thresholds.of().list_exceeded(counted(finding(), judge=suppress(object=DN))) == ()

    def test_numbers_by_severity_and_rule(self) -> None:
        allowed = Thresholds.of(None, {"error": 1, "warning": 2, "security-owner": 3})
        owner = finding(rule="security-owner")
        assert allowed.list_exceeded(counted(finding(), *[owner] * 3)) == ()
        assert allowed.list_exceeded(counted(finding(), *[owner] * 4)) == ("security-owner: 4, 3 allowed",)
        assert allowed.list_exceeded(counted(finding(), finding())) == ("error: 2, 1 allowed",)

    @pytest.mark.parametrize("given", [{"nothing": 1}, {"error": -1}, {"error": True}, {"error": "1"}, []])
    def test_what_cannot_be_is_refused(self, given: Any) -> None:
        with pytest.raises(ValueError, match="fail"):
            read_thresholds(given, RULES)


def run_at(history: History, day: int, *findings: Finding) -> HistoryLine:
    """A run of a validation, as it goes into a history."""
    started = NOW + timedelta(days=day)
    now = Baseline.of(findings, started)
    about = {"started": started, "seconds": 2.5, "source": "lab", "version": "1", "objects": {"queue": 9}}
    line = line_of(about, counted(*findings), history.compare(now), has_failed=bool(findings))
    history.add(line, now)
    return line


class TestHistory:
    @pytest.fixture
    def history(self, tmp_path: Path) -> History:
        made = History(tmp_path / "history")
        made.prepare()
        return made

    def test_each_run_adds_a_line(self, history: History) -> None:
        lines = [run_at(history, 0, finding()), run_at(history, 1, finding(guid=OTHER)), run_at(history, 2)]
        assert history.read_lines() == tuple(lines)
        assert [(one.appeared, one.mended) for one in lines] == [(0, 0), (1, 1), (0, 1)]
        assert [one.has_failed for one in lines] == [True, True, False]
        assert lines[0].findings == {"queue-name-form": 1}
        assert lines[0].severities == {"error": 1}
        assert lines[0].states == {"new": 1}

    def test_it_says_what_is_new_and_what_was_mended(self, history: History) -> None:
        run_at(history, 0, finding(), finding(), finding(guid=OTHER))
        changes = history.compare(Baseline.of([finding(), finding(guid=THIRD)], NOW))
        assert changes.since == NOW
        assert [one.key.object for one in changes.appeared] == [THIRD]
        assert [one.key.object for one in changes.mended] == [GUID, OTHER]
        assert count_findings(changes.mended) == 2

    def test_a_line_that_was_cut_does_not_count_and_goes(self, history: History) -> None:
        first = run_at(history, 0, finding())
        with (history.folder / RUNS_NAME).open("a") as file:
            file.write('{"started": "2026')
        assert history.read_lines() == (first,)
        second = run_at(history, 1)
        assert history.read_lines() == (first, second)

    def test_a_damaged_line_is_named(self, history: History) -> None:
        run_at(history, 0)
        text = (history.folder / RUNS_NAME).read_text()
        (history.folder / RUNS_NAME).write_text(text + "{}\n" + text)
        with pytest.raises(ConfigError, match=r"runs\.jsonl, line 2: no line of a history"):
            history.prepare()

    def test_damaged_findings_of_the_last_run_are_named(self, history: History) -> None:
        run_at(history, 0)
        (history.folder / LAST_NAME).write_text("nothing")
        with pytest.raises(ConfigError, match=r"last\.jsonl is no baseline"):
            history.prepare()

    def test_a_folder_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match="cannot be made"):
            History(tmp_path / "file").prepare()


class TestMetrics:
    def line(self) -> HistoryLine:
        return HistoryLine(
            started=NOW,
            seconds=2.5,
            source="lab",
            version='1"\\',
            objects={"queue": 9},
            findings={},
            severities={},
            states={},
            appeared=1,
            mended=2,
            has_failed=True,
        )

    def test_they_are_text_that_both_formats_have(self) -> None:
        known = FindingAssessor(NOW, Baseline.of([finding()], NOW))
        text = "".join(metrics_of(self.line(), counted(finding(), finding(), judge=known)))
        assert text.endswith("\n# EOF\n")
        samples = [
            [sample[:3] for family in parse(text) for sample in family.samples]
            for parse in (openmetrics.text_string_to_metric_families, classic.text_string_to_metric_families)
        ]
        assert samples[0] == samples[1]
        assert ("mqdssm_validation_info", {"version": '1"\\'}, 1.0) in samples[0]
        lines = text.splitlines()
        name = 'mqdssm_validation_findings{rule="queue-name-form",severity="error",state='
        assert f'{name}"known"}} 1' in lines
        assert f'{name}"new"}} 1' in lines
        assert 'mqdssm_validation_objects{type="queue"} 9' in lines
        assert "mqdssm_validation_failed 1" in lines
        assert f"mqdssm_validation_end_timestamp_seconds {NOW.timestamp() + 2.5:.15g}" in lines
        assert r'mqdssm_validation_info{version="1\"\\"} 1' in lines
        described = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        assert all(line.endswith(" gauge") for line in lines if line.startswith("# TYPE "))
        assert len(described) == len(set(described)) == 8

    def test_others_may_read_the_file_which_is_replaced_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "mqdssm.prom"
        path.write_text("old")
        write_metrics(path, self.line(), counted())
        assert path.stat().st_mode & 0o777 == 0o644
        assert [one.name for one in tmp_path.iterdir()] == ["mqdssm.prom"]
        with pytest.raises(ConfigError, match="cannot be written"):
            write_metrics(tmp_path / "nowhere" / "x", self.line(), counted())


def test_states_are_those_that_files_name() -> None:
    assert json.dumps([*FindingState]) == '["new", "known", "suppressed"]'
