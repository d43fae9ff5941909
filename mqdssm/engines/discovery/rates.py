"""Limits of replies (decision S5).

There is a rate for each source, and a byte rate for all sources.

Both are token buckets. A bucket is stored as one number: the time at which it will be full again.
"""

from collections import OrderedDict
from typing import Final

REPLIES_PER_S: Final = 5.0
"""Long-term rate for one source: a client asks once in 15 seconds, many clients may share an address."""
REPLIES_AT_ONCE: Final = 10
"""Replies at once to a source that was quiet."""
SOURCES_MAX: Final = 4096
"""Number of sources that are remembered, some 500 KiB. The least recently seen source is forgotten first.
To make the server forget a source, an attacker must send more requests than that source then gets replies."""
REFUSALS_MAX: Final = 200
"""A source is muted after this many requests over its rate without a whole reply between them: this takes
more than 1,000 requests a second."""
MUTE_S: Final = 0.1
"""Time for which a source is muted. Its requests may be forged, so it must not be silenced for long."""
BYTES_PER_S: Final = 65_536
"""Long-term rate of bytes for all sources together: forged requests cause at most half a megabit a second;
600 clients in 15 seconds get the longest reply."""
BYTES_AT_ONCE: Final = 262_144
"""Bytes at once for all sources together after a quiet time: 178 of the longest replies."""


OVER_RATE_PER_S: Final = 500
"""Replies a second to all sources over their rate together. A reply takes more time than all other steps of
a request, so without this limit a flood from many sources would keep other clients from their answer."""


class SourceRates:
    """Counts replies by source.

    A full bucket can be forgotten without any effect.

    Args:
        per_s: replies a second in the long run.
        at_once: replies to a source that was quiet.
        sources_max: how many sources are remembered.
    """

    def __init__(
        self,
        *,
        per_s: float = REPLIES_PER_S,
        at_once: int = REPLIES_AT_ONCE,
        sources_max: int = SOURCES_MAX,
    ) -> None:
        if not (per_s > 0 and at_once >= 1 and sources_max >= 1):
            raise ValueError(f"{per_s} replies a second, {at_once} at once, {sources_max} sources: too few")
        self._reply_s: Final = 1 / per_s
        # a reply is due if the bucket lacks at most this much; the last term is for rounding
        self._lack_max_s: Final = (at_once - 1) / per_s + 1e-9
        self._sources_max: Final = sources_max
        self._full_at: Final[OrderedDict[str, float]] = OrderedDict()
        self._refusals: Final[dict[str, int]] = {}  # only of sources that are also in `_full_at`

    def __len__(self) -> int:
        return len(self._full_at)

    def may(self, source: str, now: float) -> bool:
        """Return True if a source may have a reply now, in monotonic seconds.

        The source is noted as seen.
        """
        full_at = self._full_at.get(source)
        if full_at is None:
            return True
        self._full_at.move_to_end(source)
        if full_at - now <= self._lack_max_s:
            return True
        self._refusals[source] = self._refusals.get(source, 0) + 1
        return False

    def is_a_flood(self, source: str) -> bool:
        """Return True if a source keeps sending after refusals.

        The source's refusals then count from 0 again.
        """
        if self._refusals.get(source, 0) < REFUSALS_MAX:
            return False
        del self._refusals[source]
        return True

    def count(self, source: str, now: float) -> None:
        """Count a reply to a source."""
        self._full_at[source] = max(self._full_at.get(source, now), now) + self._reply_s
        self._full_at.move_to_end(source)
        self._refusals.pop(source, None)
        if len(self._full_at) > self._sources_max:
            forgotten, _ = self._full_at.popitem(last=False)
            self._refusals.pop(forgotten, None)


class CommonRate:
    """Limit for all sources together: of replies, or of their bytes.

    Args:
        per_s: how many a second in the long run.
        at_once: how many after a quiet time.
    """

    def __init__(self, *, per_s: float = BYTES_PER_S, at_once: int = BYTES_AT_ONCE) -> None:
        if not (per_s > 0 and at_once >= 1):
            raise ValueError(f"{per_s} a second, {at_once} at once: too few")
        self._per_s: Final = per_s
        self._at_once_s: Final = at_once / per_s
        self._full_at = float("-inf")

    def take(self, size: int, now: float) -> bool:
        """Take an amount out of the bucket, at a time in monotonic seconds.

        Returns:
            True if the bucket held that much; else nothing is taken.
        """
        full_at = max(self._full_at, now) + size / self._per_s
        if full_at - now > self._at_once_s + 1e-9:
            return False
        self._full_at = full_at
        return True
