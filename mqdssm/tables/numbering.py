"""Sequence numbers in the directory, and searches for their ranges.

The numbers are attributes of a numbered entry.
The search "all objects of partition P with numbers from N to M" must cost in proportion to its answer
([MC-MQDSRP] 3.2.7.8). A search by an index of integers takes seconds. So entries carry a bucket, which is
indexed for equality: an octet string of the partition and the number without its last byte. A range is an OR
of buckets; the few entries in these buckets are tested for the exact numbers (decision R26)::

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
"""Digest of an object's properties at the time of numbering: other programs do not change it."""
ATTRIBUTES: Final = (PARTITION, NUMBER, BUCKET, DIGEST)
"""Attributes of every numbered entry; they change together, with the object. Tombstones have no digest."""

NUMBER_MAX: Final = 2**64 - 1
BUCKET_BITS: Final = 8
"""Low bits of a number that its bucket leaves out: 256 numbers share a bucket."""
SLICE_BUCKETS: Final = 64
"""Number of buckets in one search: 16,384 numbers, so that each answer fits in memory."""
ENUMERATED_NUMBERS_MAX: Final = 4 << 20
"""Largest range to search by bucket, more than a take-over skips; others are read by partition and sorted."""
CEILING_STEP: Final = 1024
"""Distance of a partition's ceiling ahead of its numbers: one more write for 1,024 changes."""

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
        """Return the attributes of the entry: partition, number and bucket."""
        return {
            PARTITION: (bytes(self.partition),),
            NUMBER: (number_value(self.number),),
            BUCKET: (bucket_of(self.partition, self.number),),
        }


def read_values(entry: Mapping[str, Sequence[bytes]], name: str) -> Sequence[bytes]:
    """Return the values of an attribute in an entry.

    The names of the entry's attributes are as in the schema, or in lower case.
    """
    return entry.get(name) or entry.get(name.lower(), ())


def numbering_of(entry: Mapping[str, Sequence[bytes]]) -> Numbering | None:
    """Return the numbering of an entry; None for an entry without a number.

    Raises:
        MappingError: only partition or number, or invalid values in these attributes.
    """
    partition, number = read_values(entry, PARTITION), read_values(entry, NUMBER)
    if not partition and not number:
        return None
    if len(partition) != 1 or len(partition[0]) != GUID_BYTES or len(number) != 1:
        raise MappingError(f"{PARTITION} and {NUMBER} are no numbering: {partition!r}, {number!r}")
    return Numbering(Guid(partition[0]), number_of(number[0]))


def number_value(number: int) -> bytes:
    """Convert a sequence number to its value in the directory, in decimal.

    Raises:
        ValueError: below 0 or above 2^64 - 1.
    """
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"{number} is no sequence number: 0 to 2^64-1")
    return b"%d" % number


def number_of(value: bytes) -> SequenceNumber:
    """Convert a value in the directory to a sequence number.

    Raises:
        MappingError: an invalid value.
    """
    number = int(value) if _DECIMAL.fullmatch(value) else NUMBER_MAX + 1
    if number > NUMBER_MAX:
        raise MappingError(f"{NUMBER} is no sequence number: {value!r}")
    return SequenceNumber(number)


def bucket_of(partition: Guid, number: int) -> bytes:
    """Return the bucket of a number.

    The bucket is the partition, and the number without its lowest 8 bits, big-endian.
    """
    return partition + (number >> BUCKET_BITS).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class NumberSlice:
    """A part of a range of numbers, for one search.

    Attributes:
        first: the lowest number.
        last: the highest number.
        buckets: the buckets of the numbers.
    """

    first: int
    last: int
    buckets: tuple[bytes, ...]


def split_range(partition: Guid, first: int, last: int) -> Iterator[NumberSlice]:
    """Split a range of numbers into searches of `SLICE_BUCKETS` buckets, ascending.

    Args:
        partition: the directory partition.
        first: the lowest number.
        last: the highest number; lower than `first`: no slices.

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


def compute_ceiling(number: int) -> int:
    """Return the ceiling to write before a number is used.

    The ceiling is a multiple of the step, at least the number.
    After a crash the highest used number is above ``ceiling - CEILING_STEP``, at most the ceiling.
    """
    return min(-(-number // CEILING_STEP) * CEILING_STEP, NUMBER_MAX)
