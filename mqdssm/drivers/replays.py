"""Messages that somebody recorded and sends again: their dates and signatures tell (decision R59)."""

import heapq
from threading import Lock
from typing import Final

AGE_MAX_S: Final = 3600
"""A message dated an hour ago, or ahead, is refused: what servers' clocks may differ, and messages wait."""
SEEN_MAX: Final = 100_000
"""Signatures that are kept: 50 messages a second for half an hour; some 20 MB."""


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

    def _is_in_time(self, date: int, now: float) -> bool:
        return date >= self._floor and abs(now - date) <= self._age_max

    def _forget(self, now: float) -> None:
        while self._by_date and (
            now - self._by_date[0][0] > self._age_max or len(self._by_date) >= self._seen_max
        ):
            date, signature = heapq.heappop(self._by_date)
            self._seen.discard(signature)
            self._floor = max(self._floor, date + 1)
