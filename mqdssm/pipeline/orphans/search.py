"""Search for orphans in a directory.

All queue managers, queues, settings objects and routing links are read.

An object counts as an orphan only by what was read: its visible parent has the wrong class, or an object that
it names is proven to be gone (`mqdssm.pipeline.orphans.evidence`). What cannot be read proves nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry, parse_name
from mqdssm.directory.filters import Present
from mqdssm.errors import MappingError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.pipeline.orphans import rules
from mqdssm.pipeline.orphans.evidence import GUID, Evidence, guids_of
from mqdssm.pipeline.orphans.listing import Orphan, OrphanList
from mqdssm.pipeline.orphans.places import LINK_CLASS, OrphanPlaces
from mqdssm.pipeline.orphans.rules import ORPHAN_RULES, OrphanRule
from mqdssm.tables import compute, places
from mqdssm.tables.dependent_objects import ACCOUNT_DISABLED, SETTINGS_CLASS, SETTINGS_OWNER
from mqdssm.tables.references import REFERENCES, find_references
from mqdssm.tables.schema import MANAGER_CLASS, QUEUE_CLASS
from mqdssm.tables.syntax import TIME

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

SITE_CLASS: Final = "site"
ENTERPRISE_CLASS: Final = "mSMQEnterpriseSettings"
COMPUTER_CLASS: Final = "computer"
_ENDS: Final = ("mSMQSite1", "mSMQSite2")


@dataclass(slots=True)
class _Manager:
    """A queue manager.

    Attributes:
        entry: the entry.
        name: its DN.
        guids: the GUIDs that it has or had.
        problem: what is wrong with its place; empty: nothing.
        obstacle: why it stays nevertheless.
        queues: its queues, if it is an orphan.
    """

    entry: Entry
    name: DN
    guids: frozenset[UUID]
    problem: str = ""
    obstacle: str = ""
    queues: list[Entry] = field(default_factory=list)


def search_orphans(
    session: "Session", min_age_days: int = 0, *, reads_everything: bool = False
) -> OrphanList:
    """Search the orphans of a directory.

    Args:
        session: to a server of the directory.
        min_age_days: days for which an orphan must be unchanged; 0: any counts.
        reads_everything: the user states that no object is hidden, where the server does not show it.

    Raises:
        DirectoryError: a search failed or was cut off: nothing is known then.
    """
    evidence = Evidence(session, reads_everything=reads_everything)
    return _OrphanSearch(session, evidence, min_age_days, datetime.now(UTC)).run()


class _OrphanSearch:
    """Searches the orphans of a directory.

    Args:
        session: to a server of the directory.
        evidence: proof that objects do not exist.
        min_age_days: days for which an orphan must be unchanged, so that it is no state in the middle of
            replication; 0: any orphan counts.
        now: the present time.
    """

    def __init__(self, session: "Session", evidence: Evidence, min_age_days: int, now: datetime) -> None:
        self._session = session
        self._days = min_age_days
        self._now = now
        naming = session.naming
        self._root, self._configuration = naming.root, naming.configuration
        self._places = OrphanPlaces(
            self._root, self._configuration, restricts_parents=session.profile.restricts_parents
        )
        self._evidence = evidence
        self._orphans: list[Orphan] = []
        self._notes: list[str] = []
        self._unreadable = 0
        self._doubts: list[str] = []
        self._sites: dict[str, frozenset[UUID]] = {}
        self._site_guids: frozenset[UUID] = frozenset()
        self._managers: dict[str, _Manager] = {}
        self._referrers: dict[str, list[str]] = defaultdict(list)

    def run(self) -> OrphanList:
        """Search, and return the list.

        Raises:
            DirectoryError: a search failed or was cut off: nothing is known then.
        """
        try:
            self._read_sites()
            self._read_managers()
            self._read_queues()
            self._judge_managers()
            self._judge_settings()
            self._judge_links()
        finally:
            self._evidence.close()
        if self._unreadable:
            self._notes.append(f"{self._unreadable} objects have parents that this user may not read")
        order = {rule: number for number, rule in enumerate(ORPHAN_RULES)}
        orphans = sorted(self._orphans, key=lambda orphan: (order[orphan.rule], orphan.dn.lower()))
        return OrphanList(tuple(orphans), tuple(self._notes))

    # -- reading

    def _find(self, base: DN, ldap_class: str, attributes: Iterable[str]) -> Iterator[Entry]:
        """Yield the objects of a class below a base."""
        profile = self._session.profile
        times = profile.modify_time_attributes
        original = () if profile.original_guid is None else (profile.original_guid,)
        names = dict.fromkeys((GUID, *original, *times, *attributes))
        return self._session.find(base, profile.build_class_filter(ldap_class), list(names))

    def _list_guids(self, entry: Entry) -> frozenset[UUID]:
        return guids_of(entry, GUID, self._session.profile.original_guid)

    def _read_sites(self) -> None:
        base = places.search_base("site", self._root, self._configuration)
        try:
            for entry in self._find(base, SITE_CLASS, ()):
                self._sites[entry.name.normalized] = self._list_guids(entry)
        except ObjectNotFound:
            self._doubts.append(f"this user may not read {base}")
        self._site_guids = frozenset(guid for guids in self._sites.values() for guid in guids)

    def _read_managers(self) -> None:
        computers = self._read_computers()
        disabled = 0
        attributes = (places.DESCRIPTION, *REFERENCES[MANAGER_CLASS])
        for entry in self._find(self._root, MANAGER_CLASS, attributes):
            manager = _Manager(entry, entry.name, self._list_guids(entry))
            self._managers[manager.name.normalized] = manager
            for _, target in find_references(MANAGER_CLASS, _list_references(entry)):
                if isinstance(target, str):
                    self._referrers[_normalize_dn(target)].append(entry.dn)
            if not manager.guids:
                self._doubts.append(f"this user may not read the objectGUID of {entry.dn}")
            control = computers.get(manager.name.parent.normalized)
            if control is None:
                manager.problem = self._find_wrong_parent(manager.name, COMPUTER_CLASS)
            elif control & ACCOUNT_DISABLED:
                disabled += 1
            if places.PLACEHOLDER.encode() in entry.all(places.DESCRIPTION):
                manager.problem = ""  # of a replicating server: it holds queues until the real one comes
        if disabled:
            self._notes.append(
                f"{disabled} queue managers belong to computers whose accounts are disabled: these are no "
                "orphans, 'mqdssm exposure' lists them"
            )

    def _read_computers(self) -> dict[str, int]:
        """Return the computers by normalized DN, with userAccountControl."""
        of_class = self._session.profile.build_class_filter(COMPUTER_CLASS)
        rows = self._session.rows(self._root, of_class, ("userAccountControl",))
        return {parse_name(dn).normalized: int(control or 0) for dn, control in rows}

    def _read_queues(self) -> None:
        """Read all queues; judge those that are not below a queue manager in its place."""
        of_class = self._session.profile.build_class_filter(QUEUE_CLASS)
        suspects = []
        for dn, _ in self._session.rows(self._root, of_class, (GUID,)):
            name = parse_name(dn)
            manager = self._managers.get(name.parent.normalized)
            if manager is None or manager.problem or _is_conflict(name):
                suspects.append(dn)
        for dn in suspects:
            entry = self._read(dn, QUEUE_CLASS)
            if entry is None:
                continue  # deleted meanwhile
            manager = self._managers.get(entry.name.parent.normalized)
            if manager is not None and manager.problem:
                manager.queues.append(entry)
            elif manager is not None:
                self._note_conflict(QUEUE_CLASS, entry)
            elif problem := self._find_wrong_parent(entry.name, MANAGER_CLASS):
                self._add(rules.NO_MANAGER, QUEUE_CLASS, entry, problem)

    def _read(self, dn: str, ldap_class: str) -> Entry | None:
        profile = self._session.profile
        names = [GUID, *profile.modify_time_attributes]
        try:
            return self._session.get(dn, names, object_filter=profile.build_class_filter(ldap_class))
        except ObjectNotFound:
            return None

    # -- parents

    def _read_classes(self, dn: DN) -> tuple[frozenset[bytes], bool]:
        """Return the lower-case classes of an entry, none if it cannot be read.

        The second value is True for an entry that stands for an object of another server.
        """
        try:
            entry = self._session.get(dn, ["objectClass", places.DESCRIPTION])
        except ObjectNotFound:
            return frozenset(), False
        classes = frozenset(raw.lower() for raw in entry.all("objectClass"))
        return classes, places.PLACEHOLDER.encode() in entry.all(places.DESCRIPTION)

    def _find_wrong_parent(self, dn: DN, ldap_class: str) -> str:
        """Return what is wrong with an object's parent.

        The text is empty if nothing is wrong, or if nobody can tell.
        """
        classes, is_placeholder = self._read_classes(dn.parent)
        if not classes:
            self._unreadable += 1
            return ""
        if is_placeholder or ldap_class.lower().encode() in classes:
            return ""
        names = ", ".join(sorted(raw.decode(errors="replace") for raw in classes - {b"top"}))
        return f"its parent {dn.parent} is no {ldap_class}: {names}"

    # -- judgements

    def _judge_managers(self) -> None:
        for manager in self._managers.values():
            if not manager.problem:
                if _is_conflict(manager.name):
                    self._note_conflict(MANAGER_CLASS, manager.entry)
                self._judge_references(MANAGER_CLASS, manager.entry)
                continue
            obstacles = [
                self._find_obstacle(rules.NO_COMPUTER, MANAGER_CLASS, manager.entry),
                *(self._find_obstacle(rules.OF_ORPHAN, QUEUE_CLASS, queue) for queue in manager.queues),
                self._find_other_children(manager),
            ]
            manager.obstacle = next(filter(None, obstacles), "")
            self._add(
                rules.NO_COMPUTER,
                MANAGER_CLASS,
                manager.entry,
                manager.problem,
                obstacle=manager.obstacle,
                dependents=[queue.dn for queue in manager.queues] + self._referrers[manager.name.normalized],
            )
            for queue in manager.queues:
                reason = f"its queue manager {manager.entry.dn} has no computer"
                obstacle = self._find_obstacle(rules.OF_ORPHAN, QUEUE_CLASS, queue)
                if manager.obstacle and not obstacle:
                    obstacle = "its queue manager stays"
                self._add(rules.OF_ORPHAN, QUEUE_CLASS, queue, reason, obstacle=obstacle)

    def _find_other_children(self, manager: _Manager) -> str:
        """Return an obstacle if something else than queues is below a queue manager."""
        for entry in self._session.find(manager.name, Present("objectClass"), ["objectClass"]):
            classes = {raw.lower() for raw in entry.all("objectClass")}
            if entry.name != manager.name and QUEUE_CLASS.lower().encode() not in classes:
                return f"{entry.dn} is below it, which is no queue"
        return ""

    def _judge_settings(self) -> None:
        by_guid = {guid: manager for manager in self._managers.values() for guid in manager.guids}
        computers = {
            self._session.profile.name_key(manager.name.parent.name)
            for manager in self._managers.values()
            if not manager.problem
        }
        open_cases: list[tuple[Entry, UUID]] = []
        for entry in self._find(self._configuration, SETTINGS_CLASS, (SETTINGS_OWNER,)):
            if not self._is_in_site(entry):
                continue
            if _is_conflict(entry.name):
                self._note_conflict(SETTINGS_CLASS, entry)
                continue
            (owner, *_) = (*guids_of(entry, SETTINGS_OWNER), UUID(int=0))
            manager = by_guid.get(owner)
            computer = entry.name.parent.name
            if owner == UUID(int=0):
                self._add(rules.NO_OWNER, SETTINGS_CLASS, entry, f"{SETTINGS_OWNER} has no GUID")
            elif manager is not None and not manager.problem:
                continue
            elif self._session.profile.name_key(computer) in computers:
                self._add_former(entry, owner, computer)
            elif manager is not None:
                reason = f"its queue manager {manager.entry.dn} has no computer"
                obstacle = "its queue manager stays" if manager.obstacle else ""
                obstacle = obstacle or self._find_obstacle(rules.NO_SITE, SETTINGS_CLASS, entry)
                self._add(rules.SETTINGS_OWNER, SETTINGS_CLASS, entry, reason, obstacle=obstacle)
            else:
                open_cases.append((entry, owner))
        self._judge_owners(open_cases)

    def _judge_owners(self, cases: Sequence[tuple[Entry, UUID]]) -> None:
        """Judge settings objects whose queue manager is not below the root."""
        if not cases:
            return
        is_searched = not self._evidence.doubt
        owners = {owner for _, owner in cases}
        existing = self._evidence.find_managers(owners) if is_searched else frozenset()
        for entry, owner in cases:
            computer = entry.name.parent.name
            if owner in existing:
                continue
            if is_searched and self._evidence.manager_of(computer) is not None:
                self._add_former(entry, owner, computer)
                continue
            reason = f"no queue manager has the GUID {owner}"
            self._add(rules.SETTINGS_OWNER, SETTINGS_CLASS, entry, reason)

    def _add_former(self, entry: Entry, owner: UUID, computer: str) -> None:
        reason = f"no queue manager has the GUID {owner}, and {computer} has another queue manager"
        self._add(rules.OTHER_OWNER, SETTINGS_CLASS, entry, reason)

    def _is_in_site(self, entry: Entry) -> bool:
        """Return True if a settings object is below a site; others are added to the list."""
        above, unreadable = entry.name.parent, False
        while above.is_below(self._configuration):
            if above.normalized in self._sites:
                return True
            classes, is_placeholder = self._read_classes(above)
            if SITE_CLASS.encode() in classes or is_placeholder:
                return True
            unreadable = unreadable or not classes
            above = above.parent
        if unreadable:
            self._unreadable += 1
        else:
            self._add(rules.NO_SITE, SETTINGS_CLASS, entry, "it is below no site")
        return False

    def _judge_links(self) -> None:
        for entry in self._find(self._configuration, LINK_CLASS, REFERENCES[LINK_CLASS]):
            if problem := self._find_wrong_parent(entry.name, ENTERPRISE_CLASS):
                self._add(rules.NO_ENTERPRISE, LINK_CLASS, entry, problem)
                continue
            if _is_conflict(entry.name):
                self._note_conflict(LINK_CLASS, entry)
                continue
            gone = [name for name in _ENDS for dn in entry.all(name)[:1] if self._is_gone(dn)]
            by_guid = zip(_ENDS, _link_guids(entry.name), strict=False)  # none of another name
            unknown = [name for name, guid in by_guid if name in gone and guid not in self._site_guids]
            if gone and unknown:
                names = ", ".join(f"{name} ({_decode_text(entry.all(name)[0])})" for name in gone)
                self._add(rules.NO_END, LINK_CLASS, entry, f"there is no site at {names}")
            else:
                self._judge_references(LINK_CLASS, entry)

    def _is_gone(self, raw: bytes) -> bool:
        """Return True if there is no object at a DN of a site."""
        text = _decode_text(raw)
        return _normalize_dn(text) not in self._sites and (
            _is_deleted(text) or not self._evidence.exists(text)
        )

    def _judge_references(self, ldap_class: str, entry: Entry) -> None:
        """List the references of an object in use that lead nowhere."""
        for reference, target in find_references(ldap_class, _list_references(entry)):
            if isinstance(target, UUID):
                is_stale = target not in self._site_guids
            elif _is_deleted(target):
                is_stale = True
            elif _normalize_dn(target) in self._managers or _normalize_dn(target) in self._sites:
                is_stale = False
            else:
                is_stale = not self._is_elsewhere(target) and not self._evidence.exists(target)
            if is_stale:
                self._add(rules.STALE, ldap_class, entry, f"{reference.attribute} refers to {target}")

    def _is_elsewhere(self, dn: str) -> bool:
        """Return True if a DN is none, or belongs to another domain of the forest."""
        try:
            domain = self._session.naming.find_other_domain(DN.parse(dn))
        except ValueError:
            return True
        return self._session.profile.has_catalog and domain is not None

    def _note_conflict(self, ldap_class: str, entry: Entry) -> None:
        if _is_conflict(entry.name):
            self._add(rules.CONFLICT, ldap_class, entry, "Active Directory has renamed it")

    # -- the list

    def _add(
        self,
        rule: OrphanRule,
        ldap_class: str,
        entry: Entry,
        reason: str,
        *,
        obstacle: str | None = None,
        dependents: Sequence[str] = (),
    ) -> None:
        if obstacle is None:
            obstacle = self._find_obstacle(rule, ldap_class, entry)
        (guid, *_) = (*guids_of(entry, GUID), None)
        self._orphans.append(
            Orphan(rule, ldap_class, entry.dn, guid, reason, obstacle, tuple(dict.fromkeys(dependents)))
        )

    def _find_obstacle(self, rule: OrphanRule, ldap_class: str, entry: Entry) -> str:
        """Return why a plan cannot remove an object by itself; empty: it can."""
        if not rule.removes:
            return rule.why
        if not self._places.accepts(ldap_class, entry.name):
            return "a plan deletes no such object at this place: look at it"
        if not guids_of(entry, GUID):
            return "it has no objectGUID, or this user may not read it"
        if rule.needs_absence and self._doubt:
            return self._doubt
        return self._check_age(entry)

    @property
    def _doubt(self) -> str:
        """Reason why an object that was not found may exist; empty if it cannot."""
        if self._unreadable:
            return f"{self._unreadable} objects have parents that this user may not read: more may be hidden"
        return next(iter(self._doubts), "") or self._evidence.doubt

    def _check_age(self, entry: Entry) -> str:
        """Return an obstacle if an entry was changed too recently."""
        if not self._days:
            return ""
        changed = self._find_change_time(entry)
        if changed is None:
            return "nobody can tell when it was changed"
        if (self._now - changed).days < self._days:
            return f"it was changed on {changed:%Y-%m-%d}, less than {self._days} days ago"
        return ""

    def _find_change_time(self, entry: Entry) -> datetime | None:
        for name in self._session.profile.modify_time_attributes:
            raw = entry.first(name)
            if raw is not None:
                try:
                    return datetime.fromtimestamp(TIME.load(raw), UTC)
                except (MappingError, OverflowError, ValueError):
                    return None
        return None


def _list_references(entry: Entry) -> dict[str, list[bytes]]:
    """Return the references of an entry by the names of their attributes."""
    names = {name for of_class in REFERENCES.values() for name in of_class}
    return {name: entry.all(name) for name in names if entry.all(name)}


def _decode_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _normalize_dn(dn: str) -> str:
    """Return a DN in the form that is compared; a text that is no DN stays as it is."""
    try:
        return DN.parse(dn).normalized
    except ValueError:
        return dn


def _is_conflict(dn: DN) -> bool:
    return places.CONFLICT_MARK in dn.name.upper()


def _is_deleted(dn: str) -> bool:
    """Return True for the DN of a deleted object of Active Directory."""
    return places.DELETED_MARK.lower() in _normalize_dn(dn).replace("\\0a", "\n")


def _link_guids(dn: DN) -> tuple[UUID, ...]:
    """Return the GUIDs of the two sites in a link's name; none of another name."""
    try:
        return compute.link_sites(dn.name)
    except ValueError:
        return ()
