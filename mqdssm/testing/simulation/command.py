"""`make simulate`: many runs in several processes, and a summary."""

import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

from mqdssm.testing.session_simulation.run import simulate_sessions
from mqdssm.testing.simulation.fast_records import replace_constructors
from mqdssm.testing.simulation.run import RunReport, simulate
from mqdssm.testing.simulation.world import Trace

PROCESSES: Final = 2
_GARBAGE: Final = 200_000  # new objects before the garbage collector runs; most live to the end of a run
_SESSIONS: Final = "sessions: "


def replay(seed: int, *, is_of_sessions: bool = False) -> str:
    """Return the command that repeats a run."""
    return f"make simulate SEEDS=1 FIRST={seed} VERBOSE=1" + " SESSIONS=1" * is_of_sessions


def run_seeds(
    first: int, count: int, *, is_of_sessions: bool = False, trace: Trace | None = None
) -> Iterator[RunReport]:
    """Run a range of seeds in several processes.

    The reports are yielded in the order of the seeds. A single seed runs in this process, with its trace.
    """
    seeds, run = range(first, first + count), _run_sessions if is_of_sessions else _run
    if count == 1:
        yield run(first, trace)
        return
    with ProcessPoolExecutor(PROCESSES, initializer=_prepare_process) as pool:
        yield from pool.map(run, seeds)  # one at a time: some take fifty times as long as others


def _run(seed: int, trace: Trace | None = None) -> RunReport:
    """Run the enterprise of a seed, then its sessions."""
    report, sessions = simulate(seed, trace), _run_sessions(seed, trace)
    violation = report.violation or sessions.violation
    steps = report.steps + sessions.steps
    return replace(report, violation=violation, steps=steps, counts=report.counts | sessions.counts)


def _run_sessions(seed: int, trace: Trace | None = None) -> RunReport:
    """Run the sessions of a seed; names and violations say that they are theirs."""
    report = simulate_sessions(seed, trace)
    counts = {_SESSIONS + name: count for name, count in report.counts.items()}
    return replace(report, violation=report.violation and _SESSIONS + report.violation, counts=counts)


def main(seeds: int, first: int, *, verbose: bool, is_of_sessions: bool = False) -> int:
    """Run seeds; print violations and a summary.

    Each violation comes with the command that repeats it.

    Args:
        seeds: how many.
        first: the first one.
        verbose: print the trace of a single seed, or a line for each seed; and the counts.
        is_of_sessions: run the sessions of the seeds alone, without enterprises.

    Returns:
        The exit code: 1 if there was a violation.
    """
    _suppress_log()
    begun = time.monotonic()
    violations = 0
    total: Counter[str] = Counter()
    trace = _tell if verbose else None
    for report in run_seeds(first, seeds, is_of_sessions=is_of_sessions, trace=trace):
        total.update(report.counts)
        total["requests"] += report.requests
        if report.violation:
            violations += 1
            command = replay(report.seed, is_of_sessions=report.violation.startswith(_SESSIONS))
            _tell(f"seed {report.seed}: {report.violation}\n  see it: {command}")
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
    _suppress_log()
    replace_constructors()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _suppress_log() -> None:
    """Keep warnings of simulated servers off the terminal.

    Faults make hundreds of them.
    """
    logging.getLogger("mqdssm").addHandler(logging.NullHandler())


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
