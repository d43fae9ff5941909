"""Write Directory ([MS-MQDSSM] 3.1.6.7)."""

from collections.abc import Callable, Sequence
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.errors import ObjectChanged
from mqdssm.events import settings
from mqdssm.events.attributes import list_left_by_write, select_names_to_write, table_of_object
from mqdssm.events.contention import IDENTITY, change_located
from mqdssm.events.context import Context
from mqdssm.events.encode import (
    SERVICE_NAMES,
    DnsOf,
    Values,
    build_signing_values,
    convert_for_server,
    find_incomplete_names,
    keys_of,
    look_up,
    service_type_of,
    values_of,
)
from mqdssm.events.read_values import ReadValues
from mqdssm.events.settings import Served, postprocess
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import QueueManager, User
from mqdssm.tables import TABLES
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access

_SETTINGS_NAMES: Final = frozenset((*SERVICE_NAMES, "SupportingServer", "SiteIdentifierList"))
"""Attributes that determine the mSMQSettings objects ([MS-MQDSSM] 3.1.6.7.1.9)."""


def write(
    ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None, *, if_unchanged: bool = False
) -> None:
    """Write attributes of an object to the directory.

    Of the attributes of its own entry, all or none are written.

    Args:
        ctx: the surroundings.
        obj: says which object, and the new values.
        attributes: the specification's names; None: the attributes assigned since the read (M45).
        if_unchanged: write only if the directory has the values that the object was read with (M116).

    Raises:
        GenericDirectoryError: a kind or an attribute that cannot be written, an object that does not say
            which one it is, a site that does not exist.
        ObjectChanged: the directory has other values than the object was read with.
        ObjectNotFound: there is no such object.
        ValueError: a value that no directory can hold.
    """
    table = table_of_object(obj, TABLES, "written")
    names = select_names_to_write(table, obj, attributes)
    dns_of = look_up(ctx)
    expected = ReadValues.of(ctx, table, obj, names) if if_unchanged else None
    if isinstance(obj, QueueManager):
        _write_queue_manager(ctx, table, obj, names, dns_of, expected=expected)
    else:
        values = values_of(table, obj, names, Access.WRITE, dns_of)
        if isinstance(obj, User) and "Certificates" in names:
            # digests that were not given come out of the certificates: they go together (M21, M56)
            values = build_signing_values(obj.certificates) | values
        attributes = IDENTITY if expected is None else (*IDENTITY, *values)
        _replace(ctx, table, obj, attributes, lambda _: values, expected=expected)
    written = names - find_incomplete_names(obj, table.ldap_class, names, dns_of)
    obj.mark_written(list_left_by_write(table, obj, written))


def _write_queue_manager(
    ctx: Context,
    table: ElementTable,
    manager: QueueManager,
    names: frozenset[str],
    dns_of: DnsOf,
    *,
    expected: ReadValues | None,
) -> None:
    values = values_of(table, manager, names, Access.WRITE, dns_of)
    keys = keys_of(manager, names)

    def merge_service(entry: Entry) -> Values:
        if names.isdisjoint(SERVICE_NAMES):
            return values
        return values | {"mSMQServiceType": service_type_of(manager, names, entry)}

    attributes = settings.ATTRIBUTES if expected is None else (*settings.ATTRIBUTES, *values)
    entry, written = _replace(
        ctx,
        table,
        manager,
        attributes,
        merge_service,
        unchanged=_list_names_to_read(names),
        expected=expected,
    )
    before, served = Served.of(entry), None
    if not names.isdisjoint(_SETTINGS_NAMES):
        written_values = {name.lower(): list(raws) for name, raws in written.items()}
        served = Served.of(Entry(entry.dn, entry.attributes | written_values))
    postprocess(ctx, "written", before.dn.parent, keys, served, before=before.sites)


def _list_names_to_read(names: frozenset[str]) -> tuple[str, ...]:
    """Return the stored attributes needed to compute mSMQServiceType.

    See [MS-MQDSSM] 3.1.6.7.1.5.
    """
    if names.isdisjoint(SERVICE_NAMES):
        return ()
    type_alone = "DirectoryServerType" in names and "DirectoryServer" not in names
    return ("mSMQServiceType", "mSMQDsServices") if type_alone else ("mSMQServiceType",)


def _replace(
    ctx: Context,
    table: ElementTable,
    obj: DirectoryObject,
    attributes: Sequence[str],
    values_for: Callable[[Entry], Values],
    *,
    unchanged: Sequence[str] = (),
    expected: ReadValues | None = None,
) -> tuple[Entry, Values]:
    """Replace values of an element's entry (decision M92).

    The change is tried again if the entry changes meanwhile.

    Args:
        ctx: the surroundings.
        table: of the element.
        obj: the element.
        attributes: to read of the entry.
        values_for: what to write, by the entry as it was read.
        unchanged: attributes that `values_for` has looked at.
        expected: values that the entry must have; None: any.

    Returns:
        The entry before the change, and the written values.

    Raises:
        ObjectChanged: the entry has other values than the expected ones.
    """
    read = attributes if expected is None else tuple(dict.fromkeys((*attributes, *expected.ldap_attributes)))

    def change(entry: Entry) -> tuple[Entry, Values] | ObjectChanged:
        values, guarded = values_for(entry), tuple(unchanged)
        if expected is not None:
            if (lost := expected.check(entry)) is not None:
                return lost  # not raised: another attempt would be in vain
            guarded = tuple(dict.fromkeys((*guarded, *expected.list_guarded(entry, values))))
        sent = convert_for_server(ctx, table.ldap_class, values)
        ctx.session.modify(entry, sent, unchanged=guarded)
        return entry, values

    changed = change_located(ctx, table, obj, read, change)
    if isinstance(changed, ObjectChanged):
        raise changed
    return changed
