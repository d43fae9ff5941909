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
from mqdssm.directory.requests import new_entry
from mqdssm.events.entry_builder import EntryBuilder
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, PropertyValue, Scope, deletion_properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.store.ldap.places import StoredPlace
from mqdssm.store.ldap.stored_entry import OBJECT_CLASS, TWIN, StoredEntry, content_digest
from mqdssm.store.ldap.view import ChangeSubject, DirectoryView
from mqdssm.store.rules import NAME, digest_of, kept, replicated
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
    """

    row: int
    command: Command
    concern: ChangeSubject
    numbers: Numbering
    scope: Scope = Scope.ENTERPRISE


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

    def plan(self, wanted: PlannedChange) -> ChangePlan:
        """Plan a change, and update the view accordingly.

        A change that is not possible gives a plan with an error status.
        """
        plan = ChangePlan()
        wanted = identified(self._view, wanted)
        try:
            if wanted.command is Command.DELETE:
                self._delete(wanted, plan)
            elif wanted.command is Command.UPDATE:
                self._update(wanted, plan)
            else:
                self._whole(wanted, plan)
        except RefusedChange as refused:
            log.info("change %s of %s: %s", wanted.numbers.number, wanted.concern.name, refused)
            return ChangePlan(status=refused.status)
        except ValueError as error:
            log.warning("change %s of %s: %s", wanted.numbers.number, wanted.concern.name, error)
            return ChangePlan(status=Hresult.MQ_ERROR_PROPERTY)
        return plan

    # -- whole objects

    def _whole(self, wanted: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        guid = plan.identifier = concern.identifier
        if guid is None:
            raise RefusedChange(Hresult.MQ_ERROR_PROPERTY, "no GUID is given (decision R11)")
        held, grave = self._view.objects.get(guid), self._view.tombstones.get(guid)
        if is_known(held, numbers) or is_known(grave, numbers):
            self._finish(wanted, held, grave, plan)
            if held is not None and grave is None:  # a crash may have come before the renaming
                self._move(wanted, held, self._place(concern, guid, held), plan)
            return
        if held is not None and held.is_object and held.type is not concern.type:
            self._replace(wanted, held, plan)
            held = None
        elif held is not None and not held.has_class(PROPERTY_TABLES[concern.type].classes[0]):
            self._view.elsewhere[guid] = held  # another program's object keeps the GUID (decision R53)
            held = None
        place = self._place(concern, guid, held)
        target = self._target(concern, guid, numbers)
        if held is not None:
            self._overwrite(wanted, held, target, plan)
            self._move(wanted, held, place, plan)
        else:
            self._make(wanted, guid, place, target, plan)
        if grave is not None:  # the object exists again
            plan.last.append(request(wanted, Action.DELETE, grave.dn, {}, grave))
            self._view.remove(grave)

    def _replace(self, wanted: PlannedChange, held: StoredEntry, plan: ChangePlan) -> None:
        """Delete an object of another type that has the GUID of the new object (decision R65)."""
        log.warning("%s is replaced by an object of another type: %s", held.dn, wanted.concern.name)
        left = reduced(held)
        action = Action.DELETE if left is None else Action.MODIFY
        plan.ahead.append(request(wanted, action, held.dn, left or {}, held))
        plan.gone.append(held)
        self._view.remove(held)
        if left is not None:
            self._view.put(held.after(left))

    def _finish(
        self, wanted: PlannedChange, held: StoredEntry | None, grave: StoredEntry | None, plan: ChangePlan
    ) -> None:
        """Remove the older one of an object and its tombstone, as a crash may leave both (R15)."""
        if grave is not None and wanted.command is Command.DELETE:
            plan.gone.append(grave)  # a crash may have come before other objects got its name
        if held is None or grave is None or grave.numbers is None:
            return
        number = held.number_in(grave.numbers.partition)
        if number is not None and number < grave.numbers.number:
            self._remove(wanted, held, plan)
        elif number is not None:
            plan.last.append(request(wanted, Action.DELETE, grave.dn, {}, grave))
            self._view.remove(grave)

    def _make(
        self, wanted: PlannedChange, guid: Guid, place: StoredPlace, target: Values, plan: ChangePlan
    ) -> None:
        """Create an object, even if another entry has its place (decision R53)."""
        concern = wanted.concern
        occupant = self._occupant(concern, place)
        self._parents(wanted, place, plan)
        if occupant is None:
            self._add(wanted, place.dn, target, plan)
            return
        accommodating = concern.type in {ObjectType.ENTERPRISE, ObjectType.USER}
        if not occupant.has_class(PROPERTY_TABLES[concern.type].classes[0]):
            # another program's entry: the object gets another name, as a replica must not stop here (R53)
            self._add(wanted, aside_of(place.dn, guid, wanted.numbers.partition), target, plan)
            return
        if occupant.identifier is None or (accommodating and not occupant.is_object):
            self._overwrite(wanted, occupant, target, plan, takes=True)
            return
        number = occupant.number_in(wanted.numbers.partition)
        older = number is not None and number < wanted.numbers.number
        if older and concern.type not in _STAY:
            aside = aside_of(place.dn, occupant.identifier, wanted.numbers.partition)
            plan.before.append(Renaming(parse_name(occupant.dn), aside))
            self._view.remove(occupant)
            self._view.put(StoredEntry(str(aside), occupant.entry))
            self._add(wanted, place.dn, target, plan)
        else:
            self._add(wanted, aside_of(place.dn, guid, wanted.numbers.partition), target, plan)

    def _occupant(self, concern: ChangeSubject, place: StoredPlace) -> StoredEntry | None:
        """Return the entry that has the place of a new object, or the account of a new user."""
        if concern.type is ObjectType.USER:
            sid = concern.properties.get(Propid.U_SID)
            account = self._view.accounts.get(sid) if isinstance(sid, bytes) else None
            if account is not None:
                return account
        return self._view.at.get(place.dn.normalized)

    def _place(self, concern: ChangeSubject, guid: Guid, held: StoredEntry | None) -> StoredPlace:
        place = self._view.place(concern, guid, path_of(concern))
        if held is not None and (place is None or concern.type in _STAY):
            return StoredPlace(parse_name(held.dn))
        if place is None:
            raise RefusedChange(
                Hresult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, "its path name names no place for it"
            )
        return place

    def _target(self, concern: ChangeSubject, guid: Guid, numbers: Numbering) -> Values:
        """Return all attributes that an object's entry is to have."""
        table = PROPERTY_TABLES[concern.type]
        made = entry_of(concern.type, [*concern.properties.items(), (table.identity, guid)], numbers)
        none = (str(self._places.nowhere).encode(),)
        demanded: Values = {one.ldap: none for one in table.references if one.required}
        made[DIGEST] = (digest_of(replicated(concern.type, guid, concern.properties)),)
        return {**made, **demanded, **self._references(concern.type, concern.properties)}

    def _references(self, object_type: ObjectType, properties: Properties) -> Values:
        """Return the DNs of referenced objects; those of missing objects are stand-ins (decision R54)."""
        values: Values = {}
        for reference, guids in references_of(object_type, properties.items()):
            if len(guids) > REFERENCES_MAX:
                log.warning("%s: %d of %d have names", reference.ldap, REFERENCES_MAX, len(guids))
            dns = dict.fromkeys(self._dn_of(guid) for guid in guids[:REFERENCES_MAX])
            values[reference.ldap] = tuple(dn.encode() for dn in dns)
        return values

    def _dn_of(self, guid: Guid) -> str:
        held = self._view.objects.get(guid) or self._view.elsewhere.get(guid)
        return str(self._places.stand_in(guid)) if held is None or held.numbers is None else held.dn

    def _parents(self, wanted: PlannedChange, place: StoredPlace, plan: ChangePlan) -> None:
        """Add missing entries above an object: its computer, and a placeholder of its machine."""
        if not place.computer:
            return
        computers = self._view.computers
        key = place.computer.casefold()
        if computers.get(key) is None:
            made = self._maker.computer(place.computer, self._domain)
            plan.first.append(request(wanted, Action.ADD, str(made.dn), made.attributes()))
            computers[key] = made.dn
        if wanted.concern.type is not ObjectType.QUEUE:
            return
        above = place.dn.parent
        if self._view.at.get(above.normalized) is None:
            values = new_entry((MANAGER_CLASS,), {DESCRIPTION: (PLACEHOLDER.encode(),)})
            plan.first.append(request(wanted, Action.ADD, str(above), values))
            self._view.put(StoredEntry(str(above), values))

    def _add(self, wanted: PlannedChange, dn: DN, target: Values, plan: ChangePlan) -> None:
        table = PROPERTY_TABLES[wanted.concern.type]
        values = new_entry(table.classes, {name: raws for name, raws in target.items() if raws})
        guid = wanted.concern.identifier
        if guid is not None:
            values.pop(OBJECT_GUID, None)
            values[TWIN if guid in self._view.elsewhere else OBJECT_GUID] = (bytes(guid),)
        plan.first.append(request(wanted, Action.ADD, str(dn), values))
        self._view.put(StoredEntry(str(dn), values))

    def _overwrite(
        self,
        wanted: PlannedChange,
        held: StoredEntry,
        target: Values,
        plan: ChangePlan,
        *,
        takes: bool = False,
    ) -> None:
        """Set the attributes of an entry to those of an object; a placeholder also gets the GUID."""
        table = PROPERTY_TABLES[wanted.concern.type]
        guid = target.get(OBJECT_GUID)
        if takes and guid is not None and wanted.concern.identifier in self._view.elsewhere:
            # an object of another partition has the GUID, which a server accepts only once (decision R53)
            target = {**target, OBJECT_GUID: tuple(held.entry.get(OBJECT_GUID, ())), TWIN: guid}
        names = [*table.attributes, *target]
        if not takes:
            names = [name for name in names if name != OBJECT_GUID]
        elif PLACEHOLDER.encode() in held.entry.get(DESCRIPTION, ()):
            names.append(DESCRIPTION)
        changes: Values = {
            name: target.get(name, ())
            for name in names
            if set(target.get(name, ())) != set(held.entry.get(name, ()))
        }
        classes = [name for name in table.classes if not held.has_class(name)]
        if classes:
            there = held.entry.get(OBJECT_CLASS, ())
            changes[OBJECT_CLASS] = (*there, *(name.encode() for name in classes))
        self._modify(wanted, held, changes, plan)

    def _modify(self, wanted: PlannedChange, held: StoredEntry, changes: Values, plan: ChangePlan) -> None:
        plan.first.append(request(wanted, Action.MODIFY, held.dn, changes, held))
        self._view.remove(held)
        self._view.put(held.after(changes))

    def _move(self, wanted: PlannedChange, held: StoredEntry, place: StoredPlace, plan: ChangePlan) -> None:
        """Rename an entry to its object's new name, after its number is written."""
        is_free = self._view.at.get(place.dn.normalized) is None
        if place.dn.normalized != held.key and is_free and held.type not in _STAY:
            self._parents(wanted, place, plan)
            plan.behind.append(Renaming(parse_name(held.dn), place.dn))

    # -- parts of objects

    def _update(self, wanted: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        held = located(self._view, wanted)
        guid = plan.identifier = concern.identifier
        grave = None if guid is None else self._view.tombstones.get(guid)
        if held is None or is_known(held, numbers) or is_known(grave, numbers):
            if held is None and not is_known(grave, numbers):
                raise RefusedChange(Hresult.MQDS_OBJECT_NOT_FOUND, "there is no such object")
            self._finish(wanted, held, grave, plan)
            return
        kind, properties = concern.type, concern.properties
        if held.type is not None and held.type is not kind:  # another type lacks these properties
            kind, properties = held.type, kept(held.type, properties.items())
        changes: Values = {
            **changes_of(kind, held.entry, properties.items(), numbers),
            **self._references(kind, properties),
        }
        changes[DIGEST] = (content_digest(held.after(changes)),)
        if kind is concern.type and path_of(concern) is not None and kind not in _STAY and guid is not None:
            self._move(wanted, held, self._place(concern, guid, held), plan)
        self._modify(wanted, held, changes, plan)

    # -- deletions

    def _delete(self, wanted: PlannedChange, plan: ChangePlan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        held = located(self._view, wanted)
        guid = plan.identifier = concern.identifier
        if guid is None:
            return  # no object of that name: nothing to delete, and no GUID for a tombstone
        grave = self._view.tombstones.get(guid)
        if is_known(held, numbers) or is_known(grave, numbers):
            self._finish(wanted, held, grave, plan)
            return
        kind = concern.type if held is None or held.type is None else held.type
        self._bury(wanted, guid, kind, (held, grave), plan)
        if held is not None:
            self._remove(wanted, held, plan)

    def _bury(
        self,
        wanted: PlannedChange,
        guid: Guid,
        object_type: ObjectType,
        there: tuple[StoredEntry | None, StoredEntry | None],
        plan: ChangePlan,
    ) -> None:
        """Write a tombstone, with the path name for objects that wait for it (decision R53)."""
        held, grave = there
        properties = ((Propid.D_IDENTIFIER, guid), *deletion_properties(object_type, wanted.scope))
        target = entry_of(ObjectType.DELETED_OBJECT, properties, wanted.numbers)
        if held is not None and PATH_NAME in held.entry:
            target[PATH_NAME] = tuple(held.entry[PATH_NAME])
        if grave is not None:
            plan.first.append(request(wanted, Action.MODIFY, grave.dn, target, grave))
            self._view.put(grave.after(target))
            return
        dn = str(self._places.tombstone(wanted.numbers.partition, guid))
        values = new_entry(PROPERTY_TABLES[ObjectType.DELETED_OBJECT].classes, target)
        plan.first.append(request(wanted, Action.ADD, dn, values))
        self._view.put(StoredEntry(dn, values))

    def _remove(self, wanted: PlannedChange, held: StoredEntry, plan: ChangePlan) -> None:
        """Delete an entry; an entry that has to stay only loses the attributes of replication."""
        plan.gone.append(held)
        stays = reduced(held)
        if stays is None:
            plan.last.append(request(wanted, Action.DELETE, held.dn, {}, held))
            self._view.remove(held)
        else:
            plan.last.append(request(wanted, Action.MODIFY, held.dn, stays, held))
            self._view.remove(held)
            self._view.put(held.after(stays))


def request(
    wanted: PlannedChange,
    action: Action,
    dn: str,
    attributes: Mapping[str, Sequence[bytes]],
    held: StoredEntry | None = None,
) -> ChangeInFlight:
    """Return a request of a change, with the condition that the entry is as it was read."""
    item = Item(row=wanted.row, action=action, dn=dn, attributes=attributes)
    return ChangeInFlight(item=item, condition=None if held is None else held.unchanged)


def aside_of(dn: DN, identifier: Guid, partition: Guid) -> DN:
    """Return the temporary DN of a displaced object: another one has its name (decision R53)."""
    return dn.parent.child("CN", f"{identifier}{_ASIDE}{partition}")


def is_aside(dn: str) -> bool:
    """Return True if an object is displaced: it has a temporary DN."""
    return _STANDS_ASIDE.fullmatch(DN.parse(dn).name) is not None


def is_known(held: StoredEntry | None, numbers: Numbering) -> bool:
    """Return True if an entry has the number of a change or a higher one."""
    known = None if held is None else held.number_in(numbers.partition)
    return known is not None and known >= numbers.number


def path_of(concern: ChangeSubject) -> str | None:
    """Return the path name among the properties of a change; None if it is not given."""
    name = NAME[concern.type]
    given = None if name is None else concern.properties.get(name)
    return given if isinstance(given, str) else None


def identified(view: DirectoryView, wanted: PlannedChange) -> PlannedChange:
    """Return a change by path name as one by GUID; unchanged if no object has the name (decision R51).

    The name refers to the object that has the change's number, else to the newest older object of that name.
    """
    concern, numbers = wanted.concern, wanted.numbers
    if concern.identifier is not None or concern.path_name is None:
        return wanted
    held = view.numbered(numbers.number)
    if held is None:
        named = view.named(concern.type, concern.path_name)
        mine = [one for one in named if one.number_in(numbers.partition) is not None]
        held = max(mine, key=lambda one: (one.age[0] < numbers.number, one.age), default=None)
    return wanted if held is None else replace(wanted, concern=replace(concern, identifier=held.identifier))


def located(view: DirectoryView, wanted: PlannedChange) -> StoredEntry | None:
    """Return the object of an `identified` change in its partition; None if it does not exist."""
    guid = wanted.concern.identifier
    held = None if guid is None else view.objects.get(guid)
    return held if held is not None and held.number_in(wanted.numbers.partition) is not None else None


_ASIDE: Final = "@"
_STANDS_ASIDE: Final = re.compile(r"[0-9a-f-]{36}@[0-9a-f-]{36}")
_STAY: Final = frozenset({ObjectType.ENTERPRISE, ObjectType.USER, ObjectType.ROUTING_LINK})
"""Types whose entries are never renamed."""


def reduced(held: StoredEntry) -> Values | None:
    """Return the changes of an entry that outlives its object; None if the entry is deleted.

    The enterprise's entry belongs to the base tree, an account to its user (decision R28).
    """
    if held.type is ObjectType.ENTERPRISE:
        return _emptied(held, keep={OBJECT_GUID})
    if held.type is ObjectType.USER and held.entry.get(OBJECT_GUID) != held.entry.get("mqisUserID"):
        return _emptied(held, keep={OBJECT_GUID, "objectSid"})
    return None


def placeholder(held: StoredEntry) -> Values:
    """Return the changes that turn an object's entry into a placeholder, as it has others below it."""
    return {**_emptied(held), DESCRIPTION: (PLACEHOLDER.encode(),)}


def _emptied(held: StoredEntry, keep: Iterable[str] = ()) -> Values:
    table = PROPERTY_TABLES[held.type or ObjectType.MACHINE]
    gone = {*table.attributes, EXACT, PATH_NAME, OBJECT_GUID, TWIN} - set(keep)
    return {name: () for name in sorted(gone) if name in held.entry}
