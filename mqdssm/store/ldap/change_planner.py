"""Plans of changes: their requests, with conditions and order (decision R15).

Nothing is sent here. A plan assumes that the view is up to date. Each request has a condition that fails if
it is not; then the change is planned again.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mqdssm.directory.entries import parse_name
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.requests import make_entry
from mqdssm.events.entry_builder import EntryBuilder
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, PropertyValue, Scope, make_deletion_properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.store.ldap.places import StoredPlace
from mqdssm.store.ldap.stored_entry import (
    OBJECT_CLASS,
    TWIN,
    StoredEntry,
    compute_digest,
    has_foreign_content,
)
from mqdssm.store.ldap.view import ChangeSubject, DirectoryView
from mqdssm.store.rules import NAME, digest_of, select_kept_properties, select_replicated
from mqdssm.tables.numbering import DIGEST, Numbering
from mqdssm.tables.places import DESCRIPTION, PLACEHOLDER
from mqdssm.tables.properties import (
    EXACT,
    OBJECT_GUID,
    PROPERTY_TABLES,
    changes_of,
    entry_of,
    references_of,
)
from mqdssm.tables.properties import NAME as PATH_NAME

log = logging.getLogger(__name__)

_OK: Final = int(Hresult.MQ_OK)
Values = dict[str, tuple[bytes, ...]]
Properties = Mapping[Propid, PropertyValue]
REFERENCES_MAX: Final = 1000
"""Limit of the DNs in one attribute of an entry; the property keeps the GUIDs of all. The protocol allows
65,535, whose DNs would exceed a server's limit of a request (4 MiB)."""
MANAGER_CLASS: Final = PROPERTY_TABLES[ObjectType.MACHINE].classes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change to plan.

    Attributes:
        row: its position among the changes.
        command: its command.
        concern: its object; for whole objects with all properties that the object is to have.
        numbers: partition and number of the change.
        scope: scope of a deletion.
        is_own: True for a change that this server numbers.
    """

    row: int
    command: Command
    concern: ChangeSubject
    numbers: Numbering
    scope: Scope = Scope.ENTERPRISE
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Renaming:
    """Renaming of an entry.

    Attributes:
        old: its current DN.
        new: its new DN.
    """

    old: DN
    new: DN


@dataclass(slots=True)
class ChangePlan:
    """Requests and renamings of a change.

    Attributes:
        ahead: first of all: deletion of an object of another type that has the GUID.
        before: renaming of an entry that has the object's place.
        first: the numbered entry, with the entries it needs; tombstones.
        last: deletions, sent after all of these.
        behind: renaming of the entry to its object's new name.
        gone: entries of deleted objects.
        status: HRESULT, unless the server refuses a request.
        identifier: GUID of the object.
    """

    ahead: list[ChangeInFlight] = field(default_factory=list)
    before: list[Renaming] = field(default_factory=list)
    first: list[ChangeInFlight] = field(default_factory=list)
    last: list[ChangeInFlight] = field(default_factory=list)
    behind: list[Renaming] = field(default_factory=list)
    gone: list[StoredEntry] = field(default_factory=list)
    status: int = _OK
    identifier: Guid | None = None


class RefusedChange(Exception):  # noqa: N818  an answer, not an error
    """A change that is not possible; used within the planner.

    Attributes:
        status: HRESULT.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Planner:
    """Planner of changes with one view, in their order."""

    def __init__(self, view: DirectoryView, maker: EntryBuilder, domain: str) -> None:
        self._view = view
        self._maker = maker
        self._domain = domain
        self._places = view.places

    def plan(self, change: PlannedChange) -> ChangePlan:
        """Plan a change, and update the view accordingly.

        A change that is not possible gives a plan with an error status.
        """
        plan = ChangePlan()
        change = identify_change(self._view, change)
        try:
            if change.command is Command.DELETE:
                self._delete(change, plan)
            elif change.command is Command.UPDATE:
                self._update(change, plan)
            else:
                self._plan_whole_object(change, plan)
        except RefusedChange as refused:
            log.info("change %s of %s: %s", change.numbers.number, change.concern.name, refused)
            return ChangePlan(status=refused.status)
        except ValueError as error:
            log.warning("change %s of %s: %s", change.numbers.number, change.concern.name, error)
            return ChangePlan(status=Hresult.MQ_ERROR_PROPERTY)
        return plan

    # -- whole objects

    def _plan_whole_object(self, change: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = change.concern, change.numbers
        guid = plan.identifier = concern.identifier
        if guid is None:
            raise RefusedChange(Hresult.MQ_ERROR_PROPERTY, "no GUID is given (decision R11)")
        stored_entry, tombstone = self._view.objects.get(guid), self._view.tombstones.get(guid)
        if is_known(stored_entry, numbers) or is_known(tombstone, numbers):
            self._finish(change, stored_entry, tombstone, plan)
            if stored_entry is not None and tombstone is None:  # a crash may have come before the renaming
                self._move(change, stored_entry, self._choose_place(concern, guid, stored_entry), plan)
            return
        if stored_entry is not None and stored_entry.is_object and stored_entry.type is not concern.type:
            self._replace(change, stored_entry, plan)
            stored_entry = None
        elif stored_entry is not None and not stored_entry.has_class(
            PROPERTY_TABLES[concern.type].classes[0]
        ):
            self._view.elsewhere[guid] = (
                stored_entry  # another program's object keeps the GUID (decision R53)
            )
            stored_entry = None
        place = self._choose_place(concern, guid, stored_entry)
        target = self._build_values(concern, guid, numbers)
        if stored_entry is not None:
            self._overwrite(change, stored_entry, target, plan)
            self._move(change, stored_entry, place, plan)
        else:
            self._make(change, guid, place, target, plan)
        if tombstone is not None:  # the object exists again
            plan.last.append(request(change, Action.DELETE, tombstone.dn, {}, tombstone))
            self._view.remove(tombstone)

    def _replace(self, change: PlannedChange, stored_entry: StoredEntry, plan: ChangePlan) -> None:
        """Delete an object of another type with the new object's GUID (decision R65)."""
        log.warning("%s is replaced by an object of another type: %s", stored_entry.dn, change.concern.name)
        changes = reduce_entry(stored_entry)
        action = Action.DELETE if changes is None else Action.MODIFY
        plan.ahead.append(request(change, action, stored_entry.dn, changes or {}, stored_entry))
        plan.gone.append(stored_entry)
        self._view.remove(stored_entry)
        if changes is not None:
            self._view.put(stored_entry.with_changes(changes))

    def _finish(
        self,
        change: PlannedChange,
        stored_entry: StoredEntry | None,
        tombstone: StoredEntry | None,
        plan: ChangePlan,
    ) -> None:
        """Remove the older one of an object and its tombstone.

        A crash may leave both (decision R15).
        """
        if tombstone is not None and change.command is Command.DELETE:
            plan.gone.append(tombstone)  # a crash may have come before other objects got its name
        if stored_entry is None or tombstone is None or tombstone.numbers is None:
            return
        number = stored_entry.number_in(tombstone.numbers.partition)
        if number is not None and number < tombstone.numbers.number:
            self._remove(change, stored_entry, plan)
        elif number is not None:
            plan.last.append(request(change, Action.DELETE, tombstone.dn, {}, tombstone))
            self._view.remove(tombstone)

    def _make(
        self, change: PlannedChange, guid: Guid, place: StoredPlace, target: Values, plan: ChangePlan
    ) -> None:
        """Create an object, even if another entry has its place (decision R53)."""
        concern = change.concern
        occupant = self._find_occupant(concern, place)
        self._add_parents(change, place, plan)
        if occupant is None:
            self._add(change, place.dn, target, plan)
            return
        accommodating = concern.type in {ObjectType.ENTERPRISE, ObjectType.USER}
        if not occupant.has_class(PROPERTY_TABLES[concern.type].classes[0]):
            # another program's entry: the object gets another name, as a replica must not stop here (R53)
            self._add(change, make_displaced_dn(place.dn, guid, change.numbers.partition), target, plan)
            return
        if occupant.identifier is None or (accommodating and not occupant.is_object):
            self._overwrite(change, occupant, target, plan, takes=True)
            return
        number = occupant.number_in(change.numbers.partition)
        older = number is not None and number < change.numbers.number
        if older and concern.type not in _STAY:
            aside = make_displaced_dn(place.dn, occupant.identifier, change.numbers.partition)
            plan.before.append(Renaming(parse_name(occupant.dn), aside))
            self._view.remove(occupant)
            self._view.put(StoredEntry(str(aside), occupant.entry))
            self._add(change, place.dn, target, plan)
        else:
            self._add(change, make_displaced_dn(place.dn, guid, change.numbers.partition), target, plan)

    def _find_occupant(self, concern: ChangeSubject, place: StoredPlace) -> StoredEntry | None:
        """Return the entry at the place of a new object, or the account of a new user."""
        if concern.type is ObjectType.USER:
            sid = concern.properties.get(Propid.U_SID)
            account = self._view.accounts.get(sid) if isinstance(sid, bytes) else None
            if account is not None:
                return account
        return self._view.at.get(place.dn.normalized)

    def _choose_place(
        self, concern: ChangeSubject, guid: Guid, stored_entry: StoredEntry | None
    ) -> StoredPlace:
        place = self._view.place_object(concern, guid, path_of(concern))
        if stored_entry is not None and (place is None or concern.type in _STAY):
            return StoredPlace(parse_name(stored_entry.dn))
        if place is None:
            raise RefusedChange(
                Hresult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, "its path name names no place for it"
            )
        return place

    def _build_values(self, concern: ChangeSubject, guid: Guid, numbers: Numbering) -> Values:
        """Return all attributes that an object's entry is to have."""
        table = PROPERTY_TABLES[concern.type]
        values = entry_of(concern.type, [*concern.properties.items(), (table.identity, guid)], numbers)
        none = (str(self._places.nowhere).encode(),)
        demanded: Values = {reference.ldap: none for reference in table.references if reference.required}
        values[DIGEST] = (digest_of(select_replicated(concern.type, guid, concern.properties)),)
        return {**values, **demanded, **self._build_references(concern.type, concern.properties)}

    def _build_references(self, object_type: ObjectType, properties: Properties) -> Values:
        """Return the DNs of referenced objects.

        Stand-ins take the place of missing objects (decision R54).
        """
        values: Values = {}
        for reference, guids in references_of(object_type, properties.items()):
            if len(guids) > REFERENCES_MAX:
                log.warning("%s: %d of %d have names", reference.ldap, REFERENCES_MAX, len(guids))
            dns = dict.fromkeys(self._dn_of(guid) for guid in guids[:REFERENCES_MAX])
            values[reference.ldap] = tuple(dn.encode() for dn in dns)
        return values

    def _dn_of(self, guid: Guid) -> str:
        stored_entry = self._view.objects.get(guid) or self._view.elsewhere.get(guid)
        return (
            str(self._places.place_stand_in(guid))
            if stored_entry is None or stored_entry.numbers is None
            else stored_entry.dn
        )

    def _add_parents(self, change: PlannedChange, place: StoredPlace, plan: ChangePlan) -> None:
        """Add missing entries above an object: its computer, and a stand-in machine."""
        if not place.computer:
            return
        computers = self._view.computers
        key = place.computer.casefold()
        if computers.get(key) is None:
            computer = self._maker.computer(place.computer, self._domain)
            plan.first.append(request(change, Action.ADD, str(computer.dn), computer.attributes()))
            computers[key] = computer.dn
        if change.concern.type is not ObjectType.QUEUE:
            return
        above = place.dn.parent
        if self._view.at.get(above.normalized) is None:
            values = make_entry((MANAGER_CLASS,), {DESCRIPTION: (PLACEHOLDER.encode(),)})
            plan.first.append(request(change, Action.ADD, str(above), values))
            self._view.put(StoredEntry(str(above), values))

    def _add(self, change: PlannedChange, dn: DN, target: Values, plan: ChangePlan) -> None:
        table = PROPERTY_TABLES[change.concern.type]
        values = make_entry(table.classes, {name: raws for name, raws in target.items() if raws})
        guid = change.concern.identifier
        if guid is not None:
            values.pop(OBJECT_GUID, None)
            values[TWIN if guid in self._view.elsewhere else OBJECT_GUID] = (bytes(guid),)
        plan.first.append(request(change, Action.ADD, str(dn), values))
        self._view.put(StoredEntry(str(dn), values))

    def _overwrite(
        self,
        change: PlannedChange,
        stored_entry: StoredEntry,
        target: Values,
        plan: ChangePlan,
        *,
        takes: bool = False,
    ) -> None:
        """Set the attributes of an entry to those of an object.

        A placeholder also gets the GUID.
        """
        table = PROPERTY_TABLES[change.concern.type]
        guid = target.get(OBJECT_GUID)
        if takes and guid is not None and change.concern.identifier in self._view.elsewhere:
            # an object of another partition has the GUID, which a server accepts only once (decision R53)
            target = {**target, OBJECT_GUID: tuple(stored_entry.entry.get(OBJECT_GUID, ())), TWIN: guid}
        names = [*table.attributes, *target]
        if not takes:
            names = [name for name in names if name != OBJECT_GUID]
        elif PLACEHOLDER.encode() in stored_entry.entry.get(DESCRIPTION, ()):
            names.append(DESCRIPTION)
        changes: Values = {
            name: target.get(name, ())
            for name in names
            if set(target.get(name, ())) != set(stored_entry.entry.get(name, ()))
        }
        classes = [name for name in table.classes if not stored_entry.has_class(name)]
        if classes:
            old_classes = stored_entry.entry.get(OBJECT_CLASS, ())
            changes[OBJECT_CLASS] = (*old_classes, *(name.encode() for name in classes))
        self._modify(change, stored_entry, changes, plan)

    def _modify(
        self, change: PlannedChange, stored_entry: StoredEntry, changes: Values, plan: ChangePlan
    ) -> None:
        plan.first.append(request(change, Action.MODIFY, stored_entry.dn, changes, stored_entry))
        self._view.remove(stored_entry)
        self._view.put(stored_entry.with_changes(changes))

    def _move(
        self, change: PlannedChange, stored_entry: StoredEntry, place: StoredPlace, plan: ChangePlan
    ) -> None:
        """Rename an entry to its object's new name, after its number is written."""
        is_free = self._view.at.get(place.dn.normalized) is None
        if place.dn.normalized != stored_entry.key and is_free and stored_entry.type not in _STAY:
            self._add_parents(change, place, plan)
            plan.behind.append(Renaming(parse_name(stored_entry.dn), place.dn))

    # -- parts of objects

    def _update(self, change: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = change.concern, change.numbers
        stored_entry = locate_object(self._view, change)
        guid = plan.identifier = concern.identifier
        tombstone = None if guid is None else self._view.tombstones.get(guid)
        if stored_entry is None or is_known(stored_entry, numbers) or is_known(tombstone, numbers):
            if stored_entry is None and not is_known(tombstone, numbers):
                raise RefusedChange(Hresult.MQDS_OBJECT_NOT_FOUND, "there is no such object")
            self._finish(change, stored_entry, tombstone, plan)
            return
        kind, properties = concern.type, concern.properties
        if (
            stored_entry.type is not None and stored_entry.type is not kind
        ):  # another type lacks these properties
            kind, properties = (
                stored_entry.type,
                select_kept_properties(stored_entry.type, properties.items()),
            )
        changes: Values = {
            **changes_of(kind, stored_entry.entry, properties.items(), numbers),
            **self._build_references(kind, properties),
        }
        if change.is_own or not has_foreign_content(stored_entry):  # else it is reported (R204)
            changes[DIGEST] = (compute_digest(stored_entry.with_changes(changes)),)
        if kind is concern.type and path_of(concern) is not None and kind not in _STAY and guid is not None:
            self._move(change, stored_entry, self._choose_place(concern, guid, stored_entry), plan)
        self._modify(change, stored_entry, changes, plan)

    # -- deletions

    def _delete(self, change: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = change.concern, change.numbers
        stored_entry = locate_object(self._view, change)
        guid = plan.identifier = concern.identifier
        if guid is None:
            return  # no object of that name: nothing to delete, and no GUID for a tombstone
        tombstone = self._view.tombstones.get(guid)
        if is_known(stored_entry, numbers) or is_known(tombstone, numbers):
            self._finish(change, stored_entry, tombstone, plan)
            return
        kind = concern.type if stored_entry is None or stored_entry.type is None else stored_entry.type
        self._write_tombstone(change, guid, kind, (stored_entry, tombstone), plan)
        if stored_entry is not None:
            self._remove(change, stored_entry, plan)

    def _write_tombstone(
        self,
        change: PlannedChange,
        guid: Guid,
        object_type: ObjectType,
        entries: tuple[StoredEntry | None, StoredEntry | None],
        plan: ChangePlan,
    ) -> None:
        """Write a tombstone.

        The tombstone has the path name if objects wait for that name (decision R53).
        """
        stored_entry, tombstone = entries
        properties = ((Propid.D_IDENTIFIER, guid), *make_deletion_properties(object_type, change.scope))
        target = entry_of(ObjectType.DELETED_OBJECT, properties, change.numbers)
        if stored_entry is not None and PATH_NAME in stored_entry.entry:
            target[PATH_NAME] = tuple(stored_entry.entry[PATH_NAME])
        if tombstone is not None:
            plan.first.append(request(change, Action.MODIFY, tombstone.dn, target, tombstone))
            self._view.put(tombstone.with_changes(target))
            return
        dn = str(self._places.place_tombstone(change.numbers.partition, guid))
        values = make_entry(PROPERTY_TABLES[ObjectType.DELETED_OBJECT].classes, target)
        plan.first.append(request(change, Action.ADD, dn, values))
        self._view.put(StoredEntry(dn, values))

    def _remove(self, change: PlannedChange, stored_entry: StoredEntry, plan: ChangePlan) -> None:
        """Delete an entry, or only its attributes of replication.

        An entry that has to stay only loses these attributes.
        """
        plan.gone.append(stored_entry)
        stays = reduce_entry(stored_entry)
        if stays is None:
            plan.last.append(request(change, Action.DELETE, stored_entry.dn, {}, stored_entry))
            self._view.remove(stored_entry)
        else:
            plan.last.append(request(change, Action.MODIFY, stored_entry.dn, stays, stored_entry))
            self._view.remove(stored_entry)
            self._view.put(stored_entry.with_changes(stays))


def request(
    change: PlannedChange,
    action: Action,
    dn: str,
    attributes: Mapping[str, Sequence[bytes]],
    stored_entry: StoredEntry | None = None,
) -> ChangeInFlight:
    """Return a request of a change, on condition that the entry is as it was read."""
    item = Item(row=change.row, action=action, dn=dn, attributes=attributes)
    return ChangeInFlight(item=item, condition=None if stored_entry is None else stored_entry.unchanged)


def make_displaced_dn(dn: DN, identifier: Guid, partition: Guid) -> DN:
    """Return the temporary DN of a displaced object (decision R53).

    Another object has its name.
    """
    return dn.parent.child("CN", f"{identifier}{_ASIDE}{partition}")


def is_displaced(dn: str) -> bool:
    """Return True if an object is displaced: it has a temporary DN."""
    return _STANDS_ASIDE.fullmatch(DN.parse(dn).name) is not None


def is_known(stored_entry: StoredEntry | None, numbers: Numbering) -> bool:
    """Return True if an entry has the number of a change or a higher one."""
    number = None if stored_entry is None else stored_entry.number_in(numbers.partition)
    return number is not None and number >= numbers.number


def path_of(concern: ChangeSubject) -> str | None:
    """Return the path name among the properties of a change; None if it is not given."""
    name = NAME[concern.type]
    value = None if name is None else concern.properties.get(name)
    return value if isinstance(value, str) else None


def identify_change(view: DirectoryView, change: PlannedChange) -> PlannedChange:
    """Return a change by path name as a change by GUID (decision R51).

    The change is unchanged if no object has the name.

    The name refers to the object that has the change's number, else to the newest older object of that name.
    """
    concern, numbers = change.concern, change.numbers
    if concern.identifier is not None or concern.path_name is None:
        return change
    stored_entry = view.find_numbered(numbers.number)
    if stored_entry is None:
        named = view.find_named(concern.type, concern.path_name)
        mine = [entry for entry in named if entry.number_in(numbers.partition) is not None]
        stored_entry = max(mine, key=lambda entry: (entry.age[0] < numbers.number, entry.age), default=None)
    return (
        change
        if stored_entry is None
        else replace(change, concern=replace(concern, identifier=stored_entry.identifier))
    )


def locate_object(view: DirectoryView, change: PlannedChange) -> StoredEntry | None:
    """Return the object of an `identify_change` change in its partition.

    None if it does not exist.
    """
    guid = change.concern.identifier
    stored_entry = None if guid is None else view.objects.get(guid)
    return (
        stored_entry
        if stored_entry is not None and stored_entry.number_in(change.numbers.partition) is not None
        else None
    )


_ASIDE: Final = "@"
_STANDS_ASIDE: Final = re.compile(r"[0-9a-f-]{36}@[0-9a-f-]{36}")
_STAY: Final = frozenset({ObjectType.ENTERPRISE, ObjectType.USER, ObjectType.ROUTING_LINK})
"""Types whose entries are never renamed."""


def reduce_entry(stored_entry: StoredEntry) -> Values | None:
    """Return the changes of an entry that outlives its object.

    None if the entry is deleted.

    The enterprise's entry belongs to the base tree, an account to its user (decision R28).
    """
    if stored_entry.type is ObjectType.ENTERPRISE:
        return _empty_attributes(stored_entry, keep={OBJECT_GUID})
    if stored_entry.type is ObjectType.USER and stored_entry.entry.get(OBJECT_GUID) != stored_entry.entry.get(
        "mqisUserID"
    ):
        return _empty_attributes(stored_entry, keep={OBJECT_GUID, "objectSid"})
    return None


def make_placeholder(stored_entry: StoredEntry) -> Values:
    """Return the changes that turn an object's entry into a placeholder.

    The entry has others below it.
    """
    return {**_empty_attributes(stored_entry), DESCRIPTION: (PLACEHOLDER.encode(),)}


def _empty_attributes(stored_entry: StoredEntry, keep: Iterable[str] = ()) -> Values:
    table = PROPERTY_TABLES[stored_entry.type or ObjectType.MACHINE]
    gone = {*table.attributes, EXACT, PATH_NAME, OBJECT_GUID, TWIN} - set(keep)
    return {name: () for name in sorted(gone) if name in stored_entry.entry}
