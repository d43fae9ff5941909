"""kill -9 of workers, and of the program, during an inventory and a comparison: the result is as in peace.

The first piece of every job kills its worker when it is nearly done, or waits until the program is killed.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from support.spark.killed_command import content, ended, kill_in_the_middle, with_killed_workers

from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

pytestmark = [
    pytest.mark.slow,  # starts programs
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]
ENGINES = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])]
JOBS = {"inventory": 1, "diff": 2}
"""Commands, and the number of jobs that each has at least."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Tables of one enterprise, and the same with defects."""
    folders = [tmp_path_factory.mktemp("sources") / name for name in ("sound", "broken")]
    for folder, faults in zip(folders, (False, True), strict=True):
        plan = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=1)
        generate(plan, folder, SampleForm.MQIS, faults=faults)
    return str(folders[0]), str(folders[1])


def words_of(command: str, sources: tuple[str, str], engine: str) -> tuple[str, ...]:
    given = ("--mqis", sources[1]) if command == "inventory" else sources
    return (command, *given, "-o", "json", "--engine", engine)


@pytest.fixture(scope="module")
def expected(sources: tuple[str, str]) -> dict[str, list[str]]:
    """What the commands print in peace."""
    found = {}
    for command in JOBS:
        program = [sys.executable, "-m", "mqdssm.cli.main", *words_of(command, sources, "local")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        found[command] = content(ended(subprocess.Popen(program, **pipes)))
        assert len(found[command]) > 10
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("command", JOBS)
def test_workers_are_killed(sources, expected, tmp_path: Path, command: str, engine: str) -> None:
    found, killed = with_killed_workers(tmp_path / "killed", *words_of(command, sources, engine))
    assert killed >= JOBS[command]
    assert content(found) == expected[command]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("command", JOBS)
def test_the_program_is_killed(sources, expected, tmp_path: Path, command: str, engine: str) -> None:
    """Nothing of it is in the way of the next run, and no worker stays."""
    words = words_of(command, sources, engine)
    kill_in_the_middle(tmp_path / "first", *words)
    found, killed = with_killed_workers(tmp_path / "again", *words)
    assert killed >= JOBS[command]
    assert content(found) == expected[command]
