"""Acknowledgements that are read: forged ones, and a disk that fails meanwhile."""

import pytest
from support.messaging.managers import queue

from mqdssm.errors import MessageRejected, NotDelivered
from mqdssm.messaging import DeliveryProof
from mqdssm.messaging.message_delivery import MessageDelivery
from mqdssm.model.transport import MessageClass


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
