"""The local state: the queue manager's own attributes and its QueueCollection ([MS-MQCN] 3.2.1).

Every change of it comes back as the events that tell it, in order; what changes nothing tells nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mqdssm.model.names import PathName
from mqdssm.model.owned import (
    OwnedQueue,
    OwnedQueueManager,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
    StateEvent,
)


class LocalState:
    """What a queue manager believes of itself and of its public queues.

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
        """Its own attributes."""
        return self._manager

    @property
    def queues(self) -> Mapping[UUID, OwnedQueue]:
        """Its public queues, by Identifier; a view."""
        return MappingProxyType(self._queues)

    def find(self, identifier: UUID | None, path_name: str | None = None) -> OwnedQueue | None:
        """A queue by its GUID, or where that is None by its path name."""
        if identifier is None and path_name is not None:
            identifier = self._names.get(PathName.parse_stored(path_name).key)
        return None if identifier is None else self._queues.get(identifier)

    def put(self, queue: OwnedQueue) -> Iterator[StateEvent]:
        """Hold a queue as it is now; another one of its name is gone, whose deletion nobody told."""
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
        """Forget a queue, if it is held."""
        queue = self._queues.pop(identifier, None)
        if queue is not None:
            self._names.pop(queue.key, None)
            yield QueueDeleted(queue)

    def set_manager(self, manager: OwnedQueueManager) -> Iterator[StateEvent]:
        """Hold the queue manager's attributes as they are now."""
        old, self._manager = self._manager, manager
        if old != manager:
            yield QueueManagerChanged(old, manager)

    def replace(self, manager: OwnedQueueManager, queues: Iterable[OwnedQueue]) -> Iterator[StateEvent]:
        """Hold this and nothing else: what is gone is told first."""
        now = {queue.identifier: queue for queue in queues}
        yield from self.set_manager(manager)
        for identifier in [one for one in self._queues if one not in now]:
            yield from self.delete(identifier)
        for queue in now.values():
            yield from self.put(queue)
