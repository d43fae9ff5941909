"""kill -9 in the middle of comparisons and inventories: of workers, and of the program, which is run again.

The command runs as a program. With Spark it starts Java each time: `make test` sees the local engine alone,
and of comparisons a join whose worker is killed (`tests/unit/pipeline/test_pipeline_diff_join.py`).
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.programs.starting import start
from support.project.source_tree import ROOT
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]

WAIT_S = 600.0
ENGINES = ["local", pytest.param("spark", marks=pytest.mark.soak)]
PROGRAM = """
import os, runpy, signal, sys
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from mqdssm.events import durable_files
from mqdssm.pipeline.local import LocalRunner as Runner
from support.mqis.comparison import KilledOnce

engine, victim, killed = sys.argv.pop(1), sys.argv.pop(1), Path(sys.argv.pop(1))
if engine == "spark":
    from mqdssm.spark.runner import SparkRunner as Runner
numbers, real_run, real_replace = count(1), Runner.run, durable_files.replace_file

def run(self, job, **more):
    if engine == "spark" or len(job.names) > 1:
        marker, pid = killed / str(next(numbers)), os.getpid() if victim == "program" else None
        job = replace(job, work=KilledOnce(job.work, marker, pid), is_small=False)
    return real_run(self, job, **more)

def replace_file(path, pieces, **more):
    def dying():
        yield from islice(pieces, 5)
        (killed / path.name).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    real_replace(path, dying() if path.name == victim else pieces, **more)

if victim in {"worker", "program"}:
    Runner.run = run
durable_files.replace_file = replace_file
runpy.run_module("mqdssm.cli.main", run_name="__main__", alter_sys=True)
"""
"""Kills workers or itself when a piece of each job is nearly done, or itself within a file that it writes."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two enterprises as MQIS tables: a sound one, and the same with defects."""
    folder = tmp_path_factory.mktemp("tables")
    sample = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=2)
    generate(sample, folder / "sound", SampleForm.MQIS)
    generate(sample, folder / "broken", SampleForm.MQIS, faults=True)
    return folder


def ran(*words: str, engine: str, killed: Path | None = None, victim: str = "") -> tuple[int, str, str]:
    """Run a command: exit code and output. With a folder for marks it is killed on the way."""
    if killed is None:
        result = CliRunner().invoke(app, [*words, "--engine", engine])
        return result.exit_code, result.stdout, result.stderr
    killed.mkdir()
    workers = ["--workers", "2"] if engine == "local" else []
    with start(
        [sys.executable, "-c", PROGRAM, engine, victim, str(killed), *words, "--engine", engine, *workers],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


def records(output: str) -> list[dict[str, Any]]:
    """The lines of an output, without what is of a run and not of its result."""
    lines = [json.loads(line) for line in output.splitlines()]
    return [
        {name: value for name, value in line.items() if name not in {"engine", "taken"}} for line in lines
    ]


@pytest.fixture(scope="module")
def command(request: pytest.FixtureRequest, tables: Path) -> tuple[list[str], int, list[dict[str, Any]]]:
    """The words of a command, its exit code, and its result in peace."""
    both = {
        "diff": ["diff", str(tables / "sound"), str(tables / "broken")],
        "inventory": ["inventory", "--mqis", str(tables / "broken")],
    }
    words = [*both[request.param], "-o", "json"]
    code, out, err = ran(*words, engine="local")
    assert code == {"diff": 1, "inventory": 0}[request.param], err
    found = records(out)
    assert len(found) > 100
    return words, code, found


def each_with(quick: str) -> pytest.MarkDecorator:
    """Each command with each engine; all in soak but one command with the local engine."""
    pairs = [(name, engine) for name in ("diff", "inventory") for engine in ("local", "spark")]
    marked = [pytest.param(*one, marks=() if one == (quick, "local") else pytest.mark.soak) for one in pairs]
    return pytest.mark.parametrize(("command", "engine"), marked, indirect=["command"])


@each_with("inventory")
def test_workers_are_killed(command, tmp_path, engine) -> None:
    words, code, expected = command
    found, out, err = ran(*words, engine=engine, killed=tmp_path / "killed", victim="worker")
    assert list((tmp_path / "killed").iterdir())
    assert found == code, err
    assert records(out) == expected


@each_with("diff")
def test_the_program_is_killed(command, tmp_path, engine) -> None:
    """It has printed nothing that could be taken for a result, and hinders no other run."""
    words, code, expected = command
    found, out, _ = ran(*words, engine=engine, killed=tmp_path / "killed", victim="program")
    assert (found, out) == (-9, "")
    again, out, err = ran(*words, engine=engine)
    assert again == code, err
    assert records(out) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_the_program_is_killed_while_it_writes(tables, tmp_path, engine) -> None:
    """Each file is there whole or not at all, and a folder with some of them is not written to again."""
    words = ("inventory", "--mqis", str(tables / "broken"), "--csv")
    whole, folder = tmp_path / "whole", tmp_path / "csv"
    code, _, err = ran(*words, str(whole), engine="local")
    assert code == 0, err
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}
    code, _, _ = ran(*words, str(folder), engine=engine, killed=tmp_path / "killed", victim="queues.csv")
    assert (code, (tmp_path / "killed" / "queues.csv").exists()) == (-9, True)
    left = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert left == {name: expected[name] for name in left}
    assert left.keys() < expected.keys()
    assert "queues.csv" not in left
    code, _, err = ran(*words, str(folder), engine=engine)
    assert code == 2, err
    assert "name a new folder for the inventory" in err
    code, _, err = ran(*words, str(tmp_path / "new"), engine=engine)
    assert code == 0, err
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == expected
