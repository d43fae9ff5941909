"""From a change of a real directory to the state of the queue manager that owns the object ([MS-MQCN] 3)."""

import logging
import socket
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID, uuid4

import pytest
from notifications import deletion
from queue_managers import guid_of, key_of, sender_of, wait_until

import mqdssm
from mqdssm.drivers.authentication import Signer, Verifier
from mqdssm.drivers.inprocess import Host, Network
from mqdssm.drivers.keyring import PinnedKeys
from mqdssm.drivers.notification import NotificationDriver
from mqdssm.drivers.notifier import Notifier
from mqdssm.drivers.owned_reader import OwnedReader
from mqdssm.drivers.transport import NOTIFICATION, Arrival
from mqdssm.drivers.watch_feed import WatchFeed
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.errors import DirectoryError, ObjectAlreadyExists, ObjectNotFound, TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import (
    NotificationBody,
    NotificationEvent,
    NotificationUpdates,
    NotificationVersion,
)
from mqdssm.model.owned import OwnedQueue, QueueChanged, QueueCreated, QueueDeleted, QueueManagerChanged
from mqdssm.model.transport import Message, MessageClass, SenderIdentifierType, notification_queue
from mqdssm.model.watching import AttributeChange, ChangeEvent, ObjectChange
from mqdssm.wire.mqcn import encode

V1, V2 = NotificationVersion.UPDATES, NotificationVersion.BODY
TOLD = frozenset(one.name for one in fields(OwnedQueue)) - {
    "multicast_address",
    "directory_path",
    "modify_time",
}
"""What version 1 tells of a queue, but for the time of its last change."""
QUICKLY = {"settle_s": 0.05, "interval_s": 0.1, "retry_s": 0.1}


@dataclass
class Machine:
    """A queue manager that hears of its changes."""

    name: str
    identifier: UUID
    host: Host
    reader: OwnedReader
    driver: NotificationDriver
    events: list[Any]

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

    def __init__(self, world: Any, version: NotificationVersion = V2) -> None:
        self.world = world
        self.network = Network()
        self.stack = ExitStack()
        self.stack.callback(self.network.close)
        admin = guid_of("ADMIN")
        self.admin = self.network.add("ADMIN", admin, signer=Signer(admin, key_of("ADMIN")))
        self.notifier = Notifier(self.admin, SenderSettings(identifier=admin, version=version))
        self.directory = self.stack.enter_context(world.connect(notify=self.notifier))

    def machine(self, **more: Any) -> Machine:
        """A queue manager in the directory, and on the network."""
        name = self.world.computer()
        identifier = self.world.queue_manager(name)
        reader = OwnedReader(self.world.directory, identifier, more.pop("servers", {}))
        settings = ReceiverSettings(
            identifier=identifier, computer_name=name, servers=reader.servers, **QUICKLY | more
        )
        known = PinnedKeys({guid_of("ADMIN"): sender_of("ADMIN")})
        host = self.network.add(name, Guid.of(identifier), verifier=Verifier(known, time.time() - 1))
        driver = NotificationDriver(NotificationReceiver(settings), reader, host)
        events: list[Any] = []
        driver.subscriptions.call(
            queue_created=lambda queue: events.append(QueueCreated(queue)),
            queue_changed=lambda old, new: events.append(QueueChanged(old, new)),
            queue_deleted=lambda queue: events.append(QueueDeleted(queue)),
            queue_manager_changed=lambda old, new: events.append(QueueManagerChanged(old, new)),
        )
        self.stack.callback(driver.stop)
        driver.start()
        assert driver.known.wait(20)
        return Machine(name, identifier, host, reader, driver, events)


@contextmanager
def enterprise(world: Any, version: NotificationVersion = V2) -> Iterator[Enterprise]:
    made = Enterprise(world, version)
    with made.stack:
        yield made


def told(queue: OwnedQueue) -> dict[str, Any]:
    return {name: getattr(queue, name) for name in TOLD}


@pytest.mark.spec("MS-MQCN 2.3")
@pytest.mark.spec("MS-MQCN 3.1.1")
@pytest.mark.spec("MS-MQCN 3.1.1.1")
@pytest.mark.spec("MS-MQCN 3.2.1")
@pytest.mark.spec("MS-MQCN 3.2.1.1")
@pytest.mark.spec("MS-MQCN 3.3.1")
@pytest.mark.spec("MS-MQCN 3.3.1.1")
@pytest.mark.parametrize("version", [V1, V2], ids=["1", "2"])
def test_the_state_of_the_owner_follows_the_directory(world, version):
    with enterprise(world, version) as there:
        machine, other = there.machine(), there.machine()
        directory = there.directory
        queues = [
            mqdssm.Queue(pathname=f"{machine.name}\\q{n}", label=f"label {n}", quota=n) for n in range(4)
        ]
        guids = [directory.create(queue) for queue in queues]
        machine.wait(4)
        assert [type(event) for event in machine.events] == [QueueCreated] * 4
        assert set(machine.believed()) == set(guids)

        queues[0].quota, queues[0].journaling, queues[0].base_priority = 77, True, -2
        queues[0].privacy_level = "Body"
        directory.write(queues[0])
        machine.wait(5)
        changed = machine.events[4]
        assert isinstance(changed, QueueChanged)
        assert (changed.old.quota, changed.new.quota) == (0, 77)

        directory.delete(queues[1])
        machine.wait(6)
        assert machine.events[5] == QueueDeleted(machine.events[1].queue)

        directory.write(mqdssm.QueueManager(identifier=machine.identifier, queue_manager_quota=123))
        machine.wait(7)
        assert isinstance(machine.events[6], QueueManagerChanged)
        assert machine.driver.queue_manager.queue_manager_quota == 123

        in_directory, believed = machine.in_directory(), machine.believed()
        if version is V2:
            assert believed == in_directory
        else:
            assert {one: told(queue) for one, queue in believed.items()} == {
                one: told(queue) for one, queue in in_directory.items()
            }
            assert machine.reader.counts.seen() == {"ReadAll": 2}  # at the start, and by this test
        assert other.events == []
        assert len(machine.events) == 7
        assert machine.driver.counts.seen().get("disregarded") is None
        assert there.notifier.counts.seen() == {"sent": 7}


def test_what_is_there_at_the_start_is_known_without_news(world):
    with enterprise(world) as there:
        machine = there.machine()
        there.directory.create(mqdssm.Queue(pathname=f"{machine.name}\\one"))
        machine.wait(1)
        machine.driver.stop()
        again = NotificationDriver(
            NotificationReceiver(ReceiverSettings(identifier=machine.identifier, computer_name=machine.name)),
            machine.reader,
            machine.host,
        ).start()
        assert again.known.wait(20)
        again.stop()
        assert {queue.identifier: queue for queue in again.queues} == machine.in_directory()


def test_a_refresh_finds_what_nobody_told(world):
    with enterprise(world) as there:
        machine = there.machine()
        guid = world.queue(machine.name, "silent", label="nobody told")
        time.sleep(0.3)
        assert not machine.events
        machine.driver.refresh()
        machine.wait(1)
        assert machine.events == [QueueCreated(machine.in_directory()[guid])]


def test_what_a_watcher_saw_is_read_at_once(world):
    with enterprise(world) as there:
        machine = there.machine(settle_s=3600.0)
        guid = world.queue(machine.name, "watched")
        foreign = world.queue()
        machine.driver.watched(
            ObjectChange(event=ChangeEvent.CREATED, type="queue", dn="CN=x", guid=one)
            for one in (foreign, guid)
        )
        machine.wait(1)
        assert machine.events == [QueueCreated(machine.in_directory()[guid])]


def test_what_a_watcher_saw_is_told_to_owners(world):
    with enterprise(world) as there:
        here, other = there.machine(settle_s=3600.0), there.machine()
        guids = [world.queue(machine.name, "seen") for machine in (here, other)]
        site = world.site()
        feed = WatchFeed(world.directory, receiver=here.driver, notifier=there.notifier)
        created = ChangeEvent.CREATED
        feed.run(
            ObjectChange(event=created, type=kind, dn="CN=x", guid=guid)
            for kind, guid in (("queue", guids[0]), ("queue", guids[1]), ("site", site), ("queue", uuid4()))
        )
        here.wait(1)  # at once; the notification of it would wait an hour
        other.wait(1)
        assert other.events == [QueueCreated(other.in_directory()[guids[1]])]
        assert there.notifier.counts.seen() == {"sent": 2}
        there.admin.close()
        feed.run([ObjectChange(event=created, type="queue", dn="CN=x", guid=guids[0])])
        assert feed.counts.seen() == {"changes": 5, "not notified": 1}


def test_a_queue_without_descriptor_is_read_all_the_same(world):
    with enterprise(world) as there:
        machine = there.machine()
        entry = {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQJournal": "TRUE"}
        world.ldap.add(world.queue_dn(machine.name, "plain"), entry)
        machine.driver.refresh()
        machine.wait(1)
        assert machine.events[0].queue.journaling is True


class TestNotices:
    """Which changes are told, of what, and to whom (decision C22)."""

    @contextmanager
    def collecting(self, world: Any) -> Iterator[tuple[mqdssm.Directory, list[Notice]]]:
        notices: list[Notice] = []
        with world.connect(notify=notices.append) as directory:
            yield directory, notices

    def test_a_created_queue_as_the_directory_has_it(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        with self.collecting(world) as (directory, notices):
            guid = directory.create(mqdssm.Queue(pathname=f"{computer}\\q", label="x", quota=9))
        (made,) = notices
        assert (made.operation, made.owner, made.machine) == ("QueueCreation", owner, computer)
        assert made.element.identifier == guid
        assert made.element.create_time is not None
        assert made.element.security
        assert 1 <= len(made.server) <= 256
        assert "/" not in made.server

    @pytest.mark.parametrize("by", ["identifier", "full_path", "pathname"])
    def test_a_written_queue_and_what_was_written(self, world, by):
        owner = world.queue_manager()
        guid = world.queue(world.computer_of(owner))
        found = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
        with self.collecting(world) as (directory, notices):
            directory.write(mqdssm.Queue(**{by: getattr(found, by)}, label="new", quota=4))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueUpdate", owner)
        assert made.changed == {"Label", "Quota"}
        assert (made.element.identifier, made.element.label) == (guid, "new")

    def test_a_deleted_queue_as_it_was(self, world):
        owner = world.queue_manager()
        guid = world.queue(world.computer_of(owner), label="was")
        with self.collecting(world) as (directory, notices):
            directory.delete(mqdssm.Queue(identifier=guid))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueDeletion", owner)
        assert (made.element.identifier, made.element.label) == (guid, "was")

    def test_a_written_queue_manager(self, world):
        owner = world.queue_manager()
        with self.collecting(world) as (directory, notices):
            directory.write(mqdssm.QueueManager(computer_name=world.computer_of(owner), journal_quota=4))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueManagerUpdate", owner)
        assert made.element.identifier == owner
        assert made.element.journal_quota == 4
        assert made.changed == {"JournalQuota"}

    def test_the_queues_that_a_queue_manager_takes_along(self, world):
        owner = world.queue_manager()
        guids = {world.queue(world.computer_of(owner)) for _ in range(3)}
        world.queue()
        with self.collecting(world) as (directory, notices):
            directory.delete(mqdssm.QueueManager(identifier=owner), recursive=True)
        assert {made.element.identifier for made in notices} == guids
        assert {made.owner for made in notices} == {owner}
        assert {made.operation for made in notices} == {NotifiedOperation.QUEUE_DELETION}

    def test_what_is_nobodys(self, world):
        with self.collecting(world) as (directory, notices):
            site = directory.create(mqdssm.Site(name=world.name("site")))
            directory.write(mqdssm.Site(identifier=site, intra_site_replication_interval=3))
            computer = world.computer()
            manager = mqdssm.QueueManager(computer_name=computer, site_identifier_list=[site])
            directory.create(manager)
            directory.delete(manager)
            directory.delete(mqdssm.Site(identifier=site))
        assert notices == []

    def test_nothing_of_a_change_that_failed(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        world.queue(computer, "there")
        gone = mqdssm.Queue(identifier=uuid4(), label="x")
        with self.collecting(world) as (directory, notices):
            with pytest.raises(ObjectAlreadyExists):
                directory.create(mqdssm.Queue(pathname=f"{computer}\\there"))
            with pytest.raises(ObjectNotFound):
                directory.write(gone)
            with pytest.raises(ObjectNotFound):
                directory.delete(gone)
            with pytest.raises(DirectoryError):
                directory.delete(mqdssm.QueueManager(identifier=owner), recursive=False)
            with pytest.raises(DirectoryError):
                directory.write(mqdssm.Queue(pathname=f"{computer}\\there"), attributes=["CreateTime"])
        assert notices == []

    def test_what_the_callback_raises_neither_undoes_nor_hides_the_change(self, world, caplog):
        owner = world.queue_manager()

        def fails(notice: Notice) -> None:
            raise TransportError("full")

        with world.connect(notify=fails) as directory, caplog.at_level(logging.ERROR):
            queue = mqdssm.Queue(pathname=f"{world.computer_of(owner)}\\q")
            guid = directory.create(queue)
            queue.label = "new"
            directory.write(queue)
            read = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
            assert read.label == "new"
            directory.delete(queue)
        assert [record.message.partition(" of ")[0] for record in caplog.records] == [
            "QueueCreation",
            "QueueUpdate",
            "QueueDeletion",
        ]

    def test_what_a_watcher_saw(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        guid = world.queue(computer, "seen", label="now")
        dn = world.queue_dn(computer, "seen")

        def of(event: ChangeEvent, kind: str, one: UUID | None, dn: str = dn) -> Notice | None:
            changes = {"Label": AttributeChange("was", "now"), "ldap:description": AttributeChange(None, "x")}
            change = ObjectChange(event=event, type=kind, dn=dn, guid=one, changes=changes)
            return world.directory.notice_of(change)

        for event, operation in zip(ChangeEvent, NotifiedOperation, strict=False):
            made = of(event, "queue", guid)
            assert made is not None
            assert (made.operation, made.owner, made.machine) == (operation, owner, computer)
            assert made.element.identifier == guid
        changed = of(ChangeEvent.CHANGED, "queue", guid)
        assert changed is not None
        assert (changed.changed, changed.element.label) == ({"Label"}, "now")
        manager = of(ChangeEvent.CHANGED, "queue-manager", owner)
        assert manager is not None
        assert (manager.operation, manager.owner) == ("QueueManagerUpdate", owner)
        assert of(ChangeEvent.CREATED, "queue-manager", owner) is None
        assert of(ChangeEvent.CHANGED, "site", guid) is None
        assert of(ChangeEvent.CHANGED, "queue", None) is None
        assert of(ChangeEvent.CHANGED, "queue", uuid4()) is None
        gone = f"CN=q,CN=msmq,CN=gone,CN=Computers,{world.root}"
        assert of(ChangeEvent.DELETED, "queue", guid, gone) is None  # whose it was nobody can tell

    def test_without_callback_nothing_more_is_read(self, world):
        computer = world.computer_of(world.queue_manager())

        def trips(**options: Any) -> int:
            with world.connect(**options) as directory:
                before = directory.session.round_trips
                directory.create(mqdssm.Queue(pathname=f"{computer}\\{world.name('q')}"))
                return directory.session.round_trips - before

        assert trips() < trips(notify=lambda _: None)


@contextmanager
def trap() -> Iterator[tuple[socket.socket, list[str]]]:
    """A port that nobody may visit, and every address that this process connects to or asks the name of."""
    seen: list[str] = []
    active = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
            seen.append(repr(arguments))

    sys.addaudithook(watch)  # it cannot be taken away, but it can sleep
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        try:
            yield listening, seen
        finally:
            active = False


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_a_foreign_directory_server_is_not_contacted(world):
    with enterprise(world) as there, trap() as (listening, seen):
        machine = there.machine()
        guid = world.queue(machine.name, "real")
        port = listening.getsockname()[1]
        seen.clear()
        for name in (f"127.0.0.1:{port}", f"ldap://127.0.0.1:{port}", "evil.example.com"):
            body = NotificationBody(
                event=NotificationEvent.CREATE_QUEUE, object_guid=Guid.of(guid), domain_controller=name
            )
            there.admin.send(Message(body=encode(body)), notification_queue(Guid.of(machine.identifier)))
        machine.wait(1)
        wait_until(lambda: machine.driver.counts.seen().get("another directory server was named", 0) >= 3)
        assert machine.events == [QueueCreated(machine.in_directory()[guid])]  # our own was read
        with pytest.raises(TimeoutError):
            listening.accept()
        assert not [one for one in seen if str(port) in one or "evil" in one]


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_a_directory_server_on_the_list_is_read(world):
    with enterprise(world) as there, world.connect() as named:
        before = named.session.round_trips
        machine = there.machine(servers={"DC9": named})
        guid = world.queue(machine.name, "named")
        after = named.session.round_trips
        assert after == before
        body = NotificationBody(
            event=NotificationEvent.CREATE_QUEUE, object_guid=Guid.of(guid), domain_controller="dc9"
        )
        there.admin.send(Message(body=encode(body)), notification_queue(Guid.of(machine.identifier)))
        machine.wait(1)
        assert named.session.round_trips > after
        assert machine.driver.counts.seen() == {}
        unknown = machine.reader.perform(do.ReadQueue(identifier=guid, server="dc10"))
        assert unknown == do.NotRead(reason="directory server dc10 is on the list, but not known here")


@pytest.mark.spec("MS-MQCN 3.2.5.1")
def test_a_version_1_message_of_an_unknown_or_mere_queue_manager_changes_nothing(world):
    with enterprise(world, V1) as there:
        machine = there.machine()
        guid = world.queue(machine.name, "stays")
        machine.driver.refresh()
        machine.wait(1)
        notice = Notice(
            operation=NotifiedOperation.QUEUE_DELETION,
            element=mqdssm.Queue(identifier=guid),
            owner=machine.identifier,
            machine=machine.name,
            server="dc1",
        )
        stranger = guid_of("STRANGER")
        host = there.network.add("STRANGER", stranger, signer=Signer(stranger, key_of("STRANGER")))
        Notifier(host, SenderSettings(identifier=stranger, version=V1))(notice)
        wait_until(lambda: machine.host.counts.seen().get("distrusted: sender unknown"))
        there.notifier(notice)
        machine.wait(2)  # this one is believed: it is from a directory server
        assert machine.believed() == {}
        assert isinstance(machine.events[1], QueueDeleted)


def test_the_notifier_sends_as_its_own_queue_manager(world):
    with enterprise(world) as there, pytest.raises(ValueError, match="cannot send notifications of"):
        Notifier(there.admin, SenderSettings(identifier=guid_of("OTHER")))


def test_a_queue_manager_that_is_closed_does_not_take_a_notification(world):
    with enterprise(world) as there:
        guid = world.queue()
        there.admin.close()
        there.directory.delete(mqdssm.Queue(identifier=guid))  # it is deleted all the same
        assert there.notifier.counts.seen() == {"not sent": 1}


def flood(machine: Machine, count: int) -> None:
    """Garbage and forged messages, as fast as the driver takes them."""
    inbox = machine.host.open(NOTIFICATION)
    guid = Guid.of(next(iter(machine.believed())))
    event = NotificationBody(event=NotificationEvent.DELETE_QUEUE, object_guid=guid, domain_controller="evil")
    images = [b"", b"\x02\x01garbage", b"\x01\xff", b"\x03", encode(event)[:-9], encode(event)]
    messages = [Message(body=one) for one in images]
    messages.append(
        Message(
            body=encode(NotificationUpdates(updates=(deletion(guid.uuid),))),
            sender_type=SenderIdentifierType.QUEUE_MANAGER,  # says so, and nobody signed it
        )
    )
    sent = 0
    while sent < count:
        if inbox.put(Arrival(message=messages[sent % len(messages)], sender=None)):
            sent += 1
        else:
            time.sleep(0.001)
    probe = machine.driver.counts.seen().get("dropped: class", 0) + 1
    last = Arrival(message=Message(message_class=MessageClass.REPORT, priority=0), sender=None)
    wait_until(lambda: inbox.put(last))
    wait_until(lambda: machine.driver.counts.seen().get("dropped: class", 0) >= probe, 120)


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_flood(world, count):
    with enterprise(world) as there:
        machine = there.machine(settle_s=1.0, interval_s=1.0)
        world.queue(machine.name, "stays")
        machine.driver.refresh()
        machine.wait(1)
        begin = time.monotonic()
        tracemalloc.start()
        try:
            flood(machine, count // 10)
            before = tracemalloc.get_traced_memory()[0]
            flood(machine, count - count // 10)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown < 500_000
        time.sleep(1.5)  # the last timer
        seconds = time.monotonic() - begin
        reads = machine.reader.counts.seen()
        assert sum(reads.values()) <= 2 + 2 * (seconds + 1)  # one of a queue, or of all, each second
        assert machine.believed() == machine.in_directory()
        assert len(machine.events) == 1
        seen = machine.driver.counts.seen()
        assert seen["dropped: cannot be decoded"] > count // 2
        assert seen["dropped: not signed"] >= count // 8
