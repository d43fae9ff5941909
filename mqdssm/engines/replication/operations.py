"""Operations of the engine on its directory.

Operations are local events of [MS-MQDS], or concern the persisted state.

An operation is a value. A store (`mqdssm.store`) performs it and returns the result that its docstring names.
A store raises no exception because of the data: it returns a `status`, an HRESULT. It raises `DirectoryError`
if the directory cannot be reached; the driver then repeats the operation. Every operation is idempotent. It
is durable when its result is returned. An operation that a crash interrupts is completed or without effect
after the store is opened again (decision R15).

Every object has a sequence number and a partition. A store *drops* a change with a number, with status MQ_OK,
if the object or its tombstone has this number or a higher one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import DirectoryChange, Properties, Scope
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition
from mqdssm.model.seqnum import MIN, SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """Read all persisted state. Result: `PersistedState`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedState:
    """Persisted state of a server; empty at its first start."""

    partitions: tuple[DirectoryPartition, ...] = ()
    neighbors: tuple[DirectoryNeighbor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePartition:
    """Persist the state of a new or existing partition. Result: `Done`."""

    partition: DirectoryPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartition:
    """Remove a partition's state and tombstones.

    Objects of the partition stay. The result is `Done`.
    """

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveNeighbor:
    """Persist a neighbour.

    The key is (is_bsc, machine name without case). The result is `Done`.
    """

    neighbor: DirectoryNeighbor


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNeighbor:
    """Remove a neighbour, if it exists. Result: `Done`."""

    machine_name: str
    is_bsc: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Complete interrupted changes; find the highest number (R15, R103).

    Numbers of objects and tombstones count.

    Result: `Recovered`.
    """

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Highest numbers of a partition.

    Attributes:
        highest: the highest number given; MIN if there is none.
        status: MQ_OK if no change is left incomplete; else why one could not be completed now.
        doubtful: the highest number that an entry with an unreadable number may have (decision R110); MIN if
            all numbers can be read.
    """

    highest: SequenceNumber
    status: int = Hresult.MQ_OK
    doubtful: SequenceNumber = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObject:
    """Create Directory Object ([MS-MQDS] 3.1.6.3). Result: `ObjectOutcome`.

    The identifier is one of the properties (decision R11). If the path name or identifier is taken, the
    status is MQ_ERROR_QUEUE_EXISTS or its like, and nothing changes.
    """

    object_type: ObjectType
    path_name: str | None
    properties: Properties
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateObject:
    """Update Directory Object ([MS-MQDS] 3.1.6.4).

    The given properties are set. The result is `ObjectOutcome`.

    The object is named by its identifier if there is one, else by its path name.
    """

    object_type: ObjectType
    path_name: str | None
    identifier: Guid | None
    properties: Properties
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteObject:
    """Delete Directory Object ([MS-MQDS] 3.1.6.5).

    The tombstone is written first (decisions R15, R21). The result is `ObjectOutcome`.

    A machine that still has queues is not deleted: the status is MQ_ERROR, and nothing changes.
    """

    object_type: ObjectType
    path_name: str | None
    identifier: Guid | None
    scope: Scope
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOutcome:
    """Outcome of a change of one object.

    Attributes:
        status: HRESULT. With MQ_ERROR_DS_IS_FULL and MQ_ERROR_DS_ERROR the change may be written in full, in
            part or not at all; `Recover` finds out and completes it (decision R103).
        identifier: the object's GUID if status is MQ_OK.
    """

    status: int
    identifier: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadObject:
    """Read Directory Object ([MS-MQDS] 3.1.6.6).

    The object is given by identifier or path name. The result is `ObjectRead`.

    Attributes:
        object_type: its type.
        path_name: its path name, or None if the identifier names the object.
        identifier: its GUID.
        partition_id: its partition; None to search all: the newest object is returned (decision R50).
    """

    object_type: ObjectType
    path_name: str | None = None
    identifier: Guid | None = None
    partition_id: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRead:
    """All replicated properties that an object has.

    See the column DirectoryChangePropID of 3.2.7.8.

    Attributes:
        status: MQ_OK or MQDS_OBJECT_NOT_FOUND.
        identifier: its GUID.
        partition_id: its partition.
        seq_number: its number.
        properties: values by PROPID.
    """

    status: int
    identifier: Guid | None = None
    partition_id: Guid | None = None
    seq_number: SequenceNumber | None = None
    properties: Properties | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListObjects:
    """List sites, or machines of a site, for the topology.

    The result is `ObjectsListed`.

    Attributes:
        object_type: the type.
        partition_id: the partition.
        service: only machines with one of these bits in PROPID_QM_SERVICE; 0 for all.
    """

    object_type: ObjectType
    partition_id: Guid
    service: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsListed:
    """Objects that were found, in no particular order."""

    objects: tuple[ObjectRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HasObjects:
    """Check whether a partition has any object with a number.

    Placeholders have none. The result is `Answer`.

    Attributes:
        partition_id: the partition.
        queues_of: identifier of a machine whose queues are looked for alone; None: any object.
    """

    partition_id: Guid
    queues_of: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to a yes-or-no question."""

    yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyChanges:
    """Apply changes of one partition to a replica, in ascending order.

    The result is `Applied`.

    Create (0) and synchronize (3) set the whole object: properties that the change does not name get the
    value they have at creation. A missing object is created, and an object with the identifier is replaced.
    Update (1) sets the given properties; for a missing object the status is MQDS_OBJECT_NOT_FOUND. Delete (2)
    leaves a tombstone, even if the object never existed. A store may perform independent changes at the same
    time.
    """

    partition_id: Guid
    changes: Sequence[DirectoryChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Result of applying changes: their number, and the first failure.

    Only changes that were applied count.

    Attributes:
        count: number of changes from the beginning that are durable, or dropped as known; later ones may be,
            too.
        status: MQ_OK if all are; else why the change at index `count` was not applied.
    """

    count: int
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupChanges:
    """Read objects and tombstones of a partition by number, as changes.

    See [MC-MQDSRP] 3.2.7.8 and 3.2.7.3.

    Result: `ChangesFound`.

    Attributes:
        partition_id: the partition.
        after: only numbers above this one.
        up_to: only numbers up to this one.
        enterprise_scope: True for only those queues that have enterprise scope (other types are all
            included).
        count_max: highest number of changes.
        bytes_max: approximate limit of the octets of encoded changes; at least one change is returned.
    """

    partition_id: Guid
    after: SequenceNumber
    up_to: SequenceNumber
    enterprise_scope: bool
    count_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesFound:
    """Changes of commands 3 and 2, without PreviousSeqNumber.

    Command 3 has whole objects, command 2 has tombstones.

    Attributes:
        changes: in ascending order.
        reached: every object and tombstone in scope with a number up to this one is among the changes.
    """

    changes: tuple[DirectoryChange, ...]
    reached: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeDeletedObjects:
    """Remove tombstones of a partition up to a number.

    See [MC-MQDSRP] 3.1.7.2.9. The result is `Done`.
    """

    partition_id: Guid
    up_to: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPartition:
    """Reset Directory Partition 1 (3.3.7.10).

    All objects and tombstones get the number MIN. The result is `Done`.
    """

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPartition:
    """Reset Directory Partition 2 (3.3.7.11).

    Objects and tombstones that have MIN are removed. The result is `Done`.
    """

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class FindForeign:
    """Find objects that another program has changed or created (R112).

    The result is `ForeignFound`.

    A search begins with an empty `after` and continues until `ForeignFound.reached` is empty. An object that
    has been numbered since is not found again. If the answer is lost, repeating the operation finds the same
    objects.

    Attributes:
        after: `ForeignFound.reached` of the previous answer; empty for a new search.
        seen: in a new search, `ForeignFound.newest` of the previous answer. All objects up to it have been
            handled: the store need not return them again, even after a restart. Empty if it is not known.
        count_max: approximate limit of the objects in one answer.
    """

    after: str
    count_max: int
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignObject:
    """An object that another program has changed or created.

    Attributes:
        object_type: its type.
        identifier: its GUID.
        partition_id: its partition; None if it is not known.
        seq_number: the number that it had before; None for a new object.
        name: its name in the directory, for people.
        version: a text that is different after each change of the object.
        properties: for an object without a number, the properties to create it with; empty if they are not
            known.
    """

    object_type: ObjectType
    identifier: Guid
    partition_id: Guid | None
    seq_number: SequenceNumber | None
    name: str
    version: str
    properties: Properties = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFound:
    """Changes of other programs, the oldest first.

    Attributes:
        objects: the changed or created objects.
        reached: value of `after` for the rest of the search; empty at its end.
        newest: version of the newest entry that was examined; empty if there is none.
    """

    objects: tuple[ForeignObject, ...]
    reached: str
    newest: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The operation is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Failed operation of any kind, because of a damaged entry (decision R83).

    No server of this kind has written the entry.

    Attributes:
        reason: the entry, and what is wrong with it.
    """

    reason: str


Operation: TypeAlias = (
    LoadState
    | SavePartition
    | RemovePartition
    | SaveNeighbor
    | RemoveNeighbor
    | Recover
    | CreateObject
    | UpdateObject
    | DeleteObject
    | ReadObject
    | ListObjects
    | HasObjects
    | ApplyChanges
    | LookupChanges
    | PurgeDeletedObjects
    | MarkPartition
    | SweepPartition
    | FindForeign
)
Result: TypeAlias = (
    PersistedState
    | Done
    | Recovered
    | ObjectOutcome
    | ObjectRead
    | ObjectsListed
    | Answer
    | Applied
    | ChangesFound
    | ForeignFound
    | Failed
)
