"""Processes of the embedded servers: whether they run, and waiting until they are gone."""

import time
from pathlib import Path
from typing import Final

import pytest

GONE_WAIT_S: Final = 20


def runs(pid: int | str) -> bool:
    """Whether a process runs; a zombie that nobody has collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pid: int, folder: Path | None = None) -> None:
    """Fail unless the process ends, and its folder is deleted, within `GONE_WAIT_S`."""
    deadline = time.monotonic() + GONE_WAIT_S
    while time.monotonic() < deadline:
        if not runs(pid) and (folder is None or not folder.exists()):
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} runs: {runs(pid)}, {folder} exists: {folder is not None and folder.exists()}")
