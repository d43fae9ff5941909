"""Local runner: small jobs in this process, others in worker processes. No Java, no pyspark.

It starts processes itself: concurrent.futures loses all open pieces of work when one worker is killed, and
multiprocessing runs the caller's script again in every worker.
"""

import logging
import os
import pickle
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Never

from mqdssm.errors import ConfigError
from mqdssm.pipeline.interrupts import deferred
from mqdssm.pipeline.processes import END_WAIT_S, WorkerDiedError, WorkerProcess
from mqdssm.pipeline.runner import (
    ATTEMPTS,
    Job,
    OnDone,
    Results,
    StopRequest,
    WorkerFailed,
    without_collector,
)

log: Final = logging.getLogger(__name__)

_POLL_S: Final = 0.1
"""Interval between two checks of the stop request."""


class LocalRunner:
    """Runner on this machine; see `mqdssm.pipeline.runner.Runner`.

    A single piece, a small job, and every job of one worker run in this process: starting a worker costs
    0.5 s of processor time. Memory is bounded by the number of workers, each of which has one piece at a
    time. Signals that raise an exception in the caller's thread, as Ctrl-C does, stop the pieces at a safe
    place (decision M110). Workers end by themselves when this process is killed.

    Args:
        workers: number of processes; None: as many as the machine has cores and memory for.

    Raises:
        ConfigError: `workers` is less than one.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ConfigError("one worker at least is needed")
        self.workers: Final = workers or default_workers()

    def concurrency(self, count: int, *, is_small: bool = False) -> int:
        """See `Runner`."""
        return 1 if is_small else min(self.workers, count)

    def run(self, job: Job, *, on_done: OnDone | None = None, stop: StopRequest | None = None) -> list[Any]:
        """See `Runner`. An error of an unknown class keeps its class if the job runs in this process."""
        stop = stop or StopRequest()
        done = on_done or (lambda *_: None)
        if not job.names:
            return []
        count = self.concurrency(len(job.names), is_small=job.is_small)
        if count == 1:
            return _run_here(job, done, stop)
        return _Pool(job, count).run(done, stop)


def _run_here(job: Job, on_done: OnDone, stop: StopRequest) -> list[Any]:
    """Do all pieces in this process."""
    found = []
    with without_collector(), deferred(stop):
        stop.check()
        with job.work.open(stop) as piece:
            for number in range(len(job.names)):
                stop.check()
                found.append(piece(number))
                on_done(number + 1, len(job.names))
    return found


class _Pool:
    """Worker processes of one job, each with a thread here that gives it one piece after the other.

    Args:
        job: pieces to do.
        count: number of processes.
    """

    def __init__(self, job: Job, count: int) -> None:
        self._names = job.names
        self._work = pickle.dumps(job.work)
        self._waiting = deque(range(len(job.names)))
        self._crashes: Counter[int] = Counter()
        self._answers: queue.SimpleQueue[Callable[[Results], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: list[WorkerProcess] = []
        self._is_ended = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]

    def run(self, on_done: OnDone, stop: StopRequest) -> list[Any]:
        """Do all pieces and end the processes; return the results in order."""
        results = Results(len(self._names))
        try:
            for thread in self._threads:
                thread.start()
            while not results.is_complete:
                stop.check()
                try:
                    deliver = self._answers.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                deliver(results)
                on_done(results.done, len(self._names))
        finally:
            self._end()
        return results.values()

    def _serve(self) -> None:
        """Give waiting pieces to a worker, and to a new worker after a crash, until none waits."""
        worker: WorkerProcess | None = None
        try:
            while (number := self._next()) is not None:
                try:
                    worker = worker or self._started()
                    answer = worker.ask(number)
                except WorkerDiedError as died:
                    worker = None
                    self._try_again(number, str(died))
                else:
                    self._answers.put(partial(_deliver, number, answer))
        except BaseException as error:  # noqa: BLE001  raised in the caller's thread
            self._answers.put(partial(_raise, error))
        finally:
            if worker is not None:
                worker.release()

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._is_ended else None

    def _started(self) -> WorkerProcess:
        with self._lock:
            if self._is_ended:
                raise WorkerDiedError("the work has ended")
            worker = WorkerProcess()
            self._workers.append(worker)
        worker.prepare(self._work)
        return worker

    def _try_again(self, number: int, why: str) -> None:
        """Queue a piece again whose worker has crashed.

        Raises:
            WorkerFailed: the workers of this piece crashed too often.
        """
        with self._lock:
            if self._is_ended:
                return
            self._crashes[number] += 1
            crashes = self._crashes[number]
            self._waiting.appendleft(number)
        name = self._names[number]
        if crashes >= ATTEMPTS:
            raise WorkerFailed(f"{name} failed: its worker crashed {crashes} times, the last time {why}")
        log.warning("a worker crashed at %s (%s): another one goes on", name, why)

    def _end(self) -> None:
        """Ask all processes to end; kill them after `END_WAIT_S` or on a second interrupt."""
        with self._lock:
            self._is_ended = True
        deadline = time.monotonic() + END_WAIT_S
        try:
            for worker in self._workers:
                worker.release()
            for worker in self._workers:
                worker.end(deadline - time.monotonic())
        finally:
            for worker in self._workers:
                worker.end(0.0)
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()
            for worker in self._workers:
                worker.close()


def _deliver(number: int, answer: bytes, results: Results) -> None:
    results.add(number, answer)


def _raise(error: BaseException, _: Results) -> Never:
    raise error


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
