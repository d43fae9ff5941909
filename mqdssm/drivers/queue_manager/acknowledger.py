"""Acknowledgements that a queue manager sends ([MS-MQQB] 3.1.7.15).

Acknowledgements of recoverable messages are recoverable. The transaction that stores or removes the message
also stores them (decision T48).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from mqdssm.drivers.queue_manager.message_store import MessageStore, is_recoverable
from mqdssm.drivers.queue_manager.outgoing import Address, address_of
from mqdssm.drivers.threads import EventCounts, WarningLimit
from mqdssm.drivers.transport import LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.transport import Message, MessageClass, MessageId, make_acknowledgement

log: Final = logging.getLogger(__name__)

_INSECURE: Final = frozenset({MessageClass.NACK_BAD_DEST_QUEUE, MessageClass.NACK_BAD_SIGNATURE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledger:
    """Sender of acknowledgements; thread-safe.

    Attributes:
        next_identifier: returns the identifier of the next message, or raises TransportError.
        enqueue: queues a message for a machine; returns False if there is no room.
        clock: seconds since 1970.
        store: keeps recoverable messages; None: they are kept in memory.
        counts: where acknowledgements that were given up are counted.
        insecure_nacks: whether NackBadDestQueue and NackBadSignature are sent (SendInsecureNacks).
        warnings: limits the warnings that strangers cause.
    """

    next_identifier: Callable[[], MessageId]
    enqueue: Callable[[Address, Message], bool]
    clock: Callable[[], float]
    store: MessageStore | None
    counts: EventCounts
    insecure_nacks: bool
    warnings: WarningLimit = field(default_factory=WarningLimit)

    def acknowledge(self, message: Message, message_class: MessageClass) -> None:
        """Send the acknowledgement that a message asked for.

        Nothing is sent if it asked for none.
        """
        try:
            send = self._prepare(message, message_class)
        except TransportError as error:
            self._give_up(message, error)
        else:
            send()

    def prepare(self, message: Message, message_class: MessageClass) -> Callable[[], object]:
        """Store the acknowledgement that a message asked for.

        Nothing is stored if the message asked for none.

        Returns:
            Function that sends the acknowledgement. An acknowledgement of an express message is given up if
            it has no number.

        Raises:
            TransportError: that of a recoverable message cannot be stored, or has no number.
        """
        try:
            return self._prepare(message, message_class)
        except TransportError as error:
            if is_recoverable(message):
                raise
            self._give_up(message, error)
            return _do_nothing

    def _give_up(self, message: Message, error: TransportError) -> None:
        self.counts.add("given up: acknowledgement")
        text = "message %s cannot be acknowledged: %s"  # strangers' messages, too
        self.warnings.log(log, text, message.identifier, error)

    def _prepare(self, message: Message, message_class: MessageClass) -> Callable[[], object]:
        ack = make_acknowledgement(message, message_class)
        target = message.administration_queue
        may_be_sent = self.insecure_nacks or message_class not in _INSECURE
        if ack is None or target is None or not may_be_sent:
            return _do_nothing
        try:
            address = address_of(target)
        except ValueError:  # a queue that cannot be reached from here
            return _do_nothing
        sent = replace(ack, identifier=self.next_identifier(), sent_at=int(self.clock()), destination=target)
        try:
            if self.store is not None and is_recoverable(sent):
                self.store.add_sent(sent)
        except ValueError:  # with the body of a message of the largest size
            self.counts.add("given up: acknowledgement")
            return _do_nothing
        return partial(self._send, address, sent)

    def leave(self, queue: LocalQueue, message: Message, message_class: MessageClass) -> None:
        """Remove a message that leaves its queue from the store, and acknowledge it.

        Raises:
            TransportError: a message that a program receives cannot be removed.
        """
        if self.store is None or not is_recoverable(message):
            self.acknowledge(message, message_class)
            return
        try:
            with self.store.begin_transaction():
                self.store.remove_arrived(queue.number, message.identifier)
                send = self.prepare(message, message_class)
        except TransportError as error:
            if message_class is MessageClass.ACK_RECEIVE:
                raise
            self.warnings.log(log, "message %s stays in the store: %s", message.identifier, error)
        else:
            send()

    def _send(self, address: Address, ack: Message) -> None:
        if not self.enqueue(address, ack) and self.store is not None and is_recoverable(ack):
            self.store.forget(ack.identifier)


def _do_nothing() -> None:
    """Send nothing: no acknowledgement was requested."""
