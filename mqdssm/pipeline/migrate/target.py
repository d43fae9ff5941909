"""Target of a plan: look-ups for its objects, many at a time.

The module also has a stand-in for an empty directory.

Look-ups that precede the decisions about rows: in the source's keys and in the target.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, any_of
from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.events.references import BATCH_TERMS, References, split_into_batches
from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate.shared_lookups import (
    Computer,
    KnownSite,
    SharedLookups,
    find_duplicates,
    find_named_computers,
    read_gates,
    read_names,
    read_served_sites,
)
from mqdssm.pipeline.migrate.sids import SidMap
from mqdssm.pipeline.migrate.staging import read_keys
from mqdssm.tables import TABLES, places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS
from mqdssm.tables.mqis import MACHINE, SITE
from mqdssm.wire.sid import Sid

if TYPE_CHECKING:
    from mqdssm.directory.profile import Naming, Profile
    from mqdssm.directory.session import Session

EVERYTHING: Final = ("*", "nTSecurityDescriptor")
"""Attributes that are read of objects to be deleted: the undo file restores them."""
SITE_CLASS: Final = "site"
GUID_ATTRIBUTE: Final = "objectGUID"
RID_FIRST: Final = 2**30
"""First RID for new computers, far above those that domains assign."""
RID_SPAN: Final = 2**29


class TargetView:
    """Look-ups in the target, for one task.

    Args:
        session: to it.
        empty: classes that it has no object of, which are not looked for.
    """

    def __init__(self, session: "Session", empty: frozenset[str] = frozenset()) -> None:
        self.session = session
        self._empty = empty
        self.references = References(session)
        naming = session.naming
        self.root = naming.root
        self.forest_root = naming.configuration.parent

    def by_guid(
        self, guids: Iterable[UUID], ldap_class: str, attributes: Sequence[str]
    ) -> dict[UUID, list[Entry]]:
        """Return the objects of a class by their own or original GUID.

        See decision M37.
        """
        entries: dict[UUID, list[Entry]] = {}
        if ldap_class in self._empty:
            return entries
        profile = self.session.profile
        keys = [GUID_ATTRIBUTE, *([profile.original_guid] if profile.original_guid else [])]
        for batch in split_into_batches(dict.fromkeys(guids), BATCH_TERMS):
            search_filter = any_of(*(profile.build_identifier_filter(ldap_class, guid) for guid in batch))
            batch_guids = frozenset(batch)
            for entry in self._find(ldap_class, search_filter, [*attributes, *keys]):
                for key in keys:
                    raw = entry.first(key)
                    if raw is not None and len(raw) == 16 and (guid := UUID(bytes_le=raw)) in batch_guids:
                        entries.setdefault(guid, []).append(entry)
                        break
        return entries

    def by_dn(self, dns: Iterable[str], ldap_class: str, attributes: Sequence[str]) -> dict[str, Entry]:
        """Return the objects of a class at some DNs, by normalised DN."""
        if ldap_class in self._empty:
            return {}
        return self.references.read_entries_at(dns, ldap_class, [*attributes, GUID_ATTRIBUTE])

    def by_sid(
        self, sids: Iterable[str], ldap_class: str, attributes: Sequence[str]
    ) -> dict[str, list[Entry]]:
        """Return the accounts of a class with some SIDs, by SID."""
        entries_by_sid: dict[str, list[Entry]] = {}
        for batch in split_into_batches(dict.fromkeys(sids), BATCH_TERMS):
            search_filter = any_of(*map(_match_sid, batch))
            for entry in self._find(ldap_class, search_filter, [*attributes, "objectSid"]):
                entries_by_sid.setdefault(_sid_of(entry) or "", []).append(entry)
        return entries_by_sid

    def find_at(self, dn: DN, attributes: Sequence[str]) -> Entry | None:
        """Return the object at a DN, of any class; None if there is none."""
        try:
            return self.session.get(dn, attributes)
        except ObjectNotFound:
            return None

    def _find(self, ldap_class: str, search_filter: LdapFilter, attributes: Sequence[str]) -> Iterable[Entry]:
        return find_of_class(self.session, ldap_class, list(dict.fromkeys(attributes)), search_filter)


def find_of_class(
    session: "Session", ldap_class: str, attributes: Sequence[str], search_filter: LdapFilter | None = None
) -> Iterator[Entry]:
    """Yield the entries of a class in all bases where it can be.

    Settings objects are entries below their sites.
    """
    of_class = session.profile.build_class_filter(ldap_class)
    in_configuration = places.is_in_configuration(ldap_class) or ldap_class == SETTINGS_CLASS
    for base in session.naming.list_bases(configuration=in_configuration):
        where = of_class if search_filter is None else And((of_class, search_filter))
        yield from session.find(base, where, attributes)


# -- look-ups that are made once, before workers begin


def empty_classes(session: "Session") -> frozenset[str]:
    """Return the classes of MSMQ objects of which the target has none."""
    classes = set()
    for ldap_class in {table.ldap_class for table in TABLES.values()}:
        of_class = session.profile.build_class_filter(ldap_class)
        bases = session.naming.list_bases(configuration=places.is_in_configuration(ldap_class))
        if not any(_has_one(session, base, of_class) for base in bases):
            classes.add(ldap_class)
    return frozenset(classes)


def _has_one(session: "Session", base: DN, search_filter: LdapFilter) -> bool:
    try:
        for _ in session.find(base, search_filter, ["1.1"], page_size=1):
            return True
    except ObjectNotFound:
        pass
    return False


def _find_accounts(
    session: "Session", keys: Iterable[str], filter_of: Callable[[str], LdapFilter], attributes: Sequence[str]
) -> Iterator[Entry]:
    """Yield the entries of the domains that a filter finds for some keys.

    Many keys are looked up at a time.
    """
    for batch in split_into_batches(dict.fromkeys(keys), BATCH_TERMS):
        search_filter = any_of(*map(filter_of, batch))
        for base in session.naming.list_bases(configuration=False):
            yield from session.find(base, search_filter, attributes)


def _match_sid(sid: str) -> LdapFilter:
    return Equal("objectSid", bytes(Sid.parse(sid)))


def _match_account(name: str) -> LdapFilter:
    return Equal("sAMAccountName", name.encode())


def _sid_of(entry: Entry) -> str | None:
    raw = entry.first("objectSid")
    return None if raw is None else str(Sid.from_bytes(raw))


def read_sites(session: "Session") -> dict[str, KnownSite]:
    """Return the sites of the target, by the key of the name."""
    base = places.sites_dn(session.naming.configuration.parent)
    sites: dict[str, KnownSite] = {}
    try:
        for entry in session.find(base, session.profile.build_class_filter(SITE_CLASS), [GUID_ATTRIBUTE]):
            name = entry.name.name
            site = KnownSite(name, entry.dn, guid_of(entry.attributes))
            sites[session.profile.name_key(name)] = site
    except ObjectNotFound:
        return {}
    return sites


def find_computers(session: "Session", names: Mapping[str, str]) -> dict[str, Computer]:
    """Return the computers of the target with some names, by the key of the name.

    Args:
        session: to the target.
        names: key of a name -> name.
    """
    account = session.profile.computer_account
    attributes = ["objectSid", "cn", *([account] if account else [])]
    entries_by_name: dict[str, list[Entry]] = {}
    by_name = session.profile.build_computer_filter
    for entry in _find_accounts(session, names, lambda key: by_name(names[key]), attributes):
        keys = map(session.profile.name_key, _names_of(entry, account))
        name_key = next((key for key in keys if key in names), None)
        if name_key is not None:
            entries_by_name.setdefault(name_key, []).append(entry)
    return {name: _make_computer(names[name], entries) for name, entries in entries_by_name.items()}


def _names_of(entry: Entry, account: str | None) -> Iterable[str]:
    """Yield the names of a computer, that of its account first."""
    if account is not None:
        yield (entry.first(account) or b"").decode(errors="replace").removesuffix("$")
    yield entry.name.name


def _make_computer(name: str, entries: Sequence[Entry]) -> Computer:
    dns = sorted({entry.dn for entry in entries})
    if len(dns) > 1:
        return Computer(name, dns[0], None, exists=True, problem=f"{len(dns)} computers are named {name}")
    return Computer(name, dns[0], _sid_of(entries[0]), exists=True)


def find_accounts(session: "Session", names: Collection[str]) -> dict[str, str]:
    """Return the SIDs of accounts (users and groups), by lower-case name.

    A name of several accounts is left out: nobody can tell which of them is meant.
    """
    sids_by_name: dict[str, set[str]] = {}
    attributes = ["sAMAccountName", "objectSid"]
    for entry in _find_accounts(session, names, _match_account, attributes):
        name, sid = entry.first("sAMAccountName"), _sid_of(entry)
        if name is not None and sid is not None:
            sids_by_name.setdefault(name.decode(errors="replace").lower(), set()).add(sid)
    return {name: min(sids) for name, sids in sids_by_name.items() if len(sids) == 1}


def find_sids(session: "Session", sids: Iterable[str]) -> frozenset[str]:
    """Return the SIDs, among some, that the target has accounts for."""
    entries = _find_accounts(session, sids, _match_sid, ["objectSid"])
    return frozenset(sid for entry in entries if (sid := _sid_of(entry)) is not None)


def read_domain_sid(session: "Session") -> Sid | None:
    """Return the SID of the target's domain; None if its root has none."""
    try:
        raw = session.get(session.naming.default, ["objectSid"]).first("objectSid")
    except ObjectNotFound:
        return None
    return None if raw is None else Sid.from_bytes(raw)


def make_new_sids(session: "Session", names: Iterable[str]) -> dict[str, str]:
    """Return SIDs for new computers, computed from their names.

    The result is empty if the server assigns SIDs.

    Args:
        session: to the target.
        names: lower-case names.
    """
    domain = read_domain_sid(session)
    if domain is None or not session.profile.makes_guid:
        return {}
    rids = {name: _compute_rid(name) for name in names}
    used = set(find_sids(session, (f"{domain}-{rid}" for rid in rids.values())))
    sids: dict[str, str] = {}
    for name in sorted(rids):
        rid = rids[name]
        while f"{domain}-{rid}" in used:
            rid += 1
            used.update(find_sids(session, (f"{domain}-{rid}",)))
        sids[name] = f"{domain}-{rid}"
        used.add(sids[name])
    return sids


def _compute_rid(name: str) -> int:
    return RID_FIRST + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % RID_SPAN


DEFAULT_PROFILE: Final = "openldap"


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a session, as far as look-ups read them."""

    forest: bool = False


@dataclass(frozen=True, slots=True)
class OfflineTarget:
    """Stand-in for a session to an empty directory.

    Attributes:
        profile: the kind of server.
        naming: where things will be.
    """

    profile: "Profile"
    naming: "Naming"
    server_url: None = None
    catalog: None = None
    options: _Options = _Options()

    @property
    def keeps_guids(self) -> bool:
        """True if servers of this kind keep the GUID that an object had in the source."""
        return self.profile.makes_guid

    def bound_sid(self) -> None:
        """Return None: no user is logged in."""

    def find(self, *_: Any, **__: Any) -> Iterator[Entry]:
        """Return no entries."""
        return iter(())

    def get(self, target: Any, attributes: Sequence[str] = (), **_: Any) -> Entry:
        """Find no entry.

        Raises:
            ObjectNotFound: always.
        """
        del attributes
        raise ObjectNotFound("there is no directory", dn=str(target))


def open_offline_session(root: str, profile: str = DEFAULT_PROFILE) -> "Session":
    """Return a stand-in for a session to an empty directory.

    Args:
        root: the root of the names, a DN that begins with ``DC=``.
        profile: the kind of server.

    Raises:
        ConfigError: no such kind, or no such root.
    """
    server_profile = PROFILES.get(profile)
    if server_profile is None:
        raise ConfigError(f"there is no profile {profile!r}: {', '.join(PROFILES)} are known")
    try:
        top = DN.parse(root)
    except ValueError as error:
        raise ConfigError(f"{root!r} is no root of names: {error}") from error
    if not top.rdns or top.rdn[0][0].upper() != "DC":
        raise ConfigError(f"the root of the names has to begin with DC=, not {root!r}")
    configuration = top.child("CN", "Configuration")
    contexts = {
        "defaultnamingcontext": top,
        "rootdomainnamingcontext": top,
        "configurationnamingcontext": configuration,
        "schemanamingcontext": configuration.child("CN", "Schema"),
    }
    root_dse = Entry("", {name: [str(dn).encode()] for name, dn in contexts.items()})
    # all that planning asks of a session is answered above
    return cast("Session", OfflineTarget(server_profile, server_profile.naming(root_dse, None)))


def resolve_sids(session: "Session", sids: SidMap) -> SidMap:
    """Return a map of SIDs in which account names are replaced by SIDs.

    The SIDs are those of the accounts in the target.

    Raises:
        ConfigError: accounts that it does not have.
    """
    return sids.resolve_names(find_accounts(session, frozenset(sids.names.values()))) if sids.names else sids


def gather(session: "Session", folder: Path, sids: SidMap, *, create_computers: bool) -> SharedLookups:
    """Collect the look-ups that workers share, except for the sites.

    Args:
        session: to the target.
        folder: of the plan, with the staged source.
        sids: the map of SIDs, resolved.
        create_computers: computers of machines that the target lacks will be made.
    """
    machines, name_key = read_names(folder, MACHINE), session.profile.name_key
    duplicates = find_duplicates(folder, name_key, sids)
    gone = _of_machines(folder, {number for table, number in duplicates if table == MACHINE.name})
    return SharedLookups(
        machines={guid: name_key(name) for guid, name in machines.items() if guid not in gone},
        computers=_list_computers(session, folder, machines if create_computers else {}),
        gates=read_gates(folder),
        served=read_served_sites(folder),
        duplicates=duplicates,
        empty=empty_classes(session),
        sids=sids,
    )


def _list_computers(session: "Session", folder: Path, machines: dict[UUID, str]) -> dict[str, Computer]:
    """Return the computers that exist and those that will be made.

    The keys are those of the names.
    """
    computers = find_computers(session, find_named_computers(folder, session.profile.name_key))
    named = {session.profile.name_key(name): name for name in machines.values()}
    lacking = {key: name for key, name in named.items() if key not in computers}
    if lacking:
        sids = make_new_sids(session, lacking)
        root = session.naming.root
        for key, name in lacking.items():
            computers[key] = Computer(name, str(places.computer_dn(root, name)), sids.get(key), exists=False)
    return computers


def _of_machines(folder: Path, numbers: "Collection[int]") -> set[UUID]:
    """Return the GUIDs in some rows of Machine."""
    keys = read_keys(folder, [MACHINE], ["guid"]).to_pylist() if numbers else []
    return {
        UUID(bytes_le=row["guid"]) for row in keys if row["guid"] is not None and row["number"] in numbers
    }


def list_all_sites(session: "Session", folder: Path, refused: "Collection[UUID]") -> dict[UUID, KnownSite]:
    """Return the sites of the target and the accepted sites of the source, by GUID."""
    existing_sites = read_sites(session)
    sites = {site.guid: site for site in existing_sites.values() if site.guid is not None}
    forest_root = session.naming.configuration.parent
    for guid, name in read_names(folder, SITE).items():
        if guid not in refused:
            at = existing_sites.get(session.profile.name_key(name))
            dn = str(places.site_dn(forest_root, name)) if at is None else at.dn
            sites[guid] = KnownSite(name, dn, None if at is None else at.guid, in_source=True)
    return sites
