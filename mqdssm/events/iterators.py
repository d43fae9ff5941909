"""Read Directory Begin, Next and End.

See [MS-MQDSSM] 3.1.6.4-3.1.6.6, 3.1.1.2 and 3.1.1.3.
"""

from collections.abc import Iterator
from itertools import chain, count
from threading import Lock
from typing import Final, Generic, TypeVar, cast

from mqdssm.errors import DirectoryError, EndOfData, GenericDirectoryError
from mqdssm.model.base import DirectoryObject

E_co = TypeVar("E_co", bound=DirectoryObject, covariant=True)


class Handle(int, Generic[E_co]):
    """Handle of an iterator over elements of one kind ([MS-MQDSSM] 3.1.1.2).

    A directory never uses a handle again.
    """


_FIRST_HANDLE: Final = 1


class Iterators:
    """ReadDirectoryIteratorStateCollection ([MS-MQDSSM] 3.1.1.3), thread-safe.

    The state of an iteration is the stream of its objects; the server holds the objects not fetched yet.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count(_FIRST_HANDLE)
        self._running: dict[int, tuple[Lock, Iterator[DirectoryObject]]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, results: Iterator[E_co]) -> Handle[E_co]:
        """Add a search and fetch its first object (3.1.6.4).

        Errors of the search are therefore raised here.
        """
        first = next(results, None)
        objects = results if first is None else chain((first,), results)
        with self._lock:
            handle = Handle[E_co](next(self._numbers))
            self._running[handle] = (Lock(), _Closing(objects, results))
        return handle

    def next(self, handle: Handle[E_co]) -> E_co:
        """Return the next object ([MS-MQDSSM] 3.1.6.5).

        Raises:
            EndOfData: there are no more.
            GenericDirectoryError: no such iterator.
        """
        with self._lock:
            state = self._running.get(handle)
        if state is None:
            raise self._make_unknown_handle(handle)
        busy, objects = state
        with busy:
            obj = next(objects, None)
        if obj is None:
            raise EndOfData(f"iterator {handle} has no further objects")
        return cast("E_co", obj)

    def end(self, handle: int) -> None:
        """Discard an iterator ([MS-MQDSSM] 3.1.6.6).

        Raises:
            GenericDirectoryError: no such iterator.
        """
        with self._lock:
            state = self._running.pop(handle, None)
        if state is None:
            raise self._make_unknown_handle(handle)
        busy, objects = state
        with busy:
            close(objects)

    def end_all(self) -> None:
        """Discard all iterators."""
        for handle in list(self._running):
            try:
                self.end(handle)
            except GenericDirectoryError:
                continue  # ended by another thread meanwhile

    @staticmethod
    def _make_unknown_handle(handle: int) -> GenericDirectoryError:
        return GenericDirectoryError(f"there is no iterator {handle}: it was ended, or never begun")


class _Closing(Iterator[DirectoryObject]):
    """Iterator that closes its search."""

    def __init__(self, objects: Iterator[DirectoryObject], source: Iterator[DirectoryObject]) -> None:
        self._objects = objects
        self._source = source
        self._failure: DirectoryError | None = None

    def __next__(self) -> DirectoryObject:
        if self._failure is not None:
            raise self._failure  # a broken iteration must not look complete
        try:
            return next(self._objects)
        except StopIteration:
            raise
        except DirectoryError as error:
            self._failure = error
            raise
        except BaseException as error:  # Ctrl-C, too, ends the search
            self._failure = GenericDirectoryError(f"the iteration was broken off: {error!r}")
            raise

    def close(self) -> None:
        close(self._source)


def close(objects: Iterator[DirectoryObject]) -> None:
    """Close a generator, so that its search returns the connection."""
    closing = getattr(objects, "close", None)
    if closing is not None:
        closing()
