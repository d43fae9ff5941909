"""Driver for the receiver of change notifications.

The driver dequeues, decodes, steps, reads and publishes.
"""

import logging
from collections.abc import Callable, Iterable
from threading import Event
from typing import Final, Protocol, Self

from mqdssm.drivers.engine_driver import EngineDriver
from mqdssm.drivers.notification.subscriptions import Subscriptions
from mqdssm.drivers.threads import WorkerThread
from mqdssm.drivers.transport import NOTIFICATION, Arrival, Inbox, Transport
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.owned_objects import OwnedQueue, OwnedQueueManager
from mqdssm.model.transport import MessageClass
from mqdssm.model.watching import ObjectChange
from mqdssm.wire.mqcn import decode

log: Final = logging.getLogger(__name__)

ASKED_MAX: Final = 1_000
"""Objects that watchers saw change and that are not looked at yet; beyond that everything is read instead."""
RECEIVE_S: Final = 0.2
"""How long one look into the queue takes, at most: so soon requests of other threads are seen."""


class OwnStateReader(Protocol):
    """`mqdssm.drivers.notification.owned_reader.OwnedReader`."""

    def perform(self, operation: do.Operation) -> do.Result:
        """Perform one read."""


class NotificationDriver(EngineDriver[do.Event]):
    """Runs the server side of [MS-MQCN] in one thread; the engine decides what to do.

    Messages that come while the directory is read wait in the notification queue, which has its own limits.

    Args:
        engine: decides everything.
        reader: reads the directory.
        transport: the queue manager; its owner closes it.
        clock: seconds since 1970 that never go backwards.

    Attributes:
        counts: messages and changes of the own state, and what was dropped, or noted by the engine.
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
        super().__init__(engine.step, clock)
        self._engine, self._reader, self._transport = engine, reader, transport
        self.subscriptions: Final = Subscriptions(self.counts)
        self.known: Final = Event()
        self._refresh_asked: Final = Event()
        self._results: Final[list[do.ReadPerformed]] = []  # of reads, for the engine
        self._thread: Final = WorkerThread(self.run, "change notifications")
        self.performers.update(
            {
                do.PerformRead: self._read,
                do.Tell: self._tell,
                do.StateRead: lambda _: self.known.set(),
            }
        )

    def run(self) -> None:
        """Receive notifications until `stop` is called ([MS-MQCN] 3.2.3).

        Another thread calls `stop`. Notifications can be received once.

        Raises:
            TransportError: the notification queue cannot be opened.
            Exception: a defect of ours; the queue is closed.
        """
        inbox = self._transport.open(NOTIFICATION)
        try:
            self.take(do.ReceiverStarted())
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

    @property
    def is_alive(self) -> bool:
        """True while the thread works: not before `start`, nor after an end or a defect."""
        return self._thread.is_alive

    def refresh(self) -> None:
        """Request that all own objects are read again soon.

        Several requests lead to one reading. It may be called from any thread.
        """
        self._refresh_asked.set()

    def on_changes(self, changes: Iterable[ObjectChange]) -> None:
        """Take a watch's changes and read the own objects among them.

        Any thread may call this.

        `mqdssm.drivers.notification.watch_feed.WatchFeed` does so for a whole watch.
        """
        for change in changes:
            event = do.Observed.of(change)
            if event is not None and self._events.qsize() < ASKED_MAX:
                self._events.put(event)
            elif event is not None:
                self._refresh_asked.set()

    def start(self) -> Self:
        """Start `run` in a separate thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let `run` return after its current work.

        After `start`, it waits for the thread and raises its error.
        """
        super().stop()
        self._thread.join()

    def _turn(self, inbox: Inbox) -> None:
        """Process one message, the requests of other threads, and one expired timer."""
        wait = self._timers.wait(self._clock())
        arrival = inbox.receive(RECEIVE_S if wait is None else min(wait, RECEIVE_S))
        if arrival is not None and (event := self.event_of(arrival)) is not None:
            self.take(event)
        if self._refresh_asked.is_set():
            self._refresh_asked.clear()
            self.take(do.Refresh())
        while self.take_next(0):
            pass
        self.take_timer()

    def event_of(self, arrival: Arrival) -> do.NotificationReceived | None:
        """Return the engine event for a message ([MS-MQCN] 3.2.5).

        None if the message is dropped and counted.
        """
        message = arrival.message
        if message.message_class != MessageClass.NORMAL:
            self._drop("class", f"{message.message_class:#06x}")
            return None
        try:
            notification = decode(message.body)
        except DecodeError as error:
            self._drop("cannot be decoded", str(error))
            return None
        self.counts.add(f"received: version {notification.version}")
        return do.NotificationReceived(
            notification=notification,
            size=len(message.body),
            sender_type=message.sender_type,
            authentication_level=message.authentication_level,
            from_directory_server=arrival.sender is not None and arrival.sender.is_directory_server,
        )

    def take(self, event: do.Event) -> None:
        """Pass an event to the engine and perform its actions, until no read is left."""
        super().take(event)
        while self._results:
            super().take(self._results.pop())

    def _tell(self, action: do.Tell) -> None:
        self.counts.add(type(action.event).__name__)
        self.subscriptions.publish((action.event,))

    def _read(self, action: do.PerformRead) -> None:
        result = self._reader.perform(action.operation)
        self._results.append(do.ReadPerformed(token=action.token, result=result))
