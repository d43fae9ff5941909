"""Entries that a row would become: the object, and the entries it needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.errors import MappingError, MqdssmError, ObjectNotFound
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.new_entry import NewEntry
from mqdssm.events.settings import ATTRIBUTES, Served, is_server
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.names import PathName
from mqdssm.pipeline.migrate.plan_file import EntryRole
from mqdssm.pipeline.migrate.rows import clean_path_name, list_sites
from mqdssm.pipeline.migrate.shared_lookups import Computer, SharedLookups
from mqdssm.pipeline.migrate.target import TargetView
from mqdssm.tables import places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.tables.schema import MANAGER_CLASS
from mqdssm.wire.sid import Sid

SITE_CLASS: Final = "site"
USER_CLASS: Final = "user"
SITES: Final = "mSMQSites"


@dataclass(slots=True)
class Candidate:
    """One entry that a row would become.

    Attributes:
        made: the entry.
        level: when it can be made.
        role: its role for the row's object: the object itself, or a companion.
        type: of the row's object.
        guid: GUID of the object in the source; None for companions.
        is_there: it is never made, only changed: enterprise, users, computers that have keys.
        merges: attributes that the target lacks are written without a conflict.
        overwrites: differences are written with any policy: there is one enterprise.
        later: references that wait for their targets.
        dropped: attribute of the element -> GUIDs of referenced objects that do not exist.
        served: for a queue manager in the target: facts in its entry about its settings objects.
        settings: for a queue manager: DNs that its settings objects should have.
    """

    new_entry: NewEntry
    level: int
    role: str
    type: str
    guid: UUID | None = None
    is_there: bool = False
    merges: bool = False
    overwrites: bool = False
    later: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dropped: Mapping[str, tuple[UUID, ...]] = field(default_factory=dict)
    served: Served | None = None
    settings: tuple[DN, ...] = ()


class RefusedRow(MappingError):  # noqa: N818  what it is called for people
    """Row that cannot become an object.

    The reason is not in one of its cells.
    """


class Candidates:
    """Makes the candidates for elements.

    Args:
        view: of the target.
        target: what entries are made for.
        known: what is known of source and target.
        create_computers: make those that the target lacks.
        domain: DNS name of the domain that new computers are in.

    Attributes:
        accepted: keys of the names of the computers whose queue managers the source has.
        maker: of entries.
    """

    def __init__(
        self,
        view: TargetView,
        target: EntryTarget,
        lookups: SharedLookups,
        *,
        create_computers: bool,
        domain: str,
    ) -> None:
        self._view = view
        self._target = target
        self._lookups = lookups
        self._key = target.profile.name_key
        self._create_computers = create_computers
        self._domain = domain
        self._dns: dict[tuple[UUID, str], str | None] = {}
        self._managers: dict[str, bool] = {}
        self._managers_there: dict[str, Entry] = {}
        self._users: dict[str, list[str]] = {}
        self._sites_there = {site.guid: site for site in lookups.sites.values() if site.guid is not None}
        self.accepted = frozenset(lookups.machines.values())
        self.maker = EntryBuilder(target, self.dns_of)

    def of(self, element: DirectoryObject) -> list[Candidate]:
        """Return the candidates for an element, its own entry first.

        Raises:
            MqdssmError: it cannot be made; with the reason.
            ValueError: likewise.
        """
        match element:
            case Enterprise():
                return [self._make_enterprise(element)]
            case Site():
                return list(self._make_site(element))
            case RoutingLink():
                return [self._make_link(element)]
            case QueueManager():
                return list(self._make_machine(element))
            case Queue():
                return [self._make_queue(element)]
            case User():
                return [self._make_user(element)]
        raise RefusedRow(f"{element.element_name} objects are not migrated")

    # -- references

    def dns_of(self, guids: Sequence[UUID], ldap_class: str) -> dict[UUID, str]:
        """Return present or future DNs of referenced objects.

        Objects that are not planned are looked up.
        """
        dns = {guid: dn for guid in guids if (dn := self._dn_of(guid, ldap_class)) is not None}
        unknown = [guid for guid in guids if guid not in dns and (guid, ldap_class) not in self._dns]
        if unknown:
            existing_dns = self._view.references.dns_of(unknown, ldap_class)
            self._dns.update({(guid, ldap_class): existing_dns.get(guid) for guid in unknown})
        for guid in guids:
            dn = self._dns.get((guid, ldap_class))
            if dn is not None and guid not in dns:
                dns[guid] = dn
        return dns

    def _dn_of(self, guid: UUID, ldap_class: str) -> str | None:
        if ldap_class == SITE_CLASS:
            site = self._lookups.sites.get(guid)
            return None if site is None else site.dn
        name = self._lookups.machines.get(guid)
        computer = None if name is None else self._lookups.computers.get(name)
        return None if computer is None else str(places.queue_manager_of(DN.parse(computer.dn)))

    def learn_managers(self, names: Sequence[str]) -> None:
        """Look up, together, which computers have a queue manager in the target."""
        unknown = {name for name in names if name not in self._managers and name in self._lookups.computers}
        dns = {
            name: str(places.queue_manager_of(DN.parse(self._lookups.computers[name].dn)))
            for name in unknown
            if self._lookups.computers[name].exists
        }
        entries = self._view.by_dn(dns.values(), MANAGER_CLASS, ()) if dns else {}
        for name in unknown:
            dn = dns.get(name)
            self._managers[name] = dn is not None and DN.parse(dn).normalized in entries

    def learn_managers_there(self, elements: Iterable[DirectoryObject]) -> None:
        """Read, together, the target's entries of the queue managers among some elements."""
        names = {
            self._key(element.computer_name or "")
            for element in elements
            if isinstance(element, QueueManager)
        }
        computers = (self._lookups.computers.get(name) for name in names)
        existing_computers = [computer for computer in computers if computer is not None and computer.exists]
        dns = {
            self._key(computer.name): places.queue_manager_of(DN.parse(computer.dn))
            for computer in existing_computers
        }
        entries = self._view.by_dn(map(str, dns.values()), MANAGER_CLASS, ATTRIBUTES) if dns else {}
        self._managers_there = {
            name: entries[dn.normalized] for name, dn in dns.items() if dn.normalized in entries
        }

    # -- elements

    def _make_enterprise(self, element: Enterprise) -> Candidate:
        candidate = _make_candidate(element, self.maker.enterprise(element), 1)
        return replace(candidate, is_there=True, merges=True, overwrites=True)

    def _make_site(self, element: Site) -> Iterator[Candidate]:
        yield _make_candidate(element, self.maker.site(element), 1)
        yield Candidate(self.maker.servers(element.name or ""), 2, EntryRole.CONTAINER, "site")

    def _make_link(self, element: RoutingLink) -> Candidate:
        new_entry = self.maker.link(self._with_target_sites(element))
        return replace(_make_candidate(element, new_entry, 3), dropped=_by_attribute_of_element(new_entry))

    def _with_target_sites(self, element: RoutingLink) -> RoutingLink:
        """Return the link with the GUIDs that its sites have in the target.

        The name of a link holds these GUIDs.
        If the target assigns GUIDs and a site is new, the link is unchanged: it gets its name later.
        """
        ends = {name: getattr(element, name) for name in ("site1_identifier", "site2_identifier")}
        target_guids = self._find_guids_in_target(guid for guid in ends.values() if guid is not None)
        changed = {name: target_guids[guid] for name, guid in ends.items() if guid in target_guids}
        if len(changed) < len(ends) and not self._target.keeps_guids:
            return element
        return element.model_copy(update=changed)

    def _find_guids_in_target(self, guids: Iterable[UUID]) -> dict[UUID, UUID]:
        """Return the GUIDs in the target of those sites that have one there."""
        sites = ((guid, self._lookups.sites.get(guid)) for guid in guids)
        return {guid: site.guid for guid, site in sites if site is not None and site.guid is not None}

    def _find_computer(self, name: str) -> Computer:
        computer = self._lookups.computers.get(self._key(name))
        if computer is None:
            raise RefusedRow(
                f"there is no computer named {name} in the directory; --create-computers makes those of the "
                "table Machine"
            )
        if computer.problem:
            raise RefusedRow(computer.problem)
        return computer

    def _make_machine(self, element: QueueManager) -> Iterator[Candidate]:
        name = element.computer_name or ""
        if not name:
            raise RefusedRow("it names no computer")
        PathName.parse_stored(f"{name}\\q")
        computer = self._find_computer(name)
        dn, sid = DN.parse(computer.dn), None if computer.sid is None else Sid(computer.sid)
        element, gone = self._with_sites(element)
        existing_entry = self._managers_there.get(self._key(name))
        new_entry = self.maker.queue_manager(self._with_sites_there(element), dn, sid, existing_entry)
        later = {
            name: [str(guid) for guid in guids]
            for name, guids in self._postpone_references(new_entry).items()
        }
        dropped = _by_attribute_of_element(new_entry) | gone
        served = None if existing_entry is None else Served.of(existing_entry)
        # attributes that the row lacks keep their values, which settings objects repeat
        old_values = {} if served is None else {key: tuple(raws) for key, raws in served.values.items()}
        whole = replace(new_entry, values=old_values | new_entry.values)
        sites = self._sites_of(element, served) if is_server(whole.values) else {}
        yield replace(
            _make_candidate(element, new_entry, 2),
            later=later,
            dropped=dropped,
            served=served,
            settings=tuple(self._build_settings_dn(dn.name, site) for site in sites.values()),
        )
        keys = self.maker.computer_keys(element)
        if not computer.exists:
            account = self.maker.computer(name, self._domain, sid=sid)
            account.values |= keys
            yield Candidate(account, 1, EntryRole.COMPUTER, "queue-manager")
        elif keys:
            account = self.maker.change_computer(element, dn)
            yield Candidate(account, 2, EntryRole.KEYS, "queue-manager", is_there=True, merges=True)
        if element.identifier is not None:
            yield from self._make_settings(element, whole, sites)

    def _sites_of(self, element: QueueManager, served: Served | None) -> dict[UUID, str]:
        """Return GUIDs and DNs of the sites of a queue manager.

        The sites are those of the queue manager's row, else of its entry.
        """
        is_explicit = element.is_populated("SiteIdentifierList") or served is None
        sites = list_sites(element) if is_explicit else served.sites if served else ()
        return self.dns_of(sites, SITE_CLASS) if sites else {}

    def _build_settings_dn(self, computer: str, site_dn: str) -> DN:
        return places.settings_dn(self._target.forest_root, DN.parse(site_dn).name, computer)

    def _make_settings(
        self, element: QueueManager, new_entry: NewEntry, sites: Mapping[UUID, str]
    ) -> Iterator[Candidate]:
        computer = new_entry.dn.parent.name
        for guid in sites:
            site = self._lookups.sites.get(guid) or self._sites_there.get(guid)
            if site is None or element.identifier is None:
                continue
            if not site.in_source:
                yield Candidate(self.maker.servers(site.name), 2, EntryRole.CONTAINER, "queue-manager")
            yield Candidate(self.maker.server(site.name, computer), 3, EntryRole.CONTAINER, "queue-manager")
            new_settings = self.maker.settings(new_entry, site.name, element.identifier)
            later = {} if self._target.keeps_guids else new_settings.postpone(REFERENCES[SETTINGS_CLASS])
            texts = {name: [str(guid) for guid in guids] for name, guids in later.items()}
            yield Candidate(new_settings, 4, EntryRole.SETTINGS, "queue-manager", later=texts)

    def _with_sites(self, element: QueueManager) -> tuple[QueueManager, dict[str, tuple[UUID, ...]]]:
        """Return the queue manager without sites that do not exist, and their GUIDs.

        Raises:
            RefusedRow: none of its sites exists.
        """
        sites = list_sites(element)
        dns = self.dns_of(sites, SITE_CLASS) if sites else {}
        gone = tuple(guid for guid in sites if guid not in dns)
        if not gone:
            return element, {}
        if not dns:
            raise RefusedRow(f"none of its sites exists: {', '.join(map(str, sites))}")
        known_guids = tuple(guid for guid in sites if guid in dns)
        return element.model_copy(update={"site_identifier_list": known_guids}), {"SiteIdentifierList": gone}

    def _with_sites_there(self, element: QueueManager) -> QueueManager:
        """Return the queue manager with its sites' GUIDs in the target.

        The queue manager is unchanged if a new site has no GUID yet.
        """
        guids = list_sites(element)
        target_guids = self._find_guids_in_target(guids)
        if not guids or (target_guids.keys() != set(guids) and not self._target.keeps_guids):
            return element
        return element.model_copy(
            update={"site_identifier_list": tuple(target_guids.get(guid, guid) for guid in guids)}
        )

    def _postpone_references(self, new_entry: NewEntry) -> dict[str, tuple[UUID, ...]]:
        """Postpone the references of a queue manager until all targets exist.

        Returns the postponed references.
        """
        waiting = []
        for name, reference in REFERENCES[MANAGER_CLASS].items():
            if reference.form is ReferenceForm.GUID and self._target.keeps_guids:
                continue
            guids = new_entry.refers.get(name, ())
            if reference.form is ReferenceForm.GUID:
                if not all(
                    (site := self._lookups.sites.get(guid)) is None or site.guid is not None for guid in guids
                ):
                    waiting.append(name)
            elif not self._do_all_exist(guids):
                waiting.append(name)
        return new_entry.postpone(waiting)

    def _do_all_exist(self, guids: Sequence[UUID]) -> bool:
        names = [name for guid in guids if (name := self._lookups.machines.get(guid)) is not None]
        self.learn_managers(names)
        return all(self._managers.get(name, False) for name in names)

    def _make_queue(self, element: Queue) -> Candidate:
        path = PathName.parse_stored(clean_path_name(element.pathname or ""))
        name = self._key(path.computer)
        accepted = name in self.accepted
        computer = self._lookups.computers.get(name)
        if not accepted and (computer is None or not self._has_manager(name)):
            raise RefusedRow(
                f"there is no queue manager {path.computer}, neither in an accepted row of Machine nor in "
                "the directory"
            )
        computer = self._find_computer(path.computer)
        sid = None if computer.sid is None else Sid(computer.sid)
        new_entry = self.maker.queue(element, DN.parse(computer.dn), sid)
        return _make_candidate(element, new_entry, 3)

    def _has_manager(self, name: str) -> bool:
        self.learn_managers([name])
        return self._managers.get(name, False)

    def _make_user(self, element: User) -> Candidate:
        sid = element.security_identifier
        if not sid:
            raise RefusedRow("it has no SID, by which users are found")
        dns = self._users.get(sid, [])
        if not dns:
            raise ObjectNotFound(
                f"the directory has no user with the SID {sid}: name its new one with --sid-map"
            )
        if len(dns) > 1:
            raise RefusedRow(f"{len(dns)} users have the SID {sid}")
        new_entry = self.maker.change_user(element, DN.parse(dns[0]))
        return replace(_make_candidate(element, new_entry, 1), is_there=True, merges=True)

    def learn_users(self, sids: Sequence[str]) -> None:
        """Look up, together, the users with some SIDs."""
        by_sid = self._view.by_sid(sids, USER_CLASS, ())
        self._users = {sid: [entry.dn for entry in entries] for sid, entries in by_sid.items()}


def _make_candidate(element: DirectoryObject, new_entry: NewEntry, level: int) -> Candidate:
    """Return the candidate for the entry of an element itself."""
    return Candidate(new_entry, level, EntryRole.OBJECT, new_entry.type, element.identifier)


def _by_attribute_of_element(new_entry: NewEntry) -> dict[str, tuple[UUID, ...]]:
    references = REFERENCES.get(new_entry.ldap_class, {})
    return {references[name].adm: guids for name, guids in new_entry.missing.items() if name in references}


def reason_of(error: Exception) -> str:
    """Return the message of an error in one line.

    The message of an unexpected error is its class name.
    """
    text = error.message if isinstance(error, ObjectNotFound) else str(error)
    return " ".join(text.split()) if isinstance(error, MqdssmError | ValueError) else type(error).__name__
