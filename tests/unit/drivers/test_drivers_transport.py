"""What every transport does (`mqdssm.drivers.transport`): the fixture `pair` has one for each."""

import threading

import pytest
from support.replication.queue_managers import guid_of, received, signed

from mqdssm.drivers.transport import NOTIFICATION, REPLICATION, LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.names import parse_format_name
from mqdssm.model.replication import Service
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    HashAlgorithm,
    Message,
    MessageClass,
    own_replication_queue,
    replication_queue,
)

NORMAL = MessageClass.NORMAL


@pytest.mark.spec("MC-MQDSRP 2.1")
@pytest.mark.spec("MC-MQDSRP 3.1.3.3")
def test_a_signed_message_arrives_with_its_sender(pair):
    inbox = pair.right.open(REPLICATION)
    identifier = pair.left.send(
        signed("LEFT", b"hello", hash_algorithm=HashAlgorithm.SHA256, priority=5),
        replication_queue("RIGHT"),
    )
    arrival = inbox.receive(5)
    assert arrival is not None
    message = arrival.message
    assert (message.message_class, message.body, message.priority) == (NORMAL, b"hello", 5)
    assert message.identifier == identifier
    assert identifier.source == guid_of("LEFT")
    assert message.authentication_level is AuthenticationLevel.SIG20
    assert message.response_queue == own_replication_queue(guid_of("LEFT"))
    assert arrival.sender is not None
    assert (arrival.sender.machine_name, arrival.sender.service) == ("LEFT", Service.PSC)
    assert inbox.receive(0) is None


@pytest.mark.parametrize(
    "destination", [replication_queue("right"), own_replication_queue(guid_of("RIGHT"))], ids=str
)
def test_direct_and_private_names_lead_to_the_same_queue(pair, destination):
    inbox = pair.right.open(REPLICATION)
    pair.left.send(signed("LEFT"), destination)
    assert received(inbox).body == b"body"


def test_a_queue_of_its_own(pair):
    inbox = pair.left.open(REPLICATION)
    pair.left.send(signed("LEFT"), replication_queue("LEFT"))
    assert received(inbox).body == b"body"


def test_identifiers_differ(pair):
    sent = [pair.left.send(signed("LEFT"), replication_queue("RIGHT")) for _ in range(3)]
    assert len(set(sent)) == 3


def test_unsigned_messages_reach_queues_that_take_them(pair):
    inbox = pair.right.open(NOTIFICATION)
    pair.left.send(Message(body=b"news"), parse_format_name("DIRECT=OS:RIGHT\\private$\\notify_queue$"))
    arrival = inbox.receive(5)
    assert arrival is not None
    assert (arrival.message.body, arrival.sender) == (b"news", None)
    assert arrival.message.authentication_level is AuthenticationLevel.NONE


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_an_unsigned_message_is_refused_by_the_replication_queue(pair):
    own = pair.left.open(REPLICATION)
    inbox = pair.right.open(REPLICATION)
    message = signed("LEFT", b"unsigned", authentication_level=AuthenticationLevel.NONE)
    identifier = pair.left.send(message, replication_queue("RIGHT"))
    back = received(own)
    assert back.message_class == MessageClass.NACK_BAD_SIGNATURE
    assert (back.correlation, back.body) == (identifier, b"unsigned")
    assert inbox.receive(0) is None


def test_higher_priorities_first(pair):
    inbox = pair.right.open(REPLICATION)
    last = Acknowledgements.POSITIVE_ARRIVAL
    own = pair.left.open(NOTIFICATION)
    for priority in (3, 7, 0):
        pair.left.send(
            Message(
                body=b"%d" % priority,
                priority=priority,
                authentication_level=AuthenticationLevel.SIG20,
                acknowledgements=last,
                administration_queue=parse_format_name(f"PRIVATE={guid_of('LEFT')}\\3"),
            ),
            replication_queue("RIGHT"),
        )
    assert {received(own).message_class for _ in range(3)} == {MessageClass.ACK_REACH_QUEUE}
    assert [received(inbox).body for _ in range(3)] == [b"7", b"3", b"0"]


def test_positive_acknowledgements(pair):
    own, inbox = pair.left.open(REPLICATION), pair.right.open(REPLICATION)
    both = Acknowledgements.POSITIVE_ARRIVAL | Acknowledgements.POSITIVE_RECEIVE
    message = Message(
        authentication_level=AuthenticationLevel.SIG20,
        acknowledgements=both,
        administration_queue=own_replication_queue(guid_of("LEFT")),
    )
    identifier = pair.left.send(message, replication_queue("RIGHT"))
    arrived = received(own)
    assert (arrived.message_class, arrived.correlation) == (MessageClass.ACK_REACH_QUEUE, identifier)
    assert own.receive(0) is None
    received(inbox)
    assert received(own).message_class == MessageClass.ACK_RECEIVE


def test_what_cannot_be_sent(pair):
    for name in ("PUBLIC=11111111-2222-4333-8444-555555555555", "DIRECT=HTTP://web/msmq/private$/q"):
        with pytest.raises(ValueError, match="nothing can be sent"):
            pair.left.send(Message(), parse_format_name(name))


def test_queues_are_told_apart(pair):
    first = pair.left.open(REPLICATION)
    assert pair.left.open(REPLICATION) is first
    for wrong in (LocalQueue(name="other", number=1), LocalQueue(name="MQIS_queue$", number=9)):
        with pytest.raises(ValueError, match="another queue"):
            pair.left.open(wrong)


def test_receive_waits_as_long_as_it_is_told(pair):
    inbox = pair.right.open(REPLICATION)
    assert inbox.receive(0.05) is None
    got = []
    reader = threading.Thread(target=lambda: got.append(inbox.receive(10)))
    reader.start()
    pair.left.send(signed("LEFT"), replication_queue("RIGHT"))
    reader.join(10)
    assert got[0].message.body == b"body"


def test_close_wakes_who_waits(pair):
    inbox = pair.right.open(REPLICATION)
    got = []
    reader = threading.Thread(target=lambda: got.append(inbox.receive(60)))
    reader.start()
    inbox.close()
    reader.join(10)
    assert got == [None]
    assert inbox.is_closed
    assert inbox.receive(60) is None
    pair.left.send(signed("LEFT"), replication_queue("RIGHT"))
    again = pair.right.open(REPLICATION)
    assert received(again).body == b"body", "the queue is still there, and what is in it"


def test_a_closed_queue_manager(pair):
    inbox = pair.right.open(REPLICATION)
    pair.right.close()
    assert inbox.is_closed
    with pytest.raises(TransportError, match="closed"):
        pair.right.send(signed("RIGHT"), replication_queue("LEFT"))
    with pytest.raises(TransportError, match="closed"):
        pair.right.open(NOTIFICATION)
    pair.right.close()


def test_many_senders_at_once(pair):
    inbox = pair.right.open(REPLICATION)

    def send(first: int) -> None:
        for number in range(first, first + 50):
            pair.left.send(signed("LEFT", b"%d" % number), replication_queue("RIGHT"))

    threads = [threading.Thread(target=send, args=(first,)) for first in (0, 50, 100, 150)]
    for thread in threads:
        thread.start()
    bodies = [int(received(inbox).body) for _ in range(200)]
    for thread in threads:
        thread.join()
    assert sorted(bodies) == list(range(200))
    for first in (0, 50, 100, 150):
        mine = [body for body in bodies if first <= body < first + 50]
        assert mine == sorted(mine), "those of one sender and priority stay in order"
