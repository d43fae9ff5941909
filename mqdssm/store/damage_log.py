"""Log messages about damaged entries, limited in number (decision R83)."""

import logging
from time import monotonic
from typing import Final

from mqdssm.engines.replication.plain_words import describe_plainly

log: Final = logging.getLogger(__name__)

REPEATED_AFTER_S: Final = 600.0
"""Time in seconds after which the same damage is logged again."""
DAMAGES_MAX: Final = 100
"""Limit of the different damages that are logged in that time."""


class DamageLog:
    """Log of damaged entries that repeats a message only after a while."""

    def __init__(self) -> None:
        self._logged: Final[dict[str, float]] = {}  # damage -> time of its message, monotonic

    def report(self, operation: object, damage: str) -> None:
        """Log a damage, unless it was logged recently.

        Args:
            operation: the operation that failed.
            damage: the entry, and what is wrong with it.
        """
        now = monotonic()
        for old in [key for key, at in self._logged.items() if now - at >= REPEATED_AFTER_S]:
            del self._logged[old]
        if damage in self._logged or len(self._logged) >= DAMAGES_MAX:
            return
        self._logged[damage] = now
        words = describe_plainly(operation)
        log.error("%s cannot be done, and is tried again later: mend the entry: %s", words, damage)
