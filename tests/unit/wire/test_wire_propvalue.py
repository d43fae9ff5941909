"""Property values: every form of [MS-MQCN] 2.2.3, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.replication.strategies import VALUES

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import PROPIDS, Variant
from mqdssm.wire.propvalue import (
    PROPERTY_CODECS,
    TEXT_UNITS_MAX,
    VALUE_BYTES_MAX,
    VECTOR_ITEMS_MAX,
    decode_value,
    encode_value,
)

GUID = Guid.parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
GUID_HEX = "ae4f1df8ec7dd011a76500a0c91e6bf6"  # [MS-DTYP] 2.3.4.3

FORMS = [
    (Variant.I2, -2, "feff"),
    (Variant.I4, -2, "feffffff"),
    (Variant.BOOL, True, "ffff"),
    (Variant.BOOL, False, "0000"),
    (Variant.I1, -2, "fe"),
    (Variant.UI1, 254, "fe"),
    (Variant.UI2, 0x1234, "3412"),
    (Variant.UI4, 0x12345678, "78563412"),
    (Variant.I8, -2, "fe" + 7 * "ff"),
    (Variant.UI8, 2**64 - 2, "fe" + 7 * "ff"),
    (Variant.LPWSTR, "aé", "6100e9000000"),
    (Variant.LPWSTR, "\U0001f4e8\u0100", "3dd8e8dc00010000"),
    (Variant.LPWSTR, "", "0000"),
    (Variant.BLOB, b"\1\2\3", "03000000010203"),
    (Variant.CLSID, GUID, GUID_HEX),
    (Variant.UI4S, (1, 2), "020000000100000002000000"),
    (Variant.CLSIDS, (GUID,), "01000000" + GUID_HEX),
    (Variant.LPWSTRS, ("a", ""), "0200000061000000" + "0000"),
    (Variant.BYTES, b"\6\2", "020000000602"),  # decision R25
]


@pytest.mark.spec("MS-MQCN 2.2.3.1")
@pytest.mark.spec("MS-MQCN 2.2.3.2")
@pytest.mark.spec("MS-MQCN 2.2.3.3")
@pytest.mark.spec("MS-MQCN 2.2.3.4")
@pytest.mark.spec("MS-MQCN 2.2.3.5")
@pytest.mark.spec("MS-MQCN 2.2.3.6")
@pytest.mark.spec("MS-MQCN 2.2.3.7")
@pytest.mark.spec("MS-MQCN 2.2.3.8")
@pytest.mark.spec("MS-MQCN 2.2.3.9")
@pytest.mark.spec("MS-MQCN 2.2.3.10")
@pytest.mark.spec("MS-MQCN 2.2.3.11")
@pytest.mark.spec("MS-MQCN 2.2.3.12")
@pytest.mark.spec("MS-MQCN 2.2.3.13")
@pytest.mark.spec("MS-MQCN 2.2.3.14")
@pytest.mark.spec("MS-MQCN 2.2.3.15")
@pytest.mark.spec("MS-MQCN 2.2.3")
@pytest.mark.parametrize(("variant", "value", "image"), FORMS)
def test_forms(variant, value, image):
    data = bytes.fromhex(image)
    assert encode_value(variant, value) == data
    found = decode_value(variant, data)
    assert found == value
    assert type(found) is type(value)
    for size in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            decode_value(variant, data[:size])
        assert caught.value.field == variant
    with pytest.raises(DecodeError, match="1 bytes left over"):
        decode_value(variant, data + b"\0")


@given(st.data())
def test_round_trip(data):
    variant = data.draw(st.sampled_from(list(VALUES)))
    value = data.draw(VALUES[variant])
    assert decode_value(variant, encode_value(variant, value)) == value


def test_every_property_has_a_form():
    assert PROPERTY_CODECS.keys() == PROPIDS.keys()
    assert {*VALUES, Variant.VARIANTS} == set(Variant)


@pytest.mark.parametrize(
    ("variant", "value"),
    [
        (Variant.UI1, 256),
        (Variant.UI1, -1),
        (Variant.UI2, "1"),
        (Variant.UI4, 1.5),
        (Variant.I2, 2**15),
        (Variant.BOOL, None),
        (Variant.LPWSTR, "a\0b"),
        (Variant.LPWSTR, 7),
        (Variant.LPWSTR, "x" * (TEXT_UNITS_MAX + 1)),
        (Variant.CLSID, b"short"),
        (Variant.CLSID, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        (Variant.BLOB, "text"),
        (Variant.BLOB, bytes(VALUE_BYTES_MAX + 1)),
        (Variant.CLSIDS, (b"short",)),
        (Variant.CLSIDS, GUID),
        (Variant.UI4S, (-1,)),
        (Variant.UI4S, (0,) * (VECTOR_ITEMS_MAX + 1)),
        (Variant.LPWSTRS, "text"),
        (Variant.LPWSTRS, ("a\0",)),
        (Variant.VARIANTS, ()),
    ],
)
def test_what_is_no_value_is_refused(variant, value):
    with pytest.raises(ValueError, match=r"\S"):
        encode_value(variant, value)


@pytest.mark.parametrize(
    ("variant", "image", "problem"),
    [
        (Variant.BOOL, "0100", "must be 0x0000 or 0xFFFF"),
        (Variant.BLOB, "ffffffff", "has 4294967295 bytes, at most"),
        (Variant.BLOB, "05000000ff", "needs 5 bytes, 1 left"),
        (Variant.CLSIDS, "ffffffff", "has 4294967295 elements, at most 65535"),
        (Variant.CLSIDS, "ffff0000", "needs 1048560 bytes, 0 left"),
        (Variant.LPWSTRS, "ffff0000" + "0000", "needs 131070 bytes, 2 left"),
        (Variant.LPWSTRS, "0200000061000000" + "6100", "no NUL at its end"),
        (Variant.LPWSTR, "00d80001", "no NUL at its end"),
        (Variant.LPWSTR, "0100" * 40_000, "longer than 32767 characters"),
    ],
)
def test_refused_before_anything_is_made(variant, image, problem):
    with pytest.raises(DecodeError, match=problem):
        decode_value(variant, bytes.fromhex(image))


def test_variants_without_a_form():
    with pytest.raises(ValueError, match="has no form"):
        decode_value(Variant.VARIANTS, b"")


def test_lone_surrogates_come_back():
    assert encode_value(Variant.LPWSTR, decode_value(Variant.LPWSTR, b"\x00\xd8\0\0")) == b"\x00\xd8\0\0"
