"""Tables of a directory in memory, as on a disk.

Objects, tombstones, state, and their indexes have a table each.

Each public method of `StoredTables` that writes is one durable write: it is done in full or not at all.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from mqdssm.engines.replication.operations import ForeignObject, ObjectRead
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import DirectoryChange, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DeletedObject, DirectoryNeighbor, DirectoryPartition
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.rules import (
    NAME,
    make_object_change,
    measure_at_most,
    name_key,
    select_replicated,
)
from mqdssm.testing.memory_store.number_index import NumberIndex


@dataclass(slots=True, eq=False)
class StoredObject:
    """A directory object; it is immutable, and replaced by a changed copy.

    Attributes:
        identifier: its GUID.
        object_type: its type.
        partition_id: its partition.
        seq_number: number of its last change; MIN if it is marked for removal.
        properties: its properties without identifier, partition and number.
        path_name: its path name, if its type has one and it was given.
        name_key: the path name in comparable form.
        size: its approximate octets in a message.
    """

    identifier: Guid
    object_type: ObjectType
    partition_id: Guid
    seq_number: SequenceNumber
    properties: Mapping[Propid, PropertyValue]
    path_name: str | None = field(init=False)
    name_key: str | None = field(init=False)
    size: int = field(init=False, default=0)
    _read: ObjectRead | None = field(init=False, default=None)
    _change: DirectoryChange | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        name = NAME[self.object_type]
        value = None if name is None else self.properties.get(name)
        self.path_name = value if isinstance(value, str) else None
        self.name_key = None if self.path_name is None else name_key(self.path_name)

    def read(self) -> ObjectRead:
        """Return the object as the result of Read Directory Object."""
        if self._read is None:
            self._read = ObjectRead(
                status=Hresult.MQ_OK,
                identifier=self.identifier,
                partition_id=self.partition_id,
                seq_number=self.seq_number,
                properties=select_replicated(self.object_type, self.identifier, self.properties),
            )
        return self._read

    def change(self, purged: SequenceNumber) -> DirectoryChange:
        """Return the object as a change for synchronization, and set `size`."""
        if self._change is None or self._change.purged_seq_number != purged:
            properties = self.read().properties or ()
            self._change = make_object_change(
                self.partition_id, self.identifier, self.seq_number, purged, properties
            )
            self.size = measure_at_most(properties)
        return self._change


Numbered: TypeAlias = StoredObject | DeletedObject


@dataclass(slots=True, eq=False)
class PartitionTable:
    """Content of one partition.

    Attributes:
        state: the partition's state; None if it was not saved.
        objects: by identifier.
        types: objects by type and identifier.
        tombstones: tombstones by identifier.
        numbers: objects and tombstones by number, except those with MIN.
        tombstone_numbers: tombstones by number, except those with MIN.
        computers: number of queues of each computer, by the queues' path names.
        managers: number of queues that name each machine, by PROPID_Q_QMID.
    """

    state: DirectoryPartition | None = None
    objects: dict[Guid, StoredObject] = field(default_factory=dict)
    types: dict[ObjectType, dict[Guid, StoredObject]] = field(
        default_factory=lambda: {object_type: {} for object_type in ObjectType}
    )
    tombstones: dict[Guid, DeletedObject] = field(default_factory=dict)
    numbers: NumberIndex[Numbered] = field(default_factory=NumberIndex)
    tombstone_numbers: NumberIndex[DeletedObject] = field(default_factory=NumberIndex)
    computers: Counter[str] = field(default_factory=Counter)
    managers: Counter[bytes] = field(default_factory=Counter)

    @property
    def purged(self) -> SequenceNumber:
        """PurgedSeqNumber of the saved state."""
        return MIN if self.state is None else self.state.purged

    def has_queues(self, machine: StoredObject) -> bool:
        """Return True if a machine has queues, by their path names or by PROPID_Q_QMID."""
        if machine.name_key is not None and self.computers[machine.name_key] > 0:
            return True
        return self.managers[machine.identifier] > 0

    def count_queue(self, queue: StoredObject, step: int) -> None:
        """Count an added (1) or removed (-1) queue."""
        key, manager = queue.name_key, queue.properties.get(Propid.Q_QMID)
        if key is not None:
            _count(self.computers, key.partition("\\")[0], step)
        if isinstance(manager, bytes):
            _count(self.managers, manager, step)


def _count(counter: Counter, key: object, step: int) -> None:  # type: ignore[type-arg]
    counter[key] += step
    if not counter[key]:
        del counter[key]


_EMPTY: Final = PartitionTable()
"""Content of a partition that does not exist; never written to."""


class StoredTables:
    """Data that survive a crash.

    Attributes:
        partitions: contents of partitions by identifier.
        neighbors: neighbours by role and name.
        foreign: objects that another program changed or created and that have not been numbered since, by
            partition and GUID, oldest first.
        seen: version of the last of these that has been handled.
    """

    __slots__ = ("_names", "foreign", "neighbors", "partitions", "seen", "versions")

    def __init__(self) -> None:
        self.foreign: dict[tuple[Guid, Guid], ForeignObject] = {}
        self.seen = ""
        self.versions = count(1)
        self.partitions: dict[Guid, PartitionTable] = {}
        self.neighbors: dict[tuple[bool, str], DirectoryNeighbor] = {}
        self._names: dict[tuple[ObjectType, str], list[StoredObject]] = {}

    def find_table(self, partition_id: Guid) -> PartitionTable:
        """Return the content of a partition.

        If it does not exist, the content is empty and not stored.
        """
        return self.partitions.get(partition_id, _EMPTY)

    def find_named(self, object_type: ObjectType, path_name: str) -> list[StoredObject]:
        """Return the objects of a type with a path name, in any case and partition.

        The result is empty if there are none.
        """
        return self._names.get((object_type, name_key(path_name)), []) if path_name else []

    def find_objects(self, identifier: Guid) -> list[StoredObject]:
        """Return the objects with an identifier, at most one in each partition."""
        return [
            table.objects[identifier] for table in self.partitions.values() if identifier in table.objects
        ]

    def save_partition(self, state: DirectoryPartition) -> None:
        """Persist a partition's state."""
        self._make_partition(state.partition_id).state = state

    def remove_state(self, partition_id: Guid) -> None:
        """Remove a partition's state."""
        table = self.partitions[partition_id]
        table.state = None
        if not table.objects and not table.tombstones:
            del self.partitions[partition_id]

    def put(self, stored_object: StoredObject) -> None:
        """Write an object, replacing the one with its identifier in its partition."""
        self.foreign.pop((stored_object.partition_id, stored_object.identifier), None)
        table = self._make_partition(stored_object.partition_id)
        old = table.objects.get(stored_object.identifier)
        if old is not None:
            self._leave(table, old)
        table.objects[stored_object.identifier] = stored_object
        table.types[stored_object.object_type][stored_object.identifier] = stored_object
        if stored_object.seq_number:
            table.numbers.put(stored_object.seq_number, stored_object)
        if stored_object.name_key is not None:
            self._names.setdefault((stored_object.object_type, stored_object.name_key), []).append(
                stored_object
            )
        if stored_object.object_type is ObjectType.QUEUE:
            table.count_queue(stored_object, 1)

    def remove(self, old: StoredObject) -> None:
        """Remove an object."""
        self.foreign.pop((old.partition_id, old.identifier), None)
        table = self.partitions[old.partition_id]
        self._leave(table, old)
        del table.objects[old.identifier]

    def write_tombstone(self, tombstone: DeletedObject) -> None:
        """Write a tombstone, replacing the one with its identifier in its partition."""
        table = self._make_partition(tombstone.partition_id)
        old = table.tombstones.get(tombstone.identifier)
        if old is not None:
            self.remove_tombstone(old)
        table.tombstones[tombstone.identifier] = tombstone
        if tombstone.seq_number:
            table.numbers.put(tombstone.seq_number, tombstone)
            table.tombstone_numbers.put(tombstone.seq_number, tombstone)

    def remove_tombstone(self, tombstone: DeletedObject) -> None:
        """Remove a tombstone."""
        table = self.partitions[tombstone.partition_id]
        del table.tombstones[tombstone.identifier]
        if tombstone.seq_number:
            table.numbers.remove(tombstone.seq_number, tombstone)
            table.tombstone_numbers.remove(tombstone.seq_number, tombstone)

    def mark(self, entry: Numbered) -> None:
        """Give an object or a tombstone the number MIN."""
        if isinstance(entry, StoredObject):
            self.put(replace(entry, seq_number=MIN))
        else:
            self.write_tombstone(replace(entry, seq_number=MIN))

    def note_foreign(self, stored_object: StoredObject, seq_number: SequenceNumber | None) -> None:
        """Record another program's change.

        An object without a number is not stored until it is created.
        """
        self.foreign[stored_object.partition_id, stored_object.identifier] = ForeignObject(
            object_type=stored_object.object_type,
            identifier=stored_object.identifier,
            partition_id=stored_object.partition_id,
            seq_number=seq_number,
            name=stored_object.path_name or str(stored_object.identifier),
            version=f"{next(self.versions):016d}",
            properties=() if seq_number is not None else tuple(stored_object.properties.items()),
        )

    def _make_partition(self, partition_id: Guid) -> PartitionTable:
        table = self.partitions.get(partition_id)
        if table is None:
            table = self.partitions[partition_id] = PartitionTable()
        return table

    def _leave(self, table: PartitionTable, old: StoredObject) -> None:
        """Remove an object from the indexes."""
        del table.types[old.object_type][old.identifier]
        if old.seq_number:
            table.numbers.remove(old.seq_number, old)
        if old.name_key is not None:
            key = (old.object_type, old.name_key)
            remaining = [other for other in self._names[key] if other is not old]
            if remaining:
                self._names[key] = remaining
            else:
                del self._names[key]
        if old.object_type is ObjectType.QUEUE:
            table.count_queue(old, -1)
