"""Outgoing queues: messages of programs, and acknowledgements."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

from mqdssm.drivers.queue_manager.message_queue import MessageQueue
from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX
from mqdssm.model.guid import Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, FormatName, PathKind, PrivateFormatName
from mqdssm.model.transport import Message, is_acknowledgement

Address: TypeAlias = str | Guid | IPv4Address | IPv6Address
"""Machine of a format name: its name in small letters, QueueManager.Identifier, or IP address."""

ACKNOWLEDGEMENTS_MAX: Final = 1_000
"""Acknowledgements that wait, for all machines together, where nothing else is said."""
ACKNOWLEDGEMENT_BYTES_MAX: Final = QUEUE_BYTES_MAX // 4
"""Their octets, likewise; too few to fill the queue of any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingLimits:
    """Limits of the outgoing queues.

    Attributes:
        messages_max: messages for each machine.
        bytes_max: their octets (`Message.octets`), for each machine.
        acknowledgements_max: acknowledgements, for all machines together.
        acknowledgement_bytes_max: their octets, for all machines together.
    """

    messages_max: int = QUEUE_MESSAGES_MAX
    bytes_max: int = QUEUE_BYTES_MAX
    acknowledgements_max: int = ACKNOWLEDGEMENTS_MAX
    acknowledgement_bytes_max: int = ACKNOWLEDGEMENT_BYTES_MAX


LIMITS: Final = OutgoingLimits()


class QueuedMessage(NamedTuple):
    """Message of an outgoing queue that a carrier may have.

    Attributes:
        address: machine that the message goes to.
        number: number of the message in the queue of that machine; older messages have lower numbers.
        message: the message.
    """

    address: Address
    number: int
    message: Message


def _size_of(message: Message) -> int:
    return message.octets


def _is_without_deadline(message: Message) -> bool:
    """Return True for an acknowledgement without a deadline.

    Queue managers make such acknowledgements.
    """
    return is_acknowledgement(message.message_class) and message.transit_deadline is None


class Outgoing:
    """Outgoing queues, one for each machine. Not thread-safe.

    Local programs choose the destinations of messages. Anybody whose messages are refused chooses those of
    acknowledgements, which never expire. So one limit applies to all acknowledgements, and the oldest ones
    are removed first. A message that was taken counts until it is released or put back.

    Args:
        limits: how much may wait.
        counts: where acknowledgements that were given up are counted.
        on_given_up: called with an acknowledgement that made room for another one; must not wait.
    """

    def __init__(
        self,
        limits: OutgoingLimits,
        counts: EventCounts,
        on_given_up: Callable[[Message], None] = lambda _: None,
    ) -> None:
        self._limits, self._counts, self._on_given_up = limits, counts, on_given_up
        self._queues: Final[dict[Address, MessageQueue[Message]]] = {}
        self._acknowledgements: Final[OrderedDict[tuple[Address, int], int]] = OrderedDict()
        self._octets = 0  # of acknowledgements
        self._acknowledgements_in_flight = 0
        self._octets_in_flight = 0  # of acknowledgements

    @property
    def addresses(self) -> list[Address]:
        """Machines that have an outgoing queue."""
        return list(self._queues)

    def measure_sizes(self) -> dict[Address, tuple[int, int]]:
        """Return messages and octets of each queue, with those in flight."""
        return {address: (len(queue), queue.octets) for address, queue in self._queues.items()}

    def put(self, address: Address, message: Message) -> bool:
        """Add a message; False if there is no room for it."""
        if not _is_without_deadline(message):
            return self._put(address, message) is not None
        fits = _size_of(message) <= self._limits.acknowledgement_bytes_max
        while fits and self._acknowledgements and self._is_full(message):
            (where, number), octets = self._acknowledgements.popitem(last=False)
            self._octets -= octets
            self._on_given_up(self._queues[where].remove(number))
            self._counts.add("given up: acknowledgement")
        added = None if self._is_full(message) else self._put(address, message)
        if added is None:
            self._counts.add("given up: acknowledgement")
            return False
        self._remember(address, added, message)
        return True

    def take(self, address: Address, now: float) -> tuple[list[Message], QueuedMessage | None]:
        """Remove and return expired messages, and lend the next message.

        `now` is in seconds since 1970.
        """
        queue = self._queues[address]
        late, item = queue.remove_expired(now), queue.lend()
        if item is None:
            return late, None
        queued = QueuedMessage(address, *item)
        if _is_without_deadline(queued.message):
            self._octets -= self._acknowledgements.pop((address, queued.number), 0)
            self._count_in_flight(queued, 1)
        return late, queued

    def release(self, queued: QueuedMessage) -> None:
        """Remove a message that `take` lent: the machine has it."""
        self._end_flight(queued)
        self._queues[queued.address].release(queued.number)

    def put_back(self, queued: QueuedMessage) -> bool:
        """Put back a message that `take` lent.

        Returns False if its queue was purged meanwhile.
        """
        self._end_flight(queued)
        if not self._queues[queued.address].put_back(queued.number):
            return False
        if _is_without_deadline(queued.message):
            self._remember(queued.address, queued.number, queued.message)
            self._acknowledgements.move_to_end((queued.address, queued.number), last=False)
        return True

    def purge(self, address: Address) -> list[Message]:
        """Remove and return all messages for a machine.

        Messages in flight are not put back any more.
        """
        queue = self._queues.get(address)
        for key in [entry for entry in self._acknowledgements if entry[0] == address]:
            self._octets -= self._acknowledgements.pop(key)
        return [] if queue is None else queue.clear()

    def settle(self, address: Address) -> float | None:
        """Remove an empty queue; return the next deadline of a machine's queue.

        The deadline is in seconds since 1970.
        """
        queue = self._queues[address]
        if not queue:
            del self._queues[address]
        return queue.deadline

    def _end_flight(self, queued: QueuedMessage) -> None:
        if _is_without_deadline(queued.message):
            self._count_in_flight(queued, -1)

    def _count_in_flight(self, queued: QueuedMessage, change: int) -> None:
        self._acknowledgements_in_flight += change
        self._octets_in_flight += change * _size_of(queued.message)

    def _remember(self, address: Address, number: int, acknowledgement: Message) -> None:
        self._acknowledgements[address, number] = _size_of(acknowledgement)
        self._octets += _size_of(acknowledgement)

    def _is_full(self, message: Message) -> bool:
        number = len(self._acknowledgements) + self._acknowledgements_in_flight
        octets = self._octets + self._octets_in_flight + _size_of(message)
        return number >= self._limits.acknowledgements_max or octets > self._limits.acknowledgement_bytes_max

    def _put(self, address: Address, message: Message) -> int | None:
        queue = self._queues.get(address)
        if queue is None:
            queue = MessageQueue(self._limits.messages_max, self._limits.bytes_max, _size_of)
        number = queue.put(message, message.priority, message.transit_deadline)
        if number is not None:
            self._queues[address] = queue
        return number


def address_of(name: FormatName) -> Address:
    """Return the machine that a format name leads to.

    Raises:
        ValueError: messages cannot be sent to such a format name here.
    """
    if isinstance(name, PrivateFormatName):
        if not name.journal:
            return Guid.of(name.guid)
    elif isinstance(name, DirectFormatName) and name.kind is PathKind.PRIVATE:
        is_queue = name.subqueue is None and not name.journal
        if is_queue and name.protocol is DirectProtocol.OS:
            return name.address.casefold()
        if is_queue and name.protocol is DirectProtocol.TCP:
            return ip_address(name.address)
    raise ValueError(
        f"nothing can be sent to {name} here: private queues by DIRECT=OS, DIRECT=TCP or PRIVATE alone"
    )
