"""Runner: does numbered pieces of work, in this process, in processes of its own, or on Spark."""

import contextlib
import gc
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from mqdssm.errors import MqdssmError

T = TypeVar("T")

ATTEMPTS: Final = 4
"""Number of workers that a piece of work is given to while each of them crashes; Spark's own number."""

Piece = Callable[[int], Any]
"""Does the piece of work of a number. Its result is pickled."""
OnDone = Callable[[int, int], None]
"""Receives the number of finished pieces and the number of all pieces."""


class WorkerFailed(MqdssmError):  # noqa: N818  as SparkFailed
    """A worker crashed again and again, or raised an error that no one foresaw."""


class Stopped(MqdssmError):  # noqa: N818  no error of its own
    """The work was stopped from outside. If another piece failed, its error is the one to show."""


class StopRequest:
    """A request to stop, which a piece of work looks for at places where it can safely end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Request the stop. Any thread may call this."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """True if the stop was requested."""
        return self._event.is_set()

    def check(self) -> None:
        """End here if the stop was requested.

        Raises:
            Stopped: it was.
        """
        if self.is_set:
            raise Stopped("the work was stopped")

    def checking(self, values: Iterable[T]) -> Iterator[T]:
        """Yield the values, and end before the next one if the stop was requested.

        Raises:
            Stopped: it was.
        """
        for value in values:
            self.check()
            yield value


class Work(Protocol):
    """Pieces of work, as workers need to know them.

    The object is pickled into every worker, so it holds no secret, and its class is one of a module.
    """

    def open(self, stop: StopRequest) -> AbstractContextManager[Piece]:
        """Open what a worker needs for all of its pieces, once.

        Args:
            stop: pieces call its `check` where they can safely end.
        """


@dataclass(frozen=True, slots=True)
class Calls:
    """Work whose pieces need nothing opened (`Work`).

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
        work: what is to be done.
        names: of the pieces, for messages; a piece's place in it is its number.
        is_small: True if starting a worker costs more than all pieces together.
    """

    work: Work
    names: tuple[str, ...]
    is_small: bool = False


class Runner(Protocol):
    """Does the pieces of a job, somewhere."""

    def concurrency(self, count: int, *, is_small: bool = False) -> int:
        """Return the number of pieces that are done at the same time.

        Args:
            count: number of pieces of a job.
            is_small: as of the job.
        """

    def run(self, job: Job, *, on_done: OnDone | None = None, stop: StopRequest | None = None) -> list[Any]:
        """Do all pieces of a job.

        A piece whose worker crashes is given to another one, `ATTEMPTS` times in all. An error that a piece
        raises is final: no further piece begins, and those that run are stopped.

        Args:
            job: what is to be done.
            on_done: called in the calling thread, or on Spark in another one, when pieces have finished.
            stop: ends the work early when it is set, from another thread.

        Returns:
            What the pieces returned, in their order.

        Raises:
            WorkerFailed: a worker crashed too often, or raised an error of no known class.
            Stopped: `stop` was set.
            MqdssmError: any error of a piece, with its class and attributes.
        """


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Switch the garbage collector off: pieces make no cycles, and looking for them costs a lot."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def answers(work: Work, numbers: Iterable[int], stop: StopRequest) -> Iterator[tuple[int, bytes]]:
    """Do pieces one after the other, in a worker.

    An error is an answer, and the last one: trying again is for crashes.

    Args:
        work: what is to be done.
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
            except Exception as error:  # noqa: BLE001  whatever it is, it is told
                yield number, pickle.dumps((None, _portable(error)))
                return
            yield number, answer


class Results:
    """What the pieces of a job returned.

    Args:
        count: of the pieces.
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
        """Take the answer of a piece.

        Raises:
            MqdssmError: the piece failed. `Stopped` is kept for later: it only follows another error.
        """
        # what a worker of ours made in this very run
        value, error = pickle.loads(answer)  # noqa: S301
        if isinstance(error, Stopped):
            self._stopped = self._stopped or error
        elif error is not None:
            raise error
        self._values[number] = value

    def values(self) -> list[Any]:
        """Return the values of all pieces, in their order.

        Raises:
            Stopped: a piece was stopped, and none failed.
        """
        if self._stopped is not None:
            raise self._stopped
        return [self._values[number] for number in range(self._count)]


def _portable(error: Exception) -> MqdssmError:
    """The error as one that survives pickling, with its class and attributes where it is one of ours."""
    if not isinstance(error, MqdssmError):
        return WorkerFailed(f"a worker failed: {type(error).__name__}: {error}")
    with contextlib.suppress(Exception):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  made one call before
        if type(again) is type(error) and str(again) == str(error):
            return error
    return MqdssmError(f"{type(error).__name__}: {error}")
