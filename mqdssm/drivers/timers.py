"""Named timers, and the clock of an engine."""

import time
from collections.abc import Callable
from typing import Final


def steady_clock() -> Callable[[], float]:
    """Return a clock of seconds since 1970 that never goes backwards, even if the system clock does."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


class Timers:
    """Named timers with their deadlines. Not thread-safe."""

    def __init__(self) -> None:
        self._due: Final[dict[str, float]] = {}

    def start(self, name: str, at: float) -> None:
        """Start or restart a timer."""
        self._due[name] = at

    def stop(self, name: str) -> None:
        """Stop a timer, if it runs."""
        self._due.pop(name, None)

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next timer expires; None if no timer runs."""
        first = min(self._due.values(), default=None)
        return None if first is None else max(0.0, first - now)

    def take_due(self, now: float) -> str | None:
        """Stop the timer that expired first and return its name; None if none has expired."""
        name = min(self._due, key=self._due.__getitem__, default=None)
        if name is None or self._due[name] > now:
            return None
        del self._due[name]
        return name
