"""A client without our code sends to a queue of a program ([MS-MQQB] 2.2, 3.1.5.8)."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.replication.queue_managers import wait_until
from support.session.raw_client import OWN, RECOVERABLE, SECURITY, TRANSACTION, RawClient, user_packet

from mqdssm.model.guid import Guid
from mqdssm.model.transport import MessageClass, MessageId

pytestmark = pytest.mark.slow  # waits for threads and sockets

ORDERS = r"TCP:127.0.0.1\private$\orders"
ACKS = r"OS:left\private$\acks"
NO_TRANSACTION = struct.pack("<I8sII", 0, bytes(8), 1, 0)
ENCRYPTED = struct.pack("<HHHHII16s", 0x21, 16, 0, 0, 0, 0, OWN)


@contextmanager
def session(manager) -> Iterator[RawClient]:
    with socket.create_connection(manager.listens_on, timeout=5) as connection:
        client = RawClient(connection)
        client.open()
        yield client


def test_express_messages_are_acknowledged_soon(managers):
    right = managers.start("right")
    orders = right.open("orders")
    with session(right) as client:
        client.send(user_packet(1, b"<order/>", ORDERS))
        message = orders.receive(5)
        assert (message.body, message.identifier) == (b"<order/>", MessageId(Guid(OWN), 1))
        ack = struct.unpack_from("<HHIHH", client.read(), 20)
        assert ack == (1, 0, 0, 0, 0), "AckSequenceNumber, and nothing stored"


@pytest.mark.spec("MS-MQQB 3.1.1.3.2")
def test_recoverable_messages_are_acknowledged_when_they_are_stored(managers):
    with managers.make("right", queues=["orders"]) as right, session(right) as client:
        for number in (1, 2, 2):
            client.send(user_packet(number, b"%d" % number, ORDERS, flags=RECOVERABLE))
        stored = received = 0
        while stored < 3:
            received, first, flags, _, _ = struct.unpack_from("<HHIHH", client.read(), 20)
            assert not flags or first == stored + 1
            stored += flags.bit_count()
        assert received == 3
        assert right.open("orders").receive(5).body == b"1"
    with managers.make("right") as right, session(right) as client:
        client.send(user_packet(1, b"again", ORDERS, flags=RECOVERABLE))
        client.send(user_packet(3, b"3", ORDERS, flags=RECOVERABLE))
        orders = right.open("orders")
        assert [orders.receive(5).body for _ in range(2)] == [b"2", b"3"]
        assert orders.receive(0.05) is None


@pytest.mark.spec("MS-MQQB 3.1.7.3")
@pytest.mark.parametrize("way", ["closed", "half closed", "reset", "inside a packet"])
def test_a_client_that_ends_its_session_leaves_nothing_behind(managers, way):
    """The peer sees the end at once, closes its own side, and keeps nothing of the session."""
    right = managers.start("right", queues=["orders"])
    network = right._network
    with socket.create_connection(right.listens_on, timeout=5) as connection:
        client = RawClient(connection)
        client.open()
        client.send(user_packet(1, b"<order/>", ORDERS, flags=RECOVERABLE))
        stored = 0
        while not stored:  # an earlier one may say that the message was received
            _, _, stored, _, _ = struct.unpack_from("<HHIHH", client.read(), 20)
        (open_session,) = network.sessions()
        assert (open_session.state, open_session.peer) == ("OPEN", f"127.0.0.1:{connection.getsockname()[1]}")
        if way == "inside a packet":
            client.send(user_packet(2, b"x" * 1000, ORDERS)[:500])
            wait_until(lambda: network._context.pending._total == 500)
        if way == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if way in {"half closed", "inside a packet"}:
            connection.shutdown(socket.SHUT_WR)
            assert client.is_closed()
    wait_until(lambda: not network.sessions())
    assert network._context.pending._total == 0
    assert network.counts.copy()["session closed: connection lost"] == 1
    orders = right.open("orders")
    assert orders.receive(5).body == b"<order/>"
    with session(right) as client:  # the next session of the same client begins anew
        client.send(user_packet(1, b"again", ORDERS, flags=RECOVERABLE))
        client.send(user_packet(2, b"next", ORDERS, flags=RECOVERABLE))
        assert orders.receive(5).body == b"next"


@pytest.mark.spec("MS-MQQB 3.1.4.2")
def test_a_client_sees_the_end_of_a_queue_manager(managers):
    """What has arrived is acknowledged before the connection is closed."""
    with managers.make("right", queues=["orders"]) as right:
        connection = socket.create_connection(right.listens_on, timeout=5)
        client = RawClient(connection)
        client.open()
        client.send(user_packet(1, b"<order/>", ORDERS))
        assert right.open("orders").receive(5).body == b"<order/>"
    with connection:
        assert struct.unpack_from("<H", client.read(), 20) == (1,)
        assert client.is_closed()


def test_a_batch_with_copies(managers):
    """Copies that arrive before the queue manager looks at the first one."""
    right = managers.start("right", queues=["orders"])
    with session(right) as client, right._store.begin_transaction():
        client.send(user_packet(1, b"first", ORDERS, flags=RECOVERABLE))
        time.sleep(0.1)  # the queue manager waits for the store
        client.send(b"".join(user_packet(2, b"second", ORDERS) for _ in range(3)))
        time.sleep(0.1)
    orders = right.open("orders")
    assert [orders.receive(5).body for _ in range(2)] == [b"first", b"second"]
    assert orders.receive(0.05) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.6")
@pytest.mark.parametrize(
    ("flags", "headers", "expected"),
    [
        (TRANSACTION | RECOVERABLE, NO_TRANSACTION, MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE),
        (SECURITY, ENCRYPTED, MessageClass.NACK_BAD_ENCRYPTION),
    ],
    ids=["transactional", "encrypted"],
)
def test_what_is_not_supported_is_refused_by_its_class(pair, flags, headers, expected):
    left, right = pair
    acks, orders = left.open("acks"), right.open("orders")
    with session(right) as client:
        client.send(user_packet(7, b"x", ORDERS, flags=flags, headers=headers, admin=ACKS))
        nack = acks.receive(5)
        assert (nack.message_class, nack.correlation) == (expected, MessageId(Guid(OWN), 7))
        client.send(user_packet(8, b"plain", ORDERS, admin=ACKS))
        assert orders.receive(5).body == b"plain", "the session goes on"
        assert acks.receive(5).message_class == MessageClass.ACK_REACH_QUEUE


def test_a_slow_disk_holds_up_no_other_session(pair):
    """The answer to a recoverable message that is refused is stored; the event loop does not wait for it."""
    left, right = pair
    acks = left.open("acks")
    refused = user_packet(
        7, b"x", ORDERS, flags=TRANSACTION | RECOVERABLE, headers=NO_TRANSACTION, admin=ACKS
    )
    with session(right) as client:
        with right._store.begin_transaction():
            client.send(refused)
            time.sleep(0.1)  # the queue manager waits for the store
            with session(right):
                assert acks.receive(0) is None
        stored = 0
        while not stored:  # an earlier one may say that the message was received
            _, _, stored, _, _ = struct.unpack_from("<HHIHH", client.read(), 20)
    assert acks.receive(5).message_class == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE
