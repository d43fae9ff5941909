"""kill -9 of ``mqdssm validate --write-baseline``: the whole old file or the whole new one is there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.enterprises import planted
from support.programs.starting import start

from mqdssm.pipeline.validate.nightly.baseline import Baseline

pytestmark = [
    pytest.mark.slow,  # starts programs
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]
WAIT_S = 120.0
KILLER = """
import os, signal, sys, threading, time

folder, moment = {folder!r}, {moment!r}

def end():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

def is_draft(path):
    return os.path.dirname(path) == folder and os.path.basename(path).startswith(".known")

def as_soon_as_there_is_something():
    while True:
        for name in os.listdir(folder):
            if is_draft(os.path.join(folder, name)) and os.path.getsize(os.path.join(folder, name)):
                end()

def see(event, args):
    path = os.fspath(args[0]) if args and isinstance(args[0], (str, os.PathLike)) else ""
    if event == "open" and is_draft(path):
        if moment == "opened":
            end()
        if moment == "half":
            threading.Thread(target=as_soon_as_there_is_something, daemon=True).start()
    if event == "os.chmod" and is_draft(path) and moment == "synced":
        end()
    if event == "os.rename" and is_draft(path) and moment == "before the name":
        end()
    if event == "open" and path == folder and moment == "after the name":
        end()

sys.addaudithook(see)
from mqdssm.cli.main import run
run()
"""
"""Runs a command that ends by SIGKILL at a moment while it writes a baseline."""
MOMENTS = ("opened", "half", "synced", "before the name", "after the name")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "mqis"
    planted.tables(folder, 1)
    return folder


def validate(source: Path, baseline: Path, *options: str, moment: str = "") -> tuple[int, str]:
    words = ["validate", "--mqis", str(source), "--write-baseline", str(baseline), *options]
    code = KILLER.format(folder=str(baseline.parent), moment=moment)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start([sys.executable, "-c", code, *words], **pipes)
    try:
        _, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    return process.returncode, err.decode()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])]
)
def test_the_program_is_killed(source: Path, tmp_path: Path, moment: str, engine: str) -> None:
    options, folder = ("--engine", engine), tmp_path / "night"
    folder.mkdir()
    baseline = folder / "known.jsonl"
    code, err = validate(source, baseline, *options)
    assert code == 0, err
    new = baseline.read_bytes()
    assert len(Baseline.load(baseline).findings) > 100
    head, *lines = new.splitlines(keepends=True)
    old = b"".join([head, *lines[::2]])
    baseline.write_bytes(old)
    code, err = validate(source, baseline, *options, moment=moment)
    assert code == -signal.SIGKILL, err
    content = baseline.read_bytes()
    assert content == old if moment != "after the name" else content.splitlines()[1:] == new.splitlines()[1:]
    drafts = [path for path in folder.iterdir() if path != baseline]
    assert len(drafts) == (moment not in {"opened", "after the name"})
    Baseline.load(baseline)  # as the next night reads it
    code, err = validate(source, baseline, *options)
    assert code == 0, err
    assert baseline.read_bytes().splitlines()[1:] == new.splitlines()[1:]
