"""Local state of a queue manager: own attributes and QueueCollection.

See [MS-MQCN] 3.2.1.

Each change of the state returns the events that report it, in order; without a difference there is no event.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mqdssm.model.names import PathName
from mqdssm.model.owned_objects import (
    OwnedQueue,
    OwnedQueueManager,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
    StateEvent,
)


class LocalState:
    """The local copy of a queue manager's attributes and of its public queues.

    Args:
        manager: its own attributes.
        queues: its public queues.
    """

    def __init__(self, manager: OwnedQueueManager, queues: Iterable[OwnedQueue] = ()) -> None:
        self._manager = manager
        self._queues: Final[dict[UUID, OwnedQueue]] = {}
        self._names: Final[dict[str, UUID]] = {}
        for queue in queues:
            list(self.put(queue))

    @property
    def manager(self) -> OwnedQueueManager:
        """Attributes of the queue manager."""
        return self._manager

    @property
    def queues(self) -> Mapping[UUID, OwnedQueue]:
        """Public queues of the queue manager, by Identifier; a read-only view."""
        return MappingProxyType(self._queues)

    def find(self, identifier: UUID | None, path_name: str | None = None) -> OwnedQueue | None:
        """Return a queue by its GUID, or by its path name if the GUID is None."""
        if identifier is None and path_name is not None:
            identifier = self._names.get(PathName.parse_stored(path_name).key)
        return None if identifier is None else self._queues.get(identifier)

    def put(self, queue: OwnedQueue) -> Iterator[StateEvent]:
        """Store a queue.

        Another queue of this name is deleted, since its deletion was never notified.
        """
        old = self._queues.get(queue.identifier)
        if old == queue:
            return
        same_name = self._names.get(queue.key)
        if same_name is not None and same_name != queue.identifier:
            yield from self.delete(same_name)
        if old is not None:
            self._names.pop(old.key, None)
        self._queues[queue.identifier] = queue
        self._names[queue.key] = queue.identifier
        yield QueueCreated(queue) if old is None else QueueChanged(old, queue)

    def delete(self, identifier: UUID) -> Iterator[StateEvent]:
        """Remove a queue, if the state has it."""
        queue = self._queues.pop(identifier, None)
        if queue is not None:
            self._names.pop(queue.key, None)
            yield QueueDeleted(queue)

    def set_manager(self, manager: OwnedQueueManager) -> Iterator[StateEvent]:
        """Replace the queue manager's attributes."""
        old, self._manager = self._manager, manager
        if old != manager:
            yield QueueManagerChanged(old, manager)

    def replace(self, manager: OwnedQueueManager, queues: Iterable[OwnedQueue]) -> Iterator[StateEvent]:
        """Replace the whole state.

        The events of deletions come before those of new and changed queues.
        """
        now = {queue.identifier: queue for queue in queues}
        yield from self.set_manager(manager)
        for identifier in [key for key in self._queues if key not in now]:
            yield from self.delete(identifier)
        for queue in now.values():
            yield from self.put(queue)
