"""Objects and tombstones by number, at the cost of the answer.

See [MC-MQDSRP] 3.2.7.8 and decision R26.
"""

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
from mqdssm.store.ldap.stored_entry import StoredEntry, stored_entry_of, values_of
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
    split_range,
)
from mqdssm.tables.property_rows import CHANGED

log = logging.getLogger(__name__)

TOMBSTONE: Final = Equal("objectClass", b"mqisTombstone")
SLICE_NUMBERS: Final = SLICE_BUCKETS << BUCKET_BITS
_TOMBSTONE_BYTES: Final = 64  # approximate octets in a message
_EMPTY_SLICES_MAX: Final = 2
"""Number of slices without entries before a search for the next bucket in use."""
_PROBED_BUCKETS_MAX: Final = 2048
"""Largest number of buckets in one search for a bucket in use: 80 KB; servers accept 256 KB and more."""


def build_range_filter(partition: Guid, first: int, last: int, buckets: Sequence[bytes] = ()) -> LdapFilter:
    """Return a filter for a range of numbers, by buckets or else by the partition.

    The filter also finds entries of the buckets whose number is in none of them: these are damaged (R110).
    """
    bounds = _number_filter(first, last)
    if not buckets:
        return And((Equal(PARTITION, bytes(partition)), bounds))
    strange = Not(_number_filter(_compute_bucket_start(first), _compute_bucket_end(last)))
    return And((any_of(*(Equal(BUCKET, bucket) for bucket in buckets)), any_of(bounds, strange)))


def _number_filter(first: int, last: int) -> LdapFilter:
    return And((GreaterOrEqual(NUMBER, number_value(first)), LessOrEqual(NUMBER, number_value(last))))


def _compute_bucket_start(number: int) -> int:
    return number >> BUCKET_BITS << BUCKET_BITS


def _compute_bucket_end(number: int) -> int:
    return number | ((1 << BUCKET_BITS) - 1)


class NumberSearches:
    """Searches by number in one directory."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader

    def read_between(
        self,
        partition: Guid,
        first: int,
        last: int,
        *,
        hint: int = SLICE_NUMBERS,
    ) -> Iterator[list[StoredEntry]]:
        """Yield all entries with numbers from `first` to `last`, as slices.

        The order is ascending. Only one slice is in memory.

        A range is searched bucket by bucket; beyond `ENUMERATED_NUMBERS_MAX` numbers the rest is searched by
        partition.

        Args:
            partition: the partition.
            first: the lowest number.
            last: the highest number.
            hint: size of the first slice in numbers; later slices grow while few entries are found.
        """
        start, width = first, min(max(hint, 1 << BUCKET_BITS), SLICE_NUMBERS)
        empty = 0
        while start <= last and start - first < ENUMERATED_NUMBERS_MAX:
            end = min(last, (start | ((1 << BUCKET_BITS) - 1)) + width - (1 << BUCKET_BITS))
            buckets = [bucket for part in split_range(partition, start, end) for bucket in part.buckets]
            entries = self._read_sorted(build_range_filter(partition, start, end, buckets))
            yield entries
            if len(entries) < width // 2:
                width = min(2 * width, SLICE_NUMBERS)
            start = end + 1
            empty = 0 if entries else empty + 1
            if empty >= _EMPTY_SLICES_MAX and start <= last:
                heads = range(
                    start >> BUCKET_BITS, (min(last, first + ENUMERATED_NUMBERS_MAX) >> BUCKET_BITS) + 1
                )
                start, empty = (heads.start + self._count_unused_buckets(partition, heads)) << BUCKET_BITS, 0
        if start <= last:
            yield from self._read_wide_range(partition, start, last)

    def _count_unused_buckets(self, partition: Guid, heads: range) -> int:
        """Return how many buckets at the beginning of a range are empty, for sure.

        A take-over skips a million numbers (`mqdssm.engines.replication.succession.GAP`).

        Args:
            partition: the partition.
            heads: the numbers of the buckets, ascending or descending.
        """
        skipped, size, is_growing = 0, 2 * SLICE_BUCKETS, True
        while skipped < len(heads):
            block = heads[skipped : skipped + size]
            buckets = (Equal(BUCKET, bucket_of(partition, head << BUCKET_BITS)) for head in block)
            if next(self._reader.find(any_of(*buckets), ("1.1",), page_size=1), None) is None:
                skipped += len(block)
                size = min(2 * size, _PROBED_BUCKETS_MAX) if is_growing else size
            elif len(block) > SLICE_BUCKETS:
                size, is_growing = len(block) // 2, False
            else:
                break
        return skipped

    def _read_wide_range(self, partition: Guid, first: int, last: int) -> Iterator[list[StoredEntry]]:
        """Yield the entries of a range of millions of numbers.

        Numbers in use are searched for first.
        """
        search_filter = build_range_filter(partition, first, last)
        numbers = sorted(
            int(entry.first(NUMBER) or b"0") for entry in self._reader.find(search_filter, (NUMBER,))
        )
        while numbers:
            end = numbers[0] | (SLICE_NUMBERS - 1)
            some = [number for number in numbers if number <= end]
            heads = dict.fromkeys(number >> BUCKET_BITS for number in some)
            buckets = [bucket_of(partition, head << BUCKET_BITS) for head in heads]
            yield self._read_sorted(build_range_filter(partition, some[0], some[-1], buckets))
            numbers = numbers[len(some) :]

    def _read_sorted(self, search_filter: LdapFilter) -> list[StoredEntry]:
        entries = [
            stored_entry
            for entry in self._reader.find(search_filter)
            if (stored_entry := stored_entry_of(entry)).numbers is not None
        ]
        for stored_entry in entries:
            bucket = stored_entry.entry.get(BUCKET, ())
            if stored_entry.numbers is not None and bucket != (
                bucket_of(stored_entry.numbers.partition, stored_entry.numbers.number),
            ):
                raise MappingError(
                    f"{stored_entry.dn}: its number {stored_entry.numbers.number} is not the one it was given"
                )
        return sorted(entries, key=_extract_sort_key)

    # -- the highest number

    def find_highest(self, partition: Guid, ceiling: int | None) -> tuple[SequenceNumber, SequenceNumber]:
        """Return the highest number of a partition, and of its damaged entries.

        The second number is the highest one that a damaged entry may have had.

        Args:
            partition: the partition.
            ceiling: upper limit of the numbers; None if it is not known, to search the whole partition.

        Returns:
            The two numbers; MIN for one that does not exist.
        """
        doubtful = MIN
        if ceiling is not None:
            end, width, empty = ceiling, 4 << BUCKET_BITS, 0
            while end > 0 and ceiling - end < ENUMERATED_NUMBERS_MAX:
                start = max(1, end - width + 1)
                buckets = [bucket for part in split_range(partition, start, end) for bucket in part.buckets]
                number, strange = self._find_highest(build_range_filter(partition, start, end, buckets))
                doubtful = max(doubtful, strange)
                if number:
                    return number, doubtful
                end, width = start - 1, min(2 * width, SLICE_NUMBERS - (1 << BUCKET_BITS))
                empty += 1
                if empty == _EMPTY_SLICES_MAX:
                    lowest = max(ceiling - ENUMERATED_NUMBERS_MAX, 0)
                    heads = range(end >> BUCKET_BITS, (lowest >> BUCKET_BITS) - 1, -1)
                    skipped = self._count_unused_buckets(partition, heads)
                    end = min(end, _compute_bucket_end((heads.start - skipped) << BUCKET_BITS))
            if end <= 0:
                return MIN, doubtful
        number, strange = self._find_highest(Equal(PARTITION, bytes(partition)))
        return number, max(doubtful, strange)

    def _find_highest(self, search_filter: LdapFilter) -> tuple[SequenceNumber, SequenceNumber]:
        """Return the highest number, and the highest end of a damaged entry's bucket.

        See decision R110.
        """
        highest = doubtful = MIN
        for entry in self._reader.find(search_filter, (NUMBER, BUCKET)):
            bucket = int.from_bytes((entry.first(BUCKET) or b"")[GUID_BYTES:], "big") << BUCKET_BITS
            try:
                highest = max(highest, _number_of(entry.first(NUMBER), bucket))
            except MappingError as error:
                log.error("an entry is damaged: %s: %s", entry.dn, error)  # noqa: TRY400
                doubtful = max(doubtful, SequenceNumber(_compute_bucket_end(bucket)))
        return highest, doubtful

    # -- changes

    def collect_changes(self, operation: LookupChanges, purged: SequenceNumber) -> ChangesFound:
        """Return objects and tombstones as changes, up to the size of a message."""
        changes: list[DirectoryChange] = []
        size, before = 0, operation.after
        if operation.after >= operation.up_to:
            return ChangesFound(changes=(), reached=operation.up_to)
        for some in self.read_between(
            operation.partition_id, int(operation.after) + 1, operation.up_to, hint=operation.count_max
        ):
            # an authority should give each number once; if it does not, no entry is lost here
            for number, together in groupby(
                some, key=lambda stored_entry: stored_entry.numbers and stored_entry.numbers.number
            ):
                pairs = [change_of(stored_entry, purged) for stored_entry in together]
                if operation.enterprise_scope:
                    pairs = [pair for pair in pairs if not _of_site(pair[0])]
                size += sum(octets for _, octets in pairs)
                full = len(changes) + len(pairs) > operation.count_max or size > operation.bytes_max
                if full and changes and pairs:
                    return ChangesFound(changes=tuple(changes), reached=before)
                changes += [change for change, _ in pairs]
                before = number or before
        return ChangesFound(changes=tuple(changes), reached=operation.up_to)


def _number_of(raw: bytes | None, bucket: int) -> SequenceNumber:
    """Return the number of an entry, after checking that it belongs to its bucket.

    Raises:
        MappingError: it does not, or it is not a number.
    """
    number = MIN if raw is None else number_of(raw)
    if _compute_bucket_start(number) != bucket:
        raise MappingError(f"its number {number} is not the one that it was given")
    return number


def _extract_sort_key(stored_entry: StoredEntry) -> tuple[int, bytes]:
    return 0 if stored_entry.numbers is None else stored_entry.numbers.number, bytes(
        stored_entry.identifier or b""
    )


def extract_properties(stored_entry: StoredEntry) -> Properties:
    """Return the properties in a change of an object.

    Unreadable ones are left out (decision R67).

    Raises:
        MappingError: the entry has lost its class or its GUID.
    """
    kind, identifier = _require_identity(stored_entry)
    return rules.select_replicated(kind, identifier, values_of(stored_entry, kind, CHANGED[kind]))


def _require_identity(stored_entry: StoredEntry) -> tuple[ObjectType, Guid]:
    if stored_entry.type is None or stored_entry.identifier is None:
        raise MappingError(f"{stored_entry.dn} has a number, and is no object: its class or its GUID is gone")
    return stored_entry.type, stored_entry.identifier


def read_of(stored_entry: StoredEntry | None) -> ObjectRead:
    """Return an entry as the result of Read Directory Object."""
    if stored_entry is None or stored_entry.numbers is None:
        return ObjectRead(status=Hresult.MQDS_OBJECT_NOT_FOUND)
    return ObjectRead(
        status=Hresult.MQ_OK,
        identifier=stored_entry.identifier,
        partition_id=stored_entry.numbers.partition,
        seq_number=stored_entry.numbers.number,
        properties=extract_properties(stored_entry),
    )


def change_of(stored_entry: StoredEntry, purged: SequenceNumber) -> tuple[DirectoryChange, int]:
    """Return an object or tombstone as a change, and its approximate octets.

    The change is for synchronization.
    """
    kind, identifier = _require_identity(stored_entry)
    if stored_entry.numbers is None:
        raise MappingError(f"{stored_entry.dn} has no number")
    partition, number = stored_entry.numbers.partition, stored_entry.numbers.number
    if kind is not ObjectType.DELETED_OBJECT:
        properties = extract_properties(stored_entry)
        size = rules.measure_at_most(properties)
        return rules.make_object_change(partition, identifier, number, purged, properties), size
    values = values_of(stored_entry, kind, (Propid.D_SCOPE, Propid.D_OBJTYPE))
    tombstone = DeletedObject(
        identifier=identifier,
        partition_id=partition,
        seq_number=number,
        object_type=rules.type_of_deletion(values.get(Propid.D_OBJTYPE)),
        scope=rules.scope_of_deletion(values.get(Propid.D_SCOPE)),
    )
    return rules.make_deletion_change(tombstone, purged), _TOMBSTONE_BYTES


def _of_site(change: DirectoryChange) -> bool:
    """Return True if it is a queue that is visible only in its own site."""
    return change.object_type is ObjectType.QUEUE and change.get(Propid.Q_SCOPE) == Scope.SITE
