"""Messages from a queue manager's thread to a session in the event loop."""

import time
from collections import deque
from threading import Lock
from typing import Final, NamedTuple

from mqdssm.drivers.queue_manager.outgoing import Address, QueuedMessage
from mqdssm.drivers.tcp.session_connection import BATCH_BYTES
from mqdssm.model.transport import is_acknowledgement


class HandOver(NamedTuple):
    """Result of `Outbox.hand_over`.

    Attributes:
        is_taken: True if the session gets the message.
        must_wake: True if the event loop has to look at the outbox.
    """

    is_taken: bool
    must_wake: bool


class Outbox:
    """Bounded queue of the messages that a session is to send; thread-safe.

    The session sets how many messages it takes. The queue manager's thread never waits for the event loop:
    a message that the session does not take stays in the queue manager's own queue (decision T42).

    Args:
        address: neighbour that the messages go to.

    Attributes:
        wanted_at: time of the last hand-over or attempt, in monotonic seconds.
        is_own: True if a program has sent something there. Strangers choose the addresses of
            acknowledgements.
    """

    def __init__(self, address: Address) -> None:
        self.address: Final = address
        self.wanted_at = time.monotonic()
        self.is_own = False
        self._lock: Final = Lock()
        self._room = 0
        self._queue: Final[deque[QueuedMessage]] = deque()
        self._is_waiting = False  # a message was refused since there was no room
        self._is_attended = False  # the event loop was woken and has not looked yet

    def hand_over(self, queued: QueuedMessage) -> HandOver:
        """Add a message if there is room for it; from any thread."""
        with self._lock:
            self.wanted_at = time.monotonic()
            self.is_own |= not is_acknowledgement(queued.message.message_class)
            is_taken, must_wake = self._room > 0, not self._is_attended
            self._is_attended = True
            if is_taken:
                self._room -= 1
                self._queue.append(queued)
            else:
                self._is_waiting = True
            return HandOver(is_taken, must_wake)

    def attend(self) -> None:
        """Note that the event loop looks at the outbox now."""
        with self._lock:
            self._is_attended = False

    def take(self, messages_max: int) -> list[QueuedMessage]:
        """Remove and return the next messages, as many as are written together."""
        messages: list[QueuedMessage] = []
        octets = 0
        with self._lock:
            while self._queue and len(messages) < messages_max and octets < BATCH_BYTES:
                messages.append(self._queue.popleft())
                octets += len(messages[-1].message.body)
        return messages

    def drain(self) -> list[QueuedMessage]:
        """Close the outbox until there is room again; remove and return all messages."""
        with self._lock:
            self._room = 0
            messages = list(self._queue)
            self._queue.clear()
            return messages

    @property
    def is_wanted(self) -> bool:
        """True if messages wait here or in the queue manager."""
        with self._lock:
            return self._is_waiting or bool(self._queue)

    def set_room(self, messages: int) -> bool:
        """Set how many messages the session takes.

        Returns True if the queue manager waits for the room.
        """
        with self._lock:
            self._room = max(0, messages - len(self._queue))
            is_awaited = self._is_waiting and self._room > 0
            if is_awaited:
                self._is_waiting = False
            return is_awaited

    def give_up(self) -> None:
        """Forget that a message was refused: the queue manager has not asked again."""
        with self._lock:
            self._is_waiting = False
