"""Queue manager that sends and receives messages.

A carrier brings them to other machines.

It sends what waits in it and takes in what arrives, as queue managers do by [MS-MQQB] 3.1.5.8 and 3.1.7.1.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from threading import Condition, Lock
from typing import Final, Protocol

from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.queue_manager.acknowledger import Acknowledger
from mqdssm.drivers.queue_manager.delivery_observers import DeliveryObserver, DeliveryObservers
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.queue_manager.message_intake import ArrivingMessage, MessageIntake
from mqdssm.drivers.queue_manager.message_store import MessageStore, check_size, is_recoverable
from mqdssm.drivers.queue_manager.outgoing import (
    LIMITS,
    Address,
    Outgoing,
    OutgoingLimits,
    QueuedMessage,
    address_of,
)
from mqdssm.drivers.threads import EventCounts, WorkerThread
from mqdssm.drivers.transport import LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.names import DirectFormatName, FormatName, PrivateFormatName
from mqdssm.model.transport import (
    AuthenticationLevel,
    Message,
    MessageClass,
    MessageId,
)

log: Final = logging.getLogger(__name__)

ARRIVING_MAX: Final = 64
"""Messages that arrive before the queue manager looks at them: a session's window ([MS-MQQB] 3.1.1.2)."""
RETRY_S: Final = 1.0
"""Seconds after which a machine that could not be reached is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManagerSettings:
    """Settings of a local queue manager.

    Attributes:
        outgoing: how much may wait for other machines.
        insecure_nacks: whether NackBadDestQueue and NackBadSignature are sent, which [MC-MQDSRP] needs
            (SendInsecureNacks, [MS-MQQB] 3.1.7.15).
        addresses: names and IP addresses by which direct format names may call this machine, beside its name.
        any_direct_name: True to accept every direct format name that arrives: this machine may have addresses
            that it does not know. Not for queues that want signatures (decision T46).
    """

    outgoing: OutgoingLimits = LIMITS
    insecure_nacks: bool = True
    addresses: frozenset[Address] = frozenset()
    any_direct_name: bool = False


DEFAULTS: Final = QueueManagerSettings()


class DeliveryState(Enum):
    """Result of giving a message to a carrier."""

    DELIVERED = "delivered"
    """The queue manager of the destination has the message."""
    IN_FLIGHT = "in flight"
    """The carrier has the message, and calls `LocalQueueManager.confirm` or `take_back`."""
    REFUSED = "refused"
    """The destination cannot be reached, or it or the carrier is full: the message waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """State of one queue of a queue manager at one moment.

    Attributes:
        name: name of a local queue, or the machine that an outgoing queue leads to.
        is_outgoing: True if the messages wait for another machine.
        messages: number of messages, with those in flight.
        octets: their octets (`Message.octets`).
    """

    name: str
    is_outgoing: bool
    messages: int
    octets: int


class MessageCarrier(Protocol):
    """Carrier of messages from one queue manager to others.

    Every method may be called from any thread.

    What it brings to a queue manager it passes to `LocalQueueManager.offer`.
    """

    def deliver(self, source: "LocalQueueManager", queued: QueuedMessage) -> DeliveryState:
        """Deliver a message to the machine of its address, or begin to."""

    def wake(self) -> None:
        """Let all concerned check their messages again.

        There is room in a queue manager that was full.
        """

    def remove(self, queue_manager: "LocalQueueManager") -> None:
        """Remove a closed queue manager."""


class LocalQueueManager:
    """Queue manager of one machine (`mqdssm.drivers.transport.Transport`).

    Args:
        carrier: brings its messages to other machines.
        machine_name: QueueManager.ComputerName.
        identifier: QueueManager.Identifier.
        numbers: of its messages, for any thread; none may be repeated, also not after a restart:
            `MessageNumbers`.
        clock: seconds since 1970.
        signer: signs its messages.
        verifier: verifies the signatures of messages to it.
        store: keeps recoverable messages; None: they are kept in memory. Its owner closes it.
        settings: its limits.
        on_work: called when there may be something to do for `turn`; None: it has a thread.

    Attributes:
        counts: what was dropped or refused here.
    """

    def __init__(
        self,
        carrier: MessageCarrier,
        machine_name: str,
        identifier: Guid,
        *,
        numbers: Iterator[int],
        clock: Callable[[], float],
        signer: Signer | None = None,
        verifier: Verifier | None = None,
        store: MessageStore | None = None,
        settings: QueueManagerSettings = DEFAULTS,
        on_work: Callable[[], None] | None = None,
    ) -> None:
        self._carrier = carrier
        self._on_work = on_work
        self._clock = clock
        self._machine_name = machine_name
        self._identifier = identifier
        self._signer = signer
        self._verifier = verifier
        self._settings = settings
        self._addresses: Final = settings.addresses | {machine_name.casefold(), identifier}
        self.counts: Final = EventCounts()
        self._lock: Final = Lock()
        self._changed: Final = Condition(self._lock)
        self._closed = False
        self._awake = False
        self._refused = False
        self._numbers = numbers
        self._observers: Final = DeliveryObservers()
        self._inboxes: Final[dict[int, LocalInbox]] = {}
        self._arriving: Final[deque[ArrivingMessage]] = deque()
        self._store = store
        self._outgoing: Final = Outgoing(settings.outgoing, self.counts, self._forget)
        self._acknowledger: Final = Acknowledger(
            next_identifier=self._take_identifier,
            enqueue=self._enqueue,
            clock=clock,
            store=store,
            counts=self.counts,
            insecure_nacks=settings.insecure_nacks,
        )
        self._intake: Final = MessageIntake(
            self._find, self._acknowledger, verifier=verifier, store=store, clock=clock, counts=self.counts
        )
        self._thread: Final = WorkerThread(self._work, f"queue manager {machine_name}", on_failure=self._stop)

    @property
    def machine_name(self) -> str:
        """QueueManager.ComputerName."""
        return self._machine_name

    @property
    def identifier(self) -> Guid:
        """QueueManager.Identifier."""
        return self._identifier

    def has_address(self, address: Address) -> bool:
        """Return True if an address of a format name is one of this machine."""
        return address in self._addresses

    @property
    def is_storing(self) -> bool:
        """True if recoverable messages survive a restart."""
        return self._store is not None

    def start(self) -> None:
        """Queue the messages that were stored before, and start the thread.

        No thread is started if there is none.

        Raises:
            TransportError: the stored messages cannot be read.
        """
        for message in () if self._store is None else self._store.read_sent():
            if message.destination is None or not self._enqueue(address_of(message.destination), message):
                log.warning("%s is full: a stored message waits for the next start", self._machine_name)
        if self._on_work is None:
            self._thread.start()

    def open(self, queue: LocalQueue) -> LocalInbox:
        """Open a local queue, creating it if necessary (see `Transport.open`)."""
        if queue.authenticated and self._verifier is None:
            raise ValueError(f"nobody verifies signatures for {queue.name} of {self._machine_name}")
        with self._lock:
            is_known = queue.number in self._inboxes
        created = LocalInbox(queue, self._clock, self._acknowledger.leave)
        for arrival in () if is_known or self._store is None else self._store.read_arrived(queue.number):
            if not created.put(arrival):
                log.warning("queue %s is full: a stored message waits for the next start", queue.name)
        with self._lock:
            if self._closed:
                raise TransportError(f"queue manager {self._machine_name} is closed")
            for inbox in self._inboxes.values():
                same_name = inbox.queue.name.casefold() == queue.name.casefold()
                if same_name is not (inbox.queue.number == queue.number):
                    raise ValueError(f"queue {queue.name}, {queue.number}: name or number is another queue's")
            queue_inbox = self._inboxes.setdefault(queue.number, created)
            queue_inbox.reopen()
        return queue_inbox

    def queues(self) -> tuple[QueueState, ...]:
        """Return the state of all local and outgoing queues; from any thread."""
        with self._lock:
            inboxes, outgoing = list(self._inboxes.values()), self._outgoing.measure_sizes()
        local = ((inbox.queue.name, False, inbox.size) for inbox in inboxes)
        remote = ((str(address), True, size) for address, size in outgoing.items())
        return tuple(
            QueueState(name=name, is_outgoing=is_outgoing, messages=size[0], octets=size[1])
            for name, is_outgoing, size in (*local, *remote)
        )

    def delete(self, queue: LocalQueue) -> None:
        """Remove a queue ([MS-MQDMPR] 3.1.7.1.4).

        Senders receive NackQueueDeleted if they asked for it.
        """
        with self._lock:
            inbox = self._inboxes.pop(queue.number, None)
        if inbox is not None:
            inbox.close()
            inbox.remove_all(MessageClass.NACK_QUEUE_DELETED)

    def send(
        self, message: Message, destination: FormatName, *, observer: DeliveryObserver | None = None
    ) -> MessageId:
        """Accept a message for a queue (see `Transport.send`).

        Args:
            message: the message.
            destination: format name of a private queue.
            observer: is told what becomes of the message, until it is confirmed or given up.
        """
        address = address_of(destination)
        if self._closed:
            raise TransportError(f"queue manager {self._machine_name} is closed")
        identifier = self._take_identifier()
        complete = message.make_variant(
            identifier=identifier, sent_at=int(self._clock()), destination=destination, body=message.body
        )
        if complete.authentication_level is not AuthenticationLevel.NONE:
            if self._signer is None:
                raise TransportError(f"queue manager {self._machine_name} has no key to sign with")
            complete = self._signer.sign(complete)
        check_size(complete)
        if self._store is not None and is_recoverable(complete):
            self._store.add_sent(complete)
        if observer is not None:
            self._observers.add(identifier, observer)
        if not self._enqueue(address, complete):
            self._forget(complete)
            self._observers.remove(identifier)
            raise TransportError(f"too many messages wait at {self._machine_name}, or it is closed")
        return identifier

    def purge_waiting(self, destination: FormatName) -> None:
        """Remove the messages that wait for a machine.

        Senders receive NackPurged if they asked for it.

        A message in flight may arrive yet: it is purged when the carrier gives it back.
        """
        with self._lock:
            gone = self._outgoing.purge(address_of(destination))
        for message in gone:
            self._give_up(message, MessageClass.NACK_PURGED)

    def flush(self, timeout_s: float) -> bool:
        """Wait until no message waits for another machine.

        Returns:
            False if some messages still wait after `timeout_s` seconds.
        """
        with self._lock:
            return self._changed.wait_for(lambda: self._closed or not self._outgoing.addresses, timeout_s)

    def close(self) -> None:
        """Stop the queue manager; waiting messages are lost.

        Raises:
            Exception: the defect that had stopped it already; once.
        """
        self._stop()
        self._thread.join()
        self._flush_store()

    def wake(self) -> None:
        """Let the queue manager check its messages again."""
        with self._lock:
            self._awaken()

    def offer(
        self,
        messages: Iterable[Message],
        on_settled: Callable[[bool], None] | None = None,
        *,
        refusal: MessageClass | None = None,
    ) -> bool:
        """Accept messages from another machine; False if it is full or closed.

        Args:
            messages: the messages.
            on_settled: called for each of them, see `ArrivingMessage`.
            refusal: class of the negative acknowledgement for all of them; None: they are examined.
        """
        with self._lock:
            if self._closed or len(self._arriving) >= ARRIVING_MAX:
                self._refused = True
                return False
            self._arriving.extend(ArrivingMessage(message, on_settled, refusal) for message in messages)
            self._notify()
        return True

    def confirm(self, messages: Iterable[QueuedMessage]) -> None:
        """Remove messages that were in flight: their destination has them."""
        confirmed = list(messages)
        with self._lock:
            for queued in confirmed:
                self._outgoing.release(queued)
            self._awaken()
        for queued in confirmed:
            self._report_confirmed(queued.message)

    def give_up(self, queued: QueuedMessage) -> None:
        """Remove a message that was in flight and can never be sent."""
        with self._lock:
            self._outgoing.release(queued)
        self._forget(queued.message)
        self._observers.give_up(queued.message.identifier, None)

    def take_back(self, messages: Iterable[QueuedMessage]) -> None:
        """Queue messages that were in flight again, in their old places."""
        for queued in messages:
            self._put_back(queued)
        self.wake()

    def acknowledge(self, message: Message, message_class: MessageClass) -> None:
        """Send the acknowledgement that a message asked for ([MS-MQQB] 3.1.7.15).

        Nothing is sent if it asked for none.
        """
        self._acknowledger.acknowledge(message, message_class)

    def _take_identifier(self) -> MessageId:
        return MessageId(self._identifier, next(self._numbers))

    def _forget(self, message: Message) -> None:
        """Remove a sent message from the store, soon."""
        if self._store is not None and is_recoverable(message):
            self._store.forget(message.identifier)

    def _flush_store(self) -> None:
        """Remove sent messages from the disk.

        If that fails, peers drop the second copies.
        """
        try:
            if self._store is not None:
                self._store.flush()
        except TransportError as error:
            text = "messages that were sent stay in the store of %s: %s"
            self._acknowledger.warnings.log(log, text, self._machine_name, error)

    def _notify(self) -> None:
        """Notify the thread or the `on_work` call-back; the lock is held."""
        if self._on_work is not None:
            self._on_work()
        self._changed.notify_all()

    def _awaken(self) -> None:
        """Let the next turn begin, if it does not begin anyway; the lock is held."""
        if not self._awake:
            self._awake = True
            self._notify()

    def _enqueue(self, address: Address, message: Message) -> bool:
        with self._lock:
            if self._closed:
                return False
            is_accepted = self._outgoing.put(address, message)
            self._awaken()
        return is_accepted

    # --- its thread

    def _stop(self) -> None:
        """Close everything, also after a defect.

        Then `receive` returns None and `close` raises the defect.
        """
        self._carrier.remove(self)
        with self._lock:
            self._closed = True
            self._notify()
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            inbox.close()

    def _work(self) -> None:
        wait: float | None = None
        while True:
            with self._lock:
                if not (self._closed or self._awake or self._arriving):
                    self._changed.wait(wait)
                if self._closed:
                    return
            wait = self.turn()

    def turn(self) -> float | None:
        """Process arrived messages and send waiting ones.

        The thread calls it, or a caller instead of a thread.

        Returns:
            Seconds until there may be something to do again; None: when somebody wakes it.
        """
        with self._lock:
            self._awake = False
            arrived = list(self._arriving)
            self._arriving.clear()
            refused, self._refused = self._refused, False
        if refused:
            self._carrier.wake()  # there is room again
        self._intake.process(arrived)
        self._flush_store()
        return self._send_waiting()

    def _send_waiting(self) -> float | None:
        """Send waiting messages and drop expired ones.

        Returns the seconds until the next check, or None.
        """
        with self._lock:
            addresses = self._outgoing.addresses
            inboxes = list(self._inboxes.values())
        now = self._clock()
        deadlines = [inbox.expire(now) for inbox in inboxes]
        blocked = False
        for address in addresses:
            blocked |= self._send_to(address)
            with self._lock:
                deadlines.append(self._outgoing.settle(address))
                self._changed.notify_all()  # `flush` may wait for this
        waits = [max(0.0, due - now) for due in deadlines if due is not None]
        return min([*waits, RETRY_S] if blocked else waits, default=None)

    def _send_to(self, address: Address) -> bool:
        """Send the messages for one machine; return True if some have to wait."""
        while True:
            with self._lock:
                late, item = self._outgoing.take(address, self._clock())
            for message in late:
                self._give_up(message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            if item is None:
                return False
            match self._carrier.deliver(self, item):
                case DeliveryState.DELIVERED:
                    with self._lock:
                        self._outgoing.release(item)
                    self._report_confirmed(item.message)
                case DeliveryState.REFUSED:
                    self._put_back(item)
                    return True

    def _put_back(self, queued: QueuedMessage) -> None:
        with self._lock:
            is_purged = not self._outgoing.put_back(queued)
        if is_purged:
            self._give_up(queued.message, MessageClass.NACK_PURGED)

    def _give_up(self, message: Message, message_class: MessageClass) -> None:
        """Report that a message was not sent.

        The report goes to its observer and its administration queue.
        """
        self._observers.give_up(message.identifier, message_class)
        self.acknowledge(message, message_class)
        self._forget(message)

    def _report_confirmed(self, message: Message) -> None:
        self._forget(message)
        self._observers.confirm(message.identifier)

    def _find(self, name: FormatName | None) -> LocalInbox | None:
        """Find the queue of a format name, if it is a queue of this machine.

        A message that was signed for another machine may be a recorded one: it is not accepted.
        """
        if name is None:
            return None
        try:
            is_here = self.has_address(address_of(name))
        except ValueError:
            return None
        with self._lock:
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            is_direct = self._settings.any_direct_name and not inbox.queue.authenticated
            match name:
                case PrivateFormatName(number=number) if is_here and number == inbox.queue.number:
                    return inbox
                case DirectFormatName(queue=queue) if is_here or is_direct:
                    if queue.casefold() == inbox.queue.name.casefold():
                        return inbox
        return None
