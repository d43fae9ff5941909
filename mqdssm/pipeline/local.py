"""Local runner: small jobs in this process, others in worker processes.

The runner needs neither Java nor pyspark.
It starts processes itself: concurrent.futures loses all open pieces of work when one worker is killed, and
multiprocessing runs the caller's script again in every worker.

Signals during work in this process: the first signal requests a stop at a safe place.

Worker process of the local runner, on the side of its parent: start, requests, end.
"""

import contextlib
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Final, Never, Self, cast

from mqdssm.errors import ConfigError
from mqdssm.pipeline.runner import (
    ATTEMPTS,
    Job,
    OnDone,
    Results,
    StopRequest,
    WorkerFailed,
    without_collector,
)
from mqdssm.pipeline.worker import END_OF_WORK, GRACE_S, number_in, receive, send, send_number

END_WAIT_S: Final = GRACE_S + 2.0
"""Seconds for a worker to exit after the end of its input, before it is killed."""
_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mqdssm.pipeline.worker import main; main()"
)
_WITHHELD: Final = "MQDSSM_PASSWORD"
"""Variable that is removed from the environment of workers, which read passwords from a file."""
_SHOWN_CHARS: Final = 300


class WorkerDiedError(Exception):
    """The worker process has ended without an answer."""


class WorkerProcess:
    """Process that runs `mqdssm.pipeline.worker`.

    The process does not run the parent's script, so callers need no ``if __name__ == "__main__"``. Work and
    numbers go through standard input, so arguments and environment do not show them.
    """

    def __init__(self) -> None:
        """Start the process.

        Raises:
            OSError: the system cannot start it.
        """
        self._has_path = self._is_ready = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        environment = {name: value for name, value in os.environ.items() if name != _WITHHELD}
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own Python
                [sys.executable, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C at the terminal goes to the parent alone
            )
        except BaseException:
            self._errors.close()
            raise
        self._stdin = cast("BinaryIO", self._process.stdin)
        self._stdout = cast("BinaryIO", self._process.stdout)

    @property
    def pid(self) -> int:
        """ID of the process."""
        return self._process.pid

    def prepare(self, work: bytes) -> None:
        """Send a pickled work, before its first piece; for a further work after `finish`.

        Raises:
            WorkerDiedError: the process has ended.
        """
        self._is_ready = False
        try:
            if not self._has_path:
                self._stdin.write(pickle.dumps(sys.path))
                self._has_path = True
            send(self._stdin, work)
        except (OSError, ValueError) as error:
            raise WorkerDiedError(self._describe_end()) from error
        self._is_ready = True

    def ask(self, number: int) -> bytes:
        """Let the process do a piece of work, and wait for the answer.

        Returns:
            The answer, for `mqdssm.pipeline.runner.Results`.

        Raises:
            WorkerDiedError: the process has ended.
        """
        message = None
        with contextlib.suppress(OSError, ValueError):  # ValueError: `release` has closed the pipe
            send_number(self._stdin, number)
            message = receive(self._stdout)
        if message is None:
            raise WorkerDiedError(self._describe_end())
        return number_in(message)[1]

    def finish(self) -> bool:
        """Let the process close the resources of its work, and wait for it.

        Returns:
            True if another work may be sent; False if the process has ended.
        """
        message = None
        with contextlib.suppress(OSError, ValueError):  # ValueError: as in `ask`
            send_number(self._stdin, END_OF_WORK)
            message = receive(self._stdout)
        return message is not None and number_in(message)[0] == END_OF_WORK

    @property
    def is_alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    def release(self) -> None:
        """Close the input of the process, so that it ends.

        A process that has no work yet is killed.
        """
        if not self._is_ready:
            self._process.kill()  # `prepare` may still wait for it to read: the work may not fit into a pipe
            return
        with contextlib.suppress(OSError):
            self._stdin.close()

    def end(self, wait_s: float) -> None:
        """Wait until the process has ended, and kill it after `wait_s` seconds."""
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(wait_s, 0.0))
        finally:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Close the files of an ended process."""
        for file in (self._stdin, self._stdout, self._errors):
            with contextlib.suppress(OSError):
                file.close()

    def _describe_end(self) -> str:
        """Return the exit code or signal of the process, and its last line of stderr."""
        self.end(END_WAIT_S)
        code = self._process.returncode
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        words = ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            words = lines[-1][:_SHOWN_CHARS] if lines else ""
        return f"{how}: {words}" if words else how


SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
_Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def defer_signals(stop: StopRequest) -> Iterator[None]:
    """Defer signals until the context ends; the first one requests a stop.

    The handler of the signal is called at the end (decision M110).
    A second signal calls its handler at once. The first signal does so after `GRACE_S` seconds. A signal
    without a Python handler keeps its effect. Signals reach the main thread alone, so this does nothing in
    another thread.

    Args:
        stop: set by the first signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = _Waiting(stop)
    is_interrupted = False
    try:
        yield
    except KeyboardInterrupt:  # a handler was called already
        is_interrupted = True
        raise
    finally:
        waiting.end(is_interrupted=is_interrupted)


class _Waiting:
    """Signal handlers that are deferred to the end of a context.

    Args:
        stop: set by the first signal.
    """

    def __init__(self, stop: StopRequest) -> None:
        self._stop = stop
        self._first: int | None = None
        self._first_handler: _Handler | None = None
        self._timer: threading.Timer | None = None
        self._handlers: dict[int, _Handler] = {}
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._on_signal)

    def end(self, *, is_interrupted: bool) -> None:
        """Restore the handlers, and call the handler of the first signal.

        The handler is called again if its exception was lost, as in a finalizer of an object.

        Args:
            is_interrupted: True if the exception of a handler ends the context already.
        """
        self._put_back()
        if self._first_handler is not None and self._first is not None and not is_interrupted:
            self._first_handler(self._first, None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._first is None:
            self._first, self._first_handler = number, self._handlers.get(number)
            self._stop.set()
            self._timer = threading.Timer(GRACE_S, self._send_again, [number])
            self._timer.daemon = True
            self._timer.start()
            return
        handlers = self._put_back()
        if number in handlers:
            handlers[number](number, frame)

    def _send_again(self, number: int) -> None:
        """Send the signal again, to interrupt a system call of the main thread."""
        main = threading.main_thread().ident
        if not self._handlers or main is None:
            return
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, number)
        else:
            signal.raise_signal(number)

    def _put_back(self) -> dict[int, _Handler]:
        """Restore the handlers and return them.

        The result is empty if that was done before.
        """
        if self._timer is not None:
            self._timer.cancel()
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return handlers


log: Final = logging.getLogger(__name__)

_POLL_S: Final = 0.1
"""Interval between two checks of the stop request."""


class LocalRunner:
    """Runner on this machine; see `mqdssm.pipeline.runner.Runner`.

    A single piece, a small job, and every job of one worker run in this process: starting a worker costs
    0.5 s of processor time. Memory is bounded by the number of workers, each of which has one piece at a
    time. Signals that raise an exception in the caller's thread, as Ctrl-C does, stop the pieces at a safe
    place (decision M110). Workers end by themselves when this process is killed.

    As a context manager it keeps workers for the next job (decision M98), until the context ends. Otherwise
    they end with their job.

    Args:
        workers: number of processes; None: as many as the machine has cores and memory for.

    Raises:
        ConfigError: `workers` is less than one.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ConfigError("one worker at least is needed")
        self.workers: Final = workers or choose_workers()
        self._idle: _IdleWorkers | None = None

    def __enter__(self) -> Self:
        """Keep workers from now on."""
        self._idle = _IdleWorkers()
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers that were kept."""
        if self._idle is not None:
            self._idle.end()
            self._idle = None

    def concurrency(self, count: int, *, is_small: bool = False) -> int:
        """See `Runner`."""
        return 1 if is_small else min(self.workers, count)

    def run(self, job: Job, *, on_done: OnDone | None = None, stop: StopRequest | None = None) -> list[Any]:
        """Do the pieces of a job; see `Runner`.

        An error of an unknown class keeps its class if the job runs in this process.
        """
        stop = stop or StopRequest()
        callback = on_done or (lambda *_: None)
        if not job.names:
            return []
        count = self.concurrency(len(job.names), is_small=job.is_small)
        if count == 1:
            return _run_here(job, callback, stop)
        return _Pool(job, count, self._idle).run(callback, stop)


def _run_here(job: Job, on_done: OnDone, stop: StopRequest) -> list[Any]:
    """Do all pieces in this process."""
    results = []
    with without_collector(), defer_signals(stop):
        stop.check()
        with job.work.open(stop) as piece:
            for number in range(len(job.names)):
                stop.check()
                results.append(piece(number))
                on_done(number + 1, len(job.names))
    return results


class _IdleWorkers:
    """Worker processes between two jobs of a runner."""

    def __init__(self) -> None:
        self._workers: list[WorkerProcess] = []

    def take(self) -> WorkerProcess | None:
        """Remove a worker and return it; None if there is none."""
        while self._workers:
            worker = self._workers.pop()
            if worker.is_alive:
                return worker
            _end_workers([worker])
        return None

    def put(self, workers: Sequence[WorkerProcess]) -> None:
        """Keep workers that have finished their work."""
        self._workers += workers

    def end(self) -> None:
        """End all workers."""
        workers, self._workers = self._workers, []
        _end_workers(workers)


def _end_workers(workers: Sequence[WorkerProcess], threads: Sequence[threading.Thread] = ()) -> None:
    """Ask processes to end.

    Processes are killed after `END_WAIT_S` or on a second interrupt.

    Args:
        workers: the processes.
        threads: those that wait for the processes.
    """
    deadline = time.monotonic() + END_WAIT_S
    try:
        for worker in workers:
            worker.release()
        for worker in workers:
            worker.end(deadline - time.monotonic())
    finally:
        for worker in workers:
            worker.end(0.0)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for worker in workers:
            worker.close()


class _Pool:
    """Worker processes of one job.

    A thread of this process gives each worker one piece after the other.

    Args:
        job: pieces to do.
        count: number of processes.
        idle: processes of earlier jobs, and place for those of this one; None: they end with the job.
    """

    def __init__(self, job: Job, count: int, idle: _IdleWorkers | None = None) -> None:
        self._idle = idle
        self._finished: list[WorkerProcess] = []
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
            values = results.values()
            self._keep()
        finally:
            self._end()
        return values

    def _serve(self) -> None:
        """Give waiting pieces to a worker, until none waits.

        After a crash a new worker goes on.
        """
        worker: WorkerProcess | None = None
        try:
            while (number := self._take_next()) is not None:
                try:
                    worker = worker or self._start_worker()
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
                if self._idle is not None and worker.finish():
                    self._finished.append(worker)
                else:
                    worker.release()

    def _take_next(self) -> int | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._is_ended else None

    def _start_worker(self) -> WorkerProcess:
        with self._lock:
            if self._is_ended:
                raise WorkerDiedError("the work has ended")
            worker = (self._idle.take() if self._idle is not None else None) or WorkerProcess()
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

    def _keep(self) -> None:
        """Keep the processes that close their work within `END_WAIT_S` for the next job."""
        if self._idle is None:
            return
        deadline = time.monotonic() + END_WAIT_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        with self._lock:
            finished, self._finished = self._finished[:], []
            self._workers = [worker for worker in self._workers if worker not in finished]
        self._idle.put(finished)

    def _end(self) -> None:
        """End all processes that are not kept."""
        with self._lock:
            self._is_ended = True
        _end_workers(self._workers, self._threads)


def _deliver(number: int, answer: bytes, results: Results) -> None:
    results.add(number, answer)


def _raise(error: BaseException, _: Results) -> Never:
    raise error


WORKER_BYTES: Final = 256 * 1024 * 1024
"""Memory of a worker. A worker of an export takes up to 228 MB, for any number of objects."""
_ROOT: Final = Path("/")


def choose_workers(root: Path = _ROOT) -> int:
    """Return the number of workers: one a core, fewer if memory is short.

    There is at least one.

    Args:
        root: of the file system; another folder in tests.
    """
    return max(1, min(_count_cores(root), _measure_memory(root) // WORKER_BYTES))


def _count_cores(root: Path) -> int:
    # sched_getaffinity (Linux) returns the cores of this container or batch job
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read_text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        cores = min(cores, -(-int(quota) // int(period)))
    return cores


def _measure_memory(root: Path) -> int:
    """Return the free memory in bytes.

    If it is unknown, the result is as much as one worker a core needs.
    """
    limits = [WORKER_BYTES * (os.cpu_count() or 1)]
    for line in _read_text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            limits = [int(rest.split()[0]) * 1024]
    limit = _read_text(root / "sys/fs/cgroup/memory.max")
    used = _read_text(root / "sys/fs/cgroup/memory.current")
    if limit.isdecimal() and used.isdecimal():
        limits.append(int(limit) - int(used))
    return max(0, min(limits))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
