"""What the engine asks of its directory: the local events of [MS-MQDS] and the persisted state.

An operation is a value; a store (`mqdssm.store`) performs it and gives back the result that its docstring
names. A store never raises for what the data say: that is a `status`, an HRESULT. It raises `DirectoryError`
when the directory cannot be reached; the driver then repeats the operation, for all of them may be repeated:
performing one twice leaves what performing it once leaves. Each is durable when its result is there, and
what a crash cuts short is finished or without effect once the store is opened again (decision R15).

An object carries its sequence number and partition. A change that carries a number is *dropped* by a store,
with status MQ_OK, when the object or its tombstone has the same or a higher number already.
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
    """Read all that is persisted. Result: `PersistedState`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedState:
    """What a server knew when it stopped; empty at its first start."""

    partitions: tuple[DirectoryPartition, ...] = ()
    neighbors: tuple[DirectoryNeighbor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePartition:
    """Persist a partition's state, new or known. Result: `Done`."""

    partition: DirectoryPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartition:
    """Forget a partition's state, its tombstones too. Its objects, if any, stay. Result: `Done`."""

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveNeighbor:
    """Persist a neighbour; its key is (is_bsc, machine name without case). Result: `Done`."""

    neighbor: DirectoryNeighbor


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNeighbor:
    """Forget a neighbour, if it is there. Result: `Done`."""

    machine_name: str
    is_bsc: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Finish what was cut short; say the highest number of objects and tombstones (R15, R103).

    Result: `Recovered`.
    """

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What is known of a partition's last number.

    Attributes:
        highest: the highest number given; MIN where there is none.
        status: MQ_OK where nothing is cut short any more; else why that could not be finished now.
        doubtful: the highest number that an entry may have had whose number cannot be read (decision R110);
            MIN: all can be read.
    """

    highest: SequenceNumber
    status: int = Hresult.MQ_OK
    doubtful: SequenceNumber = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObject:
    """Create Directory Object ([MS-MQDS] 3.1.6.3). Result: `ObjectOutcome`.

    The identifier stands among the properties (decision R11). A path name or identifier that is taken is
    MQ_ERROR_QUEUE_EXISTS or its like, and nothing changes.
    """

    object_type: ObjectType
    path_name: str | None
    properties: Properties
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateObject:
    """Update Directory Object ([MS-MQDS] 3.1.6.4): sets the given properties. Result: `ObjectOutcome`.

    By identifier if there is one, else by path name.
    """

    object_type: ObjectType
    path_name: str | None
    identifier: Guid | None
    properties: Properties
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteObject:
    """Delete Directory Object ([MS-MQDS] 3.1.6.5), tombstone first (R15, R21). Result: `ObjectOutcome`.

    A machine that still has queues is not deleted: MQ_ERROR with nothing changed.
    """

    object_type: ObjectType
    path_name: str | None
    identifier: Guid | None
    scope: Scope
    partition_id: Guid
    seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOutcome:
    """What became of one object.

    Attributes:
        status: HRESULT. MQ_ERROR_DS_IS_FULL and MQ_ERROR_DS_ERROR may follow a write: all of the change, a
            part or nothing may be there, which `Recover` finds out and finishes (decision R103).
        identifier: the object's GUID where status is MQ_OK.
    """

    status: int
    identifier: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadObject:
    """Read Directory Object ([MS-MQDS] 3.1.6.6), by identifier or path name. Result: `ObjectRead`.

    Attributes:
        object_type: its type.
        path_name: its path name, or None where the identifier says which.
        identifier: its GUID.
        partition_id: in which partition; None: in all, of which the newest object counts (decision R50).
    """

    object_type: ObjectType
    path_name: str | None = None
    identifier: Guid | None = None
    partition_id: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRead:
    """All replicated properties of an object (column DirectoryChangePropID of 3.2.7.8) that it has.

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
    """Objects of some types, for the topology: sites, or the machines of a site. Result: `ObjectsListed`.

    Attributes:
        object_type: the type.
        partition_id: of which partition.
        service: only machines with one of these bits in PROPID_QM_SERVICE; 0 is all.
    """

    object_type: ObjectType
    partition_id: Guid
    service: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsListed:
    """What was found, without order."""

    objects: tuple[ObjectRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HasObjects:
    """Whether a partition has any object with a number (placeholders are none). Result: `Answer`."""

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Yes or no."""

    yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyChanges:
    """Apply changes of one partition, in ascending order, to a replica. Result: `Applied`.

    Create (0) and synchronize (3) set the whole object: what the change does not name is as at creation;
    an object that is missing is made, one that is there under the identifier is replaced. Update (1) sets the
    given properties; a missing object is MQDS_OBJECT_NOT_FOUND. Delete (2) leaves a tombstone, also of an
    object that was never there. A store may perform independent changes at the same time.
    """

    partition_id: Guid
    changes: Sequence[DirectoryChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How far the changes went.

    Attributes:
        count: so many from the beginning are durable, or dropped as known; what follows may be, too.
        status: MQ_OK when all are; else why the change at index `count` was not.
    """

    count: int
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupChanges:
    """Objects and tombstones of a partition by number, ascending, as changes ([MC-MQDSRP] 3.2.7.8, 3.2.7.3).

    Result: `ChangesFound`.

    Attributes:
        partition_id: the partition.
        after: numbers above this one.
        up_to: numbers up to this one.
        enterprise_scope: only queues of enterprise scope (other types are not concerned).
        count_max: at most so many changes.
        bytes_max: about so many octets of encoded changes; at least one change is given.
    """

    partition_id: Guid
    after: SequenceNumber
    up_to: SequenceNumber
    enterprise_scope: bool
    count_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesFound:
    """Changes of command 3 (objects, whole) and 2 (tombstones); PreviousSeqNumber is not set yet.

    Attributes:
        changes: in ascending order.
        reached: every object and tombstone with a number up to this one is among them (or out of scope).
    """

    changes: tuple[DirectoryChange, ...]
    reached: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeDeletedObjects:
    """Remove the tombstones of a partition with numbers up to one ([MC-MQDSRP] 3.1.7.2.9). Result: `Done`."""

    partition_id: Guid
    up_to: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPartition:
    """Reset Directory Partition 1: number every object and tombstone MIN (3.3.7.10). Result: `Done`."""

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPartition:
    """Reset Directory Partition 2: remove what still has MIN (3.3.7.11). Result: `Done`."""

    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class FindForeign:
    """Find objects that another program has changed or made (decision R112). Result: `ForeignFound`.

    A look begins with an empty `after` and goes on until `ForeignFound.reached` is empty. An object that has
    been numbered since is not found again. Where the answer is lost, the operation finds the same again.

    Attributes:
        after: `ForeignFound.reached` of the answer before; empty: a new look.
        seen: at a new look, `ForeignFound.newest` of the answer before. All that was found up to it has been
            seen to: the store need not give it again, even after a restart. Empty: nobody knows.
        count_max: at least so many objects are given, if there are as many; a few more may be.
    """

    after: str
    count_max: int
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignObject:
    """An object that another program has changed or made.

    Attributes:
        object_type: its type.
        identifier: its GUID.
        partition_id: its partition; None: nobody knows.
        seq_number: the number that it had before; None: it was made and has none.
        name: its name in the directory, for people.
        version: another one after each change of it.
        properties: of an object without a number, what it is to be created with; empty where that is not
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
        objects: what was changed or made.
        reached: where the look goes on; empty: this is all.
        newest: version of the newest entry that was looked at; empty: there is none.
    """

    objects: tuple[ForeignObject, ...]
    reached: str
    newest: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Any operation: the directory holds what no server of this kind has written (decision R83).

    Attributes:
        reason: which entry, and what is wrong with it.
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
