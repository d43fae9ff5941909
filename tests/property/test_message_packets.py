"""Messages of a session as packets: the common octets of like messages change no result."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.packets.strategies import PACKETS, PACKETS_PRINTED, SESSION_HEADERS, SOME_BYTES
from support.replication.strategies import GUIDS, TEXT, U32

from mqdssm.errors import DecodeError
from mqdssm.model.guid import NULL_GUID
from mqdssm.model.names import parse_format_name
from mqdssm.model.packet_messages import UnsupportedPacketError, message_of, packet_of
from mqdssm.model.packets import PACKET_BYTES_MAX, DebugHeader, UserPacket
from mqdssm.model.transport import Acknowledgements, DeliveryGuarantee, Message, MessageId
from mqdssm.wire.message_packets import MessageEncoder, MessageFramer
from mqdssm.wire.mqqb import decode_packet, encode_packet

QUEUES = [
    parse_format_name(name)
    for name in (
        r"DIRECT=OS:web01\private$\orders",
        r"DIRECT=OS:web01\private$\order",
        r"DIRECT=TCP:10.0.0.5\private$\orders",
        "PRIVATE=00000000-0000-0000-0000-000000000001\\2",
        "PUBLIC=00000000-0000-0000-0000-000000000002",
    )
]
MESSAGES = st.builds(
    Message,
    message_class=st.sampled_from([0, 2, 0x8000]),
    body=st.binary(max_size=20),
    body_type=st.sampled_from([0, 8]),
    label=st.sampled_from(["", "a", "ab", "\U0001f600"]),
    delivery=st.sampled_from(DeliveryGuarantee),
    priority=st.sampled_from([3, 7]),
    acknowledgements=st.sampled_from([Acknowledgements.NONE, Acknowledgements.FULL_RECEIVE]),
    administration_queue=st.none() | st.sampled_from(QUEUES),
    response_queue=st.none() | st.sampled_from(QUEUES),
    signature=st.sampled_from([b"", b"", b"signed"]),
    identifier=st.builds(MessageId, st.just(NULL_GUID) | GUIDS, U32),
    sent_at=U32,
    destination=st.sampled_from(QUEUES[:3]),
)
"""Messages that are often alike."""


@st.composite
def like_messages(draw: st.DrawFn) -> list[Message]:
    """Messages of which most have the properties of the one before, but for number, time and body."""
    messages = [draw(MESSAGES)]
    for _ in range(draw(st.integers(0, 6))):
        other = draw(MESSAGES)
        if draw(st.integers(0, 3)):
            identifier = MessageId(messages[-1].identifier.source, other.identifier.number)
            other = replace(messages[-1], identifier=identifier, sent_at=other.sent_at, body=other.body)
        messages.append(other)
    return messages


@given(like_messages())
def test_like_messages_are_encoded_as_any_others(messages):
    encoder = MessageEncoder(NULL_GUID)
    for message in messages:
        assert encoder.encode(message) == encode_packet(packet_of(message, queue_manager_address=NULL_GUID))


def received(data: bytes):
    """What one packet is received as, without any memory."""
    packet = decode_packet(data)
    if not isinstance(packet, UserPacket) or packet.session is not None:
        return packet
    try:
        return message_of(packet)
    except UnsupportedPacketError:
        return packet


PLAIN = like_messages().map(
    lambda messages: [packet_of(message, queue_manager_address=NULL_GUID) for message in messages]
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "session": SESSION_HEADERS,
        "debug": st.builds(DebugHeader, queue=GUIDS),
        "extension_data": SOME_BYTES,
        "hop_count": st.integers(0, 3),
        "label": TEXT,
    },
)


@given(PLAIN, st.data())
def test_like_packets_are_decoded_as_any_others(packets, data):
    """Also with other packets between them, and with bodies of which a part counts."""
    framer = MessageFramer()
    for packet in packets:
        spare = replace(packet, allocated_body=packet.allocated_body + b"spare")
        others = (
            PACKETS | EXTRAS.map(lambda extras, packet=packet: replace(packet, **extras)) | st.just(spare)
        )
        image = encode_packet(data.draw(others) if data.draw(st.integers(0, 9)) < 3 else packet)
        assert framer.feed(image) == [received(image)]


def like_images() -> list[bytes]:
    """Packets of three like messages."""
    message = Message(body=b"body", label="x", destination=QUEUES[0])
    numbered = [replace(message, identifier=MessageId(NULL_GUID, number)) for number in range(3)]
    return [encode_packet(packet_of(one, queue_manager_address=NULL_GUID)) for one in numbered]


@given(st.data())
def test_changed_bytes_mean_the_same_behind_like_messages(data):
    """Or they are refused, with the same error."""
    *before, image = like_images()
    changed = bytearray(image)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    framers = [MessageFramer(), MessageFramer()]
    for like in before:
        framers[0].feed(like)

    def outcome(framer: MessageFramer):
        try:
            return framer.feed(bytes(changed)), framer.pending_bytes, str(framer.error)
        except DecodeError as error:
            return str(error)

    assert outcome(framers[0]) == outcome(framers[1])


def test_sizes_that_do_not_fit_are_refused_behind_like_messages():
    """PacketSize, MessageSize and AllocationBodySize are not common octets."""
    *before, image = like_images()
    body_size = (4).to_bytes(4, "little") * 2
    at = image.index(body_size)
    for sizes in ((5, 4), (4, 5), (5, 9), (0, 0), (4, 3), (0xFFFF_FFFF, 0xFFFF_FFFF)):
        framer = MessageFramer()
        for like in before:
            framer.feed(like)
        changed = image[:at] + b"".join(size.to_bytes(4, "little") for size in sizes) + image[at + 8 :]
        with pytest.raises(DecodeError) as refused:
            framer.feed(changed)
        with pytest.raises(DecodeError) as expected:
            decode_packet(changed)
        assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_what_no_packet_holds_is_refused_behind_like_messages(number):
    encoder = MessageEncoder(NULL_GUID)
    message = Message(body=b"body", destination=QUEUES[0])
    for _ in range(3):
        encoder.encode(message)
    with pytest.raises(ValueError, match="MessageID"):
        encoder.encode(replace(message, identifier=MessageId(NULL_GUID, number)))
    header = len(encoder.encode(replace(message, body=b"")))
    longest = replace(message, body=bytes(PACKET_BYTES_MAX - header))
    assert len(encoder.encode(longest)) == PACKET_BYTES_MAX
    with pytest.raises(ValueError, match="PacketSize"):
        encoder.encode(replace(longest, body=longest.body + b"x"))


def test_printed_frames_are_received_as_messages():
    framer = MessageFramer()
    for image in PACKETS_PRINTED * 3:
        assert framer.feed(image) == [received(image)]
