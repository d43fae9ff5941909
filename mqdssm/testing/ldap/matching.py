"""Evaluation of search filters as in slapd ([RFC4511] 4.5.1.7).

The result is true, false or undefined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import ge, le
from typing import Final, Protocol, TypeAlias

from mqdssm.directory import filters
from mqdssm.testing.ldap.rules import TYPES, MatchingType, Normal


class Normalized(Protocol):
    """Interface of an entry with normalized values."""

    def normalize(self, name: str) -> AbstractSet[Normal]:
        """Return the normalized values of an attribute, by its lower-case name."""


Test: TypeAlias = Callable[[Normalized], bool | None]
_BOUNDS: Final[Mapping[type, Callable[[Normal, Normal], bool]]] = {
    filters.GreaterOrEqual: ge,
    filters.LessOrEqual: le,
}


def test_of(node: filters.LdapFilter) -> Test:
    """Return a function that tests entries.

    The function returns True, False, or None if the filter is undefined.
    """
    match node:
        case filters.And(operands):
            return _all_of([test_of(operand) for operand in operands])
        case filters.Or(operands):
            return _any_of(operands)
        case filters.Not(operand):
            return _compile_not(test_of(operand))
        case filters.Present(attribute):
            return _compile_present(attribute.lower())
        case filters.Equal(attribute, value) | filters.Approx(attribute, value):
            return _compile_equal(attribute.lower(), value)
        case filters.GreaterOrEqual(attribute, value) | filters.LessOrEqual(attribute, value):
            return _compile_bound(attribute.lower(), value, _BOUNDS[type(node)])
        case filters.Substrings():
            return _compile_substrings(node)
    return _leave_undefined


def _leave_undefined(_entry: Normalized) -> None:
    return None


def _all_of(tests: Sequence[Test]) -> Test:
    def test(entry: Normalized) -> bool | None:
        result: bool | None = True
        for operand_test in tests:
            verdict = operand_test(entry)
            if verdict is False:
                return False
            if verdict is None:
                result = None
        return result

    return test


def _any_of(operands: Iterable[filters.LdapFilter]) -> Test:
    """Return the test of an OR; equal values of one attribute are compared together."""
    values: dict[str, set[Normal]] = {}
    tests: list[Test] = []
    for operand in _flatten(operands):
        name, normal = "", None
        if isinstance(operand, filters.Equal) and operand.attribute.lower() in TYPES:
            name = operand.attribute.lower()
            normal = TYPES[name].normalize(operand.value)
        if normal is None:
            tests.append(test_of(operand))
        else:
            values.setdefault(name, set()).add(normal)

    def test(entry: Normalized) -> bool | None:
        for name, accepted_values in values.items():
            if not accepted_values.isdisjoint(entry.normalize(name)):
                return True
        result: bool | None = False
        for operand_test in tests:
            verdict = operand_test(entry)
            if verdict:
                return True
            if verdict is None:
                result = None
        return result

    return test


def _flatten(operands: Iterable[filters.LdapFilter]) -> Iterator[filters.LdapFilter]:
    """Yield the operands of an OR, without further ORs among them."""
    for operand in operands:
        if isinstance(operand, filters.Or):
            yield from _flatten(operand.operands)
        else:
            yield operand


def _compile_not(operand: Test) -> Test:
    def test(entry: Normalized) -> bool | None:
        verdict = operand(entry)
        return None if verdict is None else not verdict

    return test


def _compile_present(name: str) -> Test:
    if name not in TYPES:
        return _leave_undefined
    return lambda entry: bool(entry.normalize(name))


def _compile_equal(name: str, value: bytes) -> Test:
    normal = TYPES[name].normalize(value) if name in TYPES else None
    if normal is None:
        return _leave_undefined
    return lambda entry: normal in entry.normalize(name)


def _compile_bound(name: str, value: bytes, compare: Callable[[Normal, Normal], bool]) -> Test:
    kind = TYPES.get(name)
    normal = None if kind is None or not kind.ordered else kind.normalize(value)
    if normal is None:
        return _leave_undefined

    def test(entry: Normalized) -> bool:
        for stored in entry.normalize(name):  # noqa: SIM110  any() costs more than the comparison
            if compare(stored, normal):
                return True
        return False

    return test


def _normalize_part(kind: MatchingType, part: bytes | None, *, ends: str) -> bytes | None:
    """Return a part of a substrings filter as slapd compares it.

    None if the part is not valid.

    A blank at an end that lies inside the value stays; blanks alone at the end of the value count as nothing.
    """
    if not part:
        return b""
    normal = kind.normalize(part)
    if not isinstance(normal, bytes):
        return None
    if normal == b" ":
        return b"" if ends == "left" else normal
    left = b" " if part[:1] == b" " and ends != "right" else b""
    right = b" " if part[-1:] == b" " and ends != "left" else b""
    return left + normal + right


def _compile_substrings(node: filters.Substrings) -> Test:
    name = node.attribute.lower()
    kind = TYPES.get(name)
    if kind is None or not kind.substrings:
        return _leave_undefined
    parts = [
        _normalize_part(kind, node.initial, ends="right"),
        *(_normalize_part(kind, part, ends="both") for part in node.any),
        _normalize_part(kind, node.final, ends="left"),
    ]
    normal = [part for part in parts if part is not None]
    if len(normal) < len(parts):
        return _leave_undefined
    initial, *middle, final = normal

    def holds(value: Normal) -> bool:
        if not isinstance(value, bytes) or not value.startswith(initial):
            return False
        at = len(initial)
        for part in middle:
            at = value.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return len(value) - at >= len(final) and value.endswith(final)

    return lambda entry: any(holds(value) for value in entry.normalize(name))
