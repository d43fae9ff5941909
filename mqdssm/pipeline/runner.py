"""Protocol of runners, which do numbered pieces of work.

The pieces run in this process, in other processes, or on Spark.
"""

import contextlib
import gc
import pickle
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from mqdssm.errors import MqdssmError

T = TypeVar("T")

ATTEMPTS: Final = 4
"""Number of attempts at a piece of work whose workers crash; the default of ``spark.task.maxFailures``."""

Piece = Callable[[int], Any]
"""Function that does the piece of work of a number. Its result is pickled."""
OnDone = Callable[[int, int], None]
"""Call-back with the number of finished pieces and the number of all pieces."""


class WorkerFailed(MqdssmError):  # noqa: N818  as SparkFailed
    """A worker crashed `ATTEMPTS` times, or raised an error that is no `MqdssmError`."""


class Stopped(MqdssmError):  # noqa: N818  no error of its own
    """The work was stopped by a `StopRequest`.

    If another piece failed, its error is raised instead.
    """


class StopRequest:
    """Request to stop.

    A piece of work checks it at places where it can safely end.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Request the stop. Any thread may call this."""
        self._event.set()

    def set_failed(self, number: int, answer: bytes) -> None:  # noqa: ARG002  see the class of Spark
        """Request the stop because a piece failed.

        Args:
            number: of the piece.
            answer: of the piece, for `Results.add`.
        """
        self.set()

    @property
    def is_set(self) -> bool:
        """True if the stop was requested."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise `Stopped` if the stop was requested.

        Raises:
            Stopped: the stop was requested.
        """
        if self.is_set:
            raise Stopped("the work was stopped")

    def checking(self, values: Iterable[T]) -> Iterator[T]:
        """Yield the values, and check the request before each value.

        Raises:
            Stopped: the stop was requested.
        """
        for value in values:
            self.check()
            yield value


class Work(Protocol):
    """Work of a job, which is pickled into every worker.

    The object holds no secret, and its class is defined at module level.
    """

    def open(self, stop: StopRequest) -> AbstractContextManager[Piece]:
        """Open the resources of a worker once, and yield the function that does a piece.

        Args:
            stop: pieces call its `check` where they can safely end.
        """


@dataclass(frozen=True, slots=True)
class Calls:
    """`Work` that needs no resources.

    Attributes:
        do: does the piece of a number, and calls the stop's `check` where the piece can safely end.
    """

    do: Callable[[int, StopRequest], Any]

    @contextlib.contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        """See `Work`."""
        yield lambda number: self.do(number, stop)


@dataclass(frozen=True, slots=True)
class Job:
    """All pieces of one kind of work.

    Attributes:
        work: does the pieces.
        names: of the pieces, for messages; the index of a name is the number of the piece.
        is_small: True if starting a worker costs more than all pieces together.
    """

    work: Work
    names: tuple[str, ...]
    is_small: bool = False


class Runner(Protocol):
    """Protocol of an engine that does the pieces of a job."""

    def concurrency(self, count: int, *, is_small: bool = False) -> int:
        """Return the number of pieces that are done at the same time.

        Args:
            count: number of pieces of a job.
            is_small: see `Job`.
        """

    def run(self, job: Job, *, on_done: OnDone | None = None, stop: StopRequest | None = None) -> list[Any]:
        """Do all pieces of a job.

        A piece whose worker crashes is given to another worker, up to `ATTEMPTS` times. An error that a piece
        raises is final: no further piece begins, and running pieces are stopped.

        Args:
            job: pieces to do.
            on_done: called in the calling thread, or on Spark in another one, when pieces have finished.
            stop: ends the work early when another thread sets it.

        Returns:
            Results of the pieces, in the order of their numbers.

        Raises:
            WorkerFailed: a worker crashed too often, or raised an error of an unknown class.
            Stopped: `stop` was set.
            MqdssmError: any error of a piece, with its class and attributes.
        """


@contextlib.contextmanager
def run_in_background(target: Callable[[threading.Event], None]) -> Iterator[None]:
    """Call a function in another thread while the block runs.

    Args:
        target: the function; it has to return when its event is set, at the end of the block.
    """
    ended = threading.Event()
    thread = threading.Thread(target=target, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Switch the cyclic garbage collector off.

    The collector costs much time, and pieces make no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def perform_pieces(
    work: Work, numbers: Iterable[int], stop: StopRequest
) -> Generator[tuple[int, bytes], None, None]:
    """Do pieces one after the other, in a worker.

    An error is an answer too, and ends the iteration. Only crashes are tried again.

    Args:
        work: does the pieces.
        numbers: of the pieces.
        stop: given to the work.

    Yields:
        The number of each piece, and its answer for `Results.add`.
    """
    with without_collector(), ExitStack() as opened:
        piece: Piece | None = None
        for number in numbers:
            try:
                stop.check()
                if piece is None:
                    piece = opened.enter_context(work.open(stop))
                answer = pickle.dumps((piece(number), None))
            except Exception as error:  # noqa: BLE001  every error is sent to the parent
                answer = pickle.dumps((None, _make_portable(error)))
                if not isinstance(error, Stopped):
                    stop.set_failed(number, answer)  # on Spark this also stops the other workers
                yield number, answer
                return
            yield number, answer


class Results:
    """Results of the pieces of a job.

    Args:
        count: number of pieces.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._values: dict[int, Any] = {}
        self._stopped: Stopped | None = None

    @property
    def done(self) -> int:
        """Number of the pieces that have answered."""
        return len(self._values)

    @property
    def is_complete(self) -> bool:
        """True if all pieces have answered."""
        return self.done == self._count

    def add(self, number: int, answer: bytes) -> None:
        """Store the answer of a piece.

        Raises:
            MqdssmError: the piece failed. `Stopped` is kept for `values`, as it only follows another error.
        """
        # from a worker of this run
        value, error = pickle.loads(answer)  # noqa: S301
        if isinstance(error, Stopped):
            self._stopped = self._stopped or error
        elif error is not None:
            raise error
        self._values[number] = value

    def values(self) -> list[Any]:
        """Return the results of all pieces, in the order of their numbers.

        Raises:
            Stopped: a piece was stopped, and none failed.
        """
        if self._stopped is not None:
            raise self._stopped
        return [self._values[number] for number in range(self._count)]


def _make_portable(error: Exception) -> MqdssmError:
    """Return an error that can be pickled.

    An `MqdssmError` keeps its class and its attributes.
    """
    if not isinstance(error, MqdssmError):
        return WorkerFailed(f"a worker failed: {type(error).__name__}: {error}")
    with contextlib.suppress(Exception):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  made one call before
        if type(again) is type(error) and str(again) == str(error):
            return error
    return MqdssmError(f"{type(error).__name__}: {error}")
