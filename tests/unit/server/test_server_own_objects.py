"""Change notifications that a directory server as a process receives about its own machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from uuid import UUID, uuid4

import pytest
from support.notification.receivers import body, deletion
from support.replication.queue_managers import wait_until

from mqdssm.drivers.tcp.name_resolution import NameResolver, SocketAddress
from mqdssm.drivers.tcp.network import TcpNetwork, TcpSettings
from mqdssm.drivers.transport import Transport
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.guid import Guid
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.notification import NotificationEvent, NotificationUpdates
from mqdssm.model.transport import NOTIFICATION_QUEUE_NUMBER, Message
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.control_client import ControlClient
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.own_objects import OwnChange
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from mqdssm.server.snapshot import OwnObjectsSnapshot
from mqdssm.wire.mqcn import encode

WAIT_S = 30


class Pec:
    """A PEC in a thread of the tests, and what it tells of its own machine."""

    def __init__(self, folder: DirectoryServerFolder) -> None:
        self.folder, self.changes = folder, list[OwnChange]()
        self.config = ServerConfig.read(folder.config)
        self.identifier = self.config.server.machine_id
        self.address: SocketAddress | None = None

    @contextmanager
    def running(self) -> Iterator["Pec"]:
        ready = Event()

        def on_ready(address: SocketAddress) -> None:
            self.address = address
            ready.set()

        process = ServerProcess(
            self.folder, self.config, on_ready=on_ready, on_own_change=self.changes.append
        )
        thread = Thread(target=process.run)
        thread.start()
        try:
            assert ready.wait(WAIT_S)
            yield self
        finally:
            process.stop()
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def own_objects(self) -> OwnObjectsSnapshot:
        """What the server says of its own machine."""
        with ControlClient(self.folder.control) as client:
            own_objects = client.status().own_objects
        assert own_objects is not None
        return own_objects

    def events(self) -> dict[str, int]:
        """What the receiver has counted."""
        with ControlClient(self.folder.control) as client:
            events = client.status().events
        return {event.event: event.count for event in events if event.part == "notification"}


def make(path: Path, *settings: str) -> Pec:
    config = make_pec(
        path / "pec",
        enterprise="Contoso",
        site="Berlin",
        machine_name="PEC01",
        listen="127.0.0.1:0",
        store=StoreSection(),
    )
    with config.open("a") as file:
        file.write("\n".join(("\n[notification]", *settings, "")))
    return Pec(DirectoryServerFolder(path / "pec"))


@contextmanager
def stranger(pec: Pec, path: Path) -> Iterator[Transport]:
    """A queue manager that no directory knows, and which reaches the PEC."""
    assert pec.address is not None
    name = Guid.of(pec.identifier)
    resolver = NameResolver({name: pec.address})
    identifier = Guid.of(uuid4())
    network = TcpNetwork(None, path / "stranger.numbers", resolver, settings=TcpSettings(flush_s=0))
    manager = network.add("STRANGER", identifier)
    try:
        yield manager
    finally:
        manager.close()


def send(manager: Transport, pec: Pec, message: Message) -> None:
    manager.send(message, PrivateFormatName(pec.identifier, NOTIFICATION_QUEUE_NUMBER))


def notify(manager: Transport, pec: Pec, event: NotificationEvent, identifier: UUID) -> None:
    """Send an unsigned notification of version 2, as anybody can."""
    send(manager, pec, Message(body=encode(body(event, identifier, "dc.example.com"))))


@pytest.mark.slow
@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_notifications_of_strangers_make_the_server_read_and_nothing_else(tmp_path):
    pec = make(tmp_path, "receive = true", "settle_s = 0", "interval_s = 0")
    with pec.running(), stranger(pec, tmp_path) as manager:
        with ControlClient(pec.folder.control) as client:
            wait_until(lambda: pec.own_objects().is_known, WAIT_S)
            orders = client.create(Queue(pathname=r"PEC01\orders", label="Orders"))
            assert pec.own_objects().queues == 0  # nobody has told it
            notify(manager, pec, NotificationEvent.CREATE_QUEUE, orders)
            wait_until(lambda: pec.own_objects().queues == 1, WAIT_S)
            notify(manager, pec, NotificationEvent.DELETE_QUEUE, orders)  # not true
            notify(manager, pec, NotificationEvent.CHANGE_QUEUE_MANAGER, uuid4())  # of another machine
            send(manager, pec, Message(body=b"\xff garbage"))
            unsigned = NotificationUpdates(updates=(deletion(orders),))
            send(manager, pec, Message(body=encode(unsigned)))
            client.write(QueueManager(identifier=pec.identifier, journal_quota=77))
            notify(manager, pec, NotificationEvent.CHANGE_QUEUE_MANAGER, pec.identifier)
            wait_until(lambda: pec.own_objects().journal_quota == 77, WAIT_S)
            assert pec.own_objects().queues == 1
            client.delete(Queue(identifier=orders))
            notify(manager, pec, NotificationEvent.DELETE_QUEUE, orders)
            wait_until(lambda: pec.own_objects().queues == 0, WAIT_S)
        assert pec.changes == [
            OwnChange("queue_created", orders, r"pec01\orders"),
            OwnChange("queue_manager_changed", pec.identifier, "PEC01"),
            OwnChange("queue_deleted", orders, r"pec01\orders"),
        ]
        counted = pec.events()
        expected = {"dropped: cannot be decoded", "dropped: not from a queue manager"}
        expected |= {"dropped: about another queue manager"}
        assert {name: counted[name] for name in expected} == dict.fromkeys(expected, 1)
        assert counted["another directory server was named"] >= 3  # and never contacted
        assert (counted["QueueCreated"], counted["QueueDeleted"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.spec("MS-MQCN 3.2.3")
def test_a_server_that_notifies_owners_sees_its_own_changes_at_once(tmp_path):
    """Its watch passes them on, although notifications wait for a quarter of an hour."""
    pec = make(tmp_path, "receive = true", "send = true")
    with pec.running(), ControlClient(pec.folder.control) as client:
        orders = client.create(Queue(pathname=r"PEC01\orders"))
        wait_until(lambda: pec.own_objects().queues == 1, WAIT_S)
        client.delete(Queue(identifier=orders))
        wait_until(lambda: pec.own_objects().queues == 0, WAIT_S)
    assert OwnChange("queue_deleted", orders, r"pec01\orders") in pec.changes
