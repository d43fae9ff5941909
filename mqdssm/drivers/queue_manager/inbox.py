"""Local queue from which a program receives messages."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Condition, Lock
from typing import Final, TypeAlias

from mqdssm.drivers.queue_manager.message_queue import MessageQueue
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.transport import Message, MessageClass, MessageId

REMEMBERED_MAX: Final = 10_000
"""Identifiers by which messages that come twice are known ([MS-MQQB] 3.1.5.8.2)."""
Leave: TypeAlias = Callable[[LocalQueue, Message, MessageClass], None]
"""Removes a message for good, and sends the acknowledgement of a class that it asked for, if it did."""


def _size_of(arrival: Arrival) -> int:
    return arrival.octets


class LocalInbox:
    """Private queue of a local queue manager, open for receiving.

    `mqdssm.drivers.transport.Inbox` is the protocol of such queues.

    Args:
        queue: its name, number and limits.
        clock: seconds since 1970.
        leave: called for each message that leaves the queue.
    """

    def __init__(self, queue: LocalQueue, clock: Callable[[], float], leave: Leave) -> None:
        self.queue: Final = queue
        self._leave = leave
        self._clock = clock
        self._lock: Final = Lock()
        self._changed: Final = Condition(self._lock)
        self._known: Final[OrderedDict[MessageId, None]] = OrderedDict()
        self._closed = False
        self._listeners: Final[set[Callable[[], None]]] = set()
        self._waiting: Final[MessageQueue[Arrival]] = MessageQueue(
            queue.messages_max, queue.bytes_max, _size_of
        )

    @property
    def is_closed(self) -> bool:
        """True if the queue is closed for receiving."""
        return self._closed

    @property
    def size(self) -> tuple[int, int]:
        """Messages that wait, and their octets (`Message.octets`)."""
        with self._lock:
            return len(self._waiting), self._waiting.octets

    def receive(self, timeout_s: float) -> Arrival | None:
        """Take the first message, by priority and arrival.

        None after `timeout_s`, or when closed.

        Raises:
            TransportError: the message cannot be removed from the disk; it stays in the queue.
        """
        lent = self.lend(timeout_s)
        if lent is None:
            return None
        number, arrival = lent
        self.accept(number, arrival)
        return arrival

    def lend(self, timeout_s: float) -> tuple[int, Arrival] | None:
        """Return the first message and its number, for `accept` or `put_back`.

        Otherwise it works as `receive`.
        """
        until: float | None = None
        while not self._closed:
            with self._lock:
                expired = self._waiting.remove_expired(self._clock())
                item = self._waiting.lend()
                if not expired and item is None:
                    now = time.monotonic()
                    until = now + timeout_s if until is None else until
                    if until <= now:
                        return None
                    if not self._closed:
                        self._changed.wait(until - now)
            if expired:
                self._leave_late(expired)
            if item is not None:
                return item
        return None

    def accept(self, number: int, arrival: Arrival) -> None:
        """Remove a message that `lend` returned: the program has received it.

        Raises:
            TransportError: the message cannot be removed from the disk; it is put back.
        """
        try:
            self._leave(self.queue, arrival.message, MessageClass.ACK_RECEIVE)
        except TransportError:
            self.put_back(number, arrival)
            raise
        with self._lock:
            self._waiting.release(number)

    def put_back(self, number: int, arrival: Arrival) -> None:
        """Put a message that `lend` returned in its old place.

        Nothing happens if the queue was purged meanwhile.
        """
        with self._lock:
            is_purged = not self._waiting.put_back(number)
            self._notify()
        if is_purged:
            self._leave(self.queue, arrival.message, MessageClass.NACK_QUEUE_PURGED)

    def purge(self) -> None:
        """Remove all messages; senders receive NackQueuePurged if they asked for it."""
        self.remove_all(MessageClass.NACK_QUEUE_PURGED)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function when there may be a message, or the queue is closed.

        The function is called from any thread, and must not wait.
        """
        with self._lock:
            self._listeners.add(listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        """Do not call a function any more."""
        with self._lock:
            self._listeners.discard(listener)

    def _notify(self) -> None:
        """Notify everybody who waits; the lock is held."""
        self._changed.notify_all()
        for listener in self._listeners:
            listener()

    def close(self) -> None:
        """Close the queue for receiving; waiting calls of `receive` return None."""
        with self._lock:
            self._closed = True
            self._notify()

    def reopen(self) -> None:
        """Open the queue for receiving again."""
        with self._lock:
            self._closed = False

    def has_room(self, more: int, octets: int) -> bool:
        """Return True if `put` would take `more` messages, and then one more.

        All of them have `octets` octets.
        """
        with self._lock:
            return self._waiting.has_room(more, octets)

    def put(self, arrival: Arrival) -> bool:
        """Add a message; False: the queue is full."""
        with self._lock:
            is_added = self._put(arrival)
            self._notify()
        return is_added

    def put_all(self, arrivals: Iterable[Arrival]) -> None:
        """Add messages for which `has_room` has found room."""
        with self._lock:
            for arrival in arrivals:
                self._put(arrival)
            self._notify()

    def _put(self, arrival: Arrival) -> bool:
        message = arrival.message
        number = self._waiting.put(arrival, message.priority, message.receive_deadline)
        if number is None:
            return False
        self._known[message.identifier] = None
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return True

    def has_had(self, identifier: MessageId) -> bool:
        """Return True if a message with this identifier was received.

        Identifiers can be forged.
        """
        with self._lock:
            return identifier in self._known

    def expire(self, now: float) -> float | None:
        """Remove expired messages; return the next deadline in seconds since 1970."""
        with self._lock:
            expired = self._waiting.remove_expired(now)
            deadline = self._waiting.deadline
        self._leave_late(expired)
        return deadline

    def _leave_late(self, expired: Iterable[Arrival]) -> None:
        for late in expired:
            self._leave(self.queue, late.message, MessageClass.NACK_RECEIVE_TIMEOUT)

    def remove_all(self, reason: MessageClass) -> None:
        """Remove all messages, and send acknowledgements of a class where asked for."""
        with self._lock:
            gone = self._waiting.clear()
        for item in gone:
            self._leave(self.queue, item.message, reason)
