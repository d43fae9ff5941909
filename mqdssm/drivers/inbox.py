"""Local queue from which a program receives messages."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Condition
from typing import Final, TypeAlias

from mqdssm.drivers.message_queue import MessageQueue
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.model.transport import Message, MessageClass, MessageId

REMEMBERED_MAX: Final = 10_000
"""Identifiers by which messages that come twice are known ([MS-MQQB] 3.1.5.8.2)."""
Acknowledge: TypeAlias = Callable[[Message, MessageClass], None]


def _size(arrival: Arrival) -> int:
    return len(arrival.message.body)


class LocalInbox:
    """Private queue of a local queue manager, open for receiving (`mqdssm.drivers.transport.Inbox`).

    Args:
        queue: its name, number and limits.
        clock: seconds since 1970.
        acknowledge: sends the acknowledgement of a class that a message asked for, if it did.
    """

    def __init__(self, queue: LocalQueue, clock: Callable[[], float], acknowledge: Acknowledge) -> None:
        self.queue: Final = queue
        self._acknowledge = acknowledge
        self._clock = clock
        self._changed: Final = Condition()
        self._known: Final[OrderedDict[MessageId, None]] = OrderedDict()
        self._closed = False
        self._waiting: Final[MessageQueue[Arrival]] = MessageQueue(queue.messages_max, queue.bytes_max, _size)

    @property
    def is_closed(self) -> bool:
        """True if the queue is closed for receiving."""
        return self._closed

    @property
    def size(self) -> tuple[int, int]:
        """Messages that wait, and octets of their bodies."""
        with self._changed:
            return len(self._waiting), self._waiting.octets

    def receive(self, timeout_s: float) -> Arrival | None:
        """Take the first message, by priority and arrival; None after `timeout_s`, or when closed."""
        until = time.monotonic() + timeout_s
        while not self._closed:
            with self._changed:
                expired = self._waiting.expired(self._clock())
                item = self._waiting.take()
                remaining = until - time.monotonic()
                if not expired and item is None:
                    if remaining <= 0:
                        return None
                    if not self._closed:
                        self._changed.wait(remaining)
            self._late(expired)
            if item is not None:
                self._acknowledge(item[1].message, MessageClass.ACK_RECEIVE)
                return item[1]
        return None

    def purge(self) -> None:
        """Remove all messages; senders receive NackQueuePurged if they asked for it."""
        self.empty(MessageClass.NACK_QUEUE_PURGED)

    def close(self) -> None:
        """Close the queue for receiving; waiting calls of `receive` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Open the queue for receiving again."""
        with self._changed:
            self._closed = False

    def put(self, arrival: Arrival) -> bool:
        """Add a message; False: the queue is full."""
        message = arrival.message
        with self._changed:
            number = self._waiting.put(arrival, message.priority, message.receive_deadline)
            self._changed.notify()
            if number is not None:
                self._known[message.identifier] = None
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return number is not None

    def has_had(self, identifier: MessageId) -> bool:
        """Return True if a message with this identifier was received; identifiers can be forged."""
        with self._changed:
            return identifier in self._known

    def expire(self, now: float) -> float | None:
        """Remove expired messages; return the next deadline in seconds since 1970."""
        with self._changed:
            expired = self._waiting.expired(now)
            deadline = self._waiting.deadline
        self._late(expired)
        return deadline

    def _late(self, expired: Iterable[Arrival]) -> None:
        for late in expired:
            self._acknowledge(late.message, MessageClass.NACK_RECEIVE_TIMEOUT)

    def empty(self, reason: MessageClass) -> None:
        """Remove all messages and send acknowledgements of the given class to senders that asked for it."""
        with self._changed:
            gone = self._waiting.clear()
        for item in gone:
            self._acknowledge(item.message, reason)
