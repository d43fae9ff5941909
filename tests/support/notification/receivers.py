"""A receiver of notifications on a clock and a directory that tests turn, and messages for it."""

from collections import Counter
from typing import Any
from uuid import UUID

from mqdssm.engines.actions import Note, StartTimer, TimerFired
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.model.notification import (
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
)
from mqdssm.model.owned_objects import OwnedQueue, OwnedQueueManager, StateEvent
from mqdssm.model.propids import Propid
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType
from mqdssm.wire.mqcn import encode

COMPUTER = "web01"
OURS = UUID(int=0xA1)
MASTER = Guid.of(UUID(int=0xD5))
START = 1_700_000_000.0
MINUTE = 60.0


def queue(number: int, **values: Any) -> OwnedQueue:
    """A queue of ours."""
    named: dict[str, Any] = {"identifier": UUID(int=number), "pathname": f"{COMPUTER}\\q{number}"}
    return OwnedQueue(**named | values)


def manager(**values: Any) -> OwnedQueueManager:
    """Our queue manager."""
    return OwnedQueueManager(identifier=OURS, computer_name=COMPUTER, **values)


def body(event: NotificationEvent, identifier: UUID, server: str = "dc1.example.com") -> NotificationBody:
    return NotificationBody(event=event, object_guid=Guid.of(identifier), domain_controller=server)


def update(
    command: NotificationCommand,
    properties: Properties,
    identifier: UUID | None = None,
    path_name: str | None = None,
) -> NotificationUpdate:
    return NotificationUpdate(
        command=command,
        path_name=path_name,
        guid_identifier=None if identifier is None else Guid.of(identifier),
        guid_master_id=MASTER,
        properties=properties,
    )


def deletion(identifier: UUID) -> NotificationUpdate:
    return update(
        NotificationCommand.DELETE, ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 1)), identifier=identifier
    )


def received(message: NotificationUpdates | NotificationBody, **values: Any) -> do.NotificationReceived:
    """A message as it arrives, of version 1 from a directory server whose signature is good."""
    trusted = {
        "sender_type": SenderIdentifierType.QUEUE_MANAGER,
        "authentication_level": AuthenticationLevel.SIG20,
        "from_directory_server": True,
    }
    believed = trusted if isinstance(message, NotificationUpdates) else {}
    return do.NotificationReceived(notification=message, size=len(encode(message)), **believed | values)


def updates(*made: NotificationUpdate, **values: Any) -> do.NotificationReceived:
    return received(NotificationUpdates(updates=made), **values)


class ReceiverBench:
    """An engine, and what it reads: `directory` and `in_directory` are what our directory server holds.

    Attributes:
        events: what subscribers would have been told.
        reads: what was read, in order.
        notes: what was noted, by its text.
        timers: when which timer runs out.
        others: what the directory servers hold that messages may name.
        broken: names of directory servers that cannot be read; None is our own one.
    """

    def __init__(self, *queues: OwnedQueue, empty: bool = False, **settings: Any) -> None:
        self.now = START
        self.directory = {one.identifier: one for one in queues}
        self.in_directory: OwnedQueueManager | None = manager()
        self.others: dict[str, dict[UUID, OwnedQueue]] = {}
        self.broken: set[str | None] = set()
        made = ReceiverSettings(identifier=OURS, computer_name=COMPUTER, **settings)
        state = None if empty else LocalState(manager(), queues)
        self.engine = NotificationReceiver(made, state)
        self.events: list[StateEvent] = []
        self.reads: list[do.Operation] = []
        self.notes: Counter[str] = Counter()
        self.timers: dict[str, float] = {}
        self.known = 0

    @property
    def queues(self) -> dict[UUID, OwnedQueue]:
        """What the engine believes."""
        return dict(self.engine.state.queues)

    def step(self, event: do.Event) -> None:
        """An event, with all the reads that follow from it."""
        pending = [event]
        while pending:
            for action in self.engine.step(pending.pop(), self.now):
                if isinstance(action, do.PerformRead):
                    self.reads.append(action.operation)
                    result = self.result_of(action.operation)
                    pending.append(do.ReadPerformed(token=action.token, result=result))
                self.note(action)

    def note(self, action: do.Action) -> None:
        match action:
            case StartTimer(name=name, after_s=after_s):
                self.timers[name] = self.now + after_s
            case do.Tell(event=told):
                self.events.append(told)
            case Note(what=what):
                self.notes[what] += 1
            case do.StateRead():
                self.known += 1

    def result_of(self, operation: do.Operation) -> do.Result:
        server = getattr(operation, "server", None)
        if server in self.broken:
            return do.NotRead(reason="away")
        if isinstance(operation, do.ReadAll):
            return do.AllRead(manager=self.in_directory, queues=tuple(self.directory.values()))
        if isinstance(operation, do.ReadQueueManager):
            return do.QueueManagerRead(manager=self.in_directory)
        held = self.directory if server is None else self.others[server]
        return do.QueueRead(queue=held.get(operation.identifier))

    def advance(self, seconds: float) -> None:
        """Let time pass, and timers run out on the way."""
        until = self.now + seconds
        while self.timers and min(self.timers.values()) <= until:
            name = min(self.timers, key=self.timers.__getitem__)
            self.now = max(self.now, self.timers.pop(name))
            self.step(TimerFired(name=name))
        self.now = until

    def process(self, *messages: do.NotificationReceived) -> None:
        """Messages, and the time that they wait."""
        for message in messages:
            self.step(message)
        self.advance(16 * MINUTE)

    def take_events(self) -> list[StateEvent]:
        taken, self.events = self.events, []
        return taken
