"""Replication messages of every kind: both forms, both ways, whole, cut and changed."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from support.replication.strategies import MESSAGES
from support.wire.interpreted import decode_interpreted, encode_interpreted

from mqdssm.errors import DecodeError
from mqdssm.wire.mqdsrp import LAYOUTS, decode, encode, show_message


def outcome(act, data):
    try:
        return "made", act(data)
    except DecodeError as error:
        return "refused", str(error)


@given(MESSAGES)
def test_round_trip(message):
    image = encode(message)
    layout = LAYOUTS[message.operation]
    assert encode_interpreted(layout, message) == image
    assert decode(image) == decode_interpreted(layout, image) == message
    assert show_message(image).error is None


@given(MESSAGES, st.data())
def test_cut_or_longer_is_refused(message, data):
    image = encode(message)
    size = data.draw(st.integers(0, len(image) - 1))
    for wrong in (image[:size], image + b"\0"):
        kind, words = outcome(decode, wrong)
        shown = show_message(wrong)
        assert (kind, words) == ("refused", str(shown.error))


@given(MESSAGES, st.data())
def test_changed_bytes_mean_themselves_or_are_refused_alike(message, data):
    image = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(image) - 1))
        image[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    changed = bytes(image)
    kind, found = outcome(decode, changed)
    assert kind == "made" or str(show_message(changed).error) == found
    if kind == "made":
        assert encode(found) == changed


@given(st.binary(max_size=200), st.sampled_from(sorted(LAYOUTS)))
def test_noise_behind_a_header(noise, operation):
    data = bytes(17) + bytes([operation]) + noise
    compiled = outcome(decode, data)
    assert compiled == outcome(partial(decode_interpreted, LAYOUTS[operation]), data)
    if compiled[0] == "made":
        assert encode(compiled[1]) == data
