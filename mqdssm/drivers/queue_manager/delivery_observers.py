"""Observers of sent messages: programs that want to know what becomes of them."""

from threading import Lock
from typing import Final, Protocol

from mqdssm.model.transport import MessageClass, MessageId


class DeliveryObserver(Protocol):
    """Observer of one message that is sent.

    The methods must not wait, and may be called from any thread.
    """

    def on_accepted(self, identifier: MessageId) -> None:
        """Note the identifier of the message; called before anything else."""

    def on_confirmed(self) -> None:
        """Note that the queue manager of the destination has the message."""

    def on_given_up(self, message_class: MessageClass | None) -> None:
        """Note that the message was not sent.

        Args:
            message_class: class of the acknowledgement that says why, if any.
        """


class DeliveryObservers:
    """Observers of the messages that wait or are in flight; thread-safe.

    Each of them is told once that its message was confirmed or given up.
    """

    def __init__(self) -> None:
        self._observers: Final[dict[MessageId, DeliveryObserver]] = {}
        self._lock: Final = Lock()

    def add(self, identifier: MessageId, observer: DeliveryObserver) -> None:
        """Add the observer of a message, and tell it the identifier."""
        observer.on_accepted(identifier)
        with self._lock:
            self._observers[identifier] = observer

    def remove(self, identifier: MessageId) -> DeliveryObserver | None:
        """Remove and return the observer of a message; None if there is none."""
        if not self._observers:
            return None
        with self._lock:
            return self._observers.pop(identifier, None)

    def confirm(self, identifier: MessageId) -> None:
        """Report that the queue manager of the destination has a message."""
        observer = self.remove(identifier)
        if observer is not None:
            observer.on_confirmed()

    def give_up(self, identifier: MessageId, message_class: MessageClass | None) -> None:
        """Report that a message was not sent."""
        observer = self.remove(identifier)
        if observer is not None:
            observer.on_given_up(message_class)
