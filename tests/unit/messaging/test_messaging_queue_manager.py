r"""Programs send to private queues and receive from their own, over TCP on loopback."""

import pytest
from support.messaging.managers import queue

from mqdssm.errors import ConfigError, MessageRejected, NotDelivered, TransportError
from mqdssm.messaging import DeliveryProof, QueueManager
from mqdssm.model.transport import MessageClass

pytestmark = pytest.mark.slow  # waits for threads and sockets


@pytest.mark.spec("MS-MQQB 3.1.7.16")
def test_a_message_arrives_with_its_properties(pair):
    left, right = pair
    orders = right.open("Orders")
    first = left.send(
        queue("right"), b"<order/>", label="Order 17", priority=5, body_type=8, application_tag=3
    )
    assert first.wait(5) is DeliveryProof.SENT
    message = orders.receive(5)
    assert message is not None
    assert (message.body, message.label, message.priority) == (b"<order/>", "Order 17", 5)
    assert (message.body_type, message.application_tag) == (8, 3)
    assert message.identifier == first.identifier
    assert message.identifier.source == left.identifier
    assert orders.receive(0) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.8")
def test_higher_priorities_are_received_first(pair):
    left, right = pair
    orders = right.open("orders")
    for priority in (0, 7, 3):
        left.send(queue("right"), b"%d" % priority, priority=priority).wait(5)
    assert [orders.receive(5).body for _ in range(3)] == [b"7", b"3", b"0"]


def test_an_answer_names_the_message_that_it_answers(pair):
    left, right = pair
    orders, answers = right.open("orders"), left.open("answers")
    question = left.send(queue("right"), b"?", response_queue=queue("left", "answers"))
    message = orders.receive(5)
    right.send(message.response_queue, b"!", correlation=message.identifier)
    answer = answers.receive(5)
    assert (answer.body, answer.correlation) == (b"!", question.identifier)


@pytest.mark.spec("MS-MQQB 3.1.5.11")
@pytest.mark.spec("MS-MQQB 3.1.7.2.1")
def test_acknowledgements_are_waited_for(pair):
    left, right = pair
    orders = right.open("orders")
    reached = left.send(queue("right"), b"a", acknowledge="reach")
    assert reached.wait(5) is DeliveryProof.REACHED
    received = left.send(queue("right"), b"b", acknowledge="receive")
    with pytest.raises(NotDelivered, match=r"has arrived, and no acknowledgement came within 0.3 s"):
        received.wait(0.3)
    assert [orders.receive(5).body for _ in range(2)] == [b"a", b"b"]
    assert received.wait(5) is DeliveryProof.RECEIVED


@pytest.mark.spec("MS-MQQB 3.1.5.11")
def test_a_negative_acknowledgement_is_named(pair):
    left, right = pair
    refused = left.send(queue("right", "nosuch"), b"a", acknowledge="reach")
    with pytest.raises(MessageRejected, match="NACK_BAD_DEST_QUEUE") as raised:
        refused.wait(5)
    assert raised.value.message_class == MessageClass.NACK_BAD_DEST_QUEUE
    orders = right.open("orders")
    unread = left.send(queue("right"), b"a", acknowledge="receive")
    left.send(queue("right"), b"b", acknowledge="reach").wait(5)  # both are in the queue then
    orders.purge()
    with pytest.raises(MessageRejected, match="NACK_QUEUE_PURGED"):
        unread.wait(5)


def test_a_machine_that_does_not_answer(managers):
    left = managers.start("left")
    late = left.send(queue("right"), b"a")
    with pytest.raises(NotDelivered, match=r"was not delivered within 0.2 s"):
        late.wait(0.2)
    expired = left.send(queue("right"), b"b", time_to_reach_queue=0)
    with pytest.raises(MessageRejected, match="NACK_REACH_QUEUE_TIMEOUT"):
        expired.wait(5)
    orders = managers.start("right", queues=["orders"]).open("orders")  # it may arrive at once
    assert late.wait(5) is DeliveryProof.SENT
    assert orders.receive(5).body == b"a"


def test_what_cannot_be_sent(managers):
    left = managers.start("left", listen=None)
    with pytest.raises(ValueError, match="private queues by DIRECT=OS"):
        left.send(r"DIRECT=OS:right\orders", b"")
    with pytest.raises(ValueError, match="priority 8"):
        left.send(queue("right"), b"", priority=8)
    with pytest.raises(ValueError, match="does not listen"):
        left.send(queue("right"), b"", acknowledge="reach")
    with pytest.raises(ValueError, match="queue name"):
        left.open(r"a\b")
    assert left.listens_on is None


def test_a_queue_manager_that_is_not_running(managers, tmp_path):
    stopped = managers.make("left")
    with pytest.raises(TransportError, match="is not started"):
        stopped.open("orders")
    with managers.make("left") as running:
        orders = running.open("orders")
        with pytest.raises(TransportError, match=r"cannot listen on .*in use"):
            managers.make("right", listen=running.listens_on).start()
        with pytest.raises(ConfigError, match="another queue manager"):
            managers.make("left", listen=("127.0.0.1", 0)).start()
    assert orders.receive(5) is None
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="name a folder"):
        QueueManager(tmp_path / "file").start()
    with pytest.raises(TransportError, match=r"cannot listen on 127\.0\.0\.1:70000"):
        QueueManager(listen=("127.0.0.1", 70_000)).start()


def test_closing_sends_what_waits(managers):
    orders = managers.start("right").open("orders")
    with managers.make("left") as left:
        left.send(queue("right"), b"last")
    assert orders.receive(5).body == b"last"


@pytest.mark.spec("MS-MQQB 3.1.5.8.5")
def test_every_direct_name_that_arrives_is_accepted(managers):
    """[MS-MQQB] 3.1.5.8.3 knows no address for them; this machine may have names that it does not know."""
    right = managers.start("right")
    orders = right.open("orders")
    hosts = dict.fromkeys(["127.0.0.9", "alias", str(right.identifier)], right.listens_on)
    left = managers.start("left", hosts=hosts)
    numbered = rf"PRIVATE={right.identifier}\{orders.number:x}"
    for name in (r"DIRECT=TCP:127.0.0.9\private$\orders", r"DIRECT=OS:ALIAS\PRIVATE$\ORDERS", numbered):
        left.send(name, name.encode()).wait(5)
        assert orders.receive(5).body == name.encode()
