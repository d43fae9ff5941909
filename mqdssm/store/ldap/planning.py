"""How a change becomes requests: what is written, under which condition, in which order (decision R15).

Nothing is sent here. A plan assumes that what the view shows is so; each request has a condition that fails
where it is not, and then the change is planned again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import Request
from mqdssm.errors import DecodeError, MappingError
from mqdssm.events.making import Maker
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DeletedObject
from mqdssm.store.ldap.held import OBJECT_CLASS, Held
from mqdssm.store.ldap.places import Place
from mqdssm.store.ldap.view import Concern, View
from mqdssm.store.rules import EXISTS, NAME
from mqdssm.tables import places
from mqdssm.tables.numbering import Numbering
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

Values = dict[str, tuple[bytes, ...]]
Properties = Mapping[Propid, PropertyValue]
MANAGER_CLASS: Final = PROPERTY_TABLES[ObjectType.MACHINE].classes[0]
_OK: Final = int(Hresult.MQ_OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One change.

    Attributes:
        row: its place among the changes.
        command: what it does.
        concern: to which object; its properties are all that a whole object shall have.
        numbers: partition and number of the change.
        grave: the tombstone that a deletion leaves, of an object with that GUID.
        local: a client asks for it: names that are taken are refused.
    """

    row: int
    command: Command
    concern: Concern
    numbers: Numbering
    grave: Callable[[Guid, ObjectType | None], DeletedObject] | None = None
    local: bool = False


@dataclass(slots=True)
class Plan:
    """What is to be done for a change.

    Attributes:
        first: what is sent first: the numbered entry, and what it needs; tombstones.
        last: what is sent when these are done: deletions.
        rename: old DN and new DN, when all else is done.
        status: HRESULT where nothing need be sent; None: that of the requests.
        identifier: GUID of the object.
        keys: GUIDs and normalised DNs that it concerns: of two changes with a common one the later waits.
    """

    first: list[Request] = field(default_factory=list)
    last: list[Request] = field(default_factory=list)
    rename: tuple[DN, DN] | None = None
    status: int | None = None
    identifier: Guid | None = None
    effects: list[Callable[[View], None]] = field(default_factory=list)


class Refused(Exception):  # noqa: N818  it is an answer
    """A change that cannot be; for the planner alone.

    Attributes:
        status: HRESULT.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Planner:
    """Plans changes of one view, in their order."""

    def __init__(self, view: View, maker: Maker, domain: str) -> None:
        self._view = view
        self._maker = maker
        self._domain = domain
        self._places = view.places

    def plan(self, wanted: Wanted) -> Plan:
        """Plan a change; the view shows then what will be.

        A change that cannot be is a plan with a status.
        """
        plan = Plan()
        try:
            if wanted.command is Command.DELETE:
                self._delete(wanted, plan)
            elif wanted.command is Command.UPDATE:
                self._update(wanted, plan)
            else:
                self._whole(wanted, plan)
        except Refused as refused:
            log.warning("change %s of %s: %s", wanted.numbers.number, wanted.concern, refused)
            return Plan(status=refused.status)
        except (MappingError, DecodeError) as error:
            log.warning("change %s of %s: %s", wanted.numbers.number, wanted.concern, error)
            return Plan(status=Hresult.MQ_ERROR_PROPERTY)
        return plan

    # -- whole objects

    def _whole(self, wanted: Wanted, plan: Plan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        guid = plan.identifier = concern.identifier
        if guid is None:
            raise Refused(Hresult.MQ_ERROR_PROPERTY, "no GUID is given (decision R11)")
        held, grave = self._view.objects.get(guid), self._view.tombstones.get(guid)
        if self._is_known(held, numbers) or self._is_known(grave, numbers):
            plan.status = _OK
            self._finish_deletion(wanted, plan, held, grave)
            return
        if wanted.local and held is not None:
            raise Refused(EXISTS[concern.type], "an object has that GUID")
        if held is not None and held.type is not concern.type and held.is_object:
            raise Refused(Hresult.MQDS_WRONG_OBJ_TYPE, f"it is a {held.type!r}")
        path = self._path(concern)
        place = self._place(concern, guid, path, held)
        target = self._target(concern, guid, numbers)
        occupant = held or self._occupant(wanted, guid, path, place)
        if occupant is None:
            self._parents(wanted, place, plan)
            self._add(wanted, place.dn, target, plan)
        elif held is None and self._stays(wanted, occupant):
            plan.status = _OK  # its name was free when this was so: what comes next says so, too
            return
        else:
            self._overwrite(wanted, occupant, target, plan, takes=held is None)
            self._move(wanted, occupant, place.dn, plan)
        if grave is not None:  # the object is back
            plan.last.append(self._request(wanted, Action.DELETE, grave.dn, {}, grave))
            self._view.remove(grave)

    def _is_known(self, held: Held | None, numbers: Numbering) -> bool:
        """Whether an entry has the number of a change already, or a higher one."""
        known = None if held is None else held.number_in(numbers.partition)
        return known is not None and known >= numbers.number

    def _finish_deletion(self, wanted: Wanted, plan: Plan, held: Held | None, grave: Held | None) -> None:
        """An object that is there although its tombstone is: a crash came between (decision R15)."""
        if held is None or grave is None or grave.numbers is None:
            return
        number = held.number_in(grave.numbers.partition)
        if held.numbers is None or (number is not None and number < grave.numbers.number):
            self._remove(wanted, held, plan)
            plan.status = None

    def _occupant(self, wanted: Wanted, guid: Guid, path: str | None, place: Place) -> Held | None:
        """What is where a new object belongs."""
        concern = wanted.concern
        if concern.type is ObjectType.USER:
            sid = concern.properties.get(Propid.U_SID)
            account = self._view.accounts.get(sid) if isinstance(sid, bytes) else None
            if account is not None:
                return account
        found = self._view.at.get(place.dn.normalized)
        if found is None and path and place.dn.name == str(guid):
            found = self._view.named(concern.type, path)
        structural = PROPERTY_TABLES[concern.type].classes[0]
        if found is not None and not found.has_class(structural):
            raise Refused(EXISTS[concern.type], f"something else is at {found.dn}")
        return found

    def _stays(self, wanted: Wanted, occupant: Held) -> bool:
        """Whether the object that has the name keeps it; else the change takes it over (decision R53)."""
        concern = wanted.concern
        if concern.type in {ObjectType.ENTERPRISE, ObjectType.USER} and not occupant.is_object:
            return False
        if wanted.local and occupant.identifier is not None:
            raise Refused(EXISTS[concern.type], f"the name is that of {occupant.identifier}")
        number = occupant.number_in(wanted.numbers.partition)
        return number is not None and number > wanted.numbers.number

    def _path(self, concern: Concern) -> str | None:
        name = NAME[concern.type]
        given = None if name is None else concern.properties.get(name)
        return given if isinstance(given, str) else None

    def _place(self, concern: Concern, guid: Guid, path: str | None, held: Held | None) -> Place:
        place = self._view.place(concern, guid, path)
        if held is not None and (place is None or concern.type in _STAY):
            return Place(DN.parse(held.dn))
        if place is None:
            raise Refused(Hresult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, f"{path!r} is no name of such an object")
        return place

    def _target(self, concern: Concern, guid: Guid, numbers: Numbering) -> Values:
        """All attributes that an object shall have."""
        table = PROPERTY_TABLES[concern.type]
        made = entry_of(concern.type, {**concern.properties, table.identity: guid}, numbers)
        return {**made, **self._references(concern.type, concern.properties)}

    def _references(self, object_type: ObjectType, properties: Properties) -> Values:
        """DNs of other objects; of those that are not there stand-ins (decision R54)."""
        values: Values = {}
        for reference, guids in references_of(object_type, properties.items()):
            dns = dict.fromkeys(self._dn_of(guid) for guid in guids)
            values[reference.ldap] = tuple(dn.encode() for dn in dns)
        return values

    def _dn_of(self, guid: Guid) -> str:
        held = self._view.objects.get(guid)
        return str(self._places.stand_in(guid)) if held is None or held.numbers is None else held.dn

    def _parents(self, wanted: Wanted, place: Place, plan: Plan) -> None:
        """What has to be above an object: its computer, and a placeholder of its machine."""
        if not place.computer:
            return
        computers = self._view.computers
        key = place.computer.casefold()
        if computers.get(key) is None:
            made = self._maker.computer(place.computer, self._domain)
            plan.first.append(self._request(wanted, Action.ADD, str(made.dn), made.attributes()))
            computers[key] = made.dn
        if wanted.concern.type is not ObjectType.QUEUE:
            return
        above = place.dn.parent
        if self._view.at.get(above.normalized) is None:
            values: Values = {OBJECT_CLASS: (MANAGER_CLASS.encode(),)}
            plan.first.append(self._request(wanted, Action.ADD, str(above), values))
            self._view.put(Held(str(above), values))

    def _add(self, wanted: Wanted, dn: DN, target: Values, plan: Plan) -> None:
        table = PROPERTY_TABLES[wanted.concern.type]
        values = {OBJECT_CLASS: table.class_values[1:], **target}
        if OBJECT_GUID not in values and wanted.concern.identifier is not None:
            values[OBJECT_GUID] = (bytes(wanted.concern.identifier),)
        plan.first.append(self._request(wanted, Action.ADD, str(dn), values))
        self._view.put(Held(str(dn), values))

    def _overwrite(self, wanted: Wanted, held: Held, target: Values, plan: Plan, *, takes: bool) -> None:
        """Give an entry all that the object shall have, and nothing else; with another GUID if it takes it."""
        table = PROPERTY_TABLES[wanted.concern.type]
        names = [*table.attributes, *target]
        if not takes:
            names = [name for name in names if name != OBJECT_GUID]
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

    def _modify(self, wanted: Wanted, held: Held, changes: Values, plan: Plan) -> None:
        plan.first.append(self._request(wanted, Action.MODIFY, held.dn, changes, held))
        if held.identifier is not None:
            self._view.objects.pop(held.identifier, None)
        self._view.put(held.after(changes))

    def _move(self, wanted: Wanted, held: Held, dn: DN, plan: Plan) -> None:
        """Rename an entry whose object has another name now; the number is written before."""
        del wanted
        if dn.normalized != held.key and self._view.at.get(dn.normalized) is None:
            plan.rename = (DN.parse(held.dn), dn)

    # -- parts of objects

    def _update(self, wanted: Wanted, plan: Plan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        held = self._located(concern)
        if held is None or held.identifier is None:
            grave = None if concern.identifier is None else self._view.tombstones.get(concern.identifier)
            known = self._is_known(grave, numbers)
            plan.status = _OK if known else Hresult.MQDS_OBJECT_NOT_FOUND
            plan.identifier = concern.identifier if known else None
            return
        plan.identifier = held.identifier
        grave = self._view.tombstones.get(held.identifier)
        if self._is_known(held, numbers) or self._is_known(grave, numbers):
            plan.status = _OK
            self._finish_deletion(wanted, plan, held, grave)
            return
        changes: Values = {
            **changes_of(concern.type, held.entry, concern.properties.items(), numbers),
            **self._references(concern.type, concern.properties),
        }
        path = self._path(concern)
        if path is not None and concern.type not in _STAY:
            place = self._view.place(concern, held.identifier, path)
            occupant = None if place is None else self._view.at.get(place.dn.normalized)
            if occupant is not None and occupant.key != held.key and wanted.local:
                raise Refused(EXISTS[concern.type], f"the name is that of {occupant.dn}")
            if place is not None:
                self._move(wanted, held, place.dn, plan)
        self._modify(wanted, held, changes, plan)

    def _located(self, concern: Concern) -> Held | None:
        """The object of a change: by its GUID if it has one, else by its path name."""
        if concern.identifier is not None:
            held = self._view.objects.get(concern.identifier)
        else:
            held = self._view.named(concern.type, concern.path_name or "")
        if held is None or not held.is_object:
            return None
        if held.type is not concern.type and concern.type is not ObjectType.DELETED_OBJECT:
            return None
        return held

    # -- deletions

    def _delete(self, wanted: Wanted, plan: Plan) -> None:
        concern, numbers = wanted.concern, wanted.numbers
        held = self._located(concern)
        guid = plan.identifier = concern.identifier if held is None else held.identifier
        if guid is None or wanted.grave is None:
            plan.status = Hresult.MQDS_OBJECT_NOT_FOUND
            return
        grave = self._view.tombstones.get(guid)
        if self._is_known(grave, numbers):
            plan.status = _OK
            self._finish_deletion(wanted, plan, held, grave)
            return
        if self._is_known(held, numbers):
            plan.status = _OK
            return
        if held is None and wanted.local:
            plan.status = Hresult.MQDS_OBJECT_NOT_FOUND
            return
        self._bury(wanted, wanted.grave(guid, None if held is None else held.type), grave, plan)
        if held is not None and held.numbers is not None and held.numbers.partition == numbers.partition:
            self._remove(wanted, held, plan)

    def _bury(self, wanted: Wanted, deleted: DeletedObject, grave: Held | None, plan: Plan) -> None:
        kind = ObjectType.DELETED_OBJECT
        target = entry_of(
            kind,
            {
                Propid.D_IDENTIFIER: deleted.identifier,
                Propid.D_SCOPE: int(deleted.scope),
                Propid.D_OBJTYPE: int(deleted.object_type),
            },
            wanted.numbers,
        )
        if grave is not None:
            plan.first.append(self._request(wanted, Action.MODIFY, grave.dn, target, grave))
            self._view.put(grave.after(target))
            return
        dn = str(self._places.tombstone(deleted.partition_id, deleted.identifier))
        values = {OBJECT_CLASS: PROPERTY_TABLES[kind].class_values[1:], **target}
        plan.first.append(self._request(wanted, Action.ADD, dn, values))
        self._view.put(Held(dn, values))

    def _remove(self, wanted: Wanted, held: Held, plan: Plan) -> None:
        """Delete an entry, or what of it is replication's, if it was there before or has to stay."""
        stays = reduced(held)
        if stays is None:
            plan.last.append(self._request(wanted, Action.DELETE, held.dn, {}, held))
            self._view.remove(held)
        else:
            plan.last.append(self._request(wanted, Action.MODIFY, held.dn, stays, held))
            self._view.remove(held)
            self._view.put(held.after(stays))

    @staticmethod
    def _request(
        wanted: Wanted,
        action: Action,
        dn: str,
        attributes: Mapping[str, Sequence[bytes]],
        held: Held | None = None,
    ) -> Request:
        item = Item(row=wanted.row, action=action, dn=dn, attributes=attributes)
        return Request(item=item, condition=None if held is None else held.unchanged)


_STAY: Final = frozenset({ObjectType.ENTERPRISE, ObjectType.USER, ObjectType.ROUTING_LINK})
"""Types whose entries are never renamed."""


def reduced(held: Held) -> Values | None:
    """What a deletion replaces in an entry that was there before its object; None: the entry goes, too.

    The enterprise's entry belongs to the base tree, an account to its user (decision R28).
    """
    if held.type is ObjectType.ENTERPRISE:
        return placeholder(held, keep={OBJECT_GUID})
    if held.type is ObjectType.USER and held.entry.get(OBJECT_GUID) != held.entry.get("mqisUserID"):
        return placeholder(held, keep={OBJECT_GUID, "objectSid"})
    return None


def placeholder(held: Held, keep: Iterable[str] = ()) -> Values:
    """What makes an entry one of no object: for those that have others below them."""
    table = PROPERTY_TABLES[held.type or ObjectType.MACHINE]
    gone = {*table.attributes, EXACT, PATH_NAME, OBJECT_GUID} - set(keep)
    return {name: () for name in sorted(gone) if name in held.entry}


def domain_of(root: DN) -> str:
    """The DNS domain of a directory's root."""
    return ".".join(value for ((name, value), *_) in root.rdns if name.lower() == "dc")


__all__ = ["Plan", "Planner", "Refused", "Wanted", "domain_of", "placeholder", "places", "reduced"]
