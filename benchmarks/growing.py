"""How time and memory grow with the number of objects: two sizes in turn, in the same workers of Spark's."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.harness import Goal, Outcome, Work, interleaved

Measured = tuple[Sequence[float], Sequence[float]]
"""Seconds, and megabytes at most, of a smaller and a larger number of things."""
GROWN: Final = (10_000, 100_000)
GROWN_QUICK: Final = (1_000, 4_000)
GOAL: Final = 1.25
"""Our own: the issue says near-linear, and flat."""
MEMORY: Final = Path("/dev/shm")
"""Where there is memory as a folder; each database gets a private one in it."""
_WARM: Final = 2
"""Runs of each size that are not counted, and after which memory is looked at."""


@contextmanager
def memory_folder() -> Iterator[str]:
    """A folder in memory for a database that grows.

    On ext4 the kernel spends ever more on each page of a file that grows (`perf`: half of slapd's time at
    50,000 objects), which is none of what is measured.
    """
    with tempfile.TemporaryDirectory(prefix="mqdssm-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield folder


def grown(goal: Goal, work: Mapping[int, Work], runs: int) -> Outcome:
    """Compare time for each object, and memory of the largest worker, of a larger with a smaller number.

    The smaller one runs first, in fresh workers: what these have needed at most can then only rise.

    Args:
        goal: what is measured.
        work: number of objects -> one run; the smaller number first.
        runs: how often each is measured.
    """
    sizes = tuple(work)
    memory = []
    for one in work.values():
        for _ in range(_WARM):
            one()
        memory.append(largest_worker())
    timing = interleaved(work[sizes[1]], work[sizes[0]], runs, warm=0)
    outcome = timing.duration(goal)
    time_ratio = outcome.ratio * (sizes[0] / sizes[1])
    return _worse_of(goal, time_ratio, memory, runs, (f"{outcome.theirs} in all", f"{outcome.ours} in all"))


def grown_apart(
    goal: Goal, work: Callable[[int, int], Measured], sizes: tuple[int, int], things: str
) -> Outcome:
    """Compare as `grown`, what runs in a process of its own: its memory is nobody else's.

    Args:
        goal: what is measured.
        work: a function of a module that does the smaller number, then the larger one: seconds and megabytes
            of each.
        sizes: the two numbers.
        things: what they count.
    """
    small, large = sizes
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        times, memory = apart.submit(work, small, large).result()
    rates = (f"{small / times[0]:,.0f} {things}/s", f"{large / times[1]:,.0f} {things}/s")
    return _worse_of(goal, times[1] / large / (times[0] / small), memory, 1, rates)


def _worse_of(
    goal: Goal, time_ratio: float, memory: Sequence[float], runs: int, speeds: tuple[str, str]
) -> Outcome:
    """Take the worse of the two ratios; memory and speeds are of the smaller and of the larger number."""
    memory_ratio = memory[1] / memory[0]
    theirs, ours = (f"{speed}, {one:,.0f} MB" for speed, one in zip(speeds, memory, strict=True))
    return Outcome(
        goal,
        max(time_ratio, memory_ratio),
        runs,
        ours,
        theirs,
        remark=f"time {time_ratio:.2f}, memory {memory_ratio:.2f}",
    )


def most_memory() -> float:
    """Megabytes of this process in its life; not ru_maxrss, which it has from the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def largest_worker() -> float:
    """The largest resident memory that a worker of Spark's below this process has had, in MB."""
    sizes = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"pyspark.daemon" in command and _is_below_us(status.parent):
                text = status.read_text()
                sizes.append(int(text.partition("VmHWM:")[2].split()[0]) / 1024)
        except (OSError, IndexError):
            continue  # it has just ended
    if not sizes:
        raise AssertionError("no worker of Spark's was found: no measurement")
    return max(sizes)


def _is_below_us(process: Path) -> bool:
    while process.name not in {"0", "1"}:
        if process.name == str(os.getpid()):
            return True
        process = Path("/proc") / process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
    return False
