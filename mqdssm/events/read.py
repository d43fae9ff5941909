"""Read Directory ([MS-MQDSSM] 3.1.6.3)."""

from collections.abc import Sequence
from uuid import UUID

from mqdssm.errors import EndOfData
from mqdssm.events import forest
from mqdssm.events.attributes import check_names, names_to_read
from mqdssm.events.context import Context
from mqdssm.events.criteria import checked_value
from mqdssm.events.decode import ElementDecoder
from mqdssm.events.lookup import find_one
from mqdssm.events.targets import class_filter
from mqdssm.model.base import DirectoryObject
from mqdssm.model.filters import Filter
from mqdssm.tables.element_table import ElementTable


def read(
    ctx: Context, table: ElementTable, filters: Sequence[Filter], attributes: Sequence[str] | None
) -> DirectoryObject:
    """Read the first object that satisfies all filters.

    A single ``Identifier ==`` or ``FullPath ==`` is read directly (3.1.6.3.3.2), everything else is
    searched for (3.1.6.3.1).

    Raises:
        GenericDirectoryError: an attribute that cannot be read, or whose value is missing or damaged.
        ObjectNotFound: there is no such object; `EndOfData`, one of these, where it was searched for.
        ValueError: a value that an attribute cannot have.
    """
    target = _direct_target(table, filters)
    if target is None:
        found = find_one(ctx, table, filters, attributes)
        if found is None:
            wanted = " and ".join(f"{one.attribute} {one.operator} {one.value!r}" for one in filters)
            raise EndOfData(
                f"there is no {table.name}{' with ' if wanted else ''}{wanted}",
                hint=ctx.session.profile.hidden_hint,
            )
        return found
    names = names_to_read(table, attributes)
    asked = frozenset(attributes or ())
    decoder = ElementDecoder(table, names, ctx.session, asked=asked, strict=True)
    entry = forest.get(ctx, target, decoder.columns, class_filter(ctx, table))
    if (session := forest.holder(ctx, entry.dn)) is not ctx.session:
        decoder = ElementDecoder(table, names, session, asked=asked, strict=True)
    return decoder.from_entry(entry)


def _direct_target(table: ElementTable, filters: Sequence[Filter]) -> UUID | str | None:
    if len(filters) != 1 or filters[0].operator != "==":
        return None
    only = filters[0]
    if only.attribute not in {"Identifier", "FullPath"}:
        return None
    check_names(table, [only.attribute])
    value: UUID | str = checked_value(table, table.row(only.attribute), only.value)
    return value
