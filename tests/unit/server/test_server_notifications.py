"""Change notifications of a directory server as a process: the owner of a new queue is notified over TCP."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.replication.queue_managers import wait_until

from mqdssm.drivers.authentication.keyring import PinnedKeys, TrustedSender
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.drivers.transport import NOTIFICATION, Inbox
from mqdssm.events.watching.journal import WatchJournal
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.guid import Guid
from mqdssm.model.replication import Service
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server import notifications
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.control_client import ControlClient
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from mqdssm.wire.mqcn import decode

WAIT_S = 30
HERE = SocketAddress("127.0.0.1", 0)


@pytest.fixture
def folder(tmp_path: Path) -> DirectoryServerFolder:
    path = tmp_path / "pec"
    config = make_pec(
        path,
        enterprise="Contoso",
        site="Berlin",
        machine_name="PEC01",
        listen="127.0.0.1:0",
        store=StoreSection(),
    )
    with config.open("a") as file:
        file.write("\n[notification]\nsend = true\n")
    return DirectoryServerFolder(path)


def run(folder: DirectoryServerFolder, stack: ExitStack) -> None:
    """Run the server until the stack is closed."""
    ready = Event()
    process = ServerProcess(folder, ServerConfig.read(folder.config), on_ready=lambda _: ready.set())
    thread = Thread(target=process.run)
    thread.start()
    stack.callback(thread.join, WAIT_S)
    stack.callback(process.stop)
    assert ready.wait(WAIT_S)


def owner(folder: DirectoryServerFolder, identifier: UUID, stack: ExitStack) -> tuple[Inbox, SocketAddress]:
    """Queue manager of WEB01, which trusts the PEC: its notification queue and its address."""
    config = ServerConfig.read(folder.config)
    pec = TrustedSender(
        machine_name="PEC01",
        service=Service.PEC,
        keys=PrivateKey.load(folder.key).public_keys().keys,
    )
    network = TcpNetwork(HERE, folder.path / "web01.numbers", NameResolver())
    manager = network.add(
        "WEB01",
        Guid.of(identifier),
        signer=Signer(Guid.of(identifier), PrivateKey.generate(1024)),
        verifier=Verifier(PinnedKeys({Guid.of(config.server.machine_id): pec}), time.time()),
        queues=(NOTIFICATION,),
    )
    stack.callback(manager.close)
    return manager.open(NOTIFICATION), network.address


def create_until_notified(
    client: ControlClient, owned: QueueManager, inbox: Inbox, address: SocketAddress
) -> Iterator[str]:
    """Create a queue manager, and queues until it is notified; return further path names.

    The watch of a new server may begin after the first queues.
    """
    client.add_host(owned.computer_name, f"{address.host}:{address.port}")
    client.create(owned)
    names = (rf"{owned.computer_name}\queue{number}" for number in count())
    while not _is_notified(inbox, client.create(Queue(pathname=next(names))), 3):
        pass
    return names


@pytest.mark.slow
@pytest.mark.spec("MS-MQCN 3.3.4.1")
def test_the_owner_of_a_queue_is_notified_also_after_a_restart(folder):
    site = ServerConfig.read(folder.config).server.site_id
    owned = QueueManager(computer_name="WEB01", identifier=uuid4(), site_identifier_list=[site])
    with ExitStack() as stack:
        inbox, address = owner(folder, owned.identifier, stack)
        with ExitStack() as first:
            run(folder, first)
            with ControlClient(folder.control) as client:
                names = create_until_notified(client, owned, inbox, address)
        run(folder, stack)  # goes on where it was: nothing is missed, however early it comes
        with ControlClient(folder.control) as client:
            assert _is_notified(inbox, client.create(Queue(pathname=next(names))), WAIT_S)


@pytest.mark.slow
def test_a_state_that_cannot_be_written_ends_no_notifications(folder, monkeypatch):
    """Decision T160: the owner is notified when the disk has room again."""
    site = ServerConfig.read(folder.config).server.site_id
    owned = QueueManager(computer_name="WEB01", identifier=uuid4(), site_identifier_list=[site])
    monkeypatch.setattr(notifications, "RETRY_S", 0.2)
    append, is_full = WatchJournal._append, Event()

    def append_if_room(journal: WatchJournal, record: dict[str, Any]) -> None:
        if is_full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(journal, record)

    monkeypatch.setattr(WatchJournal, "_append", append_if_room)
    with ExitStack() as stack:
        inbox, address = owner(folder, owned.identifier, stack)
        run(folder, stack)
        with ControlClient(folder.control) as client:
            names = create_until_notified(client, owned, inbox, address)
            is_full.set()
            queue = client.create(Queue(pathname=next(names)))
            wait_until(lambda: "notification of owners" in _subjects(client), WAIT_S)
            (problem,) = client.status().problems
            assert problem.text.endswith("notified.state: No space left on device")
            is_full.clear()
            assert _is_notified(inbox, queue, WAIT_S)
            wait_until(lambda: not _subjects(client), WAIT_S)


def _subjects(client: ControlClient) -> set[str]:
    return {problem.subject for problem in client.status().problems}


def _is_notified(inbox: Inbox, identifier: UUID, wait_s: float) -> bool:
    """Receive messages until one is about an object, or for some seconds."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        arrival = inbox.receive(0.5)
        if arrival is None:
            continue
        assert arrival.sender is not None
        assert arrival.sender.machine_name == "PEC01"
        if str(identifier) in str(decode(arrival.message.body)):
            return True
    return False
