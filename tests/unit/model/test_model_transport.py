"""Messages, their limits, and the acknowledgements that follow from them."""

import pytest

from mqdssm.model.guid import Guid
from mqdssm.model.names import PathName, parse_format_name
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    DeliveryGuarantee,
    Message,
    MessageClass,
    MessageId,
    is_acknowledgement,
    is_nack,
    make_acknowledgement,
    own_replication_queue,
    replication_queue,
)

OWN = Guid.parse("f4a5c1de-0b0e-4f5b-9a01-3d2d5f0c7e11")


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.1")
def test_names_of_the_replication_queue():
    assert str(own_replication_queue(OWN)) == "PRIVATE=F4A5C1DE-0B0E-4F5B-9A01-3D2D5F0C7E11\\1"
    direct = replication_queue("PEC1")
    assert str(direct).lower() == "direct=os:pec1\\private$\\mqis_queue$"
    for name in (direct, own_replication_queue(OWN)):
        assert parse_format_name(str(name)) == name
    path = PathName.parse("PEC1\\private$\\mqis_queue$")
    assert (path.computer, path.queue, path.kind) == (direct.address, direct.queue, direct.kind)


@pytest.mark.parametrize("name", ["", "a b", "a\\b", "x" * 257])
def test_a_machine_name_that_is_none(name):
    with pytest.raises(ValueError, match="address"):
        replication_queue(name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 8},
        {"priority": -1},
        {"application_tag": 1 << 32},
        {"time_to_reach_queue_s": -1},
        {"message_class": 1 << 16},
        {"label": "x" * 250},
        {"label": "\N{GRINNING FACE}" * 125},
        {"label": "a\0b"},
        {"body": bytes((4 << 20) + 1)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_no_packet_can_carry(wrong):
    with pytest.raises(ValueError, match=r"allowed|fit|label|body"):
        Message(**wrong)


def test_the_longest_label():
    assert Message(label="\N{GRINNING FACE}" * 124 + "x").label.endswith("x")


def test_deadlines():
    """More than ten whole seconds have to pass: it may have been sent at 1000.9."""
    message = Message(sent_at=1000, time_to_reach_queue_s=10)
    assert (message.reach_deadline, message.receive_deadline) == (1011.0, None)
    assert Message(sent_at=1000, time_to_be_received_s=0).receive_deadline == 1001.0
    assert Message(sent_at=1, time_to_reach_queue_s=INFINITE).reach_deadline is None


@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
def test_which_classes_are_nacks():
    nacks = [one for one in MessageClass if is_nack(one)]
    assert (nacks[0], nacks[-1]) == (
        MessageClass.NACK_BAD_DEST_QUEUE,
        MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER,
    )
    assert len(nacks) == 17
    assert not is_nack(MessageClass.NACK_RECEIVE_REJECTED)


def test_which_classes_are_acknowledgements():
    """What comes without a signature into queues that want one: no class of an application's own."""
    others = {MessageClass.NORMAL, MessageClass.REPORT, MessageClass.ORDER_ACK}
    assert {one for one in MessageClass if not is_acknowledgement(one)} == others
    assert not any(map(is_acknowledgement, (0x0100, 0x7FFF, 0xC005, 0xE1FF)))


ALL = Acknowledgements.FULL_RECEIVE | Acknowledgements.FULL_REACH_QUEUE


@pytest.mark.parametrize(
    ("asked", "message_class", "made"),
    [
        (Acknowledgements.NACK_REACH_QUEUE, MessageClass.NACK_BAD_SIGNATURE, True),
        (Acknowledgements.NACK_REACH_QUEUE, MessageClass.NACK_RECEIVE_TIMEOUT, False),
        (Acknowledgements.NEGATIVE_RECEIVE, MessageClass.NACK_QUEUE_PURGED, True),
        (Acknowledgements.NEGATIVE_RECEIVE, MessageClass.NACK_BAD_DEST_QUEUE, False),
        (Acknowledgements.POSITIVE_ARRIVAL, MessageClass.ACK_REACH_QUEUE, True),
        (Acknowledgements.POSITIVE_ARRIVAL, MessageClass.ACK_RECEIVE, False),
        (Acknowledgements.POSITIVE_RECEIVE, MessageClass.ACK_RECEIVE, True),
        (ALL & ~Acknowledgements.POSITIVE_RECEIVE, MessageClass.ACK_RECEIVE, False),
        (Acknowledgements.NONE, MessageClass.NACK_BAD_DEST_QUEUE, False),
    ],
)
def test_acknowledgements_are_made_when_asked_for(asked, message_class, made):
    admin = own_replication_queue(OWN)
    message = Message(acknowledgements=asked, administration_queue=admin, body=b"x")
    assert (make_acknowledgement(message, message_class) is not None) is made
    assert make_acknowledgement(Message(acknowledgements=asked), message_class) is None


def test_an_acknowledgement_says_what_it_is_about():
    message = Message(
        acknowledgements=ALL,
        administration_queue=own_replication_queue(OWN),
        identifier=MessageId(OWN, 7),
        destination=replication_queue("PSC1"),
        body=b"body",
        body_type=8,
        label="label",
        delivery=DeliveryGuarantee.RECOVERABLE,
        signature=b"signature",
        time_to_reach_queue_s=1,
    )
    made = make_acknowledgement(message, MessageClass.NACK_BAD_SIGNATURE)
    assert made is not None
    assert made.message_class == MessageClass.NACK_BAD_SIGNATURE
    assert made.correlation == message.identifier
    assert made.response_queue == message.destination
    assert (made.body, made.body_type, made.label) == (b"body", 8, "label")
    assert made.delivery is DeliveryGuarantee.RECOVERABLE
    assert (made.signature, made.acknowledgements, made.administration_queue) == (b"", 0, None)
    assert made.time_to_reach_queue_s == INFINITE
    positive = make_acknowledgement(message, MessageClass.ACK_REACH_QUEUE)
    assert positive is not None
    assert (positive.body, positive.body_type) == (b"", 0)
