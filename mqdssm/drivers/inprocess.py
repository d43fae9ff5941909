"""Network of queue managers in one process, for tests, demonstrations and simulations.

Each host has one thread, which sends what waits on it and takes in what arrives, as two queue managers do
by [MS-MQQB] 3.1.5.8 and 3.1.7.1; the wire itself is left out. Links can be cut and healed, and a fault
may drop, double, delay or forge what is under way.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from threading import Condition, Lock, Thread
from typing import Final, TypeAlias

from mqdssm.drivers.authentication import Distrust, Signer, Verified, Verifier
from mqdssm.drivers.counts import EventCounts
from mqdssm.drivers.inbox import HostInbox
from mqdssm.drivers.outgoing import LIMITS, Address, Outgoing, OutgoingLimits
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, FormatName, PathKind, PrivateFormatName
from mqdssm.model.transport import (
    AuthenticationLevel,
    Message,
    MessageClass,
    MessageId,
    acknowledgement,
    is_acknowledgement,
)

log: Final = logging.getLogger(__name__)

ARRIVING_MAX: Final = 64
"""Messages that a host takes in before it looks at them: the window of a session ([MS-MQQB] 3.1.1.2)."""
RETRY_S: Final = 1.0
"""How long messages wait for a machine that is not there, before it is looked for again."""

Fault: TypeAlias = Callable[[str, str, Message], Iterable[Message]]
"""Returns the messages that arrive for one that was sent: none, the message, a copy, or others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Limits of a host.

    Attributes:
        outgoing: how much may wait for other machines.
        insecure_nacks: whether NackBadDestQueue and NackBadSignature are sent, which [MC-MQDSRP] needs
            (SendInsecureNacks, [MS-MQQB] 3.1.7.15).
    """

    outgoing: OutgoingLimits = LIMITS
    insecure_nacks: bool = True


DEFAULTS: Final = HostSettings()
_INSECURE: Final = frozenset({MessageClass.NACK_BAD_DEST_QUEUE, MessageClass.NACK_BAD_SIGNATURE})


class InProcessNetwork:
    """Network that delivers messages to hosts by machine name (in any case) or identifier.

    Args:
        clock: seconds since 1970, of all hosts.
        fault: what happens to messages under way.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, fault: Fault | None = None) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._hosts: Final[dict[Address, Host]] = {}
        self._cut: Final[set[frozenset[str]]] = set()
        self._numbers: Final[dict[Guid, Iterator[int]]] = {}
        self.fault: Fault | None = fault

    def add(
        self,
        machine_name: str,
        identifier: Guid,
        *,
        signer: Signer | None = None,
        verifier: Verifier | None = None,
        settings: HostSettings = DEFAULTS,
        on_work: Callable[[], None] | None = None,
    ) -> "Host":
        """Start a host.

        Args:
            machine_name: its name.
            identifier: QueueManager.Identifier.
            signer: signs its messages.
            verifier: verifies the signatures of messages to it.
            settings: its limits.
            on_work: called when there may be something to do for `Host.turn`; None: it has a thread.

        Raises:
            ValueError: there is one of that name or identifier.
        """
        host = Host(
            self,
            machine_name,
            identifier,
            clock=self._clock,
            signer=signer,
            verifier=verifier,
            settings=settings,
            on_work=on_work,
        )
        with self._lock:
            if machine_name.casefold() in self._hosts or identifier in self._hosts:
                raise ValueError(f"there is a host {machine_name} or {identifier} already")
            self._hosts[machine_name.casefold()] = self._hosts[identifier] = host
        if on_work is None:
            host.start()
        self.wake()
        return host

    def cut(self, one: str, other: str) -> None:
        """Cut the link between two machines."""
        with self._lock:
            self._cut.add(frozenset({one.casefold(), other.casefold()}))

    def heal(self) -> None:
        """Restore all links that were cut."""
        with self._lock:
            self._cut.clear()
        self.wake()

    def wake(self) -> None:
        """Let every host check its messages, after the clock advanced or a machine became reachable."""
        with self._lock:
            hosts = list(dict.fromkeys(self._hosts.values()))  # each has two addresses
        for host in hosts:
            host.wake()

    def close(self) -> None:
        """Close all hosts.

        Raises:
            Exception: as `Host.close`; all are closed.
        """
        with contextlib.ExitStack() as closing, self._lock:
            for host in dict.fromkeys(self._hosts.values()):
                closing.callback(host.close)

    def numbers(self, identifier: Guid) -> Iterator[int]:
        """Return the message numbers of a host; they continue after a restart, so that none is repeated."""
        with self._lock:
            return self._numbers.setdefault(identifier, count(1))

    def pass_on(self, source: "Host", address: Address, message: Message) -> bool:
        """Pass a message to the machine of an address; False if it is unreachable or full."""
        with self._lock:
            target = self._hosts.get(address)
            cut = target is None or _link(source, target) in self._cut
        if target is None or cut:
            return False
        arriving = self.fault(source.machine_name, target.machine_name, message) if self.fault else (message,)
        return target.offer(arriving)

    def forget(self, host: "Host") -> None:
        """Remove a closed host."""
        with self._lock:
            for address in (host.machine_name.casefold(), host.identifier):
                if self._hosts.get(address) is host:
                    del self._hosts[address]


def _link(one: "Host", other: "Host") -> frozenset[str]:
    return frozenset({one.machine_name.casefold(), other.machine_name.casefold()})


class Host:
    """Queue manager of an `InProcessNetwork` (`mqdssm.drivers.transport.Transport`).

    Attributes:
        counts: what was dropped or refused here.
    """

    def __init__(
        self,
        network: InProcessNetwork,
        machine_name: str,
        identifier: Guid,
        *,
        clock: Callable[[], float],
        signer: Signer | None,
        verifier: Verifier | None,
        settings: HostSettings,
        on_work: Callable[[], None] | None,
    ) -> None:
        self._network = network
        self._on_work = on_work
        self._clock = clock
        self._machine_name = machine_name
        self._identifier = identifier
        self._signer = signer
        self._verifier = verifier
        self._settings = settings
        self.counts: Final = EventCounts()
        self._lock: Final = Condition()
        self._closed = False
        self._awake = False
        self._refused = False
        self._numbers = network.numbers(identifier)
        self._inboxes: Final[dict[int, HostInbox]] = {}
        self._arriving: Final[deque[Message]] = deque()
        self._outgoing: Final = Outgoing(settings.outgoing, self.counts)
        self._failure: Exception | None = None
        self._thread: Final = Thread(target=self._run, name=f"queue manager {machine_name}", daemon=True)

    @property
    def machine_name(self) -> str:
        """QueueManager.ComputerName."""
        return self._machine_name

    @property
    def identifier(self) -> Guid:
        """QueueManager.Identifier."""
        return self._identifier

    def start(self) -> None:
        """Start the thread of the host."""
        self._thread.start()

    def open(self, queue: LocalQueue) -> HostInbox:
        """Open a queue of the host, creating it if necessary (see `Transport.open`)."""
        if queue.authenticated and self._verifier is None:
            raise ValueError(f"nobody verifies signatures for {queue.name} of {self._machine_name}")
        with self._lock:
            if self._closed:
                raise TransportError(f"queue manager {self._machine_name} is closed")
            for inbox in self._inboxes.values():
                same_name = inbox.queue.name.casefold() == queue.name.casefold()
                if same_name is not (inbox.queue.number == queue.number):
                    raise ValueError(f"queue {queue.name}, {queue.number}: name or number is another queue's")
            found = self._inboxes.setdefault(queue.number, HostInbox(queue, self._clock, self.acknowledge))
            found.reopen()
        return found

    def delete(self, queue: LocalQueue) -> None:
        """Remove a queue; senders receive NackQueueDeleted if they asked for it ([MS-MQDMPR] 3.1.7.1.4)."""
        with self._lock:
            inbox = self._inboxes.pop(queue.number, None)
        if inbox is not None:
            inbox.close()
            inbox.empty(MessageClass.NACK_QUEUE_DELETED)

    def send(self, message: Message, destination: FormatName) -> MessageId:
        """Accept a message for a queue (see `Transport.send`)."""
        address = _address(destination)
        with self._lock:
            identifier = MessageId(self._identifier, next(self._numbers))
        complete = replace(
            message, identifier=identifier, sent_at=int(self._clock()), destination=destination
        )
        if complete.authentication_level is not AuthenticationLevel.NONE:
            if self._signer is None:
                raise TransportError(f"queue manager {self._machine_name} has no key to sign with")
            complete = self._signer.sign(complete)
        if not self._post(address, complete):
            raise TransportError(f"too many messages wait at {self._machine_name}, or it is closed")
        return identifier

    def purge_waiting(self, destination: FormatName) -> None:
        """Remove the messages that wait for a machine; senders receive NackPurged if they asked for it."""
        with self._lock:
            gone = self._outgoing.purge(_address(destination))
        for message in gone:
            self.acknowledge(message, MessageClass.NACK_PURGED)

    def close(self) -> None:
        """Stop the host; waiting messages are lost.

        Raises:
            Exception: the defect that had stopped it already; once.
        """
        self._stop()
        if self._on_work is None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def wake(self) -> None:
        """Let the host check its messages again."""
        with self._lock:
            self._awake = True
            self._notify()

    def offer(self, messages: Iterable[Message]) -> bool:
        """Accept messages from another machine; False if the host is full or closed."""
        with self._lock:
            if self._closed or len(self._arriving) >= ARRIVING_MAX:
                self._refused = True
                return False
            self._arriving.extend(messages)
            self._notify()
        return True

    def acknowledge(self, message: Message, message_class: MessageClass) -> None:
        """Send the acknowledgement that a message asked for, if it did ([MS-MQQB] 3.1.7.15)."""
        made = acknowledgement(message, message_class)
        target = message.administration_queue
        if made is None or target is None or not self._may_send(message_class):
            return
        with self._lock:
            number = next(self._numbers)
        sent = replace(
            made,
            identifier=MessageId(self._identifier, number),
            sent_at=int(self._clock()),
            destination=target,
        )
        with contextlib.suppress(ValueError):  # a queue that cannot be reached from here
            self._post(_address(target), sent)

    def _notify(self) -> None:
        """Notify the thread or the `on_work` call-back; the lock is held."""
        if self._on_work is not None:
            self._on_work()
        self._lock.notify_all()

    def _may_send(self, message_class: MessageClass) -> bool:
        return self._settings.insecure_nacks or message_class not in _INSECURE

    def _post(self, address: Address, message: Message) -> bool:
        with self._lock:
            if self._closed:
                return False
            taken = self._outgoing.put(address, message)
            self._awake = True
            self._notify()
        return taken

    # --- its thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # a defect: `receive` returns None, `close` raises the error
            log.critical("queue manager %s stops: a defect", self._machine_name, exc_info=True)
            self._failure = error
            self._stop()

    def _stop(self) -> None:
        self._network.forget(self)
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
                    self._lock.wait(wait)
                if self._closed:
                    return
            wait = self.turn()

    def turn(self) -> float | None:
        """Process arrived messages and send waiting ones; called by the thread, or instead of a thread.

        Returns:
            Seconds until there may be something to do again; None: when somebody wakes it.
        """
        with self._lock:
            self._awake = False
            arrived = list(self._arriving)
            self._arriving.clear()
            refused, self._refused = self._refused, False
        if refused:
            self._network.wake()  # there is room again
        for message in arrived:
            self._take_in(message)
        return self._send_waiting()

    def _send_waiting(self) -> float | None:
        """Send waiting messages and drop expired ones; return the seconds until the next check, or None."""
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
        waits = [max(0.0, due - now) for due in deadlines if due is not None]
        return min([*waits, RETRY_S] if blocked else waits, default=None)

    def _send_to(self, address: Address) -> bool:
        """Send the messages for one machine; return True if some have to wait."""
        while True:
            with self._lock:
                late, taken = self._outgoing.take(address, self._clock())
            for message in late:
                self.acknowledge(message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            if taken is None:
                return False
            number, message = taken
            if not self._network.pass_on(self, address, message):
                with self._lock:
                    self._outgoing.put_back(address, number, message)
                return True

    def _is_here(self, name: FormatName) -> bool:
        try:
            return _address(name) in {self._machine_name.casefold(), self._identifier}
        except ValueError:
            return False

    def _take_in(self, message: Message) -> None:
        """Receive a message from the network ([MS-MQQB] 3.1.5.8)."""
        refused = self._refusal(message)
        if isinstance(refused, MessageClass):
            self.counts.add(f"refused: {refused.name}")
            self.acknowledge(message, refused)
        elif isinstance(refused, Distrust):
            log.info("%s drops a message: %s", self._machine_name, refused.value)

    def _refusal(self, message: Message) -> MessageClass | Distrust | None:
        """Put a message into its queue, or return why not, in the order of [MS-MQQB] 3.1.5.8."""
        inbox = self._find(message.destination)
        if inbox is None:
            return MessageClass.NACK_BAD_DEST_QUEUE
        deadline = message.reach_deadline
        if deadline is not None and deadline <= self._clock():
            return MessageClass.NACK_REACH_QUEUE_TIMEOUT
        verdict = self._verify(message, inbox.queue)
        is_good = not isinstance(verdict, Distrust) or verdict is Distrust.REPLAYED
        if is_good and inbox.has_had(message.identifier):
            self.counts.add("dropped: came twice")
            return None
        if isinstance(verdict, Distrust):
            self.counts.add(f"distrusted: {verdict.value}")
            return MessageClass.NACK_BAD_SIGNATURE if verdict.is_bad_signature else verdict
        level = verdict.level if verdict else AuthenticationLevel.NONE
        sender = verdict.sender if verdict else None
        if not inbox.put(Arrival(message=replace(message, authentication_level=level), sender=sender)):
            return MessageClass.NACK_QUEUE_EXCEED_QUOTA
        self.acknowledge(message, MessageClass.ACK_REACH_QUEUE)
        return None

    def _verify(self, message: Message, queue: LocalQueue) -> Verified | Distrust | None:
        """Verify the signature of a message; None if it needs no signature and has none."""
        needed = queue.authenticated and not is_acknowledgement(message.message_class)
        if self._verifier is None or not (needed or message.signature):
            return None
        return self._verifier.verify(message, self._clock())

    def _find(self, name: FormatName | None) -> HostInbox | None:
        """Find the queue of a format name, if it is a queue of this host.

        A message that was signed for another machine may be a recorded one: it is not accepted.
        """
        if name is None or not self._is_here(name):
            return None
        with self._lock:
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            match name:
                case PrivateFormatName(number=number) if number == inbox.queue.number:
                    return inbox
                case DirectFormatName(queue=queue) if queue.casefold() == inbox.queue.name.casefold():
                    return inbox
        return None


def _address(name: FormatName) -> Address:
    """Return the machine that a format name leads to.

    Raises:
        ValueError: messages cannot be sent to such a format name here.
    """
    match name:
        case PrivateFormatName(guid=guid, journal=False):
            return Guid.of(guid)
        case DirectFormatName(
            DirectProtocol.OS, address, kind=PathKind.PRIVATE, subqueue=None, journal=False
        ):
            return address.casefold()
    raise ValueError(f"nothing can be sent to {name} here: private queues by DIRECT=OS or PRIVATE alone")
