"""Outgoing queues of a queue manager: messages of its programs, and acknowledgements."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from mqdssm.drivers.message_queue import MessageQueue
from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX
from mqdssm.model.guid import Guid
from mqdssm.model.transport import Message, is_acknowledgement

Address: TypeAlias = str | Guid

ACKNOWLEDGEMENTS_MAX: Final = 1_000
"""Acknowledgements that wait, for all machines together, where nothing else is said."""
ACKNOWLEDGEMENT_BYTES_MAX: Final = QUEUE_BYTES_MAX // 4
"""Octets of their bodies, likewise; too few to fill the queue of any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingLimits:
    """Limits of the outgoing queues.

    Attributes:
        messages_max: messages for each machine.
        bytes_max: octets of their bodies, for each machine.
        acknowledgements_max: acknowledgements, for all machines together.
        acknowledgement_bytes_max: octets of their bodies, for all machines together.
    """

    messages_max: int = QUEUE_MESSAGES_MAX
    bytes_max: int = QUEUE_BYTES_MAX
    acknowledgements_max: int = ACKNOWLEDGEMENTS_MAX
    acknowledgement_bytes_max: int = ACKNOWLEDGEMENT_BYTES_MAX


LIMITS: Final = OutgoingLimits()


def _size(message: Message) -> int:
    return len(message.body)


def _waits_for_ever(message: Message) -> bool:
    """Return True for an acknowledgement without a deadline, as queue managers make them."""
    return is_acknowledgement(message.message_class) and message.reach_deadline is None


class Outgoing:
    """Outgoing queues, one for each machine. Not thread-safe.

    Local programs choose the destinations of messages. Anybody whose messages are refused chooses those of
    acknowledgements, which never expire. So one limit applies to all acknowledgements, and the oldest ones
    are removed first.

    Args:
        limits: how much may wait.
        counts: where acknowledgements that were given up are counted.
    """

    def __init__(self, limits: OutgoingLimits, counts: EventCounts) -> None:
        self._limits, self._counts = limits, counts
        self._queues: Final[dict[Address, MessageQueue[Message]]] = {}
        self._acknowledgements: Final[OrderedDict[tuple[Address, int], int]] = OrderedDict()
        self._octets = 0  # of acknowledgements

    @property
    def addresses(self) -> list[Address]:
        """Machines that have an outgoing queue."""
        return list(self._queues)

    def put(self, address: Address, message: Message) -> bool:
        """Add a message; False if there is no room for it."""
        if not _waits_for_ever(message):
            return self._put(address, message) is not None
        fits = _size(message) <= self._limits.acknowledgement_bytes_max
        while fits and self._acknowledgements and self._is_full(message):
            (where, number), octets = self._acknowledgements.popitem(last=False)
            self._octets -= octets
            self._queues[where].remove(number)
            self._counts.add("given up: acknowledgement")
        added = None if self._is_full(message) else self._put(address, message)
        if added is None:
            self._counts.add("given up: acknowledgement")
            return False
        self._remember(address, added, message)
        return True

    def take(self, address: Address, now: float) -> tuple[list[Message], tuple[int, Message] | None]:
        """Remove and return expired messages (now: seconds since 1970), and the next one with its number."""
        queue = self._queues[address]
        late, item = queue.expired(now), queue.take()
        if item is not None:
            self._octets -= self._acknowledgements.pop((address, item[0]), 0)
        return late, item

    def put_back(self, address: Address, number: int, message: Message) -> None:
        """Put back a message that `take` returned and that could not be sent."""
        self._queues[address].put_back(number, message, message.priority, message.reach_deadline)
        if _waits_for_ever(message):
            self._remember(address, number, message)
            self._acknowledgements.move_to_end((address, number), last=False)

    def purge(self, address: Address) -> list[Message]:
        """Remove and return all messages for a machine."""
        queue = self._queues.get(address)
        for key in [entry for entry in self._acknowledgements if entry[0] == address]:
            self._octets -= self._acknowledgements.pop(key)
        return [] if queue is None else queue.clear()

    def settle(self, address: Address) -> float | None:
        """Remove an empty queue; return the next deadline of a machine's queue in seconds since 1970."""
        queue = self._queues[address]
        if not queue:
            del self._queues[address]
        return queue.deadline

    def _remember(self, address: Address, number: int, acknowledgement: Message) -> None:
        self._acknowledgements[address, number] = _size(acknowledgement)
        self._octets += _size(acknowledgement)

    def _is_full(self, message: Message) -> bool:
        too_many = len(self._acknowledgements) >= self._limits.acknowledgements_max
        return too_many or self._octets + _size(message) > self._limits.acknowledgement_bytes_max

    def _put(self, address: Address, message: Message) -> int | None:
        queue = self._queues.get(address)
        if queue is None:
            queue = MessageQueue(self._limits.messages_max, self._limits.bytes_max, _size)
        number = queue.put(message, message.priority, message.reach_deadline)
        if number is not None:
            self._queues[address] = queue
        return number
