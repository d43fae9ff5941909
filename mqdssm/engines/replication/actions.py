"""Events and actions of the replication engine."""

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
    """The server starts (3.1.3, 3.3.3). The first event, sent once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A signed message of class Normal arrived ([MC-MQDSRP] 3.1.5.1).

    Attributes:
        message: its body, decoded.
        sender: machine name of the verified sender.
        machine_id: the sender's QueueManager.Identifier if the driver knows it, since names change.
    """

    message: ReplicationMessage
    sender: str
    machine_id: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nacked:
    """A message of ours was returned with a negative acknowledgement.

    See [MC-MQDSRP] 3.1.5.1.

    Attributes:
        message: its body, decoded.
        destination: the machine to which it was sent.
        bad_signature: True if its class is NackBadSignature.
    """

    message: ReplicationMessage
    destination: str
    bad_signature: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """Result of an operation."""

    token: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeObject:
    """A client of this server asks for a change of an object.

    See [MS-MQDS] 3.1.4 and [MC-MQDSRP] 3.1.7.1.

    Attributes:
        request: the client's number for the request, returned in `Reply`.
        command: CREATE, UPDATE or DELETE.
        object_type: its type.
        path_name: its path name, or None if the identifier names the object.
        identifier: its GUID, or None; for a new object the GUID it gets, made by the driver (random).
        partition_id: the partition it belongs to.
        properties: values by PROPID; empty for a deletion.
        scope: scope of a deletion.
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
    """A service beside this server changed and numbered an object of ours.

    See [MC-MQDSRP] 3.1.7.1.2.

    The number is the one that `ReplicationEngine.read_next_number` returned (3.1.7.1.3). The service also
    reports a failed write: the number may be in the directory nevertheless (decision R156).

    Attributes:
        request: returned in `Reply`.
        command: CREATE, UPDATE, DELETE or SYNC.
        object_type: the object's type.
        identifier: its GUID.
        partition_id: the partition it belongs to.
        seq_number: the object's new number.
        scope: scope of a deletion.
        status: HRESULT of the write. If it is not MQ_OK, the engine checks whether the object has the number;
            if not, `Reply` has this status.
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
    """The operator makes this server the authority of a partition.

    The former authority is lost for good.

    Changes that the lost server acknowledged and did not send to us are lost. Every other server gets
    the whole partition again from us.

    Attributes:
        request: returned in `Reply`.
        partition_id: our site's partition, or the enterprise's.
    """

    request: int
    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class Resynchronize:
    """The operator starts a full synchronization of a partition.

    The changes come from its usual source.

    All objects stay until the end: then different objects have been updated, and objects that the source
    does not have are removed. `Reply` comes when it has begun; its status is MQ_ERROR_ILLEGAL_OPERATION if
    this server owns the partition or does not have it.

    Attributes:
        request: returned in `Reply`.
        partition_id: a partition of another owner.
    """

    request: int
    partition_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAuthority:
    """The operator names another server the authority of a partition (R107).

    This server accepts that authority from now on. It may have owned the partition
    itself, from an older copy of its directory or until it was replaced. Then it becomes a replica and takes
    the whole partition from that server.

    Attributes:
        request: returned in `Reply`.
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
    """Let the store perform an operation.

    The result comes back as `Performed`. One operation runs at a time.
    """

    token: int
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send Replication Message, signed, to the replication queue of a machine.

    See [MC-MQDSRP] 3.1.7.2.1.

    Attributes:
        destination: machine name.
        message: what to send.
        timeout_s: TimeToReachQueue and TimeToBeReceived, seconds.
        priority: of the message.
        ack_requested: True to request AckNackReachQueue, at our own replication queue.
    """

    destination: str
    message: ReplicationMessage
    timeout_s: int
    priority: int
    ack_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer to a `ClientEvent`.

    Attributes:
        request: number of the request.
        status: HRESULT. With MQDS_NO_RSP_FROM_OWNER it is not known whether the change was made.
        identifier: the object's GUID if this server is the authority and status is MQ_OK.
    """

    request: int
    status: int
    identifier: Guid | None = None


Action: TypeAlias = Perform | Send | StartTimer | StopTimer | Reply | Note
