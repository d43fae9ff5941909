"""Thread-safe counters of events that were dropped, refused or noted."""

from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Final


class EventCounts:
    """Number of occurrences of each event, by a short constant text."""

    def __init__(self) -> None:
        self._counter: Final[Counter[str]] = Counter()
        self._lock: Final = Lock()

    def add(self, what: str) -> None:
        """Count one occurrence."""
        with self._lock:
            self._counter[what] += 1

    def seen(self) -> Mapping[str, int]:
        """Return a copy of all counts, without events that never happened."""
        with self._lock:
            return dict(self._counter)
