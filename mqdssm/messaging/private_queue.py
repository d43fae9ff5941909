"""Private queue of this program's queue manager, to receive messages from."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

from mqdssm.drivers.inbox import LocalInbox
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.model.transport import Message

_POLL_S: Final = 0.5  # how long a thread waits before it looks if its caller has given up


class PrivateQueue:
    """Private queue that is open for receiving.

    `mqdssm.messaging.QueueManager.open` returns it.

    Args:
        queue: its name, number and limits.
        inbox: the queue in the queue manager.
    """

    def __init__(self, queue: LocalQueue, inbox: LocalInbox) -> None:
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
        with self.receiving(timeout_s) as message:
            return message

    @contextmanager
    def receiving(self, timeout_s: float | None = None) -> Iterator[Message | None]:
        """Lend the first message to a block, and remove it at its end.

        If the block raises an exception, the message is put back in its old place. If the program is killed
        in it, the next one gets the message again, provided that it is recoverable.

        Args:
            timeout_s: as of `receive`.

        Yields:
            The message; None as `receive`.

        Raises:
            TransportError: the message cannot be removed from the disk; it stays in the queue.
        """
        lent = self._lend(timeout_s)
        if lent is None:
            yield None
            return
        number, arrival = lent
        try:
            yield arrival.message
        except BaseException:
            self._inbox.put_back(number, arrival)
            raise
        self._inbox.accept(number, arrival)

    def _lend(self, timeout_s: float | None) -> tuple[int, Arrival] | None:
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._inbox.is_closed:
            lent = self._inbox.lend(min(_POLL_S, max(0.0, until - time.monotonic())))
            if lent is not None:
                return lent
            if time.monotonic() >= until:
                break
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
