"""What goes into the receiver and what comes out of it: events, actions, and the reads that it wants."""

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from mqdssm.engines.actions import Note, StartTimer, TimerFired
from mqdssm.model.notification import ChangeNotification
from mqdssm.model.owned import OwnedQueue, OwnedQueueManager, StateEvent
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType

# --- reads of the directory, and what comes of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueue:
    """Read Directory of one queue ([MS-MQCN] 3.2.5.2).

    Attributes:
        identifier: its GUID.
        server: name of the directory server to ask, one of `ReceiverSettings.servers`; None: our own one.
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
    """Read our queue manager and all its public queues, from our own directory server (note <3>)."""


Operation: TypeAlias = ReadQueue | ReadQueueManager | ReadAll


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """The queue; None: there is none."""

    queue: OwnedQueue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManagerRead:
    """The queue manager; None: there is none."""

    manager: OwnedQueueManager | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRead:
    """Everything that is ours in the directory; no queue manager: there is none, so nothing is known."""

    manager: OwnedQueueManager | None
    queues: tuple[OwnedQueue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """The directory could not be read; why, for people."""

    reason: str


Result: TypeAlias = QueueRead | QueueManagerRead | AllRead | NotRead

# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStarted:
    """The notification queue is open ([MS-MQCN] 3.2.3). The first event, and the only one of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReceived:
    """A message of class Normal was dequeued, and its body is a Change Notification Message.

    Attributes:
        notification: what its body says.
        size: octets of its body.
        sender_type: SenderIdentifierType.
        authentication_level: how its signature was found good; NONE: it has none.
        from_directory_server: its signer is a BSC, PSC or PEC.
    """

    notification: ChangeNotification
    size: int
    sender_type: SenderIdentifierType = SenderIdentifierType.NONE
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    from_directory_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPerformed:
    """What came of a read."""

    token: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """Somebody here wants everything read from the directory now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Who watches the directory saw one of our objects change: it is read at once (`engine.watched`).

    Attributes:
        identifier: its GUID.
        is_queue: whether it is a queue; else a queue manager.
    """

    identifier: UUID
    is_queue: bool


Event: TypeAlias = ReceiverStarted | NotificationReceived | TimerFired | ReadPerformed | Refresh | Observed

# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformRead:
    """Read this; the result comes back as `ReadPerformed`. At most one is out at a time."""

    token: int
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """The local state changed: tell the subscribers."""

    event: StateEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """The local state was read whole from the directory."""


Action: TypeAlias = PerformRead | StartTimer | Tell | StateRead | Note
