"""Packets of the binary protocol as bytes, little-endian ([MS-MQQB] 2.2).

See [MS-MQMQ] 2.2.19 and 2.2.20, too.

:func:`decode_packet` and :func:`encode_packet` convert the packets of a session, :func:`decode_ping` and
:func:`encode_ping` pings. What a MUST of the specification forbids is a DecodeError; reserved bits and
padding are ignored (decision T1).
"""

from collections.abc import Mapping
from typing import Any, Final

from mqdssm.errors import DecodeError
from mqdssm.model import packets
from mqdssm.model.packets import Packet, PacketKind, PacketQueue, QueueForm
from mqdssm.model.transport import DEFAULT_PRIORITY, INFINITE, Acknowledgements, DeliveryGuarantee
from mqdssm.wire.codecs import BIT, GUID_PACKET, U8, U16, U32, U64, Scalar, enum_of, raw, unsigned
from mqdssm.wire.fields import (
    Align,
    AnyCodec,
    Bytes,
    ByteSize,
    Choice,
    Const,
    Field,
    Flag,
    Ignored,
    Nested,
    Part,
    Select,
    Text16,
    TotalSize,
    Value,
    bits,
    header,
    when,
)
from mqdssm.wire.layout import Layout
from mqdssm.wire.mqqb_headers import (
    BASE_HEADER,
    BASE_HEADER_BYTES,
    DEBUG_HEADER,
    MESSAGE_IDENTIFIER,
    MULTI_QUEUE_FORMAT_HEADER,
    PRESENT,
    SECURITY_HEADER,
    SESSION_HEADER,
    SIGNATURE,
    SOAP_HEADER,
    TRANSACTION_HEADER,
    VERSION,
)
from mqdssm.wire.queue_names import DIRECT_NAME, PRIVATE_QUEUE_NAME

PACKET_TYPES: Final = {
    1: PacketKind.SESSION_ACK,
    2: PacketKind.ESTABLISH_CONNECTION,
    3: PacketKind.CONNECTION_PARAMETERS,
}
"""Kinds of internal packets by InternalHeader.Flags.PT ([MS-MQQB] 2.2.1)."""


def _make_internal_headers(kind: PacketKind, state: Part) -> tuple[Field, ...]:
    """Make BaseHeader and InternalHeader of a kind of internal packets.

    `state` is Flags.CS.
    """
    packet_type = next(number for number, of in PACKET_TYPES.items() if of is kind)
    return (
        *header(
            "BaseHeader",  # [MS-MQMQ] 2.2.19.1
            Const("VersionNumber", U8, VERSION),
            Value("reserved", U8, "Reserved"),
            bits(
                "Flags",
                U16,
                Ignored("PR", unsigned(3), DEFAULT_PRIORITY),
                Const("IN", BIT, True),
                Const("SH", BIT, kind is PacketKind.SESSION_ACK),
                Const("DH", BIT, False),
                Ignored("X9-X8", unsigned(2)),
                Ignored("TR", unsigned(1)),
                Ignored("X6-X0", unsigned(7)),
            ),
            Const("Signature", U32, SIGNATURE),
            TotalSize("PacketSize", U32),
            Const("TimeToReachQueue", U32, INFINITE),
        ),
        *header(
            "InternalHeader",  # [MS-MQQB] 2.2.1
            Ignored("Reserved", U16),
            bits("Flags", U16, Const("PT", unsigned(4), packet_type), state, Ignored("X5-X15", unsigned(11))),
        ),
    )


_REFUSED: Final = Value("is_refused", BIT, "CS")

CONNECTION_PARAMETERS: Final = Layout(
    packets.ConnectionParameters,
    "[MS-MQQB] 2.2.2",
    *_make_internal_headers(PacketKind.CONNECTION_PARAMETERS, _REFUSED),
    *header(
        "ConnectionParametersHeader",  # 2.2.2.1
        Value("recoverable_ack_timeout_ms", U32, "RecoverableAckTimeout", low=0x1F4, high=0x1D4C0),
        Value("ack_timeout_ms", U32, "AckTimeout", low=0x4E20, high=0x1D4C0),
        Ignored("Reserved", U16),
        Value("window_size", U16, "WindowSize"),
    ),
)

ESTABLISH_CONNECTION: Final = Layout(
    packets.EstablishConnection,
    "[MS-MQQB] 2.2.3",
    *_make_internal_headers(PacketKind.ESTABLISH_CONNECTION, _REFUSED),
    *header(
        "EstablishConnectionHeader",  # 2.2.3.1
        Value("client_guid", GUID_PACKET, "ClientGuid"),
        Value("server_guid", GUID_PACKET, "ServerGuid"),
        Value("time_stamp", U32, "TimeStamp"),
        bits(
            "OperatingSystem",
            U16,
            Const("RE", unsigned(8), 0x10),
            Value("is_ping_skipped", BIT, "SE"),
            Value("is_server_class", BIT, "OS"),
            Value("has_quality_of_service", BIT, "QS"),
            Ignored("X11-X15", unsigned(5)),
        ),
        Ignored("Reserved", U16),
        Ignored("Padding", raw(512), b"\x5a" * 512),
    ),
)

SESSION_ACK: Final = Layout(
    packets.SessionAck,
    "[MS-MQQB] 2.2.6",
    *_make_internal_headers(PacketKind.SESSION_ACK, Const("CS", BIT, False)),
    Value("session", Nested(SESSION_HEADER), "SessionHeader"),
)

PING: Final = Layout(
    packets.Ping,
    "[MS-MQQB] 2.2.7",
    bits(
        "Flags",
        U16,
        Value("is_client_class", BIT, "RC"),
        Value("is_refused", BIT, "RF"),
        Value("reserved", unsigned(14), "X"),
    ),
    Const("Signature", U16, 0x5548),
    Value("cookie", U32, "Cookie"),
    Value("queue_manager", GUID_PACKET, "QMGuid"),
)


_FORMS: Final[Mapping[int, AnyCodec | None]] = {
    QueueForm.NONE: None,
    QueueForm.SAME_AS_ADMIN: None,
    QueueForm.PRIVATE_ON_SOURCE: U32,
    QueueForm.PRIVATE_ON_DESTINATION: U32,
    QueueForm.PRIVATE_ON_ADMIN_HOST: U32,
    QueueForm.PUBLIC: GUID_PACKET,
    QueueForm.PRIVATE: Nested(PRIVATE_QUEUE_NAME),
    QueueForm.DIRECT: DIRECT_NAME,
}
"""Codec of a queue's name in each form ([MS-MQMQ] 2.2.19.2)."""


def _make_queue_field(name: str, spec: str, *forms: QueueForm) -> Choice:
    """Make a field of the UserHeader that names a queue in one of these forms."""
    return Choice(name, {form: _FORMS[form] for form in forms}, spec, PacketQueue)


_FORM: Final = enum_of(unsigned(3), QueueForm)
_ACKNOWLEDGEMENTS: Final = Scalar(
    "Acknowledgements",
    "",
    0,
    tuple(map(Acknowledgements, range(16))).__getitem__,
    unsigned(4).dump,
    width=4,
)

USER_MESSAGE: Final = Layout(
    packets.UserPacket,
    "[MS-MQMQ] 2.2.20",
    *header(
        "BaseHeader",  # 2.2.19.1
        Const("VersionNumber", U8, VERSION),
        Value("reserved", U8, "Reserved"),
        bits(
            "Flags",
            U16,
            Value("priority", unsigned(3), "PR"),
            Const("IN", BIT, False),
            Flag("session", PRESENT, "SH"),
            Flag("debug", PRESENT, "DH"),
            Ignored("X9-X8", unsigned(2)),
            Value("is_traced", BIT, "TR"),
            Ignored("X6-X0", unsigned(7)),
        ),
        Const("Signature", U32, SIGNATURE),
        TotalSize(
            "PacketSize",
            U32,
            high=packets.PACKET_BYTES_MAX,
            uncounted="session",
            uncounted_bytes=SESSION_HEADER.least,
        ),
        Value("time_to_reach_queue_s", U32, "TimeToReachQueue"),
    ),
    *header(
        "UserHeader",  # 2.2.19.2
        Value("source_queue_manager", GUID_PACKET, "SourceQueueManager"),
        Value("queue_manager_address", GUID_PACKET, "QueueManagerAddress"),
        Value("time_to_be_received_s", U32, "TimeToBeReceived"),
        Value("sent_time", U32, "SentTime"),
        Value("message_id", U32, "MessageID"),
        bits(
            "Flags",
            U32,
            Value("hop_count", unsigned(5), "RC", high=packets.HOPS_MAX),
            Value("delivery", enum_of(unsigned(2), DeliveryGuarantee), "DM"),
            Ignored("X1", unsigned(1)),
            Value("negative_journaling", BIT, "JN"),
            Value("positive_journaling", BIT, "JP"),
            Select("destination_queue", _FORM, "DQ"),
            Select("admin_queue", _FORM, "AQ"),
            Select("response_queue", _FORM, "RQ"),
            Flag("security", PRESENT, "SH"),
            Flag("transaction", PRESENT, "TH"),
            Const("MP", BIT, True),
            Flag("connector_type", PRESENT, "CQ"),
            Flag("multi_queue_format", PRESENT, "MQ"),
            Ignored("X2", unsigned(1)),
            Ignored("AH", unsigned(1)),
            Ignored("X3", unsigned(2)),
            Flag("soap", PRESENT, "HH"),
            Ignored("X4", unsigned(3)),
        ),
        _make_queue_field(
            "destination_queue",
            "DestinationQueue",
            QueueForm.NONE,
            QueueForm.PRIVATE_ON_DESTINATION,
            QueueForm.PUBLIC,
            QueueForm.DIRECT,
        ),
        _make_queue_field(
            "admin_queue",
            "AdminQueue",
            QueueForm.NONE,
            QueueForm.PRIVATE_ON_SOURCE,
            QueueForm.PRIVATE_ON_DESTINATION,
            QueueForm.PUBLIC,
            QueueForm.PRIVATE,
            QueueForm.DIRECT,
        ),
        _make_queue_field("response_queue", "ResponseQueue", *QueueForm),
        when("connector_type", Value("connector_type", GUID_PACKET, "ConnectorType")),
    ),
    when("transaction", Value("transaction", Nested(TRANSACTION_HEADER), "TransactionHeader")),
    when("security", Value("security", Nested(SECURITY_HEADER), "SecurityHeader")),
    *header(
        "MessagePropertiesHeader",  # 2.2.19.3
        bits("Flags", U8, Value("acknowledgements", _ACKNOWLEDGEMENTS, "PA-NR"), Ignored("X", unsigned(4))),
        ByteSize("label", U8, "LabelLength", high=0xFA, unit=2),
        Value("message_class", U16, "MessageClass"),
        Value("correlation_id", Nested(MESSAGE_IDENTIFIER), "CorrelationID"),
        Value("body_type", U32, "BodyType"),
        Value("application_tag", U32, "ApplicationTag"),
        Value("message_size", U32, "MessageSize"),
        ByteSize("allocated_body", U32, "AllocationBodySize"),
        Value("privacy_level", U32, "PrivacyLevel"),
        Value("hash_algorithm", U32, "HashAlgorithm"),
        Value("encryption_algorithm", U32, "EncryptionAlgorithm"),
        ByteSize("extension_data", U32, "ExtensionSize"),
        Text16("label", "Label", omitted=True),
        Bytes("extension_data", "ExtensionData"),
        Bytes("allocated_body", "MessageBody"),
        Align(4),
    ),
    when("debug", Value("debug", Nested(DEBUG_HEADER), "DebugHeader")),
    when("soap", Value("soap", Nested(SOAP_HEADER), "SoapHeader")),
    when(
        "multi_queue_format",
        Value("multi_queue_format", Nested(MULTI_QUEUE_FORMAT_HEADER), "MultiQueueFormatHeader"),
    ),
    when("session", Value("session", Nested(SESSION_HEADER), "SessionHeader")),
)

ORDER_ACK: Final = Layout(
    packets.OrderAck,
    "[MS-MQQB] 2.2.4.1",
    Value("sequence_id", U64, "TxSequenceID"),
    Value("sequence_number", U32, "TxSequenceNumber", low=1),
    Value("previous_sequence_number", U32, "TxPreviousSequenceNumber", high=0xFFFF_FFFE),
    Ignored("Reserved", raw(20), bytes(20)),
)

FINAL_ACK: Final = Layout(
    packets.FinalAck,
    "[MS-MQQB] 2.2.5.1",
    Value("sequence_id", U64, "TxSequenceID"),
    Value("sequence_number", U32, "TxSequenceNumber", low=1),
    Value("previous_sequence_number", U32, "TxPreviousSequenceNumber", high=0xFFFF_FFFE),
    Value("message", Nested(MESSAGE_IDENTIFIER), "SourceGUID and MessageID"),
)

_INTERNAL: Final[Mapping[PacketKind, Layout[Any]]] = {
    PacketKind.SESSION_ACK: SESSION_ACK,
    PacketKind.ESTABLISH_CONNECTION: ESTABLISH_CONNECTION,
    PacketKind.CONNECTION_PARAMETERS: CONNECTION_PARAMETERS,
}
_OF_CLASS: Final[Mapping[type, Layout[Any]]] = {
    layout.cls: layout for layout in (*_INTERNAL.values(), USER_MESSAGE)
}
_PACKET_TYPE_AT: Final = BASE_HEADER_BYTES + 2


def layout_of(data: bytes) -> Layout[Any]:
    """Return the layout of a packet by its BaseHeader and InternalHeader.

    See [MS-MQQB] 3.1.5.1.1.

    Raises:
        DecodeError: another version, signature or packet type, a wrong size, or an incomplete header.
    """
    start, _ = BASE_HEADER.read(data, 0, len(data))
    if not start.is_internal:
        return USER_MESSAGE
    number = data[_PACKET_TYPE_AT] & 0xF if len(data) > _PACKET_TYPE_AT else 0
    kind = PACKET_TYPES.get(number)
    if kind is None:
        raise DecodeError(
            "[MS-MQQB] 2.2.1", "InternalHeader.Flags.PT", _PACKET_TYPE_AT, f"is {number}, must be 1, 2 or 3"
        )
    return _INTERNAL[kind]


def decode_packet(data: bytes) -> Packet:
    """Decode one packet of a session.

    A SessionHeader behind a UserMessage belongs to it (decision T2).

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    data = bytes(data)
    packet: Packet = layout_of(data).decode(data)
    return packet


def encode_packet(packet: Packet) -> bytes:
    """Encode a packet of a session.

    Raises:
        ValueError: naming the field that cannot be encoded, or for a packet of more than 4 MiB.
        TypeError: not a packet of a session.
    """
    layout = _OF_CLASS.get(type(packet))
    if layout is None:
        raise TypeError(f"{packet!r} is no packet of a session")
    return layout.encode(packet)


def decode_ping(data: bytes) -> packets.Ping:
    """Decode a datagram of the ping port ([MS-MQQB] 2.2.7).

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    return PING.decode(data)


def encode_ping(ping: packets.Ping) -> bytes:
    """Encode a datagram of the ping port ([MS-MQQB] 2.2.7).

    Raises:
        ValueError: naming the field that cannot be encoded.
    """
    return PING.encode(ping)


def decode_order_ack(packet: packets.UserPacket) -> packets.OrderAck | packets.FinalAck | None:
    """Decode the body of an OrderAck or FinalAck packet ([MS-MQQB] 3.1.5.1.1).

    None if the packet is neither.

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    match packets.kind_of(packet):
        case PacketKind.ORDER_ACK:
            return ORDER_ACK.decode(packet.body)
        case PacketKind.FINAL_ACK:
            return FINAL_ACK.decode(packet.body)
    return None
