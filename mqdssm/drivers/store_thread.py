"""Thread of a store, which performs operations in order.

Operations are repeated while the store's server is not reachable.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final, Protocol, TypeAlias

from mqdssm.drivers.measurements import Durations, OperationTimes
from mqdssm.engines.replication.operations import (
    Failed,
    HasObjects,
    ListObjects,
    ObjectRead,
    ObjectsListed,
    Operation,
    ReadObject,
    Result,
)
from mqdssm.engines.replication.plain_words import describe_plainly
from mqdssm.errors import DirectoryError, DirectoryNotConnected, MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import is_failure
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.store.damage_log import DamageLog

LookUp: TypeAlias = Callable[[Operation], Result]
"""Performs a reading operation for another thread than the engine's."""

log: Final = logging.getLogger(__name__)

RETRY_FIRST_S: Final = 0.1
"""Seconds before the first repetition; doubled for each further one."""
RETRY_MAX_S: Final = 15.0
"""Maximum seconds before a repetition: a returning server is noticed within 15 seconds."""
LOOKUP_S: Final = 5.0
"""Seconds that a lookup of another thread may wait."""
SILENT_S: Final = 10.0
"""Seconds without an answer after which a directory counts as unreachable (decision T143)."""
KNOWN_S: Final = 2.0
"""Seconds for which an answer shows that the directory is reachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    operation: Operation
    done: Callable[[Result], None]
    failed: Callable[[Exception], None]
    begin: Callable[[], bool] | None = None  # of a lookup: True if the caller still waits for it


class OperationPerformer(Protocol):
    """Object that performs operations: a `mqdssm.store.performer.Store`."""

    def perform(self, operation: Operation) -> Result:
        """Perform one operation.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """State of a store at one moment.

    Attributes:
        is_reachable: False while an operation waits to be repeated, and after a lookup that failed until an
            attempt succeeds; also while the directory has sent nothing to an operation for `SILENT_S`.
        waiting: operations that wait, without the current one.
        failures: attempts that failed because the directory could not be reached.
        problem: the error of the last attempt, and since when there was no answer; empty if the directory is
            reachable.
        durations: of the attempts that succeeded, by name of the operation.
    """

    is_reachable: bool
    waiting: int
    failures: int
    problem: str
    durations: Mapping[str, Durations]


class StoreThread:
    """Performs operations and look-ups for other threads without blocking a driver.

    Args:
        store: what performs them; its owner closes it.
        name: of the thread.
        retry_first_s: how long the first repetition waits.
        retry_max_s: how long the longest wait is.
        heard_at: returns when the directory sent anything last, in monotonic seconds: a long operation with
            many requests goes on. Without it, only the ends of operations count.
    """

    def __init__(
        self,
        store: OperationPerformer,
        name: str,
        *,
        retry_first_s: float = RETRY_FIRST_S,
        retry_max_s: float = RETRY_MAX_S,
        heard_at: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        self._store = store
        self._heard_at = heard_at
        self._retry_first_s = retry_first_s
        self._retry_max_s = retry_max_s
        self._jobs: Final[SimpleQueue[_Job | None]] = SimpleQueue()
        self._stopping: Final = Event()
        self._damage_log: Final = DamageLog()
        self._job: _Job | None = None
        self._wait: float | None = None  # before the next attempt, once one has failed
        self._down = False  # while an operation waits to be repeated
        self._lookup_failed = False  # since the last attempt that succeeded
        self._problem = ""  # of the last attempt that failed
        self._begun_at: float | None = None  # of the attempt under way
        self._answered_at = -math.inf  # when an attempt succeeded last
        self._failing_since: float | None = None  # seconds since 1970; None: the last attempt succeeded
        self._failures = 0
        self._times: Final = OperationTimes()
        self._on_performed: Callable[[Operation, Result], object] = lambda _operation, _result: None
        self._thread: Final = Thread(target=self._run, name=name, daemon=True)

    def watch(self, on_performed: Callable[[Operation, Result], object]) -> None:
        """Call a function with each operation that was performed and its result.

        The store's thread calls it, before it reports the result. Give it before the start.
        """
        self._on_performed = on_performed

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(
        self, operation: Operation, on_done: Callable[[Result], None], failed: Callable[[Exception], None]
    ) -> None:
        """Perform an operation, repeated if necessary.

        Then `on_done` or `failed` is called in the store's thread.

        Args:
            operation: what to perform.
            on_done: takes the result; `Failed` where the directory is damaged (decision R83).
            failed: takes an error that is no DirectoryError: a defect, nothing that waiting mends.
        """
        self._jobs.put(_Job(operation=operation, done=on_done, failed=failed))

    def state(self) -> StoreState:
        """Return the current state, without waiting; from any thread."""
        problem = self._describe_problem()
        return StoreState(
            is_reachable=not problem,
            waiting=self._jobs.qsize(),
            failures=self._failures,
            problem=problem,
            durations=self._times.copy(),
        )

    def check(self, wait_s: float = math.inf) -> None:
        """Ask the directory whether it answers, if no recent answer says so.

        The call is for other threads. It returns at the latest when `state` knows that there is no answer.

        Args:
            wait_s: return after so many seconds, also if nothing is known then.
        """
        silent_s = self._measure_silence()
        heard_at = max(self._answered_at, self._heard_at())
        if silent_s < SILENT_S and time.monotonic() - heard_at > KNOWN_S:
            with suppress(DirectoryError, MappingError):
                until_known_s = SILENT_S - silent_s + 0.1
                self._look_up(HasObjects(partition_id=PEC_PARTITION_ID), min(until_known_s, wait_s))

    def lookup(self, operation: Operation) -> Result:
        """Perform a reading operation once and return its result.

        The result comes within `LOOKUP_S`. The call is for other threads.

        Raises:
            DirectoryError: the directory cannot be reached, or is too busy.
        """
        return self._look_up(operation, LOOKUP_S)

    def _look_up(self, operation: Operation, wait_s: float) -> Result:
        if self._down or self._stopping.is_set() or self._measure_silence() >= SILENT_S:
            raise DirectoryNotConnected("the store cannot reach its directory now")
        future: Future[Result] = Future()
        begin = future.set_running_or_notify_cancel
        self._jobs.put(
            _Job(operation=operation, done=future.set_result, failed=future.set_exception, begin=begin)
        )
        try:
            return future.result(wait_s)
        except TimeoutError:
            future.cancel()
            raise DirectoryNotConnected("the store is too busy to look something up") from None

    def stop(self) -> None:
        """Stop after the current operation.

        Waiting lookups fail, waiting operations are not performed.
        """
        self._stopping.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()
        waiting = [self._job]
        with suppress(Empty):
            while True:
                waiting.append(self._jobs.get_nowait())
        for job in waiting:
            if job is not None and job.begin is not None and job.begin():
                job.failed(DirectoryNotConnected("the store is stopped"))

    def turn(self) -> float | None:
        """Attempt the current or the next operation once.

        The thread calls it, or a caller instead of a thread.

        Returns:
            Seconds until the operation is to be attempted again; None: it is done, or there is none.
        """
        if self._job is None:
            with suppress(Empty):
                self._job = self._jobs.get_nowait()
        job = self._job
        if job is None or (job.begin is not None and not job.begin()):
            self._job = None
            return None
        error = self._attempt(job)
        if error is None:
            self._job = self._wait = None
            return None
        wait = self._wait or self._retry_first_s
        self._wait = min(2 * wait, self._retry_max_s)
        log.warning("%s failed, and is repeated in %.1f s: %s", describe_plainly(job.operation), wait, error)
        return wait

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._job is None:
                self._job = self._jobs.get()
            wait = None if self._stopping.is_set() else self.turn()
            if wait is not None:
                self._stopping.wait(wait)

    def _measure_silence(self) -> float:
        """Return how long the attempt under way has had no answer; 0 if there is none."""
        begun_at = self._begun_at
        return 0.0 if begun_at is None else time.monotonic() - max(begun_at, self._heard_at())

    def _describe_problem(self) -> str:
        """Return why and since when the directory is unreachable; empty if it is not."""
        silent_s, since = self._measure_silence(), self._failing_since
        if silent_s >= SILENT_S:
            return f"it has not answered since {_format_time(since or time.time() - silent_s)}"
        if not self._down and not self._lookup_failed:
            return ""
        return self._problem if since is None else f"{self._problem} (no answer since {_format_time(since)})"

    def _attempt(self, job: _Job) -> DirectoryError | None:
        """Perform an operation and report its result.

        Returns an error if the operation is to be repeated.
        """
        begin = time.perf_counter()
        self._begun_at = time.monotonic()
        try:
            result = self._store.perform(job.operation)
        except DirectoryError as error:
            self._failures += 1
            self._problem = str(error)
            is_away = job.begin is None or isinstance(error, DirectoryNotConnected)
            if is_away and self._failing_since is None:
                self._failing_since = time.time() - self._measure_silence()
            if job.begin is None:
                self._down = True
                return error
            self._lookup_failed = is_away
            job.failed(error)
        except MappingError as error:
            if job.begin is not None:
                job.failed(error)
                return None
            self._note_answer()
            self._damage_log.report(job.operation, str(error))
            job.done(Failed(reason=str(error)))
        except Exception as error:  # noqa: BLE001  a defect of the store: the driver stops, and says so
            job.failed(error)
        else:
            self._note_answer()
            self._times.add(type(job.operation).__name__, time.perf_counter() - begin)
            self._on_performed(job.operation, result)
            job.done(result)
        finally:
            self._begun_at = None
        return None

    def _note_answer(self) -> None:
        """Note that the directory has answered."""
        self._down = self._lookup_failed = False
        self._failing_since = self._begun_at = None
        self._answered_at = time.monotonic()


def _format_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def read_object(
    look_up: LookUp,
    object_type: ObjectType,
    *,
    path_name: str | None = None,
    identifier: Guid | None = None,
) -> ObjectRead | None:
    """Read an object by its path name or identifier; None if it does not exist.

    Args:
        look_up: performs a reading operation, as `StoreThread.lookup`.
        object_type: its type.
        path_name: its path name, or None if the identifier names it.
        identifier: its GUID.

    Raises:
        DirectoryError: the directory cannot be read.
    """
    read = look_up(ReadObject(object_type=object_type, path_name=path_name, identifier=identifier))
    return read if isinstance(read, ObjectRead) and not is_failure(read.status) else None


def list_objects(
    look_up: LookUp, object_type: ObjectType, partition_id: Guid = PEC_PARTITION_ID, *, service: int = 0
) -> tuple[ObjectRead, ...]:
    """List the objects of a type in a partition.

    Args:
        look_up: performs a reading operation, as `StoreThread.lookup`.
        object_type: the type.
        partition_id: the partition; the enterprise's by default.
        service: only machines with one of these bits in PROPID_QM_SERVICE; 0 for all.

    Raises:
        DirectoryError: the directory cannot be read.
    """
    listed = look_up(ListObjects(object_type=object_type, partition_id=partition_id, service=service))
    return listed.objects if isinstance(listed, ObjectsListed) else ()
