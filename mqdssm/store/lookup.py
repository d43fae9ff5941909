"""Begin, Next and End Directory Lookup ([MS-MQDS] 3.1.6.7 to 3.1.6.9), the same for every store.

A store returns the objects of a type (`LookupSource`). This module selects those that satisfy an
MQRESTRICTION, sorts them and picks their columns. Text is compared without case, blobs (also sequence
numbers) byte by byte from the first. An object without a property satisfies only PRNE among all relations to
it.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import count, islice
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import BLOBS, INTEGERS, ObjectType, Propid, Variant
from mqdssm.model.queuenames import lower_each
from mqdssm.store.rules import is_value
from mqdssm.tables.properties import PROPERTY_TABLES

ITEMS_MAX: Final = 128
"""Limit of the restrictions, columns and sort keys of a lookup ([MS-MQDS] 2.2.12, 2.2.13, 2.2.15)."""
LOOKUPS_MAX: Final = 100
"""Limit of the open lookups, so that a client that never ends its lookups cannot fill the memory."""

View: TypeAlias = Mapping[Propid, PropertyValue]
"""Properties of an object, including its identifier, partition and number."""
Columns: TypeAlias = tuple[PropertyValue | None, ...]
"""Values of an object's columns; None is VT_NULL: the object does not have the property."""


class Relation(IntEnum):
    """Relation of a property to a value ([MS-MQDS] 2.2.11)."""

    PRLT = 0
    PRLE = 1
    PRGT = 2
    PRGE = 3
    PREQ = 4
    PRNE = 5


_COMPARE: Final[Mapping[int, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        Relation.PRLT: operator.lt,
        Relation.PRLE: operator.le,
        Relation.PRGT: operator.gt,
        Relation.PRGE: operator.ge,
        Relation.PREQ: operator.eq,
        Relation.PRNE: operator.ne,
    }
)
_EQUALITIES: Final = frozenset({Relation.PREQ, Relation.PRNE})
_ORDERED: Final = frozenset({*INTEGERS, *BLOBS, Variant.LPWSTR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """MQPROPERTYRESTRICTION ([MS-MQDS] 2.2.11).

    Attributes:
        relation: number of a `Relation`; other numbers are refused later.
        propid: the property.
        value: the value to compare with.
    """

    relation: int
    propid: Propid
    value: PropertyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSortKey:
    """MQSORTKEY ([MS-MQDS] 2.2.14)."""

    propid: Propid
    descending: bool = False


class LookupSource(Protocol):
    """Source of the objects for lookups."""

    def views(self, object_type: ObjectType, restrictions: Sequence[Restriction]) -> Iterator[View]:
        """Yield the objects of a type (also tombstones): all that satisfy the restrictions, and maybe others.

        Raises:
            DirectoryError: the directory cannot be reached.
        """
        ...


class Lookups:
    """The lookups of one server ([MS-MQDS] 3.1.1: LookupIteratorState)."""

    def __init__(self, source: LookupSource) -> None:
        self._source = source
        self._open: dict[int, Iterator[Columns]] = {}
        self._descriptors = count(1)

    def begin(
        self,
        restrictions: Sequence[Restriction],
        columns: Sequence[Propid],
        sort: Sequence[LookupSortKey] = (),
    ) -> tuple[Hresult, int | None]:
        """Begin Directory Lookup ([MS-MQDS] 3.1.6.7).

        Args:
            restrictions: all of them must hold.
            columns: the properties to return of each object; they also determine its type.
            sort: the most significant key first; empty for any order.

        Returns:
            MQ_OK and a descriptor, or an error and None. At most `LOOKUPS_MAX` lookups can be open.
        """
        problem = lookup_problem(restrictions, columns, sort)
        if problem is None and len(self._open) >= LOOKUPS_MAX:
            problem = Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES
        if problem is not None:
            return problem, None
        object_type = columns[0].object_type or ObjectType.DELETED_OBJECT
        views = (
            view for view in self._source.views(object_type, restrictions) if satisfies(view, restrictions)
        )
        descriptor = next(self._descriptors)
        self._open[descriptor] = (
            tuple(view.get(propid) for propid in columns) for view in _ordered(views, sort)
        )
        return Hresult.MQ_OK, descriptor

    def next(self, descriptor: int, objects_max: int = 1) -> tuple[Hresult, tuple[Columns, ...]]:
        """Lookup Directory Next ([MS-MQDS] 3.1.6.8): return the columns of more objects; empty at the end.

        Returns:
            MQ_OK and the columns, or MQ_ERROR_INVALID_HANDLE.
        """
        rows = self._open.get(descriptor)
        if rows is None:
            return Hresult.MQ_ERROR_INVALID_HANDLE, ()
        return Hresult.MQ_OK, tuple(islice(rows, max(objects_max, 1)))

    def end(self, descriptor: int) -> Hresult:
        """End Directory Lookup ([MS-MQDS] 3.1.6.9): return MQ_OK, even if it has ended already."""
        self._open.pop(descriptor, None)
        return Hresult.MQ_OK


def lookup_problem(
    restrictions: Sequence[Restriction], columns: Sequence[Propid], sort: Sequence[LookupSortKey]
) -> Hresult | None:
    """Return why a lookup is not valid ([MS-MQDS] 3.1.6.7); None if it is."""
    types = {propid.object_type for propid in columns}
    if len(types) != 1 or len(columns) > ITEMS_MAX or not types <= PROPERTY_TABLES.keys():
        return Hresult.MQ_ERROR_ILLEGAL_MQCOLUMNS
    if len(restrictions) > ITEMS_MAX:
        return Hresult.MQ_ERROR_INVALID_PARAMETER
    for one in restrictions:
        problem = _restriction_problem(one, types)
        if problem is not None:
            return problem
    if len(sort) > ITEMS_MAX:
        return Hresult.MQ_ERROR_ILLEGAL_SORT
    if len({key.propid for key in sort}) != len(sort):
        return Hresult.MQ_ERROR_MULTI_SORT_KEYS
    if any(key.propid.object_type not in types or key.propid.variant not in _ORDERED for key in sort):
        return Hresult.MQ_ERROR_ILLEGAL_SORT_PROPID
    return None


def _restriction_problem(restriction: Restriction, types: set[ObjectType | None]) -> Hresult | None:
    propid = restriction.propid
    if propid.object_type not in types:
        return Hresult.MQ_ERROR_ILLEGAL_RESTRICTION_PROPID
    if restriction.relation not in _COMPARE:
        return Hresult.MQ_ERROR_ILLEGAL_RELATION
    if propid.variant not in _ORDERED and restriction.relation not in _EQUALITIES:
        return Hresult.MQ_ERROR_ILLEGAL_RELATION
    return None if is_value(propid, restriction.value) else Hresult.MQ_ERROR_ILLEGAL_PROPERTY_VT


def satisfies(view: View, restrictions: Sequence[Restriction]) -> bool:
    """Return True if an object satisfies all restrictions ([MS-MQDS] 2.2.12)."""
    for one in restrictions:
        value = view.get(one.propid)
        if value is None:
            if one.relation != Relation.PRNE:
                return False
        elif not _COMPARE[one.relation](_comparable(value), _comparable(one.value)):
            return False
    return True


def _comparable(value: PropertyValue) -> Any:
    if isinstance(value, str):
        return lower_each(value)
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    return bytes(value) if isinstance(value, bytes) else value


def _ordered(views: Iterator[View], sort: Sequence[LookupSortKey]) -> Iterator[View]:
    """Yield objects in order; objects without a property come first in ascending order."""
    if not sort:
        yield from views
        return
    found = list(views)
    for key in reversed(sort):
        found.sort(key=lambda view, propid=key.propid: _sort_key(view, propid), reverse=key.descending)  # type: ignore[misc]
    yield from found


def _sort_key(view: View, propid: Propid) -> tuple[bool, Any]:
    value = view.get(propid)
    return (False, 0) if value is None else (True, _comparable(value))
