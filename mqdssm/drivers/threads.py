"""Threads of drivers.

A thread keeps its error; counters serve several threads.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import Final

log: Final = logging.getLogger(__name__)


class WorkerThread:
    """Daemon thread that keeps the error with which its work ended.

    Args:
        work: what it does.
        name: of the thread, in the log.
        on_failure: called after an error, which is logged and kept by then.
    """

    def __init__(
        self, work: Callable[[], object], name: str, *, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self._work, self._on_failure = work, on_failure
        self._failure: Exception | None = None
        self._thread: Final = Thread(target=self._run, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        """True while the thread works."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the work."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the work, if it was started.

        Raises:
            Exception: the error with which the work ended; once.
        """
        if self._thread.ident is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            log.critical("%s has stopped", self._thread.name, exc_info=True)
            self._failure = error
            self._on_failure()


class EventCounts:
    """Number of occurrences of each event, by a short constant text; thread-safe."""

    def __init__(self) -> None:
        self._counter: Final[Counter[str]] = Counter()
        self._lock: Final = Lock()

    def add(self, name: str) -> None:
        """Count one occurrence."""
        with self._lock:
            self._counter[name] += 1

    def seen(self) -> Mapping[str, int]:
        """Return a copy of all counts, without events that never happened."""
        with self._lock:
            return dict(self._counter)
