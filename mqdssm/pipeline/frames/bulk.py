"""Record batches of the objects of a directory, made from LDAP octets.

Exports and the Spark source use these batches.
The result equals that of `Directory.search`, without a Python object for an element and hardly
one for a value. Memory is bounded by one batch and one page.

Bases of the searches for the objects of a type, and the meaning of a missing base.

Raw entries of a directory as Arrow record batches: any class, all attributes, nothing decoded.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from mqdssm.directory.filters import TRUE, LdapFilter, all_of
from mqdssm.directory.profile import Profile
from mqdssm.directory.raw_entries import ServerEntry
from mqdssm.directory.session import Session
from mqdssm.directory.streams import Parts
from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.events.attribute_plan import AttributePlan
from mqdssm.events.attributes import NO_ATTRIBUTES
from mqdssm.events.facade import Directory
from mqdssm.events.references import REMEMBERED_MAX
from mqdssm.model.dn import DN
from mqdssm.pipeline.frames.arrow import BATCH_BYTES_MAX, BATCH_ROWS, find_arrow_type, make_arrow_schema
from mqdssm.pipeline.frames.bulk_columns import (
    PATHS,
    ColumnMaker,
    ComputedColumn,
    Copied,
    EntryBatch,
    Remembered,
    Timed,
    list_parents,
)
from mqdssm.pipeline.frames.bulk_pages import EntryColumns, EntryDecoder, gather_pages
from mqdssm.pipeline.frames.bulk_values import convert_lists, convert_texts, keep_octets
from mqdssm.pipeline.frames.columns import (
    ATTRIBUTES,
    DN_COLUMN,
    OBJECT_CLASS,
    ORIGINAL_IDENTIFIER,
    STORED_SECURITY,
    UNREADABLE,
    Column,
    FrameType,
)
from mqdssm.tables.places import search_base
from mqdssm.tables.row import Holder, Missing, Row, RowMaker
from mqdssm.tables.syntax import GUID, OCTETS, Kind


@dataclass(frozen=True, slots=True)
class Base:
    """Base of a search.

    Attributes:
        dn: its name.
        named_by: how the user named it; empty if the user did not, and the type decides.
    """

    dn: DN
    named_by: str = ""

    @contextlib.contextmanager
    def allow_absence(self) -> Iterator[None]:
        """Search below the base: without its entry there are no objects.

        See [MS-MQDSSM] 3.1.6.4.x.2.

        Raises:
            ObjectNotFound: the user named the base. A mistyped base must not look like a directory
                without objects.
        """
        try:
            yield
        except ObjectNotFound as error:
            if not self.named_by:
                return
            raise ObjectNotFound(
                f"{self.named_by} is not there, or this user may not see it",
                dn=str(self.dn),
                ldap_code=error.ldap_code,
                server_text=error.server_text,
                hint=error.hint,
            ) from error


def bases_of(session: Session, frame: FrameType, chosen: str | DN | None = None) -> tuple[Base, ...]:
    """Return the bases of the objects of a type: several only for raw entries.

    See [MS-MQDSSM] 3.1.6.15.

    Args:
        session: with the server.
        frame: the type.
        chosen: base that the user chose; None: the type decides.
    """
    if chosen is not None:
        return (Base(chosen if isinstance(chosen, DN) else DN.parse(chosen), "the base of the search"),)
    naming = session.naming
    if frame.ldap_class is None:
        base_dns = naming.guid_bases
    else:
        base_dns = (search_base(frame.ldap_class, naming.root, naming.configuration),)
    was_chosen = session.options.naming_context is not None
    words = "the naming context that was chosen"
    return tuple(
        Base(base_dn, words if was_chosen and base_dn == naming.root else "") for base_dn in base_dns
    )


ALL_USER_ATTRIBUTES: Final = "*"
_OBJECT_CLASS_KEY: Final = OBJECT_CLASS.name.lower()


def read_raw_entries(
    session: Session,
    columns: Sequence[Column],
    *,
    where: LdapFilter | None,
    bases: Sequence[Base],
    attributes: Sequence[str],
) -> Iterator[ServerEntry]:
    """Read raw entries below some bases.

    Args:
        session: session with the server.
        columns: those wanted, of the raw entry's.
        where: an LDAP filter; None: all entries.
        bases: bases of the searches.
        attributes: attributes to request if column `attributes` is wanted.

    Raises:
        DirectoryError: while iterating.
    """
    attribute_names = list(attributes) if ATTRIBUTES in columns else list(NO_ATTRIBUTES)
    if OBJECT_CLASS in columns:
        attribute_names = [
            OBJECT_CLASS.name,
            *(name for name in attribute_names if name not in NO_ATTRIBUTES),
        ]
    for base in bases:
        with base.allow_absence():
            yield from session.find_raw(base.dn, where or TRUE, attribute_names)


def measure_entry(entry: ServerEntry) -> int:
    """Return the number of octets of the values of an entry."""
    return sum(sum(map(len, values)) for values in entry[1].values())


def make_raw_batch(entries: Sequence[ServerEntry], columns: Sequence[Column]) -> pa.RecordBatch:
    """Convert raw entries into a record batch."""
    other_attributes, classes = [], []
    for _, attributes in entries:
        key = next((name for name in attributes if name.lower() == _OBJECT_CLASS_KEY), None)
        classes.append(attributes.get(key, []) if key else [])
        other_attributes.append({name: values for name, values in attributes.items() if name != key})
    arrays = {
        DN_COLUMN: lambda: pa.array([dn for dn, _ in entries], pa.string()),
        OBJECT_CLASS: lambda: convert_lists(classes, convert_texts, empty=True),
        ATTRIBUTES: lambda: _make_maps(other_attributes),
    }
    return pa.RecordBatch.from_arrays(
        [arrays[column]() for column in columns], schema=make_arrow_schema(columns)
    )


def _make_maps(entries: Sequence[dict[str, list[bytes]]]) -> pa.Array:
    """Make maps from descriptions to values, in the entry's order."""
    names = [name for entry in entries for name in entry]
    values = convert_lists([value for entry in entries for value in entry.values()], keep_octets, empty=True)
    offsets = np.zeros(len(entries) + 1, np.int32)
    np.cumsum([len(entry) for entry in entries], out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.array(names, pa.string()), values, type=find_arrow_type(ATTRIBUTES)
    )


log = logging.getLogger(__name__)


def read_batches(
    directory: Directory,
    frame: FrameType,
    columns: Sequence[Column] | None = None,
    *,
    where: LdapFilter | None = None,
    base: str | DN | None = None,
    attributes: Sequence[str] = (ALL_USER_ATTRIBUTES,),
    rows_max: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Read all objects of a type as record batches.

    Closing the iterator ends the search.
    Only the LDAP attributes that the columns need are requested. One object cannot stop the others: a value
    that cannot be decoded is NULL, and column `Unreadable` names it and the reason. Without that column a
    warning is logged.

    Args:
        directory: the directory to read.
        frame: the type, of `FRAME_TYPES`.
        columns: those wanted, of `FrameType.select`; None is all.
        where: an LDAP filter for the objects, besides their type.
        base: base of the search; None: that of the type ([MS-MQDSSM] 3.1.6.15).
        attributes: of raw entries: ``*`` is all that users write, ``+`` all others (not on Active Directory).
        rows_max: rows of a batch.
        bytes_max: octets of values after which a batch ends early.

    Raises:
        ObjectNotFound: while iterating: there is no such base, or no such naming context as was chosen.
        DirectoryError: while iterating; a search that breaks off never looks like a short list.
    """
    selected = frame.columns if columns is None else tuple(columns)
    session = directory.session
    _refuse_catalogs(session)
    if frame.ldap_class is None:
        bases = bases_of(session, frame, base)
        entries = read_raw_entries(session, selected, where=where, bases=bases, attributes=attributes)
        for some in divide_by_size(entries, measure_entry, rows_max=rows_max, bytes_max=bytes_max):
            yield make_raw_batch(some, selected)
        return
    makers = BatchMaker(session, frame, selected)
    (start,) = bases_of(session, frame, base)
    of_type = filter_of_type(session, frame, where)
    if makers.takes_columns:
        yield from makers.batches(_search_entries(session, start, of_type, makers.needs), rows_max, bytes_max)
        return
    all_rows = _search_rows(session, start, of_type, makers.needs)
    for rows in divide_by_size(all_rows, measure_row, rows_max=rows_max, bytes_max=bytes_max):
        yield makers.batch(rows)


def _refuse_catalogs(session: Session) -> None:
    """Refuse a global catalog.

    Attributes that it lacks would look as if they were not set (M73).

    Raises:
        ConfigError: the session reads one, or the whole forest.
    """
    if session.options.forest or session.is_part_only:
        raise ConfigError(
            "a global catalog does not hold whole objects: read each domain from a domain controller "
            "of its own, without forest and not at port 3268 or 3269"
        )


def filter_of_type(session: Session, frame: FrameType, where: LdapFilter | None) -> LdapFilter:
    """Return the LDAP filter for the objects of a type (decision M32)."""
    if frame.ldap_class is None:
        return where or TRUE
    of_class = session.profile.build_class_filter(frame.ldap_class)
    return of_class if where is None else all_of(of_class, where)


def _search_rows(
    session: Session, base: Base, search_filter: LdapFilter, needs: AttributePlan
) -> Iterator[tuple[Any, ...]]:
    with base.allow_absence():
        yield from session.rows(
            base.dn, search_filter, needs.columns, multi=needs.multi, references=needs.referring
        )


def _search_entries(
    session: Session, base: Base, search_filter: LdapFilter, needs: AttributePlan
) -> Iterator[EntryColumns]:
    def decoder(attributes: tuple[str, ...]) -> Callable[[Parts], EntryColumns]:
        return EntryDecoder(attributes).entries

    with base.allow_absence():
        yield from session.read_portions(base.dn, search_filter, needs.columns, decoder)


class BatchMaker:
    """Maker of the record batches of a frame.

    Attributes:
        needs: the LDAP attributes to ask for.
    """

    def __init__(self, session: Session, frame: FrameType, columns: Sequence[Column]) -> None:
        """Choose how each column is made on this kind of server.

        Args:
            session: with the server.
            frame: the type of frame.
            columns: those wanted.
        """
        self._schema = make_arrow_schema(columns)
        self._frame = frame
        self.needs = AttributePlan(_Table(frame), session)
        self._technical_rows = _list_technical_rows(session.profile)
        self._makers = [self._find_maker(column) for column in columns]
        self._columns = tuple(columns)
        self._references = self.needs.references()
        self._prefetched: set[str] = set()

    def _find_maker(self, column: Column) -> ColumnMaker | None:
        row = self._technical_rows.get(column) or self._frame.rows.get(column.name)
        return None if row is None else _choose_maker(column, row, self.needs)

    @property
    def takes_columns(self) -> bool:
        """True if entries may come as columns.

        Multi-valued attributes and referenced entries prevent columns.
        """
        return not (self.needs.multi or self.needs.referring)

    def batches(
        self, portions: Iterable[EntryColumns], rows_max: int, bytes_max: int
    ) -> Iterator[pa.RecordBatch]:
        """Make record batches of entries that come as columns.

        Args:
            portions: the entries, a page at a time.
            rows_max: rows of a batch.
            bytes_max: octets after which a batch ends early.
        """
        for entries in gather_pages(portions, rows_max, bytes_max):
            columns = entries.columns[: len(self.needs.columns)]
            yield self._make_batch(EntryBatch(entries.names, columns, self.needs, self._references))

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Make the record batch of some entries.

        The entries are rows of `needs`, as `Session.rows` yields them.
        """
        names, *columns, brought = zip(*rows, strict=True)
        return self._make_batch(EntryBatch(names, columns, self.needs, self._references), brought)

    def _make_batch(self, batch: EntryBatch, brought: Sequence[Any] = ()) -> pa.RecordBatch:
        if self.needs.looks_elsewhere:
            self._prefetch(batch, brought)
        arrays = [None if maker is None else maker.array(batch) for maker in self._makers]
        for place, column in enumerate(self._columns):
            if arrays[place] is None:
                arrays[place] = self._make_technical(column, batch)
        if batch.problems and UNREADABLE not in self._columns:
            _warn(batch)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _prefetch(self, batch: EntryBatch, brought: Sequence[Any]) -> None:
        """Look up the entries' references, and their computers."""
        if brought:
            values = zip(*map(batch.values, range(len(self.needs.columns))), strict=True)
            self.needs.prefetch(list(zip(batch.dns, values, brought, strict=True)), self._references)
        else:
            parents = list_parents(batch.names)
            if self._prefetched.issuperset(parents):
                return  # entries dropped from the memory are looked up one by one
            self.needs.prefetch([(dn, (), None) for dn in parents.values()], self._references)
            if len(self._prefetched) + len(parents) > REMEMBERED_MAX:
                self._prefetched.clear()
            self._prefetched.update(parents)

    @staticmethod
    def _make_technical(column: Column, batch: EntryBatch) -> pa.Array:
        if column == UNREADABLE and batch.problems:
            return pa.array(
                [batch.problems.get(number) for number in range(len(batch))], find_arrow_type(column)
            )
        return pa.nulls(len(batch), find_arrow_type(column))


def _list_technical_rows(profile: Profile) -> dict[Column, Row]:
    """Return the rows of columns that no element has.

    Only values that this kind of server stores are included.
    """
    makers = {}
    if profile.original_guid is not None:
        makers[ORIGINAL_IDENTIFIER] = RowMaker(read="3.1.6.19")(
            ORIGINAL_IDENTIFIER.name, profile.original_guid, GUID, "R", Missing.UNPOPULATED, propid=None
        )
    if profile.translates_security:
        makers[STORED_SECURITY] = RowMaker(read="3.1.6.11")(
            STORED_SECURITY.name, "nTSecurityDescriptor", OCTETS, "R", Missing.UNPOPULATED, propid=None
        )
    return makers


class _Table:
    """Name and LDAP class of a frame, as `AttributePlan` reads them from a table."""

    def __init__(self, frame: FrameType) -> None:
        self.name = frame.name if frame.element is None else frame.element.element_name
        self.ldap_class = str(frame.ldap_class)


def _choose_maker(column: Column, row: Row, needs: AttributePlan) -> ColumnMaker:
    """Return the maker of a column.

    The attributes that it needs are added to the request.
    """
    maker, places = needs.add(row)
    if maker is None:
        return Copied(column, row, places[0], listed=row.multi or row.one_of_set)
    by_arrow = None if row.computed is None else PATHS.get(row.computed)
    if by_arrow is not None:
        return by_arrow(column, row, maker, places)
    if row.kind is Kind.TIME:
        return Timed(column, row, maker, places)
    return (Remembered if _is_of_the_entry_alone(row) else ComputedColumn)(column, row, maker, places)


def _is_of_the_entry_alone(row: Row) -> bool:
    of_the_name = "distinguishedName" in row.ldap or row.ldap == ("cn",)
    return row.holder is Holder.OWN and not row.computer_ldap and not of_the_name


def _warn(batch: EntryBatch) -> None:
    number, reasons = next(iter(batch.problems.items()))
    log.warning(
        "%d objects have values that could not be decoded; the first one: %s: %s",
        len(batch.problems),
        batch.dns[number],
        "; ".join(reasons),
    )


T = TypeVar("T")


def measure_row(row: tuple[Any, ...]) -> int:
    """Return the number of octets of the values of an entry."""
    size = 0
    for value in row[1:-1]:
        if isinstance(value, bytes):
            size += len(value)
        elif value is not None:
            size += sum(map(len, value))
    return size


def divide_by_size(
    items: Iterable[T],
    bytes_of: Callable[[T], int],
    *,
    rows_max: int,
    bytes_max: int,
) -> Iterator[list[T]]:
    """Divide a stream of entries into batches of bounded size.

    Args:
        items: the entries.
        bytes_of: returns the octets of an entry; certificates reach 1 MiB each.
        rows_max: entries of a batch.
        bytes_max: octets after which a batch ends early: it is longer by a part of its last entry at most.
    """
    chunk: list[T] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += bytes_of(item)
        if size >= bytes_max or len(chunk) >= rows_max:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
