"""Octets of LDAP values as Arrow arrays, a whole batch at a time.

Each function takes the values that are there, and raises when one of them is not plainly right: the caller
then asks the mapping table value by value, which knows what is wrong and with which.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import MappingError
from mqdssm.tables.syntax import GUID_BYTES, TIME_SECONDS_MIN

Convert: TypeAlias = Callable[[Sequence[bytes]], pa.Array]
"""Values that are there -> an array of as many, without NULL."""

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_GUID_CHARACTERS: Final = 36
# places of the digits in 8-4-4-4-12, and the octets they show: the first three fields are little-endian
_DIGITS: Final = np.array([place for place in range(_GUID_CHARACTERS) if place not in {8, 13, 18, 23}])
_OCTETS: Final = np.array([3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16)])
_SHORT_TIME, _LONG_TIME_MIN = len("20240229123456Z"), len("20240229123456.0Z")
_TIME_DIGITS: Final = len("20240229123456")
_SECOND_US: Final = 1_000_000
_WEIGHTS: Final = np.array([1000, 100, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1], np.int64)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def texts(values: Sequence[bytes]) -> pa.Array:
    """UTF-8 text, checked.

    Raises:
        pa.ArrowInvalid: a value that is none.
    """
    return pa.array(values, pa.binary()).cast(pa.string())


def octets(values: Sequence[bytes]) -> pa.Array:
    """The octets themselves."""
    return pa.array(values, pa.binary())


def guids(values: Sequence[bytes]) -> pa.Array:
    """GUIDs as text: lower case with hyphens.

    Raises:
        MappingError: a value that has not 16 octets.
    """
    count = len(values)
    if any(len(value) != GUID_BYTES for value in values):
        raise MappingError("is no GUID")
    read = np.frombuffer(b"".join(values), np.uint8).reshape(count, GUID_BYTES)[:, _OCTETS]
    text = np.full((count, _GUID_CHARACTERS), ord("-"), np.uint8)
    text[:, _DIGITS[0::2]] = _HEX[read >> 4]
    text[:, _DIGITS[1::2]] = _HEX[read & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * _GUID_CHARACTERS
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def times(values: Sequence[bytes]) -> pa.Array:
    """Whole seconds of GeneralizedTime in UTC, all written in one form: a fraction is cut off.

    Raises:
        MappingError: a value that is none, a day that is not, or forms that differ.
    """
    count, size = len(values), len(values[0]) if values else _SHORT_TIME
    joined = b"".join(values)
    if (size != _SHORT_TIME and size < _LONG_TIME_MIN) or any(len(value) != size for value in values):
        raise MappingError("is no GeneralizedTime of one form")
    letters = np.frombuffer(joined, np.uint8).reshape(count, size)
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
    return pa.array(_seconds(digits) * _SECOND_US, pa.int64()).cast(_TIMESTAMP)


def _seconds(digits: Numbers) -> Numbers:
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


def distinct(load: Callable[[bytes], Any], arrow: pa.DataType) -> Convert:
    """Convert each different value once, by a function of the mapping's; few values come often.

    Args:
        load: a value to what the array holds of it; what it raises goes through.
        arrow: the type of the array.
    """

    def convert(values: Sequence[bytes]) -> pa.Array:
        coded = pa.array(values, pa.binary()).dictionary_encode()
        loaded = [load(value) for value in coded.dictionary.to_pylist()]
        return pa.array(loaded, arrow).take(coded.indices)

    return convert


def with_gaps(values: Sequence[bytes | None], convert: Convert, default: Any) -> pa.Array:
    """Convert the values that are there; the others become the default, or NULL if that is None."""
    there = [value for value in values if value is not None]
    if len(there) == len(values):
        return convert(there)
    array = convert(there)
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    places = np.cumsum(~missing) - 1
    spread = array.take(pa.array(places, pa.int64(), mask=missing))
    return spread if default is None else pc.fill_null(spread, pa.scalar(default, array.type))


def lists(values: Sequence[Sequence[bytes] | None], convert: Convert, *, empty: bool) -> pa.Array:
    """Convert lists of values.

    Args:
        values: of each entry; None where there is no attribute.
        convert: of the single values.
        empty: no attribute is an empty list, not NULL.
    """
    flat = [item for value in values if value is not None for item in value]
    sizes = np.fromiter((0 if value is None else len(value) for value in values), np.int32, len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    items = convert(flat)
    mask = None if empty else pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(offsets), items, type=pa.list_(pa.field("element", items.type)), mask=mask
    )
