"""Functions of Spark SQL on Arrow arrays.

Arrow has no functions with exactly their meaning.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST_RDN: Final = r"^(?:[^,\\]|\\.)*,"
"""The first part of a DN with its comma, as rules write it."""

# syntax with one meaning in Java and RE2, without sets of characters that differ: no dot, \d, \w, \s, \b, $;
# RE2 takes a brace that counts nothing for itself, Java refuses it
_ALIKE: Final = re.compile(
    r"\^?(?:[^\\.$^\[\]{]|\{[0-9]+(?:,[0-9]*)?\}"
    r"|\\[-\\.$()\[\]{}|*+?nz0/]|\[\^?(?:[^\\\[\]&]|\\[-\\.$()\[\]{}|*+?n])+\]|\\x[0-9a-f]{2})*"
)


def check_pattern(pattern: str) -> str | None:
    r"""Return a regular expression for RE2, if it has the same meaning in Java.

    Returns None otherwise.
    ``\z`` is the only end that both know; sets may contain ``\xhh``, too.
    """
    plain = re.sub(r"\\x[0-9a-f]{2}", "-", pattern)
    if _ALIKE.fullmatch(plain) is None or "(?" in plain.replace("(?:", ""):
        return None
    if not pattern.isascii() or re.search(r"\\0", pattern.replace("\\\\", "")):
        return None
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return None
    return pattern


def decode_dictionary(datum: Any) -> Any:
    """Return the plain values of a column that may be dictionary-encoded."""
    return datum.dictionary_decode() if isinstance(datum, pa.DictionaryArray) else datum


def of_distinct(function: Callable[[Any], Any], datum: Any) -> Any:
    """Apply a function to single values.

    For a dictionary-encoded array it is called once for each distinct value.
    """
    if isinstance(datum, pa.DictionaryArray):
        return function(datum.dictionary).take(datum.indices)
    return function(datum)


def equal_or_both_null(left: Any, right: Any) -> Any:
    """Compare as SQL's ``<=>`` does: NULL equals NULL."""
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(pc.equal(left, right), False))


def is_in(datum: Any, values: pa.Array) -> Any:
    """Test as SQL's ``in`` does: NULL gives NULL."""
    return pc.if_else(pc.is_valid(datum), pc.is_in(datum, value_set=values), pa.scalar(None, pa.bool_()))


def contains(datum: Any, pattern: str) -> Any:
    """Test as SQL's ``contains`` does.

    A column without some character of the pattern is not searched.
    """
    if isinstance(datum, pa.StringArray) and _has_nowhere(datum, pattern):
        return (
            _repeat_false(len(datum))
            if not datum.null_count
            else pc.if_else(datum.is_valid(), False, _UNKNOWN)
        )
    return pc.match_substring(datum, pattern)


def _has_nowhere(values: pa.StringArray, pattern: str) -> bool:
    """Return True if no value contains some character of a pattern.

    Single characters are found fastest.
    """
    octets = spread(values)[1].tobytes()
    return any(octets.find(sign) < 0 for sign in {bytes([octet]) for octet in pattern.encode()} - _COMMON)


def spread(values: Any) -> "tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]":
    """Return the start of each text or blob of an array, and all octets.

    The end of the last one follows the starts.
    """
    _, offsets, data = values.buffers()
    if not len(values):
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if data is None or places[0] == places[-1]:
        return places, np.empty(0, np.uint8)
    return places, np.frombuffer(data, np.uint8)[places[0] : places[-1]]


FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd number without a pattern: 2**64 divided by the golden ratio."""
_WEIGHTS: Final = np.cumprod(np.full(256, FACTOR))
"""Factors of octets by their place, modulo 2**64."""


def _numbers_of_values(values: Any) -> "npt.NDArray[np.uint64]":
    """Return a 64-bit number for each text or blob, computed from its octets.

    There is no NULL among the values.
    """
    places, octets = spread(values)
    places = places - places[0]
    starts = places[:-1]
    within = np.arange(len(octets)) - np.repeat(starts, np.diff(places))
    terms = (octets.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[within % len(_WEIGHTS)]
    sums = np.zeros(len(octets) + 1, np.uint64)
    np.cumsum(terms, out=sums[1:])
    numbers: npt.NDArray[np.uint64] = (sums[places[1:]] - sums[starts]) * FACTOR
    return numbers ^ (numbers >> np.uint64(29))


def is_in_part(values: Any, part: int, parts: int) -> pa.BooleanArray:
    """Return a mask of the texts or blobs that are in one of several parts.

    Equal values are in one part. There is no NULL among the values.
    """
    return pa.array(_numbers_of_values(values) % np.uint64(parts) == part)


_COMMON: Final = frozenset(
    bytes([octet]) for octet in b"0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


def lower(datum: Any) -> Any:
    """Convert as SQL's ``lower`` does, with the full mappings of Unicode.

    Python makes them, as Arrow has none.
    """
    return _change_case(datum, pc.ascii_lower, str.lower)


def upper(datum: Any) -> Any:
    """Convert as SQL's ``upper`` does; see `lower`."""
    return _change_case(datum, pc.ascii_upper, str.upper)


def _change_case(datum: Any, of_ascii: Callable[[Any], Any], of_text: Callable[[str], str]) -> Any:
    if isinstance(datum, pa.Scalar):
        return pa.scalar(None if datum.as_py() is None else of_text(datum.as_py()), pa.string())
    changed = of_ascii(datum)
    non_ascii = pc.fill_null(pc.invert(pc.string_is_ascii(datum)), False)
    if non_ascii.true_count == 0:
        return changed
    new_texts = pa.array([of_text(text) for text in datum.filter(non_ascii).to_pylist()], pa.string())
    return pc.replace_with_mask(changed, non_ascii, new_texts)


def utf16_octets(datum: Any) -> Any:
    """Return the octets that a text takes in UTF-16.

    A character takes two, beyond the first plane four.
    """
    if isinstance(datum, pa.Scalar):
        text = datum.as_py()
        return pa.scalar(None if text is None else len(text.encode("utf-16-be")), pa.int64())
    double = pc.multiply(pc.utf8_length(datum).cast(pa.int64()), 2)
    non_ascii = pc.fill_null(pc.invert(pc.string_is_ascii(datum)), False)
    if non_ascii.true_count == 0:
        return double
    lengths = [len(text.encode("utf-16-be")) for text in datum.filter(non_ascii).to_pylist()]
    return pc.replace_with_mask(double, non_ascii, pa.array(lengths, pa.int64()))


def part_of(datum: Any, delimiter: str, *, first: bool) -> Any:
    """Return the text before the first or behind the last delimiter.

    Without a delimiter it is the whole text.
    """
    values = _as_array(datum)
    pieces = pc.split_pattern(values, delimiter, max_splits=1, reverse=not first)
    return _as_found(_take_ends(pieces, first=first), datum)


def without_first_rdn(datum: Any) -> Any:
    """Return a DN without its first RDN (`FIRST_RDN`).

    A DN without a comma is returned whole.
    """
    values = _as_array(datum)
    pieces = pc.split_pattern(values, ",", max_splits=1)
    rest = _take_ends(pieces, first=False)
    if _has_nowhere(values, "\\"):
        return _as_found(rest, datum)
    # a comma after a backslash may be escaped or not: the expression decides
    tricky = pc.fill_null(pc.match_substring(_take_ends(pieces, first=True), "\\"), False)
    if tricky.true_count:
        cut = [_FIRST_RDN.sub("", text, count=1) for text in values.filter(tricky).to_pylist()]
        rest = pc.replace_with_mask(rest, tricky, pa.array(cut, pa.string()))
    return _as_found(rest, datum)


# Java's dot matches no line end; Python's dot excludes only the first of these
_FIRST_RDN: Final = re.compile(r"^(?:[^,\\]|\\[^\n\r\x85\u2028\u2029])*,")


def _as_array(datum: Any) -> pa.Array:
    return pa.array([datum.as_py()], datum.type) if isinstance(datum, pa.Scalar) else datum


def _as_found(values: pa.Array, datum: Any) -> Any:
    return values[0] if isinstance(datum, pa.Scalar) else values


def _take_ends(pieces: pa.Array, *, first: bool) -> pa.Array:
    """Return the first or last element of each row of a list.

    A row that is not NULL has at least one.
    """
    starts = pieces.offsets.slice(0, len(pieces)) if first else pc.subtract(pieces.offsets.slice(1), 1)
    valid = pc.is_valid(pieces)
    return pieces.values.take(pc.if_else(valid, starts, pa.scalar(None, pa.int32())))


def any_of(datum: Any, test: Callable[[pa.Array], pa.Array]) -> Any:
    """Test as SQL's ``exists`` does.

    The result is true if an element passes, else NULL if one is unknown. It is NULL for NULL.
    """
    values = _as_array(datum)
    parents = pc.list_parent_indices(values)
    results = test(pc.list_flatten(values))
    passed = _find_rows_with(parents, results, len(values), True)
    unknown = _find_rows_with(parents, pc.is_null(results), len(values), True)
    null = pa.scalar(None, pa.bool_())
    result = pc.if_else(passed, True, pc.if_else(unknown, null, False))
    return _as_found(pc.if_else(pc.is_valid(values), result, null), datum)


def _find_rows_with(parents: pa.Array, results: pa.Array, rows: int, expected: bool) -> pa.Array:
    hits = parents.filter(pc.fill_null(pc.equal(results, expected), False))
    if not len(hits):
        return _repeat_false(rows)
    return pc.is_in(of_numbers(np.arange(rows)).cast(parents.type), value_set=hits)


def _repeat_false(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(False), rows)


def display_function(kind: pa.DataType, chars_max: int) -> Callable[[Any], Any] | None:
    """Return the function that makes values of a type text for messages.

    Returns None if such values are not shown.
    """
    if kind == pa.string():
        return lambda datum: pc.utf8_slice_codeunits(datum, 0, chars_max)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return lambda datum: pc.cast(datum, pa.string())
    if pa.types.is_timestamp(kind):
        return _format_time
    if pa.types.is_list(kind) and kind.value_type == pa.string():
        return lambda datum: pc.utf8_slice_codeunits(pc.binary_join(datum, ", "), 0, chars_max)
    return None


def _format_time(datum: Any) -> Any:
    """Format a time in whole seconds.

    With a finer unit Arrow would show the fraction.
    """
    whole = pc.floor_temporal(datum, unit="second").cast(pa.timestamp("s", "UTC"))
    return pc.strftime(whole, "%Y-%m-%dT%H:%M:%SZ")


def matches(values: pa.Array, keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Join two arrays: return the row numbers of each pair of equal values.

    NULL equals nothing.
    Arrow's own join starts threads and imports 0.3 s of modules.
    """
    distinct = pc.drop_null(pc.unique(keys))
    of_values, of_keys = _number_values(values, distinct), _number_values(keys, distinct)
    order = np.argsort(of_keys, kind="stable")
    counts = np.bincount(of_keys[of_keys >= 0], minlength=len(distinct) + 1)
    starts = np.cumsum(counts) - counts + np.count_nonzero(of_keys < 0)
    number = np.where(of_values >= 0, counts[of_values], 0)
    left = np.repeat(np.arange(len(of_values)), number)
    within = np.arange(len(left)) - np.repeat(np.cumsum(number) - number, number)
    right = order[np.repeat(starts[of_values], number) + within]
    return of_numbers(left), of_numbers(right)


def _number_values(values: pa.Array, distinct: pa.Array) -> "npt.NDArray[np.int64]":
    positions = pc.fill_null(pc.index_in(values, value_set=distinct), -1)
    codes: npt.NDArray[np.int64] = positions.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def first_of_pairs(parents: pa.Array, values: pa.Array) -> pa.Array:
    """Return, in order, the rows at which a pair occurs first.

    A pair is a number and a value; rows are given by number.
    """
    codes = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    pairs = parents.to_numpy(zero_copy_only=False).astype(np.int64) * (len(values) + 1) + codes
    return of_numbers(np.sort(np.unique(pairs, return_index=True)[1]))


def of_numbers(numbers: "npt.NDArray[Any]") -> pa.Array:
    """Convert numbers of numpy into a 64-bit array.

    Arrow's own conversion imports numpy's masked arrays.
    """
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])
