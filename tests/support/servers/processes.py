"""Processes of the embedded servers: whether they run, and waiting until they are gone."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest

GONE_WAIT_S: Final = 60
STOPPED_WAIT_S: Final = 60


def runs(pid: int | str) -> bool:
    """Whether a process runs; a zombie that nobody has collected does not."""
    return _state(Path(f"/proc/{pid}/stat")) not in {"Z", ""}


def wait_until_gone(pid: int, folder: Path | None = None) -> None:
    """Fail unless the process ends, and its folder is deleted, within `GONE_WAIT_S`."""
    deadline = time.monotonic() + GONE_WAIT_S
    while time.monotonic() < deadline:
        if not runs(pid) and (folder is None or not folder.exists()):
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} runs: {runs(pid)}, {folder} exists: {folder is not None and folder.exists()}")


def stop(pid: int) -> None:
    """Stop a process (SIGSTOP), and wait until none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + STOPPED_WAIT_S
    while time.monotonic() < deadline:
        if {_state(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat")} <= {"T", ""}:
            return
        time.sleep(0.005)
    pytest.fail(f"process {pid} goes on after SIGSTOP")


def _state(stat: Path) -> str:
    """The letter of a thread's state; nothing if it has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
