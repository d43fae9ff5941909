"""A change of the directory for change notification.

The change has the arguments of Send Change Notification.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from mqdssm.model.elements import Queue, QueueManager


class NotifiedOperation(StrEnum):
    """The subject of a notification, iOperation ([MS-MQCN] 3.3.4.1)."""

    QUEUE_CREATION = "QueueCreation"
    QUEUE_UPDATE = "QueueUpdate"
    QUEUE_DELETION = "QueueDeletion"
    QUEUE_MANAGER_UPDATE = "QueueManagerUpdate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One change, with the queue manager to notify ([MS-MQCN] 3.3.4.1).

    Attributes:
        operation: the kind of change.
        element: the queue, or for QueueManagerUpdate the queue manager, with its Identifier and its
            present values; of a deleted queue the last ones. A version-1 creation needs all values that
            `mqdssm.tables.notification` calls created.
        owner: Identifier of the queue manager that owns the object, the receiver of the notification.
        machine: name of the owner's computer.
        server: name of the directory server that made the change; visible ASCII, 1 to 256 characters.
        changed: the specification's names of the attributes that an update wrote.
    """

    operation: NotifiedOperation
    element: Queue | QueueManager
    owner: UUID
    machine: str
    server: str
    changed: frozenset[str] = frozenset()


Notify: TypeAlias = Callable[[Notice], None]
"""Call-back for every change that the adapter made; its exceptions are only logged (decision C22)."""
