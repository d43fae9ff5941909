"""Objects for directory lookups ([MS-MQDS] 3.1.6.7), preselected by LDAP filters.

A filter narrows the search by exact and indexed conditions: partition and numbers, GUID, path name. All other
conditions are checked by `mqdssm.store.lookup`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mqdssm.directory.filters import And, Equal, LdapFilter, Or
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MAX, MIN, SEQUENCE_NUMBER_BYTES
from mqdssm.store.ldap.ranges import NumberSearches
from mqdssm.store.ldap.stored_entry import IDENTITY_ATTRIBUTES, Held, held_of, values_of
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.store.lookup import Relation, Restriction, View
from mqdssm.store.rules import IDENTITY, NAME, NUMBERING, is_guid, view_of
from mqdssm.tables.numbering import PARTITION
from mqdssm.tables.properties import NAME as PATH_NAME
from mqdssm.tables.properties import PROPERTY_TABLES

_LOWER: Final = {Relation.PREQ: 0, Relation.PRGE: 0, Relation.PRGT: 1}
_UPPER: Final = {Relation.PREQ: 0, Relation.PRLE: 0, Relation.PRLT: -1}


class Finder:
    """Search for lookups; a `mqdssm.store.lookup.LookupSource`."""

    def __init__(self, reader: StoreSearches, ranges: NumberSearches) -> None:
        self._reader = reader
        self._ranges = ranges

    def views(self, object_type: ObjectType, restrictions: Sequence[Restriction]) -> Iterator[View]:
        """Yield the objects of a type: all that satisfy the restrictions, and maybe others.

        Raises:
            DirectoryError: while iterating.
        """
        for held in self._held(object_type, restrictions):
            if held.type is object_type and held.numbers is not None and held.identifier is not None:
                numbers = held.numbers
                values = values_of(held, object_type)
                yield view_of(object_type, held.identifier, (numbers.partition, numbers.number), values)

    def _held(self, object_type: ObjectType, restrictions: Sequence[Restriction]) -> Iterator[Held]:
        of_class = Equal("objectClass", PROPERTY_TABLES[object_type].classes[0].encode())
        partition = _partition(object_type, restrictions)
        bounds = _bounds(object_type, restrictions)
        if partition is not None and bounds is not None and bounds[0] > MIN:
            for some in self._ranges.between(partition, *bounds, within=of_class):
                yield from some
            return
        terms: list[LdapFilter] = [of_class]
        if partition is not None:
            terms.append(Equal(PARTITION, bytes(partition)))
        for one in restrictions:
            if one.relation == Relation.PREQ:
                terms += _indexed(object_type, one)
        yield from map(held_of, self._reader.find(And(tuple(terms))))


def _partition(object_type: ObjectType, restrictions: Sequence[Restriction]) -> Guid | None:
    """Return the partition that the restrictions select; None if they select none."""
    propid, _ = NUMBERING[object_type]
    for one in restrictions:
        if one.propid == propid and one.relation == Relation.PREQ and is_guid(one.value):
            return Guid(bytes(one.value))
    return None


def _bounds(object_type: ObjectType, restrictions: Sequence[Restriction]) -> tuple[int, int] | None:
    """Return the range of numbers that the restrictions select; None for all numbers."""
    _, propid = NUMBERING[object_type]
    low, high = int(MIN), int(MAX)
    for one in restrictions:
        if one.propid == propid and isinstance(one.value, bytes) and len(one.value) == SEQUENCE_NUMBER_BYTES:
            number = int.from_bytes(one.value, "big")
            if one.relation in _LOWER:
                low = max(low, number + _LOWER[Relation(one.relation)])
            if one.relation in _UPPER:
                high = min(high, number + _UPPER[Relation(one.relation)])
    return None if (low, high) == (MIN, MAX) else (low, high)


def _indexed(object_type: ObjectType, restriction: Restriction) -> list[LdapFilter]:
    """Return a filter for an equality that the server has an index for, as a list; else an empty list."""
    value = restriction.value
    if restriction.propid == IDENTITY[object_type] and is_guid(value):
        return [Or(tuple(Equal(name, bytes(value)) for name in IDENTITY_ATTRIBUTES))]
    if restriction.propid == NAME[object_type] and isinstance(value, str) and value.isascii() and value:
        return [Equal(PATH_NAME, value.encode())]
    return []
