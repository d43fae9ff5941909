"""Create Directory Object ([MS-MQDSSM] 3.1.6.1)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.errors import (
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
    OutcomeUnknown,
)
from mqdssm.events import security, settings
from mqdssm.events.attributes import (
    list_left_by_create,
    list_server_made_names,
    select_names_to_create,
    table_of_object,
)
from mqdssm.events.context import Context, Machine
from mqdssm.events.encode import KEYS_NAME, DnsOf, find_incomplete_names, keys_of, look_up
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.machines import call_with_machine
from mqdssm.events.new_entry import NewEntry
from mqdssm.events.object_names import check_computer, parse_new_path
from mqdssm.events.settings import Served, guid_of, postprocess
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.tables import TABLES

CREATABLE: Final = (QueueManager, Queue, Site, RoutingLink)
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "QueueManager": ("SiteIdentifierList", "ComputerName"),
    "Queue": ("Pathname",),
    "Site": ("Name",),
    "RoutingLink": ("Site1Identifier", "Site2Identifier", "ActualCost"),
}
"""Attributes that must be populated ([MS-MQDSSM] 3.1.6.1.x.1)."""
ADD_ATTEMPTS_MAX: Final = 5
"""Maximum attempts to add an object that is reported as existing but not found."""
NEED_NOT_BE_LISTED: Final = frozenset({"ComputerName"})
"""Required attributes that a list of attributes need not name ([MS-MQDSSM] 3.1.6.1.1.1)."""


def create(ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None) -> UUID:
    """Create an object in the directory.

    Returns:
        objectGUID of the new object; of the existing one, for a queue manager that exists (M4).

    Raises:
        DirectoryError: as `create_or_find`.
        ValueError: as `create_or_find`.
    """
    return create_or_find(ctx, obj, attributes).identifier


def create_or_find(ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None) -> "Created":
    """Create an object in the directory.

    Args:
        ctx: the surroundings.
        obj: what to create.
        attributes: the specification's names of the attributes to persist; None: all that are populated.

    Returns:
        The new object, or the queue manager that exists (M4).

    Raises:
        GenericDirectoryError: a kind that cannot be created (M44), or a broken precondition.
        ObjectNotFound: the parent does not exist.
        ObjectAlreadyExists: there is such an object.
        ValueError: a name or a value that no directory can hold.
    """
    work = prepare_create(ctx, obj, attributes)
    created = _create(work, obj)
    mark_created(work, obj, created)
    return created


def prepare_create(ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None) -> "CreateContext":
    """Check the preconditions of a create, and return its context.

    Raises:
        GenericDirectoryError: a kind that cannot be created (M44), or a broken precondition.
    """
    table = table_of_object(obj, CREATABLE, "created")
    names = select_names_to_create(table, obj, attributes)
    _check_required(obj, attributes)
    dns_of = look_up(ctx)
    maker = EntryBuilder(_make_target(ctx, obj), dns_of, from_elsewhere=False)
    return CreateContext(ctx, maker, dns_of, names)


@dataclass(frozen=True, slots=True)
class CreateContext:
    """Context of one create.

    Attributes:
        ctx: the surroundings.
        maker: of entries.
        dns_of: where the objects are that the new one refers to.
        names: the attributes to store.
    """

    ctx: Context
    maker: EntryBuilder
    dns_of: DnsOf
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Created:
    """Result of a create.

    Attributes:
        identifier: objectGUID of the object.
        stored: names of the attributes that the directory holds now.
        original: the GUID that the object brought, where the directory keeps it beside its own (M37).
        is_new: False for a queue manager that existed.
    """

    identifier: UUID
    stored: frozenset[str]
    original: UUID | None = None
    is_new: bool = True


def mark_created(work: CreateContext, obj: DirectoryObject, created: Created) -> None:
    """Mark an element as created.

    Attributes that servers made for an earlier object are unset.
    """
    table = TABLES[type(obj)]
    stored = created.stored - find_incomplete_names(obj, table.ldap_class, created.stored, work.dns_of)
    obj.mark_created(
        created.identifier,
        outdated=list_server_made_names(table),
        left=list_left_by_create(table, obj, stored),
        original_identifier=created.original,
    )


def _make_target(ctx: Context, obj: DirectoryObject) -> EntryTarget:
    """Return the target of new entries.

    The target has the bound identity if a descriptor needs it.
    """
    profile = ctx.session.profile
    needs_owner = isinstance(obj, QueueManager | Site) or profile.writes_default_security
    bound = security.sid_of(ctx.session.bound_sid()) if needs_owner else None
    return EntryTarget(
        profile=profile, root=ctx.root, forest_root=ctx.forest_root, keeps_guids=False, bound=bound
    )


def _create(work: CreateContext, obj: DirectoryObject) -> Created:
    match obj:
        case QueueManager():
            return _create_queue_manager(work, obj)
        case Queue():
            return _create_queue(work, obj)
        case Site():
            # the text says CN=Services: decision M2
            return _add(work, work.maker.site(obj, work.names), obj)
        case RoutingLink():
            return _add(work, work.maker.link(obj, work.names), obj)
    raise GenericDirectoryError(f"{type(obj).__name__} is no element of the abstract model")


def _check_required(obj: DirectoryObject, attributes: Sequence[str] | None) -> None:
    required = REQUIRED[obj.element_name]
    listed = required if attributes is None else attributes
    absent = [name for name in required if name not in listed and name not in NEED_NOT_BE_LISTED]
    if absent:
        raise GenericDirectoryError(f"the attribute list must name {obj.element_name}.{', '.join(absent)}")
    empty = [
        name
        for name in required
        if not obj.is_populated(name) or getattr(obj, obj.field_name(name)) in {None, ""}
    ]
    if empty:
        raise GenericDirectoryError(f"{obj.element_name}.{', '.join(empty)} must be set to create it")


def _add(work: CreateContext, entry: NewEntry, obj: DirectoryObject) -> Created:
    """Create an object in few round trips: Create Object Using LDAP.

    See decision M30 and 3.1.6.12.

    The GUID that the object brings is kept where the server lets us (M37).
    """
    session = work.ctx.session
    brought = obj.identifier if "Identifier" in work.names else None
    identifier = session.create(entry.dn, entry.ldap_class, entry.values, brought)
    identifier = identifier or _read_new_guid(work.ctx, entry.dn)
    kept_beside = brought != identifier and entry.ldap_class in session.profile.original_guid_classes
    return Created(identifier, work.names, brought if kept_beside else None)


def _read_new_guid(ctx: Context, dn: DN) -> UUID:
    """Read the GUID that the server made for a new object.

    Raises:
        OutcomeUnknown: the object was made, and its GUID cannot be read.
    """
    try:
        return guid_of(ctx.session.get(dn, ["objectGUID"]))
    except DirectoryNotConnected as error:
        raise OutcomeUnknown(
            f"the object was made, but its objectGUID could not be read: {error}",
            dn=str(dn),
            hint="read the object by its name",
        ) from error


# -- Queue (3.1.6.1.2) -------------------------------------------------------------------------------


def _create_queue(work: CreateContext, queue: Queue) -> Created:
    path = parse_new_path(queue.pathname or "")

    def below(machine: Machine) -> Created:
        entry = work.maker.queue(queue, machine.dn, machine.sid, work.names)
        try:
            return _add(work, entry, queue)
        except ObjectNotFound as error:
            error.hint = (
                f"{path.computer} has no queue manager, or this user may not see it: create that first"
            )
            raise

    return call_with_machine(work.ctx, path.computer, below)


# -- QueueManager (3.1.6.1.1) ------------------------------------------------------------------------


def _create_queue_manager(work: CreateContext, manager: QueueManager) -> Created:
    """Create a queue manager.

    Of an existing one only the signing keys are written (decision M47).
    """
    ctx, names = work.ctx, work.names
    check_computer(manager.computer_name or "")
    keys = keys_of(manager, names)

    def below(machine: Machine) -> Created:
        entry = work.maker.queue_manager(manager, machine.dn, machine.sid, names=names)
        created = _add_or_find(work, entry, manager)
        if isinstance(created, Entry):
            # 3.1.6.1.1.2 step 4: the existing object's GUID, and processing goes on (M4)
            existing = Created(guid_of(created), names & {KEYS_NAME}, is_new=False)
            mark_created(work, manager, replace(existing, stored=frozenset()))
            postprocess(ctx, "there already", machine.dn, keys, Served.of(created))
            return existing
        mark_created(work, manager, replace(created, stored=names - {KEYS_NAME}))
        values = entry.values | {"objectGUID": (created.identifier.bytes_le,)}
        served = Served.of(Entry(str(entry.dn), {name.lower(): list(raws) for name, raws in values.items()}))
        postprocess(ctx, "created", machine.dn, keys, served if served.is_server else None, new=True)
        return created

    return call_with_machine(ctx, manager.computer_name or "", below)


def _add_or_find(work: CreateContext, entry: NewEntry, manager: QueueManager) -> Created | Entry:
    """Add a queue manager, or return the existing entry.

    Returns:
        The created object; or the existing entry of that name, read for its settings.

    Raises:
        ObjectAlreadyExists: another object has the GUID that this one brings.
    """
    for attempt in range(1, ADD_ATTEMPTS_MAX + 1):
        try:
            return _add(work, entry, manager)
        except ObjectAlreadyExists:
            with suppress(ObjectNotFound):  # another program may have deleted it since
                return work.ctx.session.get(entry.dn, settings.ATTRIBUTES)
            if attempt == ADD_ATTEMPTS_MAX:
                raise
    raise AssertionError("unreachable")
