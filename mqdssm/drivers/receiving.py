"""What a message in the replication queue means to the engine ([MC-MQDSRP] 3.1.5.1)."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Final

from mqdssm.drivers.counts import EventCounts
from mqdssm.drivers.sent_messages import Outstanding
from mqdssm.drivers.transport import Arrival, Inbox
from mqdssm.engines.replication.actions import Event as EngineEvent
from mqdssm.engines.replication.actions import Nacked, Received
from mqdssm.errors import DecodeError, TransportError
from mqdssm.model.transport import MessageClass, is_nack
from mqdssm.wire.mqdsrp import decode

log: Final = logging.getLogger(__name__)

ARRIVED_MAX: Final = 256
"""Messages that are decoded ahead of the engine; the others wait in their queue, which has its own limits."""
ARRIVED_BYTES_MAX: Final = 16 << 20
"""Octets of their bodies; one message goes, however long."""
RECEIVE_S: Final = 1.0
"""How long one look into the queue takes, at most."""


class QueueReceiver:
    """Reads a replication queue in a thread of its own, no faster than its events are taken.

    Args:
        outstanding: the messages of ours that may be acknowledged.
        counts: where dropped messages are counted.
        clock: seconds since 1970.
        put: takes an event for the engine, or why there will be none any more. `taken` is to be called when
            the engine was given it, `settled` with the number of those that still wait in the engine.
    """

    def __init__(
        self,
        outstanding: Outstanding,
        counts: EventCounts,
        clock: Callable[[], float],
        put: Callable[[EngineEvent | Exception], None],
    ) -> None:
        self._outstanding, self._counts, self._clock, self._put = outstanding, counts, clock, put
        self._room: Final = Condition()
        self._sizes: Final[deque[int]] = deque()  # of messages that are decoded and not dealt with
        self._octets = 0
        self._next: tuple[EngineEvent, int] | None = None  # waits for room: the event and its octets
        self._taken = 0
        self._stopping: Final = Event()
        self._thread: Thread | None = None

    def start(self, inbox: Inbox) -> None:
        """Read from a queue until `stop`."""
        self._thread = Thread(target=self._run, args=(inbox,), name="replication queue", daemon=True)
        self._thread.start()

    def taken(self, event: object) -> None:
        """The engine was given an event; it may have put it behind its work."""
        if isinstance(event, Received | Nacked):
            self._taken += 1

    def settled(self, waiting: int) -> None:
        """The engine has begun with all that it was given but the last so many: there is room for others."""
        if self._taken <= waiting:
            return
        with self._room:
            while self._taken > waiting:
                self._octets -= self._sizes.popleft()
                self._taken -= 1
            self._room.notify()

    def stop(self) -> None:
        """Stop; the queue has to be closed already."""
        self._stopping.set()
        with self._room:
            self._room.notify()
        if self._thread is not None:
            self._thread.join()

    def event_of(self, arrival: Arrival) -> EngineEvent | None:
        """What the engine is told of a message, by its class; None: nothing, and it is counted."""
        if arrival.message.message_class == MessageClass.NORMAL:
            return self._received(arrival)
        if is_nack(arrival.message.message_class):
            return self._nacked(arrival)
        self._drop("class", f"class {arrival.message.message_class:#06x}")
        return None

    def _received(self, arrival: Arrival) -> EngineEvent | None:
        sender = arrival.sender
        if sender is None or not sender.is_directory_server:
            self._drop("not from a directory server", str(sender))
            return None
        try:
            message = decode(arrival.message.body)
        except DecodeError as error:
            self._drop("cannot be decoded", f"{error}, from {sender.machine_name}")
            return None
        return Received(message=message, sender=sender.machine_name, machine_id=sender.machine_id)

    def _nacked(self, arrival: Arrival) -> EngineEvent | None:
        sent = self._outstanding.take(arrival.message, self._clock())
        if sent is None:
            self._drop("acknowledges nothing of ours", str(arrival.message.correlation))
            return None
        return Nacked(
            message=sent.message,
            destination=sent.destination,
            bad_signature=arrival.message.message_class == MessageClass.NACK_BAD_SIGNATURE,
        )

    def _drop(self, why: str, detail: str) -> None:
        self._counts.add(f"dropped: {why}")
        log.info("a replication message is dropped: %s (%s)", why, detail)

    def turn(self, inbox: Inbox, timeout_s: float) -> bool:
        """Take the next message of a queue, if there is room for one; for its thread, or in place of one.

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
                self.turn(inbox, RECEIVE_S)
            if not self._stopping.is_set():  # nobody would notice a server that hears nothing
                self._put(TransportError("the replication queue was closed: its queue manager has stopped"))
        except Exception as error:  # noqa: BLE001  a defect: the driver stops, and says so
            self._put(error)

    def _has_room(self, size: int) -> bool:
        fits = len(self._sizes) < ARRIVED_MAX and self._octets + size <= ARRIVED_BYTES_MAX
        return fits or not self._sizes
