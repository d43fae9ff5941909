"""Creation or change of an object, whether it exists or not (decision M118)."""

from collections.abc import Sequence
from typing import Final

from mqdssm.errors import GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.events import write
from mqdssm.events.attributes import check_names, table_of_object
from mqdssm.events.contention import IDENTITY
from mqdssm.events.context import Context
from mqdssm.events.create import CREATABLE, create_or_find
from mqdssm.events.decode import ElementDecoder
from mqdssm.events.entry_builder import link_cn
from mqdssm.events.identification import locate
from mqdssm.events.notices import Notices
from mqdssm.events.settings import guid_of
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import RoutingLink
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import link_dn
from mqdssm.tables.row import Access

ATTEMPTS_MAX: Final = 5
"""Maximum attempts while other programs create and delete the object."""


def upsert(ctx: Context, notices: Notices, obj: DirectoryObject, attributes: Sequence[str] | None) -> bool:
    """Write an object, or create it if it does not exist (decision M118).

    Args:
        ctx: the surroundings.
        notices: sent as for a write or a create.
        obj: says which object, and all its values.
        attributes: the specification's names of the attributes to store; None: all that are populated or
            were unset.

    Returns:
        True if the object was created.

    Raises:
        GenericDirectoryError: an attribute that only a create can store has another value.
        ObjectAlreadyExists: another object has the name, or other programs were faster each time.
        DirectoryError: as a create or a write.
        ValueError: a value that no directory can hold.
    """
    table = table_of_object(obj, CREATABLE, "created or written")
    names = obj.populated | obj.assigned
    if attributes is not None:
        check_names(table, attributes)
        names &= frozenset(attributes)
    error_of_create: ObjectAlreadyExists | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            _write(ctx, notices, table, obj, names)
        except ObjectNotFound as error:
            missing = error
        else:
            return False
        try:
            created = create_or_find(ctx, obj, attributes)
        except ObjectAlreadyExists as error:
            error_of_create = error
            continue
        if created.is_new:
            notices.notify_creation(obj, created.identifier)
            return True
    raise error_of_create or missing


def _write(
    ctx: Context, notices: Notices, table: ElementTable, obj: DirectoryObject, names: frozenset[str]
) -> None:
    """Write an existing object.

    Raises:
        ObjectNotFound: there is no such object.
        GenericDirectoryError: an attribute that cannot be written has another value.
    """
    if isinstance(obj, RoutingLink) and obj.identifier is None and not obj.full_path:
        place = link_dn(ctx.forest_root, link_cn(obj))
        obj.identifier = guid_of(ctx.session.get(place, IDENTITY))
    _check_fixed(ctx, table, obj, names)
    written = [row.adm for row in table.rows if row.adm in names and row.access & Access.WRITE]
    with notices.notify_write(obj, written):
        write.write(ctx, obj, written)


def _check_fixed(ctx: Context, table: ElementTable, obj: DirectoryObject, names: frozenset[str]) -> None:
    fixed = [
        row.adm
        for row in table.rows
        if row.adm in names & obj.populated and row.access & Access.CREATE and not row.access & Access.WRITE
    ]
    if not fixed:
        return
    decoder = ElementDecoder(table, fixed, ctx.session, strict=False)
    entry = locate(ctx, table, obj, (*IDENTITY, *decoder.plan.columns))
    stored = decoder.from_entry(entry)
    for name in fixed:
        field = table.row(name).field
        if getattr(stored, field) != getattr(obj, field):
            raise GenericDirectoryError(
                f"{table.name}.{name} is {getattr(stored, field)} and cannot be written",
                dn=entry.dn,
                hint="nothing was changed: delete the object and create it again, or leave the attribute out",
            )
