"""Conversion of octets of LDAP values into values of columns.

A whole batch is converted at once.
Each function takes an array of octets without NULL, and raises an error if some value may be invalid. The
caller then converts value by value with the mapping table, which finds the invalid value and the reason.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import MappingError
from mqdssm.tables.syntax import GUID_BYTES, TIME_SECONDS_MIN

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""Octets of existing values -> an array of equal length, without NULL."""

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Letters: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_GUID_CHARACTERS: Final = 36
# positions of the digits in 8-4-4-4-12, and their octets: the first three fields are little-endian
_DIGITS: Final = np.array([place for place in range(_GUID_CHARACTERS) if place not in {8, 13, 18, 23}])
_OCTETS: Final = np.array([3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16)])
_SHORT_TIME, _LONG_TIME_MIN = len("20240229123456Z"), len("20240229123456.0Z")
_TIME_DIGITS: Final = len("20240229123456")
_SECOND_US: Final = 1_000_000
_WEIGHTS: Final = np.array([1000, 100, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1], np.int64)
_INTEGER: Final = r"\A(?:-?[1-9][0-9]{0,9}|0)\z"
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def convert_texts(values: pa.Array) -> pa.Array:
    """Convert values into UTF-8 text, checked.

    Raises:
        pa.ArrowInvalid: a value that is none.
    """
    return values.cast(pa.string())


def keep_octets(values: pa.Array) -> pa.Array:
    """Return the octets unchanged."""
    return values


def _view_letters(values: pa.Array, size: int) -> "Letters | None":
    """Return the octets of values of one size, a row for each value.

    Returns None if a value has another size.
    """
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if (np.diff(bounds) != size).any():
        return None
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(len(values), size)


def convert_guids(values: pa.Array) -> pa.Array:
    """Convert GUIDs into text: lower case with hyphens.

    Raises:
        MappingError: a value that has not 16 octets.
    """
    count = len(values)
    if not count:
        return pa.array([], pa.string())
    stored = _view_letters(values, GUID_BYTES)
    if stored is None:
        raise MappingError("is no GUID")
    read = stored[:, _OCTETS]
    text = np.full((count, _GUID_CHARACTERS), ord("-"), np.uint8)
    text[:, _DIGITS[0::2]] = _HEX[read >> 4]
    text[:, _DIGITS[1::2]] = _HEX[read & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * _GUID_CHARACTERS
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def convert_times(values: pa.Array) -> pa.Array:
    """Convert GeneralizedTime in UTC, all in one form, into whole seconds.

    A fraction is cut off.

    Raises:
        MappingError: a value that is none, a day that is not, or forms that differ.
    """
    if not len(values):
        return pa.array([], _TIMESTAMP)
    size = len(values[0].as_py())
    letters = _view_letters(values, size)
    if letters is None or (size != _SHORT_TIME and size < _LONG_TIME_MIN):
        raise MappingError("is no GeneralizedTime of one form")
    digits = letters[:, :_TIME_DIGITS].astype(np.int64) - ord("0")
    fraction = letters[:, _TIME_DIGITS + 1 : -1]
    right = (
        ((digits >= 0) & (digits <= 9)).all()
        and (letters[:, -1] == ord("Z")).all()
        and (size == _SHORT_TIME or np.isin(letters[:, _TIME_DIGITS], (ord("."), ord(","))).all())
        and ((fraction >= ord("0")) & (fraction <= ord("9"))).all()
    )
    if not right:
        raise MappingError("is no GeneralizedTime of one form")
    return pa.array(_count_seconds(digits) * _SECOND_US, pa.int64()).cast(_TIMESTAMP)


def _count_seconds(digits: Numbers) -> Numbers:
    parts = digits * _WEIGHTS
    year = parts[:, :4].sum(axis=1)
    month, day, hour, minute, second = (
        parts[:, place] + parts[:, place + 1] for place in range(4, _TIME_DIGITS, 2)
    )
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    seconds: Numbers = days.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second
    right = (
        ((month >= 1) & (month <= 12)).all()
        and (day >= 1).all()
        and (days.astype("datetime64[M]") == months).all()
        and (hour < 24).all()
        and (minute < 60).all()
        and (second < 60).all()
        and (seconds >= TIME_SECONDS_MIN).all()
    )
    if not right:
        raise MappingError("is no GeneralizedTime")
    return seconds


def make_integer_conversion(low: int, high: int, mask: int = -1) -> Convert:
    """Return the conversion for integers, of which many may be different.

    Args:
        low: least number.
        high: largest number.
        mask: bits that are kept: unsigned numbers are stored as signed ones.
    """

    def convert(values: pa.Array) -> pa.Array:
        texts_of_them = values.cast(pa.string())
        if not pc.all(pc.match_substring_regex(texts_of_them, _INTEGER), min_count=0).as_py():
            raise MappingError("is no integer")
        numbers = texts_of_them.cast(pa.int64())
        least, most = pc.min_max(numbers).values()
        if len(numbers) and not low <= least.as_py() <= most.as_py() <= high:
            raise MappingError("does not fit")
        return pc.bit_wise_and(numbers, pa.scalar(mask, pa.int64()))

    return convert


def make_distinct_conversion(load: Callable[[bytes], Any], arrow: pa.DataType) -> Convert:
    """Return a conversion of distinct values.

    The conversion calls a function of the mapping once for each different value.

    Args:
        load: converts a value; its errors are not caught.
        arrow: the type of the array.
    """

    def convert(values: pa.Array) -> pa.Array:
        coded = values.dictionary_encode()
        loaded = [load(value) for value in coded.dictionary.to_pylist()]
        return pa.array(loaded, arrow).take(coded.indices)

    return convert


def with_gaps(values: pa.Array, convert: Convert, default: Any) -> pa.Array:
    """Convert the existing values.

    The others become the default, or NULL if that is None.
    """
    if not values.null_count:
        return convert(values)
    array = convert(values.drop_null())
    is_present = np.asarray(values.is_valid())
    spread = array.take(pa.array(np.cumsum(is_present) - 1, pa.int64(), mask=~is_present))
    return spread if default is None else pc.fill_null(spread, pa.scalar(default, array.type))


def convert_lists(values: Sequence[Sequence[bytes] | None], convert: Convert, *, empty: bool) -> pa.Array:
    """Convert lists of values.

    Args:
        values: values of each entry; None without the attribute.
        convert: of the single values.
        empty: no attribute is an empty list, not NULL.
    """
    flat = [item for value in values if value is not None for item in value]
    sizes = np.fromiter((0 if value is None else len(value) for value in values), np.int32, len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    items = convert(pa.array(flat, pa.binary()))
    mask = None if empty else pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(offsets), items, type=pa.list_(pa.field("element", items.type)), mask=mask
    )
