"""Private queue of this program's queue manager, to receive messages from."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

from mqdssm.drivers.transport import Inbox, LocalQueue
from mqdssm.model.transport import Message

_POLL_S: Final = 0.5  # how long a thread waits before it looks if its caller has given up


class PrivateQueue:
    """Private queue that is open for receiving.

    `mqdssm.messaging.QueueManager.open` returns it.

    Args:
        queue: its name, number and limits.
        inbox: the queue in the queue manager.
    """

    def __init__(self, queue: LocalQueue, inbox: Inbox) -> None:
        self._queue, self._inbox = queue, inbox

    @property
    def name(self) -> str:
        """Name of the queue, without ``private$``."""
        return self._queue.name

    @property
    def number(self) -> int:
        r"""PrivateQueueNumber, of format names such as ``PRIVATE=<queue manager>\8``."""
        return self._queue.number

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Remove and return the first message, by priority and arrival.

        Args:
            timeout_s: longest time in seconds to wait for one; None: without limit.

        Returns:
            None if there is no message in that time, or the queue is closed.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._inbox.is_closed:
            remaining_s = _POLL_S if until is None else min(_POLL_S, max(0.0, until - time.monotonic()))
            arrival = self._inbox.receive(remaining_s)
            if arrival is not None:
                return arrival.message
            if until is not None and time.monotonic() >= until:
                return None
        return None

    async def receive_async(self, timeout_s: float | None = None) -> Message | None:
        """Do what `receive` does, without blocking the event loop."""
        return await asyncio.to_thread(self.receive, timeout_s)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as they arrive, until the queue is closed."""
        while (message := self.receive()) is not None:
            yield message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages as they arrive, until the queue is closed."""
        while (message := await self.receive_async()) is not None:
            yield message

    def purge(self) -> None:
        """Remove all messages; senders receive NackQueuePurged if they asked for it."""
        self._inbox.purge()

    def close(self) -> None:
        """Close the queue for receiving; messages stay in it."""
        self._inbox.close()
