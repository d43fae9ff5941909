"""Write Directory ([MS-MQDSSM] 3.1.6.7)."""

from collections.abc import Sequence
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.events import settings
from mqdssm.events.attributes import NO_ATTRIBUTES, element_table, left_by_write, names_to_write
from mqdssm.events.context import Context
from mqdssm.events.encode import SERVICE_NAMES, Values, for_server, service_type_of, stored_values
from mqdssm.events.settings import Served
from mqdssm.events.signing import keys_of, signing_values
from mqdssm.events.targets import locate
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import QueueManager, User
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access

_SETTINGS_NAMES: Final = frozenset((*SERVICE_NAMES, "SupportingServer", "SiteIdentifierList"))
"""What decides whether mSMQSettings objects exist, where, and what they hold ([MS-MQDSSM] 3.1.6.7.1.9)."""


def write(ctx: Context, obj: DirectoryObject, attributes: Sequence[str] | None) -> None:
    """Write attributes of an object to the directory: all or none of its own entry.

    Args:
        ctx: the surroundings.
        obj: says which object, and the new values.
        attributes: the specification's names; None: what was assigned since it was read (M45).

    Raises:
        GenericDirectoryError: a kind or an attribute that cannot be written, an object that does not say
            which one it is, a site that does not exist.
        ObjectNotFound: there is no such object.
        ValueError: a value that no directory can hold.
    """
    table = element_table(type(obj), "written")
    names = names_to_write(table, obj, attributes)
    if isinstance(obj, QueueManager):
        _write_queue_manager(ctx, table, obj, names)
    else:
        values = stored_values(ctx, table, obj, names, Access.WRITE)
        if isinstance(obj, User) and "Certificates" in names:
            # digests that were not given come out of the certificates: they go together (M21, M56)
            values = signing_values(obj.certificates) | values
        dn = locate(ctx, table, obj, NO_ATTRIBUTES).dn
        ctx.session.modify(dn, for_server(ctx, table.ldap_class, values))
    obj.mark_written(left_by_write(table, obj, names))


def _write_queue_manager(
    ctx: Context, table: ElementTable, manager: QueueManager, names: frozenset[str]
) -> None:
    entry = locate(ctx, table, manager, settings.ATTRIBUTES)
    before = Served.of(entry)
    values = stored_values(ctx, table, manager, names, Access.WRITE)
    if not names.isdisjoint(SERVICE_NAMES):
        values["mSMQServiceType"] = service_type_of(manager, names, entry)
    keys = keys_of(manager, names)
    ctx.session.modify(entry.dn, for_server(ctx, table.ldap_class, values))
    ctx.session.modify(DN.parse(entry.dn).parent, keys)
    if not names.isdisjoint(_SETTINGS_NAMES):
        after = Served.of(Entry(entry.dn, entry.attributes | _lower(values)))
        gone = [site for site in before.sites if site not in after.sites or not after.is_server]
        settings.reconcile(ctx, after, gone=gone)


def _lower(values: Values) -> dict[str, list[bytes]]:
    return {name.lower(): list(raws) for name, raws in values.items()}
