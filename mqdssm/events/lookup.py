"""Looking up objects: filters, sort orders, streams ([MS-MQDSSM] 3.1.6.4, 3.1.6.15)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import LdapFilter, all_of
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events.attributes import check_names, names_to_read, read_with
from mqdssm.events.context import Context
from mqdssm.events.criteria import Residual, checked_value, is_exact, sort_key, to_ldap, to_residual
from mqdssm.events.decode import ElementDecoder
from mqdssm.events.needs import Found
from mqdssm.events.references import batched
from mqdssm.events.targets import class_filter, entry_at, queue_at, queue_manager_at
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Site
from mqdssm.model.filters import Filter, SortKey
from mqdssm.tables import TABLES, compute
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import search_base
from mqdssm.tables.row import Access, Computed, Row

BATCH_ENTRIES: Final = 500
"""Entries whose references are resolved together, at most: half a usual page."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a look-up asks the server, and what it tests itself.

    Attributes:
        wanted: the LDAP filter, the class included (decision M32).
        place: a filter that names the one object there can be (FullPath, Pathname, ComputerName): it is read
            at its DN, not searched for (M17).
        residuals: tests on the results.
    """

    wanted: LdapFilter
    place: Filter | None
    residuals: tuple[Residual, ...]


def search(
    ctx: Context,
    table: ElementTable,
    filters: Sequence[Filter],
    attributes: Sequence[str] | None,
    sort: Sequence[SortKey] = (),
    *,
    strict: bool = False,
) -> Iterator[DirectoryObject]:
    """The objects that satisfy all filters, streamed; in memory only where a sort needs it.

    Filters and names are checked at once; the search begins with the first object that is asked for.

    Args:
        ctx: of the directory.
        table: of the element.
        filters: all must hold.
        attributes: to set; None: all.
        sort: see `SortKey`.
        strict: a value that is missing or damaged is an error, not a gap and a warning (M40); of the objects
            that satisfy the filters, not of the others that have to be looked at.

    Raises:
        GenericDirectoryError: a name that cannot be asked for, a site that does not exist (3.1.6.4.5.4).
        ValueError: a value that an attribute cannot have.
    """
    names = names_to_read(table, attributes)
    keys = _sort_keys(table, sort)
    criteria = _criteria(ctx, table, filters)
    needed = dict.fromkeys(names)
    needed.update(dict.fromkeys(key.attribute for key in keys))
    needed.update(dict.fromkeys(residual.attribute for residual in criteria.residuals))
    for name in tuple(needed):
        needed.update(dict.fromkeys(read_with(table, name)))
    asked = frozenset(attributes or ())
    decoder = ElementDecoder(table, needed, ctx.session, asked=asked, strict=False)
    severe = ElementDecoder(table, needed, ctx.session, asked=asked, strict=True) if strict else None
    extra = tuple(name for name in needed if name not in names)
    found = _elements(ctx, table, criteria, decoder, severe)
    if keys:
        found = iter(_sorted(table, found, keys))
    return _without(found, extra)


def find_one(
    ctx: Context, table: ElementTable, filters: Sequence[Filter], attributes: Sequence[str] | None
) -> DirectoryObject | None:
    """The first object that satisfies all filters ([MS-MQDSSM] 3.1.6.3.1); the search is ended (M18)."""
    found = search(ctx, table, filters, attributes, strict=True)
    try:
        return next(found, None)
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def _criteria(ctx: Context, table: ElementTable, filters: Sequence[Filter]) -> Criteria:
    terms: list[LdapFilter] = [class_filter(ctx, table)]
    residuals: list[Residual] = []
    place: Filter | None = None
    check_names(table, [expression.attribute for expression in filters])
    for expression in filters:
        if place is None and _names_a_place(table, expression):
            value = checked_value(table, table.row(expression.attribute), expression.value)
            place = replace(expression, value=value)
            continue
        site = _site_of(ctx, table, expression)
        term = to_ldap(table, expression, ctx.session, site_dn=site)
        if term is not None:
            terms.append(term)
        if term is None or not is_exact(table, expression):
            residuals.append(to_residual(table, expression))
    return Criteria(all_of(*terms), place, tuple(residuals))


_PLACES: Final = frozenset(
    {Computed.FULL_PATH, Computed.DIRECTORY_PATH, Computed.PATHNAME, Computed.COMPUTER_NAME}
)


def _names_a_place(table: ElementTable, expression: Filter) -> bool:
    return expression.operator == "==" and table.row(expression.attribute).computed in _PLACES


def _site_of(ctx: Context, table: ElementTable, expression: Filter) -> str | None:
    """Where the site of a Site1Identifier or Site2Identifier filter is ([MS-MQDSSM] 3.1.6.4.5.4-5)."""
    row = table.row(expression.attribute)
    if row.computed is not Computed.SITE or expression.operator not in {"==", "!="}:
        return None
    guid: UUID = checked_value(table, row, expression.value)
    try:
        return ctx.session.get(guid, ["objectClass"], object_filter=class_filter(ctx, TABLES[Site])).dn
    except ObjectNotFound:
        raise GenericDirectoryError(f"{row.adm}: there is no site {guid}") from None


def _elements(
    ctx: Context,
    table: ElementTable,
    criteria: Criteria,
    decoder: ElementDecoder,
    severe: ElementDecoder | None,
) -> Iterator[DirectoryObject]:
    references = decoder.references()
    size = min(BATCH_ENTRIES, ctx.session.options.page_size)
    for batch in batched(_entries(ctx, table, criteria, decoder), size):
        decoder.prefetch(batch, references)
        for dn, values, _ in batch:
            found = decoder.element(dn, values, references)
            if all(residual.holds(found) for residual in criteria.residuals):
                yield found if severe is None else severe.element(dn, values, references)


def _entries(
    ctx: Context, table: ElementTable, criteria: Criteria, decoder: ElementDecoder
) -> Iterator[Found]:
    columns = decoder.columns
    try:
        if criteria.place is not None:
            entry = _entry_of(ctx, table, criteria, criteria.place, columns)
            yield entry.dn, [entry.all(column) or None for column in columns], None
            return
        base = search_base(table.ldap_class, ctx.root, ctx.configuration)
        rows = ctx.session.rows(
            base, criteria.wanted, columns, multi=decoder.multi, references=decoder.referring
        )
        for dn, *values, brought in rows:
            yield dn, values, brought
    except ObjectNotFound:
        return  # 3.1.6.4.x.2: nothing found is an empty list


def _entry_of(
    ctx: Context, table: ElementTable, criteria: Criteria, place: Filter, columns: Sequence[str]
) -> Entry:
    value = place.value
    match table.row(place.attribute).computed:
        case Computed.FULL_PATH:
            found = entry_at(ctx, table, value, columns)
        case Computed.DIRECTORY_PATH:
            found = entry_at(ctx, table, compute.dn_of_directory_path(value), columns)
        case Computed.PATHNAME:
            found = queue_at(ctx, table, value, columns)
        case _:
            found = queue_manager_at(ctx, table, value, columns)
    if criteria.wanted == class_filter(ctx, table):
        return found
    # the other filters are the server's to judge: ask it for the object once more, with all of them
    return ctx.session.get(found.dn, columns, object_filter=criteria.wanted)


def _sort_keys(table: ElementTable, sort: Sequence[SortKey]) -> list[SortKey]:
    """The keys that count, the most significant first; those without an LDAP attribute are dropped.

    [MS-MQDSSM] 3.1.6.4.1.2 step 6.
    """
    check_names(table, [key.attribute for key in sort])
    used = [key for key in sort if key.priority and table.row(key.attribute).access & Access.SORT]
    return sorted(used, key=lambda key: -key.priority)


def _sorted(
    table: ElementTable, found: Iterable[DirectoryObject], keys: Sequence[SortKey]
) -> list[DirectoryObject]:
    """Sort by the least significant key first: Python's sort keeps what was in order."""
    ordered = list(found)
    for key in reversed(keys):
        row = table.row(key.attribute)
        ordered.sort(key=partial(_key_of, row), reverse=not key.ascending)
    return ordered


def _key_of(row: Row, obj: DirectoryObject) -> tuple[bool, object]:
    return sort_key(row, getattr(obj, row.field))


def _without(found: Iterator[DirectoryObject], extra: Sequence[str]) -> Iterator[DirectoryObject]:
    """Take away what only the filters or the sort needed."""
    for obj in found:
        for name in extra:
            obj.unset(name)
        yield obj
