"""Packets out of a byte stream: pieces of any size, early refusals, bounded memory and time."""

import tracemalloc

import pytest
from support.packets.strategies import FRAMES, PACKETS_PRINTED

from mqdssm.errors import DecodeError
from mqdssm.wire.mqqb import decode_packet
from mqdssm.wire.packet_framer import PacketFramer

STREAM = b"".join(PACKETS_PRINTED)
ESTABLISH = FRAMES["mqqb-frame3-establish-request"]
MESSAGE = FRAMES["mqqb-frame7-user-message"]


@pytest.mark.parametrize("size", [1, 7, 16, 100, len(STREAM)])
def test_pieces_of_any_size(size):
    framer = PacketFramer()
    received = []
    for at in range(0, len(STREAM), size):
        received += framer.feed(STREAM[at : at + size])
        assert framer.pending_bytes < len(MESSAGE)
    assert received == [decode_packet(image) for image in PACKETS_PRINTED]
    assert framer.pending_bytes == 0


@pytest.mark.spec("MS-MQQB 3.1.5.1.2")
@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("11" + ESTABLISH[1:16].hex(), "VersionNumber"),
        (ESTABLISH[:4].hex() + "00" * 12, "Signature"),
        (MESSAGE[:8].hex() + "0f000000ffffffff", "PacketSize at offset 8: is 15, at least 16"),
        (MESSAGE[:8].hex() + "01004000ffffffff", "at most 4194304"),
        (ESTABLISH[:8].hex() + "3d020000ffffffff", "is 573, at most 572 in an internal packet"),
    ],
)
def test_a_wrong_beginning_is_refused_before_the_rest_arrives(start, problem):
    """Also a claim that no internal packet fulfils (decision T11)."""
    framer = PacketFramer()
    data = bytes.fromhex(start)
    assert framer.feed(data[:15]) == []
    with pytest.raises(DecodeError, match=problem):
        framer.feed(data[15:])
    with pytest.raises(DecodeError, match=problem):
        framer.feed(b"")
    assert framer.pending_bytes == 0


@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
def test_packets_before_a_malformed_one_are_received():
    framer = PacketFramer()
    assert framer.feed(ESTABLISH + bytes(16)) == [decode_packet(ESTABLISH)]
    assert "VersionNumber" in str(framer.error)
    with pytest.raises(DecodeError, match="VersionNumber"):
        framer.feed(ESTABLISH)


@pytest.mark.slow
def test_the_largest_packet_byte_by_byte_needs_its_size_and_linear_time():
    size = 4 << 20
    head = MESSAGE[:8] + size.to_bytes(4, "little") + MESSAGE[12:16]
    framer = PacketFramer()
    framer.feed(head)
    tracemalloc.start()
    for _ in range(200_000):  # quadratic time would be minutes
        framer.feed(b"x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert framer.pending_bytes == 200_016
    assert peak < 1_000_000
