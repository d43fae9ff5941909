"""Own queue manager and queues, kept up to date by notifications ([MS-MQCN] 3.2)."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Self
from uuid import UUID

from mqdssm.drivers.notification.owned_reader import OwnedReader
from mqdssm.drivers.notification.receiver import NotificationDriver
from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import Transport
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.events.facade import Directory
from mqdssm.server.config import NotificationSection
from mqdssm.server.snapshot import OwnObjectsSnapshot

log: Final = logging.getLogger(__name__)

RETRY_S: Final = 2.0
"""Seconds until a directory that has not the own machine yet, or is away, is read again: it is our own."""


class OwnChange(NamedTuple):
    """Change of an object of the server's own machine.

    Attributes:
        event: queue_created, queue_changed, queue_deleted or queue_manager_changed.
        identifier: GUID of the object.
        name: path name of the queue, or name of the machine.
    """

    event: str
    identifier: UUID
    name: str


class OwnObjects(AbstractContextManager["OwnObjects"]):
    """Receiver of change notifications in a thread; a context manager that stops it.

    The server's own directory is read at the start, and when own objects were changed.

    Args:
        directory: of the server.
        transport: its queue manager, whose notification queue is opened.
        section: waits of the receiver.
        on_change: called with each change, in the receiver's thread.

    Attributes:
        driver: receives the messages.
    """

    def __init__(
        self,
        directory: Directory,
        transport: Transport,
        *,
        section: NotificationSection,
        on_change: Callable[[OwnChange], object] = lambda _change: None,
    ) -> None:
        identifier, self._on_change = transport.identifier.uuid, on_change
        settings = ReceiverSettings(
            identifier=identifier,
            computer_name=transport.machine_name,
            settle_s=section.settle_s,
            interval_s=section.interval_s,
            retry_s=RETRY_S,
        )
        self.driver: Final = NotificationDriver(
            NotificationReceiver(settings), OwnedReader(directory, identifier), transport
        )
        self.driver.subscriptions.call(
            queue_created=lambda queue: self._tell("queue_created", queue.identifier, queue.pathname),
            queue_changed=lambda _, queue: self._tell("queue_changed", queue.identifier, queue.pathname),
            queue_deleted=lambda queue: self._tell("queue_deleted", queue.identifier, queue.pathname),
            queue_manager_changed=lambda _, manager: self._tell(
                "queue_manager_changed", manager.identifier, manager.computer_name
            ),
        )

    def __enter__(self) -> Self:
        self.driver.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.stop()

    @property
    def counts(self) -> EventCounts:
        """Messages and changes, and what was dropped."""
        return self.driver.counts

    def snapshot(self) -> OwnObjectsSnapshot:
        """Return the state of the own objects; from any thread."""
        driver = self.driver
        manager = driver.queue_manager
        return OwnObjectsSnapshot(
            is_receiving=driver.is_alive,
            is_known=driver.known.is_set(),
            queues=len(driver.queues),
            queue_manager_quota=manager.queue_manager_quota,
            journal_quota=manager.journal_quota,
        )

    def _tell(self, event: str, identifier: UUID, name: str) -> None:
        log.info("%s: %s", event, name)
        self._on_change(OwnChange(event, identifier, name))
