"""Recoverable messages in a file: all of them come back, in their order, until they are removed."""

import sqlite3
import stat
import sys
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from support.packets.strategies import queues, user_packets
from support.replication.queue_managers import guid_of, sender_of

from mqdssm.drivers.queue_manager.message_store import MessageStore, encode_message
from mqdssm.drivers.transport import Arrival
from mqdssm.errors import ConfigError, TransportError
from mqdssm.model.packet_messages import message_of
from mqdssm.model.packets import PacketQueue, QueueForm, UserPacket
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    MessageId,
    notification_queue,
    own_replication_queue,
    replication_queue,
)
from mqdssm.wire.mqqb import decode_packet

LEFT = guid_of("LEFT")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "messages.sqlite"


@pytest.fixture
def store(file):
    with closing(MessageStore(file)) as made:
        yield made


def message(number: int, **changes: object) -> Message:
    made = Message(
        body=b"body %d" % number,
        label="Order",
        delivery=DeliveryGuarantee.RECOVERABLE,
        acknowledgements=Acknowledgements.FULL_RECEIVE,
        administration_queue=own_replication_queue(LEFT),
        identifier=MessageId(LEFT, number),
        sent_at=1_700_000_000,
        destination=replication_queue("RIGHT"),
    )
    return replace(made, **changes)


def reopened(store: MessageStore, file) -> MessageStore:
    store.close()
    return MessageStore(file)


def test_sent_messages_come_back_in_their_order_until_they_are_forgotten(store, file):
    messages = [message(number) for number in (7, 0xFFFF_FFFF, 0)]
    messages.append(message(1, destination=notification_queue(guid_of("RIGHT"))))
    for sent in messages:
        store.add_sent(sent)
    with closing(reopened(store, file)) as again:
        assert again.read_sent() == messages
        again.forget(messages[1].identifier)
        assert again.read_sent() == [messages[0], *messages[2:]]
        again.forget(messages[0].identifier)
    with closing(MessageStore(file)) as third:
        assert third.read_sent() == messages[2:], "closing removes what was forgotten"


def test_arrived_messages_come_back_with_their_senders(store, file):
    unsigned = Arrival(message=message(1), sender=None)
    sender = replace(sender_of("LEFT"), site_id=guid_of("SITE"))
    level = AuthenticationLevel.SIG20
    signed = Arrival(message=message(2, authentication_level=level), sender=sender)
    nameless = Arrival(message=message(3), sender=replace(sender, machine_id=None, site_id=None))
    for arrival in (unsigned, signed, nameless):
        store.add_arrived(8, arrival)
    store.add_arrived(9, unsigned)
    with closing(reopened(store, file)) as again:
        assert again.read_arrived(8) == [unsigned, signed, nameless]
        again.remove_arrived(8, signed.message.identifier)
        assert again.read_arrived(8) == [unsigned, nameless]
        assert again.read_arrived(9) == [unsigned]
        assert again.has_had(8, signed.message.identifier), "also after it was received"
        assert not again.has_had(10, signed.message.identifier)


def test_the_oldest_identifiers_are_dropped(file):
    with closing(MessageStore(file, known_max=1500)) as store, store.begin_transaction():
        for number in range(3001):
            store.add_arrived(8, Arrival(message=message(number), sender=None))
        assert store.has_had(8, MessageId(LEFT, 1600))
        assert not store.has_had(8, MessageId(LEFT, 1400))


def test_identity_and_queues_stay(store, file):
    identifier = store.identifier()
    assert [store.add_queue(name, 8) for name in ("Orders", "answers", "ORDERS")] == [8, 9, 8]
    store.remove_queue("Orders")
    assert store.add_queue("late", 8) == 10
    with closing(reopened(store, file)) as again:
        assert again.identifier() == identifier
        assert again.queues() == {"answers": 9, "late": 10}


def test_a_transaction_is_whole(store):
    def add_twice() -> None:
        with store.begin_transaction():
            store.add_sent(message(1))
            store.add_sent(message(1))

    def fail() -> None:
        with store.begin_transaction():
            store.add_sent(message(2))
            raise KeyError

    with pytest.raises(TransportError, match="messages cannot be stored: UNIQUE"):
        add_twice()
    with pytest.raises(KeyError):
        fail()
    assert store.read_sent() == []
    store.add_sent(message(3))
    assert store.read_sent() == [message(3)]


def test_files_that_cannot_be_used(tmp_path, file):
    file.write_bytes(b"no database" * 100)
    with pytest.raises(ConfigError, match=r"messages\.sqlite cannot be used for messages"):
        MessageStore(file)
    with pytest.raises(ConfigError, match="cannot be used for messages"):
        MessageStore(tmp_path / "missing" / "messages.sqlite")


def test_a_damaged_message_is_reported(store, file):
    store.add_sent(message(1))
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE sent SET packet = x'00'")
        database.commit()
    with pytest.raises(TransportError, match="a stored message is damaged"):
        store.read_sent()


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_others_cannot_read_messages(store, file):
    store.add_sent(message(1))
    for each in file.parent.glob("messages.sqlite*"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


@given(packet=user_packets(), admin=queues(0, 2, 3, 5, 6), response=queues(0, 2, 3, 5, 6))
def test_every_message_that_can_arrive_comes_back(packet, admin, response):
    """What a stranger's packet says is stored as it was: it never breaks the store."""
    plain = replace(
        packet,
        transaction=None,
        security=None,
        soap=None,
        extension_data=b"",
        destination_queue=PacketQueue(QueueForm.DIRECT, r"OS:web01\private$\orders"),
        admin_queue=admin,
        response_queue=response,
    )
    arrived = message_of(plain)
    again = decode_packet(encode_message(arrived))
    assert isinstance(again, UserPacket)
    assert message_of(again) == arrived


def test_a_sent_message_stays_forgotten_when_a_commit_fails(store, monkeypatch):
    store.add_sent(message(1))
    store.forget(message(1).identifier)
    transaction = store.begin_transaction

    @contextmanager
    def fail():
        with transaction():
            yield
            raise TransportError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "begin_transaction", fail)
        with pytest.raises(TransportError, match="full"):
            store.flush()
    assert store.read_sent() == []


def test_a_closed_store_says_so(store):
    store.close()
    with pytest.raises(TransportError, match="is closed"):
        store.add_sent(message(1))
    with pytest.raises(TransportError, match="closed"):
        store.read_sent()
    store.forget(message(1).identifier)
    store.close()


def test_a_new_queue_gets_nothing_of_a_removed_one(store, file):
    number = store.add_queue("orders", 8)
    store.add_arrived(number, Arrival(message=message(1), sender=None))
    store.remove_queue("Orders")
    assert not store.read_arrived(number)
    assert not store.has_had(number, MessageId(LEFT, 1))
    store.add_arrived(number, Arrival(message=message(2), sender=None))  # it was on its way
    with closing(reopened(store, file)) as again:
        new = again.add_queue("orders", 8)
        assert new > number
        assert not again.read_arrived(new)
