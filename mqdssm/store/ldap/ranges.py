"""Objects and tombstones by their numbers, at the price of the answer ([MC-MQDSRP] 3.2.7.8, decision R26)."""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from mqdssm.directory.filters import And, Equal, GreaterOrEqual, LdapFilter, LessOrEqual, Not, any_of
from mqdssm.directory.session import Session
from mqdssm.engines.replication.operations import ChangesFound, LookupChanges, ObjectRead
from mqdssm.errors import MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import DirectoryChange, Properties, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DeletedObject
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store import rules
from mqdssm.store.ldap.stored_entry import Held, held_of, values_of
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.tables.numbering import (
    BUCKET,
    BUCKET_BITS,
    ENUMERATED_NUMBERS_MAX,
    NUMBER,
    PARTITION,
    SLICE_BUCKETS,
    bucket_of,
    number_of,
    number_value,
    slices,
)
from mqdssm.tables.property_facts import CHANGED

log = logging.getLogger(__name__)

TOMBSTONE: Final = Equal("objectClass", b"mqisTombstone")
SLICE_NUMBERS: Final = SLICE_BUCKETS << BUCKET_BITS
_TOMBSTONE_BYTES: Final = 64  # in a message, about


def range_filter(partition: Guid, first: int, last: int, buckets: Sequence[bytes] = ()) -> LdapFilter:
    """What has a number of a range; without buckets by the partition alone.

    What is in one of the buckets with a number that is of none of them is found, too: it is damaged (R110).
    """
    bounds = _within(first, last)
    if not buckets:
        return And((Equal(PARTITION, bytes(partition)), bounds))
    strange = Not(_within(_bucket_start(first), _bucket_end(last)))
    return And((any_of(*(Equal(BUCKET, one) for one in buckets)), any_of(bounds, strange)))


def _within(first: int, last: int) -> LdapFilter:
    return And((GreaterOrEqual(NUMBER, number_value(first)), LessOrEqual(NUMBER, number_value(last))))


def _bucket_start(number: int) -> int:
    return number >> BUCKET_BITS << BUCKET_BITS


def _bucket_end(number: int) -> int:
    return number | ((1 << BUCKET_BITS) - 1)


class NumberSearches:
    """Searches for numbers of one directory."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader

    def between(
        self,
        partition: Guid,
        first: int,
        last: int,
        *,
        within: LdapFilter | None = None,
        hint: int = SLICE_NUMBERS,
    ) -> Iterator[list[Held]]:
        """Everything with a number from `first` to `last`, ascending, slice by slice; memory holds one.

        A range is walked bucket by bucket; what is left of one that is wider than `ENUMERATED_NUMBERS_MAX` is
        asked for by partition.

        Args:
            partition: the partition.
            first: the lowest number.
            last: the highest one.
            within: what the entries must match besides.
            hint: how many numbers the first slice shall have; later ones grow as they find little.
        """
        start, width = first, min(max(hint, 1 << BUCKET_BITS), SLICE_NUMBERS)
        while start <= last and start - first < ENUMERATED_NUMBERS_MAX:
            end = min(last, (start | ((1 << BUCKET_BITS) - 1)) + width - (1 << BUCKET_BITS))
            buckets = [one for part in slices(partition, start, end) for one in part.buckets]
            found = self._sorted(range_filter(partition, start, end, buckets), within)
            yield found
            if len(found) < width // 2:
                width = min(2 * width, SLICE_NUMBERS)
            start = end + 1
        if start <= last:
            yield from self._wide(partition, start, last, within)

    def _wide(
        self, partition: Guid, first: int, last: int, within: LdapFilter | None
    ) -> Iterator[list[Held]]:
        """A range of millions of numbers, most of which nothing has: by those that are there."""
        wanted = range_filter(partition, first, last)
        either = wanted if within is None else And((wanted, within))
        numbers = sorted(int(entry.first(NUMBER) or b"0") for entry in self._reader.find(either, (NUMBER,)))
        while numbers:
            end = numbers[0] | (SLICE_NUMBERS - 1)
            some = [one for one in numbers if one <= end]
            heads = dict.fromkeys(one >> BUCKET_BITS for one in some)
            buckets = [bucket_of(partition, head << BUCKET_BITS) for head in heads]
            yield self._sorted(range_filter(partition, some[0], some[-1], buckets), within)
            numbers = numbers[len(some) :]

    def _sorted(self, wanted: LdapFilter, within: LdapFilter | None) -> list[Held]:
        either = wanted if within is None else And((wanted, within))
        found = [held for entry in self._reader.find(either) if (held := held_of(entry)).numbers is not None]
        for held in found:
            bucket = held.entry.get(BUCKET, ())
            if held.numbers is not None and bucket != (
                bucket_of(held.numbers.partition, held.numbers.number),
            ):
                raise MappingError(f"{held.dn}: its number {held.numbers.number} is not the one it was given")
        return sorted(found, key=_number)

    # -- the highest number

    def highest(self, partition: Guid, ceiling: int | None) -> tuple[SequenceNumber, SequenceNumber]:
        """The highest number of a partition, and the highest one that a damaged entry may have had.

        Args:
            partition: the partition.
            ceiling: no number is higher; None: nobody knows, and all of the partition is looked at.

        Returns:
            MIN for each that there is not.
        """
        doubtful = MIN
        if ceiling is not None:
            end, width = ceiling, 4 << BUCKET_BITS
            while end > 0 and ceiling - end < ENUMERATED_NUMBERS_MAX:
                start = max(1, end - width + 1)
                buckets = [one for part in slices(partition, start, end) for one in part.buckets]
                number, strange = self._highest(range_filter(partition, start, end, buckets))
                doubtful = max(doubtful, strange)
                if number:
                    return number, doubtful
                end, width = start - 1, min(2 * width, SLICE_NUMBERS - (1 << BUCKET_BITS))
            if end <= 0:
                return MIN, doubtful
        number, strange = self._highest(Equal(PARTITION, bytes(partition)))
        return number, max(doubtful, strange)

    def _highest(self, wanted: LdapFilter) -> tuple[SequenceNumber, SequenceNumber]:
        """The highest number of what matches; of one that is none, what its bucket says (decision R110)."""
        highest = doubtful = MIN
        for entry in self._reader.find(wanted, (NUMBER, BUCKET)):
            bucket = int.from_bytes((entry.first(BUCKET) or b"")[GUID_BYTES:], "big") << BUCKET_BITS
            try:
                highest = max(highest, _number_of(entry.first(NUMBER), bucket))
            except MappingError as error:
                log.error("an entry is damaged: %s: %s", entry.dn, error)  # noqa: TRY400
                doubtful = max(doubtful, SequenceNumber(_bucket_end(bucket)))
        return highest, doubtful

    # -- changes

    def changes(self, wanted: LookupChanges, purged: SequenceNumber) -> ChangesFound:
        """Objects and tombstones as changes, as many as a message may carry."""
        changes: list[DirectoryChange] = []
        size, before = 0, wanted.after
        if wanted.after >= wanted.up_to:
            return ChangesFound(changes=(), reached=wanted.up_to)
        for some in self.between(
            wanted.partition_id, int(wanted.after) + 1, wanted.up_to, hint=wanted.count_max
        ):
            # numbers are unique where the authority is sane; where it is not, nothing is lost here
            for number, together in groupby(some, key=lambda held: held.numbers and held.numbers.number):
                found = [change_of(held, purged) for held in together]
                if wanted.enterprise_scope:
                    found = [one for one in found if not _of_site(one[0])]
                size += sum(octets for _, octets in found)
                full = len(changes) + len(found) > wanted.count_max or size > wanted.bytes_max
                if full and changes and found:
                    return ChangesFound(changes=tuple(changes), reached=before)
                changes += [change for change, _ in found]
                before = number or before
        return ChangesFound(changes=tuple(changes), reached=wanted.up_to)


def _number_of(raw: bytes | None, bucket: int) -> SequenceNumber:
    """The number of an entry, which has to be of its bucket.

    Raises:
        MappingError: it is not, or it is no number.
    """
    number = MIN if raw is None else number_of(raw)
    if _bucket_start(number) != bucket:
        raise MappingError(f"its number {number} is not the one that it was given")
    return number


def _number(held: Held) -> tuple[int, bytes]:
    return 0 if held.numbers is None else held.numbers.number, bytes(held.identifier or b"")


def properties_in(held: Held) -> Properties:
    """What a change carries of an object: what cannot be read of it is none of it (decision R67).

    Raises:
        MappingError: the entry has lost its class or its GUID.
    """
    kind, identifier = _named(held)
    return rules.replicated(kind, identifier, values_of(held, kind, CHANGED[kind]))


def _named(held: Held) -> tuple[ObjectType, Guid]:
    if held.type is None or held.identifier is None:
        raise MappingError(f"{held.dn} has a number, and is no object: its class or its GUID is gone")
    return held.type, held.identifier


def read_of(held: Held | None) -> ObjectRead:
    """What Read Directory Object gives of an object."""
    if held is None or held.numbers is None:
        return ObjectRead(status=Hresult.MQDS_OBJECT_NOT_FOUND)
    return ObjectRead(
        status=Hresult.MQ_OK,
        identifier=held.identifier,
        partition_id=held.numbers.partition,
        seq_number=held.numbers.number,
        properties=properties_in(held),
    )


def change_of(held: Held, purged: SequenceNumber) -> tuple[DirectoryChange, int]:
    """An object or tombstone as synchronization carries it, and the octets it takes, about."""
    kind, identifier = _named(held)
    if held.numbers is None:
        raise MappingError(f"{held.dn} has no number")
    partition, number = held.numbers.partition, held.numbers.number
    if kind is not ObjectType.DELETED_OBJECT:
        properties = properties_in(held)
        size = rules.bytes_at_most(properties)
        return rules.object_change(partition, identifier, number, purged, properties), size
    known = values_of(held, kind, (Propid.D_SCOPE, Propid.D_OBJTYPE))
    grave = DeletedObject(
        identifier=identifier,
        partition_id=partition,
        seq_number=number,
        object_type=rules.type_said(known.get(Propid.D_OBJTYPE)),
        scope=rules.scope_said(known.get(Propid.D_SCOPE)),
    )
    return rules.deletion_change(grave, purged), _TOMBSTONE_BYTES


def _of_site(change: DirectoryChange) -> bool:
    """Whether it is a queue that only its own site sees."""
    return change.object_type is ObjectType.QUEUE and change.get(Propid.Q_SCOPE) == Scope.SITE
