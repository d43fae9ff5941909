"""Sequence numbers in the directory: the attributes of a numbered entry, and what finds a range of them.

"All objects of partition P with numbers from N to M" shall cost what its answer costs ([MC-MQDSRP] 3.2.7.8).
A server that indexes integers takes seconds for it, so entries carry a bucket, an octet string of the
partition and the number without its last byte, which is indexed for equality. A range is an OR of buckets;
the few entries in these are tested for the exact numbers (decision R26)::

    (&(|(mqisBucket=…)(mqisBucket=…))(mqisSeqNumber>=N)(mqisSeqNumber<=M))
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqdssm.errors import MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.seqnum import SequenceNumber

PARTITION: Final = "mqisPartitionID"
NUMBER: Final = "mqisSeqNumber"
BUCKET: Final = "mqisBucket"
DIGEST: Final = "mqisDigest"
"""Digest of the properties that an object had when it was numbered: another program leaves it as it is."""
ATTRIBUTES: Final = (PARTITION, NUMBER, BUCKET, DIGEST)
"""The attributes of every numbered entry; they change together, with the object. Tombstones lack the last."""

NUMBER_MAX: Final = 2**64 - 1
BUCKET_BITS: Final = 8
"""256 numbers in a bucket: of a range, at most that many entries too many are tested."""
SLICE_BUCKETS: Final = 64
"""Buckets in one search: 16,384 numbers, so that an answer fits in memory whatever the range."""
ENUMERATED_NUMBERS_MAX: Final = 1_000_000
"""A wider range is asked for by partition alone and sorted: 4,000 empty buckets cost 5 ms."""
CEILING_STEP: Final = 1024
"""How far a partition's ceiling is raised ahead of its numbers: one write more for 1,024 changes."""

_DECIMAL: Final = re.compile(rb"0|[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Numbering:
    """The place of an object's last change ([MS-MQDS] 3.1.1.6 to 3.1.1.12).

    Attributes:
        partition: the directory partition.
        number: the sequence number.
    """

    partition: Guid
    number: SequenceNumber

    def values(self) -> dict[str, tuple[bytes, ...]]:
        """Partition, number and bucket of the entry."""
        return {
            PARTITION: (bytes(self.partition),),
            NUMBER: (number_value(self.number),),
            BUCKET: (bucket_of(self.partition, self.number),),
        }


def values_in(entry: Mapping[str, Sequence[bytes]], name: str) -> Sequence[bytes]:
    """The values of an attribute in an entry whose names are spelt as in the schema, or in lower case."""
    return entry.get(name) or entry.get(name.lower(), ())


def numbering_of(entry: Mapping[str, Sequence[bytes]]) -> Numbering | None:
    """Where an entry stands; None for one that was never numbered.

    Raises:
        MappingError: an entry with half of it, or with something else in these attributes.
    """
    partition, number = values_in(entry, PARTITION), values_in(entry, NUMBER)
    if not partition and not number:
        return None
    if len(partition) != 1 or len(partition[0]) != GUID_BYTES or len(number) != 1:
        raise MappingError(f"{PARTITION} and {NUMBER} are no numbering: {partition!r}, {number!r}")
    return Numbering(Guid(partition[0]), number_of(number[0]))


def number_value(number: int) -> bytes:
    """A sequence number as the directory keeps it, in decimal.

    Raises:
        ValueError: below 0 or above 2^64 - 1.
    """
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"{number} is no sequence number: 0 to 2^64-1")
    return b"%d" % number


def number_of(value: bytes) -> SequenceNumber:
    """A sequence number as the directory keeps it.

    Raises:
        MappingError: no such number.
    """
    number = int(value) if _DECIMAL.fullmatch(value) else NUMBER_MAX + 1
    if number > NUMBER_MAX:
        raise MappingError(f"{NUMBER} is no sequence number: {value!r}")
    return SequenceNumber(number)


def bucket_of(partition: Guid, number: int) -> bytes:
    """The bucket of one number: the partition, and the number without its lowest 8 bits, high byte first."""
    return partition + (number >> BUCKET_BITS).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class NumberSlice:
    """A part of a range of numbers, for one search.

    Attributes:
        first: the lowest number.
        last: the highest number.
        buckets: those that hold the numbers.
    """

    first: int
    last: int
    buckets: tuple[bytes, ...]


def is_enumerable(first: int, last: int) -> bool:
    """Return True if a range is narrow enough to be searched bucket by bucket."""
    return last - first < ENUMERATED_NUMBERS_MAX


def slices(partition: Guid, first: int, last: int) -> Iterator[NumberSlice]:
    """A range of numbers in searches of `SLICE_BUCKETS` buckets, ascending.

    Args:
        partition: the directory partition.
        first: the lowest number wanted.
        last: the highest number wanted; lower than `first`: nothing.

    Raises:
        ValueError: a number below 0 or above 2^64 - 1.
    """
    for number in (first, last):
        number_value(number)
    numbers = SLICE_BUCKETS << BUCKET_BITS
    while first <= last:
        end = min(last, (first // numbers + 1) * numbers - 1)
        heads = range(first >> BUCKET_BITS, (end >> BUCKET_BITS) + 1)
        yield NumberSlice(first, end, tuple(bucket_of(partition, head << BUCKET_BITS) for head in heads))
        first = end + 1


def ceiling_above(number: int) -> int:
    """The ceiling to write before a number is given out: a multiple of the step, at least the number.

    After a crash the highest number given out is above ``ceiling - CEILING_STEP``, at most the ceiling.
    """
    return min(-(-number // CEILING_STEP) * CEILING_STEP, NUMBER_MAX)
