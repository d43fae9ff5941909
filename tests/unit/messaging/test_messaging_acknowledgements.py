"""Acknowledgements that are read: forged ones, and a disk that fails meanwhile."""

import pytest
from support.messaging.managers import queue
from support.replication.queue_managers import wait_until

from mqdssm.errors import MessageRejected, NotDelivered, TransportError
from mqdssm.messaging import DeliveryProof, queue_manager
from mqdssm.messaging.message_delivery import MessageDelivery
from mqdssm.model.transport import MessageClass

ORDERS = queue("right")


@pytest.mark.parametrize("forged", [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_BAD_DEST_QUEUE, 0x1FFFF])
def test_a_delivery_without_acknowledgements_ignores_them(forged):
    """Acknowledgements are not signed: who knows the identifier can forge one."""
    sent = MessageDelivery(queue("right"), None)
    sent.on_acknowledgement(forged)
    with pytest.raises(NotDelivered, match="was not delivered"):
        sent.wait(0)
    sent.on_confirmed()
    assert sent.wait(0) is DeliveryProof.SENT
    requested = MessageDelivery(queue("right"), "reach")
    requested.on_acknowledgement(MessageClass.NACK_BAD_DEST_QUEUE)
    with pytest.raises(MessageRejected, match="NACK_BAD_DEST_QUEUE"):
        requested.wait(0)


def test_acknowledgements_end_their_waits_while_the_disk_is_full(pair, monkeypatch):
    """A recoverable acknowledgement that cannot be removed ends its wait, and later ones are read."""
    monkeypatch.setattr(queue_manager, "_RETRY_S", 0.01)
    left, right = pair
    orders = right.open("orders")
    remove, refused = left._store.remove_arrived, []

    def fail(*key: object) -> None:
        refused.append(key)
        raise TransportError("the disk is full")

    left._store.remove_arrived = fail
    assert left.send(ORDERS, b"a", recoverable=True, acknowledge="reach").wait(5) is DeliveryProof.REACHED
    left.send(ORDERS, b"b", priority=0).wait(5)
    express = left.send(ORDERS, b"c", priority=0, acknowledge="reach")
    assert express.wait(5) is DeliveryProof.REACHED
    assert refused
    assert left._store.read_arrived(7)
    left._store.remove_arrived = remove
    wait_until(lambda: not left._store.read_arrived(7))
    assert [orders.receive(5).body for _ in range(3)] == [b"a", b"b", b"c"]
