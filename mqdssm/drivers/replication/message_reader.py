"""Receiving and decoding messages of the replication queue ([MC-MQDSRP] 3.1.5.1)."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Final

from mqdssm.drivers.measurements import MessageCounts, MessageOutcome
from mqdssm.drivers.replication.sent_messages import SentMessages
from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import Arrival, Inbox
from mqdssm.engines.replication.actions import Event as EngineEvent
from mqdssm.engines.replication.actions import Nacked, Received
from mqdssm.errors import DecodeError, TransportError
from mqdssm.model.transport import MessageClass, is_nack
from mqdssm.wire.mqdsrp import decode

log: Final = logging.getLogger(__name__)

ARRIVED_MAX: Final = 256
"""Maximum number of messages decoded ahead of the engine; others wait in the queue, which has limits."""
ARRIVED_BYTES_MAX: Final = 16 << 20
"""Maximum octets of their bodies; a single message may be longer."""
RECEIVE_S: Final = 1.0
"""How long one look into the queue takes, at most."""


class QueueReceiver:
    """Reads a replication queue in a thread, as fast as the engine takes the events.

    Args:
        outstanding: the messages of ours that may be acknowledged.
        counts: where dropped messages are counted.
        messages: where all messages are counted by type and outcome.
        clock: seconds since 1970.
        put: takes an event for the engine, or why there will be none any more. `taken` is to be called when
            the engine was given it, `settled` with the number of those that still wait in the engine.
    """

    def __init__(
        self,
        outstanding: SentMessages,
        counts: EventCounts,
        messages: MessageCounts,
        clock: Callable[[], float],
        put: Callable[[EngineEvent | Exception], None],
    ) -> None:
        self._outstanding, self._counts, self._messages = outstanding, counts, messages
        self._clock, self._put = clock, put
        self._room: Final = Condition()
        self._sizes: Final[deque[int]] = deque()  # of messages that are decoded and not dealt with
        self._octets = 0
        self._next: tuple[EngineEvent, int] | None = None  # waits for room: the event and its octets
        self._taken = 0
        self._stopping: Final = Event()
        self._thread: Thread | None = None

    def start(self, inbox: Inbox) -> None:
        """Read messages from a queue until `stop`."""
        self._thread = Thread(target=self._run, args=(inbox,), name="replication queue", daemon=True)
        self._thread.start()

    def count_taken(self, event: object) -> None:
        """Count an event that was passed to the engine, which may still delay it."""
        if isinstance(event, Received | Nacked):
            self._taken += 1

    def release(self, waiting: int) -> None:
        """Make room for further messages.

        The engine has begun all passed ones but the last `waiting`.
        """
        if self._taken <= waiting:
            return
        with self._room:
            while self._taken > waiting:
                self._octets -= self._sizes.popleft()
                self._taken -= 1
            self._room.notify()

    def stop(self) -> None:
        """Stop the thread; the queue has to be closed before."""
        self._stopping.set()
        with self._room:
            self._room.notify()
        if self._thread is not None:
            self._thread.join()

    def event_of(self, arrival: Arrival) -> EngineEvent | None:
        """Return the engine event for a message, by its class.

        None if the message is dropped and counted.
        """
        if arrival.message.message_class == MessageClass.NORMAL:
            return self._read_message(arrival)
        if is_nack(arrival.message.message_class):
            return self._read_nack(arrival)
        self._drop("class", f"class {arrival.message.message_class:#06x}")
        return None

    def _read_message(self, arrival: Arrival) -> EngineEvent | None:
        sender = arrival.sender
        if sender is None or not sender.is_directory_server:
            self._drop("not from a directory server", str(sender))
            return None
        try:
            message = decode(arrival.message.body)
        except DecodeError as error:
            self._drop("cannot be decoded", f"{error}, from {sender.machine_name}")
            return None
        self._messages.add(message, MessageOutcome.RECEIVED)
        self._messages.record_message(sender.machine_name, self._clock())
        return Received(message=message, sender=sender.machine_name, machine_id=sender.machine_id)

    def _read_nack(self, arrival: Arrival) -> EngineEvent | None:
        sent = self._outstanding.take(arrival.message, self._clock())
        if sent is None:
            self._drop("acknowledges nothing of ours", str(arrival.message.correlation))
            return None
        self._messages.add(sent.message, MessageOutcome.REFUSED)
        return Nacked(
            message=sent.message,
            destination=sent.destination,
            bad_signature=arrival.message.message_class == MessageClass.NACK_BAD_SIGNATURE,
        )

    def _drop(self, why: str, detail: str) -> None:
        self._counts.add(f"dropped: {why}")
        self._messages.add(None, MessageOutcome.DROPPED)
        log.info("a replication message is dropped: %s (%s)", why, detail)

    def take_next(self, inbox: Inbox, timeout_s: float) -> bool:
        """Take the next message of a queue if there is room.

        The thread calls it, or a caller instead of a thread.

        Args:
            inbox: the queue.
            timeout_s: how long to wait for a message, and then for room.

        Returns:
            True if one was taken from the queue, or given to the engine.
        """
        if self._next is None:
            arrival = inbox.receive(timeout_s)
            event = None if arrival is None else self.event_of(arrival)
            if arrival is None or event is None:
                return arrival is not None
            self._next = event, len(arrival.message.body)
        event, size = self._next
        with self._room:
            self._room.wait_for(lambda: self._stopping.is_set() or self._has_room(size), timeout_s)
            if self._stopping.is_set() or not self._has_room(size):
                return False
            self._sizes.append(size)
            self._octets += size
        self._next = None
        self._put(event)
        return True

    def _run(self, inbox: Inbox) -> None:
        try:
            while not self._stopping.is_set() and not inbox.is_closed:
                self.take_next(inbox, RECEIVE_S)
            if not self._stopping.is_set():  # a server that receives nothing would not be noticed
                self._put(TransportError("the replication queue was closed: its queue manager has stopped"))
        except Exception as error:  # noqa: BLE001  a defect: the driver stops, and says so
            self._put(error)

    def _has_room(self, size: int) -> bool:
        fits = len(self._sizes) < ARRIVED_MAX and self._octets + size <= ARRIVED_BYTES_MAX
        return fits or not self._sizes
