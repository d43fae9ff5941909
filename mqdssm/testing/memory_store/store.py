"""A store in memory, with the crash behaviour of a disk.

Simulations use it.

An operation of several steps has several writes, each of which may be the last one before a crash
(`mqdssm.testing.memory_store.disk`). After a crash the store is closed, and `MemoryStore.restart` returns a
new one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from mqdssm.engines.replication import operations as ops
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, PropertyValue, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DeletedObject
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store import rules
from mqdssm.store.performer import FULL, map_performers
from mqdssm.tables.creation import DEFAULTS
from mqdssm.testing.memory_store.disk import Disk
from mqdssm.testing.memory_store.tables import Numbered, PartitionTable, StoredObject, StoredTables

_DONE: Final = ops.Done()
_NOT_FOUND: Final = ops.ObjectOutcome(status=Hresult.MQDS_OBJECT_NOT_FOUND)
_NOT_READ: Final = ops.ObjectRead(status=Hresult.MQDS_OBJECT_NOT_FOUND)
_CLOSED: Final = "the directory in memory is closed"
_TOMBSTONE_BYTES: Final = 64  # approximate octets in a message


class MemoryStore:
    """A directory in memory; a `mqdssm.store.performer.Store` (decisions R50 to R52).

    Attributes:
        disk: the disk to which it writes.
    """

    def __init__(self, disk: Disk | None = None, tables: StoredTables | None = None) -> None:
        self.disk: Final = disk or Disk()
        self._write = self.disk.write
        self._kept = tables or StoredTables()
        self._open = True
        self._performers = map_performers(self)

    def perform(self, operation: Any) -> Any:
        """Perform one operation; see `mqdssm.store.performer.Store`.

        Raises:
            DirectoryNotConnected: the store is closed, or has crashed.
            GenericDirectoryError: its disk is full, and the operation's result has no status.
        """
        if not self._open:
            raise DirectoryNotConnected(_CLOSED)
        try:
            return self._performers[type(operation)](operation)
        except GenericDirectoryError:
            full = FULL.get(type(operation))
            if full is None:
                raise
            return full
        except BaseException:
            self._open = False
            raise

    def close(self) -> None:
        """Close the store; `restart` returns one with the same content."""
        self._open = False

    def restart(self) -> "MemoryStore":
        """Return the store as it is after a restart; this one is closed."""
        self._open = False
        again = MemoryStore(tables=self._kept)
        again.disk.room = self.disk.room
        return again

    # -- state of the protocol

    def _load_state(self, _operation: ops.LoadState) -> ops.PersistedState:
        states = (table.state for table in self._kept.partitions.values())
        return ops.PersistedState(
            partitions=tuple(state for state in states if state is not None),
            neighbors=tuple(self._kept.neighbors.values()),
        )

    def _save_partition(self, operation: ops.SavePartition) -> ops.Done:
        self._write(self._kept.save_partition, operation.partition)
        return _DONE

    def _remove_partition(self, operation: ops.RemovePartition) -> ops.Done:
        table = self._kept.find_table(operation.partition_id)
        for tombstone in tuple(table.tombstones.values()):
            self._write(self._kept.remove_tombstone, tombstone)
        if table.state is not None:
            self._write(self._kept.remove_state, operation.partition_id)
        return _DONE

    def _save_neighbor(self, operation: ops.SaveNeighbor) -> ops.Done:
        neighbor = operation.neighbor
        key = (neighbor.is_bsc, rules.name_key(neighbor.machine_name))
        self._write(self._kept.neighbors.__setitem__, key, neighbor)
        return _DONE

    def _remove_neighbor(self, operation: ops.RemoveNeighbor) -> ops.Done:
        key = (operation.is_bsc, rules.name_key(operation.machine_name))
        if key in self._kept.neighbors:
            self._write(self._kept.neighbors.__delitem__, key)
        return _DONE

    def _recover(self, operation: ops.Recover) -> ops.Recovered:
        table = self._kept.find_table(operation.partition_id)
        status = Hresult.MQ_OK
        try:
            self._finish(table)
        except GenericDirectoryError:
            status = Hresult.MQ_ERROR_DS_IS_FULL
        return ops.Recovered(highest=SequenceNumber(table.numbers.find_highest()), status=status)

    def _finish(self, table: PartitionTable) -> None:
        """Complete interrupted deletions (decision R15).

        Of an object and its tombstone, the newer one stays.
        """
        for identifier in table.objects.keys() & table.tombstones.keys():
            stored_object, tombstone = table.objects[identifier], table.tombstones[identifier]
            if tombstone.seq_number > stored_object.seq_number:
                self._write(self._kept.remove, stored_object)
            else:
                self._write(self._kept.remove_tombstone, tombstone)

    # -- the authority's changes

    def _create(self, operation: ops.CreateObject) -> ops.ObjectOutcome:
        object_type, path_name = operation.object_type, operation.path_name
        problem = rules.find_creation_problem(object_type, path_name, operation.properties)
        identifier = None if problem else rules.find_identifier(object_type, operation.properties)
        if problem is not None or identifier is None:
            return ops.ObjectOutcome(status=problem or Hresult.MQ_ERROR_PROPERTY)
        table = self._kept.find_table(operation.partition_id)
        if _number_of(table, identifier) >= operation.seq_number:
            return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=identifier)
        new_object = StoredObject(
            identifier,
            object_type,
            operation.partition_id,
            operation.seq_number,
            rules.complete_properties(object_type, path_name, operation.properties),
        )
        problem = self._check_names(new_object) or self._check_machine(new_object)
        if problem is not None:
            return ops.ObjectOutcome(status=problem)
        self._place_object(table, new_object)
        return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=identifier)

    def _check_names(self, new_object: StoredObject) -> Hresult | None:
        """Return an error if another object has the identifier or path name.

        The object may be in any partition.
        """
        path_name = new_object.path_name
        if any(self._kept.find_objects(new_object.identifier)):
            return rules.EXISTS[new_object.object_type]
        if path_name is not None and self._kept.find_named(new_object.object_type, path_name):
            return rules.EXISTS[new_object.object_type]
        return None

    def _check_machine(self, new_object: StoredObject) -> Hresult | None:
        """Return an error if a queue has no machine in its partition."""
        path_name = new_object.path_name
        if new_object.object_type is not ObjectType.QUEUE or path_name is None:
            return None
        machines = self._kept.find_named(ObjectType.MACHINE, rules.computer_of(path_name))
        has_machine = any(machine.partition_id == new_object.partition_id for machine in machines)
        return None if has_machine else Hresult.MQ_ERROR_MACHINE_NOT_FOUND

    def _update(self, operation: ops.UpdateObject) -> ops.ObjectOutcome:
        table = self._kept.find_table(operation.partition_id)
        number = operation.seq_number
        identifier = self._identify_object(table, operation.object_type, operation)
        stored_object = _of_type(table, identifier, operation.object_type)
        if stored_object is None:
            return _outcome_of_missing(table, identifier, number)
        if stored_object.seq_number >= number:
            return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=stored_object.identifier)
        problem = rules.update_problem(
            stored_object.object_type,
            stored_object.identifier,
            stored_object.properties,
            operation.properties,
        )
        if problem is not None:
            return ops.ObjectOutcome(status=problem)
        new_object = _update_object(stored_object, number, operation.properties)
        if self._name_taken(stored_object, new_object.path_name):
            return ops.ObjectOutcome(status=rules.EXISTS[new_object.object_type])
        self._write(self._kept.put, new_object)
        return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=new_object.identifier)

    def _name_taken(self, stored_object: StoredObject, path_name: str | None) -> bool:
        """Return True if another object has the new path name of an object."""
        if path_name is None or path_name == stored_object.path_name:
            return False
        named = self._kept.find_named(stored_object.object_type, path_name)
        return bool(named) and stored_object not in named

    def _delete(self, operation: ops.DeleteObject) -> ops.ObjectOutcome:
        table = self._kept.find_table(operation.partition_id)
        number = operation.seq_number
        identifier = self._identify_object(table, operation.object_type, operation)
        stored_object = _of_type(table, identifier, operation.object_type)
        if stored_object is None:
            return _outcome_of_missing(table, identifier, number)
        if stored_object.seq_number < number:
            if stored_object.object_type is ObjectType.MACHINE and table.has_queues(stored_object):
                return ops.ObjectOutcome(status=Hresult.MQ_ERROR)
            tombstone = DeletedObject(
                identifier=stored_object.identifier,
                partition_id=stored_object.partition_id,
                seq_number=number,
                object_type=stored_object.object_type,
                scope=Scope(operation.scope),
            )
            self._delete_as(table, stored_object, tombstone)
        return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=stored_object.identifier)

    def _identify_object(
        self,
        table: PartitionTable,
        object_type: ObjectType,
        change: ops.UpdateObject | ops.DeleteObject | DirectoryChange,
    ) -> Guid | None:
        """Return the GUID of the object to which a change refers (decision R51).

        The object is in the partition.

        A path name refers to the object that already has the change's number. Otherwise it refers to the
        object that had the name when the change was made: the newest object of that name that is older than
        the change.
        """
        identifier = change.guid_identifier if isinstance(change, DirectoryChange) else change.identifier
        if identifier is not None:
            return identifier
        changed = next(iter(table.numbers.list_at(change.seq_number)), None)
        if changed is not None:
            return changed.identifier
        named = self._kept.find_named(object_type, change.path_name or "")
        mine = [candidate for candidate in named if candidate.partition_id == change.partition_id]
        stored_object = _choose_newest(
            [candidate for candidate in mine if candidate.seq_number < change.seq_number]
        ) or _choose_newest(mine)
        return None if stored_object is None else stored_object.identifier

    def _place_object(self, table: PartitionTable, new_object: StoredObject) -> None:
        """Write an object, and then remove its older tombstone."""
        tombstone = table.tombstones.get(new_object.identifier)
        self._write(self._kept.put, new_object)
        if tombstone is not None:
            self._write(self._kept.remove_tombstone, tombstone)

    def _delete_as(
        self, table: PartitionTable, stored_object: StoredObject | None, tombstone: DeletedObject
    ) -> None:
        """Write a tombstone, and then remove the object if it exists.

        See decisions R15 and R21.
        """
        old_tombstone = table.tombstones.get(tombstone.identifier)
        if old_tombstone is None or old_tombstone.seq_number < tombstone.seq_number:
            self._write(self._kept.write_tombstone, tombstone)
        if stored_object is not None:
            self._write(self._kept.remove, stored_object)

    # -- reading

    def _read(self, operation: ops.ReadObject) -> ops.ObjectRead:
        objects: Iterable[StoredObject] = ()
        partition_id = operation.partition_id
        if operation.identifier is not None:
            if partition_id is not None:  # nearly always
                table = self._kept.find_table(partition_id)
                stored_object = _of_type(table, operation.identifier, operation.object_type)
                return _NOT_READ if stored_object is None else stored_object.read()
            objects = self._kept.find_objects(operation.identifier)
        elif operation.path_name is not None:
            objects = self._kept.find_named(operation.object_type, operation.path_name)
        newest = _choose_newest(
            [
                stored_object
                for stored_object in objects
                if stored_object.object_type is operation.object_type
                and (partition_id is None or partition_id == stored_object.partition_id)
            ]
        )
        return _NOT_READ if newest is None else newest.read()

    def _list(self, operation: ops.ListObjects) -> ops.ObjectsListed:
        of_type = self._kept.find_table(operation.partition_id).types[operation.object_type]
        return ops.ObjectsListed(
            objects=tuple(
                stored_object.read()
                for stored_object in of_type.values()
                if not operation.service or _has_service(stored_object, operation.service)
            )
        )

    def _has_objects(self, operation: ops.HasObjects) -> ops.Answer:
        table = self._kept.find_table(operation.partition_id)
        if operation.queues_of is None:
            return ops.Answer(yes=bool(table.objects))
        machine = _of_type(table, operation.queues_of, ObjectType.MACHINE)
        return ops.Answer(yes=machine is not None and table.has_queues(machine))

    def _lookup_changes(self, operation: ops.LookupChanges) -> ops.ChangesFound:
        table = self._kept.find_table(operation.partition_id)
        changes: list[DirectoryChange] = []
        size, reached = 0, operation.up_to
        before = operation.after
        for number, entries in table.numbers.list_between(operation.after, operation.up_to):
            seen = [entry for entry in entries if not (operation.enterprise_scope and _of_site(entry))]
            new_changes = [_change(entry, table.purged) for entry in seen]
            size += sum(entry.size if isinstance(entry, StoredObject) else _TOMBSTONE_BYTES for entry in seen)
            full = len(changes) + len(new_changes) > operation.count_max or size > operation.bytes_max
            if full and changes and new_changes:
                reached = before
                break
            changes += new_changes
            before = SequenceNumber(number)
        return ops.ChangesFound(changes=tuple(changes), reached=reached)

    # -- replicas

    def _apply_changes(self, operation: ops.ApplyChanges) -> ops.Applied:
        for count, change in enumerate(operation.changes):
            status = self._apply(change)
            if status != Hresult.MQ_OK:
                return ops.Applied(count=count, status=status)
        return ops.Applied(count=len(operation.changes), status=Hresult.MQ_OK)

    def _apply(self, change: DirectoryChange) -> Hresult:
        table = self._kept.find_table(change.partition_id)
        if change.command == Command.DELETE:
            return self._apply_deletion(table, change)
        object_type = change.object_type
        if object_type is None or object_type not in DEFAULTS:
            return Hresult.MQDS_WRONG_OBJ_TYPE
        if change.command == Command.UPDATE:
            return self._apply_update(table, object_type, change)
        identifier = change.guid_identifier or rules.find_identifier(object_type, change.properties)
        if identifier is None:
            return Hresult.MQ_ERROR_PROPERTY
        if _number_of(table, identifier) < change.seq_number:
            values = rules.complete_properties(object_type, change.path_name, change.properties)
            new_object = StoredObject(identifier, object_type, change.partition_id, change.seq_number, values)
            self._place_object(table, new_object)
        return Hresult.MQ_OK

    def _apply_update(
        self, table: PartitionTable, object_type: ObjectType, change: DirectoryChange
    ) -> Hresult:
        identifier = self._identify_object(table, object_type, change)
        if identifier is None:
            return Hresult.MQDS_OBJECT_NOT_FOUND
        if _number_of(table, identifier) >= change.seq_number:
            return Hresult.MQ_OK
        stored_object = table.objects.get(identifier)
        if stored_object is None:
            return Hresult.MQDS_OBJECT_NOT_FOUND
        is_foreign = (change.partition_id, identifier) in self._kept.foreign
        updated = _update_object(stored_object, change.seq_number, change.properties)
        self._write(self._kept.put, updated)
        if is_foreign:  # the update was of another base (decision R204)
            self._kept.note_foreign(updated, updated.seq_number)
        return Hresult.MQ_OK

    def _apply_deletion(self, table: PartitionTable, change: DirectoryChange) -> Hresult:
        object_type = rules.type_of_deletion(change.get(Propid.D_OBJTYPE))
        identifier = self._identify_object(table, object_type, change)
        if identifier is None:
            return Hresult.MQ_OK  # no object of that name: nothing to delete, and no GUID for a tombstone
        stored_object = table.objects.get(identifier)
        if stored_object is not None and stored_object.seq_number >= change.seq_number:
            return Hresult.MQ_OK
        tombstone = rules.deletion_of(
            change, identifier, object_type if stored_object is None else stored_object.object_type
        )
        self._delete_as(table, stored_object, tombstone)
        return Hresult.MQ_OK

    # -- tombstones and full synchronization

    def _purge(self, operation: ops.PurgeDeletedObjects) -> ops.Done:
        table = self._kept.find_table(operation.partition_id)
        for _, tombstones in tuple(table.tombstone_numbers.list_between(MIN, operation.up_to)):
            for tombstone in tombstones:
                self._write(self._kept.remove_tombstone, tombstone)
        return _DONE

    def _mark(self, operation: ops.MarkPartition) -> ops.Done:
        table = self._kept.find_table(operation.partition_id)
        self._finish(table)
        entries: tuple[Numbered, ...] = (*table.objects.values(), *table.tombstones.values())
        for entry in entries:
            if entry.seq_number != MIN:
                self._write(self._kept.mark, entry)
        return _DONE

    def _sweep(self, operation: ops.SweepPartition) -> ops.Done:
        table = self._kept.find_table(operation.partition_id)
        for stored_object in tuple(table.objects.values()):
            if stored_object.seq_number == MIN:
                self._write(self._kept.remove, stored_object)
        for tombstone in tuple(table.tombstones.values()):
            if tombstone.seq_number == MIN:
                self._write(self._kept.remove_tombstone, tombstone)
        return _DONE

    # -- other programs

    def _find_foreign(self, operation: ops.FindForeign) -> ops.ForeignFound:
        tables, after = self._kept, operation.after
        if not after:
            tables.seen = after = max(tables.seen, operation.seen)
        rows = sorted(
            (foreign_object for foreign_object in tables.foreign.values() if foreign_object.version > after),
            key=_read_version,
        )
        some = tuple(rows[: operation.count_max])
        newest = some[-1].version if some else ""
        return ops.ForeignFound(objects=some, reached=newest if len(some) < len(rows) else "", newest=newest)

    def write_foreign(
        self, identifier: Guid, properties: Iterable[tuple[Propid, PropertyValue]] = ()
    ) -> None:
        """Change an object as another program does with plain LDAP: its number stays.

        Raises:
            KeyError: no such object exists.
        """
        stored_object = next(iter(self._kept.find_objects(identifier)), None)
        if stored_object is None:
            raise KeyError(identifier)
        updated = _update_object(stored_object, stored_object.seq_number, properties)
        self._kept.put(updated)
        self._kept.note_foreign(updated, updated.seq_number)


def _read_version(foreign_object: ops.ForeignObject) -> str:
    return foreign_object.version


def _number_of(table: PartitionTable, identifier: Guid) -> SequenceNumber:
    """Return the higher number of an object and its tombstone; MIN if neither exists."""
    stored_object, tombstone = table.objects.get(identifier), table.tombstones.get(identifier)
    number = MIN if stored_object is None else stored_object.seq_number
    return number if tombstone is None else max(number, tombstone.seq_number)


def _of_type(table: PartitionTable, identifier: Guid | None, object_type: ObjectType) -> StoredObject | None:
    """Return an object of the partition if it has the given type, else None."""
    stored_object = None if identifier is None else table.objects.get(identifier)
    return stored_object if stored_object is not None and stored_object.object_type is object_type else None


def _outcome_of_missing(
    table: PartitionTable, identifier: Guid | None, number: SequenceNumber
) -> ops.ObjectOutcome:
    """Return the outcome of a change of a missing object.

    The outcome is MQ_OK if the object's tombstone has the number.
    """
    if identifier is None or _number_of(table, identifier) < number:
        return _NOT_FOUND
    return ops.ObjectOutcome(status=Hresult.MQ_OK, identifier=identifier)


def _choose_newest(candidates: Sequence[StoredObject]) -> StoredObject | None:
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    return max(
        candidates, key=lambda candidate: (candidate.seq_number, candidate.partition_id, candidate.identifier)
    )


def _update_object(
    stored_object: StoredObject, number: SequenceNumber, properties: Iterable[tuple[Propid, PropertyValue]]
) -> StoredObject:
    changed = rules.select_kept_properties(stored_object.object_type, properties)
    return replace(stored_object, seq_number=number, properties={**stored_object.properties, **changed})


def _has_service(stored_object: StoredObject, service: int) -> bool:
    value = stored_object.properties.get(Propid.QM_SERVICE)
    return isinstance(value, int) and bool(value & service)


def _of_site(entry: Numbered) -> bool:
    """Return True for a queue that is visible only in its own site.

    See [MC-MQDSRP] 3.2.7.8.
    """
    return (
        isinstance(entry, StoredObject)
        and entry.object_type is ObjectType.QUEUE
        and entry.properties.get(Propid.Q_SCOPE) == Scope.SITE
    )


def _change(entry: Numbered, purged: SequenceNumber) -> DirectoryChange:
    return (
        entry.change(purged) if isinstance(entry, StoredObject) else rules.make_deletion_change(entry, purged)
    )
