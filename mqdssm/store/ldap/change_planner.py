"""How a change becomes requests: what is written, under which condition, in which order (decision R15).

Nothing is sent here. A plan assumes that what the view shows is so; each request has a condition that fails
where it is not, and then the change is planned again.
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
from mqdssm.events.entry_builder import Maker
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, PropertyValue, Scope, deletion_properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.store.content import digest_of
from mqdssm.store.ldap.places import StoredPlace
from mqdssm.store.ldap.stored_entry import OBJECT_CLASS, TWIN, Held, content_digest
from mqdssm.store.ldap.view import Concern, DirectoryView
from mqdssm.store.rules import NAME, kept, replicated
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
"""Objects that one attribute of an entry names; the property keeps the GUIDs of all. The protocol allows
65,535, whose names would be more than a server takes in a request (4 MiB)."""
MANAGER_CLASS: Final = PROPERTY_TABLES[ObjectType.MACHINE].classes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """One change.

    Attributes:
        row: its place among the changes.
        command: what it does.
        concern: to which object; its properties are all that a whole object shall have.
        numbers: partition and number of the change.
        scope: of a deletion.
    """

    row: int
    command: Command
    concern: Concern
    numbers: Numbering
    scope: Scope = Scope.ENTERPRISE


@dataclass(frozen=True, slots=True)
class Renaming:
    """An entry gets another name.

    Attributes:
        old: where it is.
        new: where it belongs.
    """

    old: DN
    new: DN


@dataclass(slots=True)
class ChangePlan:
    """What is to be done for a change.

    Attributes:
        ahead: an object of another type that has the GUID goes before all else.
        before: what gets out of the way.
        first: the numbered entry, and what it needs; tombstones.
        last: what is sent when all of these are done: deletions.
        behind: the entry gets the name that its object has now.
        gone: what is deleted.
        status: HRESULT, unless the server refuses something.
        identifier: GUID of the object.
    """

    ahead: list[ChangeInFlight] = field(default_factory=list)
    before: list[Renaming] = field(default_factory=list)
    first: list[ChangeInFlight] = field(default_factory=list)
    last: list[ChangeInFlight] = field(default_factory=list)
    behind: list[Renaming] = field(default_factory=list)
    gone: list[Held] = field(default_factory=list)
    status: int = _OK
    identifier: Guid | None = None


class RefusedChange(Exception):  # noqa: N818  it is an answer
    """A change that cannot be; for the planner alone.

    Attributes:
        status: HRESULT.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Planner:
    """Plans changes of one view, in their order."""

    def __init__(self, view: DirectoryView, maker: Maker, domain: str) -> None:
        self._view = view
        self._maker = maker
        self._domain = domain
        self._places = view.places

    def plan(self, wanted: PlannedChange) -> ChangePlan:
        """Plan a change; the view shows then what will be.

        A change that cannot be is a plan with a status.
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
            if held is not None and grave is None:  # a crash may have come between number and name
                self._move(wanted, held, self._place(concern, guid, held), plan)
            return
        if held is not None and held.is_object and held.type is not concern.type:
            self._replace(wanted, held, plan)
            held = None
        elif held is not None and not held.has_class(PROPERTY_TABLES[concern.type].classes[0]):
            self._view.elsewhere[guid] = held  # another program's: it keeps the GUID (decision R53)
            held = None
        place = self._place(concern, guid, held)
        target = self._target(concern, guid, numbers)
        if held is not None:
            self._overwrite(wanted, held, target, plan)
            self._move(wanted, held, place, plan)
        else:
            self._make(wanted, guid, place, target, plan)
        if grave is not None:  # the object is back
            plan.last.append(request(wanted, Action.DELETE, grave.dn, {}, grave))
            self._view.remove(grave)

    def _replace(self, wanted: PlannedChange, held: Held, plan: ChangePlan) -> None:
        """Take an object away whose GUID one of another type has now (decision R65)."""
        log.warning("%s is replaced by an object of another type: %s", held.dn, wanted.concern.name)
        left = reduced(held)
        action = Action.DELETE if left is None else Action.MODIFY
        plan.ahead.append(request(wanted, action, held.dn, left or {}, held))
        plan.gone.append(held)
        self._view.remove(held)
        if left is not None:
            self._view.put(held.after(left))

    def _finish(self, wanted: PlannedChange, held: Held | None, grave: Held | None, plan: ChangePlan) -> None:
        """Both an object and its tombstone are there: a crash came between, and the newer counts (R15)."""
        if grave is not None and wanted.command is Command.DELETE:
            plan.gone.append(grave)  # a crash may have come before others got its name
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
        """Write an object that is not there, whatever is in its place (decision R53)."""
        concern = wanted.concern
        occupant = self._occupant(concern, place)
        self._parents(wanted, place, plan)
        if occupant is None:
            self._add(wanted, place.dn, target, plan)
            return
        accommodating = concern.type in {ObjectType.ENTERPRISE, ObjectType.USER}
        if not occupant.has_class(PROPERTY_TABLES[concern.type].classes[0]):
            # something that is none of ours: a replica stops at nothing that has a name (decision R53)
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
            self._view.put(Held(str(aside), occupant.entry))
            self._add(wanted, place.dn, target, plan)
        else:
            self._add(wanted, aside_of(place.dn, guid, wanted.numbers.partition), target, plan)

    def _occupant(self, concern: Concern, place: StoredPlace) -> Held | None:
        """What is where a new object belongs."""
        if concern.type is ObjectType.USER:
            sid = concern.properties.get(Propid.U_SID)
            account = self._view.accounts.get(sid) if isinstance(sid, bytes) else None
            if account is not None:
                return account
        return self._view.at.get(place.dn.normalized)

    def _place(self, concern: Concern, guid: Guid, held: Held | None) -> StoredPlace:
        place = self._view.place(concern, guid, path_of(concern))
        if held is not None and (place is None or concern.type in _STAY):
            return StoredPlace(parse_name(held.dn))
        if place is None:
            raise RefusedChange(
                Hresult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, "its path name names no place for it"
            )
        return place

    def _target(self, concern: Concern, guid: Guid, numbers: Numbering) -> Values:
        """All attributes that an object shall have."""
        table = PROPERTY_TABLES[concern.type]
        made = entry_of(concern.type, [*concern.properties.items(), (table.identity, guid)], numbers)
        none = (str(self._places.nowhere).encode(),)
        demanded: Values = {one.ldap: none for one in table.references if one.required}
        made[DIGEST] = (digest_of(replicated(concern.type, guid, concern.properties)),)
        return {**made, **demanded, **self._references(concern.type, concern.properties)}

    def _references(self, object_type: ObjectType, properties: Properties) -> Values:
        """DNs of other objects; of those that are not there stand-ins (decision R54)."""
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
        """What has to be above an object: its computer, and a placeholder of its machine."""
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
            self._view.put(Held(str(above), values))

    def _add(self, wanted: PlannedChange, dn: DN, target: Values, plan: ChangePlan) -> None:
        table = PROPERTY_TABLES[wanted.concern.type]
        values = new_entry(table.classes, {name: raws for name, raws in target.items() if raws})
        guid = wanted.concern.identifier
        if guid is not None:
            values.pop(OBJECT_GUID, None)
            values[TWIN if guid in self._view.elsewhere else OBJECT_GUID] = (bytes(guid),)
        plan.first.append(request(wanted, Action.ADD, str(dn), values))
        self._view.put(Held(str(dn), values))

    def _overwrite(
        self, wanted: PlannedChange, held: Held, target: Values, plan: ChangePlan, *, takes: bool = False
    ) -> None:
        """Give an entry all that the object shall have, and nothing else; a placeholder its GUID, too."""
        table = PROPERTY_TABLES[wanted.concern.type]
        guid = target.get(OBJECT_GUID)
        if takes and guid is not None and wanted.concern.identifier in self._view.elsewhere:
            # another partition's object has it: no server would take it twice (decision R53)
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

    def _modify(self, wanted: PlannedChange, held: Held, changes: Values, plan: ChangePlan) -> None:
        plan.first.append(request(wanted, Action.MODIFY, held.dn, changes, held))
        self._view.remove(held)
        self._view.put(held.after(changes))

    def _move(self, wanted: PlannedChange, held: Held, place: StoredPlace, plan: ChangePlan) -> None:
        """Rename an entry whose object has another name now; its number is written before."""
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
        if held.type is not None and held.type is not kind:  # it has none of these
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
            return  # nothing of that name: nothing to delete, and no GUID for a tombstone
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
        there: tuple[Held | None, Held | None],
        plan: ChangePlan,
    ) -> None:
        """Write a tombstone; it keeps the path name, for those who wait for it (decision R53)."""
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
        self._view.put(Held(dn, values))

    def _remove(self, wanted: PlannedChange, held: Held, plan: ChangePlan) -> None:
        """Delete an entry, or what of it is replication's, if it was there before or has to stay."""
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
    held: Held | None = None,
) -> ChangeInFlight:
    """A request of a change, on the condition that an entry is as it was read."""
    item = Item(row=wanted.row, action=action, dn=dn, attributes=attributes)
    return ChangeInFlight(item=item, condition=None if held is None else held.unchanged)


def aside_of(dn: DN, identifier: Guid, partition: Guid) -> DN:
    """Where an object is as long as another one has its name (decision R53)."""
    return dn.parent.child("CN", f"{identifier}{_ASIDE}{partition}")


def is_aside(dn: str) -> bool:
    """Return True if an object had to stand aside."""
    return _STANDS_ASIDE.fullmatch(DN.parse(dn).name) is not None


def is_known(held: Held | None, numbers: Numbering) -> bool:
    """Return True if an entry has the number of a change already, or a higher one."""
    known = None if held is None else held.number_in(numbers.partition)
    return known is not None and known >= numbers.number


def path_of(concern: Concern) -> str | None:
    """The path name among the properties of a change."""
    name = NAME[concern.type]
    given = None if name is None else concern.properties.get(name)
    return given if isinstance(given, str) else None


def identified(view: DirectoryView, wanted: PlannedChange) -> PlannedChange:
    """Return a change by path name as one by GUID; unchanged if nothing has the name (decision R51).

    That is the object that has the change's number; else the newest of that name that is older.
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


def located(view: DirectoryView, wanted: PlannedChange) -> Held | None:
    """Return the object of its partition that a change means, which is `identified`."""
    guid = wanted.concern.identifier
    held = None if guid is None else view.objects.get(guid)
    return held if held is not None and held.number_in(wanted.numbers.partition) is not None else None


_ASIDE: Final = "@"
_STANDS_ASIDE: Final = re.compile(r"[0-9a-f-]{36}@[0-9a-f-]{36}")
_STAY: Final = frozenset({ObjectType.ENTERPRISE, ObjectType.USER, ObjectType.ROUTING_LINK})
"""Types whose entries are never renamed."""


def reduced(held: Held) -> Values | None:
    """What a deletion replaces in an entry that was there before its object; None: the entry goes, too.

    The enterprise's entry belongs to the base tree, an account to its user (decision R28).
    """
    if held.type is ObjectType.ENTERPRISE:
        return _emptied(held, keep={OBJECT_GUID})
    if held.type is ObjectType.USER and held.entry.get(OBJECT_GUID) != held.entry.get("mqisUserID"):
        return _emptied(held, keep={OBJECT_GUID, "objectSid"})
    return None


def placeholder(held: Held) -> Values:
    """What makes an entry one that stands for no object, since it has others below it."""
    return {**_emptied(held), DESCRIPTION: (PLACEHOLDER.encode(),)}


def _emptied(held: Held, keep: Iterable[str] = ()) -> Values:
    table = PROPERTY_TABLES[held.type or ObjectType.MACHINE]
    gone = {*table.attributes, EXACT, PATH_NAME, OBJECT_GUID, TWIN} - set(keep)
    return {name: () for name in sorted(gone) if name in held.entry}
