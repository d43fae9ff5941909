"""From a change of a real directory to the state of the queue manager that owns the object ([MS-MQCN] 3)."""

import time
from dataclasses import fields
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.notification.notified_world import enterprise
from support.replication.queue_managers import guid_of

import mqdssm
from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.notification.receiver import NotificationDriver
from mqdssm.drivers.notification.watch_feed import WatchFeed
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.model.guid import Guid
from mqdssm.model.notification import (
    NotificationBody,
    NotificationEvent,
    NotificationVersion,
)
from mqdssm.model.owned_objects import (
    OwnedQueue,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
)
from mqdssm.model.transport import Message, notification_queue
from mqdssm.model.watching import ChangeEvent, ObjectChange
from mqdssm.wire.mqcn import encode

V1, V2 = NotificationVersion.UPDATES, NotificationVersion.BODY
TOLD = frozenset(one.name for one in fields(OwnedQueue)) - {
    "multicast_address",
    "directory_path",
    "modify_time",
}
"""What version 1 tells of a queue, but for the time of its last change."""


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
            assert machine.reader.counts.copy() == {"ReadAll": 2}  # at the start, and by this test
        assert other.events == []
        assert len(machine.events) == 7
        assert machine.driver.counts.copy().get("disregarded") is None
        assert there.notifier.counts.copy() == {"sent": 7}


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
        machine.driver.on_changes(
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
        assert there.notifier.counts.copy() == {"sent": 2}
        there.admin.close()
        feed.run([ObjectChange(event=created, type="queue", dn="CN=x", guid=guids[0])])
        assert feed.counts.copy() == {"changes": 5, "not notified": 1}


def test_a_queue_without_descriptor_is_read_all_the_same(world):
    with enterprise(world) as there:
        machine = there.machine()
        entry = {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQJournal": "TRUE"}
        world.ldap.add(world.queue_dn(machine.name, "plain"), entry)
        machine.driver.refresh()
        machine.wait(1)
        assert machine.events[0].queue.journaling is True


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_a_queue_whose_name_is_none_does_no_harm(world):
    """Anybody who may create queues can make one; the receiver has to outlive it (decision C26)."""
    with enterprise(world) as there:
        machine = there.machine()
        guid = uuid4()
        keeps = {"objectGUID": guid.bytes_le} if world.kind.keeps_guids else {}
        dn = world.queue_dn(machine.name, "private$\\5C")
        world.ldap.add(dn, {"objectClass": "mSMQQueue"} | keeps)
        guid = UUID(bytes_le=world.directory.session.get(dn, ["objectGUID"]).first("objectGUID"))
        body = NotificationBody(
            event=NotificationEvent.CREATE_QUEUE, object_guid=Guid.of(guid), domain_controller="dc"
        )
        there.admin.send(Message(body=encode(body)), notification_queue(Guid.of(machine.identifier)))
        machine.driver.refresh()
        good = there.directory.create(mqdssm.Queue(pathname=f"{machine.name}\\good"))
        machine.wait(1)
        assert set(machine.believed()) == {good}


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
        assert machine.driver.counts.copy() == {"received: version 2": 1, "QueueCreated": 1}
        unknown = machine.reader.perform(do.ReadQueue(identifier=guid, server="dc10"))
        assert unknown == do.NotRead(reason="directory server dc10 is on the list, but not known here")


def test_the_notifier_sends_as_its_own_queue_manager(world):
    with enterprise(world) as there, pytest.raises(ValueError, match="cannot send notifications of"):
        Notifier(there.admin, SenderSettings(identifier=guid_of("OTHER")))


def test_a_queue_manager_that_is_closed_does_not_take_a_notification(world):
    with enterprise(world) as there:
        guid = world.queue()
        there.admin.close()
        there.directory.delete(mqdssm.Queue(identifier=guid))  # it is deleted all the same
        assert there.notifier.counts.copy() == {"not sent": 1}
