"""mSMQSettings objects: one below each site that a server serves ([MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9).

What should be there is compared with what is there: the three cases of 3.1.6.7.1.9, a moved site list
and the deletion of a queue manager are all the same reconciliation (M42).
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal
from mqdssm.errors import GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.references import References
from mqdssm.model.dn import DN
from mqdssm.model.elements import QueueManager, Site
from mqdssm.tables import TABLES, places
from mqdssm.tables.settings import COPIED, LDAP_CLASS
from mqdssm.tables.syntax import BOOLEAN

log = logging.getLogger(__name__)

MADE_BY_US: Final = "Made by mqdssm to hold MSMQ Settings"
"""Description of `server` and `Servers` objects of ours: only these are removed when they become empty."""

CONFIGURATION_ATTRIBUTES: Final = tuple(copied.configuration for copied in COPIED)
SETTINGS_ATTRIBUTES: Final = tuple(copied.settings for copied in COPIED)
_ROLES: Final = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")


ATTEMPTS_MAX: Final = 5
"""How often what another program makes or removes at the same time is made good."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a queue manager's entry says about its settings objects.

    Attributes:
        identifier: objectGUID of the mSMQConfiguration; None for one that was made by hand without.
        computer: name of the computer.
        sites: GUIDs of mSMQSites.
        values: LDAP values of `CONFIGURATION_ATTRIBUTES` that are set, objectGUID among them.
    """

    identifier: UUID | None
    computer: str
    sites: tuple[UUID, ...]
    values: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, entry: Entry) -> "Served":
        """Out of an mSMQConfiguration entry that was read with `ATTRIBUTES`."""
        values = {name: entry.all(name) for name in CONFIGURATION_ATTRIBUTES if entry.all(name)}
        sites = tuple(UUID(bytes_le=value) for value in entry.all("mSMQSites") if len(value) == 16)
        return cls(_guid(entry, "objectGUID"), DN.parse(entry.dn).parent.name, sites, values)

    @property
    def is_server(self) -> bool:
        """Whether one of the three roles is TRUE: then settings objects must exist (3.1.6.20.1)."""
        return is_server(self.values)


def is_server(values: Mapping[str, Sequence[bytes]]) -> bool:
    """Whether one of the three roles is TRUE among the LDAP values of a queue manager (3.1.6.20.1)."""
    return any(BOOLEAN.load(value) for name in _ROLES for value in values.get(name, ()))


ATTRIBUTES: Final = (*CONFIGURATION_ATTRIBUTES, "mSMQSites")


def guid_of(entry: Entry) -> UUID:
    """The objectGUID of an entry that was read with it.

    Raises:
        GenericDirectoryError: it has none.
    """
    found = _guid(entry, "objectGUID")
    if found is None:
        raise GenericDirectoryError("the object has no objectGUID", dn=entry.dn)
    return found


def _guid(entry: Entry, attribute: str) -> UUID | None:
    raw = entry.first(attribute)
    return None if raw is None or len(raw) != 16 else UUID(bytes_le=raw)


def make_all(ctx: Context, served: Served) -> None:
    """Make the settings objects of a new queue manager ([MS-MQDSSM] 3.1.6.1.1.3).

    What an earlier queue manager of the computer left at their places is replaced (M65).

    Raises:
        DirectoryError: one could not be made.
    """
    if served.is_server:
        for dn in _places(ctx, served.sites, served.computer).values():
            _put(ctx, dn, served, None, renew=True)


def reconcile(ctx: Context, served: Served, *, gone: Sequence[UUID] = ()) -> None:
    """Make the settings objects what the queue manager's entry says.

    Args:
        ctx: the surroundings.
        served: the queue manager as it is now in the directory.
        gone: sites that it served before, whose objects may lack mSMQQMID.

    Raises:
        DirectoryError: an object could not be created, changed or deleted.
    """
    wanted = _places(ctx, served.sites, served.computer) if served.is_server else {}
    found = _existing(ctx, served, [*wanted.values(), *_places(ctx, gone, served.computer).values()])
    kept = frozenset(wanted.values())
    for dn in found:
        if dn not in kept:
            delete_one(ctx, dn)
    for dn in wanted.values():
        _put(ctx, dn, served, found.get(dn))


def remove_all(ctx: Context, served: Served) -> None:
    """Delete the settings objects of a queue manager that was deleted ([MS-MQDSSM] 3.1.6.2.1.3).

    Raises:
        DirectoryError: one could not be deleted; the others are.
    """
    failed: GenericDirectoryError | None = None
    for dn in _existing(ctx, served, list(_places(ctx, served.sites, served.computer).values())):
        try:
            delete_one(ctx, dn)
        except GenericDirectoryError as error:
            failed = failed or error
    if failed is not None:
        left = "the queue manager is deleted, this settings object of it is left over"
        failed.hint = f"{failed.hint}; {left}" if failed.hint else left
        raise failed


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
    """The settings objects there are: those that name the queue manager, and those at the likely places.

    Those of another queue manager, of a computer of the same name elsewhere, are none of them (M59).
    """
    session = ctx.session
    found: dict[DN, Entry] = {}
    if served.identifier is not None:
        own = Equal("mSMQQMID", served.identifier.bytes_le)
        wanted = And((session.profile.class_filter(LDAP_CLASS), own))
        try:
            for entry in session.find(places.sites_dn(ctx.forest_root), wanted, SETTINGS_ATTRIBUTES):
                found[DN.parse(entry.dn)] = entry
        except ObjectNotFound:
            return {}
    for dn in likely:
        if dn not in found:
            there = _entry_at(ctx, dn)
            if there is not None and _other_owner(ctx, there, served) is None:
                found[dn] = there
    return found


def _entry_at(ctx: Context, dn: DN) -> Entry | None:
    of_class = ctx.session.profile.class_filter(LDAP_CLASS)
    try:
        return ctx.session.get(dn, SETTINGS_ATTRIBUTES, object_filter=of_class)
    except ObjectNotFound:
        return None


def _other_owner(ctx: Context, entry: Entry, served: Served) -> str | None:
    """The DN of another queue manager that a settings object belongs to; None if there is none."""
    owner = _guid(entry, "mSMQQMID")
    if owner is None or owner == served.identifier:
        return None
    return References(ctx.session).dns_of([owner], TABLES[QueueManager].ldap_class).get(owner)


def _values(served: Served) -> dict[str, tuple[bytes, ...]]:
    return {copied.settings: tuple(served.values.get(copied.configuration, ())) for copied in COPIED}


def _changes(entry: Entry, served: Served) -> dict[str, tuple[bytes, ...]]:
    """Only what differs: a write that changes nothing writes nothing."""
    return {name: values for name, values in _values(served).items() if tuple(entry.all(name)) != values}


def _put(ctx: Context, dn: DN, served: Served, there: Entry | None, *, renew: bool = False) -> None:
    """Make or change one settings object, whatever other programs do to it meanwhile.

    Args:
        ctx: the surroundings.
        dn: its place.
        served: the queue manager.
        there: what was found at its place, if anything was.
        renew: what stands there turns out to be older than the queue manager: it is replaced.

    Raises:
        GenericDirectoryError: the settings of another queue manager stand there.
        DirectoryError: it could not be made or changed.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            if there is None:
                _create(ctx, dn, served)
            else:
                ctx.session.modify(dn, _changes(there, served))
        except (ObjectAlreadyExists, ObjectNotFound) as error:
            if attempt == ATTEMPTS_MAX or (there is None and isinstance(error, ObjectNotFound)):
                raise
            there = _entry_at(ctx, dn)
            owner = None if there is None else _other_owner(ctx, there, served)
            if owner is not None:
                raise GenericDirectoryError(
                    "the settings of another queue manager stand where those of this one belong",
                    dn=str(dn),
                    hint=f"two computers of one name serve the same site: the other one is {owner}",
                ) from error
            if there is not None and renew and _guid(there, "mSMQQMID") != served.identifier:
                with suppress(ObjectNotFound):
                    ctx.session.delete(dn)
                there = None
        else:
            return


def _create(ctx: Context, dn: DN, served: Served) -> None:
    attributes = {name: values for name, values in _values(served).items() if values}
    for attempt in range(ATTEMPTS_MAX):
        try:
            ctx.session.create(dn, LDAP_CLASS, attributes)
        except ObjectNotFound:
            if not ctx.create_server_objects or attempt == ATTEMPTS_MAX - 1:
                raise
            _make_server(ctx, dn.parent)
        else:
            return


def _make_server(ctx: Context, server: DN) -> None:
    """Make the `server` object, and the `Servers` container above it, where they are missing (M6)."""
    for dn, ldap_class in ((server.parent, "serversContainer"), (server, "server")):
        try:
            ctx.session.create(dn, ldap_class, {"description": (MADE_BY_US.encode(),)})
        except (ObjectAlreadyExists, ObjectNotFound):
            continue  # the attempt to add what belongs below shows what is missing


def delete_one(ctx: Context, dn: DN) -> None:
    """Delete a settings object, and what we made to hold it where that is empty then (M42).

    Raises:
        DirectoryError: it could not be deleted.
    """
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
