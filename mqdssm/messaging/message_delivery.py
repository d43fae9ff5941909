"""Delivery of a sent message, to wait for in threads and in asyncio."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from enum import StrEnum
from threading import Lock
from typing import Any, Final, Literal, TypeAlias

from mqdssm.errors import MessageRejected, NotDelivered
from mqdssm.model.transport import NO_MESSAGE, Acknowledgements, MessageClass, MessageId

Acknowledge: TypeAlias = Literal["reach", "receive"]
"""Acknowledgement that a sender requests: of the arrival in the queue, or of the receipt by a program."""


class DeliveryProof(StrEnum):
    """Proof of delivery that a sender has."""

    SENT = "sent"
    """The queue manager of the destination has the message: its session has acknowledged it."""
    REACHED = "reached"
    """The message was put into its queue (AckReachQueue)."""
    RECEIVED = "received"
    """A program has received the message (AckReceive)."""


REQUESTED: Final[dict[str | None, Acknowledgements]] = {
    None: Acknowledgements.NONE,
    "reach": Acknowledgements.FULL_REACH_QUEUE,
    "receive": Acknowledgements.FULL_RECEIVE,
}
"""Message.AcknowledgementsRequested, by what the caller of `send` asks for."""
_POSITIVE: Final = {
    MessageClass.ACK_REACH_QUEUE: DeliveryProof.REACHED,
    MessageClass.ACK_RECEIVE: DeliveryProof.RECEIVED,
}


class MessageDelivery:
    """Delivery of a sent message; thread-safe, and awaitable in any event loop.

    `wait` and ``await`` end with the acknowledgement that was requested. Without one they end when the
    session of the destination's queue manager has acknowledged the message. Acknowledgements are not signed.

    Args:
        destination: format name, for messages of errors.
        acknowledge: acknowledgement that was requested.
    """

    def __init__(self, destination: str, acknowledge: Acknowledge | None) -> None:
        self._destination, self._acknowledge = destination, acknowledge
        self._identifier = NO_MESSAGE
        self._is_sent = False
        self._lock: Final = Lock()
        self._result: Final[Future[DeliveryProof]] = Future()

    @property
    def identifier(self) -> MessageId:
        """Sending queue manager, and number of the message there."""
        return self._identifier

    @property
    def is_sent(self) -> bool:
        """True if the session has acknowledged the message.

        The session is that of the destination's queue manager.
        """
        return self._is_sent

    @property
    def is_done(self) -> bool:
        """True if `wait` does not wait any more."""
        return self._result.done()

    def wait(self, timeout_s: float | None = None) -> DeliveryProof:
        """Wait for the delivery.

        Args:
            timeout_s: longest time in seconds; None: without limit.

        Raises:
            MessageRejected: a negative acknowledgement, by its class.
            NotDelivered: the time is over; the message may be delivered yet.
        """
        try:
            return self._result.result(timeout_s)
        except TimeoutError:
            raise self._make_late_error(timeout_s) from None

    def __await__(self) -> Generator[Any, None, DeliveryProof]:
        """Wait for the delivery as `wait` does, without a limit: use `asyncio.timeout`."""
        # A generator refers to this delivery: acknowledgements find it as long as somebody awaits it.
        return (yield from asyncio.shield(asyncio.wrap_future(self._result)).__await__())

    def _make_late_error(self, timeout_s: float | None) -> NotDelivered:
        if self._is_sent:
            return NotDelivered(
                f"{self._place} has arrived, and no acknowledgement came within {timeout_s:g} s: can that "
                "machine reach this one?"
            )
        return NotDelivered(
            f"{self._place} was not delivered within {timeout_s:g} s: is its queue manager running, and does "
            "TCP get through?"
        )

    # --- calls of the queue manager

    def on_accepted(self, identifier: MessageId) -> None:
        """Note the identifier."""
        self._identifier = identifier

    def on_confirmed(self) -> None:
        """Note that the queue manager of the destination has the message."""
        self._is_sent = True
        if self._acknowledge is None:
            self._finish(DeliveryProof.SENT)

    def on_given_up(self, message_class: MessageClass | None) -> None:
        """Note that the message was not sent."""
        reason = "does not fit into a packet" if message_class is None else message_class.name
        self._finish(MessageRejected(f"{self._place}: {reason}", message_class=message_class))

    def on_acknowledgement(self, message_class: int) -> None:
        """Note an acknowledgement of the queue manager of the destination.

        Nothing happens if none was requested: such an acknowledgement is forged (decision T130).
        """
        if self._acknowledge is None:
            return
        delivery = _POSITIVE.get(MessageClass(message_class)) if message_class in _CLASSES else None
        if delivery is DeliveryProof.REACHED and self._acknowledge == "receive":
            return
        if delivery is not None:
            self._finish(delivery)
            return
        name = MessageClass(message_class).name if message_class in _CLASSES else f"{message_class:#06x}"
        self._finish(
            MessageRejected(
                f"{self._place} was refused by its queue manager: {name}", message_class=message_class
            )
        )

    @property
    def _place(self) -> str:
        return f"message {self._identifier} to {self._destination}"

    def _finish(self, result: DeliveryProof | MessageRejected) -> None:
        with self._lock:
            if self._result.done():
                return
            if isinstance(result, MessageRejected):
                self._result.set_exception(result)
            else:
                self._result.set_result(result)


_CLASSES: Final = frozenset(map(int, MessageClass))
