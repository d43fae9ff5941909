"""Packets and the messages they carry: both ways, kinds of packets, and what no message can hold."""

from dataclasses import replace

import pytest

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import parse_format_name
from mqdssm.model.packet_messages import UnsupportedPacketError, format_name_of, message_of, packet_of
from mqdssm.model.packets import (
    ORDER_ACK_LABEL,
    DebugHeader,
    EstablishConnection,
    PacketKind,
    PacketQueue,
    PrivateQueueName,
    QueueForm,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
    kind_of,
)
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    DeliveryGuarantee,
    HashAlgorithm,
    Message,
    MessageClass,
    MessageId,
    SenderIdentifierType,
    make_acknowledgement,
    replication_queue,
)

SOURCE = Guid.parse("11111111-2222-3333-4455-66778899aabb")
TARGET = Guid.parse("a1b2c3d4-e5f6-4789-8a9b-acbdcedfe0f1")
OTHER = Guid.parse("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
SESSION = SessionHeader(
    ack_sequence_number=3,
    recoverable_ack_sequence_number=1,
    recoverable_ack_flags=5,
    user_message_sequence_number=2,
    recoverable_message_sequence_number=1,
    window_size=64,
)
DIRECT = Message(
    body=b"hello",
    body_type=8,
    label="Order 17",
    application_tag=7,
    delivery=DeliveryGuarantee.RECOVERABLE,
    priority=5,
    time_to_reach_queue_s=60,
    time_to_be_received_s=INFINITE,
    acknowledgements=Acknowledgements.FULL_RECEIVE,
    administration_queue=parse_format_name(f"PRIVATE={SOURCE}\\6"),
    response_queue=parse_format_name(f"PUBLIC={OTHER}"),
    correlation=MessageId(OTHER, 12),
    positive_journaling=True,
    connector_type=OTHER,
    sender_type=SenderIdentifierType.QUEUE_MANAGER,
    sender=bytes(SOURCE),
    hash_algorithm=HashAlgorithm.SHA512,
    signature=b"signed",
    identifier=MessageId(SOURCE, 99),
    sent_at=1_700_000_000,
    destination=replication_queue("PEC01"),
)


def packet(message=DIRECT, address=NULL_GUID, **changes):
    return replace(packet_of(message, queue_manager_address=address), **changes)


@pytest.mark.spec("MS-MQQB 3.1.7.10")
def test_a_message_comes_back() -> None:
    made = packet_of(DIRECT, queue_manager_address=NULL_GUID, session=SESSION, certificate=b"X.509")
    assert message_of(made) == DIRECT
    assert made.session is SESSION
    assert made.security == SecurityHeader(
        sender_type=SenderIdentifierType.QUEUE_MANAGER,
        has_default_provider=True,
        sender=bytes(SOURCE),
        signature=b"signed",
        certificate=b"X.509",
    )
    assert made.destination_queue == PacketQueue(QueueForm.DIRECT, "OS:PEC01\\private$\\mqis_queue$")


def test_a_message_without_security_has_no_security_header() -> None:
    plain = Message(identifier=MessageId(SOURCE, 1), destination=replication_queue("PEC01"))
    made = packet(plain)
    assert made.security is None
    assert message_of(made) == plain


@pytest.mark.spec("MS-MQQB 3.1.7.10")
@pytest.mark.parametrize(
    ("name", "form", "value"),
    [
        (None, QueueForm.NONE, None),
        (f"PRIVATE={SOURCE}\\6", QueueForm.PRIVATE_ON_SOURCE, 6),
        (f"PRIVATE={TARGET}\\6", QueueForm.PRIVATE_ON_DESTINATION, 6),
        (f"PRIVATE={OTHER}\\6", QueueForm.PRIVATE, PrivateQueueName(queue_manager=OTHER, number=6)),
        (f"PUBLIC={OTHER}", QueueForm.PUBLIC, OTHER),
        ("DIRECT=TCP:10.0.0.5\\PRIVATE$\\a", QueueForm.DIRECT, "TCP:10.0.0.5\\private$\\a"),
        ("DIRECT=OS:web01\\orders", QueueForm.DIRECT, "OS:web01\\orders"),
    ],
)
def test_forms_of_the_administration_queue(name, form, value) -> None:
    queue = None if name is None else parse_format_name(name)
    message = replace(
        DIRECT, destination=parse_format_name(f"PRIVATE={TARGET}\\1"), administration_queue=queue
    )
    made = packet(message, TARGET)
    assert made.admin_queue == (form, value)
    assert made.destination_queue == (QueueForm.PRIVATE_ON_DESTINATION, 1)
    assert message_of(made) == message


def test_a_response_queue_may_be_that_of_administration_or_on_its_host() -> None:
    message = replace(DIRECT, response_queue=DIRECT.administration_queue)
    made = packet(message)
    assert made.response_queue == (QueueForm.SAME_AS_ADMIN, None)
    assert message_of(made) == message
    on_host = PacketQueue(QueueForm.PRIVATE_ON_ADMIN_HOST, 0x1F)
    assert str(format_name_of(made, on_host)).lower() == f"private={SOURCE}\\1f"
    hostless = replace(made, admin_queue=PacketQueue(QueueForm.DIRECT, "OS:web01\\orders"))
    with pytest.raises(UnsupportedPacketError, match="has no GUID"):
        format_name_of(hostless, on_host)


@pytest.mark.spec("MS-MQQB 3.1.7.15")
def test_an_acknowledgement_comes_back() -> None:
    nack = make_acknowledgement(DIRECT, MessageClass.NACK_BAD_SIGNATURE)
    sent = replace(nack, identifier=MessageId(TARGET, 5), destination=DIRECT.administration_queue)
    made = packet(sent, SOURCE)
    assert kind_of(made) is PacketKind.USER_MESSAGE
    assert message_of(made) == sent


@pytest.mark.parametrize(
    ("changes", "part", "message_class"),
    [
        (
            {
                "transaction": TransactionHeader(
                    sequence_id=1, sequence_number=1, previous_sequence_number=0
                ),
                "priority": 0,
            },
            "TransactionHeader",
            MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
        ),
        (
            {"security": SecurityHeader(is_encrypted=True, encryption_key=b"key")},
            "encrypted body",
            MessageClass.NACK_BAD_ENCRYPTION,
        ),
        ({"hash_algorithm": 0x8001}, "HashAlgorithm 0x8001", MessageClass.NACK_BAD_SIGNATURE),
        ({"soap": SoapHeader(header="h")}, "SoapHeader", None),
        ({"extension_data": b"more"}, "ExtensionData", None),
        (
            {"destination_queue": PacketQueue(QueueForm.DIRECT, "SPX:1\\q")},
            "SPX",
            MessageClass.NACK_BAD_DEST_QUEUE,
        ),
    ],
)
def test_what_a_message_cannot_hold_is_named(changes, part, message_class) -> None:
    with pytest.raises(UnsupportedPacketError, match=part) as caught:
        message_of(packet(**changes))
    assert caught.value.message_class is message_class


def test_an_unknown_hash_algorithm_matters_only_to_a_signature() -> None:
    unsigned = packet(replace(DIRECT, signature=b""), hash_algorithm=0)
    assert message_of(unsigned).hash_algorithm is HashAlgorithm.MD5


@pytest.mark.parametrize(
    ("message", "address", "problem"),
    [
        (replace(DIRECT, destination=None), NULL_GUID, "without a destination"),
        (
            replace(DIRECT, destination=parse_format_name(f"PRIVATE={OTHER}\\1")),
            TARGET,
            "no queue of the queue manager",
        ),
        (
            replace(DIRECT, administration_queue=parse_format_name(f"DL={OTHER}")),
            TARGET,
            "cannot name the queue DL=",
        ),
        (
            replace(DIRECT, destination=parse_format_name(f"PRIVATE={TARGET}\\1;JOURNAL")),
            TARGET,
            "cannot name the queue PRIVATE=",
        ),
    ],
)
def test_messages_that_no_packet_carries(message, address, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        packet_of(message, queue_manager_address=address)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"message_size": 6}, "MessageSize 6 is more"),
        ({"is_traced": True}, "without a DebugHeader"),
        ({"transaction": "order", "delivery": DeliveryGuarantee.EXPRESS}, "Flags.DM"),
        ({"transaction": "order"}, "Flags.PR"),
    ],
)
def test_fields_that_contradict_each_other(changes, problem) -> None:
    if "transaction" in changes:
        order = TransactionHeader(sequence_id=1, sequence_number=1, previous_sequence_number=0)
        changes = changes | {"transaction": order}
    with pytest.raises(ValueError, match=problem):
        packet(**changes)
    assert packet(is_traced=True, debug=DebugHeader(queue=OTHER)).is_traced


ORDER = {
    "priority": 0,
    "label": ORDER_ACK_LABEL,
    "message_size": 36,
    "allocated_body": bytes(36),
    "message_class": MessageClass.ORDER_ACK,
    "destination_queue": PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 4),
}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, PacketKind.ORDER_ACK),
        ({"message_class": MessageClass.ACK_RECEIVE}, PacketKind.FINAL_ACK),
        ({"message_class": MessageClass.NACK_RECEIVE_TIMEOUT}, PacketKind.FINAL_ACK),
        ({"message_class": MessageClass.NORMAL}, PacketKind.USER_MESSAGE),
        (
            {"destination_queue": PacketQueue(QueueForm.DIRECT, "TCP:10.0.0.5\\PRIVATE$\\order_queue$")},
            PacketKind.ORDER_ACK,
        ),
        (
            {"destination_queue": PacketQueue(QueueForm.DIRECT, "OS:web01\\orders")},
            PacketKind.USER_MESSAGE,
        ),
        (
            {"destination_queue": PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 5)},
            PacketKind.USER_MESSAGE,
        ),
        ({"priority": 3}, PacketKind.USER_MESSAGE),
        ({"session": SESSION}, PacketKind.USER_MESSAGE),
        ({"label": "mine"}, PacketKind.USER_MESSAGE),
        ({"message_size": 35}, PacketKind.USER_MESSAGE),
    ],
)
def test_kinds_of_packets(changes, kind) -> None:
    assert kind_of(packet(**(ORDER | changes))) is kind


def test_the_kind_of_an_internal_packet() -> None:
    request = EstablishConnection(
        client_guid=SOURCE,
        server_guid=TARGET,
        time_stamp=1,
        is_ping_skipped=True,
        is_server_class=True,
        is_refused=False,
    )
    assert kind_of(request) is PacketKind.ESTABLISH_CONNECTION
