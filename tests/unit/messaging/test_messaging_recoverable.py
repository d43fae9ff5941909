"""Recoverable messages survive the end of both queue managers ([MS-MQQB] 3.1.5.8.7, decisions T48 to T50)."""

import shutil
from contextlib import contextmanager, suppress

import pytest
from support.messaging.managers import queue
from support.replication.queue_managers import wait_until

from mqdssm.errors import MessageRejected, TransportError
from mqdssm.messaging import DeliveryProof
from mqdssm.model.names import parse_format_name
from mqdssm.model.transport import DeliveryGuarantee

pytestmark = pytest.mark.slow  # waits for threads and sockets

ORDERS = queue("right")


@pytest.mark.spec("MS-MQQB 3.1.4.1")
def test_a_sent_message_waits_on_the_disk(managers):
    with managers.make("left") as left:
        first = left.send(ORDERS, b"a", recoverable=True, label="first")
        left.send(ORDERS, b"express")
        left.close(0)
    orders = managers.start("right").open("orders")
    with managers.make("left") as left:
        assert left.flush(5)
        message = orders.receive(5)
        assert (message.body, message.identifier) == (b"a", first.identifier)
        assert message.delivery is DeliveryGuarantee.RECOVERABLE
    with managers.make("left") as left:
        assert left.send(ORDERS, b"b").wait(5) is DeliveryProof.SENT
    assert orders.receive(5).body == b"b", "nothing was sent twice"


def test_an_arrived_message_waits_on_the_disk(managers):
    left = managers.start("left")
    with managers.make("right", queues=("Orders", "other")):
        for body in (b"a", b"b", b"c"):
            left.send(ORDERS, body, recoverable=True, priority=7 if body == b"c" else 3).wait(5)
    with managers.make("right") as right:
        assert right.open("ORDERS").receive(5).body == b"c"
        left.send(ORDERS, b"d", recoverable=True, acknowledge="reach").wait(5)
    with managers.make("right") as right:
        orders = right.open("orders")
        assert [orders.receive(5).body for _ in range(3)] == [b"a", b"b", b"d"]
        assert orders.receive(0) is None


def test_a_queue_that_nobody_has_opened_takes_messages(managers):
    with managers.make("right") as right:
        right.open("orders")
    right, left = managers.start("right"), managers.start("left")
    assert left.send(ORDERS, b"a", acknowledge="reach").wait(5) is DeliveryProof.REACHED
    right.delete("orders")
    with pytest.raises(MessageRejected, match="NACK_BAD_DEST_QUEUE"):
        left.send(ORDERS, b"b", acknowledge="reach").wait(5)
    assert right.open("orders").receive(0) is None


def test_a_second_copy_is_dropped_after_restarts(managers, tmp_path):
    with managers.make("left") as left:
        for number in range(20):
            left.send(ORDERS, b"%d" % number, recoverable=True)
        left.close(0)
    shutil.copytree(tmp_path / "left", tmp_path / "copy")
    with managers.make("right", queues=("orders",)) as right, managers.make("left") as left:
        assert left.flush(5)
        assert len([right.open("orders").receive(5) for _ in range(10)]) == 10
    with managers.make("right") as right, managers.make("left", folder=tmp_path / "copy") as left:
        assert left.flush(5)
        bodies = [message.body for message in iter(lambda: right.open("orders").receive(0.1), None)]
        assert bodies == [b"%d" % number for number in range(10, 20)]


def test_a_message_is_removed_when_its_block_ends(managers):
    left = managers.start("left")
    with managers.make("right") as right:
        orders = right.open("orders")
        left.send(ORDERS, b"a", recoverable=True, acknowledge="reach").wait(5)
        with pytest.raises(KeyError), orders.receiving(5) as message:
            raise KeyError(message.body)
        with orders.receiving(5) as message:
            assert message.body == b"a"
            assert orders.receive(0) is None, "it is lent"
        with orders.receiving(0) as message:
            assert message is None
    assert managers.start("right").open("orders").receive(0) is None


def test_a_lent_message_of_a_purged_queue_does_not_come_back(pair):
    left, right = pair
    orders = right.open("orders")
    sent = left.send(ORDERS, b"a", recoverable=True, acknowledge="receive")
    with suppress(KeyError), orders.receiving(5):
        orders.purge()
        raise KeyError
    with pytest.raises(MessageRejected, match="NACK_QUEUE_PURGED"):
        sent.wait(5)
    assert orders.receive(0) is None


def test_acknowledgements_of_recoverable_messages_are_recoverable(managers):
    with managers.make("right") as right:
        right.open("orders")
        with managers.make("left") as left:
            left.send(ORDERS, b"a", recoverable=True, acknowledge="receive")
            assert left.flush(5)
        assert right.open("orders").receive(5).body == b"a"
        right.close(0)
    with managers.make("left") as left:
        arrived = []
        left._sent.get = arrived.append
        managers.start("right")
        wait_until(lambda: arrived)


class Disk:
    """A disk that is full now and then."""

    def __init__(self, store) -> None:
        self._transaction, self.is_full, self.refused = store.begin_transaction, False, 0
        store.begin_transaction = self.begin_transaction

    @contextmanager
    def begin_transaction(self):
        if self.is_full:
            self.refused += 1
            raise TransportError("the disk is full")
        with self._transaction():
            yield


def test_a_full_disk_of_the_receiver(pair):
    left, right = pair
    orders = right.open("orders")
    disk = Disk(right._store)
    disk.is_full = True
    sent = left.send(ORDERS, b"a", recoverable=True)
    express = left.send(ORDERS, b"b", priority=0)
    wait_until(lambda: disk.refused > 2)
    assert not sent.is_sent
    disk.is_full = False
    assert sent.wait(5) is DeliveryProof.SENT
    assert express.wait(5) is DeliveryProof.SENT
    bodies = [orders.receive(5).body, orders.receive(5).body]
    assert sorted(bodies) == [b"a", b"b"]
    assert orders.receive(0.1) is None
    left.send(ORDERS, b"c", recoverable=True, acknowledge="reach").wait(5)
    disk.is_full = True
    with pytest.raises(TransportError, match="full"):
        orders.receive(5)
    disk.is_full = False
    assert orders.receive(5).body == b"c"


def test_a_full_disk_of_the_sender(managers):
    left = managers.start("left")
    Disk(left._store).is_full = True
    with pytest.raises(TransportError, match="the disk is full"):
        left.send(ORDERS, b"a", recoverable=True)
    assert left.flush(0), "it was not sent"


def test_a_machine_sends_recoverable_messages_to_itself(managers):
    with managers.make("left") as left:
        own = left.open("own")
        left.send(queue("left", "own"), b"a", recoverable=True).wait(5)
        left.send(queue("left", "own"), b"b", recoverable=True).wait(5)
        assert own.receive(5).body == b"a"
    own = managers.start("left").open("own")
    assert own.receive(5).body == b"b"
    assert own.receive(0) is None


def test_kinds_of_messages_that_are_refused(managers):
    alone = managers.start("left", folder=None)
    with pytest.raises(ValueError, match="recoverable messages need a folder"):
        alone.send(ORDERS, b"", recoverable=True)
    with pytest.raises(ValueError, match="transactional messages are not supported"):
        alone.send(ORDERS, b"", transactional=True)
    with pytest.raises(ValueError, match="encrypted messages are not supported"):
        alone.send(parse_format_name(ORDERS), b"", encrypted=True)
    alone.open("orders")
    right = managers.start("right")
    with pytest.raises(MessageRejected, match="NACK_QUEUE_EXCEED_QUOTA"):
        right.send(queue("left"), b"a", recoverable=True, acknowledge="reach").wait(5)
    assert right.send(queue("left"), b"b", acknowledge="reach").wait(5) is DeliveryProof.REACHED
