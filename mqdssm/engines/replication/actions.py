"""What goes into the engine and what comes out of it: events, and the actions that answer them."""

from dataclasses import dataclass
from typing import TypeAlias

from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, ReplicationMessage, Scope
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import SequenceNumber

# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The server starts: 3.1.3 and 3.3.3 are done. The first event, and the only one of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message of class Normal arrived and its signature was good ([MC-MQDSRP] 3.1.5.1).

    Attributes:
        message: what its body says.
        sender: machine name of the verified sender.
        machine_id: its QueueManager.Identifier, where the driver knows it: names change.
    """

    message: ReplicationMessage
    sender: str
    machine_id: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nacked:
    """A message of ours came back with a negative acknowledgement ([MC-MQDSRP] 3.1.5.1).

    Attributes:
        message: what its body says.
        destination: the machine it was for.
        bad_signature: whether its class is NackBadSignature.
    """

    message: ReplicationMessage
    destination: str
    bad_signature: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """What came of an operation."""

    token: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeObject:
    """A client of this server wants an object changed ([MS-MQDS] 3.1.4, [MC-MQDSRP] 3.1.7.1).

    Attributes:
        request: the client's number for it, given back in `Reply`.
        command: CREATE, UPDATE or DELETE.
        object_type: its type.
        path_name: its path name, or None where the identifier says which.
        identifier: its GUID, or None; of a new object the GUID it gets, made by the driver (chance).
        partition_id: the partition it belongs to.
        properties: values by PROPID; of a deletion none.
        scope: of a deletion.
    """

    request: int
    command: Command
    object_type: ObjectType
    path_name: str | None
    identifier: Guid | None
    partition_id: Guid
    properties: Properties
    scope: Scope = Scope.ENTERPRISE


@dataclass(frozen=True, slots=True, kw_only=True)
class PropagateChange:
    """A service beside us changed an object of ours and numbered it ([MC-MQDSRP] 3.1.7.1.2).

    The number is the one that `ReplicationEngine.next_sequence_number` gave (3.1.7.1.3). A service whose
    write failed says that, too: the number may be in the directory nevertheless (decision R156).

    Attributes:
        request: given back in `Reply`.
        command: CREATE, UPDATE, DELETE or SYNC.
        object_type: the object's type.
        identifier: its GUID.
        partition_id: the partition it belongs to.
        seq_number: the number that it has now.
        scope: of a deletion.
        status: HRESULT of the write. Where it is not MQ_OK, the directory is asked whether the number was
            given; `Reply` has this status if it was not.
    """

    request: int
    command: Command
    object_type: ObjectType
    identifier: Guid
    partition_id: Guid
    seq_number: SequenceNumber
    scope: Scope = Scope.ENTERPRISE
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """The operator makes this server the authority of a partition whose authority is lost for good.

    What the lost server had acknowledged and not sent to us is lost with it; every other server gets
    the whole partition anew from us.

    Attributes:
        request: given back in `Reply`.
        partition_id: our site's partition, or the enterprise's.
    """

    request: int
    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class Resynchronize:
    """The operator has this server synchronize a partition in full, from the server that it asks anyway.

    All objects stay until everything has come: then what differed is equal, and what the other server does
    not have is removed. `Reply` comes when it has begun; MQ_ERROR_ILLEGAL_OPERATION where this server owns
    the partition or does not have it.

    Attributes:
        request: given back in `Reply`.
        partition_id: a partition of another owner.
    """

    request: int
    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAuthority:
    """The operator says which other server is the authority of a partition (decision R107).

    This server believes that one from now on. If it owned the partition itself, as an older copy of its
    directory says or until it was replaced, it becomes a replica, and takes the whole partition from there.

    Attributes:
        request: given back in `Reply`.
        partition_id: the partition.
        machine_name: the other server.
    """

    request: int
    partition_id: Guid
    machine_name: str


ClientEvent: TypeAlias = ChangeObject | PropagateChange | TakeOver | NameAuthority | Resynchronize
"""Events that are answered by `Reply`."""
Event: TypeAlias = Started | Received | Nacked | TimerFired | Performed | ClientEvent


# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Perform:
    """Let the store do this; its result comes back as `Performed`. At most one is out at a time."""

    token: int
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send Replication Message ([MC-MQDSRP] 3.1.7.2.1), signed, to the replication queue of a machine.

    Attributes:
        destination: machine name.
        message: what to send.
        timeout_s: TimeToReachQueue and TimeToBeReceived, seconds.
        priority: of the message.
        ack_requested: whether AckNackReachQueue is asked for, at our own replication queue.
    """

    destination: str
    message: ReplicationMessage
    timeout_s: int
    priority: int
    ack_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a `ClientEvent`.

    Attributes:
        request: whose.
        status: HRESULT. MQDS_NO_RSP_FROM_OWNER: the change may have been made or not.
        identifier: the object's GUID, where this server is the authority and status is MQ_OK.
    """

    request: int
    status: int
    identifier: Guid | None = None


Action: TypeAlias = Perform | Send | StartTimer | StopTimer | Reply | Note
