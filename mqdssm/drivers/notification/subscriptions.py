"""Subscribers to changes of the local state: call-backs, and async iterators.

An iterator has a bounded buffer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from threading import Lock
from typing import Final, TypeAlias
from uuid import UUID

from mqdssm.drivers.threads import EventCounts
from mqdssm.model.closeable import Closeable
from mqdssm.model.owned_objects import (
    OwnedQueue,
    OwnedQueueManager,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
    StateEvent,
    identifier_of,
)

log: Final = logging.getLogger(__name__)

BUFFER_EVENTS: Final = 1_000
"""Default number of events that may wait for an iterator."""
MISSED_NAMED_MAX: Final = 1_000
"""Maximum number of objects in `Missed`."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Event for a slow subscriber that replaces the oldest events, which were lost.

    Attributes:
        count: how many.
        objects: the objects that they were about: read these again.
        is_all: whether these are all; else read everything again.
    """

    count: int
    objects: frozenset[UUID]
    is_all: bool


Told: TypeAlias = StateEvent | Missed


class Subscription(Closeable, AsyncIterator[Told]):
    """Events of one subscriber, for `async for` in one task.

    `Subscriptions.events` returns it.

    The iteration ends when it is closed, or when the driver has stopped and no event is left.

    Args:
        buffer: how many events may wait; at least 1.
        leave: called when it is closed.
    """

    def __init__(self, buffer: int, leave: Callable[["Subscription"], None]) -> None:
        if buffer < 1:
            raise ValueError(f"buffer {buffer}: at least one event has to wait")
        self._buffer = buffer
        self._leave = leave
        self._lock: Final = Lock()
        self._events: Final[deque[StateEvent]] = deque()
        self._missed = 0
        self._missed_objects: set[UUID] = set()
        self._missed_all_named = True
        self._ended = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def put(self, event: StateEvent) -> None:
        """Add an event, from any thread.

        In a full buffer the oldest event is replaced by `Missed`.
        """
        with self._lock:
            if self._ended:
                return
            if len(self._events) >= self._buffer:
                self._record_missed(self._events.popleft())
            self._events.append(event)
            self._wake()

    def end(self) -> None:
        """End the subscription after the waiting events; from any thread."""
        with self._lock:
            self._ended = True
            self._wake()

    def close(self) -> None:
        """Unsubscribe; waiting events are lost."""
        self.end()
        with self._lock:
            self._events.clear()
            self._missed = 0
        self._leave(self)

    async def __anext__(self) -> Told:
        """Return the next event; `Missed` takes the place of lost events."""
        while True:
            with self._lock:
                event = self._take()
                if event is not None:
                    return event
                if self._ended:
                    raise StopAsyncIteration
                if self._waiter is not None:
                    raise RuntimeError("two tasks read one subscription: each needs its own")
                loop = asyncio.get_running_loop()
                arrived = loop.create_future()
                self._waiter = loop, arrived
            try:
                await arrived
            finally:
                with self._lock:
                    self._waiter = None

    def _take(self) -> Told | None:
        if self._missed:
            missed = Missed(self._missed, frozenset(self._missed_objects), self._missed_all_named)
            self._missed, self._missed_all_named = 0, True
            self._missed_objects.clear()
            return missed
        return self._events.popleft() if self._events else None

    def _record_missed(self, event: StateEvent) -> None:
        self._missed += 1
        identifier = identifier_of(event)
        if identifier in self._missed_objects:
            return
        if len(self._missed_objects) < MISSED_NAMED_MAX:
            self._missed_objects.add(identifier)
        else:
            self._missed_all_named = False

    def _wake(self) -> None:
        if self._waiter is None:
            return
        loop, arrived = self._waiter
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_set, arrived)


def _set(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


@dataclass(frozen=True, slots=True, eq=False)
class Callbacks:
    """Callbacks of one subscriber, called in the driver's thread in order of events.

    Attributes:
        queue_created: with the new queue.
        queue_changed: with the queue before and after.
        queue_deleted: with the queue as it was.
        queue_manager_changed: with the queue manager before and after.
    """

    queue_created: Callable[[OwnedQueue], object] | None = None
    queue_changed: Callable[[OwnedQueue, OwnedQueue], object] | None = None
    queue_deleted: Callable[[OwnedQueue], object] | None = None
    queue_manager_changed: Callable[[OwnedQueueManager, OwnedQueueManager], object] | None = None

    def call(self, event: StateEvent) -> None:
        """Call the callback for the type of an event."""
        match event:
            case QueueCreated(queue) if self.queue_created is not None:
                self.queue_created(queue)
            case QueueChanged(old, new) if self.queue_changed is not None:
                self.queue_changed(old, new)
            case QueueDeleted(queue) if self.queue_deleted is not None:
                self.queue_deleted(queue)
            case QueueManagerChanged(before, after) if self.queue_manager_changed is not None:
                self.queue_manager_changed(before, after)


class Subscriptions:
    """Subscribers of one driver; from any thread.

    Args:
        counts: where callbacks that raised are counted.
    """

    def __init__(self, counts: EventCounts) -> None:
        self._counts = counts
        self._lock: Final = Lock()
        self._callbacks: Final[list[Callbacks]] = []
        self._streams: Final[list[Subscription]] = []
        self._ended = False

    def call(
        self,
        *,
        queue_created: Callable[[OwnedQueue], object] | None = None,
        queue_changed: Callable[[OwnedQueue, OwnedQueue], object] | None = None,
        queue_deleted: Callable[[OwnedQueue], object] | None = None,
        queue_manager_changed: Callable[[OwnedQueueManager, OwnedQueueManager], object] | None = None,
    ) -> Callable[[], None]:
        """Subscribe functions (see `Callbacks`), which must be quick: the receiver waits.

        An error in one function is logged and counted; the others are still called.

        Returns:
            Function that ends the subscription.

        Raises:
            ValueError: no function, or one that would have to be awaited: for these there is `events`.
        """
        functions: tuple[object, ...] = (queue_created, queue_changed, queue_deleted, queue_manager_changed)
        for function in functions:
            if function is not None and (not callable(function) or iscoroutinefunction(function)):
                raise ValueError(
                    f"{function!r} cannot be called by the driver's thread: give a plain function"
                )
        callbacks = Callbacks(queue_created, queue_changed, queue_deleted, queue_manager_changed)
        with self._lock:
            self._callbacks.append(callbacks)

        def leave() -> None:
            with self._lock, suppress(ValueError):
                self._callbacks.remove(callbacks)

        return leave

    def events(self, buffer: int = BUFFER_EVENTS) -> Subscription:
        """Subscribe to all events from now on, for ``async for``.

        Args:
            buffer: events that may wait.
        """
        subscription = Subscription(buffer, self._leave)
        with self._lock:
            if self._ended:
                subscription.end()
            else:
                self._streams.append(subscription)
        return subscription

    def publish(self, events: Iterable[StateEvent]) -> None:
        """Pass events to all subscribers."""
        with self._lock:
            callbacks, streams = tuple(self._callbacks), tuple(self._streams)
        for event in events:
            for stream in streams:
                stream.put(event)
            for callback in callbacks:
                try:
                    callback.call(event)
                except Exception:
                    self._counts.add("a subscriber failed")
                    log.exception("a subscriber failed at %s", type(event).__name__)

    def end(self) -> None:
        """End all subscriptions; iterators return waiting events first."""
        with self._lock:
            self._ended = True
            streams, self._streams[:] = tuple(self._streams), []
        for stream in streams:
            stream.end()

    def _leave(self, stream: Subscription) -> None:
        with self._lock, suppress(ValueError):
            self._streams.remove(stream)
