"""Private queue of this program's queue manager, to receive messages from."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from mqdssm.drivers.queue_manager.inbox import LocalInbox
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
        """Do what `receive` does, without blocking the event loop.

        Cancelling it loses no message. A recoverable message is removed from the disk before it returns, in
        the thread of the event loop.
        """
        lent = await self._lend_async(timeout_s)
        if lent is None:
            return None
        self._inbox.accept(*lent)  # without waiting: nothing can be cancelled from here on
        return lent[1].message

    @asynccontextmanager
    async def receiving_async(self, timeout_s: float | None = None) -> AsyncIterator[Message | None]:
        """Do what `receiving` does, without blocking the event loop.

        Args:
            timeout_s: as of `receive`.

        Yields:
            The message; None as `receive`.
        """
        lent = await self._lend_async(timeout_s)
        if lent is None:
            yield None
            return
        number, arrival = lent
        try:
            yield arrival.message
        except BaseException:
            self._inbox.put_back(number, arrival)
            raise
        await asyncio.shield(asyncio.to_thread(self._inbox.accept, number, arrival))

    async def _lend_async(self, timeout_s: float | None) -> tuple[int, Arrival] | None:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notice() -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(changed.set)

        self._inbox.listen(notice)
        try:
            async with asyncio.timeout(timeout_s):
                while not self._inbox.is_closed:
                    changed.clear()
                    lent = self._inbox.lend(0)
                    if lent is not None:
                        return lent
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            self._inbox.ignore(notice)
        return None

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
