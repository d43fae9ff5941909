"""Measurements of drivers for people and metrics.

Messages, durations of operations, and notes are measured.

All classes are thread-safe. What they keep is bounded.
"""

import time
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple

NOTES_MAX: Final = 50
"""Notes that are kept, of warnings and of others each."""
NOTE_CHARS_MAX: Final = 500
"""Characters of a note's detail that are kept; other machines may send parts of details."""
SENDERS_MAX: Final = 4096
"""Machines whose last message is remembered; the ones that were silent for the longest time are forgotten."""
DURATION_LIMITS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper limits of the classes of durations, in seconds; a last class has no limit."""


class MessageOutcome(StrEnum):
    """Outcome of sending or receiving one replication message."""

    SENT = "sent"
    """The queue manager has accepted the message."""
    NOT_SENT = "not sent"
    """The message could not be made, or the queue manager has no room for it."""
    REFUSED = "refused"
    """A message of this server came back with a negative acknowledgement."""
    RECEIVED = "received"
    """The engine gets the message."""
    DROPPED = "dropped"
    """The message was not accepted: its sender, class or octets are wrong."""


class CountedMessage(NamedTuple):
    """Kind of messages that are counted together.

    Attributes:
        message_type: name of the class of the message, as `SyncRequestMessage`; "unknown" if it has none.
        outcome: what became of the message.
    """

    message_type: str
    outcome: MessageOutcome


class MessageCounts:
    """Numbers of messages by type and outcome, and when each machine was heard last."""

    def __init__(self) -> None:
        self._counts: Final[Counter[CountedMessage]] = Counter()
        self._heard: Final[OrderedDict[str, float]] = OrderedDict()
        self._lock: Final = Lock()

    def add(self, message: object, outcome: MessageOutcome) -> None:
        """Count one message; None is a message that could not be decoded."""
        name = "unknown" if message is None else type(message).__name__
        with self._lock:
            self._counts[CountedMessage(name, outcome)] += 1

    def record_message(self, machine_name: str, now: float) -> None:
        """Remember the time of a message from a machine, in seconds since 1970."""
        key = machine_name.casefold()
        with self._lock:
            self._heard[key] = now
            self._heard.move_to_end(key)
            if len(self._heard) > SENDERS_MAX:
                self._heard.popitem(last=False)

    def copy(self) -> Mapping[CountedMessage, int]:
        """Return a copy of all counts."""
        with self._lock:
            return dict(self._counts)

    def find_last_heard(self, machine_name: str) -> float | None:
        """Return when a machine sent its last message, in seconds since 1970.

        None if it sent none since the start.
        """
        with self._lock:
            return self._heard.get(machine_name.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentNote:
    """Note for operators, with its time.

    Attributes:
        at: seconds since 1970.
        summary: a short constant text.
        detail: about which message or object.
        is_warning: True if an operator has to do something about it.
        count: how often it came in a row.
    """

    at: float
    summary: str
    detail: str
    is_warning: bool
    count: int = 1


class RecentNotes:
    """The last notes. Others do not displace warnings."""

    def __init__(self) -> None:
        self._notes: Final[Mapping[bool, deque[RecentNote]]] = {
            is_warning: deque(maxlen=NOTES_MAX) for is_warning in (True, False)
        }
        self._lock: Final = Lock()

    def add(self, summary: str, detail: str, now: float, *, is_warning: bool) -> None:
        """Add a note; if the last one is equal, it gets the new time and a higher count."""
        detail = detail if len(detail) <= NOTE_CHARS_MAX else detail[: NOTE_CHARS_MAX - 1] + "…"
        with self._lock:
            notes, count = self._notes[is_warning], 1
            if notes and (notes[-1].summary, notes[-1].detail) == (summary, detail):
                count += notes.pop().count
            notes.append(
                RecentNote(at=now, summary=summary, detail=detail, is_warning=is_warning, count=count)
            )

    def list_latest(self) -> tuple[RecentNote, ...]:
        """Return the notes that are kept, the newest first."""
        with self._lock:
            notes = [*self._notes[True], *self._notes[False]]
        return tuple(sorted(notes, key=lambda note: -note.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Durations of one kind of operations.

    Attributes:
        classes: number of operations in each class of `DURATION_LIMITS_S`, and in the one above the last.
        total_s: their sum in seconds.
        longest_s: the longest in seconds.
    """

    classes: tuple[int, ...]
    total_s: float
    longest_s: float

    @property
    def count(self) -> int:
        """Number of operations."""
        return sum(self.classes)


@dataclass(slots=True)
class _Running:
    classes: list[int] = field(default_factory=lambda: [0] * (len(DURATION_LIMITS_S) + 1))
    total_s: float = 0.0
    longest_s: float = 0.0


class OperationTimes:
    """Durations of operations by kind.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock: Final = clock
        self._kinds: Final[dict[str, _Running]] = {}
        self._lock: Final = Lock()

    def add(self, kind: str, seconds: float) -> None:
        """Add the duration of one operation."""
        with self._lock:
            running = self._kinds.setdefault(kind, _Running())
            running.classes[bisect_left(DURATION_LIMITS_S, seconds)] += 1
            running.total_s += seconds
            running.longest_s = max(running.longest_s, seconds)

    def copy(self) -> Mapping[str, Durations]:
        """Return a copy of all durations."""
        with self._lock:
            return {
                kind: Durations(
                    classes=tuple(running.classes), total_s=running.total_s, longest_s=running.longest_s
                )
                for kind, running in self._kinds.items()
            }
