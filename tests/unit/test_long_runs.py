"""The parts of `make soak` and the ledger of long runs."""

import argparse
import sys
from pathlib import Path

import ledger
import pytest
import soak
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.lists(st.text("abcdef/", min_size=1, max_size=9), unique=True, max_size=40)
MINUTES = st.dictionaries(st.text("abcdef/", min_size=1, max_size=9), st.floats(0, 90), max_size=40)


@given(names=NAMES, minutes=MINUTES, number=st.integers(1, 9))
def test_parts_hold_each_file_once_and_differ_by_one_file_at_most(
    names: list[str], minutes: dict[str, float], number: int
) -> None:
    parts = soak.divide(names, number, minutes)
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert parts == soak.divide(reversed(names), number, minutes)
    took = [minutes.get(name, soak.UNKNOWN_MINUTES) for name in names]
    sums = [sum(minutes.get(name, soak.UNKNOWN_MINUTES) for name in part) for part in parts]
    assert max(sums) - min(sums) <= max(took, default=0) + 1e-6


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "a/b", "-1/2", "1/100"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no part"):
        soak.shard(text)


def test_a_part_is_read() -> None:
    assert soak.shard("2/5") == (2, 5)


REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_long_runs" name="a" time="60"/>
<testcase classname="tests.unit.test_long_runs.TestClass" name="b" time="30"><failure>no</failure></testcase>
<testcase classname="tests.unit.test_errors" name="c" time="6"><error>fixture</error></testcase>
<testcase classname="tests.unit.test_errors" name="d" time="0"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_by_file(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    found = soak.outcome(report)
    assert (found.passed, found.failed) == (1, 2)
    assert found.minutes == {"tests/unit/test_long_runs.py": 1.5, "tests/unit/test_errors.py": 0.1}


def line(part: str, commit: str, job: str = "soak") -> ledger.Line:
    return ledger.Line(commit, "2026-11-23T04:00Z", job, part, 3, 0, 10)


def test_lines_are_read_as_they_were_added(tmp_path: Path) -> None:
    lines = [line("1/2", "aaa"), line("2/2", "bbb+"), line("1/1", "ccc", "bench")]
    for one in lines:
        ledger.add(one, tmp_path / "ledger.csv")
    assert ledger.read(tmp_path / "ledger.csv") == lines
    assert ledger.read(tmp_path / "none.csv") == []


def test_the_status_has_the_last_line_of_each_part_of_the_last_division() -> None:
    first, second, again = line("1/2", "aaa"), line("2/2", "bbb"), line("1/2", "ccc")
    old, whole, bench = line("3/5", "ddd"), line("1/1", "eee"), line("1/1", "fff", "bench")
    assert ledger.last_lines([old, whole, first, second, again, bench]) == [bench, whole, again, second]
    assert ledger.last_lines([first, bench], "bench") == [bench]


def test_a_command_is_run_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[ledger.Line] = []
    monkeypatch.setattr(ledger, "add", written.append)
    monkeypatch.setattr(ledger, "commit", lambda: "abc")
    assert ledger.main(["run", "bench", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert [(one.commit, one.job, one.part, one.passed, one.failed) for one in written] == [
        ("abc", "bench", "1/1", 0, 1)
    ]
    monkeypatch.setattr(ledger, "read", lambda: written)
    assert ledger.main(["status"]) == 0
    assert "bench" in capsys.readouterr().out


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one commit, with the minutes of one file, that the two programs take for theirs."""
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    monkeypatch.setattr(soak, "ROOT", tmp_path)
    monkeypatch.setattr(soak, "MINUTES", tmp_path / ".ci" / "soak_minutes.csv")
    ledger.git("init", "-q")
    (tmp_path / ".ci").mkdir()
    soak.write_minutes({"a.py": 7.0})
    ledger.git("add", "-A")
    ledger.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "First")
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_run_between_two_parts_does_not_change_the_division() -> None:
    soak.write_minutes({"a.py": 9.0, "b.py": 90.0})
    assert soak.committed_minutes() == {"a.py": 7.0}
    assert soak.read_minutes() == {"a.py": 9.0, "b.py": 90.0}
    ledger.git("rm", "-q", "-f", ".ci/soak_minutes.csv")
    ledger.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "Second")
    assert soak.committed_minutes() == {}


def test_what_a_run_writes_is_no_change_of_the_commit(project: Path) -> None:
    soak.write_minutes({"b.py": 90.0})
    (project / ".ci" / "ledger.csv").write_text("commit\n", encoding="utf-8")
    assert not ledger.commit().endswith(ledger.CHANGED)
    (project / "a.py").write_text("", encoding="utf-8")
    assert ledger.commit().endswith(ledger.CHANGED)
