"""Messages that somebody recorded and sends again: their dates and signatures tell (decision R59)."""

import heapq
from threading import Lock
from typing import Final

AGE_MAX_S: Final = 3600
"""A message dated an hour ago, or ahead, is refused: what servers' clocks may differ, and messages wait."""
SEEN_MAX: Final = 100_000
"""Signatures that are kept: 50 messages a second for half an hour; some 20 MB."""
SENDERS_MAX: Final = 1000
"""Senders beyond which those are forgotten of whom nothing is kept any more."""

_SHARE: Final = 64  # of the signatures of who has most: that part goes at a time, so that it costs little


class Replays:
    """Remembers the signatures of the messages that were admitted, while their dates are good.

    When there are too many, the oldest dates are refused from then on, so that forgetting admits nothing.
    Nothing dated before the start is admitted: what was admitted then is forgotten.

    Args:
        started_at: seconds since 1970.
        age_max_s: how far a date may lie in the past or ahead.
        seen_max: how many are remembered.
    """

    def __init__(self, started_at: float, *, age_max_s: int = AGE_MAX_S, seen_max: int = SEEN_MAX) -> None:
        self._floor = int(started_at)  # dates are whole seconds
        self._age_max = age_max_s
        self._seen_max = seen_max
        self._seen: Final[set[bytes]] = set()
        self._by_date: Final[list[tuple[int, bytes]]] = []
        self._lock: Final = Lock()

    def __len__(self) -> int:
        return len(self._seen)

    def in_time(self, date: int, now: float) -> bool:
        """Whether a date (both in seconds since 1970) is one that messages may have now."""
        with self._lock:
            return self._is_in_time(date, now)

    def admit(self, date: int, signature: bytes, now: float) -> bool:
        """Whether a message is new; it is not any more. Only for signatures that are good.

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

    @property
    def floor(self) -> int:
        """Nothing dated before is admitted, in seconds since 1970."""
        return self._floor

    def forget(self, now: float, *, least: int = 0) -> bool:
        """Forget what is too old, and of the oldest so many at least; whether nothing has to be kept."""
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


class SendersReplays:
    """`Replays` of each sender: who sends too many, has his own forgotten, and his own dates refused.

    Else one machine that may sign could have all others refused, with messages dated ahead.

    Args:
        started_at: seconds since 1970.
        age_max_s: how far a date may lie in the past or ahead.
        seen_max: how many are remembered, of all senders.
    """

    def __init__(self, started_at: float, *, age_max_s: int = AGE_MAX_S, seen_max: int = SEEN_MAX) -> None:
        self._floor: float = started_at  # of senders of whom nothing is known
        self._age_max = age_max_s
        self._seen_max = seen_max
        self._total = 0
        self._of: Final[dict[str, Replays]] = {}
        self._all: Final = Replays(started_at, age_max_s=age_max_s)  # remembers nothing: it knows dates
        self._lock: Final = Lock()

    def in_time(self, date: int, now: float) -> bool:
        """As `Replays.in_time`, of any sender."""
        return self._all.in_time(date, now)

    def admit(self, sender: str, date: int, signature: bytes, now: float) -> bool:
        """As `Replays.admit`, of one sender."""
        with self._lock:
            if self._total >= self._seen_max or len(self._of) >= SENDERS_MAX:
                self._make_room(now)
            mine = self._of.get(sender)
            if mine is None:
                mine = Replays(self._floor, age_max_s=self._age_max, seen_max=self._seen_max)
                self._of[sender] = mine
            before = len(mine)
            admitted = mine.admit(date, signature, now)
            self._total += len(mine) - before
            return admitted

    def _make_room(self, now: float) -> None:
        for sender in [one for one, known in self._of.items() if known.forget(now)]:
            self._floor = max(self._floor, self._of.pop(sender).floor)  # the clock may be set back
        self._total = sum(map(len, self._of.values()))
        if self._total >= self._seen_max:
            most = max(self._of.values(), key=len)
            before = len(most)
            most.forget(now, least=-(-before // _SHARE))
            self._total -= before - len(most)
