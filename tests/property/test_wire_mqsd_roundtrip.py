"""Topology packets of both kinds: both forms, both ways, whole, cut and changed."""

from hypothesis import given
from hypothesis import strategies as st
from support.notification.strategies import REQUESTS, TOPOLOGY_PACKETS, replies
from support.wire.interpreted import decode_interpreted, encode_interpreted

from mqdssm.errors import DecodeError
from mqdssm.wire.mqsd import LAYOUTS, decode, encode, show_message


def outcome(act, data):
    try:
        return "made", act(data)
    except DecodeError as error:
        return "refused", str(error)


@given(TOPOLOGY_PACKETS)
def test_round_trip(packet):
    image = encode(packet)
    layout = LAYOUTS[packet.packet_type]
    assert encode_interpreted(layout, packet) == image
    assert decode(image) == decode_interpreted(layout, image) == packet
    assert show_message(image).error is None


@given(replies(), st.data())
def test_replies_cut_or_longer_are_refused(reply, data):
    image = encode(reply)
    size = data.draw(st.integers(0, len(image) - 1))
    for wrong in (image[:size], image + b"\0"):
        kind, words = outcome(decode, wrong)
        assert (kind, words) == ("refused", str(show_message(wrong).error))


@given(REQUESTS, st.data())
def test_requests_cut_or_longer_are_refused_or_of_ip(request, data):
    image = encode(request)
    size = data.draw(st.integers(0, len(image) - 1))
    kind, found = outcome(decode, image[:size])
    if 52 <= size < 60:
        assert (kind, encode(found)) == ("made", image[:52])
    else:
        assert (kind, found) == ("refused", str(show_message(image[:size]).error))
    longer = image + bytes(8)
    assert outcome(decode, longer) == ("refused", str(show_message(longer).error))


@given(TOPOLOGY_PACKETS, st.data())
def test_changed_bytes_mean_something_that_comes_back_or_are_refused_alike(packet, data):
    image = bytearray(encode(packet))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(image)))
        image[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    changed = bytes(image)
    kind, found = outcome(decode, changed)
    assert kind == "made" or str(show_message(changed).error) == found
    if kind == "made":
        assert decode(encode(found)) == found


@given(st.binary(max_size=200), st.sampled_from(sorted(LAYOUTS)))
def test_noise_behind_a_header(noise, kind):
    data = bytes([0, kind, 0, 0]) + noise
    made, found = outcome(decode, data)
    if made == "made":
        assert decode(encode(found)) == found
    else:
        assert str(show_message(data).error) == found
