"""Damage of a directory, told to the operator: not each time that somebody comes upon it (decision R83)."""

import logging
from time import monotonic
from typing import Final

log: Final = logging.getLogger(__name__)

TOLD_S: Final = 600.0
"""The same damage is told again after so long, in seconds."""
TOLD_MAX: Final = 100
"""So many damages are told in that time."""


class Teller:
    """Writes each damage to the log once in a while."""

    def __init__(self) -> None:
        self._told: Final[dict[str, float]] = {}  # damage -> when, monotonic

    def tell(self, operation: object, damage: str) -> None:
        """Tell of damage, unless it was told lately.

        Args:
            operation: what cannot be done.
            damage: which entry, and what is wrong with it.
        """
        now = monotonic()
        for old in [one for one, at in self._told.items() if now - at >= TOLD_S]:
            del self._told[old]
        if damage in self._told or len(self._told) >= TOLD_MAX:
            return
        self._told[damage] = now
        name = type(operation).__name__
        log.error("%s cannot be done, and is tried again later: mend the entry: %s", name, damage)
