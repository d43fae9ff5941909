"""BER: published forms, every truncation, lengths that lie."""

import pytest

from mqdssm.directory import ber
from mqdssm.directory.ber import BerReader
from mqdssm.errors import DecodeError

# [X.690] 8.1.3 and 8.3, and the boundaries between the forms
INTEGERS = [
    (0, "020100"),
    (1, "020101"),
    (127, "02017f"),
    (128, "02020080"),
    (255, "020200ff"),
    (256, "02020100"),
    (32767, "02027fff"),
    (32768, "0203008000"),
    (2**31 - 1, "02047fffffff"),
    (-1, "0201ff"),
    (-128, "020180"),
    (-129, "0202ff7f"),
    (-32768, "02028000"),
    (-32769, "0203ff7fff"),
    (2**63 - 1, "02087fffffffffffffff"),
    (-(2**63), "02088000000000000000"),
]
LENGTHS = [
    (0, "00"),
    (127, "7f"),
    (128, "8180"),
    (255, "81ff"),
    (256, "820100"),
    (65535, "82ffff"),
    (65536, "83010000"),
    (ber.MESSAGE_BYTES_MAX, "8404000000"),
]


@pytest.mark.parametrize(("value", "octets"), INTEGERS)
def test_integer_both_ways(value, octets):
    assert ber.integer(value).hex() == octets
    assert BerReader.of(bytes.fromhex(octets)).integer("n") == value


@pytest.mark.parametrize(("size", "octets"), LENGTHS)
def test_length_both_ways(size, octets):
    assert ber.encode_length(size).hex() == octets
    assert ber.read_length(bytes.fromhex(octets), 0, "n") == (size, len(octets) // 2)


@pytest.mark.parametrize("form", ["05", "8105", "820005", "83000005", "8400000005"])
def test_longer_forms_of_a_length_are_read(form):
    octets = bytes.fromhex("04" + form) + b"hello"
    reader = BerReader.of(octets)
    assert reader.octets("value") == b"hello"
    reader.finish("value")


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        ("0480", "indefinite"),
        ("04850000000001aa", "5 octets"),
        ("04ff", "127 octets"),
        ("0482", "inside its length"),
        ("048400000000", None),
        ("0484000000", "inside its length"),
        ("04", "before its length"),
        ("0402aa", "needs 2 octets, 1 left"),
        ("0484ffffffff", "needs 4294967295 octets, 0 left"),
        ("0301aa", "tag 0x03 instead of 0x04"),
        ("", "is missing"),
    ],
)
def test_what_is_no_octet_string(octets, problem):
    reader = BerReader.of(bytes.fromhex(octets), "[X] 1")
    if problem is None:
        assert reader.octets("value") == b""
        return
    with pytest.raises(DecodeError, match=problem) as caught:
        reader.octets("value")
    assert caught.value.section == "[X] 1"
    assert caught.value.field == "value"


def test_boolean_both_ways():
    assert ber.boolean(value=True).hex() == "0101ff"
    assert ber.boolean(value=False).hex() == "010100"
    assert BerReader.of(bytes.fromhex("010101")).boolean("b") is True
    assert BerReader.of(bytes.fromhex("010100")).boolean("b") is False
    for wrong in ("0100", "01020000"):
        with pytest.raises(DecodeError, match="Boolean"):
            BerReader.of(bytes.fromhex(wrong)).boolean("b")


@pytest.mark.parametrize("octets", ["0200", "0209010000000000000000"])
def test_integers_of_no_octet_or_more_than_eight_are_refused(octets):
    with pytest.raises(DecodeError, match="an integer of"):
        BerReader.of(bytes.fromhex(octets)).integer("n")


def test_children_never_leave_their_parent():
    inner = bytes.fromhex("3003" + "0405aabbccddee")  # the sequence ends before its child does
    reader = BerReader.of(inner).enter(ber.SEQUENCE, "outer")
    with pytest.raises(DecodeError, match="needs 5 octets, 1 left"):
        reader.octets("child")


def test_spans_outside_the_buffer_are_refused():
    for position, end in ((0, 3), (2, 1), (-1, 1)):
        with pytest.raises(DecodeError, match="of 2 octets"):
            BerReader(b"\x04\x00", position, end)


def test_names_have_a_limit_and_are_utf8():
    at_limit = ber.octet_string("é" * (ber.NAME_BYTES_MAX // 2))
    assert BerReader.of(at_limit).name("dn") == "é" * (ber.NAME_BYTES_MAX // 2)
    with pytest.raises(DecodeError, match="65537 octets, more than 65536"):
        BerReader.of(ber.octet_string(b"a" * (ber.NAME_BYTES_MAX + 1))).name("dn")
    with pytest.raises(DecodeError, match="no UTF-8"):
        BerReader.of(bytes.fromhex("0401ff")).name("dn")
    assert BerReader.of(bytes.fromhex("040261ff")).words("text") == "a\\xff"


def test_optional_elements_and_the_end():
    reader = BerReader.of(bytes.fromhex("020105040161"))
    assert reader.at(ber.INTEGER)
    assert not reader.at(ber.OCTET_STRING)
    assert reader.integer("n") == 5
    with pytest.raises(DecodeError, match="3 octets too many"):
        reader.finish("outer")
    assert reader.octets("s") == b"a"
    assert not reader.has_more()
    assert not reader.at(ber.OCTET_STRING)
    reader.finish("outer")


def test_what_is_written_has_a_limit():
    with pytest.raises(ValueError, match="more than an LDAP message may hold"):
        ber.encode_length(ber.MESSAGE_BYTES_MAX + 1)
    with pytest.raises(ValueError, match="surrogates"):
        ber.octet_string("\ud800")
