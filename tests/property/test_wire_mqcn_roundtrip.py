"""Change notifications of both versions: both forms, both ways, whole, cut and changed."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from support.notification.strategies import BODIES, IMAGES, NOTIFICATIONS
from support.wire.interpreted import decode_interpreted, encode_interpreted

from mqdssm.errors import DecodeError
from mqdssm.wire.mqcn import LAYOUTS, decode, encode, show_message


def outcome(act, data):
    try:
        return "made", act(data)
    except DecodeError as error:
        return "refused", str(error)


@given(NOTIFICATIONS)
def test_round_trip(message):
    image = encode(message)
    layout = LAYOUTS[message.version]
    assert encode_interpreted(layout, message) + b"\0" == image
    assert decode(image) == decode_interpreted(layout, image[:-1]) == message
    assert show_message(image).error is None


@given(BODIES)
def test_a_body_is_what_a_parser_of_xml_reads(body):
    """The twin: Python's own XML parser finds the same in what we write."""
    root = ET.fromstring(encode(body)[2:-1].decode("utf-16-le"))
    assert root.tag == "Notification"
    assert {one.tag: one.text for one in root} == {
        "Event": str(int(body.event)),
        "ObjectGuid": str(body.object_guid).upper(),
        "DomainController": body.domain_controller,
    }


@given(NOTIFICATIONS, st.integers(0, 255))
def test_the_byte_behind_a_message_says_nothing(message, byte):
    image = encode(message)[:-1]
    assert decode(image) == decode(image + bytes([byte])) == message


@given(NOTIFICATIONS, st.data())
def test_cut_or_longer_is_refused(message, data):
    image = encode(message)[:-1]
    size = data.draw(st.integers(0, len(image) - 1))
    for wrong in (image[:size], image + b"\1\0"):
        kind, words = outcome(decode, wrong)
        shown = show_message(wrong)
        assert (kind, words) == ("refused", str(shown.error))


@given(NOTIFICATIONS, st.data())
def test_changed_bytes_mean_something_that_comes_back_or_are_refused_alike(message, data):
    image = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(image)))
        image[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    changed = bytes(image)
    kind, found = outcome(decode, changed)
    assert kind == "made" or str(show_message(changed).error) == found
    if kind == "made":
        assert decode(encode(found)) == found


@given(st.binary(max_size=200), st.sampled_from([b"\1\1", b"\2\1", *(one[:60] for one in IMAGES.values())]))
def test_noise_behind_a_beginning(noise, beginning):
    data = beginning + noise
    kind, found = outcome(decode, data)
    if kind == "made":
        assert decode(encode(found)) == found
    else:
        assert str(show_message(data).error) == found
