"""Outcomes of change requests, kept for later copies of the requests.

See decisions R33 and R157.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

REMEMBERED_MAX: Final = 10_000
"""Limit of the outcomes that are kept for all senders."""

RequestKey: TypeAlias = tuple[str, int]
"""(RequesterName, RequestIdentifier): decision R10."""
SentKey: TypeAlias = tuple[str, str, int]
"""(sender, RequesterName, RequestIdentifier): copies of a message have one sender (decisions R33, R105)."""


@dataclass(slots=True)
class RequestOutcomes:
    """Statuses by sender and request, oldest first.

    The sender with the most outcomes loses its oldest first.

    Otherwise one sender with many requests would displace the outcomes of all others.

    Attributes:
        round: number of calls of `forget`.
    """

    round: int = 0
    _senders: dict[str, OrderedDict[RequestKey, tuple[int, int]]] = field(default_factory=dict)
    _total: int = 0

    def __len__(self) -> int:
        return self._total

    def find(self, sent: SentKey) -> int | None:
        """Return the status of a request; None if it is not known."""
        sender, name, identifier = sent
        mine = self._senders.get(sender)
        entry = None if mine is None else mine.get((name, identifier))
        return None if entry is None else entry[0]

    def put(self, sent: SentKey, status: int) -> None:
        """Store a status as the newest one of its sender."""
        sender, name, identifier = sent
        mine = self._senders.setdefault(sender, OrderedDict())
        self._total += (name, identifier) not in mine
        mine[name, identifier] = status, self.round
        mine.move_to_end((name, identifier))
        if self._total > REMEMBERED_MAX:
            self._drop_oldest(max(self._senders, key=lambda sender: len(self._senders[sender])))

    def forget(self) -> None:
        """Remove the outcomes of earlier rounds, and begin the next round."""
        for sender in list(self._senders):
            while sender in self._senders and next(iter(self._senders[sender].values()))[1] < self.round:
                self._drop_oldest(sender)
        self.round += 1

    def _drop_oldest(self, sender: str) -> None:
        mine = self._senders[sender]
        mine.popitem(last=False)
        self._total -= 1
        if not mine:
            del self._senders[sender]
