"""Attribute-filter expressions as LDAP filters, and as tests on the results.

The filter follows the abstract model ([MS-MQDMPR] 3.1.7.1.20): an unset LDAP attribute has its default
(decision M33); what LDAP compares otherwise than the model, or does not hold, is tested on the results
(M17, M34).
"""

import operator
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias, TypeGuard

from pydantic import ValidationError

from mqdssm.directory.filters import (
    FALSE,
    And,
    Equal,
    GreaterOrEqual,
    LdapFilter,
    LessOrEqual,
    Not,
    Or,
    Present,
    all_of,
    any_of,
)
from mqdssm.directory.session import Session
from mqdssm.events.identification import parse_public_path
from mqdssm.events.references import key_of
from mqdssm.model.base import DirectoryObject
from mqdssm.model.fieldtypes import describe_problems
from mqdssm.model.filters import Filter
from mqdssm.model.queuenames import lower_each
from mqdssm.tables.compute import dn_of_directory_path
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access, Computed, Missing, Row
from mqdssm.tables.syntax import INT32, INT32_MAX, TIME_SECONDS_MAX, UINT32, Kind

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


Verdict: TypeAlias = bool | None
"""Verdict on an object; None: it depends on an attribute that nobody knows (decision M73)."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Test on the results of a search.

    Attributes:
        attributes: the attributes that it reads, which must be requested.
        judge: the test, of an object and the attributes that the server does not know.
    """

    attributes: frozenset[str]
    judge: Callable[[DirectoryObject, frozenset[str]], Verdict]

    @classmethod
    def of(cls, attribute: str, holds: Callable[[DirectoryObject], bool]) -> Self:
        """Make the test of one attribute."""
        return cls(frozenset({attribute}), lambda obj, unknown: None if attribute in unknown else holds(obj))


def check_value(table: ElementTable, row: Row, value: object) -> Any:
    """Return a filter's value in the form of the element.

    Raises:
        ValueError: no value that the attribute can have.
    """
    if row.multi:
        value = tuple(value) if _is_list(value) else (value,)
    probe = table.element()
    try:
        setattr(probe, row.field, value)
    except ValidationError as error:
        raise ValueError(describe_problems(error)) from None
    checked = getattr(probe, row.field)
    if checked is None:
        raise ValueError(f"{table.name}.{row.adm} cannot be compared with nothing")
    match row.computed:
        case Computed.DIRECTORY_PATH:
            dn_of_directory_path(checked)
        case Computed.PATHNAME:
            parse_public_path(checked)
    return checked


def _is_list(value: object) -> TypeGuard[Collection[Any]]:
    return isinstance(value, (list, tuple, set, frozenset))


def to_residual(table: ElementTable, expression: Filter) -> Residual:
    """Return an expression as a test on the results.

    Raises:
        ValueError: a value that the attribute cannot have.
    """
    row = table.row(expression.attribute)
    expected = check_value(table, row, expression.value)
    compare = _COMPARE[expression.operator]
    membership = row.multi and not _is_list(expression.value)

    def holds(obj: DirectoryObject) -> bool:
        if not obj.is_populated(row.adm):
            return False
        actual = getattr(obj, row.field)
        if actual is None:
            return False
        if membership and expression.operator in {"==", "!="}:
            return (expected[0] in actual) == (expression.operator == "==")
        if row.adm == "Identifier" and obj.original_identifier == expected:
            return expression.operator == "=="  # as `build_identifier_filter` (M37)
        return compare(_make_key(row, actual), _make_key(row, expected))

    return Residual.of(row.adm, holds)


def to_ldap(
    table: ElementTable, expression: Filter, session: Session, *, site_dn: str | None = None
) -> LdapFilter | None:
    """Return an expression as an LDAP filter; None if LDAP can express no part.

    Every object that satisfies the expression matches the filter; others may match, too (see `is_exact`).

    Args:
        table: of the element.
        expression: what must hold.
        session: on the server.
        site_dn: where the site of a Site1Identifier or Site2Identifier is (3.1.6.4.5.4).

    Raises:
        ValueError: a value that the attribute cannot have.
    """
    row = table.row(expression.attribute)
    value = check_value(table, row, expression.value)
    if not row.access & Access.FILTER:
        return None
    if row.kind is Kind.TIME:
        return _build_time_filter(row, expression.operator, value, session)
    if row.computed is Computed.SITE:
        return (
            None
            if site_dn is None
            else _build_equality_filter(row, expression.operator, [site_dn.encode()], session)
        )
    if row.computed is not None or row.adm == "Security":
        return None
    if expression.operator in {"==", "!="}:
        if expression.operator == "!=" and (is_one_of_several(row) or _is_whole_list(row, expression)):
            return None
        matches = (
            session.profile.build_identifier_filter(table.ldap_class, value)
            if row.adm == "Identifier"
            else None
        )
        raws = list(row.encode(value))
        return _build_equality_filter(row, expression.operator, raws, session, value=value, matches=matches)
    if row.syntax is INT32:
        return _order_filter(row, expression.operator, row.encode(value)[0], value)
    return _build_unsigned_filter(row, expression.operator, value, session) if row.syntax is UINT32 else None


def is_exact(table: ElementTable, expression: Filter) -> bool:
    """Return True if the filter of `to_ldap` is exact.

    Otherwise the results are tested, too (decision M17).
    """
    row = table.row(expression.attribute)
    if row.computed is Computed.SITE:
        return expression.operator == "=="  # != also finds links whose site is gone
    if row.multi:
        return not _is_whole_list(row, expression)
    if is_one_of_several(row):
        return False
    if row.syntax is UINT32:
        value = check_value(table, row, expression.value)
        return expression.operator == "==" or (expression.operator == "!=" and value <= INT32_MAX)
    return True


def _is_whole_list(row: Row, expression: Filter) -> bool:
    """Return True if a list is compared with a list.

    LDAP can only test that values are present.
    """
    return row.multi and _is_list(expression.value) and len(expression.value) > 0


def is_one_of_several(row: Row) -> bool:
    """Return True if the entry may have several values for a single-valued attribute.

    See decision M10.
    """
    return row.one_of_set or row.ldap == ("cn",)


def sort_key(row: Row, value: Any) -> tuple[bool, Any]:
    """Return a sort key for values of an attribute.

    Unset values come last in ascending order.
    """
    return (True, 0) if value is None else (False, _make_key(row, value))


def _make_key(row: Row, value: Any) -> Any:
    """Return the key by which abstract values are compared.

    Text is compared without case, DNs as DNs.
    """
    if row.multi:
        return sorted(_make_item_key(row, item) for item in value)
    return _make_item_key(row, value)


def _make_item_key(row: Row, value: Any) -> Any:
    if row.computed is Computed.DIRECTORY_PATH:
        try:
            return dn_of_directory_path(value).normalized  # written in three ways (M15)
        except ValueError:
            return key_of(value)  # as a server damaged it
    match row.kind:
        case Kind.TEXT:
            return make_text_key(value)
        case Kind.DN:
            return key_of(value)
        case Kind.GUID:
            return value.bytes
        case _:
            return value


def make_text_key(value: str) -> str:
    """Return text normalized for caseIgnoreMatch ([RFC4518]).

    The result has no upper case and no repeated blanks.
    """
    text = value if value.isascii() else unicodedata.normalize("NFKC", value)
    text = lower_each(text)
    return " ".join(text.split()) if " " in text else text


def _build_equality_filter(
    row: Row,
    sign: str,
    raws: Sequence[bytes],
    session: Session,
    *,
    value: Any = None,
    matches: LdapFilter | None = None,
) -> LdapFilter:
    attribute = row.ldap[0]
    if matches is None:
        matches = (
            all_of(*(_build_equality_test(row, raw, value, session) for raw in raws))
            if raws
            else Not(Present(attribute))
        )
    if row.missing is not Missing.DEFAULT:
        # a missing attribute is unknown: it does not differ from any value
        return matches if sign == "==" else And((Present(attribute), Not(matches)))
    is_default = value == row.default
    if sign == "==":
        return any_of(matches, Not(Present(attribute))) if is_default and raws else matches
    # an unset attribute has the default: it differs from every other value
    if is_default:
        return And((Present(attribute), Not(Equal(attribute, raws[0])))) if raws else Present(attribute)
    return Not(matches if row.syntax is not UINT32 else Equal(attribute, raws[0]))


def _build_equality_test(row: Row, raw: bytes, value: Any, session: Session) -> LdapFilter:
    test = Equal(row.ldap[0], raw)
    if row.syntax is UINT32 and value > INT32_MAX and session.profile.holds_large_integers:
        # what other programs wrote unsigned (M11)
        return Or((test, Equal(row.ldap[0], b"%d" % value)))
    return test


def _order_filter(row: Row, sign: str, raw: bytes, value: Any) -> LdapFilter:
    attribute = row.ldap[0]
    edge: LdapFilter = LessOrEqual(attribute, raw) if "<" in sign else GreaterOrEqual(attribute, raw)
    if sign in {"<", ">"}:
        edge = And((edge, Not(Equal(attribute, raw))))
    return _include_default(row, sign, value, edge)


def _include_default(row: Row, sign: str, value: Any, edge: LdapFilter) -> LdapFilter:
    """Return the filter, or absence of the attribute where the default compares so."""
    if row.missing is Missing.DEFAULT and _COMPARE[sign](row.default, value):
        return Or((edge, Not(Present(row.ldap[0]))))
    return edge


def _build_unsigned_filter(row: Row, sign: str, value: int, session: Session) -> LdapFilter:
    """Return a filter for unsigned numbers above or below a number (M34).

    The filter also finds the number itself. Numbers above 2^31-1 are stored as negative ones, and on some
    servers also as they are (M11).
    """
    attribute, (raw,) = row.ldap[0], row.encode(value)
    natural, negative = GreaterOrEqual(attribute, b"0"), LessOrEqual(attribute, b"-1")
    edge: LdapFilter
    if "<" in sign:
        below = LessOrEqual(attribute, raw)
        edge = And((natural, below)) if value <= INT32_MAX else Or((natural, below))
    else:
        above = GreaterOrEqual(attribute, raw)
        edge = Or((above, negative)) if value <= INT32_MAX else And((above, negative))
        if value > INT32_MAX and session.profile.holds_large_integers:
            edge = Or((edge, GreaterOrEqual(attribute, b"%d" % value)))
    return _include_default(row, sign, value, edge)


def _build_time_filter(row: Row, sign: str, value: Any, session: Session) -> LdapFilter:
    """Return the filter for a time (decision M35).

    The first existing attribute of the profile's list counts.
    """
    attributes = (
        session.profile.create_time_attributes
        if row.ldap == ("whenCreated",)
        else session.profile.modify_time_attributes
    )
    result: LdapFilter = FALSE
    for attribute in reversed(attributes):
        test = _build_time_test(row, attribute, sign, value)
        result = test if result is FALSE else Or((test, And((Not(Present(attribute)), result))))
    return result


def _build_time_test(row: Row, attribute: str, sign: str, value: int) -> LdapFilter:
    """Return the filter for a time in one attribute.

    The attribute may have fractions of a second.
    """

    def at_least(seconds: int) -> LdapFilter:
        if seconds > TIME_SECONDS_MAX:
            return FALSE
        return GreaterOrEqual(attribute, row.syntax.dump(seconds))

    present, before, after = Present(attribute), Not(at_least(value)), at_least(value + 1)
    match sign:
        case "==":
            return And((at_least(value), Not(after)))
        case "!=":
            return And((present, Or((before, after))))
        case "<":
            return And((present, before))
        case "<=":
            return And((present, Not(after)))
        case ">":
            return after
        case _:
            return at_least(value)
