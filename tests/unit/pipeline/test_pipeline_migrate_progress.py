"""How far a migration is: counted from what workers have written, and told while it goes on."""

import threading

import pytest

from mqdssm.pipeline.migrate import progress
from mqdssm.pipeline.migrate.progress import Doing, LineCounter, WorkerProgress, report_count, tell


def test_lines_are_counted_as_files_grow(tmp_path):
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    lines = LineCounter([first, second])
    assert lines() == 0
    first.write_text("a\nb\nhalf")
    assert lines() == 2
    with first.open("a") as file:
        file.write(" a line\n")
    second.write_text("c\n" * 1000)
    (tmp_path / "3.jsonl").write_text("of another level\n")
    assert lines() == 1003
    assert lines() == 1003


def test_workers_tell_how_far_they_are(tmp_path):
    told = WorkerProgress(tmp_path / "told")
    told.tell(1, 5)  # nobody looks: there is no folder, and no harm
    assert told() == 0
    told.begin()
    for number, done in ((1, 500), (2, 100), (1, 1000)):
        told.tell(number, done)
    assert told() == 1100
    told.begin()
    assert told() == 0


def test_it_is_told_again_and_again_while_it_goes_on(monkeypatch):
    monkeypatch.setattr(progress, "LOOK_S", 0.01)
    said: list[Doing] = []
    done, seen = [0], threading.Event()

    def watch(now: Doing) -> None:
        said.append(now)
        if now.done == 7:
            seen.set()

    with report_count(watch, "counting", 10, lambda: done[0]):
        done[0] = 7
        assert seen.wait(60)
        done[0] = 10
    assert said[0] == Doing("counting", 0, 10)
    assert Doing("counting", 7, 10) in said
    assert said[-1] == Doing("counting", 10, 10)
    before = threading.active_count()
    with pytest.raises(OSError, match="full"), report_count(watch, "breaking", None, lambda: 0):
        raise OSError("full")
    assert threading.active_count() == before


def test_where_nobody_looks_nothing_is_counted():
    with report_count(None, "x", 1, lambda: pytest.fail("counted")):
        pass
    tell(None, "x")
