"""Create Directory Object ([MS-MQDSSM] 3.1.6.1)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
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
from mqdssm.events.attributes import left_by_create, names_to_create
from mqdssm.events.context import Context, Machine
from mqdssm.events.encode import DESCRIPTOR, Values, for_server, stored_values
from mqdssm.events.machines import with_machine
from mqdssm.events.making import link_cn, service_values
from mqdssm.events.settings import Served, guid_of
from mqdssm.events.signing import KEYS_NAME, keys_of
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import rdn_of
from mqdssm.tables import TABLES, places
from mqdssm.tables.row import Access

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "QueueManager": ("SiteIdentifierList", "ComputerName"),
        "Queue": ("Pathname",),
        "Site": ("Name",),
        "RoutingLink": ("Site1Identifier", "Site2Identifier", "ActualCost"),
    }
)
"""Attributes that must be populated ([MS-MQDSSM] 3.1.6.1.x.1)."""
NEED_NOT_BE_LISTED: Final = frozenset({"ComputerName"})
"""Of these, what a list of attributes need not name ([MS-MQDSSM] 3.1.6.1.1.1)."""


def create(ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None) -> UUID:
    """Create an object in the directory.

    Args:
        ctx: the surroundings.
        obj: what to create.
        attributes: the specification's names of the attributes to persist; None: all that are populated.

    Returns:
        objectGUID of the new object; of the existing one, for a queue manager that exists (M4).

    Raises:
        GenericDirectoryError: a kind that cannot be created (M44), or a broken precondition.
        ObjectNotFound: the parent does not exist.
        ObjectAlreadyExists: there is such an object.
        ValueError: a name or a value that no directory can hold.
    """
    name = getattr(obj, "element_name", type(obj).__name__)
    if name not in REQUIRED:
        raise GenericDirectoryError(f"{name} objects cannot be created: {', '.join(REQUIRED)} can")
    table = TABLES[type(obj)]
    stored = names = names_to_create(table, obj, attributes)
    _check_required(obj, attributes)
    match obj:
        case QueueManager():
            identifier, stored = _create_queue_manager(ctx, obj, names)
        case Queue():
            identifier = _create_queue(ctx, obj, names)
        case Site():
            identifier = _create_site(ctx, obj, names)
        case RoutingLink():
            identifier = _create_routing_link(ctx, obj, names)
        case _:  # a subclass of somebody else's
            raise GenericDirectoryError(f"{type(obj).__name__} is no element of the abstract model")
    obj.mark_written(left_by_create(table, obj, stored))
    return identifier


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


def _identity(obj: DirectoryObject, names: frozenset[str]) -> UUID | None:
    """The GUID that the object brings: it is kept where the server lets us (M37)."""
    return obj.identifier if "Identifier" in names else None


def _add(ctx: Context, dn: DN, ldap_class: str, values: Values, identifier: UUID | None) -> UUID:
    """Create Object Using LDAP (3.1.6.12), in as few round trips as the server allows (M30)."""
    attributes = {name: raws for name, raws in for_server(ctx, ldap_class, values).items() if raws}
    made = ctx.session.create(dn, ldap_class, attributes, identifier)
    return made or _guid_of_new(ctx, dn)


def _guid_of_new(ctx: Context, dn: DN) -> UUID:
    """The GUID that the server gave an object, which is there: no error may say that it is not.

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


def _create_queue(ctx: Context, queue: Queue, names: frozenset[str]) -> UUID:
    path = PathName.parse(queue.pathname or "")
    if path.subqueue is not None:
        raise ValueError(f"Pathname {queue.pathname!r}: subqueues are not stored, and a name has no ';'")
    if path.kind is not PathKind.PUBLIC:
        raise GenericDirectoryError(
            f"{queue.pathname!r} is no public queue: only these are stored in a directory (3.1.6.20.2)"
        )
    table = TABLES[Queue]
    values = stored_values(ctx, table, queue, names, Access.CREATE)
    name = rdn_of(path.queue)
    if name.extension is not None:
        values["mSMQQueueNameExt"] = (name.extension.encode(),)

    def below(machine: Machine) -> UUID:
        sent = values
        if not values.get(DESCRIPTOR) and ctx.session.profile.writes_default_security:
            bound = security.sid_of(ctx.session.bound_sid())
            sent = values | {DESCRIPTOR: (security.queue_descriptor(machine=machine.sid, bound=bound),)}
        dn = places.queue_manager_of(machine.dn).child("CN", name.cn)
        try:
            return _add(ctx, dn, table.ldap_class, sent, _identity(queue, names))
        except ObjectNotFound as error:
            error.hint = (
                f"{path.computer} has no queue manager, or this user may not see it: create that first"
            )
            raise

    return with_machine(ctx, path.computer, below)


# -- QueueManager (3.1.6.1.1) ------------------------------------------------------------------------


def _check_computer(name: str) -> None:
    """Refuse a computer whose queues no path name could name ([MS-MQMQ] 2.1.1).

    Raises:
        ValueError: a backslash, a blank, a control or non-ASCII character in its name.
    """
    if "\\" in name:
        raise ValueError(f"computer name {name!r} contains a backslash: its queues could not be named")
    PathName.parse(f"{name}\\q")


def _create_queue_manager(
    ctx: Context, manager: QueueManager, names: frozenset[str]
) -> tuple[UUID, frozenset[str]]:
    """Create it; of one that exists only the signing keys are written (M47).

    Returns:
        Its objectGUID, and the names of the attributes that the directory holds now.
    """
    _check_computer(manager.computer_name or "")
    table = TABLES[QueueManager]
    values = stored_values(ctx, table, manager, names, Access.CREATE)
    values |= service_values(manager, names)
    keys = keys_of(manager, names)

    def below(machine: Machine) -> tuple[UUID, frozenset[str]]:
        dn = places.queue_manager_of(machine.dn)
        sent = values | _machine_security(ctx, machine, manager, names)
        try:
            identifier = _add(ctx, dn, table.ldap_class, sent, _identity(manager, names))
        except ObjectAlreadyExists:
            # 3.1.6.1.1.2 step 4: the existing object's GUID, and processing goes on (M4)
            there = _existing(ctx, dn)
            if there is None:  # another object has the GUID that this one brings
                raise
            ctx.session.modify(machine.dn, keys)
            settings.reconcile(ctx, Served.of(there))
            return guid_of(there), names & {KEYS_NAME}
        ctx.session.modify(machine.dn, keys)
        stored = {name: raws for name, raws in values.items() if raws}
        stored["objectGUID"] = (identifier.bytes_le,)
        settings.make_all(ctx, Served(identifier, machine.dn.name, manager.site_identifier_list, stored))
        return identifier, names

    return with_machine(ctx, manager.computer_name or "", below)


def _existing(ctx: Context, dn: DN) -> Entry | None:
    try:
        return ctx.session.get(dn, settings.ATTRIBUTES)
    except ObjectNotFound:
        return None


def _machine_security(ctx: Context, machine: Machine, manager: QueueManager, names: frozenset[str]) -> Values:
    # on every server: with the default of Active Directory's schema the machine could not make queues
    descriptor = security.machine_descriptor(
        supplied=manager.security if "Security" in names else None,
        machine=machine.sid,
        bound=security.sid_of(ctx.session.bound_sid()),
        foreign="ForeignSystem" in names and manager.foreign_system,
    )
    return {DESCRIPTOR: (descriptor,)}


# -- Site (3.1.6.1.3) --------------------------------------------------------------------------------


def _create_site(ctx: Context, site: Site, names: frozenset[str]) -> UUID:
    table = TABLES[Site]
    values = stored_values(ctx, table, site, names, Access.CREATE)
    supplied = site.security if "Security" in names else None
    bound = security.sid_of(ctx.session.bound_sid())
    values[DESCRIPTOR] = (security.site_descriptor(supplied=supplied, bound=bound),)
    # the text says CN=Services: decision M2
    dn = places.site_dn(ctx.forest_root, site.name or "")
    return _add(ctx, dn, table.ldap_class, values, _identity(site, names))


# -- RoutingLink (3.1.6.1.4) -------------------------------------------------------------------------


def _create_routing_link(ctx: Context, link: RoutingLink, names: frozenset[str]) -> UUID:
    table = TABLES[RoutingLink]
    values = stored_values(ctx, table, link, names, Access.CREATE)
    dn = places.link_dn(ctx.forest_root, link_cn(link))
    return _add(ctx, dn, table.ldap_class, values, _identity(link, names))
