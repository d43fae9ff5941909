"""Default number of worker processes, by the cores and memory of this machine or container."""

import os
from pathlib import Path
from typing import Final

WORKER_BYTES: Final = 256 * 1024 * 1024
"""Memory of a worker. A worker of an export takes up to 228 MB, for any number of objects."""
_ROOT: Final = Path("/")


def default_workers(root: Path = _ROOT) -> int:
    """Return the number of workers: one a core, fewer if memory is short, at least one.

    Args:
        root: of the file system; another folder in tests.
    """
    return max(1, min(_cores(root), _memory(root) // WORKER_BYTES))


def _cores(root: Path) -> int:
    # sched_getaffinity (Linux) returns the cores of this container or batch job
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        cores = min(cores, -(-int(quota) // int(period)))
    return cores


def _memory(root: Path) -> int:
    """Return the free memory in bytes; if unknown, as much as one worker a core needs."""
    found = [WORKER_BYTES * (os.cpu_count() or 1)]
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            found = [int(rest.split()[0]) * 1024]
    limit = _text(root / "sys/fs/cgroup/memory.max")
    used = _text(root / "sys/fs/cgroup/memory.current")
    if limit.isdecimal() and used.isdecimal():
        found.append(int(limit) - int(used))
    return max(0, min(found))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
