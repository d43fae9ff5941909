"""Driver for the receiver of change notifications: dequeue, decode, step, read, publish."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final, Protocol, Self

from mqdssm.drivers.counts import EventCounts
from mqdssm.drivers.subscriptions import Subscriptions
from mqdssm.drivers.timers import Timers, steady_clock
from mqdssm.drivers.transport import NOTIFICATION, Arrival, Inbox, Transport
from mqdssm.engines.actions import Note, StartTimer, TimerFired
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.owned import OwnedQueue, OwnedQueueManager
from mqdssm.model.transport import MessageClass
from mqdssm.model.watching import ObjectChange
from mqdssm.wire.mqcn import decode

log: Final = logging.getLogger(__name__)

ASKED_MAX: Final = 1_000
"""Objects that watchers saw change and that are not looked at yet; beyond that everything is read instead."""
RECEIVE_S: Final = 0.2
"""How long one look into the queue takes, at most: so soon requests of other threads are seen."""


class OwnStateReader(Protocol):
    """`mqdssm.drivers.owned_reader.OwnedReader`."""

    def perform(self, operation: do.Operation) -> do.Result:
        """Perform one read."""


class NotificationDriver:
    """Runs the server side of [MS-MQCN] in one thread; the engine decides what to do.

    Messages that come while the directory is read wait in the notification queue, which has its own limits.

    Args:
        engine: decides everything.
        reader: reads the directory.
        transport: the queue manager; its owner closes it.
        clock: seconds since 1970 that never go backwards.

    Attributes:
        counts: what was dropped, or noted by the engine.
        subscriptions: who is told of changes.
        known: set when the whole state was read from the directory for the first time.

    Raises:
        ValueError: the engine is another queue manager's.
    """

    def __init__(
        self,
        engine: NotificationReceiver,
        reader: OwnStateReader,
        transport: Transport,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if Guid.of(engine.settings.identifier) != transport.identifier:
            raise ValueError(f"{engine.settings.identifier} is not queue manager {transport.identifier}")
        self._engine, self._reader, self._transport = engine, reader, transport
        self._clock = clock or steady_clock()
        self.counts: Final = EventCounts()
        self.subscriptions: Final = Subscriptions(self.counts)
        self.known: Final = Event()
        self._timers: Final = Timers()
        self._asked: Final[SimpleQueue[do.Event]] = SimpleQueue()
        self._refresh_asked: Final = Event()
        self._stopping: Final = Event()
        self._thread: Thread | None = None
        self._failure: Exception | None = None

    def run(self) -> None:
        """Receive notifications until `stop` is called from another thread; once ([MS-MQCN] 3.2.3).

        Raises:
            TransportError: the notification queue cannot be opened.
            Exception: a defect of ours; the queue is closed.
        """
        inbox = self._transport.open(NOTIFICATION)
        try:
            self._take(do.ReceiverStarted())
            while not self._stopping.is_set() and not inbox.is_closed:
                self._turn(inbox)
        finally:
            inbox.close()
            self.subscriptions.end()

    @property
    def queue_manager(self) -> OwnedQueueManager:
        """Attributes of the own queue manager, as they were last read; from any thread."""
        return self._engine.state.manager

    @property
    def queues(self) -> tuple[OwnedQueue, ...]:
        """Own public queues, as they were last read; from any thread."""
        return tuple(self._engine.state.queues.values())

    def refresh(self) -> None:
        """Request that all own objects are read again soon, once for several requests; from any thread."""
        self._refresh_asked.set()

    def watched(self, changes: Iterable[ObjectChange]) -> None:
        """Take changes from a watch of the directory and read the own objects among them; from any thread.

        `mqdssm.drivers.watch_feed.WatchFeed` does so for a whole watch.
        """
        for change in changes:
            event = do.Observed.of(change)
            if event is not None and self._asked.qsize() < ASKED_MAX:
                self._asked.put(event)
            elif event is not None:
                self._refresh_asked.set()

    def start(self) -> Self:
        """Start `run` in a separate thread."""
        self._thread = Thread(target=self._run, name="change notifications", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let `run` return after its current work; after `start`, wait for the thread and raise its error."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:
            log.exception("change notifications are not received any more")
            self._failure = error

    def _turn(self, inbox: Inbox) -> None:
        """Process one message, the requests of other threads, and one expired timer."""
        wait = self._timers.wait(self._clock())
        arrival = inbox.receive(RECEIVE_S if wait is None else min(wait, RECEIVE_S))
        if arrival is not None and (event := self.event_of(arrival)) is not None:
            self._take(event)
        if self._refresh_asked.is_set():
            self._refresh_asked.clear()
            self._take(do.Refresh())
        with suppress(Empty):
            while True:
                self._take(self._asked.get_nowait())
        if (name := self._timers.take_due(self._clock())) is not None:
            self._take(TimerFired(name=name))

    def event_of(self, arrival: Arrival) -> do.NotificationReceived | None:
        """Return the engine event for a message ([MS-MQCN] 3.2.5); None if it is dropped and counted."""
        message = arrival.message
        if message.message_class != MessageClass.NORMAL:
            self._drop("class", f"{message.message_class:#06x}")
            return None
        try:
            notification = decode(message.body)
        except DecodeError as error:
            self._drop("cannot be decoded", str(error))
            return None
        return do.NotificationReceived(
            notification=notification,
            size=len(message.body),
            sender_type=message.sender_type,
            authentication_level=message.authentication_level,
            from_directory_server=arrival.sender is not None and arrival.sender.is_directory_server,
        )

    def _drop(self, why: str, detail: str) -> None:
        self.counts.add(f"dropped: {why}")
        log.info("a notification is dropped: %s (%s)", why, detail)

    def _take(self, event: do.Event) -> None:
        """Pass an event to the engine and perform its actions, until no read is left."""
        pending = [event]
        while pending:
            for action in self._engine.step(pending.pop(), self._clock()):
                match action:
                    case do.PerformRead(token=token, operation=operation):
                        result = self._reader.perform(operation)
                        pending.append(do.ReadPerformed(token=token, result=result))
                    case StartTimer(name=name, after_s=after_s):
                        self._timers.start(name, self._clock() + after_s)
                    case do.Tell(event=told):
                        self.subscriptions.publish((told,))
                    case do.StateRead():
                        self.known.set()
                    case Note(what=what, detail=detail):
                        self.counts.add(what)
                        log.info("%s: %s", what, detail)
