"""Changes that the object authority makes for its clients.

See [MS-MQDS] 3.1.6.3 to 3.1.6.5.
"""

from typing import Final

from mqdssm.directory.filters import And, Equal
from mqdssm.engines.replication.operations import CreateObject, DeleteObject, ObjectOutcome, UpdateObject
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.store import rules
from mqdssm.store.ldap.change_batches import ChangeApplier
from mqdssm.store.ldap.change_planner import PlannedChange, identify_change, is_known, locate_object, path_of
from mqdssm.store.ldap.stored_entry import StoredEntry, stored_entry_of, values_of
from mqdssm.store.ldap.view import ChangeSubject, DirectoryView, StoreSearches
from mqdssm.tables.numbering import PARTITION, Numbering
from mqdssm.tables.properties import PROPERTY_TABLES

_NOT_FOUND: Final = ObjectOutcome(status=Hresult.MQDS_OBJECT_NOT_FOUND)
_QUEUE_CLASS: Final = PROPERTY_TABLES[ObjectType.QUEUE].classes[0]


class LocalChanges:
    """Checks and makes the changes that clients ask for."""

    def __init__(self, reader: StoreSearches, applier: ChangeApplier) -> None:
        self._reader = reader
        self._applier = applier

    def create(self, operation: CreateObject) -> ObjectOutcome:
        """Create Directory Object ([MS-MQDS] 3.1.6.3)."""
        kind = operation.object_type
        problem = rules.find_creation_problem(kind, operation.path_name, operation.properties)
        guid = None if problem else rules.find_identifier(kind, operation.properties)
        if problem is not None or guid is None:
            return ObjectOutcome(status=problem or Hresult.MQ_ERROR_PROPERTY)
        concern = ChangeSubject(
            kind, guid, None, rules.complete_properties(kind, operation.path_name, operation.properties)
        )
        change = self._plan_change(Command.CREATE, concern, operation)
        view = self._applier.view([change])
        stored_entry = view.objects.get(guid)
        if is_known(stored_entry, change.numbers) or is_known(view.tombstones.get(guid), change.numbers):
            return ObjectOutcome(status=Hresult.MQ_OK, identifier=guid)
        problem = self._check_names(view, change, stored_entry) or self._check_machine(
            concern, operation.partition_id
        )
        return self._apply(change, view) if problem is None else ObjectOutcome(status=problem)

    def _check_names(
        self, view: DirectoryView, change: PlannedChange, stored_entry: StoredEntry | None
    ) -> Hresult | None:
        """Return an error if another object has the identifier or the path name."""
        concern = change.concern
        path = path_of(concern)
        if (stored_entry is not None and stored_entry.is_object) or concern.identifier in view.elsewhere:
            return rules.EXISTS[concern.type]
        if path is not None and self._reader.find_named(concern.type, path):
            return rules.EXISTS[concern.type]
        if stored_entry is not None or concern.identifier is None or concern.type in _PREPARED:
            return None
        place = view.place_object(concern, concern.identifier, path)
        occupant = None if place is None else view.at.get(place.dn.normalized)
        if occupant is None:
            return None
        # another program's entry without a number is in the way; a numbered one is displaced
        of_class = occupant.has_class(PROPERTY_TABLES[concern.type].classes[0])
        foreign = not occupant.is_object and (occupant.identifier is not None or not of_class)
        return rules.EXISTS[concern.type] if foreign else None

    def _check_machine(self, concern: ChangeSubject, partition: Guid) -> Hresult | None:
        """Return an error if a queue has no machine in its partition."""
        path = path_of(concern)
        if concern.type is not ObjectType.QUEUE or path is None:
            return None
        machines = self._reader.find_named(ObjectType.MACHINE, rules.computer_of(path))
        has_machine = any(machine.number_in(partition) is not None for machine in machines)
        return None if has_machine else Hresult.MQ_ERROR_MACHINE_NOT_FOUND

    def update(self, operation: UpdateObject) -> ObjectOutcome:
        """Update Directory Object ([MS-MQDS] 3.1.6.4)."""
        kind = operation.object_type
        properties = (
            rules.select_kept_properties(kind, operation.properties) if kind in PROPERTY_TABLES else {}
        )
        concern = ChangeSubject(kind, operation.identifier, operation.path_name, properties)
        change = self._plan_change(Command.UPDATE, concern, operation)
        view = self._applier.view([change])
        change = identify_change(view, change)
        stored_entry = self._find_target(view, change)
        if stored_entry is None or stored_entry.identifier is None:
            return self._outcome_of_missing(view, change)
        guid = stored_entry.identifier
        if is_known(stored_entry, change.numbers):
            return ObjectOutcome(status=Hresult.MQ_OK, identifier=guid)
        before = values_of(stored_entry, kind)
        problem = rules.update_problem(kind, guid, before, operation.properties)
        path = path_of(concern)
        if problem is None and path is not None:
            namesakes = self._reader.find_named(kind, path)
            if any(namesake.identifier != guid for namesake in namesakes):
                problem = rules.EXISTS[kind]
        if problem is not None:
            return ObjectOutcome(status=problem)
        named = self._plan_change(Command.UPDATE, ChangeSubject(kind, guid, None, properties), operation)
        return self._apply(named, view if operation.identifier is not None else None)

    def delete(self, operation: DeleteObject) -> ObjectOutcome:
        """Delete Directory Object ([MS-MQDS] 3.1.6.5), tombstone first."""
        concern = ChangeSubject(operation.object_type, operation.identifier, operation.path_name, {})
        change = self._plan_change(Command.DELETE, concern, operation)
        view = self._applier.view([change])
        change = identify_change(view, change)
        stored_entry = self._find_target(view, change)
        if stored_entry is None or stored_entry.identifier is None:
            return self._outcome_of_missing(view, change)
        if (
            not is_known(stored_entry, change.numbers)
            and stored_entry.type is ObjectType.MACHINE
            and self.has_queues(stored_entry)
        ):
            return ObjectOutcome(status=Hresult.MQ_ERROR)
        named = ChangeSubject(operation.object_type, stored_entry.identifier, None, {})
        again = self._plan_change(Command.DELETE, named, operation)
        return self._apply(again, view if operation.identifier is not None else None)

    def has_queues(self, machine: StoredEntry) -> bool:
        """Return True if a machine has queues of its partition.

        A queue of the machine is below it by name, or refers to it by PROPID_Q_QMID.
        """
        if machine.numbers is None:
            return False
        name = rules.name_key(str(values_of(machine, ObjectType.MACHINE).get(Propid.QM_PATHNAME, "")))
        of_partition = Equal(PARTITION, bytes(machine.numbers.partition))
        search_filter = And((Equal("objectClass", _QUEUE_CLASS.encode()), of_partition))
        # renaming a machine moves all entries below it, but the path names of its queues stay
        for entry in self._reader.session.find(machine.dn, search_filter, ["*"]):
            path = values_of(stored_entry_of(entry), ObjectType.QUEUE).get(Propid.Q_PATHNAME)
            if isinstance(path, str) and rules.computer_of(path) == name:
                return True
        named = Equal("mqisQueueManagerID", bytes(machine.identifier or b""))
        return next(self._reader.find(And((search_filter, named)), ["1.1"]), None) is not None

    def _find_target(self, view: DirectoryView, change: PlannedChange) -> StoredEntry | None:
        """Return the object of a change in its partition if it has the right type.

        None otherwise.
        """
        stored_entry = locate_object(view, change)
        return stored_entry if stored_entry is not None and stored_entry.type is change.concern.type else None

    def _outcome_of_missing(self, view: DirectoryView, change: PlannedChange) -> ObjectOutcome:
        """Return the outcome of a change of a missing object.

        MQ_OK if the change was made already.
        """
        guid = change.concern.identifier
        if guid is None:
            return _NOT_FOUND
        entries = (view.objects.get(guid), view.tombstones.get(guid))
        if any(is_known(entry, change.numbers) for entry in entries):
            return ObjectOutcome(status=Hresult.MQ_OK, identifier=guid)
        return _NOT_FOUND

    def _plan_change(
        self, command: Command, concern: ChangeSubject, operation: CreateObject | UpdateObject | DeleteObject
    ) -> PlannedChange:
        numbers = Numbering(operation.partition_id, operation.seq_number)
        if isinstance(operation, DeleteObject):
            return PlannedChange(
                row=0, command=command, concern=concern, numbers=numbers, scope=operation.scope
            )
        return PlannedChange(row=0, command=command, concern=concern, numbers=numbers, is_own=True)

    def _apply(self, change: PlannedChange, view: DirectoryView | None) -> ObjectOutcome:
        """Make a change, with the view that was read for its checks."""
        _, status, identifiers = self._applier.apply([change], view)
        return ObjectOutcome(status=status, identifier=identifiers[0] if status == Hresult.MQ_OK else None)


_PREPARED: Final = frozenset({ObjectType.ENTERPRISE, ObjectType.USER})
"""Types whose entries may exist before the object."""
