"""Events and actions of the receiver, and the directory reads that it asks for."""

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from mqdssm.engines.actions import Note, StartTimer, TimerFired
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.notification import ChangeNotification
from mqdssm.model.owned_objects import OwnedQueue, OwnedQueueManager, StateEvent
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType
from mqdssm.model.watching import ObjectChange

# --- reads of the directory, and their results


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueue:
    """Read Directory of one queue ([MS-MQCN] 3.2.5.2).

    Attributes:
        identifier: its GUID.
        server: name of the directory server to ask, one of `ReceiverSettings.servers`; None for our own one.
    """

    identifier: UUID
    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueueManager:
    """Read Directory of our own queue manager ([MS-MQCN] 3.2.5.2).

    Attributes:
        server: as in `ReadQueue`.
    """

    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAll:
    """Read our queue manager and all its public queues (note <3>).

    Our own directory server is read.
    """


Operation: TypeAlias = ReadQueue | ReadQueueManager | ReadAll


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """The queue that was read; None if it does not exist."""

    queue: OwnedQueue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManagerRead:
    """The queue manager that was read; None if it does not exist."""

    manager: OwnedQueueManager | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRead:
    """Our queue manager and all its queues; without a queue manager nothing is known."""

    manager: OwnedQueueManager | None
    queues: tuple[OwnedQueue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """The directory could not be read; `reason` is for people."""

    reason: str


Result: TypeAlias = QueueRead | QueueManagerRead | AllRead | NotRead

# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStarted:
    """The notification queue is open ([MS-MQCN] 3.2.3).

    This event is the first one, and comes once.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReceived:
    """A Change Notification Message was dequeued.

    The event has the body of a message of class Normal.

    Attributes:
        notification: its body, decoded.
        size: octets of its body.
        sender_type: SenderIdentifierType.
        authentication_level: level at which its signature was verified; NONE if it has none.
        from_directory_server: True if its signer is a BSC, PSC or PEC.
    """

    notification: ChangeNotification
    size: int
    sender_type: SenderIdentifierType = SenderIdentifierType.NONE
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    from_directory_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPerformed:
    """Result of a read."""

    token: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """Request to read everything from the directory now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A watcher of the directory saw an object change.

    The event is handled as in [MS-MQCN] 3.2.5.2.

    Nobody can forge the events of a watcher, so that they are processed at once, without a notification. The
    object is read again nevertheless, since a watcher keeps only selected attributes, not a whole queue.

    Attributes:
        identifier: its GUID.
        is_queue: True for a queue, False for a queue manager.
    """

    identifier: UUID
    is_queue: bool

    @classmethod
    def of(cls, change: ObjectChange) -> "Observed | None":
        """Return the event of a change; the receiver ignores objects of other machines.

        Returns:
            None for objects that are neither queue nor queue manager, or have no GUID.
        """
        if change.guid is None or change.element not in {Queue, QueueManager}:
            return None
        return cls(identifier=change.guid, is_queue=change.element is Queue)


Event: TypeAlias = ReceiverStarted | NotificationReceived | TimerFired | ReadPerformed | Refresh | Observed

# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformRead:
    """Start a read.

    The result comes back as `ReadPerformed`. At most one read is under way at a time.
    """

    token: int
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Notify the subscribers of a change of the local state."""

    event: StateEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """The whole local state was read from the directory."""


Action: TypeAlias = PerformRead | StartTimer | Tell | StateRead | Note
