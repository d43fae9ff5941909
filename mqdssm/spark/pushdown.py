"""Translation of Spark's filters into an LDAP filter.

The LDAP filter finds all matching objects, and few others.
Spark checks again every row that it gets: the LDAP filter only saves rows. So it may find too many objects,
but never too few. Filters of Spark that are translated:

=======================  ==============================================================================
equality, ``IN``         texts (LDAP knows no case and joins blanks: more is found), numbers, Booleans,
                         enumerations, GUIDs, SIDs, octets, times, the DN
``<``, ``<=``, ``>``, …  signed and unsigned numbers, times
``LIKE 'x%'``            the ASCII letters at the beginning without the last: an accent may follow it
``IS NOT NULL``          every column that is copied from an attribute
=======================  ==============================================================================

Never sent to the server: conditions that an attribute's default meets, since servers find no object without
the attribute, nor one whose attribute the user may not search for; ``IS NULL``, since a value that cannot be
decoded is NULL, too; lists, computed values, attributes of the computer; attributes that the server's schema
cannot compare.

Comparisons that a server supports: the matching rules of its attributes, from its schema (RFC 4512 4.2).

A server evaluates a filter that it does not support to "undefined", without an error, and finds nothing. So a
filter is only sent if the schema says that the server can evaluate it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias
from uuid import UUID

from mqdssm.directory.filters import (
    And,
    Equal,
    GreaterOrEqual,
    LdapFilter,
    LessOrEqual,
    Present,
    Substrings,
    all_of,
    any_of,
)
from mqdssm.directory.profile import Profile
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError, MappingError
from mqdssm.events.attribute_plan import maker_of
from mqdssm.model.dn import DN
from mqdssm.pipeline.frames.bulk_columns import cell_of
from mqdssm.pipeline.frames.columns import DN_COLUMN, FrameType, name_enum
from mqdssm.tables.row import Computed, Holder, Row
from mqdssm.tables.schema_compare import Description, parse_description
from mqdssm.tables.syntax import (
    DESCRIPTOR,
    INT32_MAX,
    INT32_MIN,
    TIME_SECONDS_MAX,
    TIME_SECONDS_MIN,
    UINT32,
    UINT32_MAX,
    Kind,
)

_SUPERIORS_MAX = 20  # attribute types have a few; more is a cycle


@dataclass(frozen=True, slots=True)
class Matching:
    """Attributes that a server knows, and the matching rules for them.

    Attributes:
        types: lower-case name -> definition; empty if the server does not publish its schema.
        publishes_rules: the definitions name matching rules. Active Directory's do not: there the syntax
            alone decides, and all that the mapping uses can be compared.
    """

    types: Mapping[str, Description]
    publishes_rules: bool

    @classmethod
    def of(cls, session: Session, names: Iterable[str]) -> Self:
        """Read the definitions of some attributes from a server.

        Args:
            session: with the server.
            names: the attributes that matter.
        """
        subschema = session.root_dse.first("subschemaSubentry")
        if subschema is None:
            return cls({}, publishes_rules=False)
        try:
            entry = session.get(subschema.decode(errors="replace"), ["attributeTypes"])
        except DirectoryError:  # hidden from this user: nothing is known
            return cls({}, publishes_rules=False)
        return cls.parse([raw.decode(errors="replace") for raw in entry.all("attributeTypes")], names)

    @classmethod
    def parse(cls, definitions: Iterable[str], names: Iterable[str]) -> Self:
        """Parse the definitions of some attributes, and of their supertypes."""
        texts: dict[str, str] = {}
        rules = False
        for text in definitions:
            rules = rules or " EQUALITY " in text
            for name in _list_names(text):
                texts[name] = text
        types: dict[str, Description] = {}
        pending_names = [name.lower() for name in names]
        while pending_names:
            name = pending_names.pop()
            if name in types or name not in texts:
                continue
            try:
                types[name] = parse_description(texts[name])
            except ValueError:
                continue
            pending_names += [superior.lower() for superior in types[name].fields.get("SUP", ())]
        return cls(types, rules)

    def can_compare(self, attribute: str, rule: str) -> bool:
        """Return True if the server compares an attribute by a kind of rule.

        Args:
            attribute: its name.
            rule: ``EQUALITY``, ``ORDERING`` or ``SUBSTR``.
        """
        name = attribute.lower()
        for _ in range(_SUPERIORS_MAX):
            description = self.types.get(name)
            if description is None:
                return False
            if rule in description.fields or not self.publishes_rules:
                return True
            superiors = description.fields.get("SUP", ())
            if not superiors:
                return False
            name = superiors[0].lower()
        return False


def _list_names(definition: str) -> list[str]:
    """Return the names in a definition, in lower case.

    Only the names are parsed, because a server has thousands of definitions.
    """
    _, _, behind = definition.partition(" NAME ")
    text = behind.lstrip()
    if text.startswith("("):
        return [name.strip("'").lower() for name in text[1 : text.find(")")].split()]
    return [text[1:].partition("'")[0].lower()] if text.startswith("'") else []


VALUES_MAX: Final = 500
"""Limit of the values of one ``IN``: a server compares each candidate with all of them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)

Interval: TypeAlias = tuple[int | None, int | None]
"""Interval of integers with both ends included; None is no end."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one column, as Spark gives it.

    Attributes:
        column: its name.
        test: ``in``, ``<``, ``<=``, ``>``, ``>=``, ``prefix`` or ``present``.
        value: the value to compare with; for ``in`` a tuple.
    """

    column: str
    test: str
    value: Any = None


class _NeverAskedError(Exception):
    """A condition that cannot be sent to the server."""


_COMPARISONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GreaterThan": ">",
        "GreaterThanOrEqual": ">=",
        "LessThan": "<",
        "LessThanOrEqual": "<=",
        "StringStartsWith": "prefix",
    }
)


def term_of(offered: Any) -> Term | None:
    """Convert a filter of Spark into a term.

    Spark's filter is a `pyspark.sql.datasource.Filter`. Returns None if such a filter is never sent.
    """
    kind = type(offered).__name__
    path: Sequence[str] = getattr(offered, "attribute", ())
    if len(path) != 1:
        return None  # Not, or a part of a column
    if kind == "IsNotNull":
        return Term(path[0], "present")
    value = getattr(offered, "value", None)
    if value is None:
        return None
    if kind in {"EqualTo", "EqualNullSafe"}:
        return Term(path[0], "in", (value,))
    if kind == "In":
        values = tuple(item for item in value if item is not None)
        return Term(path[0], "in", values) if 0 < len(values) <= VALUES_MAX else None
    test = _COMPARISONS.get(kind)
    return None if test is None else Term(path[0], test, value)


def attributes_of(term: Term, frame: FrameType, profile: Profile) -> tuple[str, ...]:
    """Return the LDAP attributes that decide a term.

    The result is empty if the term cannot be sent to a server.
    """
    row = frame.rows.get(term.column)
    if row is None or row.multi or row.holder is Holder.COMPUTER or row.computed is not None:
        return ()
    maker, attributes = maker_of(row, str(frame.ldap_class), profile)
    if maker is None or row.kind is Kind.TIME:
        return () if row.syntax is DESCRIPTOR else attributes
    return row.ldap if row.kind is Kind.TEXT else ()  # the name in the DN is a value of cn


def to_ldap(term: Term, frame: FrameType, profile: Profile, matching: Matching) -> LdapFilter | None:
    """Return the LDAP filter that finds all objects for which a term is true.

    Returns None if there is no such filter.

    Args:
        term: the condition.
        frame: the type of frame.
        profile: of the server.
        matching: comparisons that the server supports.
    """
    row = frame.rows.get(term.column)
    try:
        if _is_name(row, term, frame):
            return _make_dn_filter(term, profile)
        attributes = attributes_of(term, frame, profile)
        column = next(candidate for candidate in frame.columns if candidate.name == term.column)
        if row is None or not attributes:
            return None
        if row.has_default and _HOLDS[term.test](cell_of(column, row.default), term.value):
            return None
        large = profile.holds_large_integers
        return any_of(*(_test(term, row, attribute, matching, large=large) for attribute in attributes))
    except (_NeverAskedError, MappingError, ValueError, TypeError, OverflowError):
        return None


def _is_name(row: Row | None, term: Term, frame: FrameType) -> bool:
    if row is None:
        return frame.ldap_class is None and term.column == DN_COLUMN.name
    return row.computed is Computed.FULL_PATH


def _make_dn_filter(term: Term, profile: Profile) -> LdapFilter:
    if term.test != "in":
        raise _NeverAskedError
    for value in term.value:
        DN.parse(value)  # raises for an invalid DN
    return any_of(*map(profile.build_dn_filter, term.value))


_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "in": lambda cell, values: cell in values,
        "<": lambda cell, value: cell < value,
        "<=": lambda cell, value: cell <= value,
        ">": lambda cell, value: cell > value,
        ">=": lambda cell, value: cell >= value,
        "prefix": lambda cell, value: cell.startswith(value),
        "present": lambda _cell, _value: True,
    }
)


def _test(term: Term, row: Row, attribute: str, matching: Matching, *, large: bool) -> LdapFilter:
    """Return the filter for one attribute.

    `large` says that its integers may exceed 2^31 - 1 (decision M11).
    """
    if term.test == "present":
        return Present(attribute)
    if term.test == "prefix" and row.kind is Kind.TEXT:
        return _make_prefix_filter(str(term.value), attribute, matching)
    if row.kind is Kind.TIME:
        return _make_range_filter(
            _list_second_intervals(term), attribute, matching, partial(_make_seconds_filter, row)
        )
    if row.kind is Kind.INTEGER:
        whole = partial(_make_unsigned_filter, large=large) if row.syntax is UINT32 else _make_signed_filter
        return _make_range_filter(_number_intervals(term), attribute, matching, whole)
    if term.test != "in" or not matching.can_compare(attribute, "EQUALITY"):
        raise _NeverAskedError
    raws = [_encode_cell(row, value) for value in term.value]
    return any_of(*(Equal(attribute, raw) for raw in raws if raw is not None))


def _encode_cell(row: Row, value: Any) -> bytes | None:
    """Convert a cell into the server's form; None if no cell can have this value.

    Raises:
        _NeverAskedError: the server may interpret the value differently.
    """
    match row.kind:
        case Kind.TEXT:
            if not value or not value.isprintable():
                raise _NeverAskedError
            return str(value).encode()
        case Kind.ENUMERATION:
            members = {name_enum(member): member for member in type(row.default)}
            return row.syntax.dump(members[value]) if value in members else None
        case Kind.GUID:
            return row.syntax.dump(UUID(value)) if str(UUID(value)) == value else None
        case _:
            raw: bytes = row.syntax.dump(value)
            return raw or None


def _make_prefix_filter(text: str, attribute: str, matching: Matching) -> LdapFilter:
    """Return a filter for values that begin with a text.

    The filter finds the values whatever the server's normalisation ([RFC4518]).
    """
    letters = next((n for n, letter in enumerate(text) if not " " <= letter <= "~"), len(text))
    # a combining character after the last letter would make it another letter
    safe = text[: max(letters - 1, 0)].rstrip(" ")
    if not text or text.startswith(" ") or not safe or not matching.can_compare(attribute, "SUBSTR"):
        return Present(attribute)
    return Substrings(attribute, initial=safe.encode())


def _make_range_filter(
    intervals: Iterable[Interval],
    attribute: str,
    matching: Matching,
    filter_of: Callable[[str, Interval], LdapFilter | None],
) -> LdapFilter:
    """Return the filter for values within one of some intervals.

    Raises:
        _NeverAskedError: the server has no matching rule for it.
    """
    filters = [filter_of(attribute, interval) for interval in intervals]
    terms = [term for term in filters if term is not None]
    rule = "EQUALITY" if all(_is_only_equal(term) for term in terms) else "ORDERING"
    if not matching.can_compare(attribute, rule):
        raise _NeverAskedError
    return any_of(*terms)


def _is_only_equal(search_filter: LdapFilter) -> bool:
    if isinstance(search_filter, Equal):
        return True
    return not isinstance(search_filter, And | GreaterOrEqual | LessOrEqual | Present) and all(
        map(_is_only_equal, getattr(search_filter, "operands", ()))
    )


def _number_intervals(term: Term) -> list[Interval]:
    values: Sequence[Any] = term.value if term.test == "in" else (term.value,)
    if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
        raise _NeverAskedError
    if term.test == "in":
        return [(value, value) for value in values]
    (value,) = values
    return [
        {
            "<": (None, value - 1),
            "<=": (None, value),
            ">": (value + 1, None),
            ">=": (value, None),
        }[term.test]
    ]


def _list_second_intervals(term: Term) -> list[Interval]:
    """Return intervals of seconds since 1970.

    Cells are whole seconds, stored times may have a fraction.
    """
    values: Sequence[Any] = term.value if term.test == "in" else (term.value,)
    if any(not isinstance(value, datetime) or value.tzinfo is None for value in values):
        raise _NeverAskedError
    # not as a float, which would round microseconds of the year 2300 to the next second
    seconds = [divmod(value - _EPOCH, _SECOND) for value in values]
    if term.test == "in":
        return [(whole, whole) for whole, rest in seconds if not rest]
    ((floor, rest),) = seconds
    ceiling = floor + 1 if rest else floor
    return [
        {
            "<": (None, ceiling - 1),
            "<=": (None, floor),
            ">": (floor + 1, None),
            ">=": (ceiling, None),
        }[term.test]
    ]


def _intersect(interval: Interval, low: int, high: int) -> tuple[int, int] | None:
    """Return the part of an interval that values can have; None if there is none."""
    first, last = interval
    first = low if first is None else max(first, low)
    last = high if last is None else min(last, high)
    return (first, last) if first <= last else None


def _make_edges(attribute: str, first: int | None, last: int | None) -> LdapFilter:
    edges: list[LdapFilter] = []
    if first is not None:
        edges.append(GreaterOrEqual(attribute, b"%d" % first))
    if last is not None:
        edges.append(LessOrEqual(attribute, b"%d" % last))
    return all_of(*edges)


def _make_signed_filter(attribute: str, interval: Interval) -> LdapFilter | None:
    inside = _intersect(interval, INT32_MIN, INT32_MAX)
    if inside is None:
        return None
    first, last = inside
    return Equal(attribute, b"%d" % first) if first == last else _make_edges(attribute, first, last)


def _make_unsigned_filter(attribute: str, interval: Interval, *, large: bool) -> LdapFilter | None:
    """Make the filter for unsigned numbers, which are stored as signed.

    Other programs may store them unsigned (M11).
    A domain controller stores none above 2^31 - 1: there such a bound would wrap and find everything.
    """
    inside = _intersect(interval, 0, UINT32_MAX)
    if inside is None:
        return None
    first, last = inside
    if first == last:
        stored = [first] if first <= INT32_MAX else [first - UINT32_MAX - 1, *([first] if large else ())]
        return any_of(*(Equal(attribute, b"%d" % number) for number in stored))
    if last <= INT32_MAX:
        return _make_edges(attribute, first, last)
    negative = _make_edges(attribute, max(first, INT32_MAX + 1) - UINT32_MAX - 1, last - UINT32_MAX - 1)
    return any_of(negative, _make_edges(attribute, first, None)) if large or first <= INT32_MAX else negative


def _make_seconds_filter(row: Row, attribute: str, interval: Interval) -> LdapFilter | None:
    inside = _intersect(interval, TIME_SECONDS_MIN, TIME_SECONDS_MAX)
    if inside is None:
        return None
    first, last = inside
    edges: list[LdapFilter] = [GreaterOrEqual(attribute, row.syntax.dump(first))]
    if last < TIME_SECONDS_MAX:  # includes the next second: its rows are dropped later
        edges.append(LessOrEqual(attribute, row.syntax.dump(last + 1)))
    return all_of(*edges)
