"""Packets of queue managers: the printed frames, every header by hand, and what is refused."""

from dataclasses import replace

import pytest
from support.packets.strategies import FRAMES, PACKETS_PRINTED
from support.wire.interpreted import decode_interpreted
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.model import packets
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packets import (
    NO_QUEUE,
    ConnectionParameters,
    EstablishConnection,
    FormatNameElement,
    FormatNameType,
    PacketKind,
    PacketQueue,
    PrivateQueueName,
    QueueForm,
    SessionAck,
    SessionHeader,
    UserPacket,
    kind_of,
)
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    DeliveryGuarantee,
    MessageId,
    SenderIdentifierType,
)
from mqdssm.wire.mqqb import (
    decode_order_ack,
    decode_packet,
    decode_ping,
    encode_packet,
    encode_ping,
    layout_of,
)

# the frames have the GUIDs of the text with all bytes reversed: the bytes count (decision T10)
CLIENT = Guid(bytes.fromhex("d1587355509195954997b6e611ea26c6"))
SERVER = Guid(bytes.fromhex("0789cd434c39118f44459078909ea0fc"))
A, B, C = (Guid(bytes([number]) * 16) for number in (0xA1, 0xB2, 0xC3))
SENDER = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")
NINTH = PrivateQueueName(queue_manager=C, number=9)
SESSION = SessionHeader(
    ack_sequence_number=1,
    recoverable_ack_sequence_number=0,
    recoverable_ack_flags=0,
    user_message_sequence_number=0,
    recoverable_message_sequence_number=0,
    window_size=64,
)


def flipped(image: bytes, at: int, bits: int) -> bytes:
    return image[:at] + bytes([image[at] ^ bits]) + image[at + 1 :]


def put(image: bytes, at: int, data: bytes) -> bytes:
    return image[:at] + data + image[at + len(data) :]


def refusal(image: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        decode_packet(image)
    return str(caught.value)


@pytest.mark.spec("MS-MQQB 2.2.7")
@pytest.mark.spec("MS-MQQB 4.1.1")
@pytest.mark.spec("MS-MQQB 4.1.2")
def test_the_printed_pings():
    request = decode_ping(FRAMES["mqqb-frame1-ping-request"])
    reply = decode_ping(FRAMES["mqqb-frame2-ping-response"])
    assert (request.queue_manager, reply.queue_manager) == (CLIENT, SERVER)
    assert request.cookie == reply.cookie == 4
    assert (request.is_client_class, request.is_refused) == (True, False)
    for ping, name in ((request, "mqqb-frame1-ping-request"), (reply, "mqqb-frame2-ping-response")):
        assert encode_ping(ping) == FRAMES[name]
        assert_length_is_law(FRAMES[name], decode_ping)
    with pytest.raises(DecodeError, match="Signature at offset 2"):
        decode_ping(flipped(FRAMES["mqqb-frame1-ping-request"], 2, 1))


@pytest.mark.spec("MS-MQQB 2.2.3")
@pytest.mark.spec("MS-MQQB 2.2.3.1")
@pytest.mark.spec("MS-MQQB 4.1.3")
def test_the_printed_request():
    assert decode_packet(FRAMES["mqqb-frame3-establish-request"]) == EstablishConnection(
        client_guid=CLIENT,
        server_guid=SERVER,
        time_stamp=501_140_046,
        is_ping_skipped=True,
        is_server_class=True,
        is_refused=False,
        reserved=0xC0,
    )


@pytest.mark.spec("MS-MQQB 2.2.1")
@pytest.mark.spec("MS-MQQB 2.2.3.1")
@pytest.mark.spec("MS-MQQB 4.1.4")
def test_the_printed_response_and_a_refusal():
    frame = FRAMES["mqqb-frame4-establish-response"]
    response = decode_packet(frame)
    assert isinstance(response, EstablishConnection)
    assert str(response.client_guid) == "1f742305-be5e-4177-bc77-c4dd7719e474"
    assert str(response.server_guid) == "3c3a6aeb-f567-4143-87d3-85cf4d68ceb4"
    assert encode_packet(replace(response, is_refused=True)) == flipped(frame, 18, 0x10)
    assert frame[60:] == b"\x5a" * 512
    assert decode_packet(put(frame, 60, bytes(512))) == response, "a request has any padding"


@pytest.mark.spec("MS-MQQB 2.2.2")
@pytest.mark.spec("MS-MQQB 2.2.2.1")
@pytest.mark.spec("MS-MQQB 4.1.5")
@pytest.mark.spec("MS-MQQB 4.1.6")
def test_the_printed_parameters():
    frame = FRAMES["mqqb-frame5-parameters-request"]
    assert frame == FRAMES["mqqb-frame6-parameters-response"]
    assert decode_packet(frame) == ConnectionParameters(
        recoverable_ack_timeout_ms=1496, ack_timeout_ms=120_000, window_size=64, reserved=0xC0
    )
    for name, at, low, high in (
        ("RecoverableAckTimeout", 20, 500, 120_000),
        ("AckTimeout", 24, 20_000, 120_000),
    ):
        for number, problem in ((low - 1, f"at least {low}"), (high + 1, f"at most {high}")):
            wrong = put(frame, at, number.to_bytes(4, "little"))
            assert f"{name} at offset {at}: is {number}, {problem}" in refusal(wrong)
        for number in (low, high):
            decode_packet(put(frame, at, number.to_bytes(4, "little")))


@pytest.mark.spec("MS-MQQB 2.2.6")
@pytest.mark.spec("MS-MQQB 4.1.8")
def test_the_printed_acknowledgement():
    frame = FRAMES["mqqb-frame8-session-ack"]
    assert decode_packet(frame) == SessionAck(session=SESSION, reserved=0xCD)
    assert int.from_bytes(frame[8:12], "little") == len(frame), "it counts its SessionHeader (decision T2)"
    assert "SessionAck" not in refusal(put(frame, 32, b"\0\0"))
    assert "2.2.20.4 WindowSize at offset 32: is 0, at least 1" in refusal(put(frame, 32, b"\0\0"))
    assert "BaseHeader.Flags.SH" in refusal(flipped(frame, 2, 0x10))
    assert "InternalHeader.Flags.CS" in refusal(flipped(frame, 18, 0x10))


@pytest.mark.spec("MS-MQQB 2.2")
@pytest.mark.spec("MS-MQQB 4.1.7")
def test_the_printed_message():
    frame = FRAMES["mqqb-frame7-user-message"]
    packet = decode_packet(frame)
    assert isinstance(packet, UserPacket)
    assert packet.time_to_reach_queue_s == 345_600
    assert (packet.source_queue_manager, packet.queue_manager_address) == (CLIENT, NULL_GUID)
    assert (packet.time_to_be_received_s, packet.message_id) == (INFINITE, 2286)
    assert packet.destination_queue == PacketQueue(QueueForm.DIRECT, "OS:a04bm02\\q")
    assert packet.security is not None
    assert packet.security.sender == SENDER
    assert packet.security.sender_type is SenderIdentifierType.SID
    assert packet.acknowledgements == Acknowledgements.FULL_RECEIVE | Acknowledgements.POSITIVE_ARRIVAL
    assert packet.admin_queue == NO_QUEUE, "against the rule for AdminQueue (decision T6)"
    assert packet.label == "mqsender label"
    assert (packet.body_type, packet.hash_algorithm, packet.encryption_algorithm) == (8, 0x8004, 0x6801)
    assert packet.body == b"a\0" * 1000
    assert kind_of(packet) is PacketKind.USER_MESSAGE


@pytest.mark.spec("MS-MQQB 2.2")
@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
@pytest.mark.parametrize("frame", PACKETS_PRINTED, ids=[name for name in FRAMES if "ping" not in name])
def test_the_printed_frames_come_back_byte_for_byte(frame):
    packet = decode_packet(frame)
    assert encode_packet(packet) == frame
    assert decode_interpreted(layout_of(frame), frame) == packet
    assert_length_is_law(frame, decode_packet)


@pytest.mark.spec("MS-MQQB 3.1.5.1.2")
@pytest.mark.parametrize("frame", PACKETS_PRINTED, ids=[name for name in FRAMES if "ping" not in name])
def test_version_and_signature(frame):
    assert "[MS-MQMQ] 2.2.19.1 VersionNumber at offset 0: is 17, must be 16" in refusal(flipped(frame, 0, 1))
    assert "Signature at offset 4" in refusal(flipped(frame, 6, 1))


@pytest.mark.spec("MS-MQQB 3.1.5.1.1")
def test_unknown_types_of_internal_packets():
    frame = FRAMES["mqqb-frame8-session-ack"]
    for number in (0, 4, 15):
        wrong = put(frame, 18, bytes([number]))
        assert f"[MS-MQQB] 2.2.1 InternalHeader.Flags.PT at offset 18: is {number}" in refusal(wrong)
    assert "InternalHeader.Flags.PT" in refusal(frame[:18])


@pytest.mark.spec("MS-MQQB 2.2.1")
def test_reserved_bits_and_padding_are_ignored():
    """All that may have any value (decision T1)."""
    establish = FRAMES["mqqb-frame3-establish-request"]
    for at, bits in (
        (2, 0x07),
        (2, 0xC0),
        (3, 0xFF),
        (16, 0xFF),
        (17, 0xFF),
        (18, 0xE0),
        (19, 0xFF),
        (57, 0xF8),
    ):
        assert decode_packet(flipped(establish, at, bits)) == decode_packet(establish)
    message = FRAMES["mqqb-frame7-user-message"]
    for at, bits in ((2, 0xC0), (3, 0xFE), (60, 0x80), (63, 0x0F), (92, 0x10), (93, 0xFF), (136, 0xF0)):
        assert decode_packet(flipped(message, at, bits)) == decode_packet(message)
    assert decode_packet(message[:-2] + b"\x7f\x7f") == decode_packet(message)


@pytest.mark.spec("MS-MQQB 2.2")
@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (2, "0b", "PacketSize at offset 8: is 2224, at most 572 in an internal packet"),
        (3, "01", "Flags.TR is set without a DebugHeader"),
        (8, "b4080000", "BaseHeader.PacketSize at offset 0: needs 2228 bytes, 2224 left"),
        (8, "0f000000", "PacketSize at offset 8: is 15, at least 16"),
        (8, "01004000", "PacketSize at offset 8: is 4194305, at most 4194304"),
        (8, "40000000", "UserHeader.DestinationQueue at offset 64: needs 2 bytes, 0 left"),
        (60, "1e", "UserHeader.Flags.RC at offset 60: is 30, at most 29"),
        (60, "40", "UserHeader.Flags.DM at offset 60: is 2, which is no DeliveryGuarantee"),
        (61, "18", "UserHeader.Flags.DQ at offset 60: is 6, must be one of 0, 3, 5, 7"),
        (61, "3c", "UserHeader.Flags.AQ at offset 60: is 1, must be one of 0, 2, 3, 5, 6, 7"),
        (62, "08", "UserHeader.Flags.MP at offset 60: is False, must be True"),
        (64, "1b00", "UserHeader.DestinationQueue at offset 66: has 27 bytes"),
        (88, "0000", "UserHeader.DestinationQueue at offset 66: holds a NUL before its end"),
        (90, "6100", "UserHeader.DestinationQueue at offset 66: has no NUL at its end"),
        (92, "03", "[MS-MQMQ] 2.2.20.6 Flags.ST at offset 92: is 3"),
        (92, "00", "SenderIdSize is not 0 where Flags.ST is 0"),
        (100, "00000100", "SenderCertSize at offset 100: is 65536, at most 65535"),
        (137, "fb", "MessagePropertiesHeader.LabelLength at offset 137: is 251, at most 250"),
        (172, "cf070000", "MessageSize 2000 is more than AllocationBodySize"),
        (172, "ffffffff", "MessagePropertiesHeader.MessageBody at offset 222: needs 4294967295"),
    ],
)
def test_what_is_refused_of_a_message(at, data, problem):
    assert problem in refusal(put(FRAMES["mqqb-frame7-user-message"], at, bytes.fromhex(data)))


SMALL = UserPacket(
    source_queue_manager=A,
    sent_time=5,
    message_id=7,
    destination_queue=PacketQueue(QueueForm.PUBLIC, B),
    message_size=3,
    allocated_body=b"abc",
)
BASE = "10 00 {flags} 4c494f52 {size} ffffffff"
USER = "a1" * 16 + "00" * 16 + "ffffffff 05000000 07000000"
PROPERTIES = (
    "00 00 0000" + "00" * 20 + "00000000 00000000 03000000 03000000 00000000 03800000 01680000 00000000"
    "616263 00"
)


def built(parts: list[str], *, flags: str = "0300", size: int | None = None) -> bytes:
    body = bytes.fromhex("".join(parts))
    number = (16 + len(body) if size is None else size).to_bytes(4, "little").hex()
    return bytes.fromhex(BASE.format(flags=flags, size=number)) + body


@pytest.mark.spec("MS-MQQB 2.2")
@pytest.mark.parametrize(
    ("changes", "parts", "flags"),
    [
        pytest.param({}, [USER, "00142000", "b2" * 16, PROPERTIES], "0300", id="smallest"),
        pytest.param(
            {
                "transaction": packets.TransactionHeader(
                    sequence_id=0x0000000200000001,
                    sequence_number=3,
                    previous_sequence_number=2,
                    transaction_id=0x12345,
                    needs_final_ack=True,
                    is_last=True,
                    connector=C,
                ),
                "priority": 0,
                "delivery": DeliveryGuarantee.RECOVERABLE,
            },
            [
                *(USER, "20143000", "b2" * 16),
                *("5b341200", "01000000 02000000", "03000000", "02000000", "c3" * 16),
                PROPERTIES,
            ],
            "0000",
            id="TransactionHeader",
        ),
        pytest.param(
            {
                "security": packets.SecurityHeader(
                    sender_type=SenderIdentifierType.QUEUE_MANAGER,
                    is_encrypted=True,
                    has_default_provider=True,
                    sender=bytes(A),
                    encryption_key=b"key",
                    signature=b"signed",
                    certificate=b"X",
                    provider_info=b"\1\0\0\0A\0\0\0",
                )
            },
            [
                *(USER, "00142800", "b2" * 16),
                *("e200 1000 0300 0600 01000000 08000000", "a1" * 16, "6b657900", "7369676e65640000"),
                *("58000000", "0100000041000000"),
                PROPERTIES,
            ],
            "0300",
            id="SecurityHeader",
        ),
        pytest.param(
            {"debug": packets.DebugHeader(queue=C), "is_traced": True},
            [USER, "00142000", "b2" * 16, PROPERTIES, "0100 0000", "c3" * 16],
            "2301",
            id="DebugHeader",
        ),
        pytest.param(
            {"soap": packets.SoapHeader(header="h", body="")},
            [USER, "00142010", "b2" * 16, PROPERTIES, "2003 0000 02000000 68000000", "8403 0000 00000000"],
            "0300",
            id="SoapHeader",
        ),
        pytest.param(
            {
                "multi_queue_format": packets.MultiQueueFormatHeader(
                    destination=(
                        FormatNameElement(FormatNameType.DIRECT, "OS:a"),
                        FormatNameElement(
                            FormatNameType.PRIVATE, PrivateQueueName(queue_manager=C, number=9)
                        ),
                    ),
                    administration=(FormatNameElement(FormatNameType.PUBLIC, B),),
                    response=(FormatNameElement(FormatNameType.DISTRIBUTION_LIST, A),),
                    signature=b"sig",
                )
            },
            [
                *(USER, "0014a000", "b2" * 16, PROPERTIES),
                # type 3 at 0, text at 2 to 12; type 2 at 12, two bytes up to 16, GUID and number
                *(
                    "30000000 6400 0000 02000000",
                    "0300 4f0053003a0061000000",
                    "0200 0000",
                    "c3" * 16,
                    "09000000",
                ),
                # the public queue follows its type at once; the padding counts (decision T7)
                *("20000000 c800 0000 01000000", "0100", "b2" * 16, "0000"),
                *("20000000 2c01 0000 01000000", "0600 0000", "a1" * 16),
                *("5e01 0000 03000000", "736967 00"),
            ],
            "0300",
            id="MultiQueueFormatHeader",
        ),
    ],
)
def test_headers_by_hand(changes, parts, flags):
    image = built(parts, flags=flags)
    packet = replace(SMALL, **changes)
    assert encode_packet(packet).hex() == image.hex()
    assert decode_packet(image) == packet
    assert_length_is_law(image, decode_packet)


@pytest.mark.spec("MS-MQQB 2.2")
def test_a_trailing_session_header_is_not_counted():
    """PacketSize leaves it out (decision T2)."""
    plain = encode_packet(SMALL)
    acknowledging = encode_packet(replace(SMALL, session=SESSION))
    assert acknowledging[4:-16] == plain[4:]
    assert len(acknowledging) == int.from_bytes(acknowledging[8:12], "little") + 16
    assert acknowledging[-16:] == FRAMES["mqqb-frame8-session-ack"][20:]
    assert decode_packet(acknowledging) == replace(SMALL, session=SESSION)
    counted = put(acknowledging, 8, len(acknowledging).to_bytes(4, "little"))
    assert "PacketSize" in refusal(counted)


@pytest.mark.spec("MS-MQQB 2.2")
def test_bytes_allocated_behind_the_body():
    """AllocationBodySize is the extent, MessageSize the content (decision T3)."""
    packet = replace(SMALL, message_size=2)
    image = encode_packet(packet)
    assert decode_packet(image) == packet
    assert packet.body == b"ab"


@pytest.mark.spec("MS-MQQB 2.2")
def test_an_empty_label_with_and_without_its_nul():
    """LabelLength 1 is an empty label, too (decision T9)."""
    parts = [USER, "00142000", "b2" * 16, PROPERTIES.replace("00 00 0000", "00 01 0000", 1)]
    longer = parts[3].replace("616263 00", "0000 616263 000000")
    image = built([*parts[:3], longer])
    assert decode_packet(image) == SMALL


@pytest.mark.spec("MS-MQQB 2.2")
def test_padding_of_a_list_of_queues_may_count_or_not():
    """HeaderSize with or without the padding of FormatNameList (decision T7)."""
    header = packets.MultiQueueFormatHeader(destination=(FormatNameElement(FormatNameType.PUBLIC, B),))
    padded = encode_packet(replace(SMALL, multi_queue_format=header))
    at = padded.index(bytes.fromhex("20000000 6400 0000"))
    unpadded = put(padded, at, bytes.fromhex("1e"))
    assert decode_packet(unpadded) == decode_packet(padded)
    assert "FormatNameList" in refusal(put(padded, at, bytes.fromhex("1d")))


ORDER = replace(
    SMALL,
    priority=0,
    destination_queue=PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 4),
    label="QM Ordering Ack",
    message_size=36,
    allocated_body=bytes(36),
)
SEQUENCE = "0100000002000000 03000000 02000000"


@pytest.mark.spec("MS-MQQB 2.2.4")
@pytest.mark.spec("MS-MQQB 2.2.4.1")
@pytest.mark.spec("MS-MQQB 3.1.5.1.1")
def test_an_order_ack():
    body = bytes.fromhex(SEQUENCE) + bytes(20)
    packet = decode_packet(encode_packet(replace(ORDER, message_class=0xFF, allocated_body=body)))
    assert isinstance(packet, UserPacket)
    assert decode_order_ack(packet) == packets.OrderAck(
        sequence_id=0x0000000200000001, sequence_number=3, previous_sequence_number=2
    )
    with pytest.raises(DecodeError, match="TxSequenceNumber at offset 8: is 0, at least 1"):
        decode_order_ack(replace(packet, allocated_body=bytes(36)))


@pytest.mark.spec("MS-MQQB 2.2.5")
@pytest.mark.spec("MS-MQQB 2.2.5.1")
@pytest.mark.spec("MS-MQQB 3.1.5.1.1")
def test_a_final_ack():
    body = bytes.fromhex(SEQUENCE) + bytes(C) + bytes.fromhex("09000000")
    packet = replace(ORDER, message_class=0x4000, allocated_body=body, delivery=DeliveryGuarantee.RECOVERABLE)
    assert decode_order_ack(packet) == packets.FinalAck(
        sequence_id=0x0000000200000001,
        sequence_number=3,
        previous_sequence_number=2,
        message=MessageId(C, 9),
    )
    assert decode_order_ack(SMALL) is None


@pytest.mark.spec("MS-MQQB 2.2")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"priority": 8}, "BaseHeader.Flags.PR"),
        ({"hop_count": 30}, "UserHeader.Flags.RC"),
        ({"destination_queue": PacketQueue(QueueForm.PRIVATE_ON_SOURCE, 1)}, "DestinationQueue"),
        ({"destination_queue": PacketQueue(QueueForm.NONE, 1)}, "DestinationQueue"),
        ({"destination_queue": None}, "UserHeader.Flags.DQ"),
        ({"destination_queue": PacketQueue(QueueForm.DIRECT, "a\0b")}, "holds a NUL"),
        ({"destination_queue": PacketQueue(QueueForm.DIRECT, "a" * 32_767)}, "at most 32766"),
        ({"label": "x" * 250}, "MessagePropertiesHeader.LabelLength"),
        ({"allocated_body": bytes(4 << 20)}, "BaseHeader.PacketSize"),
        ({"acknowledgements": 16}, "MessagePropertiesHeader.Flags.PA-NR"),
        ({"session": replace(SESSION, window_size=0)}, "WindowSize"),
        (
            {
                "multi_queue_format": packets.MultiQueueFormatHeader(
                    response=(FormatNameElement(FormatNameType.PUBLIC, "x"),)
                )
            },
            "'x' is no name of the type",
        ),
    ],
)
def test_what_cannot_be_sent(changes, problem):
    with pytest.raises(ValueError, match=problem):
        encode_packet(replace(SMALL, **changes))


def test_only_packets_are_encoded():
    with pytest.raises(TypeError, match="is no packet of a session"):
        encode_packet(SESSION)
