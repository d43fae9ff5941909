"""Octets to Arrow, a whole column at a time: what comes out is what the mapping table says of each value."""

from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.errors import MappingError
from mqdssm.pipeline.frames.bulk_values import (
    convert_guids,
    convert_lists,
    convert_texts,
    convert_times,
    keep_octets,
    make_distinct_conversion,
    make_integer_conversion,
    with_gaps,
)
from mqdssm.tables import syntax

ERRORS = (MappingError, pa.ArrowInvalid)
NO_UTF8 = [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]


def octets_of(values: list[bytes | None]) -> pa.Array:
    """Values as readers give them: a part of a longer array."""
    return pa.array([b"before", *values, b"behind"], pa.binary())[1:-1]


@given(st.lists(st.uuids()))
def test_guids(values: list[UUID]) -> None:
    assert convert_guids(octets_of([value.bytes_le for value in values])).to_pylist() == [
        str(value) for value in values
    ]


@pytest.mark.parametrize("wrong", [b"", b"fifteen octets.", b"seventeen octets."])
def test_no_guids(wrong: bytes) -> None:
    with pytest.raises(MappingError):
        convert_guids(octets_of([UUID(int=1).bytes_le, wrong]))
    with pytest.raises(MappingError):
        convert_guids(octets_of([wrong, b"1" * (32 - len(wrong))]))  # lengths that only add up


@given(st.lists(st.text()))
def test_texts(values: list[str]) -> None:
    raws = [value.encode("utf-8", "surrogatepass") for value in values]
    assert convert_texts(octets_of(raws)).to_pylist() == values


@pytest.mark.parametrize("wrong", NO_UTF8)
def test_no_texts(wrong: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        convert_texts(octets_of([b"good", wrong]))


_TIMES = st.datetimes(datetime(1601, 1, 1), datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
_FORMS = st.sampled_from(["%Y%m%d%H%M%SZ", "%Y%m%d%H%M%S.0Z", "%Y%m%d%H%M%S,123Z"])


@given(st.lists(_TIMES), _FORMS)
def test_times(values: list[datetime], form: str) -> None:
    raws = [value.strftime(form).rjust(len(value.strftime(form)), "0").encode() for value in values]
    expected = [value.replace(microsecond=0, tzinfo=UTC) for value in values]
    assert convert_times(octets_of(raws)).to_pylist() == expected


@given(
    st.lists(st.binary(min_size=14, max_size=18) | st.from_regex(rb"[0-9]{14}(\.[0-9])?Z", fullmatch=True))
)
def test_a_time_that_the_table_refuses_is_never_taken(values: list[bytes]) -> None:
    try:
        found = convert_times(octets_of(values)).cast(pa.int64()).to_pylist()
    except MappingError:
        return
    assert [seconds // 1_000_000 for seconds in found] == [syntax.TIME.load(value) for value in values]


@pytest.mark.parametrize(
    "wrong",
    [
        b"20230229000000Z",
        b"20231301000000Z",
        b"20230001000000Z",
        b"20230100000000Z",
        b"20230101240000Z",
        b"20230101006000Z",
        b"20230101000060Z",
        b"16001231235959Z",
        b"20230101000000+",
        b"2023010100000:Z",
        b"20230101000000Z0",
    ],
)
def test_no_times(wrong: bytes) -> None:
    with pytest.raises(MappingError):
        convert_times(octets_of([b"20230101000000Z", wrong]))
    with pytest.raises(MappingError):
        convert_times(octets_of([wrong]))


@pytest.mark.parametrize("wrong", [b"20230101000000.Z", b"20230101000000;0Z", b"20230101000000.xZ"])
def test_no_times_with_a_fraction(wrong: bytes) -> None:
    with pytest.raises(MappingError):
        convert_times(octets_of([wrong]))


def test_each_different_value_is_loaded_once() -> None:
    seen = []

    def load(raw: bytes) -> int:
        seen.append(raw)
        return syntax.UINT32.load(raw)

    found = make_distinct_conversion(load, pa.int64())(octets_of([b"-1", b"0", b"-1", b"7", b"0"]))
    assert found.to_pylist() == [2**32 - 1, 0, 2**32 - 1, 7, 0]
    assert seen == [b"-1", b"0", b"7"]
    with pytest.raises(MappingError):
        make_distinct_conversion(load, pa.int64())(octets_of([b"7", b"007"]))


def test_gaps_become_the_default_or_null() -> None:
    assert with_gaps(octets_of([b"a", None, b"b", None]), convert_texts, None).to_pylist() == [
        "a",
        None,
        "b",
        None,
    ]
    assert with_gaps(octets_of([b"a", None, b"b"]), convert_texts, "").to_pylist() == ["a", "", "b"]
    assert with_gaps(octets_of([None, None]), convert_guids, None).to_pylist() == [None, None]
    assert with_gaps(octets_of([None]), convert_times, None).to_pylist() == [None]
    assert with_gaps(octets_of([]), keep_octets, b"").to_pylist() == []


_NUMBERS = st.integers(-(2**33), 2**33).map(lambda value: b"%d" % value)
_ODD = st.sampled_from(
    [b"", b"-", b"-0", b"00", b"+1", b" 1", b"1 ", b"1\n", b"1_0", b"0x1", b"\xff", b"\xd9\xa1"]
)


@pytest.mark.parametrize(
    ("kind", "convert"),
    [
        (syntax.UINT32, make_integer_conversion(syntax.INT32_MIN, syntax.UINT32_MAX, syntax.UINT32_MAX)),
        (syntax.INT32, make_integer_conversion(syntax.INT32_MIN, syntax.INT32_MAX)),
    ],
)
@given(values=st.lists(_NUMBERS | _ODD | st.integers(-9, 9).map(lambda value: b"%d" % value), max_size=3))
def test_numbers_are_those_of_the_table(values: list[bytes], kind, convert) -> None:
    try:
        expected = [kind.load(value) for value in values]
    except MappingError:
        with pytest.raises(ERRORS):
            convert(octets_of(values))
    else:
        assert convert(octets_of(values)).to_pylist() == expected


def test_lists() -> None:
    values = [[b"a", b"b"], None, [], [b"c"]]
    assert convert_lists(values, convert_texts, empty=True).to_pylist() == [["a", "b"], [], [], ["c"]]
    assert convert_lists(values, convert_texts, empty=False).to_pylist() == [["a", "b"], None, [], ["c"]]
    assert convert_lists([None], convert_guids, empty=True).to_pylist() == [[]]
