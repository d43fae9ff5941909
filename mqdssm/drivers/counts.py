"""Counting what was dropped, refused or noted, from several threads."""

from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Final


class EventCounts:
    """How often each thing happened, by a short constant text."""

    def __init__(self) -> None:
        self._counter: Final[Counter[str]] = Counter()
        self._lock: Final = Lock()

    def add(self, what: str) -> None:
        """Count one."""
        with self._lock:
            self._counter[what] += 1

    def seen(self) -> Mapping[str, int]:
        """A copy of all numbers; what never happened is not among them."""
        with self._lock:
            return dict(self._counter)
