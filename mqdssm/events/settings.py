"""mSMQSettings objects of servers, one below each site.

See [MS-MQDSSM] 3.1.6.1.1.3 and 3.1.6.7.1.9.

The wanted objects are compared with the existing ones: the three cases of 3.1.6.7.1.9, a changed site list
and the deletion of a queue manager are one reconciliation (M42).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry, parse_name
from mqdssm.directory.filters import And, Equal
from mqdssm.errors import (
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectChanged,
    ObjectNotFound,
)
from mqdssm.events.contention import ATTEMPTS_MAX, IDENTITY, explain_half_done
from mqdssm.events.context import Context
from mqdssm.events.encode import Values
from mqdssm.events.references import References
from mqdssm.model.dn import DN
from mqdssm.model.elements import QueueManager, Site
from mqdssm.tables import TABLES, places
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS
from mqdssm.tables.syntax import BOOLEAN

log = logging.getLogger(__name__)

MADE_BY_US: Final = "Made by mqdssm to hold MSMQ Settings"
"""Description of `server` and `Servers` objects made here: only these are removed when empty."""

CONFIGURATION_ATTRIBUTES: Final = tuple(copied.configuration for copied in COPIED)
SETTINGS_ATTRIBUTES: Final = (*IDENTITY, *(copied.settings for copied in COPIED))
_ROLES: Final = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")


PLACES_ATTEMPTS_MAX: Final = 50
"""Maximum attempts at one settings object while other programs change it or its parents."""


@dataclass(frozen=True, slots=True)
class Served:
    """Attributes of a queue manager's entry that determine its settings objects.

    Attributes:
        dn: the mSMQConfiguration.
        identifier: its objectGUID; None for one that was made by hand without.
        computer: name of the computer.
        sites: GUIDs of mSMQSites, sorted.
        values: LDAP values of `CONFIGURATION_ATTRIBUTES` that are set, objectGUID among them.
    """

    dn: DN = field(compare=False)
    identifier: UUID | None
    computer: str
    sites: tuple[UUID, ...]
    values: Mapping[str, tuple[bytes, ...]]

    @classmethod
    def of(cls, entry: Entry) -> "Served":
        """Make it from an mSMQConfiguration entry that was read with `ATTRIBUTES`."""
        values = {name: tuple(entry.all(name)) for name in CONFIGURATION_ATTRIBUTES if entry.all(name)}
        sites = sorted({UUID(bytes_le=value) for value in entry.all("mSMQSites") if len(value) == 16})
        dn = entry.name
        return cls(dn, _decode_guid(entry, "objectGUID"), dn.parent.name, tuple(sites), values)

    @classmethod
    def deleted(cls, identifier: UUID) -> "Served":
        """Make it for a deleted queue manager that may have left settings objects."""
        return cls(DN(), identifier, "", (), {})

    @property
    def is_server(self) -> bool:
        """True if one of the three roles is TRUE (3.1.6.20.1).

        Settings objects must exist then.
        """
        return is_server(self.values)


def is_server(values: Mapping[str, Sequence[bytes]]) -> bool:
    """Return True if one of a queue manager's three roles is TRUE (3.1.6.20.1).

    The roles are read from its LDAP values.
    """
    return any(BOOLEAN.load(value) for name in _ROLES for value in values.get(name, ()))


ATTRIBUTES: Final = (*CONFIGURATION_ATTRIBUTES, "mSMQSites")


def guid_of(entry: Entry) -> UUID:
    """Return the objectGUID of an entry.

    Raises:
        GenericDirectoryError: it has none.
    """
    guid = _decode_guid(entry, "objectGUID")
    if guid is None:
        raise GenericDirectoryError("the object has no objectGUID", dn=entry.dn)
    return guid


def _decode_guid(entry: Entry, attribute: str) -> UUID | None:
    raw = entry.first(attribute)
    return None if raw is None or len(raw) != 16 else UUID(bytes_le=raw)


def settle(ctx: Context, served: Served, *, before: Sequence[UUID] = (), new: bool = False) -> None:
    """Update the settings objects until they agree with the queue manager's entry.

    See decision M92.

    Other programs may change the entry and update its settings objects at the same time. The entry is read
    again after each round, so that the last writer has used its last state.

    Args:
        ctx: the surroundings.
        served: the queue manager as it should be in the directory now.
        before: sites that it served before, whose objects may lack mSMQQMID.
        new: it was made just now: what an earlier queue manager left is replaced (M65), not looked for.

    Raises:
        ObjectChanged: other programs changed the entry in every round.
        DirectoryError: an object could not be created, changed or deleted.
    """
    sites = dict.fromkeys((*served.sites, *before))
    for attempt in range(ATTEMPTS_MAX):
        failure: DirectoryError | None = None
        try:
            _reconcile(ctx, served, tuple(sites), new=new and not attempt)
        except DirectoryNotConnected:
            raise
        except DirectoryError as error:
            failure = error  # it counts if the entry is still what was settled
        now = _read(ctx, served)
        if now is None:
            remove_all(ctx, served)  # deleted meanwhile: its new settings objects have no owner
            return
        if now == served:
            if failure is not None:
                raise failure
            return
        served = now
        sites |= dict.fromkeys(now.sites)
    raise ObjectChanged(
        f"roles and sites of the queue manager were changed {ATTEMPTS_MAX} times while its mSMQSettings "
        "objects were written",
        dn=str(served.dn),
    )


def _read(ctx: Context, served: Served) -> Served | None:
    """Return the queue manager as it is now; None if it was deleted."""
    target = served.dn if served.identifier is None else served.identifier
    of_class = ctx.session.profile.build_class_filter(TABLES[QueueManager].ldap_class)
    try:
        return Served.of(ctx.session.get(target, ATTRIBUTES, object_filter=of_class, only_own=True))
    except ObjectNotFound:
        return None


def _reconcile(ctx: Context, served: Served, sites: Sequence[UUID], *, new: bool) -> None:
    """Update the settings objects once, by a state of the queue manager's entry.

    Args:
        ctx: the surroundings.
        served: roles and sites that the entry said.
        sites: sites that the queue manager serves or served.
        new: as for `settle`.
    """
    dns = _find_places(ctx, sites, served.computer)
    expected = [dns[site] for site in served.sites if site in dns] if served.is_server else []
    stored = {} if new else _find_existing(ctx, served, list(dns.values()))
    for dn, entry in stored.items():
        if dn not in expected:
            delete_one(ctx, entry)
    for dn in expected:
        _put(ctx, dn, served, stored.get(dn), new=new)


def remove_all(ctx: Context, served: Served) -> None:
    """Delete the settings objects of a deleted queue manager.

    See [MS-MQDSSM] 3.1.6.2.1.3.

    Raises:
        DirectoryError: some could not be deleted, and are named; the others are.
    """
    failures: dict[DN, GenericDirectoryError] = {}
    likely = list(_find_places(ctx, served.sites, served.computer).values())
    for dn, entry in _find_existing(ctx, served, likely).items():
        try:
            delete_one(ctx, entry)
        except GenericDirectoryError as error:
            failures[dn] = error
    for failure in failures.values():
        left_over = "left over: " + "; ".join(map(str, failures))
        failure.hint = f"{failure.hint}; {left_over}" if failure.hint else left_over
        raise failure


def _find_places(ctx: Context, sites: Sequence[UUID], computer: str) -> dict[UUID, DN]:
    """Return the places of the settings objects; sites that do not exist are skipped."""
    if not sites:
        return {}
    dns = References(ctx.session).dns_of(sites, TABLES[Site].ldap_class)
    return {
        guid: places.settings_dn(ctx.forest_root, parse_name(dns[guid]).name, computer)
        for guid in dict.fromkeys(sites)
        if guid in dns
    }


def _find_existing(ctx: Context, served: Served, likely: Sequence[DN]) -> dict[DN, Entry]:
    """Find the existing settings objects, by the queue manager's GUID and place.

    Only the likely places are searched.

    Those of another queue manager, on a computer of the same name elsewhere, are left out (M59).
    """
    session = ctx.session
    entries: dict[DN, Entry] = {}
    if served.identifier is not None:
        owner_filter = Equal("mSMQQMID", served.identifier.bytes_le)
        search_filter = And((session.profile.build_class_filter(SETTINGS_CLASS), owner_filter))
        try:
            for entry in session.find(places.sites_dn(ctx.forest_root), search_filter, SETTINGS_ATTRIBUTES):
                entries[entry.name] = entry
        except ObjectNotFound:
            return {}
    for dn in likely:
        if dn not in entries:
            entry_at_place = _read_entry(ctx, dn)
            if entry_at_place is not None and _find_other_owner(ctx, entry_at_place, served) is None:
                entries[dn] = entry_at_place
    return entries


def _read_entry(ctx: Context, dn: DN) -> Entry | None:
    of_class = ctx.session.profile.build_class_filter(SETTINGS_CLASS)
    try:
        return ctx.session.get(dn, SETTINGS_ATTRIBUTES, object_filter=of_class)
    except ObjectNotFound:
        return None


def _find_other_owner(ctx: Context, entry: Entry, served: Served) -> str | None:
    """Return the DN of another queue manager that owns a settings object.

    None if there is none.
    """
    owner = _decode_guid(entry, "mSMQQMID")
    if owner is None or owner == served.identifier:
        return None
    return References(ctx.session).dns_of([owner], TABLES[QueueManager].ldap_class).get(owner)


def _encode_values(served: Served) -> dict[str, tuple[bytes, ...]]:
    return {copied.settings: served.values.get(copied.configuration, ()) for copied in COPIED}


def _find_changes(entry: Entry, served: Served) -> dict[str, tuple[bytes, ...]]:
    """Return the attributes that differ from the wanted ones."""
    return {
        name: values for name, values in _encode_values(served).items() if tuple(entry.all(name)) != values
    }


def _put(ctx: Context, dn: DN, served: Served, existing: Entry | None, *, new: bool) -> None:
    """Create or change one settings object, also while other programs change it.

    Args:
        ctx: the surroundings.
        dn: its place.
        served: the queue manager.
        existing: the entry at its place, if there is one.
        new: the queue manager is new: what stands there is of an earlier one, also without mSMQQMID.

    Raises:
        GenericDirectoryError: the settings of another queue manager stand there.
        DirectoryError: it could not be made or changed.
    """
    for attempt in range(1, PLACES_ATTEMPTS_MAX + 1):
        try:
            if existing is None:
                _create(ctx, dn, served)
            elif _is_left_over(existing, served, new=new):
                # not changed in place: a program that deletes left-over objects must not delete the new one
                ctx.session.delete(existing)
                _create(ctx, dn, served)
            else:
                ctx.session.modify(existing, _find_changes(existing, served))
        except (ObjectAlreadyExists, ObjectChanged, ObjectNotFound) as error:
            if attempt == PLACES_ATTEMPTS_MAX or (existing is None and isinstance(error, ObjectNotFound)):
                raise
            existing = _read_entry(ctx, dn)
            owner = None if existing is None else _find_other_owner(ctx, existing, served)
            if owner is not None:
                raise GenericDirectoryError(
                    "the settings of another queue manager stand where those of this one belong",
                    dn=str(dn),
                    hint=f"two computers of one name serve the same site: the other one is {owner}",
                ) from error
        else:
            return


def _is_left_over(existing: Entry, served: Served, *, new: bool) -> bool:
    """Return True if a settings object was left by another queue manager.

    An earlier queue manager counts as another one.
    """
    owner = _decode_guid(existing, "mSMQQMID")
    return owner != served.identifier and (new or owner is not None)


def _create(ctx: Context, dn: DN, served: Served) -> None:
    attributes = {name: values for name, values in _encode_values(served).items() if values}
    for attempt in range(PLACES_ATTEMPTS_MAX):
        try:
            ctx.session.create(dn, SETTINGS_CLASS, attributes)
        except ObjectNotFound:
            if not ctx.create_server_objects or attempt == PLACES_ATTEMPTS_MAX - 1:
                raise
            _make_server(ctx, dn.parent)
        else:
            return


def _make_server(ctx: Context, server: DN) -> None:
    """Create the `server` object and its `Servers` container (decision M6).

    Only missing ones are created.
    """
    for dn, ldap_class in ((server.parent, "serversContainer"), (server, "server")):
        try:
            ctx.session.create(dn, ldap_class, {"description": (MADE_BY_US.encode(),)})
        except ObjectAlreadyExists:
            continue
        except ObjectNotFound:
            if dn != server:
                raise  # the site is gone


def delete_one(ctx: Context, entry: Entry) -> None:
    """Delete a settings object and its empty parents (decision M42).

    The parents are deleted only if they were made here.

    Raises:
        DirectoryError: it could not be deleted.
    """
    dn = entry.name
    try:
        ctx.session.delete(entry)
    except (ObjectChanged, ObjectNotFound):
        log.info("%s was gone already", dn)
    for above in (dn.parent, dn.parent.parent):
        if not _remove_if_ours(ctx, above):
            return


def _remove_if_ours(ctx: Context, dn: DN) -> bool:
    """Delete an empty `server` or `Servers` object that was made here (M42).

    Returns True if the object no longer exists.
    """
    try:
        entry = ctx.session.get(dn, ["description", *IDENTITY])
        if MADE_BY_US.encode() not in entry.all("description"):
            return False
        ctx.session.delete(entry)
    except ObjectNotFound:
        return True
    except GenericDirectoryError:
        return False  # it still holds something
    return True


REPEAT: Final = (
    "the entry stays as it is now: repeat the call when the cause is removed, "
    "it makes what is missing of the computer's keys and of the mSMQSettings objects"
)
DELETE_LEFT_OVER: Final = "delete the mSMQSettings objects that are left over"


def postprocess(
    ctx: Context,
    action: str,
    machine: DN,
    keys: Values,
    served: Served | None,
    *,
    before: Sequence[UUID] = (),
    new: bool = False,
) -> None:
    """Write the keys of the computer and the mSMQSettings objects of a queue manager.

    Args:
        ctx: the surroundings.
        action: name of the completed operation, as "created".
        machine: its computer.
        keys: values for the computer.
        served: as for `settle`; None: roles and sites are as they were.
        before: as for `settle`.
        new: as for `settle`.

    Raises:
        DirectoryError: it says that the entry was changed, and how to go on.
    """
    with explain_half_done(lambda: f"the queue manager was {action}", REPEAT):
        ctx.session.modify(machine, keys)
        if served is not None:
            settle(ctx, served, before=before, new=new)


def remove_settings(ctx: Context, served: Served) -> None:
    """Delete the mSMQSettings objects of a deleted queue manager.

    See [MS-MQDSSM] 3.1.6.2.1.3.

    Raises:
        DirectoryError: it says that the queue manager is deleted, and what is left over.
    """
    with explain_half_done(lambda: "the queue manager was deleted", DELETE_LEFT_OVER):
        remove_all(ctx, served)
