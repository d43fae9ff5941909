"""Packets of the binary protocol: every header, both forms, both ways, whole, cut, changed, in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.packets.strategies import (
    FINAL_ACKS,
    ORDER_ACKS,
    PACKETS,
    PACKETS_PRINTED,
    PINGS,
)
from support.wire.interpreted import decode_interpreted, encode_interpreted

from mqdssm.errors import DecodeError
from mqdssm.wire.mqqb import (
    FINAL_ACK,
    ORDER_ACK,
    decode_packet,
    decode_ping,
    encode_packet,
    encode_ping,
    layout_of,
)
from mqdssm.wire.packet_framer import PacketFramer


def outcome(act, data):
    try:
        return "made", act(data)
    except DecodeError as error:
        return "refused", str(error)


@given(PACKETS)
def test_round_trip(packet):
    image = encode_packet(packet)
    layout = layout_of(image)
    assert encode_interpreted(layout, packet) == image
    assert decode_packet(image) == decode_interpreted(layout, image) == packet


@given(PINGS)
def test_pings(ping):
    assert decode_ping(encode_ping(ping)) == ping


@given(st.one_of(ORDER_ACKS.map(lambda ack: (ORDER_ACK, ack)), FINAL_ACKS.map(lambda ack: (FINAL_ACK, ack))))
def test_bodies_of_acknowledgements(ack):
    layout, body = ack
    image = layout.encode(body)
    assert len(image) == 36
    assert layout.decode(image) == body


@given(PACKETS, st.data())
def test_cut_or_longer_packets_are_refused(packet, data):
    image = encode_packet(packet)
    size = data.draw(st.integers(0, len(image) - 1))
    for wrong in (image[:size], image + bytes(4)):
        with pytest.raises(DecodeError):
            decode_packet(wrong)


@given(PACKETS, st.data())
def test_changed_bytes_mean_something_that_comes_back_or_are_refused_alike(packet, data):
    image = bytearray(encode_packet(packet))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(image), 200) - 1))
        image[at] = data.draw(st.integers(0, 255))
    changed = bytes(image)
    kind, result = outcome(decode_packet, changed)
    if kind == "made":
        assert decode_interpreted(layout_of(changed), changed) == result
        assert decode_packet(encode_packet(result)) == result


@given(st.lists(PACKETS, max_size=4), st.data())
def test_a_stream_in_any_pieces(packets, data):
    stream = b"".join(map(encode_packet, packets))
    framer, received = PacketFramer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += framer.feed(stream[:size])
        stream = stream[size:]
    assert received == packets
    assert framer.pending_bytes == 0
    assert framer.error is None


@given(st.sampled_from(PACKETS_PRINTED), st.data())
def test_printed_frames_with_changed_flags(image, data):
    """Every bit of the flags has a meaning or none: what is accepted comes back."""
    changed = bytearray(image)
    for at in data.draw(st.lists(st.sampled_from([2, 3, 18, 19, *range(60, 64)]), max_size=3)):
        changed[at % len(image)] ^= 1 << data.draw(st.integers(0, 7))
    kind, result = outcome(decode_packet, bytes(changed))
    if kind == "made":
        assert decode_packet(encode_packet(result)) == result
