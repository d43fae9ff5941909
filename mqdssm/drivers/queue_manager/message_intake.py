"""Messages that arrive ([MS-MQQB] 3.1.5.8).

Each is refused, dropped, or stored and put into its queue.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mqdssm.drivers.authentication.signatures import Distrust, Verified, Verifier
from mqdssm.drivers.queue_manager.acknowledger import Acknowledger
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.queue_manager.message_store import MessageStore, is_recoverable
from mqdssm.drivers.threads import EventCounts, WarningLimit
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.names import FormatName
from mqdssm.model.transport import (
    AuthenticationLevel,
    Message,
    MessageClass,
    MessageId,
    is_acknowledgement,
)

log: Final = logging.getLogger(__name__)

POSTPONED_S: Final = 3600
"""Seconds for which recoverable messages that cannot be verified come again: their dates are too old then."""
POSTPONED_MAX: Final = 1000
"""Such messages that are remembered; the oldest are forgotten, and have their time again."""


class ArrivingMessage(NamedTuple):
    """Message that a carrier has brought.

    Attributes:
        message: the message.
        on_settled: called with True when the message is stored, refused or dropped for ever, and with False
            when it could not be stored; None: nobody waits for that.
        refusal: class of the negative acknowledgement, if the carrier has refused the message.
    """

    message: Message
    on_settled: Callable[[bool], None] | None = None
    refusal: MessageClass | None = None


@dataclass(slots=True)
class _Batch:
    """Accepted messages of one batch, and their follow-up work.

    The follow-up work is done when the messages are stored.
    """

    arrivals: dict[LocalInbox, list[Arrival]] = field(default_factory=dict)
    octets: dict[LocalInbox, int] = field(default_factory=dict)
    identifiers: set[tuple[int, MessageId]] = field(default_factory=set)
    answers: list[tuple[Message, Callable[[], object]]] = field(default_factory=list)
    verified: list[tuple[Message, Verified]] = field(default_factory=list)
    postponed: list[ArrivingMessage] = field(default_factory=list)

    def add(self, inbox: LocalInbox, arrival: Arrival) -> None:
        """Add an accepted message of a queue."""
        self.arrivals.setdefault(inbox, []).append(arrival)
        self.octets[inbox] = self.octets.get(inbox, 0) + arrival.octets
        self.identifiers.add((inbox.queue.number, arrival.message.identifier))

    def has_room_for(self, inbox: LocalInbox, arrival: Arrival) -> bool:
        """Return True if a queue has room for another message after those of this batch."""
        octets = self.octets.get(inbox, 0) + arrival.octets
        return inbox.has_room(len(self.arrivals.get(inbox, ())), octets)


class MessageIntake:
    """Acceptance of messages by a queue manager; used by its thread.

    All recoverable messages of a batch are stored by one transaction, before they are put into their queues
    and before the sender is told. If it fails they are dropped, and the sender sends them again.

    Args:
        find: finds the queue of a format name.
        acknowledger: sends acknowledgements.
        verifier: verifies signatures; None: there are no queues that want them.
        store: keeps recoverable messages; None: they are kept in memory.
        clock: seconds since 1970.
        counts: where dropped and refused messages are counted.
    """

    def __init__(
        self,
        find: Callable[[FormatName | None], LocalInbox | None],
        acknowledger: Acknowledger,
        *,
        verifier: Verifier | None,
        store: MessageStore | None,
        clock: Callable[[], float],
        counts: EventCounts,
    ) -> None:
        self._find, self._acknowledger = find, acknowledger
        self._verifier, self._store, self._clock, self._counts = verifier, store, clock, counts
        self._postponed: Final[OrderedDict[MessageId, float]] = OrderedDict()
        self._warnings: Final = WarningLimit(warnings_max=3)  # a full disk refuses each batch

    def process(self, arriving: Sequence[ArrivingMessage]) -> None:
        """Handle the messages of a batch in their order."""
        pending = deque(arriving)
        batch = _Batch()
        store = self._store if any(is_recoverable(entry.message) for entry in arriving) else None
        is_stored = True
        try:
            with nullcontext() if store is None else store.begin_transaction():
                while pending:
                    self._take_in(pending[0], batch, store)
                    pending.popleft()
        except TransportError as error:
            self._warnings.log(log, "recoverable messages are dropped, and will be sent again: %s", error)
            self._counts.add("dropped: could not be stored")
            is_stored = False
            self._drop_recoverable(batch)
            for entry in pending:
                if not is_recoverable(entry.message):
                    self._take_in(entry, batch, None)
        for inbox, arrivals in batch.arrivals.items():
            inbox.put_all(arrivals)
        for _, answer in batch.answers:
            answer()
        for entry in arriving:
            if entry.on_settled is not None:
                is_postponed = any(entry is postponed for postponed in batch.postponed)
                entry.on_settled(not is_postponed and (is_stored or not is_recoverable(entry.message)))

    def _drop_recoverable(self, batch: _Batch) -> None:
        """Drop what could not be stored, and accept its signatures again."""
        for arrivals in batch.arrivals.values():
            arrivals[:] = [arrival for arrival in arrivals if not is_recoverable(arrival.message)]
        batch.answers = [entry for entry in batch.answers if not is_recoverable(entry[0])]
        for message, verified in batch.verified:
            if self._verifier is not None and is_recoverable(message):
                self._verifier.withdraw(message, verified)

    def _take_in(self, entry: ArrivingMessage, batch: _Batch, store: MessageStore | None) -> None:
        """Accept a message, or refuse, postpone or drop it."""
        message = entry.message
        verdict = entry.refusal or self._examine(message, batch)
        if isinstance(verdict, Distrust) and verdict.is_temporary and is_recoverable(message):
            log.info("a message is not accepted now, and will be sent again: %s", verdict.value)
            batch.postponed.append(entry)
        elif isinstance(verdict, Distrust):
            log.info("a message is dropped: %s", verdict.value)
        elif isinstance(verdict, MessageClass):
            self._counts.add(f"refused: {verdict.name}")
            batch.answers.append((message, self._acknowledger.prepare(message, verdict)))
        elif verdict is not None:
            self._accept(*verdict, batch, store)

    def _accept(self, inbox: LocalInbox, arrival: Arrival, batch: _Batch, store: MessageStore | None) -> None:
        """Accept a message, and store it if it is recoverable."""
        message, outcome = arrival.message, MessageClass.ACK_REACH_QUEUE
        try:
            if store is not None and is_recoverable(message):
                store.add_arrived(inbox.queue.number, arrival)
        except ValueError as error:  # its queues take more room here than in the packet that has come
            self._counts.add("refused: recoverable message that fits no packet")
            log.info("message %s is refused: %s", message.identifier, error)
            outcome = MessageClass.NACK_QUEUE_EXCEED_QUOTA
        else:
            batch.add(inbox, arrival)
        batch.answers.append((message, self._acknowledger.prepare(message, outcome)))

    def _examine(
        self, message: Message, batch: _Batch
    ) -> tuple[LocalInbox, Arrival] | MessageClass | Distrust | None:
        """Return queue and arrival, or the reason of a refusal.

        None if the message came before ([MS-MQQB] 3.1.5.8).
        """
        inbox = self._find(message.destination)
        if inbox is None:
            return MessageClass.NACK_BAD_DEST_QUEUE
        verdict = self._verify(message, inbox.queue)
        if isinstance(verdict, Verified):
            batch.verified.append((message, verdict))
        is_good = not isinstance(verdict, Distrust) or verdict is Distrust.REPLAYED
        if is_good and self._was_received(message, inbox, batch):
            self._counts.add("dropped: came twice")
            return None
        deadline = message.reach_deadline
        if deadline is not None and deadline <= self._clock():  # a second copy gets no false answer
            return MessageClass.NACK_REACH_QUEUE_TIMEOUT
        if isinstance(verdict, Distrust):
            self._counts.add(f"distrusted: {verdict.value}")
            is_refused = verdict.is_bad_signature or self._is_lost_if_dropped(message, verdict)
            return MessageClass.NACK_BAD_SIGNATURE if is_refused else verdict
        level = verdict.level if verdict else AuthenticationLevel.NONE
        sender = verdict.sender if verdict else None
        if message.authentication_level is not level:
            message = replace(message, authentication_level=level)
        arrival = Arrival(message=message, sender=sender)
        return (
            (inbox, arrival) if batch.has_room_for(inbox, arrival) else MessageClass.NACK_QUEUE_EXCEED_QUOTA
        )

    def _was_received(self, message: Message, inbox: LocalInbox, batch: _Batch) -> bool:
        """Return True if a queue has had the message.

        If the message is recoverable, the time before a restart counts, too.
        """
        number, identifier = inbox.queue.number, message.identifier
        if (number, identifier) in batch.identifiers or inbox.has_had(identifier):
            return True
        return self._store is not None and is_recoverable(message) and self._store.has_had(number, identifier)

    def _is_lost_if_dropped(self, message: Message, reason: Distrust) -> bool:
        """Return True if dropping a message without an answer would lose it.

        Recoverable messages alone are meant.

        No queue has had the message. A crash may have come before it was stored, but behind its replay mark;
        or a temporary reason has lasted too long (decision T125).
        """
        if not is_recoverable(message):
            return False
        if not reason.is_temporary:
            return reason is Distrust.REPLAYED
        now = self._clock()
        since = self._postponed.setdefault(message.identifier, now)
        if len(self._postponed) > POSTPONED_MAX:
            self._postponed.popitem(last=False)
        return now - since >= POSTPONED_S

    def _verify(self, message: Message, queue: LocalQueue) -> Verified | Distrust | None:
        """Verify the signature of a message; None if it needs no signature and has none."""
        needed = queue.authenticated and not is_acknowledgement(message.message_class)
        if self._verifier is None or not (needed or message.signature):
            return None
        return self._verifier.verify(message, self._clock())
