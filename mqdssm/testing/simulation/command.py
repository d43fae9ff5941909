"""`make simulate`: many runs in several processes, and a summary."""

import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from mqdssm.testing.simulation.fast_records import speed_up_records
from mqdssm.testing.simulation.run import RunReport, simulate

PROCESSES: Final = 2
_CHUNK: Final = 4  # seeds that a process takes at a time
_GARBAGE: Final = 200_000  # new objects before the garbage collector runs; most live to the end of a run


def replay(seed: int) -> str:
    """Return the command that repeats a run."""
    return f"make simulate SEEDS=1 FIRST={seed} VERBOSE=1"


def run_seeds(first: int, count: int) -> Iterator[RunReport]:
    """Run a range of seeds in several processes.

    The reports are yielded in the order of the seeds.
    """
    seeds = range(first, first + count)
    if count == 1:
        yield simulate(first)
        return
    with ProcessPoolExecutor(PROCESSES, initializer=_prepare_process) as pool:
        yield from pool.map(simulate, seeds, chunksize=_CHUNK)


def main(seeds: int, first: int, *, verbose: bool) -> int:
    """Run seeds; print violations and a summary.

    Each violation comes with the command that repeats it.

    Args:
        seeds: how many.
        first: the first one.
        verbose: print the trace of a single seed, or a line for each seed; and the counts.

    Returns:
        The exit code: 1 if there was a violation.
    """
    _silence_log()
    begun = time.monotonic()
    violations = 0
    total: Counter[str] = Counter()
    reports = iter([simulate(first, _tell)]) if verbose and seeds == 1 else run_seeds(first, seeds)
    for report in reports:
        total.update(report.counts)
        total["requests"] += report.requests
        if report.violation:
            violations += 1
            _tell(f"seed {report.seed}: {report.violation}\n  see it: {replay(report.seed)}")
        elif verbose:
            summary = f"{report.steps} steps, {report.simulated_s:.0f} s, {report.requests} requests"
            _tell(f"seed {report.seed}: {summary}")
    if verbose:
        for name, number in sorted(total.items()):
            _tell(f"  {number:9d}  {name}")
    minutes = (time.monotonic() - begun) / 60
    _tell(f"{seeds} seeds, {violations} violations, {seeds / minutes:.0f} seeds per minute")
    return 1 if violations else 0


def _prepare_process() -> None:
    """Prepare a process of the pool: no log, faster records, rare collections."""
    _silence_log()
    speed_up_records()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _silence_log() -> None:
    """Keep warnings of simulated servers off the terminal.

    Faults make hundreds of them.
    """
    logging.getLogger("mqdssm").addHandler(logging.NullHandler())


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
