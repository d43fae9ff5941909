"""Look-up of objects with filters and sort orders, streamed.

See [MS-MQDSSM] 3.1.6.3, 3.1.6.4 and 3.1.6.15.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, LdapFilter, all_of, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import EndOfData, GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.attribute_plan import Found, guid_of
from mqdssm.events.attributes import check_names, read_with, select_names_to_read
from mqdssm.events.conditions import Given, list_conjuncts, to_server_filter, to_test
from mqdssm.events.context import Context
from mqdssm.events.criteria import Residual, check_value, sort_key
from mqdssm.events.decode import ASK_ITS_DOMAIN, ElementDecoder
from mqdssm.events.identification import build_class_filter, read_entry, read_queue, read_queue_manager
from mqdssm.events.references import BATCH_TERMS, References, split_into_batches
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Site
from mqdssm.model.filters import Filter, SortKey
from mqdssm.tables import TABLES, compute
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import search_base
from mqdssm.tables.row import Access, Computed, Row


@dataclass(frozen=True, slots=True)
class ServerView:
    """Decoders of a look-up for the entries of one server.

    Attributes:
        table: of the element.
        decoder: lenient decoder, for the objects that are tested.
        severe: strict decoder, for the objects that are returned (M40); None: `decoder` serves.
        references: their memory.
    """

    table: ElementTable
    decoder: ElementDecoder
    severe: ElementDecoder | None
    references: References

    @classmethod
    def of(
        cls,
        table: ElementTable,
        names: Iterable[str],
        session: Session,
        requested: frozenset[str],
        *,
        strict: bool,
    ) -> Self:
        """Make the view of a session.

        Args:
            table: of the element.
            names: the attributes to set.
            session: whose entries they are.
            requested: attributes that the caller asked for by name.
            strict: a value of a found object that is missing or damaged is an error.
        """
        names = tuple(names)
        decoder = ElementDecoder(table, names, session, requested=requested, strict=False)
        severe = ElementDecoder(table, names, session, requested=requested, strict=True) if strict else None
        return cls(table, decoder, severe, decoder.plan.references())

    def elements(self, entries: Sequence[Found], residuals: Sequence[Residual]) -> Iterator[DirectoryObject]:
        """Yield the elements of entries that pass all tests."""
        self.decoder.plan.prefetch(entries, self.references)
        for dn, values, _ in entries:
            element = self.decoder.element(dn, values, self.references)
            if not self._has_passed(element, dn, residuals):
                continue
            yield element if self.severe is None else self.severe.element(dn, values, self.references)

    def _has_passed(self, element: DirectoryObject, dn: str, residuals: Sequence[Residual]) -> bool:
        """Return True if an element passes all tests.

        Raises:
            GenericDirectoryError: nobody knows: a list without the object could be too short, one with it
                wrong (decision M73).
        """
        unknown = self.decoder.unknown
        undecided: frozenset[str] = frozenset()
        for residual in residuals:
            verdict = residual.judge(element, unknown)
            if verdict is None:
                undecided |= residual.attributes & unknown
            elif not verdict:
                return False
        if undecided:
            raise GenericDirectoryError(
                "nobody can tell whether an object of another domain is searched for: a global catalog "
                f"does not hold {self.table.name}.{', '.join(sorted(undecided))}",
                dn=dn,
                hint=f"{ASK_ITS_DOMAIN}, or leave that filter out",
            )
        return True


BATCH_ENTRIES: Final = 500
"""Maximum entries whose references are resolved together: half a usual page."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Criteria of a look-up: the server's filter, and the tests of the results.

    Attributes:
        ldap_filter: the LDAP filter, the class included (decision M32).
        place: a filter that names the one object there can be (FullPath, Pathname, ComputerName): it is read
            at its DN, not searched for (M17).
        residuals: tests on the results.
        below: where the search begins, and all that is found has to be; None: where objects of the class are
            ([MS-MQDSSM] 3.1.6.15).
        page_size: entries that are asked for at once; None: as the options say.
    """

    ldap_filter: LdapFilter
    place: Filter | None
    residuals: tuple[Residual, ...]
    below: DN | None = None
    page_size: int | None = None


def search(
    ctx: Context,
    table: ElementTable,
    filters: Sequence[Given],
    attributes: Sequence[str] | None,
    sort: Sequence[SortKey] = (),
    *,
    strict: bool = False,
    below: DN | None = None,
    limit: int | None = None,
) -> Generator[DirectoryObject, None, None]:
    """Yield the objects that satisfy all filters.

    Only a sort holds the objects in memory.

    Filters and names are checked at once; the search begins with the first object that is asked for.

    Args:
        ctx: of the directory.
        table: of the element.
        filters: all must hold.
        attributes: to set; None: all.
        sort: see `SortKey`.
        strict: a value that is missing or damaged is an error, not a gap and a warning (M40); of the objects
            that satisfy the filters, not of the others that have to be looked at.
        below: look only there and below; where nothing is, nothing is found.
        limit: maximum number of objects; None: all.

    Raises:
        GenericDirectoryError: a name that cannot be asked for, a site that does not exist (3.1.6.4.5.4).
        ValueError: a value that an attribute cannot have.
    """
    names = select_names_to_read(table, attributes)
    keys = _sort_keys(table, sort)
    searched = forest.choose_search_session(ctx, table.ldap_class)
    criteria = _make_criteria(ctx, table, filters, part_only=searched.is_part_only)
    criteria = replace(criteria, below=below)
    if limit is not None and not keys and not criteria.residuals:
        # one more than the limit: a page that is the last one keeps its connection
        criteria = replace(criteria, page_size=min(limit + 1, searched.options.page_size))
    needed = dict.fromkeys(names)
    needed.update(dict.fromkeys(key.attribute for key in keys))
    needed.update(dict.fromkeys(name for test in criteria.residuals for name in sorted(test.attributes)))
    for name in tuple(needed):
        needed.update(dict.fromkeys(read_with(table, name)))
    if searched is not ctx.session:
        needed["Identifier"] = None  # for reading the objects again in their own domain
    requested = frozenset(attributes or ())
    view = ServerView.of(table, needed, searched, requested, strict=strict)
    own_view = (
        view
        if searched is ctx.session
        else ServerView.of(table, needed, ctx.session, requested, strict=strict)
    )
    extra = tuple(name for name in needed if name not in names)
    objects = _read_elements(ctx, table, criteria, view, own_view)
    if keys:
        objects = iter(_sort_objects(table, objects, keys))
    return _finish(objects, extra, limit)


def find_one(
    ctx: Context, table: ElementTable, filters: Sequence[Given], attributes: Sequence[str] | None
) -> DirectoryObject | None:
    """Return the first object that satisfies all filters, or None.

    See [MS-MQDSSM] 3.1.6.3.1 and decision M18.
    """
    objects = search(ctx, table, filters, attributes, strict=True, limit=1)
    try:
        return next(objects, None)
    finally:
        objects.close()


def _make_criteria(
    ctx: Context, table: ElementTable, filters: Sequence[Given], *, part_only: bool
) -> Criteria:
    terms: list[LdapFilter] = [build_class_filter(ctx, table)]
    residuals: list[Residual] = []
    place: Filter | None = None
    site_of = partial(_site_of, ctx, table)
    for condition in list_conjuncts(table, filters):
        if place is None and isinstance(condition, Filter) and _is_place_condition(table, condition):
            value = check_value(table, table.row(condition.attribute), condition.value)
            place = replace(condition, value=value)
            continue
        server_filter = to_server_filter(table, condition, ctx.session, site_of, part_only=part_only)
        if server_filter.filter is not None:
            terms.append(server_filter.filter)
        if not server_filter.is_exact:
            residuals.append(to_test(table, condition))
    return Criteria(all_of(*terms), place, tuple(residuals))


_PLACES: Final = frozenset(
    {Computed.FULL_PATH, Computed.DIRECTORY_PATH, Computed.PATHNAME, Computed.COMPUTER_NAME}
)


def _is_place_condition(table: ElementTable, expression: Filter) -> bool:
    return expression.operator == "==" and table.row(expression.attribute).computed in _PLACES


def _site_of(ctx: Context, table: ElementTable, expression: Filter) -> str | None:
    """Return the site's DN of a Site1Identifier or Site2Identifier filter.

    See [MS-MQDSSM] 3.1.6.4.5.4-5.
    """
    row = table.row(expression.attribute)
    if row.computed is not Computed.SITE or expression.operator not in {"==", "!="}:
        return None
    guid: UUID = check_value(table, row, expression.value)
    try:
        return ctx.session.get(guid, ["objectClass"], object_filter=build_class_filter(ctx, TABLES[Site])).dn
    except ObjectNotFound:
        raise GenericDirectoryError(f"{row.adm}: there is no site {guid}") from None


def _read_elements(
    ctx: Context, table: ElementTable, criteria: Criteria, view: ServerView, own_view: ServerView
) -> Iterator[DirectoryObject]:
    """Yield the elements that satisfy the criteria.

    Args:
        ctx: of the directory.
        table: of the element.
        criteria: criteria of the look-up.
        view: view of the searched server, which may be a global catalog.
        own_view: of the domain controller, which holds all of the objects of its domain.
    """
    if criteria.place is not None:
        columns = tuple(dict.fromkeys((*own_view.decoder.plan.columns, *view.decoder.plan.columns)))
        try:
            entry = _entry_of(ctx, table, criteria, criteria.place, columns)
        except ObjectNotFound:
            return  # 3.1.6.4.x.2: nothing found is an empty list
        if criteria.below is not None and not entry.name.is_at_or_below(criteria.below):
            return
        view_of_entry = view if forest.is_elsewhere(ctx, entry.dn) else own_view
        values = [entry.all(column) or None for column in view_of_entry.decoder.plan.columns]
        yield from view_of_entry.elements([(entry.dn, values, None)], criteria.residuals)
        return
    size = min(BATCH_ENTRIES, criteria.page_size or ctx.session.options.page_size)
    for batch in split_into_batches(_read_entries(table, criteria, view), size):
        rest = batch
        if view is not own_view and view.decoder.unknown:
            again, rest = _split_by_domain(ctx, batch, view)
            for some in split_into_batches(again, BATCH_TERMS):
                yield from own_view.elements(_read_again(ctx, criteria, own_view, some), criteria.residuals)
        yield from view.elements(rest, criteria.residuals)


def _read_entries(table: ElementTable, criteria: Criteria, view: ServerView) -> Iterator[Found]:
    session, plan = view.decoder.session, view.decoder.plan
    base = criteria.below or search_base(table.ldap_class, session.naming.root, session.naming.configuration)
    rows = session.rows(
        base,
        criteria.ldap_filter,
        plan.columns,
        multi=plan.multi,
        page_size=criteria.page_size,
        references=plan.referring,
    )
    try:
        for dn, *values, brought in rows:
            yield dn, values, brought
    except ObjectNotFound:
        return  # 3.1.6.4.x.2


def _split_by_domain(
    ctx: Context, batch: Sequence[Found], view: ServerView
) -> tuple[list[UUID], list[Found]]:
    """Split a batch into objects of the own domain and other entries.

    The objects are given by their GUIDs.
    """
    place = view.decoder.plan.columns.index("objectGUID")
    own_guids: list[UUID] = []
    rest: list[Found] = []
    for entry in batch:
        guid = guid_of(entry[1][place])
        if guid is None or forest.is_elsewhere(ctx, entry[0]):
            rest.append(entry)
        else:
            own_guids.append(guid)
    return own_guids, rest


def _read_again(ctx: Context, criteria: Criteria, own_view: ServerView, guids: Sequence[UUID]) -> list[Found]:
    """Read objects that the catalog found from the domain controller.

    The domain controller is authoritative.
    """
    base, plan = ctx.session.naming.default, own_view.decoder.plan
    search_filter = all_of(
        criteria.ldap_filter, any_of(*(Equal("objectGUID", guid.bytes_le) for guid in guids))
    )
    rows = ctx.session.rows(base, search_filter, plan.columns, multi=plan.multi, references=plan.referring)
    return [(dn, values, brought) for dn, *values, brought in rows]


def _entry_of(
    ctx: Context, table: ElementTable, criteria: Criteria, place: Filter, columns: Sequence[str]
) -> Entry:
    value = place.value
    match table.row(place.attribute).computed:
        case Computed.FULL_PATH:
            entry = read_entry(ctx, table, value, columns)
        case Computed.DIRECTORY_PATH:
            entry = read_entry(ctx, table, compute.dn_of_directory_path(value), columns)
        case Computed.PATHNAME:
            entry = read_queue(ctx, table, value, columns)
        case _:
            entry = read_queue_manager(ctx, table, value, columns)
    if criteria.ldap_filter == build_class_filter(ctx, table):
        return entry
    # the server tests the other filters: read the object once more with all of them
    return forest.get(ctx, entry.dn, columns, criteria.ldap_filter)


def _sort_keys(table: ElementTable, sort: Sequence[SortKey]) -> list[SortKey]:
    """Return the effective sort keys, most significant first; others are dropped.

    [MS-MQDSSM] 3.1.6.4.1.2 step 6.
    """
    check_names(table, [key.attribute for key in sort])
    used = [key for key in sort if key.priority and table.row(key.attribute).access & Access.SORT]
    return sorted(used, key=lambda key: -key.priority)


def _sort_objects(
    table: ElementTable, objects: Iterable[DirectoryObject], keys: Sequence[SortKey]
) -> list[DirectoryObject]:
    """Sort objects by several keys, the least significant first.

    Python's sort is stable.
    """
    ordered = list(objects)
    for key in reversed(keys):
        row = table.row(key.attribute)
        ordered.sort(key=partial(_key_of, row), reverse=not key.ascending)
    return ordered


def _key_of(row: Row, obj: DirectoryObject) -> tuple[bool, object]:
    return sort_key(row, getattr(obj, row.field))


def _finish(
    objects: Iterator[DirectoryObject], extra: Sequence[str], limit: int | None
) -> Generator[DirectoryObject, None, None]:
    """Unset attributes that the caller did not ask for, and stop at the limit."""
    for number, obj in enumerate(objects, 1) if limit != 0 else ():
        for name in extra:
            obj.forget(name)
        yield obj
        if number == limit:
            return


def read(
    ctx: Context, table: ElementTable, filters: Sequence[Given], attributes: Sequence[str] | None
) -> DirectoryObject:
    """Read the first object that satisfies all filters.

    A single ``Identifier ==`` or ``FullPath ==`` is read directly (3.1.6.3.3.2), everything else is
    searched for (3.1.6.3.1).

    Raises:
        GenericDirectoryError: an attribute that cannot be read, or whose value is missing or damaged.
        ObjectNotFound: there is no such object; `EndOfData`, one of these, where it was searched for.
        ValueError: a value that an attribute cannot have.
    """
    conjuncts = list_conjuncts(table, filters)
    target = _find_direct_target(table, conjuncts)
    if target is None:
        obj = find_one(ctx, table, conjuncts, attributes)
        if obj is None:
            conditions = " and ".join(map(_describe, conjuncts))
            raise EndOfData(
                f"there is no {table.name}{' with ' if conditions else ''}{conditions}",
                hint=ctx.session.profile.hidden_hint,
            )
        return obj
    names = select_names_to_read(table, attributes)
    requested = frozenset(attributes or ())
    decoder = ElementDecoder(table, names, ctx.session, requested=requested, strict=True)
    entry = forest.get(ctx, target, decoder.plan.columns, build_class_filter(ctx, table))
    if (session := forest.choose_object_session(ctx, entry.dn)) is not ctx.session:
        decoder = ElementDecoder(table, names, session, requested=requested, strict=True)
    return decoder.from_entry(entry)


def _describe(condition: Given) -> str:
    if isinstance(condition, Filter):
        return f"{condition.attribute} {condition.operator} {condition.value!r}"
    return repr(condition)


def _find_direct_target(table: ElementTable, conjuncts: Sequence[Given]) -> UUID | str | None:
    only = conjuncts[0] if len(conjuncts) == 1 else None
    if not isinstance(only, Filter) or only.operator != "==":
        return None
    if only.attribute not in {"Identifier", "FullPath"}:
        return None
    value: UUID | str = check_value(table, table.row(only.attribute), only.value)
    return value
