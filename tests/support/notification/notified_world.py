"""Queue managers that hear of the changes of a real directory, and who tells them."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.notification.owned_reader import OwnedReader
from mqdssm.drivers.notification.receiver import NotificationDriver
from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.model.guid import Guid
from mqdssm.model.notification import (
    NotificationVersion,
)
from mqdssm.model.owned_objects import (
    OwnedQueue,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
)
from mqdssm.testing.in_process_network import InProcessNetwork
from support.replication.queue_managers import guid_of, key_of, sender_of, wait_until

QUICKLY = {"settle_s": 0.05, "interval_s": 0.1, "retry_s": 0.1}


@dataclass
class Machine:
    """A queue manager that hears of its changes."""

    name: str
    settings: ReceiverSettings
    host: LocalQueueManager
    reader: OwnedReader
    driver: NotificationDriver
    events: list[Any] = field(default_factory=list)

    @property
    def identifier(self) -> UUID:
        return self.settings.identifier

    def listen(self) -> None:
        """Gather what subscribers are told."""
        self.driver.subscriptions.call(
            queue_created=lambda queue: self.events.append(QueueCreated(queue)),
            queue_changed=lambda old, new: self.events.append(QueueChanged(old, new)),
            queue_deleted=lambda queue: self.events.append(QueueDeleted(queue)),
            queue_manager_changed=lambda old, new: self.events.append(QueueManagerChanged(old, new)),
        )
        self.driver.start()
        assert self.driver.known.wait(20)

    def end(self) -> None:
        """Stop; later drivers, too."""
        self.driver.stop()

    def begin_again(self) -> None:
        """Stop, and go on with what the subscribers hold: what was missed is told to them."""
        self.driver.stop()
        state = LocalState(self.driver.queue_manager, replayed(self.events).values())
        self.driver = NotificationDriver(NotificationReceiver(self.settings, state), self.reader, self.host)
        self.listen()

    def wait(self, count: int) -> None:
        wait_until(lambda: len(self.events) >= count)

    def in_directory(self) -> dict[UUID, OwnedQueue]:
        found = self.reader.perform(do.ReadAll())
        assert isinstance(found, do.AllRead)
        assert found.manager is not None
        return {queue.identifier: queue for queue in found.queues}

    def believed(self) -> dict[UUID, OwnedQueue]:
        return {queue.identifier: queue for queue in self.driver.queues}


class Enterprise:
    """Machines of a world, and a directory whose changes are told to them by the machine ADMIN."""

    def __init__(self, world: Any, version: NotificationVersion = NotificationVersion.BODY) -> None:
        self.world = world
        self.network = InProcessNetwork()
        self.stack = ExitStack()
        self.stack.callback(self.network.close)
        admin = guid_of("ADMIN")
        self.admin = self.network.add("ADMIN", admin, signer=Signer(admin, key_of("ADMIN")))
        self.notifier = Notifier(self.admin, SenderSettings(identifier=admin, version=version))
        self.directory = self.stack.enter_context(world.connect(notify=self.notifier))

    def machine(self, reader_class: type[OwnedReader] = OwnedReader, **more: Any) -> Machine:
        """A queue manager in the directory, and on the network."""
        name = self.world.computer()
        identifier = self.world.queue_manager(name)
        reader = reader_class(self.world.directory, identifier, more.pop("servers", {}))
        settings = ReceiverSettings(
            identifier=identifier, computer_name=name, servers=reader.servers, **QUICKLY | more
        )
        known = PinnedKeys({guid_of("ADMIN"): sender_of("ADMIN")})
        host = self.network.add(name, Guid.of(identifier), verifier=Verifier(known, time.time() - 1))
        driver = NotificationDriver(NotificationReceiver(settings), reader, host)
        made = Machine(name, settings, host, reader, driver)
        self.stack.callback(made.end)
        made.listen()
        return made


@contextmanager
def enterprise(world: Any, version: NotificationVersion = NotificationVersion.BODY) -> Iterator[Enterprise]:
    made = Enterprise(world, version)
    with made.stack:
        yield made


def replayed(
    events: Iterable[Any], held: Mapping[UUID, OwnedQueue] = MappingProxyType({})
) -> dict[UUID, OwnedQueue]:
    """What subscribers hold who believe each event; each must fit what they held before."""
    now = dict(held)
    for event in events:
        match event:
            case QueueCreated(queue):
                assert queue.identifier not in now
                now[queue.identifier] = queue
            case QueueChanged(old, new):
                assert now[old.identifier] == old
                now[new.identifier] = new
            case QueueDeleted(queue):
                assert now.pop(queue.identifier) == queue
    return now
