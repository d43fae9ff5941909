"""Decoding and applying change notifications: [notification]."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID, uuid5

from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.sender import messages_of
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.model.elements import Queue
from mqdssm.model.guid import Guid
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import NotificationVersion
from mqdssm.model.owned import OwnedQueueManager
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType
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
    goal=0.2,
    direction="at_least",
)


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


def bodies(names: Iterable[str], operations: Iterable[NotifiedOperation]) -> list[bytes]:
    """The bodies that tell all operations on each queue, in turn."""
    settings = SenderSettings(
        identifier=Guid.of(uuid5(_NAMES, "server")), version=NotificationVersion.UPDATES, updates_max=1
    )
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
    return [made.message.body for made in messages_of(notices, settings)]


def receiver() -> NotificationReceiver:
    """One that processes as many as there are, when it is told to."""
    settings = ReceiverSettings(
        identifier=_OWNER,
        computer_name="web01",
        settle_s=0,
        interval_s=0,
        messages_max=1 << 30,
        waiting_bytes_max=1 << 40,
    )
    state = LocalState(OwnedQueueManager(identifier=_OWNER, computer_name="web01"))
    return NotificationReceiver(settings, state)


def apply(engine: NotificationReceiver, images: Iterable[bytes]) -> int:
    """Decode and apply; the number of events that subscribers are told."""
    for image in images:
        event = do.Received(
            notification=decode(image),
            size=len(image),
            sender_type=SenderIdentifierType.QUEUE_MANAGER,
            authentication_level=AuthenticationLevel.SIG20,
            from_directory_server=True,
        )
        engine.step(event, 0.0)
    return sum(isinstance(one, do.Tell) for one in engine.step(do.TimerFired(name="batch"), 0.0))


def notification(world: World | None, *, quick: bool) -> Outcome:
    """The same bodies on both sides; the directory is not needed."""
    del world
    queues, held = (QUEUES // 10, QUEUES_HELD // 10) if quick else (QUEUES, QUEUES_HELD)
    engine = receiver()
    apply(engine, bodies((f"held{n}" for n in range(held)), [NotifiedOperation.QUEUE_CREATION]))
    before = len(engine.state.queues)
    images = bodies(
        (f"q{n}" for n in range(queues)),
        (
            NotifiedOperation.QUEUE_CREATION,
            NotifiedOperation.QUEUE_UPDATE,
            NotifiedOperation.QUEUE_DELETION,
        ),
    )

    def ours() -> None:
        told = apply(engine, images)
        if told != 2 * queues or len(engine.state.queues) != before:  # the quota changes to what it is
            raise AssertionError(f"{told} events of {queues} queues: this is no measurement")

    def theirs() -> None:
        for image in images:
            decode(image)

    return interleaved(ours, theirs, 3 if quick else 15).speed(NOTIFICATION, len(images), "notifications")


ROWS: Final = {NOTIFICATION: notification}
