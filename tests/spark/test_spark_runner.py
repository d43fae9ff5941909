"""The runner on Spark: the same jobs as the local one, with the same answers."""

import shutil
import threading
from pathlib import Path

import pytest
from support.spark.runner_work import TestWork, begun_pids, job

from mqdssm.errors import DecodeError, GenericDirectoryError
from mqdssm.pipeline.runner import Stopped, StopRequest, WorkerFailed
from mqdssm.spark.runner import SparkRunner

TESTS = Path(__file__).parents[1]
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def runner(spark, tmp_path_factory):
    """A runner on Spark, whose Python workers can import `support`, too."""
    archive = tmp_path_factory.mktemp("support") / "support"
    spark.sparkContext.addPyFile(shutil.make_archive(str(archive), "zip", TESTS, "support"))
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
    assert spark.range(3).count() == 3  # the session lives
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
