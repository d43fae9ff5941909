"""Strangers, foreign directory servers and floods: a real receiver on a real directory."""

import socket
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.notification.notified_world import Machine, enterprise
from support.notification.receivers import deletion
from support.replication.queue_managers import guid_of, key_of, wait_until

import mqdssm
from mqdssm.drivers.authentication.signatures import Signer
from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.transport import NOTIFICATION, Arrival
from mqdssm.engines.notification.settings import SenderSettings
from mqdssm.model.guid import Guid
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import (
    NotificationBody,
    NotificationEvent,
    NotificationUpdates,
    NotificationVersion,
)
from mqdssm.model.owned_objects import QueueCreated, QueueDeleted
from mqdssm.model.transport import Message, MessageClass, SenderIdentifierType, notification_queue
from mqdssm.wire.mqcn import encode

V1 = NotificationVersion.UPDATES


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
        wait_until(lambda: machine.driver.counts.copy().get("another directory server was named", 0) >= 3)
        assert machine.events == [QueueCreated(machine.in_directory()[guid])]  # our own was read
        with pytest.raises(TimeoutError):
            listening.accept()
        assert not [one for one in seen if str(port) in one or "evil" in one]


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
        wait_until(lambda: machine.host.counts.copy().get("distrusted: sender unknown"))
        there.notifier(notice)
        machine.wait(2)  # this one is believed: it is from a directory server
        assert machine.believed() == {}
        assert isinstance(machine.events[1], QueueDeleted)


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
    probe = machine.driver.counts.copy().get("dropped: class", 0) + 1
    last = Arrival(message=Message(message_class=MessageClass.REPORT, priority=0), sender=None)
    wait_until(lambda: inbox.put(last))
    wait_until(lambda: machine.driver.counts.copy().get("dropped: class", 0) >= probe, 120)


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
        reads = machine.reader.counts.copy()
        assert sum(reads.values()) <= 2 + 2 * (seconds + 1)  # one of a queue, or of all, each second
        assert machine.believed() == machine.in_directory()
        assert len(machine.events) == 1
        seen = machine.driver.counts.copy()
        assert seen["dropped: cannot be decoded"] > count // 2
        assert seen["dropped: not signed"] >= count // 8
