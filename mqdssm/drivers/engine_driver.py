"""Loop of all drivers in threads.

Events and timers go into an engine, and its actions are performed.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Final, Generic, TypeVar

from mqdssm.drivers.measurements import RecentNotes
from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired

log: Final = logging.getLogger(__name__)

E = TypeVar("E")


def make_steady_clock() -> Callable[[], float]:
    """Return a clock of seconds since 1970 that never goes backwards.

    The system clock may go backwards.
    """
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
        """Stop the timer that expired first and return its name.

        None if none has expired.
        """
        first = min(self._due.values(), default=None)
        if first is None or first > now:
            return None
        name = next(name for name, due in self._due.items() if due == first)
        del self._due[name]
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """Question whether the driver still processes events."""

    on_answer: Callable[[], object]


class EngineDriver(Generic[E]):
    """Base of drivers, which performs the actions of an engine.

    Events and expired timers are passed to the engine.

    A subclass enters a function in `performers` for each of its engine's own actions.

    Args:
        step: the engine's: processes an event at a time in seconds since 1970, returns the actions in order.
        clock: seconds since 1970 that never go backwards; None: `make_steady_clock`.

    Attributes:
        counts: what was dropped, or noted by the engine.
        notes: the last notes of the engine.
        performers: the function that performs the actions of a type.
    """

    def __init__(
        self, step: Callable[[Any, float], Iterable[object]], clock: Callable[[], float] | None
    ) -> None:
        self.counts: Final = EventCounts()
        self.notes: Final = RecentNotes()
        self._step = step
        self._clock: Final = clock or make_steady_clock()
        self._stopping: Final = Event()
        self._events: Final[SimpleQueue[E | Exception | _Probe | None]] = SimpleQueue()
        self._timers: Final = Timers()
        self.performers: Final[dict[type, Callable[..., object]]] = {
            StartTimer: lambda action: self._timers.start(action.name, self._clock() + action.after_s),
            StopTimer: lambda action: self._timers.stop(action.name),
            Note: self._note,
        }

    def stop(self) -> None:
        """Let the driver end after its current work; from any thread."""
        self._stopping.set()
        self._events.put(None)

    def probe(self, on_answer: Callable[[], object]) -> None:
        """Ask whether the driver still processes events; from any thread.

        Args:
            on_answer: called in the driver's thread, when it has processed all earlier events.
        """
        self._events.put(_Probe(on_answer=on_answer))

    def wait(self) -> float | None:
        """Return the seconds until a timer expires; None if no timer runs."""
        return self._timers.wait(self._clock())

    def take(self, event: E | TimerFired) -> None:
        """Pass an event to the engine and perform its actions."""
        for action in self._step(event, self._clock()):
            self.perform(action)

    def perform(self, action: object) -> None:
        """Perform one action of the engine."""
        self.performers[type(action)](action)

    def take_next(self, timeout_s: float | None) -> bool:
        """Take the next waiting event.

        Args:
            timeout_s: how long to wait for one; None: until there is one.

        Returns:
            True if there was one.

        Raises:
            Exception: it was put in the place of an event.
        """
        event = None
        if timeout_s == 0 and self._events.empty():
            return False
        with suppress(Empty):
            event = self._events.get(timeout=timeout_s) if timeout_s != 0 else self._events.get_nowait()
        if isinstance(event, Exception):
            raise event
        if isinstance(event, _Probe):
            event.on_answer()
        elif event is not None:
            self.take(event)
        return event is not None

    def take_timer(self) -> bool:
        """Take the timer that expired first; True if one has expired."""
        name = self._timers.take_due(self._clock())
        if name is not None:
            self.take(TimerFired(name=name))
        return name is not None

    def _note(self, action: Note) -> None:
        self.counts.add(action.what)
        self.notes.add(action.what, action.detail, self._clock(), is_warning=action.is_warning)
        log.log(logging.WARNING if action.is_warning else logging.INFO, "%s: %s", action.what, action.detail)

    def _drop(self, why: str, detail: str) -> None:
        self.counts.add(f"dropped: {why}")
        log.info("a message is dropped: %s (%s)", why, detail)
