"""Commands of which workers, or the program itself, are killed in the middle of each job."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from support.project.source_tree import ROOT
from support.spark.export_command import readers
from support.spark.runner_work import are_gone

WAIT_S: Final = 600.0
PROGRAM: Final = """
import runpy, sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from support.mqis import comparison
from mqdssm.pipeline.local import LocalRunner
from mqdssm.spark.runner import SparkRunner

folder, kind, numbers = Path(sys.argv.pop(1)), getattr(comparison, sys.argv.pop(1)), count(1)

def observed(real):
    def run(self, job, **more):
        work = kind(job.work, folder / str(next(numbers)))
        return real(self, replace(job, work=work, is_small=False), **more)
    return run

for runner in (LocalRunner, SparkRunner):
    runner.run = observed(runner.run)
runpy.run_module("mqdssm.cli.main", run_name="__main__", alter_sys=True)
"""
"""Runs a command whose work is of a class of `comparison` such as `KilledOnce`, with workers in any case."""


def start(folder: Path, kind: str, *words: str) -> "subprocess.Popen[str]":
    """Start a command.

    Args:
        folder: new, for a file of each job whose first piece was reached.
        kind: ``KilledOnce``, ``HeldOnce`` or ``ReleasedOnce``.
        words: of the command line.
    """
    folder.mkdir(parents=True)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), kind, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> str:
    """What a command prints that has findings, or none."""
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode in {0, 1}, err
    return out


def with_killed_workers(folder: Path, *words: str) -> tuple[str, int]:
    """What a command prints whose jobs each lose a worker, and how many were lost."""
    out = ended(start(folder, "KilledOnce", *words))
    return out, len(list(folder.iterdir()))


def wait_for_a_piece(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until the first piece of a job is held."""
    deadline = time.monotonic() + WAIT_S
    while not any(folder.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no piece was begun"
        time.sleep(0.05)


def kill_in_the_middle(folder: Path, *words: str) -> None:
    """Kill a command while it works, and wait until its workers have ended."""
    process = start(folder, "HeldOnce", *words)
    try:
        wait_for_a_piece(folder, process)
        workers = readers(process.pid)
        assert workers
    finally:
        process.kill()
        process.communicate()
    assert are_gone(workers, 90.0)


def content(output: str) -> list[str]:
    """Sorted JSON lines of a command, without the engine and the moment."""
    records = map(json.loads, output.splitlines())
    left_out = {"engine", "taken"}
    return sorted(
        json.dumps({name: value for name, value in record.items() if name not in left_out})
        for record in records
    )
