"""kill -9 of workers of Spark's in the middle of a validation and of a plan: the result is as in peace.

The first piece of every job that is nearly done kills its worker. Export and apply have tests of their own,
in which the program and slapd are killed, too. The command runs as a program: the session of the other tests
gives no task to another worker.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.mqis.applied_plans import operations_in
from support.mqis.plans import lines_of
from support.project.source_tree import ROOT
from support.spark.export_command import without_engine

from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]

PROGRAM = """
import runpy, sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from support.mqis.comparison import KilledOnce
from mqdssm.spark.runner import SparkRunner

folder, numbers, real = Path(sys.argv.pop(1)), count(1), SparkRunner.run

def run(self, job, **more):
    return real(self, replace(job, work=KilledOnce(job.work, folder / str(next(numbers)))), **more)

SparkRunner.run = run
runpy.run_module("mqdssm.cli.main", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "mqis"
    plan = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=1)
    generate(plan, folder, SampleForm.MQIS, faults=True)
    return folder


def output(folder: Path, *words: str, engine: str) -> tuple[str, int]:
    """What a command prints, and how many workers were killed meanwhile; none of the local engine."""
    killed = folder / "killed"
    killed.mkdir(parents=True)
    program = ["-c", PROGRAM, str(killed)] if engine == "spark" else ["-m", "mqdssm.cli.main"]
    places = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, *program, *words, "--engine", engine],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout, len(list(killed.iterdir()))


def test_a_validation(source, tmp_path) -> None:
    words = ("validate", "--mqis", str(source), "-o", "json")
    expected, _ = output(tmp_path / "local", *words, engine="local")
    found, killed = output(tmp_path / "spark", *words, engine="spark")
    assert killed >= 2
    assert without_engine(found) == without_engine(expected)
    assert found.count("\n") > 100


def test_a_plan(source, tmp_path) -> None:
    for engine in ("local", "spark"):
        words = ("plan", str(source), "--to", str(tmp_path / engine), "--create-computers")
        to_ldif = ("--to-ldif", str(tmp_path / f"{engine}-ldif"), "--naming-context", "DC=example,DC=com")
        _, killed = output(tmp_path / f"{engine}-run", *words, *to_ldif, engine=engine)
        assert engine == "local" or killed >= 3
    local, on_spark = tmp_path / "local", tmp_path / "spark"
    assert operations_in(on_spark) == operations_in(local) != []
    rejects = [
        {path.name: lines_of(path) for path in each.glob("rejects/*.jsonl")} for each in (local, on_spark)
    ]
    assert rejects[0] == rejects[1] != {}


FAILING = """
import sys
from pathlib import Path
from support.spark.runner_work import TestWork, job
from mqdssm.pipeline.engines import JobEngine

with JobEngine.of("spark").runner("a lost failure") as runner:
    runner.run(job(TestWork(Path(sys.argv[1]), "fail_and_die"), 4))
"""


def test_a_failure_whose_worker_is_killed_at_that_moment(tmp_path) -> None:
    places = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (tmp_path / "died").exists()
    assert "GenericDirectoryError: refused" in done.stderr.splitlines()[-1]
