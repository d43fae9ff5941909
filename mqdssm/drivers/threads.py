"""Threads of drivers.

A thread keeps its error; counters and a limit of warnings serve several threads.
"""

import logging
import math
import time
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


class WarningLimit:
    """Limit of the warnings that strangers can cause in a period; thread-safe.

    Args:
        warnings_max: warnings in a period.
        period_s: seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        warnings_max: int = 20,
        period_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._warnings_max, self._period_s, self._clock = warnings_max, period_s, clock
        self._lock: Final = Lock()
        self._began = -math.inf
        self._number = 0

    def log(self, logger: logging.Logger, text: str, *values: object) -> None:
        """Log a warning, or nothing if there were too many; the last one says so."""
        with self._lock:
            now = self._clock()
            if now - self._began >= self._period_s:
                self._began, self._number = now, 0
            self._number += 1
            number = self._number
        if number < self._warnings_max:
            logger.warning(text, *values)
        elif number == self._warnings_max:
            logger.warning(text, *values)
            logger.warning("further warnings of this kind are left out for %g s", self._period_s)


class EventCounts:
    """Number of occurrences of each event, by a short constant text; thread-safe."""

    def __init__(self) -> None:
        self._counter: Final[Counter[str]] = Counter()
        self._lock: Final = Lock()

    def add(self, name: str) -> None:
        """Count one occurrence."""
        with self._lock:
            self._counter[name] += 1

    def copy(self) -> Mapping[str, int]:
        """Return a copy of all counts, without events that never happened."""
        with self._lock:
            return dict(self._counter)
