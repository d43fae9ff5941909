"""Decoding and applying change notifications: [notification]."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid5

from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World
from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.notification.receiver import NotificationDriver
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.engines.actions import TimerFired
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.model.elements import Queue
from mqdssm.model.guid import Guid
from mqdssm.model.names import FormatName
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import NotificationVersion
from mqdssm.model.owned_objects import OwnedQueueManager
from mqdssm.model.replication import Service
from mqdssm.model.transport import NO_MESSAGE, Message, MessageId
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.mqcn import decode

QUEUES: Final = 2_000
"""Queues that are created, changed and deleted in one run: a message for each of the three."""
QUEUES_HELD: Final = 10_000
"""Queues that the queue manager has besides."""
_NAMES: Final = UUID("8e1b3a0c-6a55-4c0e-9d0d-5b1f6a9b2f44")
_OWNER: Final = uuid5(_NAMES, "owner")

NOTIFICATION: Final = Goal(
    name="notification",
    title="version-1 notifications that create, change and delete a queue of a machine with 10,000 others, "
    "decoded, believed and applied, one update a message",
    against="decoding them alone",
    goal=0.1,
    direction="at_least",
)


@dataclass
class _Shelf:
    """A queue manager that keeps what it should send (`mqdssm.drivers.transport.Transport`)."""

    identifier: Guid
    machine_name: str = "web01"
    sent: list[Message] = field(default_factory=list)

    def open(self, queue: LocalQueue) -> LocalInbox:
        raise AssertionError(f"nobody receives from {queue.name} here")

    def send(self, message: Message, destination: FormatName) -> MessageId:
        del destination
        self.sent.append(message)
        return NO_MESSAGE

    def close(self) -> None:
        self.sent.clear()


def _queue(name: str) -> Queue:
    return Queue(
        identifier=uuid5(_NAMES, name),
        pathname=f"web01\\{name}",
        label="Orders of the web shop",
        quota=1_000,
        security=bytes(SecurityDescriptor()),
        create_time=1_500_000_000,
        modify_time=1_500_000_000,
    )


def arrivals(names: Iterable[str], operations: Iterable[NotifiedOperation]) -> list[Arrival]:
    """What tells all operations on each queue, in turn, as it arrives from a directory server."""
    server = Guid.of(uuid5(_NAMES, "server"))
    settings = SenderSettings(identifier=server, version=NotificationVersion.UPDATES, updates_max=1)
    shelf = _Shelf(server)
    operations = tuple(operations)
    notices = [
        Notice(
            operation=operation,
            element=queue,
            owner=_OWNER,
            machine="web01",
            server="dc1",
            changed=frozenset({"Quota"}),
        )
        for queue in map(_queue, names)
        for operation in operations
    ]
    Notifier(shelf, settings).send(notices)
    sender = TrustedSender(machine_name="PSC1", service=Service.PSC, keys=())
    return [Arrival(message=message, sender=sender) for message in shelf.sent]


class _Nowhere:
    """No directory: version 1 needs none."""

    def perform(self, operation: do.Operation) -> do.Result:
        raise AssertionError(f"{operation} was not expected")


@dataclass
class Receiver:
    """A receiver that processes as many messages as there are, when it is told to."""

    engine: NotificationReceiver
    driver: NotificationDriver

    def apply(self, messages: Iterable[Arrival]) -> int:
        """Decode and apply; the number of events that subscribers are told."""
        for arrival in messages:
            event = self.driver.event_of(arrival)
            if event is not None:
                self.engine.step(event, 0.0)
        return sum(isinstance(one, do.Tell) for one in self.engine.step(TimerFired(name="batch"), 0.0))


def receiver() -> Receiver:
    """One without queues."""
    settings = ReceiverSettings(
        identifier=_OWNER,
        computer_name="web01",
        settle_s=0,
        interval_s=0,
        messages_max=1 << 30,
        waiting_bytes_max=1 << 40,
    )
    state = LocalState(OwnedQueueManager(identifier=_OWNER, computer_name="web01"))
    engine = NotificationReceiver(settings, state)
    return Receiver(engine, NotificationDriver(engine, _Nowhere(), _Shelf(Guid.of(_OWNER))))


def notification(world: World | None, *, quick: bool) -> Outcome:
    """The same bodies on both sides; the directory is not needed."""
    del world
    queues, held = (QUEUES // 10, QUEUES_HELD // 10) if quick else (QUEUES, QUEUES_HELD)
    there = receiver()
    there.apply(arrivals((f"held{n}" for n in range(held)), [NotifiedOperation.QUEUE_CREATION]))
    messages = arrivals(
        (f"q{n}" for n in range(queues)),
        (
            NotifiedOperation.QUEUE_CREATION,
            NotifiedOperation.QUEUE_UPDATE,
            NotifiedOperation.QUEUE_DELETION,
        ),
    )

    def ours() -> None:
        told = there.apply(messages)
        if told != 2 * queues or len(there.engine.state.queues) != held:  # the quota changes to what it is
            raise AssertionError(f"{told} events of {queues} queues: this is no measurement")

    def theirs() -> None:
        for arrival in messages:
            decode(arrival.message.body)

    return interleaved(ours, theirs, 3 if quick else 15).speed(NOTIFICATION, len(messages), "notifications")


ROWS: Final = {NOTIFICATION: notification}
