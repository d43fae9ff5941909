"""Decoder of pages of entries into Arrow columns.

The decoder reads all entries at once, without a Python object for a value.
The attributes of an entry stand one after the other, each as ``30 len 04 len NAME 31 len 04 len VALUE``. All
entries of a page take the same step together: numpy reads the lengths and names of the first attribute of
every entry, then those of the second, and records the positions of the values. Every tag and every length is
checked against those around it. An entry of any other form goes to `mqdssm.directory.rows`, which is the
reference: several values, an option, an attribute that was not requested, a length that does not fit.

Only positions are recorded. One Arrow array over the whole page, in which wanted values and the octets
between them alternate, gives each column by one `take`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.directory.ber import NAME_BYTES_MAX, OCTET_STRING, SEQUENCE, SET
from mqdssm.directory.responses import MessageBounds
from mqdssm.directory.rows import RowDecoder
from mqdssm.directory.seen_entries import IDENTITY
from mqdssm.errors import GenericDirectoryError

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_BEHIND: Final = bytes(512)
"""Padding behind the last entry: octets are read before their position is compared with the entry's end."""
_PAGE_BYTES_MAX: Final = 2**31 - 1
"""Limit of the 32-bit positions of Arrow."""
_LENGTH_OCTETS_MAX: Final = 4
_NAME_BYTES_MAX: Final = 0x7F
_NAMES_MAX: Final = 12
"""Limit of different names at one step; entries with further names go to the reference."""
_SHORT: Final = 0x80
_WORD: Final = 8
"""Octets of a name that are compared at once."""
_BYTE, _THREE_BYTES, _LOW = np.uint64(8), np.uint64(24), np.uint64(0xFF)
_TAGS, _TAGS_WANTED = np.uint64(0xFF00FF), np.uint64(OCTET_STRING << 16 | SET)


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Some entries as columns.

    Attributes:
        names: the DN of each.
        columns: the value of each attribute, NULL if there is none; the first value of several.
        identity: which of the columns is the objectGUID.
        size: octets that they took in the answers, or of their values.
    """

    names: pa.Array
    columns: tuple[pa.Array, ...]
    identity: int
    size: int

    def __len__(self) -> int:
        return len(self.names)

    def list_identities(self) -> tuple[Iterable[str], Sequence[object]]:
        """See `mqdssm.directory.streams.Portion`."""
        return (name.as_py() for name in self.names), self.columns[self.identity].to_pylist()

    def select_only(self, numbers: Sequence[int]) -> "EntryColumns":
        """See `mqdssm.directory.streams.Portion`."""
        places = pa.array(numbers, pa.int64())
        columns = tuple(column.take(places) for column in self.columns)
        return EntryColumns(self.names.take(places), columns, self.identity, self.size)

    def slice(self, start: int, stop: int) -> "EntryColumns":
        """Return the entries from one number up to, but not including, another."""
        if start == 0 and stop >= len(self):
            return self
        columns = tuple(column[start:stop] for column in self.columns)
        size = int(self._count_octets()[start:stop].sum())
        return EntryColumns(self.names[start:stop], columns, self.identity, size)

    def count_until(self, size: int) -> int:
        """Return the number of first entries that reach a size in octets.

        All are counted if they are smaller.
        """
        if self.size < size:
            return len(self)
        return int(np.searchsorted(np.cumsum(self._count_octets()), size)) + 1

    def _count_octets(self) -> Numbers:
        """Return for each entry the octets of its values."""
        lengths = (pc.fill_null(pc.binary_length(column), 0) for column in self.columns)
        octets: Numbers = np.sum([np.asarray(array, np.int64) for array in lengths], axis=0, dtype=np.int64)
        return octets


def gather_pages(portions: Iterable[EntryColumns], rows_max: int, bytes_max: int) -> Iterator[EntryColumns]:
    """Combine pages into batches of bounded size.

    Args:
        portions: the pages.
        rows_max: entries of a batch.
        bytes_max: octets after which a batch ends early: it is longer by a part of its last entry at most.
    """
    chunk: list[EntryColumns] = []
    rows = size = 0
    for portion in portions:
        rest = portion
        while len(rest):
            some = rest.slice(0, min(rows_max - rows, rest.count_until(bytes_max - size)))
            rest = rest.slice(len(some), len(rest))
            chunk.append(some)
            rows, size = rows + len(some), size + some.size
            if rows >= rows_max or size >= bytes_max:
                yield _concatenate(chunk)
                chunk, rows, size = [], 0, 0
    if chunk:
        yield _concatenate(chunk)


def _concatenate(some: Sequence[EntryColumns]) -> EntryColumns:
    names = pa.concat_arrays([portion.names for portion in some])
    columns = zip(*(portion.columns for portion in some), strict=True)
    size = sum(portion.size for portion in some)
    return EntryColumns(names, tuple(map(pa.concat_arrays, columns)), some[0].identity, size)


class EntryDecoder:
    """Decoder of pages into columns, for one reader at a time.

    Args:
        columns: attribute names, objectGUID among them; compared without regard to case.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._reference = RowDecoder(columns)
        self._places = {name.lower().encode(): place for place, name in enumerate(columns)}
        self._identity = self._places[IDENTITY.lower().encode()]
        self._expected: dict[int, bytes] = {}

    def entries(self, parts: Sequence[tuple[bytes, Sequence[MessageBounds]]]) -> EntryColumns:
        """Decode a page.

        Args:
            parts: buffers, each with the entries that lie in it, at least one.

        Raises:
            DecodeError: as `mqdssm.directory.entries.decode_entry`.
            GenericDirectoryError: a page of more than 2 GiB.
        """
        joined = b"".join([*(buffer for buffer, _ in parts), _BEHIND])
        if len(joined) > _PAGE_BYTES_MAX:  # positions would overflow, and show other octets
            raise GenericDirectoryError(
                f"a page of {len(joined)} octets is too large to be read",
                hint="ask for smaller pages",
            )
        shifts = accumulate((len(buffer) for buffer, _ in parts[:-1]), initial=0)
        spans = np.concatenate(
            [
                np.array(
                    [[message.start for message in messages], [message.end for message in messages]], np.int64
                )
                + shift
                for shift, (_, messages) in zip(shifts, parts, strict=True)
            ],
            axis=1,
        )
        names, columns = self._decode_spans(joined, spans)
        return EntryColumns(names, columns, self._identity, len(joined))

    def _decode_spans(self, joined: bytes, spans: Numbers) -> tuple[pa.Array, tuple[pa.Array, ...]]:
        walk = _Walk(joined, spans[0], spans[1], self._places, self._expected)
        walk.run()
        quick = np.flatnonzero(walk.good)
        data = pa.py_buffer(joined)
        try:
            names = _slice_column(data, walk.name_begin[quick], walk.name_stop[quick]).cast(pa.string())
        except pa.ArrowInvalid:  # an invalid UTF-8 name: the reference finds which
            quick, names = quick[:0], pa.array([], pa.string())
        columns = [
            _slice_column(data, begin[quick], stop[quick])
            for begin, stop in zip(walk.begin, walk.stop, strict=True)
        ]
        count = spans.shape[1]
        if len(quick) == count:
            return names, tuple(columns)
        slow = np.setdiff1d(np.arange(count), quick)
        rows = self._reference.rows(joined, spans[:, slow].T.tolist())
        dns, *values = zip(*rows, strict=True)
        order = pa.array(np.argsort(np.concatenate([quick, slow])))
        both = [
            pa.concat_arrays([column, pa.array(cells, column.type)]).take(order)
            for column, cells in zip([names, *columns], [dns, *values], strict=True)
        ]
        return both[0], tuple(both[1:])


def _slice_column(data: pa.Buffer, begin: Numbers, stop: Numbers) -> pa.Array:
    """Return the values between positions.

    Positions are in ascending order; where one is negative the value is NULL.
    """
    is_present = begin >= 0
    count = int(np.count_nonzero(is_present))
    if not count:
        return pa.nulls(len(begin), pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = begin[is_present], stop[is_present]
    # values alternate with the octets between them
    all_of = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), data])
    return all_of.take(pa.array(2 * (np.cumsum(is_present) - 1), mask=~is_present))


class _Walk:
    """A walk through the attributes of all entries of a page.

    Args:
        joined: the page, with `_BEHIND` behind it.
        starts: position of the content of each entry.
        ends: position behind it.
        places: number of the column of each attribute, by its name in lower case.
        expected: the attribute that most entries of the page before had at each step; it is kept up to date.

    Attributes:
        good: which entries have the plain form.
        name_begin, name_stop: bounds of the DN of each entry.
        begin, stop: for each column the bounds of the value of each entry; -1: it has none.
    """

    def __init__(
        self,
        joined: bytes,
        starts: Numbers,
        ends: Numbers,
        places: Mapping[bytes, int],
        expected: dict[int, bytes],
    ) -> None:
        self._octets = np.frombuffer(joined, np.uint8)
        self._words = np.ndarray((len(joined) - _WORD + 1,), "<u8", joined, 0, (1,))
        self._starts = starts
        self._ends = ends
        self._places = places
        self._expected = expected
        self.good = np.ones(len(starts), np.bool_)
        self.begin = np.full((len(places), len(starts)), -1, np.int64)
        self.stop = np.zeros((len(places), len(starts)), np.int64)

    def run(self) -> None:
        """Walk through all attributes of all entries."""
        size, begin, right = self._read_length(self._starts + 1)
        self.name_begin, self.name_stop = begin, begin + size
        right &= (self._octets[self._starts] == OCTET_STRING) & (size <= NAME_BYTES_MAX)
        right &= self.name_stop < self._ends
        at = np.where(right, self.name_stop, self._starts)
        right &= self._octets[at] == SEQUENCE
        size, at, is_length = self._read_length(at + 1)
        right &= is_length & (at + size == self._ends)
        self.good &= right
        who = np.flatnonzero(self.good & (at < self._ends))
        at = at[who]
        number = 0
        while len(who):
            who, at = self._step_plainly(number, who, at)
            number += 1

    def _step_plainly(self, number: int, who: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Do as `_step`, faster, for the expected attribute with short lengths.

        The header is compared as a whole, except its length; the four octets 31 len 04 len follow it.
        """
        name = self._expected.get(number, b"")
        column = self._places.get(name.lower())
        if column is None:
            self._expect(number, at)
            return self._step(who, at)
        header = bytes((SEQUENCE, 0, OCTET_STRING, len(name))) + name
        tail = self._words[at + len(header)]
        size = self._octets[at + 1].astype(np.int64)
        in_set = (tail >> _BYTE & _LOW).astype(np.int64)
        in_value = (tail >> _THREE_BYTES & _LOW).astype(np.int64)
        stop = at + 2 + size
        plain = (tail & _TAGS == _TAGS_WANTED) & (size < _SHORT) & (stop <= self._ends[who])
        plain &= (size == len(header) + in_set) & (in_set == in_value + 2)
        plain &= self._match_octets(header, at, free=1) & (self.begin[column][who] < 0)
        some, ends = who[plain], stop[plain]
        self.begin[column][some], self.stop[column][some] = ends - in_value[plain], ends
        more = ends < self._ends[some]
        if len(some) == len(who):
            return some[more], ends[more]
        rest, next_ones = self._step(who[~plain], at[~plain])
        if 2 * len(some) < len(who):
            self._expect(number, at[~plain])
        return np.concatenate([some[more], rest]), np.concatenate([ends[more], next_ones])

    def _expect(self, number: int, at: Numbers) -> None:
        """Expect at a step the attribute that the first of some entries has."""
        start = int(at[0]) + 4
        self._expected[number] = self._octets[start : start + int(self._octets[start - 1])].tobytes()

    def _step(self, who: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Read one attribute of each entry.

        Returns the entries with further ones, and their positions.

        Args:
            who: numbers of entries.
            at: positions of their next attributes, before the end.
        """
        octets, ends = self._octets, self._ends[who]
        size, inner, right = self._read_length(at + 1)
        stop = inner + size
        right &= (octets[at] == SEQUENCE) & (stop <= ends) & (octets[inner] == OCTET_STRING)
        name_size = octets[inner + 1].astype(np.int64)
        name = inner + 2
        behind = name + name_size
        right &= (name_size <= _NAME_BYTES_MAX) & (octets[behind] == SET)
        size, inner, is_length = self._read_length(behind + 1)
        right &= is_length & (inner + size == stop) & (octets[inner] == OCTET_STRING)
        size, inner, is_length = self._read_length(inner + 1)
        right &= is_length & (inner + size == stop)  # one value, and no second one
        self._assign(who, right, (name, name_size), (inner, stop))
        if not right.all():
            self.good[who[~right]] = False
        more = right & (stop < ends)
        return who[more], stop[more]

    def _assign(
        self, who: Numbers, right: Mask, names: tuple[Numbers, Numbers], values: tuple[Numbers, Numbers]
    ) -> None:
        """Record values in their attributes' columns.

        `right` is cleared for entries that go to the reference decoder.
        """
        remaining = np.flatnonzero(right)
        for _ in range(_NAMES_MAX):
            if not len(remaining):
                return
            start, size = names[0][remaining[0]], names[1][remaining[0]]
            name = self._octets[start : start + size].tobytes()
            same = (names[1][remaining] == size) & self._match_octets(name, names[0][remaining])
            some, remaining = remaining[same], remaining[~same]
            column = self._places.get(name.lower())
            if column is None:
                right[some] = False  # not requested, or it has options
                continue
            begin, stop = self.begin[column], self.stop[column]
            twice = begin[who[some]] >= 0
            if twice.any():
                right[some[twice]] = False
            begin[who[some]], stop[who[some]] = values[0][some], values[1][some]
        right[remaining] = False

    def _match_octets(self, octets: bytes, at: Numbers, free: int = -1) -> Mask:
        """Test positions for some octets.

        Octet number `free`, one of the first eight, may have any value.
        """
        same = np.ones(len(at), np.bool_)
        for place in range(0, len(octets), _WORD):
            piece = octets[place : place + _WORD]
            mask = (1 << 8 * len(piece)) - 1
            if free >= place:
                mask &= ~(0xFF << 8 * free)
            word = np.uint64(int.from_bytes(piece, "little") & mask)
            same &= (self._words[at + place] & np.uint64(mask)) == word
            free = -1
        return same

    def _read_length(self, at: Numbers) -> tuple[Numbers, Numbers, Mask]:
        """Read BER lengths at some positions.

        Returns the lengths, the positions behind them, and which are valid.
        """
        first = self._octets[at]
        size, behind = first.astype(np.int64), at + 1
        right = first < _SHORT
        if right.all():
            return size, behind, right
        for count in range(1, _LENGTH_OCTETS_MAX + 1):
            some = np.flatnonzero(first == _SHORT + count)
            if len(some):
                places = behind[some]
                value = np.zeros(len(some), np.int64)
                for number in range(count):
                    value = value << 8 | self._octets[places + number]
                size[some], behind[some] = value, places + count
                right[some] = True
        return size, behind, right
