"""mSMQSettings objects: one below each site that a server serves ([MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9).

What should be there is compared with what is there: the three cases of 3.1.6.7.1.9, a moved site list
and the deletion of a queue manager are all the same reconciliation (M42).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal
from mqdssm.errors import GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.references import References
from mqdssm.model.dn import DN
from mqdssm.model.elements import Site
from mqdssm.tables import TABLES, places
from mqdssm.tables.settings import COPIED, LDAP_CLASS
from mqdssm.tables.syntax import BOOLEAN

log = logging.getLogger(__name__)

MADE_BY_US: Final = "Made by mqdssm to hold MSMQ Settings"
"""Description of `server` and `Servers` objects of ours: only these are removed when they become empty."""

CONFIGURATION_ATTRIBUTES: Final = tuple(copied.configuration for copied in COPIED)
_ROLES: Final = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")


@dataclass(frozen=True, slots=True)
class Served:
    """What a queue manager's entry says about its settings objects.

    Attributes:
        identifier: objectGUID of the mSMQConfiguration.
        computer: name of the computer.
        sites: GUIDs of mSMQSites.
        values: LDAP values of `CONFIGURATION_ATTRIBUTES` that are set, objectGUID among them.
    """

    identifier: UUID
    computer: str
    sites: tuple[UUID, ...]
    values: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, entry: Entry) -> "Served":
        """Out of an mSMQConfiguration entry that was read with `ATTRIBUTES`."""
        dn = DN.parse(entry.dn)
        values = {name: entry.all(name) for name in CONFIGURATION_ATTRIBUTES if entry.all(name)}
        raw = entry.first("objectGUID")
        if raw is None or len(raw) != 16:
            raise GenericDirectoryError("the queue manager has no objectGUID", dn=entry.dn)
        sites = tuple(UUID(bytes_le=value) for value in entry.all("mSMQSites") if len(value) == 16)
        return cls(UUID(bytes_le=raw), dn.parent.name, sites, values)

    @property
    def is_server(self) -> bool:
        """Whether one of the three roles is TRUE: then settings objects must exist (3.1.6.20.1)."""
        return any(BOOLEAN.load(value) for name in _ROLES for value in self.values.get(name, ()))


ATTRIBUTES: Final = (*CONFIGURATION_ATTRIBUTES, "mSMQSites")


def reconcile(ctx: Context, served: Served, *, renew: bool = False, gone: Sequence[UUID] = ()) -> None:
    """Make the settings objects what the queue manager's entry says.

    Args:
        ctx: the surroundings.
        served: the queue manager as it is now in the directory.
        renew: existing ones are deleted and made anew, as a create does (3.1.6.1.1.3).
        gone: sites that it served before, whose objects may lack mSMQQMID.

    Raises:
        DirectoryError: an object could not be created, changed or deleted.
    """
    wanted = _places(ctx, served.sites, served.computer) if served.is_server else {}
    found = _existing(ctx, served, [*wanted.values(), *_places(ctx, gone, served.computer).values()])
    kept = {dn for dn in wanted.values() if dn in found}
    for dn in found:
        if dn not in kept or renew:
            _delete(ctx, dn)
    for dn in wanted.values():
        if dn in kept and not renew:
            ctx.session.modify(dn, _changes(found[dn], served))
        else:
            _create(ctx, dn, served)


def remove_all(ctx: Context, served: Served) -> None:
    """Delete the settings objects of a queue manager that was deleted ([MS-MQDSSM] 3.1.6.2.1.3).

    Raises:
        DirectoryError: one could not be deleted.
    """
    for dn in _existing(ctx, served, list(_places(ctx, served.sites, served.computer).values())):
        _delete(ctx, dn)


def _places(ctx: Context, sites: Sequence[UUID], computer: str) -> dict[UUID, DN]:
    """Where the settings objects belong; sites that do not exist are skipped."""
    if not sites:
        return {}
    found = References(ctx.session).dns_of(sites, TABLES[Site].ldap_class)
    return {
        guid: places.settings_dn(ctx.forest_root, DN.parse(found[guid]).name, computer)
        for guid in dict.fromkeys(sites)
        if guid in found
    }


def _existing(ctx: Context, served: Served, likely: Sequence[DN]) -> dict[DN, Entry]:
    """The settings objects there are: those that name the queue manager, and those at the likely places."""
    attributes = [copied.settings for copied in COPIED]
    session = ctx.session
    of_class = session.profile.class_filter(LDAP_CLASS)
    found: dict[DN, Entry] = {}
    wanted = And((of_class, Equal("mSMQQMID", served.identifier.bytes_le)))
    try:
        for entry in session.find(places.sites_dn(ctx.forest_root), wanted, attributes):
            found[DN.parse(entry.dn)] = entry
    except ObjectNotFound:
        return {}
    for dn in likely:
        if dn not in found:
            try:
                found[dn] = session.get(dn, attributes, object_filter=of_class)
            except ObjectNotFound:
                continue
    return found


def _values(served: Served) -> dict[str, tuple[bytes, ...]]:
    return {copied.settings: tuple(served.values.get(copied.configuration, ())) for copied in COPIED}


def _changes(entry: Entry, served: Served) -> dict[str, tuple[bytes, ...]]:
    """Only what differs: a write that changes nothing writes nothing."""
    return {name: values for name, values in _values(served).items() if tuple(entry.all(name)) != values}


def _create(ctx: Context, dn: DN, served: Served) -> None:
    attributes = {name: values for name, values in _values(served).items() if values}
    try:
        ctx.session.create(dn, LDAP_CLASS, attributes)
    except ObjectNotFound:
        if not ctx.create_server_objects:
            raise
        _make_server(ctx, dn.parent)
        ctx.session.create(dn, LDAP_CLASS, attributes)


def _make_server(ctx: Context, server: DN) -> None:
    """Make the `server` object, and the `Servers` container above it, where they are missing (M6)."""
    for dn, ldap_class in ((server.parent, "serversContainer"), (server, "server")):
        try:
            ctx.session.create(dn, ldap_class, {"description": (MADE_BY_US.encode(),)})
        except ObjectAlreadyExists:
            continue


def _delete(ctx: Context, dn: DN) -> None:
    try:
        ctx.session.delete(dn)
    except ObjectNotFound:
        log.info("%s was gone already", dn)
    for above in (dn.parent, dn.parent.parent):
        if not _remove_if_ours(ctx, above):
            return


def _remove_if_ours(ctx: Context, dn: DN) -> bool:
    """Remove a `server` or `Servers` object that we made and that is empty (M42)."""
    try:
        entry = ctx.session.get(dn, ["description"])
        if MADE_BY_US.encode() not in entry.all("description"):
            return False
        ctx.session.delete(dn)
    except ObjectNotFound:
        return True
    except GenericDirectoryError:
        return False  # it still holds something
    return True
