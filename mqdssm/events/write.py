"""Write Directory ([MS-MQDSSM] 3.1.6.7)."""

from collections.abc import Sequence
from typing import Any, Final

from mqdssm.directory.entries import Entry
from mqdssm.errors import GenericDirectoryError
from mqdssm.events import settings
from mqdssm.events.attributes import names_to_write
from mqdssm.events.context import Context
from mqdssm.events.encode import SERVICE_NAMES, Values, for_server, service_type, stored_values
from mqdssm.events.settings import Served
from mqdssm.events.signing import DIGESTS, signing_values
from mqdssm.events.targets import entry_at, locate
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import ConnectedNetwork, Enterprise, QueueManager, User
from mqdssm.tables import TABLES, compute, places
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access
from mqdssm.tables.syntax import BOOLEAN, UINT32

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
    if isinstance(obj, ConnectedNetwork):
        raise GenericDirectoryError("ConnectedNetwork objects cannot be written: no directory keeps them")
    table = TABLES[type(obj)]
    names = names_to_write(table, obj, attributes)
    match obj:
        case QueueManager():
            _write_queue_manager(ctx, table, obj, names)
        case Enterprise():
            values = stored_values(ctx, table, obj, names, Access.WRITE)
            ctx.session.modify(_enterprise(ctx, table), for_server(ctx, table.ldap_class, values))
        case User():
            values = _user_values(ctx, table, obj, names)
            ctx.session.modify(locate(ctx, table, obj, ["1.1"]).dn, values)
        case _:
            values = stored_values(ctx, table, obj, names, Access.WRITE)
            dn = locate(ctx, table, obj, ["1.1"]).dn
            ctx.session.modify(dn, for_server(ctx, table.ldap_class, values))
    obj.mark_written()


def _enterprise(ctx: Context, table: ElementTable) -> str:
    """The one mSMQEnterpriseSettings object ([MS-MQDSSM] 3.1.6.7.3.2 step 3)."""
    return entry_at(ctx, table, places.enterprise_dn(ctx.forest_root), ["1.1"]).dn


def _write_queue_manager(
    ctx: Context, table: ElementTable, manager: QueueManager, names: frozenset[str]
) -> None:
    entry = locate(ctx, table, manager, settings.ATTRIBUTES)
    before = Served.of(entry)
    values = stored_values(ctx, table, manager, names, Access.WRITE)
    if not names.isdisjoint(SERVICE_NAMES):
        values["mSMQServiceType"] = service_type(manager, names, _stored_roles(entry))
    keys = signing_values(manager.public_signing_key_list) if "PublicSigningKeyList" in names else {}
    ctx.session.modify(entry.dn, for_server(ctx, table.ldap_class, values))
    ctx.session.modify(DN.parse(entry.dn).parent, keys)
    if not names.isdisjoint(_SETTINGS_NAMES):
        after = Served.of(Entry(entry.dn, entry.attributes | _lower(values)))
        gone = [site for site in before.sites if site not in after.sites or not after.is_server]
        settings.reconcile(ctx, after, gone=gone)


def _stored_roles(entry: Entry) -> dict[str, Any]:
    """What the directory holds of the attributes that mSMQServiceType is computed from."""
    service = entry.first("mSMQServiceType")
    bits = 0 if service is None else UINT32.load(service)
    serves = _flag(entry, "mSMQDsServices")
    return {
        "RoutingServer": _flag(entry, "mSMQRoutingServices"),
        "RemoteAccessServer": compute.remote_access_server(bits),
        "DirectoryServer": serves,
        # the bits, whatever the flag says: they come to count when DirectoryServer becomes TRUE
        "DirectoryServerType": compute.directory_server_type(directory_server=True, service=bits),
    }


def _flag(entry: Entry, name: str) -> bool:
    value = entry.first(name)
    return value is not None and BOOLEAN.load(value)


def _lower(values: Values) -> dict[str, list[bytes]]:
    return {name.lower(): list(raws) for name, raws in values.items()}


def _user_values(ctx: Context, table: ElementTable, user: User, names: frozenset[str]) -> Values:
    """Certificates and digests go together: digests that were not given come out of the certificates."""
    values = stored_values(ctx, table, user, names, Access.WRITE)
    if "Certificates" in names and "CertificateDigestList" not in names:
        values[DIGESTS] = signing_values(user.certificates)[DIGESTS]
    return values
