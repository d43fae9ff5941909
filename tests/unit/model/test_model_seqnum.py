"""Sequence numbers against the byte-wise rules of [MC-MQDSRP] 2.2.2."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.model.seqnum import MAX, MIN, SequenceNumber

NUMBERS = st.integers(0, 2**64 - 1).map(SequenceNumber) | st.sampled_from([MIN, MAX])


def incremented(sn: bytes) -> bytes:
    """Increment as the text says it, element 8 first."""
    made = bytearray(sn)
    for i in range(7, -1, -1):
        made[i] = (made[i] + 1) % 256
        if made[i]:
            break
    return bytes(made)


def greater(sn1: bytes, sn2: bytes) -> bool:
    """Compare as the text says it, element 1 first."""
    for one, other in zip(sn1, sn2, strict=True):
        if one != other:
            return one > other
    return False


@pytest.mark.spec("MC-MQDSRP 2.2.2")
@given(NUMBERS)
def test_increment_is_the_specifications(number):
    expected = bytes(number) if number == MAX else incremented(bytes(number))  # decision R22
    assert bytes(number.next()) == expected
    if number != MAX:
        assert number.next().minus(1) == number


@pytest.mark.spec("MC-MQDSRP 2.2.2")
@given(NUMBERS, NUMBERS)
def test_comparison_is_the_specifications(one, other):
    assert (one > other) is greater(bytes(one), bytes(other))
    assert (one < other) is greater(bytes(other), bytes(one))
    assert (one == other) is (bytes(one) == bytes(other))


@pytest.mark.spec("MC-MQDSRP 2.2.2")
def test_the_predefined_numbers_have_eight_bytes():
    assert bytes(MIN) == bytes(8)
    assert bytes(MAX) == b"\xff" * 8
    assert bytes(SequenceNumber(0x0102)) == b"\0\0\0\0\0\0\x01\x02"


@given(NUMBERS, st.integers(0, 2**65))
def test_windows_never_wrap(number, count):
    assert number.minus(count) == max(int(number) - count, 0)
    assert number.plus(count) == min(int(number) + count, int(MAX))
    assert type(number.minus(count)) is type(number.plus(count)) is SequenceNumber


@given(NUMBERS)
def test_forms(number):
    assert SequenceNumber.unpack(bytes(number)) == SequenceNumber.parse(str(number)) == number
    assert f"{number}" == str(number) == str(int(number))
    for copied in (pickle.loads(pickle.dumps(number)), copy.deepcopy(number)):
        assert copied == number
        assert type(copied) is SequenceNumber
    assert eval(repr(number)) == number


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.0, "1", None])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        SequenceNumber(wrong)


@pytest.mark.parametrize("text", ["", "-1", " 1", "1_0", "0x1", "18446744073709551616", "٣", "1\n"])
def test_texts_that_are_none(text):
    with pytest.raises(ValueError, match=r"no "):
        SequenceNumber.parse(text)


@pytest.mark.parametrize("size", [0, 7, 9])
def test_packets_have_eight_bytes(size):
    with pytest.raises(ValueError, match=f"not {size}"):
        SequenceNumber.unpack(bytes(size))
