"""Events and actions that all engines share: timers, and notes for operators."""

from dataclasses import dataclass

# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer that was started has run out."""

    name: str


# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Start a timer, or restart it."""

    name: str
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTimer:
    """Stop a timer, if it is running."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something an operator may want to know or count.

    Attributes:
        what: a short constant text, as "dropped: unknown partition".
        detail: about which message or object.
        is_warning: True if an operator has to do something about it.
    """

    what: str
    detail: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """An event that changes nothing.

    Attributes:
        what: a few constant words, for counting.
    """

    what: str
