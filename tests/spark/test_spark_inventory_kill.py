"""kill -9 of the program while it writes an inventory: no half file, and another run gives the whole."""

import os
import subprocess
import sys
from pathlib import Path

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
from itertools import islice
from pathlib import Path
from mqdssm.events import durable_files

victim, mark = sys.argv.pop(1), Path(sys.argv.pop(1))
real = durable_files.replace_file

def replace_file(path, pieces, **more):
    def dying():
        yield from islice(pieces, 5)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, dying() if path.name == victim else pieces, **more)

durable_files.replace_file = replace_file
runpy.run_module("mqdssm.cli.main", run_name="__main__", alter_sys=True)
"""
"""Kills itself within a file that it writes."""


def ran(*words: str, engine: str, mark: Path | None = None) -> tuple[int, str]:
    """Run a command: exit code and errors. With a mark it is killed while it writes, and makes that file."""
    if mark is None:
        result = CliRunner().invoke(app, [*words, "--engine", engine])
        return result.exit_code, result.stderr
    with start(
        [sys.executable, "-c", PROGRAM, "queues.csv", str(mark), *words, "--engine", engine],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _, err = process.communicate(timeout=WAIT_S)
    return process.returncode, err


@pytest.mark.parametrize("engine", ENGINES)
def test_the_program_is_killed_while_it_writes(tmp_path, engine) -> None:
    """Each file is there whole or not at all, and a folder with some of them is not written to again."""
    tables = tmp_path / "mqis"
    generate(EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=2), tables, SampleForm.MQIS)
    words = ("inventory", "--mqis", str(tables), "--csv")
    whole, folder = tmp_path / "whole", tmp_path / "csv"
    code, err = ran(*words, str(whole), engine="local")
    assert code == 0, err
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}
    code, _ = ran(*words, str(folder), engine=engine, mark=tmp_path / "killed")
    assert (code, (tmp_path / "killed").exists()) == (-9, True)
    left = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert left == {name: expected[name] for name in left}
    assert left.keys() < expected.keys()
    assert "queues.csv" not in left
    code, err = ran(*words, str(folder), engine=engine)
    assert code == 2, err
    assert "name a new folder for the inventory" in err
    code, err = ran(*words, str(tmp_path / "new"), engine=engine)
    assert code == 0, err
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == expected
