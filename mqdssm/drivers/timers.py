"""Named timers, and the clock of an engine."""

import time
from collections.abc import Callable
from typing import Final


def steady_clock() -> Callable[[], float]:
    """A clock that shows seconds since 1970 and never goes backwards, whatever is done to the system's."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


class Timers:
    """What runs out when. Not thread-safe."""

    def __init__(self) -> None:
        self._due: Final[dict[str, float]] = {}

    def start(self, name: str, at: float) -> None:
        """Start a timer, or start it anew."""
        self._due[name] = at

    def stop(self, name: str) -> None:
        """Stop a timer, if it runs."""
        self._due.pop(name, None)

    def wait(self, now: float) -> float | None:
        """Seconds until the next one runs out; None: none runs."""
        first = min(self._due.values(), default=None)
        return None if first is None else max(0.0, first - now)

    def take_due(self, now: float) -> str | None:
        """Stop the timer that ran out first and name it; None: none has."""
        name = min(self._due, key=self._due.__getitem__, default=None)
        if name is None or self._due[name] > now:
            return None
        del self._due[name]
        return name
