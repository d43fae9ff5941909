"""Conditions of searches as LDAP filters, and as tests on the results.

See decision M111. A condition is true or false of an object, as the object is read: an attribute that is not
populated satisfies no comparison. LDAP decides what it decides alike. Other parts of a condition are left out
of the filter. The filter then finds too many objects, and the results are tested.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mqdssm.directory.filters import FALSE, TRUE, LdapFilter, Not, Present, Substrings, all_of, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.events.attributes import check_names
from mqdssm.events.criteria import (
    Residual,
    Verdict,
    check_value,
    is_exact,
    is_one_of_several,
    make_text_key,
    to_ldap,
    to_residual,
)
from mqdssm.model.base import DirectoryObject
from mqdssm.model.expressions import AllOf, AnyOf, Condition, Existence, Opposite, Pattern, ValueComparison
from mqdssm.model.filters import Filter
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access, Row
from mqdssm.tables.syntax import Kind

CONDITION_DEPTH_MAX: Final = 50
"""Levels of nested conditions: an LDAP filter has up to `FILTER_DEPTH_MAX`, and a leaf needs some of them."""

Given: TypeAlias = Filter | Condition[Any]
SiteOf: TypeAlias = Callable[[Filter], str | None]

_EMPTY: Final = ("", b"", ())
_TEXTS: Final = frozenset({Kind.TEXT, Kind.DN})


@dataclass(frozen=True, slots=True)
class ServerFilter:
    """LDAP filter for a condition.

    Attributes:
        filter: every object that satisfies the condition matches it; None: LDAP cannot express any part.
        is_exact: no other object matches it.
    """

    filter: LdapFilter | None
    is_exact: bool


def list_conjuncts(table: ElementTable, given: Iterable[Given]) -> list[Given]:
    """Return what must hold, as filters and conditions.

    A comparison becomes a filter of the specification.

    Raises:
        GenericDirectoryError: an attribute that cannot be asked for, or one of another element.
        ValueError: a value that the attribute cannot have, or a condition that nests too deeply.
    """
    conjuncts: list[Given] = []
    for each in given:
        if isinstance(each, Filter):
            check_names(table, [each.attribute])
            conjuncts.append(each)
            continue
        condition = each.resolve()
        check_condition(table, condition)
        parts = condition.operands if isinstance(condition, AllOf) else (condition,)
        conjuncts += [part.test if isinstance(part, ValueComparison) else part for part in parts]
    return conjuncts


def check_condition(table: ElementTable, condition: Condition[Any], depth: int = 1) -> None:
    """Refuse a condition that cannot be searched for.

    Raises:
        GenericDirectoryError: an attribute that cannot be asked for, or one of another element.
        ValueError: a value that the attribute cannot have, or a condition that nests too deeply.
    """
    if depth > CONDITION_DEPTH_MAX:
        raise ValueError(f"the condition nests deeper than {CONDITION_DEPTH_MAX} levels")
    match condition:
        case AllOf() | AnyOf():
            for operand in condition.operands:
                check_condition(table, operand, depth + 1)
        case Opposite():
            check_condition(table, condition.operand, depth + 1)
        case ValueComparison():
            check_value(table, _row_of(table, condition.kind, condition.test.attribute), condition.test.value)
        case Pattern():
            _check_pattern(table, condition)
        case Existence():
            row = _row_of(table, condition.kind, condition.attribute)
            if row.has_default and row.default not in _EMPTY:
                raise ValueError(
                    f"{table.name}.{row.adm} always has a value, {row.default!r} where none is stored: "
                    "compare with a value"
                )


def _row_of(table: ElementTable, kind: type[Any], name: str) -> Row:
    if kind is not table.element:
        raise GenericDirectoryError(
            f"{kind.__name__}.{name} is no attribute of {table.name}, which is searched for"
        )
    check_names(table, [name])
    return table.row(name)


def _check_pattern(table: ElementTable, condition: Pattern[Any]) -> None:
    row = _row_of(table, condition.kind, condition.attribute)
    if row.kind not in _TEXTS or row.multi:
        raise ValueError(f"{table.name}.{row.adm} has no text to look into: compare with a value")
    for part in condition.parts:
        _check_text(f"{table.name}.{row.adm}", part)
        if part and not part.strip():
            raise ValueError(f"{table.name}.{row.adm}: blanks alone cannot be looked for")


def _check_text(name: str, text: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{name} cannot contain {text!r}")


def describe(table: ElementTable, condition: Given) -> str:
    """Return a text that is equal for equal conditions.

    The conditions are those of `list_conjuncts`. The text does not depend on the program that runs.
    """
    match condition:
        case Filter():
            row = table.row(condition.attribute)
            value = check_value(table, row, condition.value)
            if row.multi:
                value = tuple(sorted(value, key=repr))  # a list has no order, and a set another one each time
            whole = "list " if isinstance(condition.value, list | tuple | set | frozenset) else ""
            return f"{condition.attribute} {condition.operator} {whole}{value!r}"
        case ValueComparison():
            return describe(table, condition.test)
        case Opposite():
            return f"not ({describe(table, condition.operand)})"
        case AllOf() | AnyOf():
            parts = sorted(describe(table, operand) for operand in condition.operands)
            return f"({f' {condition.WORD} '.join(parts)})"
        case Pattern():
            return f"{condition.attribute} like {condition.parts!r}"
        case _:
            return repr(condition)


# -- LDAP -------------------------------------------------------------------------------------------


def to_server_filter(
    table: ElementTable, condition: Given, session: Session, site_of: SiteOf, *, part_only: bool
) -> ServerFilter:
    """Return the LDAP filter for a condition that `list_conjuncts` returned.

    Args:
        table: of the element.
        condition: the condition.
        session: on the server.
        site_of: returns the DN of the site in a filter of Site1Identifier or Site2Identifier.
        part_only: the server is a global catalog, which lacks some attributes (decision M73).
    """
    compiler = _Compiler(table, session, site_of, part_only)
    return compiler.compare(condition) if isinstance(condition, Filter) else compiler.compile(condition)


@dataclass(frozen=True, slots=True)
class _Compiler:
    table: ElementTable
    session: Session
    site_of: SiteOf
    part_only: bool

    def compile(self, condition: Condition[Any], *, negated: bool = False) -> ServerFilter:
        """Return the filter of a condition, or of its opposite.

        Only exact parts are negated: the opposite of too many objects would be too few.
        """
        match condition:
            case Opposite():
                return self.compile(condition.operand, negated=not negated)
            case AllOf() | AnyOf():
                parts = [self.compile(operand, negated=negated) for operand in condition.operands]
                return _join_all(parts) if isinstance(condition, AllOf) is not negated else _join_any(parts)
            case ValueComparison():
                ldap = self.compare(condition.test)
            case Pattern():
                ldap = self._compile_like(condition)
            case Existence():
                ldap = self._exists(condition)
            case _:
                raise TypeError(f"{condition!r} is no condition")
        if not negated:
            return ldap
        return ServerFilter(Not(ldap.filter), is_exact=True) if ldap.filter and ldap.is_exact else _UNKNOWN

    def compare(self, expression: Filter) -> ServerFilter:
        """Return the filter of a comparison."""
        site_dn = self.site_of(expression)
        ldap = to_ldap(self.table, expression, self.session, site_dn=site_dn)
        if ldap is None or self._is_lacking(self.table.row(expression.attribute)):
            return _UNKNOWN
        return ServerFilter(ldap, is_exact=is_exact(self.table, expression))

    def _is_lacking(self, row: Row) -> bool:
        return self.part_only and not row.in_catalog  # to a global catalog no object has the attribute

    def _is_plain(self, row: Row) -> bool:
        """Return True if the values of the attribute are those of one LDAP attribute."""
        return (
            bool(row.access & Access.FILTER)
            and row.computed is None
            and row.kind is not Kind.TIME
            and row.adm != "Security"
            and not self._is_lacking(row)
        )

    def _exists(self, condition: Existence[Any]) -> ServerFilter:
        row = self.table.row(condition.attribute)
        if not self._is_plain(row):
            return _UNKNOWN
        return ServerFilter(Present(row.ldap[0]), is_exact=not is_one_of_several(row))

    def _compile_like(self, condition: Pattern[Any]) -> ServerFilter:
        """Return a filter for the words of the parts.

        Servers treat blanks in different ways.
        """
        row = self.table.row(condition.attribute)
        if not self._is_plain(row):
            return _UNKNOWN
        first, *middle, last = [[word.encode() for word in part.split()] for part in condition.parts]
        words = [*first[1:], *(word for part in middle for word in part), *last[:-1]]
        initial, final = (first[0] if first else None), (last[-1] if last else None)
        return ServerFilter(Substrings(row.ldap[0], initial, tuple(words), final), is_exact=False)


_UNKNOWN: Final = ServerFilter(None, is_exact=False)


def _join_all(parts: Sequence[ServerFilter]) -> ServerFilter:
    filters = [part.filter for part in parts if part.filter is not None]
    if parts and not filters:
        return _UNKNOWN
    return ServerFilter(all_of(*filters) if parts else TRUE, is_exact=all(part.is_exact for part in parts))


def _join_any(parts: Sequence[ServerFilter]) -> ServerFilter:
    filters = [part.filter for part in parts if part.filter is not None]
    if len(filters) < len(parts):
        return _UNKNOWN
    return ServerFilter(any_of(*filters) if parts else FALSE, is_exact=all(part.is_exact for part in parts))


# -- results ----------------------------------------------------------------------------------------


def to_test(table: ElementTable, condition: Given) -> Residual:
    """Return the test of a condition on the results."""
    if isinstance(condition, Filter):
        return to_residual(table, condition)
    match condition:
        case ValueComparison():
            return to_residual(table, condition.test)
        case Opposite():
            return _negate_test(to_test(table, condition.operand))
        case AllOf() | AnyOf():
            tests = [to_test(table, operand) for operand in condition.operands]
            return _join_tests(tests, decisive=isinstance(condition, AnyOf))
        case Pattern():
            return _test_like(table.row(condition.attribute), condition.parts)
        case Existence():
            return _exists(table.row(condition.attribute))
        case _:
            raise TypeError(f"{condition!r} is no condition")


def _negate_test(test: Residual) -> Residual:
    def judge(obj: DirectoryObject, unknown: frozenset[str]) -> Verdict:
        verdict = test.judge(obj, unknown)
        return None if verdict is None else not verdict

    return Residual(test.attributes, judge)


def _join_tests(tests: Sequence[Residual], *, decisive: bool) -> Residual:
    """Return the test of several tests; a verdict that is `decisive` decides alone."""

    def judge(obj: DirectoryObject, unknown: frozenset[str]) -> Verdict:
        verdicts = [test.judge(obj, unknown) for test in tests]
        return decisive if decisive in verdicts else None if None in verdicts else not decisive

    return Residual(frozenset().union(*(test.attributes for test in tests)), judge)


def _exists(row: Row) -> Residual:
    def holds(obj: DirectoryObject) -> bool:
        value = getattr(obj, row.field)
        return obj.is_populated(row.adm) and value is not None and value not in _EMPTY

    return Residual.of(row.adm, holds)


def _test_like(row: Row, parts: Sequence[str]) -> Residual:
    first, *middle, last = map(_make_part_key, parts)
    first, last = first.lstrip(" "), last.rstrip(" ")

    def holds(obj: DirectoryObject) -> bool:
        value = getattr(obj, row.field)
        if not obj.is_populated(row.adm) or value is None:
            return False
        text = make_text_key(value).strip(" ")
        end = len(text) - len(last)
        if not text.startswith(first) or not text.endswith(last) or len(first) > end:
            return False
        place = len(first)
        for part in middle:
            place = text.find(part, place, end)
            if place < 0:
                return False
            place += len(part)
        return True

    return Residual.of(row.adm, holds)


def _make_part_key(part: str) -> str:
    """Return the comparison key of a part, with a blank at each blank end."""
    folded = unicodedata.normalize("NFKC", part)
    return f"{' ' * folded.startswith(' ')}{make_text_key(part).strip(' ')}{' ' * folded.endswith(' ')}"
