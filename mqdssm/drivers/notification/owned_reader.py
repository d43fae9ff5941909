"""Reads for a receiver of change notifications, through the adapter.

See [MS-MQCN] 2.3 and 3.2.5.2.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.notification import actions as do
from mqdssm.errors import DirectoryError
from mqdssm.events.facade import Directory
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.filters import Filter
from mqdssm.model.owned_objects import (
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    OwnedQueue,
    OwnedQueueManager,
)

log: Final = logging.getLogger(__name__)

_MANAGER: Final = ("Identifier", "ComputerName", "FullPath", *QUEUE_MANAGER_ATTRIBUTES)


class OwnedReader:
    """Reads a queue manager's own objects.

    Args:
        directory: our own.
        identifier: QueueManager.Identifier.
        servers: the directories that messages may name (decision C2), by the names in them, in any case. No
            connection is made to any other, whatever a message says.

    Attributes:
        counts: how often what was read.
    """

    def __init__(
        self,
        directory: Directory,
        identifier: UUID,
        servers: Mapping[str, Directory] = MappingProxyType({}),
    ) -> None:
        self._directory = directory
        self._identifier = identifier
        self._servers = {name.casefold(): server for name, server in servers.items()}
        self.counts: Final = EventCounts()

    @property
    def servers(self) -> frozenset[str]:
        """Directory servers that messages may name: `ReceiverSettings.servers`."""
        return frozenset(self._servers)

    def perform(self, operation: do.Operation) -> do.Result:
        """Perform one read; errors of the directory are returned as `NotRead`."""
        self.counts.add(type(operation).__name__)
        try:
            match operation:
                case do.ReadQueue(server=str(server)) | do.ReadQueueManager(server=str(server)) if (
                    server.casefold() not in self._servers
                ):
                    return do.NotRead(reason=f"directory server {server} is on the list, but not known here")
                case do.ReadQueue(identifier=identifier, server=server):
                    return do.QueueRead(queue=self._read_queue(self._directory_of(server), identifier))
                case do.ReadQueueManager(server=server):
                    return do.QueueManagerRead(manager=self._read_manager(self._directory_of(server))[0])
                case do.ReadAll():
                    return self._read_all_objects()
        except DirectoryError as error:
            log.warning("the own objects could not be read: %s", error)
            return do.NotRead(reason=str(error))

    def _directory_of(self, server: str | None) -> Directory:
        return self._directory if server is None else self._servers[server.casefold()]

    def _read_queue(self, directory: Directory, identifier: UUID) -> OwnedQueue | None:
        search_filter = Filter("Identifier", "==", identifier)
        for queue in directory.search(Queue, search_filter, attributes=QUEUE_ATTRIBUTES):
            return _convert_queue(queue)
        return None

    def _read_manager(self, directory: Directory) -> tuple[OwnedQueueManager | None, str | None]:
        """Return the own queue manager and its DN; None for both if it is not found."""
        search_filter = Filter("Identifier", "==", self._identifier)
        for queue_manager in directory.search(QueueManager, search_filter, attributes=_MANAGER):
            return OwnedQueueManager.of(
                queue_manager, queue_manager.computer_name or ""
            ), queue_manager.full_path
        return None, None

    def _read_all_objects(self) -> do.AllRead:
        manager, place = self._read_manager(self._directory)
        if manager is None or place is None:
            return do.AllRead(manager=None)
        queue_objects = self._directory.search(Queue, attributes=QUEUE_ATTRIBUTES, below=place)
        queues = tuple(queue for queue in map(_convert_queue, queue_objects) if queue is not None)
        return do.AllRead(manager=manager, queues=queues)


def _convert_queue(queue: Queue) -> OwnedQueue | None:
    try:
        return OwnedQueue.of(queue)
    except ValueError as error:  # damaged: the adapter has logged it
        log.warning("a queue is left out: %s", error)
        return None
