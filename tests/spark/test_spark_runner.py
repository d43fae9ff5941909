"""The runner on Spark: the same jobs as the local one, with the same answers."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from support.spark.runner_work import MINUTE_S, TestWork, begun_pids, job

from mqdssm.errors import ConfigError, DecodeError, GenericDirectoryError
from mqdssm.pipeline import local
from mqdssm.pipeline.runner import Results, Stopped, StopRequest, WorkerFailed, perform_pieces
from mqdssm.spark import runner as spark_runner
from mqdssm.spark.runner import SparkRunner

pytestmark = [pytest.mark.spark]


@pytest.fixture
def runner(spark):
    """A runner on Spark."""
    return SparkRunner(spark)


@pytest.mark.parametrize("is_small", [False, True])
def test_results_come_in_the_order_of_their_numbers(runner, tmp_path, is_small) -> None:
    done = []
    work = TestWork(tmp_path)
    found = runner.run(job(work, 5, is_small=is_small), on_done=lambda *now: done.append(now))
    assert [value for value, _ in found] == [number * number for number in range(5)]
    assert done[-1] == (5, 5)
    assert done == sorted(done)
    assert runner.run(job(work, 0)) == []


def test_errors_keep_their_class_and_attributes(runner, tmp_path) -> None:
    with pytest.raises(GenericDirectoryError) as refused:
        runner.run(job(TestWork(tmp_path, "fail"), 2))
    assert (refused.value.dn, refused.value.ldap_code, refused.value.hint) == ("cn=x", 53, "do not")
    with pytest.raises(DecodeError) as damaged:
        runner.run(job(TestWork(tmp_path, "fail_to_decode"), 2))
    assert (damaged.value.field, damaged.value.offset) == ("Owner", 3)
    with pytest.raises(WorkerFailed, match="a worker failed: KeyError: 'unforeseen'"):
        runner.run(job(TestWork(tmp_path, "fail_unforeseen"), 2))


def test_stopping_from_another_thread(runner, tmp_path, spark) -> None:
    stop, waiting = StopRequest(), TestWork(tmp_path, "wait")
    threading.Thread(target=lambda: (begun_pids(waiting, 2), stop.set())).start()
    with pytest.raises(Stopped):
        runner.run(job(waiting), stop=stop)
    assert waiting.names("ended-") == ["ended-0", "ended-1"]  # at safe places
    assert spark.range(3).count() == 3  # the session lives
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_a_piece_that_fails_stops_the_others(runner, tmp_path, monkeypatch) -> None:
    """The program hears of the failure, not of a stop: it cancels nothing, however long the others take."""
    monkeypatch.setattr(spark_runner, "GRACE_S", 0.0)
    started = time.monotonic()
    with pytest.raises(GenericDirectoryError, match="refused"):
        runner.run(job(TestWork(tmp_path, "fail"), 4))
    assert time.monotonic() - started < MINUTE_S  # what others wait


def test_an_error_whose_worker_was_lost_is_told_instead_of_the_stop(tmp_path) -> None:
    """The piece is done again, and stopped: its first worker had stopped the job before it was lost."""
    work = TestWork(tmp_path, "fail")
    with spark_runner.stop_file("local[2]", None) as path:
        assert next(perform_pieces(work, [1], spark_runner.StopFile(path)))  # no one gets this answer
        again = Results(2)
        for number in (0, 1):
            again.add(*next(perform_pieces(work, [number], spark_runner.StopFile(path))))
        with pytest.raises(GenericDirectoryError) as refused:
            spark_runner._read_values(again, path)
        assert (refused.value.dn, refused.value.ldap_code, refused.value.hint) == ("cn=x", 53, "do not")
    stopped = Results(1)
    with spark_runner.stop_file("local[2]", None) as path:
        spark_runner.StopFile(path).set()
        stopped.add(*next(perform_pieces(work, [0], spark_runner.StopFile(path))))
        with pytest.raises(Stopped):
            spark_runner._read_values(stopped, path)


def test_a_piece_without_a_safe_place_is_cancelled(runner, tmp_path, spark, monkeypatch) -> None:
    monkeypatch.setattr(spark_runner, "GRACE_S", 0.5)
    stop, hanging = StopRequest(), TestWork(tmp_path, "hang")
    threading.Thread(target=lambda: (begun_pids(hanging, 2), stop.set())).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        runner.run(job(hanging), stop=stop)
    assert time.monotonic() - started < MINUTE_S
    assert spark.range(3).count() == 3


class Hangup(BaseException):
    """What the handler of a signal raises here: a KeyboardInterrupt would end all tests."""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_a_signal_acts_when_the_pieces_have_ended_at_a_safe_place(
    runner, tmp_path, spark, monkeypatch
) -> None:
    monkeypatch.setattr(local, "GRACE_S", MINUTE_S)  # a slow machine is no reason to give up here
    monkeypatch.setattr(spark_runner, "GRACE_S", MINUTE_S)

    def interrupt(*_: object) -> None:
        raise Hangup

    waiting = TestWork(tmp_path, "wait")

    def send() -> None:
        begun_pids(waiting, 2)
        os.kill(os.getpid(), signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, interrupt)
    try:
        threading.Thread(target=send).start()
        with pytest.raises(Hangup):
            runner.run(job(waiting))
        assert signal.getsignal(signal.SIGHUP) is interrupt
    finally:
        signal.signal(signal.SIGHUP, before)
    assert waiting.names("ended-") == ["ended-0", "ended-1"]
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("master", "shared", "folder"),
    [("local[2]", "", "temporary"), ("spark://h:7077", "shared", "shared"), ("spark://h:7077", "", None)],
)
def test_where_workers_look_for_a_stop(tmp_path, monkeypatch, master, shared, folder) -> None:
    """On a cluster in the folder that all machines share; without one Spark cancels the job at once."""
    for name in ("temporary", "shared"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with spark_runner.stop_file(master, tmp_path / shared if shared else None) as path:
        assert (path is None) == (folder is None)
        assert path is None or Path(path).parents[1] == tmp_path / folder
    assert [*(tmp_path / "temporary").iterdir(), *(tmp_path / "shared").iterdir()] == []


def test_a_shared_folder_that_is_not_there_is_named(tmp_path) -> None:
    with (
        pytest.raises(ConfigError, match=r"none cannot be used: No such file"),
        spark_runner.stop_file("spark://h:7077", tmp_path / "none"),
    ):
        pass
