"""Columns of a frame, made from the octets of many entries.

Every value equals what the events make of the same octets: single values by the mapping table, computed
values by the events' own functions. A value that depends on the entry's attributes alone is computed once for
each different input. If a whole column cannot be converted, it is converted value by value: a value that
cannot be decoded is NULL, and `Unreadable` names it and the reason.

Paths and names computed from the DNs of entries, for many plain ASCII names at once.

Arrow cuts the parts out of a plain DN (no escapes, only ASCII letters, no extension of the queue's name). All
other DNs go to the events' own function, one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import DecodeError, MappingError
from mqdssm.events.attribute_plan import UNSET, AttributePlan, EntrySource, ValueMaker, text_of
from mqdssm.events.references import REMEMBERED_MAX, References
from mqdssm.pipeline.frames import bulk_values
from mqdssm.pipeline.frames.arrow import array_of, find_arrow_type
from mqdssm.pipeline.frames.columns import CONVERT, Column
from mqdssm.tables import compute, syntax
from mqdssm.tables.references import REFERRED_CLASSES
from mqdssm.tables.row import Computed, Row

OUTCOMES_MAX: Final = 1024
"""Number of inputs of a column whose computed value is remembered; security descriptors are the largest."""
Outcome: TypeAlias = tuple[Any, Sequence[str]]
"""A cell, and the reasons for what could not be decoded."""
REFUSALS: Final = (MappingError, DecodeError, ValueError, pa.ArrowException, OverflowError)
"""Errors that mean that a value is invalid."""

_CONVERT: Final[dict[syntax.Syntax[Any], bulk_values.Convert]] = {
    syntax.UNICODE: bulk_values.convert_texts,
    syntax.TELETEX: bulk_values.convert_texts,
    syntax.DN_TEXT: bulk_values.convert_texts,
    syntax.OCTETS: bulk_values.keep_octets,
    syntax.DESCRIPTOR: bulk_values.keep_octets,
    syntax.GUID: bulk_values.convert_guids,
    syntax.TIME: bulk_values.convert_times,
    syntax.UINT32: bulk_values.make_integer_conversion(
        syntax.INT32_MIN, syntax.UINT32_MAX, syntax.UINT32_MAX
    ),
    syntax.INT32: bulk_values.make_integer_conversion(syntax.INT32_MIN, syntax.INT32_MAX),
}


Cells: TypeAlias = "Sequence[Any] | pa.Array"
"""A column of entries from a reader: values, or an array of octets."""


class EntryBatch:
    """Some entries whose columns are being made.

    Attributes:
        needs: the attributes that were requested.
        references: the memory of this operation.
        problems: number of the entry -> ``Attribute: reason`` of each value that could not be decoded.
        shared: intermediate arrays that several columns use, by names of their own.
    """

    def __init__(
        self, names: Cells, columns: Sequence[Cells], needs: AttributePlan, references: References
    ) -> None:
        """Keep the entries of a batch.

        Args:
            names: the DN of each entry.
            columns: for each requested LDAP attribute the value, the values, or None of each entry.
            needs: the attributes that were requested.
            references: the memory of this operation.
        """
        self._names = names
        self._columns = columns
        self._values: dict[int, Sequence[Any]] = {}
        self._octets: dict[int, pa.Array] = {}
        self.needs = needs
        self.references = references
        self.problems: dict[int, list[str]] = {}
        self.shared: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def dns(self) -> Sequence[str]:
        """DN of each entry, as the server wrote it."""
        return _list_values(self._names)

    @cached_property
    def names(self) -> pa.Array:
        """DN of each entry as an array."""
        return self._names if isinstance(self._names, pa.Array) else pa.array(self._names, pa.string())

    def values(self, place: int) -> Sequence[Any]:
        """Return the values of the LDAP attribute with a number, for each entry.

        An item is the value, the values, or None.
        """
        values = self._values.get(place)
        if values is None:
            values = self._values[place] = _list_values(self._columns[place])
        return values

    def octets(self, place: int) -> pa.Array:
        """Return the values of the LDAP attribute with a number, as an array.

        There is one for each entry; NULL if it has none.
        """
        octets = self._octets.get(place)
        if octets is None:
            cells = self._columns[place]
            octets = cells if isinstance(cells, pa.Array) else pa.array(cells, pa.binary())
            self._octets[place] = octets
        return octets

    def source(self, number: int) -> EntrySource:
        """Return an entry in the form that the events' functions take."""
        values = [self.values(place)[number] for place in range(len(self._columns))]
        return self.needs.source(self.dns[number], values, self.references)

    def refuse(self, number: int, column: str, reason: object) -> None:
        """Record that a value could not be decoded."""
        self.problems.setdefault(number, []).append(f"{column}: {reason}")


def _list_values(cells: Cells) -> Sequence[Any]:
    return cells.to_pylist() if isinstance(cells, pa.Array) else cells


class ColumnMaker(ABC):
    """Maker of one column."""

    def __init__(self, column: Column, row: Row) -> None:
        """Keep the column and the row of the table with its syntax.

        Args:
            column: column of the frame.
            row: row of the table, which names the attributes of its values.
        """
        self.column = column
        self.row = row
        self.type = find_arrow_type(column)
        self.default = cell_of(column, row.default) if row.has_default else None

    @abstractmethod
    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """Make the whole column at once.

        Raises:
            MappingError, DecodeError, ValueError, pa.ArrowException, OverflowError: some value may be
                invalid.
        """

    @abstractmethod
    def make_value(self, batch: EntryBatch, number: int) -> Any:
        """Return the abstract value of one entry, or UNSET.

        Raises:
            MappingError, DecodeError, ValueError: it cannot be decoded.
        """

    def array(self, batch: EntryBatch) -> pa.Array:
        """Make the column; a value that cannot be decoded is NULL and recorded."""
        try:
            return self.make_quickly(batch)
        except REFUSALS:
            return self.make_one_by_one(batch)

    def make_one_by_one(self, batch: EntryBatch) -> pa.Array:
        """Make the column value by value."""
        return pa.array(self.make_cells(batch, range(len(batch))), self.type)

    def make_cells(self, batch: EntryBatch, numbers: Iterable[int]) -> list[Any]:
        """Return the cells of some entries.

        A value that cannot be decoded is None and recorded.
        """
        cells = []
        for number in numbers:
            cell, reasons = self.make_outcome(batch, number)
            for reason in reasons:
                batch.refuse(number, self.column.name, reason)
            cells.append(cell)
        return cells

    def make_outcome(self, batch: EntryBatch, number: int) -> Outcome:
        """Return the cell of one entry, None if it cannot be decoded, and the reasons."""
        try:
            value = self.make_value(batch, number)
            cell = self.default if value is UNSET else cell_of(self.column, value)
            pa.scalar(cell, self.type)  # finds values that Arrow cannot hold
        except (*REFUSALS, TypeError) as error:
            return None, (str(error),)
        return cell, ()


def cell_of(column: Column, value: Any) -> Any:
    """Convert an abstract value into the form that Arrow takes."""
    if value is None:
        return None
    if column.kind is syntax.Kind.TIME:
        return array_of([value], column, find_arrow_type(column))[0].as_py()
    convert = CONVERT.get(column.kind, _keep_value)
    return [convert(item) for item in value] if column.many else convert(value)


def _keep_value(value: Any) -> Any:
    return value


class Copied(ColumnMaker):
    """A column that is copied from one LDAP attribute."""

    def __init__(self, column: Column, row: Row, place: int, *, listed: bool) -> None:
        """Choose the conversion for the row's syntax.

        Args:
            column: of the frame.
            row: of the table.
            place: of the LDAP attribute.
            listed: the values come as lists.
        """
        super().__init__(column, row)
        self._place = place
        self._list_values = listed
        item = self.type.value_type if row.multi else self.type
        convert = CONVERT.get(column.kind, _keep_value)
        load = row.syntax.load
        self._convert = _CONVERT.get(row.syntax) or bulk_values.make_distinct_conversion(
            lambda raw: convert(load(raw)), item
        )

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        if self.row.multi:
            return bulk_values.convert_lists(
                batch.values(self._place), self._convert, empty=self.default is not None
            )
        if self._list_values:  # one of a set (decision M10)
            return self.make_one_by_one(batch)
        return bulk_values.with_gaps(batch.octets(self._place), self._convert, self.default)

    def make_value(self, batch: EntryBatch, number: int) -> Any:
        """See ColumnMaker."""
        raw = batch.values(self._place)[number]
        if raw is None:
            return UNSET
        return self.row.decode((raw,) if isinstance(raw, bytes) else raw)


class ComputedColumn(ColumnMaker):
    """A column computed by the events' function, entry by entry."""

    def __init__(self, column: Column, row: Row, maker: ValueMaker, places: tuple[int, ...]) -> None:
        """Keep the events' function and the numbers of its LDAP attributes.

        Args:
            column: of the frame.
            row: of the table.
            maker: the events' own function.
            places: of the LDAP attributes.
        """
        super().__init__(column, row)
        self._maker = maker
        self._places = places

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return self.make_one_by_one(batch)

    def make_value(self, batch: EntryBatch, number: int) -> Any:
        """See ColumnMaker."""
        return self._maker(self.row, batch.source(number))

    def make_outcome(self, batch: EntryBatch, number: int) -> Outcome:
        """Return the cell of one entry, and the reasons; see `ColumnMaker`.

        The reasons include values that were left out of a list (decision M40).
        """
        source = batch.source(number)
        try:
            value = self._maker(self.row, source)
            cell = self.default if value is UNSET else cell_of(self.column, value)
        except REFUSALS as error:
            return None, (str(error),)
        return cell, tuple(source.skipped)


class Timed(ComputedColumn):
    """A time, from the first of several LDAP attributes that is set (decision M35)."""

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return bulk_values.with_gaps(
            pc.coalesce(*map(batch.octets, self._places)), bulk_values.convert_times, None
        )


class Remembered(ComputedColumn):
    """Column that depends only on attributes of its entry.

    The column is computed once for each different input.
    """

    def __init__(self, column: Column, row: Row, maker: ValueMaker, places: tuple[int, ...]) -> None:
        """See ComputedColumn."""
        super().__init__(column, row, maker, places)
        self._outcomes: dict[Any, Outcome] = {}

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        if len(self._outcomes) > OUTCOMES_MAX or self.row.computed in REFERRED_CLASSES:
            self._outcomes = {}  # referenced entries may appear and disappear
        cache, cells = self._outcomes, []
        for number, key in enumerate(self._list_inputs(batch)):
            outcome = cache.get(key)
            if outcome is None:
                outcome = cache[key] = self.make_outcome(batch, number)
            cells.append(outcome[0])
            for reason in outcome[1]:
                batch.refuse(number, self.column.name, reason)
        return pa.array(cells, self.type)

    def _list_inputs(self, batch: EntryBatch) -> Iterable[Any]:
        """Return for each entry the values of the attributes, as a key."""
        columns = [
            [tuple(value) if isinstance(value, list) else value for value in batch.values(place)]
            for place in self._places
        ]
        return zip(*columns, strict=True) if columns else [()] * len(batch)


# printable ASCII without the characters that separate RDNs or need a parser: " # + , \
_PLAIN: Final = r" !$-*\--\[\]-~"
_QUEUE_DN: Final = (
    rf"^[A-Za-z]+=(?P<queue>[{_PLAIN}]+),[A-Za-z]+=[{_PLAIN}]*,"
    rf"(?P<above>[A-Za-z]+=(?P<computer>[{_PLAIN}]+),[,{_PLAIN}]*)$"
)


def list_parents(names: pa.Array) -> dict[str, str]:
    """Return parent DN -> one DN below it; a DN that is not plain stands for itself."""
    above = pc.replace_substring_regex(names, rf"^[A-Za-z]+=[{_PLAIN}]*,", "").dictionary_encode()
    _, first = np.unique(above.indices, return_index=True)
    return dict(zip(above.dictionary.to_pylist(), names.take(pa.array(first)).to_pylist(), strict=True))


class FullPath(ComputedColumn):
    """Column with the DN."""

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return batch.names


class DirectoryPath(ComputedColumn):
    """Column with the DN as an LDAP URL (decision M15)."""

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return pc.binary_join_element_wise(compute.build_directory_path(""), batch.names, "")


class Pathname(ComputedColumn):
    r"""Column ``computer\queue``: plain names are only put in lower case.

    See [MS-MQDSSM] 3.1.6.11.2.1.
    """

    def make_quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        parts = _split_queue_dns(batch)
        array = pc.binary_join_element_wise(
            self._make_first(batch, parts), _normalize_part(parts, "queue"), "\\"
        )
        needs_thought = np.array(array.is_null())
        for place in self._places:
            needs_thought |= np.asarray(batch.octets(place).is_valid())
        numbers = np.flatnonzero(needs_thought)
        if not len(numbers):
            return array
        cells = self.make_cells(batch, numbers.tolist())
        return pc.replace_with_mask(array, pa.array(needs_thought), pa.array(cells, self.type))

    def _make_first(self, batch: EntryBatch, parts: pa.Array) -> pa.Array:
        """Return the part before the backslash.

        The part is NULL if the events' function has to decide.
        """
        del batch  # used by the subclass only
        return _normalize_part(parts, "computer")


class QualifiedPathname(Pathname):
    r"""Column ``dns-name\queue``: a computer is read once for all its queues.

    See [MS-MQDSSM] 3.1.6.11.2.2.
    """

    def __init__(self, column: Column, row: Row, maker: ValueMaker, places: tuple[int, ...]) -> None:
        """See ComputedColumn."""
        super().__init__(column, row, maker, places)
        self._hosts: dict[str, str | None] = {}

    def _make_first(self, batch: EntryBatch, parts: pa.Array) -> pa.Array:
        """See Pathname."""
        computers = pc.struct_field(parts, "above").dictionary_encode()
        if len(self._hosts) > REMEMBERED_MAX:
            self._hosts.clear()
        host_by_dn, hosts = self._hosts, []
        for dn in computers.dictionary.to_pylist():
            if dn not in host_by_dn:
                host_by_dn[dn] = _find_host(batch.references, dn)
            hosts.append(host_by_dn[dn])
        return pc.ascii_lower(pa.array(hosts, pa.string()).take(computers.indices))


def _split_queue_dns(batch: EntryBatch) -> pa.Array:
    """Return the parts of plain DNs of queues.

    The parts are cut out once for all columns that need them.
    """
    queue_dns = batch.shared.get(_QUEUE_DN)
    if queue_dns is None:
        queue_dns = batch.shared[_QUEUE_DN] = pc.extract_regex(batch.names, _QUEUE_DN)
    return queue_dns


def _normalize_part(parts: pa.Array, name: str) -> pa.Array:
    return pc.ascii_lower(pc.ascii_trim(pc.struct_field(parts, name), " "))


def _find_host(references: References, computer_dn: str) -> str | None:
    """Return the DNS name of a computer if it is plain ASCII.

    Returns None otherwise, and the events' function decides.
    """
    computer = references.computer(computer_dn)
    raw = None if computer is None else computer.first("dNSHostName")
    if raw is None:
        return None
    try:
        host = text_of(raw)
    except MappingError:
        return None
    return host if host.isascii() and host else None


PATHS: Final[Mapping[Computed, type[ComputedColumn]]] = MappingProxyType(
    {
        Computed.FULL_PATH: FullPath,
        Computed.DIRECTORY_PATH: DirectoryPath,
        Computed.PATHNAME: Pathname,
        Computed.QUALIFIED_PATHNAME: QualifiedPathname,
    }
)
