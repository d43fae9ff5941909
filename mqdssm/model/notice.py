"""What a change of the directory is to change notification: the arguments of Send Change Notification."""

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
    """One change, and whom it concerns ([MS-MQCN] 3.3.4.1).

    Attributes:
        operation: what was done.
        element: the queue, or for QueueManagerUpdate the queue manager, with its Identifier: as it is in the
            directory now, of a deleted queue as it was. A version-1 creation needs all that
            `mqdssm.tables.notification` calls created.
        owner: Identifier of the queue manager that owns it: the notification goes there.
        machine: name of the owner's computer.
        server: name of the directory server that made the change; visible ASCII, 1 to 256 characters.
        changed: the specification's names of what an update wrote.
    """

    operation: NotifiedOperation
    element: Queue | QueueManager
    owner: UUID
    machine: str
    server: str
    changed: frozenset[str] = frozenset()


Notify: TypeAlias = Callable[[Notice], None]
"""Is told of every change that the adapter made; what it raises is logged and no more (decision C22)."""
