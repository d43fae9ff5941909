"""Detection of recorded messages that are sent again, by dates and signatures.

See decision R59.
"""

import heapq
import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from mqdssm.drivers.authentication.replay_marks import ReplayMarks
from mqdssm.errors import ConfigError

AGE_MAX_S: Final = 3600
"""A message dated an hour ago, or ahead, is refused: what servers' clocks may differ, and messages wait."""
SEEN_MAX: Final = 100_000
"""Signatures that are kept: 50 messages a second for half an hour; some 20 MB."""
SENDERS_MAX: Final = 1000
"""Senders beyond which those are forgotten of whom nothing is kept any more."""

_SHARE: Final = 64  # fraction of the largest sender's signatures that is forgotten at a time


class SeenSignatures:
    """Signatures of admitted messages, remembered while their dates are valid.

    When there are too many, the oldest dates are refused from then on, so that forgetting admits nothing.

    Args:
        floor: nothing dated before is admitted, in seconds since 1970.
        age_max_s: how far a date may lie in the past or ahead.
        seen_max: how many are remembered.
    """

    def __init__(self, floor: float, *, age_max_s: int = AGE_MAX_S, seen_max: int = SEEN_MAX) -> None:
        self._floor = int(floor)  # dates are whole seconds
        self._age_max = age_max_s
        self._seen_max = seen_max
        self._seen: Final[set[bytes]] = set()
        self._by_date: Final[list[tuple[int, bytes]]] = []
        self._lock: Final = Lock()

    def __len__(self) -> int:
        return len(self._seen)

    def is_in_time(self, date: int, now: float) -> bool:
        """Return True if messages of this date may be admitted now.

        Dates and times are in seconds since 1970.
        """
        with self._lock:
            return self._is_in_time(date, now)

    def admit(self, date: int, signature: bytes, now: float) -> bool:
        """Remember a message and return True if it is new; only for verified signatures.

        Args:
            date: when it was signed, seconds since 1970.
            signature: its signature.
            now: seconds since 1970.
        """
        with self._lock:
            self._forget(now)
            if not self._is_in_time(date, now) or signature in self._seen:
                return False
            self._seen.add(signature)
            heapq.heappush(self._by_date, (date, signature))
            return True

    def withdraw(self, date: int, signature: bytes) -> None:
        """Forget a message that was admitted and could not be stored."""
        with self._lock:
            if signature in self._seen:
                self._seen.discard(signature)
                self._by_date.remove((date, signature))
                heapq.heapify(self._by_date)

    @property
    def floor(self) -> int:
        """First date that may be admitted, in seconds since 1970."""
        return self._floor

    def forget(self, now: float, *, least: int = 0) -> bool:
        """Forget signatures that are too old, and at least so many.

        Returns True if nothing has to be kept.
        """
        with self._lock:
            self._forget(now)
            for _ in range(min(least, len(self._by_date))):
                self._forget_oldest()
            return not self._by_date and self._floor < now - self._age_max

    def _is_in_time(self, date: int, now: float) -> bool:
        return date >= self._floor and abs(now - date) <= self._age_max

    def _forget(self, now: float) -> None:
        while self._by_date and (
            now - self._by_date[0][0] > self._age_max or len(self._by_date) >= self._seen_max
        ):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        date, signature = heapq.heappop(self._by_date)
        self._seen.discard(signature)
        self._floor = max(self._floor, date + 1)


class ReplayDetector:
    """`SeenSignatures` of each signing key.

    A sender of too many messages affects only its own dates.

    Otherwise one machine that may sign could have all others refused, with messages dated ahead. A sender is
    known by its key, so that another name lets nothing in again (decision R162).
    Without marks nothing dated before the start is admitted. That time is computed from the clock as it
    is now, so that a clock that was ahead then does no harm once it is right (decision R180).

    Args:
        started_at: seconds since 1970.
        age_max_s: how far a date may lie in the past or ahead.
        seen_max: how many are remembered, of all senders.
        marks: what was taken before the start, if a file has it.
        monotonic: seconds that go on, whatever is done to the clock.
    """

    def __init__(
        self,
        started_at: float,
        *,
        age_max_s: int = AGE_MAX_S,
        seen_max: int = SEEN_MAX,
        marks: ReplayMarks | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._started_at = int(started_at)  # dates are whole seconds
        self._monotonic = monotonic
        self._started: Final = monotonic()
        self._marks = marks
        self._floor = 0  # of senders without `SeenSignatures`
        self._age_max = age_max_s
        self._seen_max = seen_max
        self._total = 0
        self._of: Final[dict[str, SeenSignatures]] = {}
        self._lock: Final = Lock()

    def is_in_time(self, date: int, now: float) -> bool:
        """Return True if messages of this date may be admitted now, from some sender."""
        lowest = 0 if self._knows_before else self._start(now)
        return date >= lowest and abs(now - date) <= self._age_max

    def admit(self, sender: str, date: int, signature: bytes, now: float) -> bool:
        """Remember a message of one sender and return True if it is new.

        See `SeenSignatures.admit`.

        Raises:
            ConfigError: the marks cannot be written; the message may not be taken.
        """
        with self._lock:
            if self._total >= self._seen_max or len(self._of) >= SENDERS_MAX:
                self._make_room(now)
            if not self.is_in_time(date, now):
                return False
            mine = self._of.get(sender)
            if mine is None:
                floor = max(self._floor, self._marks.floor_of(sender) if self._marks is not None else 0)
                mine = self._of[sender] = SeenSignatures(
                    floor, age_max_s=self._age_max, seen_max=self._seen_max
                )
            before = len(mine)
            admitted = mine.admit(date, signature, now)
            self._total += len(mine) - before
            if admitted and self._marks is not None:
                try:
                    self._marks.cover(sender, date, self._start(now), now)
                except ConfigError:
                    mine.withdraw(date, signature)
                    self._total -= 1
                    raise
            return admitted

    def withdraw(self, sender: str, date: int, signature: bytes) -> None:
        """Forget a message that was admitted and could not be stored: it comes again.

        The marks keep its date: they count after a restart alone.
        """
        with self._lock:
            mine = self._of.get(sender)
            if mine is not None:
                before = len(mine)
                mine.withdraw(date, signature)
                self._total -= before - len(mine)

    @property
    def _knows_before(self) -> bool:
        return self._marks is not None and not self._marks.is_new

    def _start(self, now: float) -> int:
        """Return the time of the start.

        The clock may have been set back meanwhile: the earlier one of its times then and now counts.
        """
        return min(self._started_at, int(now - (self._monotonic() - self._started)))

    def _make_room(self, now: float) -> None:
        for sender in [name for name, record in self._of.items() if record.forget(now)]:
            self._floor = max(self._floor, self._of.pop(sender).floor)  # the clock may be set back
        self._total = sum(map(len, self._of.values()))
        if self._total >= self._seen_max:
            most = max(self._of.values(), key=len)
            before = len(most)
            most.forget(now, least=-(-before // _SHARE))
            self._total -= before - len(most)
