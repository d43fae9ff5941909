"""A queue manager's own state for change notification, and its changes.

See [MS-MQCN] 3.2.1.
The values are frozen: a change replaces a value, so that an event can hold the old and the new one.
"""

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Final, Self, TypeAlias
from uuid import UUID

from mqdssm.model.elements import GUID_NULL, QUEUE_MANAGER_QUOTA_DEFAULT, QUOTA_UNLIMITED, Queue, QueueManager
from mqdssm.model.enums import PrivacyLevel
from mqdssm.model.messages import Scope
from mqdssm.model.names import PathKind, PathName

PLACES_REMEMBERED: Final = 1_024
"""Path names whose parsed parts are cached: each path name is parsed several times during its processing."""
QUEUE_ATTRIBUTES: Final = (
    "Identifier",
    "Type",
    "BasePriority",
    "Journaling",  # [MS-MQCN] calls it Journal (decision C8)
    "Quota",
    "JournalQuota",
    "CreateTime",
    "ModifyTime",
    "Security",
    "Pathname",
    "Label",
    "Authentication",
    "PrivacyLevel",
    "Transactional",
    "MulticastAddress",
    "DirectoryPath",
)
"""Attributes of a queue that are read ([MS-MQCN] 3.2.5.2); ``Identifier`` comes first for people."""
QUEUE_MANAGER_ATTRIBUTES: Final = ("QueueManagerQuota", "JournalQuota", "Security")
"""Attributes of a queue manager that are read ([MS-MQCN] 3.2.5.2)."""


@lru_cache(maxsize=PLACES_REMEMBERED)
def _find_place(pathname: str) -> tuple[str, str | None]:
    """Return the comparison key of a path name.

    If the queue is public, the computer is returned, too.
    """
    path = PathName.parse_stored(pathname)
    return path.key, path.computer.casefold() if path.kind is PathKind.PUBLIC else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedQueue:
    r"""A public queue of the local queue manager ([MS-MQDMPR] 3.1.1.2).

    Attributes without a value have the default of Set Queue Defaults ([MS-MQDMPR] 3.1.7.1.33, decision C5).

    Attributes:
        identifier: its GUID.
        pathname: ``computer\queue``.
        type: a GUID of the application's.
        label: up to 124 characters.
        journaling: True if messages that are removed are copied to the journal.
        quota: maximum size of all messages, in kilobytes.
        journal_quota: maximum size of the journal, in kilobytes.
        base_priority: -32768 to 32767.
        authentication: True if the queue accepts only signed messages.
        privacy_level: the messages that the queue accepts, by encryption.
        transactional: True for a transactional queue.
        scope: the servers that know the queue; only MSMQ 1.0 has it.
        multicast_address: ``address:port``, or nothing.
        security: its security descriptor; None if it is unknown.
        create_time: seconds since 1970; None if it is unknown.
        modify_time: seconds since 1970; None if it is unknown.
        directory_path: its LDAP URL; None if it is unknown.
    """

    identifier: UUID
    pathname: str
    type: UUID = GUID_NULL
    label: str = ""
    journaling: bool = False
    quota: int = QUOTA_UNLIMITED
    journal_quota: int = QUOTA_UNLIMITED
    base_priority: int = 0
    authentication: bool = False
    privacy_level: PrivacyLevel = PrivacyLevel.OPTIONAL
    transactional: bool = False
    scope: Scope = Scope.ENTERPRISE
    multicast_address: str = ""
    security: bytes | None = field(default=None, repr=False)
    create_time: int | None = None
    modify_time: int | None = None
    directory_path: str | None = None

    @classmethod
    def of(cls, queue: Queue) -> Self:
        r"""Make the state of a queue from its element.

        Raises:
            ValueError: no Identifier, or no valid Pathname: creators of queues can write any text there
                (``private$\`` alone is not valid, decision C26).
        """
        if queue.identifier is None or queue.pathname is None:
            raise ValueError(f"a queue without Identifier or Pathname: {queue!r}")
        _find_place(queue.pathname)
        # the model has no Scope: it keeps its default
        return cls(
            **{
                dataclass_field.name: getattr(queue, dataclass_field.name)
                for dataclass_field in fields(cls)
                if dataclass_field.name != "scope"
            }
        )

    @property
    def key(self) -> str:
        """Comparison key: the path name for comparison without case."""
        return _find_place(self.pathname)[0]

    def is_of(self, computer_name: str) -> bool:
        """Return True if this is a public queue of a computer (decision C17).

        The computer is that of its path name.

        Raises:
            ValueError: it is no path name.
        """
        return _find_place(self.pathname)[1] == computer_name.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedQueueManager:
    """State of the local queue manager that notifications change.

    See [MS-MQDMPR] 3.1.1.1 and [MS-MQCN] 3.2.5.

    Attributes:
        identifier: its GUID.
        computer_name: name of its machine.
        queue_manager_quota: of all its queues; the unit is that of the directory.
        journal_quota: kilobytes of its journal.
        security: its security descriptor; None if it is unknown.
    """

    identifier: UUID
    computer_name: str
    queue_manager_quota: int = QUEUE_MANAGER_QUOTA_DEFAULT
    journal_quota: int = QUOTA_UNLIMITED
    security: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, manager: QueueManager, computer_name: str) -> Self:
        """Make the state of a queue manager from its element.

        Args:
            manager: with Identifier and `QUEUE_MANAGER_ATTRIBUTES`.
            computer_name: name of its machine.

        Raises:
            ValueError: it has no Identifier.
        """
        if manager.identifier is None:
            raise ValueError(f"a queue manager without Identifier: {manager!r}")
        return cls(
            identifier=manager.identifier,
            computer_name=computer_name,
            queue_manager_quota=manager.queue_manager_quota,
            journal_quota=manager.journal_quota,
            security=manager.security,
        )


@dataclass(frozen=True, slots=True)
class QueueCreated:
    """A public queue of this machine was created ([MS-MQCN] 3.2.5.1, 3.2.5.2)."""

    queue: OwnedQueue


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """A public queue of this machine was changed."""

    old: OwnedQueue
    new: OwnedQueue


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """A public queue of this machine was deleted."""

    queue: OwnedQueue


@dataclass(frozen=True, slots=True)
class QueueManagerChanged:
    """This queue manager was changed."""

    old: OwnedQueueManager
    new: OwnedQueueManager


StateEvent: TypeAlias = QueueCreated | QueueChanged | QueueDeleted | QueueManagerChanged
"""Event about a change of the local state."""


def identifier_of(event: StateEvent) -> UUID:
    """Return the GUID of an event's object."""
    if isinstance(event, QueueCreated | QueueDeleted):
        return event.queue.identifier
    return event.new.identifier
