"""The receiver: one event in, actions out ([MS-MQCN] 3.2, notes <3> and <14>).

Messages wait, and are processed together when the timer runs out. The directory is then read one object at a
time. Each job that waits for reads is a generator, and only one job runs at a time.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

from mqdssm.engines.actions import Note, StartTimer, TimerFired
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification import version1
from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.model.notification import (
    ChangeNotification,
    NotificationBody,
    NotificationEvent,
    NotificationUpdates,
)
from mqdssm.model.owned_objects import OwnedQueueManager, StateEvent
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType


class ReceiverTimer(StrEnum):
    """Timers of the receiver; the driver knows them by these names."""

    BATCH = "batch"
    """Process the waiting messages (notes <3> and <14>): runs while messages wait."""
    REFRESH = "refresh"
    """Read everything from the directory again: runs after a read that failed."""


Job: TypeAlias = Generator[do.Operation, do.Result, None]


class NotificationReceiver:
    """The server side of [MS-MQCN]: keeps a local state up to date by notifications.

    Args:
        settings: its identity and its limits.
        state: the state known so far; None if there is none: the first read then gives no events.
    """

    def __init__(self, settings: ReceiverSettings, state: LocalState | None = None) -> None:
        self.settings: Final = settings
        self._known = state is not None
        self.state: Final = state or LocalState(
            OwnedQueueManager(identifier=settings.identifier, computer_name=settings.computer_name)
        )
        self._waiting: Final = _WaitingMessages(settings)
        self._observed: dict[UUID, do.Observed] = {}
        self._unconfirmed: dict[UUID, NotificationBody] = {}
        self._batch_is_due = self._refresh_is_due = False
        self._job: Job | None = None
        self._token = 0
        self._now = 0.0
        self._actions: list[do.Action] = []

    def step(self, event: do.Event, now: float) -> list[do.Action]:
        """Handle an event and return the actions.

        Args:
            event: what happened. The first one is `ReceiverStarted`.
            now: seconds since 1970, never going backwards.

        Returns:
            The actions for the driver, in this order. At most one `PerformRead` is under way at a time.

        Raises:
            ValueError: the result of a read that is not under way.
        """
        self._now, self._actions = now, []
        _HANDLERS[type(event)](self, event)
        while self._job is None and (job := self._take_next_job()) is not None:
            self._advance(job, None)
        return self._actions

    # --- events

    def _on_refresh(self, event: do.ReceiverStarted | do.Refresh) -> None:
        del event
        self._refresh_is_due = True

    def _on_observed(self, event: do.Observed) -> None:
        if len(self._observed) < self.settings.messages_max:
            self._observed[event.identifier] = event
        else:
            self._refresh_is_due = True  # the refresh reads all objects

    def _on_timer(self, event: TimerFired) -> None:
        if event.name == ReceiverTimer.BATCH:
            self._batch_is_due = True
        else:
            self._refresh_is_due = True

    def _on_performed(self, event: do.ReadPerformed) -> None:
        if self._job is None or event.token != self._token:
            raise ValueError(f"no read {event.token} is under way")
        self._advance(self._job, event.result)

    def _on_received(self, event: do.NotificationReceived) -> None:
        """Let a message wait if it is acceptable ([MS-MQCN] 3.2.5).

        Others do not count (decision C15).
        """
        reason = self._find_refusal(event)
        if reason:
            self._note(f"dropped: {reason}")
            return
        if not self._waiting.add(event.notification, event.size):
            self._note("not looked at: too many messages wait")
        self._arm()

    def _find_refusal(self, event: do.NotificationReceived) -> str:
        """Return why a message is not processed; empty if it is."""
        message = event.notification
        if isinstance(message, NotificationBody):
            of_manager = message.event is NotificationEvent.CHANGE_QUEUE_MANAGER
            foreign = of_manager and message.object_guid.uuid != self.settings.identifier
            return "about another queue manager" if foreign else ""
        if event.sender_type is not SenderIdentifierType.QUEUE_MANAGER:
            return "not from a queue manager"  # 3.2.5.1
        if event.authentication_level is AuthenticationLevel.NONE:
            return "not signed"  # 3.2.5.1
        if self.settings.directory_servers_only and not event.from_directory_server:
            return "not from a directory server"  # decision C18
        return ""

    def _arm(self) -> None:
        """Start the timer unless it is running."""
        due = self._waiting.arm(self._now)
        if due is not None:
            self._actions.append(StartTimer(name=ReceiverTimer.BATCH, after_s=due - self._now))

    # --- work

    def _take_next_job(self) -> Job | None:
        """Return the next job; None if there is none."""
        if self._refresh_is_due:
            self._refresh_is_due = False
            self._observed.clear()
            return self._refresh()
        if self._batch_is_due:
            self._batch_is_due = False
            return self._process_batch()
        if self._observed:
            observed, self._observed = self._observed, {}
            return self._look_at(observed.values())
        return None

    def _advance(self, job: Job, result: do.Result | None) -> None:
        """Run a job until its next read or its end."""
        self._job = job
        try:
            operation = next(job) if result is None else job.send(result)
        except StopIteration:
            self._job = None
        except Exception:
            self._job = None  # an error in our code affects one event only
            raise
        else:
            self._token += 1
            self._actions.append(do.PerformRead(token=self._token, operation=operation))

    def _refresh(self) -> Job:
        """Read our queue manager and its queues (note <3>, decision C4)."""
        result = yield do.ReadAll()
        if not isinstance(result, do.AllRead) or result.manager is None:
            self._postpone(
                result.reason if isinstance(result, do.NotRead) else "our queue manager is not there"
            )
            return
        own_queues = [queue for queue in result.queues if queue.is_of(self.settings.computer_name)]
        events = list(self.state.replace(result.manager, own_queues))
        if self._known:
            self._tell(events)
        self._known = True
        self._actions.append(do.StateRead())

    def _postpone(self, reason: str) -> None:
        """Schedule a read of everything, which makes up for whatever was missed."""
        self._note("directory not read", reason)
        self._actions.append(StartTimer(name=ReceiverTimer.REFRESH, after_s=self.settings.retry_s))

    def _process_batch(self) -> Job:
        """Process the waiting messages (notes <3> and <14>)."""
        messages, too_many = self._waiting.take(self._now)
        again, self._unconfirmed = self._unconfirmed, {}
        if too_many:
            self._note("refreshed: too many messages")
            yield from self._refresh()
            return
        reading = _Reading()
        for repeated in again.values():
            yield from self._process_body(repeated, reading, last=True)
        for message in messages:
            if isinstance(message, NotificationUpdates):
                yield from self._process_updates(message, reading)
            else:
                yield from self._process_body(message, reading, last=False)
        if reading.failed:
            self._postpone(reading.failed)
        if self._unconfirmed:
            self._arm()

    def _look_at(self, observed: Iterable[do.Observed]) -> Job:
        """Read the objects that a watcher saw change."""
        reading = _Reading()
        for change in observed:
            if change.is_queue:
                yield from self._read_queue(change.identifier, None, reading)
            elif change.identifier == self.settings.identifier:
                yield from self._read_manager(None, reading)
        if reading.failed:
            self._postpone(reading.failed)

    # --- version 1

    def _process_updates(self, message: NotificationUpdates, reading: "_Reading") -> Job:
        """Process a message of a directory service ([MS-MQCN] 3.2.5.1)."""
        try:
            steps = version1.steps_of(message, self.settings, int(self._now))
        except version1.Disregarded as reason:
            self._note("disregarded", str(reason))
            return
        for step in steps:
            yield from self._take(step, reading)

    def _take(self, step: version1.Step, reading: "_Reading") -> Job:
        match step:
            case version1.Create(queue):
                self._tell(self.state.put(queue))
            case version1.Delete(identifier, path_name):
                old_queue = self.state.find(identifier, path_name)
                self._tell(() if old_queue is None else self.state.delete(old_queue.identifier))
            case version1.ChangeManager(values):
                manager = self.state.manager
                changed = {name: values.get(name, getattr(manager, name)) for name in _MANAGER_FIELDS}
                new_manager = OwnedQueueManager(
                    identifier=manager.identifier, computer_name=manager.computer_name, **changed
                )
                self._tell(self.state.set_manager(new_manager))
            case version1.ChangeQueue(identifier, path_name):
                old_queue = self.state.find(identifier, path_name)
                if old_queue is not None:
                    self._tell(self.state.put(step.apply(old_queue)))
                elif identifier is not None:  # its creation was lost (decision C19)
                    yield from self._read_queue(identifier, None, reading)
            case version1.Skip(why):
                self._note("skipped", why)

    # --- version 2

    def _process_body(self, body: NotificationBody, reading: "_Reading", *, last: bool) -> Job:
        """Process a message of a queue manager ([MS-MQCN] 3.2.5.2).

        The queue manager's object is read from the directory.

        Args:
            body: the message.
            reading: the reads of this batch.
            last: True for a message that was checked before. Else it is checked once more if the directory
                does not show the change, which may not have reached it yet (decision C20).
        """
        identifier = body.object_guid.uuid
        deleted = body.event is NotificationEvent.DELETE_QUEUE
        if deleted and identifier not in self.state.queues:
            self._note("skipped", f"a deletion of {identifier}, which we do not have")
            return
        server = body.domain_controller if self.settings.is_allowed(body.domain_controller) else None
        if server is None:
            self._note("another directory server was named", body.domain_controller)
        if body.event is NotificationEvent.CHANGE_QUEUE_MANAGER:
            changed = yield from self._read_manager(server, reading)
        else:
            changed = yield from self._read_queue(identifier, server, reading)
        if not changed and not last and not reading.failed:
            self._unconfirmed[identifier] = body

    def _read_queue(
        self, identifier: UUID, server: str | None, reading: "_Reading"
    ) -> Generator[do.Operation, do.Result, bool]:
        """Read a queue into the local state.

        Returns False if nothing changed, but may do so later.
        """
        if reading.is_done(identifier, server):
            return True
        result = yield from self._read(do.ReadQueue(identifier=identifier, server=server), reading)
        if not isinstance(result, do.QueueRead):
            return False
        queue = result.queue
        if queue is None:
            return self._tell(self.state.delete(identifier))
        if not queue.is_of(self.settings.computer_name):
            self._note("skipped", f"{queue.pathname} is not ours")
            self._tell(self.state.delete(identifier))
            return True  # a later read cannot show more
        return self._tell(self.state.put(queue))

    def _read_manager(
        self, server: str | None, reading: "_Reading"
    ) -> Generator[do.Operation, do.Result, bool]:
        """Read our queue manager into the local state; result as in `_read_queue`."""
        if reading.is_done(self.settings.identifier, server):
            return True
        result = yield from self._read(do.ReadQueueManager(server=server), reading)
        if not isinstance(result, do.QueueManagerRead) or result.manager is None:
            return False
        return self._tell(self.state.set_manager(result.manager))

    def _read(
        self, operation: do.ReadQueue | do.ReadQueueManager, reading: "_Reading"
    ) -> Generator[do.Operation, do.Result, do.Result]:
        """Read an object from the directory server that the message names, or our own."""
        if reading.failed:
            return do.NotRead(reason=reading.failed)
        result = yield operation
        if isinstance(result, do.NotRead) and operation.server is not None:
            self._note("named directory server not read", f"{operation.server}: {result.reason}")
            request = (
                do.ReadQueue(identifier=operation.identifier)
                if isinstance(operation, do.ReadQueue)
                else do.ReadQueueManager()
            )
            result = yield request
        if isinstance(result, do.NotRead):
            reading.failed = result.reason
        return result

    # --- output

    def _tell(self, events: Iterable[StateEvent]) -> bool:
        """Notify the subscribers of some events; return True if there were any."""
        actions = [do.Tell(event=event) for event in events]
        self._actions += actions
        return bool(actions)

    def _note(self, summary: str, detail: str = "") -> None:
        self._actions.append(Note(what=summary, detail=detail))


class _WaitingMessages:
    """Messages that wait for the timer, in order of arrival.

    After too many of them none is kept.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: ReceiverSettings) -> None:
        self._settings: Final = settings
        self._messages: list[ChangeNotification] = []
        self._bytes = 0
        self._too_many = False
        self._is_armed = False
        self._last: float | None = None

    def add(self, message: ChangeNotification, size: int) -> bool:
        """Add a message of this many octets; return False if there are too many to keep."""
        if self._too_many:
            return False
        self._messages.append(message)
        self._bytes += size
        settings = self._settings
        self._too_many = (
            len(self._messages) >= settings.messages_max or self._bytes > settings.waiting_bytes_max
        )
        if self._too_many:
            self._messages.clear()
        return not self._too_many

    def arm(self, now: float) -> float | None:
        """Mark the timer as started and return when it must run out.

        None if it is running already.

        The note has two cases: more than 14 minutes after the last time the wait is one minute, else the rest
        of 15 minutes. The two meet at that limit, so that the time is the later one of both.
        """
        if self._is_armed:
            return None
        self._is_armed = True
        settled = now + self._settings.settle_s
        return settled if self._last is None else max(settled, self._last + self._settings.interval_s)

    def take(self, now: float) -> tuple[list[ChangeNotification], bool]:
        """Return all messages and remove them.

        The second value is True if there were too many to keep.
        """
        messages, too_many = self._messages, self._too_many
        self._messages, self._bytes = [], 0
        self._too_many = self._is_armed = False
        self._last = now
        return messages, too_many


class _Reading:
    """The reads of one batch.

    Each object is read once, and none after a failure of the directory.
    """

    def __init__(self) -> None:
        self.failed = ""
        self._done: set[tuple[UUID, str | None]] = set()

    def is_done(self, identifier: UUID, server: str | None) -> bool:
        """Return True if this batch already read an object from this server.

        The object is marked as read.
        """
        key = identifier, None if server is None else server.casefold()
        if key in self._done:
            return True
        self._done.add(key)
        return False


_MANAGER_FIELDS: Final = ("queue_manager_quota", "journal_quota", "security")
_HANDLERS: Final[Mapping[type[Any], Callable[[NotificationReceiver, Any], None]]] = {
    do.ReceiverStarted: NotificationReceiver._on_refresh,  # noqa: SLF001  its own table
    do.Refresh: NotificationReceiver._on_refresh,  # noqa: SLF001
    do.Observed: NotificationReceiver._on_observed,  # noqa: SLF001
    TimerFired: NotificationReceiver._on_timer,  # noqa: SLF001
    do.ReadPerformed: NotificationReceiver._on_performed,  # noqa: SLF001
    do.NotificationReceived: NotificationReceiver._on_received,  # noqa: SLF001
}
"""Handler of each event."""
