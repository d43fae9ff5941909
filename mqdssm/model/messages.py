"""Messages of directory replication ([MC-MQDSRP] 2.2.3-2.2.6).

Messages carry directory changes; there are eight kinds of messages.
Fields have the specification's names in Python's spelling; counts, flags and offsets are computed from the
fields. The fields of headers are fields of their messages. The binary layout is in `mqdssm.wire.mqdsrp`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid, object_type_of
from mqdssm.model.seqnum import MIN, SequenceNumber

VERSION: Final = 0
"""The only version of replication messages ([MC-MQDSRP] 2.2.5.1)."""

PropertyValue: TypeAlias = int | str | bytes | tuple[int, ...] | tuple[Guid, ...] | tuple[str, ...]
"""A property's value, by its variant: numbers, text (VT_LPWSTR), bytes (VT_BLOB, VT_VECTOR|VT_UI1), a Guid
(VT_CLSID, which is bytes), or a tuple of such (VT_VECTOR)."""
Properties: TypeAlias = tuple[tuple[Propid, PropertyValue], ...]
"""Properties with their values, in the order of the wire; no property twice."""


class Command(IntEnum):
    """Kind of a directory change, DirectoryChange.Command ([MC-MQDSRP] 2.2.4)."""

    CREATE = 0x00
    UPDATE = 0x01
    DELETE = 0x02
    SYNC = 0x03


class Operation(IntEnum):
    """Kind of a message, BaseReplicationHeader.Operation ([MC-MQDSRP] 2.2.5.1)."""

    CHANGE_PROPAGATION = 0x00
    CHANGE_REQUEST = 0x01
    SYNC_REQUEST = 0x02
    SYNC_REPLY = 0x03
    CHANGE_REPLY = 0x04
    ALREADY_PURGED = 0x05
    PSC_ACK = 0x06
    BSC_ACK = 0x07


class CompleteSync0(IntEnum):
    """Progress of the sync0 state of the authority's partition ([MC-MQDSRP] 2.2.5.3)."""

    NONE = 0
    SOON = 1
    NOW = 2


class Scope(IntEnum):
    """Visibility of a change ([MC-MQDSRP] 2.2.6.4).

    The scope is PROPID_D_SCOPE and SyncRequestMessage.Scope.
    """

    SITE = 0
    ENTERPRISE = 1


def make_deletion_properties(object_type: ObjectType, scope: Scope) -> Properties:
    """Return the properties of a deletion (decision R20).

    See [MC-MQDSRP] 3.2.7.3 and [MS-MQCN] 3.3.5.2.
    """
    return ((Propid.D_SCOPE, int(scope)), (Propid.D_OBJTYPE, int(object_type)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeqNumbers:
    """Last and purged sequence number of a partition ([MC-MQDSRP] 2.2.3).

    The structure is PARTITION_SEQ_NUMBERS.
    """

    partition_id: Guid
    last_seq_number: SequenceNumber
    purged_seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryChange:
    """A change that can be applied to a directory object ([MC-MQDSRP] 2.2.4).

    Attributes:
        command: the kind of change.
        path_name: the object's path name; None when `guid_identifier` names the object.
        guid_identifier: the object's GUID; None when `path_name` names it.
        partition_id: the partition of the object.
        previous_seq_number: number of the preceding change of that partition.
        seq_number: number of this change.
        purged_seq_number: the partition's purged sequence number.
        properties: the values to set, at least one (decision R19), no property twice (decision R23).

    Raises:
        ValueError: both names or none, no property, or one twice.
    """

    command: Command
    path_name: str | None = None
    guid_identifier: Guid | None = None
    partition_id: Guid
    previous_seq_number: SequenceNumber = MIN
    seq_number: SequenceNumber = MIN
    purged_seq_number: SequenceNumber = MIN
    properties: Properties

    def __post_init__(self) -> None:
        if (self.path_name is None) is (self.guid_identifier is None):
            raise ValueError("a change names its object by PathName or GuidIdentifier, one of them")
        if not self.properties:
            raise ValueError("a change has at least one property: it tells the object's type (decision R19)")
        if len(dict(self.properties)) != len(self.properties):
            raise ValueError("a property stands twice (decision R23)")

    @property
    def object_type(self) -> ObjectType | None:
        """Type of the object, by the first property ([MC-MQDSRP] 3.1.1.4); None: unknown."""
        return object_type_of(self.properties[0][0])

    def get(self, propid: Propid) -> PropertyValue | None:
        """Return the value of a property; None if the change does not hold the property."""
        for name, value in self.properties:
            if name == propid:
                return value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeqNumberHeader:
    """Sequence numbers of the sender's partitions ([MC-MQDSRP] 2.2.5.4).

    Attributes:
        machine_name: of the sender; empty, and not sent, without `partition_seq_numbers`.
        partition_seq_numbers: of each partition whose authority is the sender.
    """

    machine_name: str = ""
    partition_seq_numbers: tuple[PartitionSeqNumbers, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseReplicationHeader:
    """First fields of every message ([MC-MQDSRP] 2.2.5.1).

    The field `operation` has the kind of the message.
    """

    site_id: Guid
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationMessage:
    """BaseReplicationMessage, base of all messages ([MC-MQDSRP] 2.2.6.1).

    Attributes:
        site_id: the site of the sending queue manager (BaseReplicationHeader.SiteID).
    """

    operation: ClassVar[Operation]

    site_id: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestMessage(ReplicationMessage):
    """Request of a change to the object authority ([MC-MQDSRP] 2.2.6.2).

    The header of the message is in 2.2.5.2.

    Attributes:
        partition_id: the partition of the object.
        request_identifier: the requester's own number of the request, 32 bits.
        requester_name: machine name of the original requester.
        psc_name: machine name of the requester's PSC, where the requester is a BSC; else None.
        directory_change: the change.
    """

    operation = Operation.CHANGE_REQUEST

    partition_id: Guid
    request_identifier: int
    requester_name: str
    psc_name: str | None = None
    directory_change: DirectoryChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReplyMessage(ReplicationMessage):
    """Result of a change request ([MC-MQDSRP] 2.2.6.3).

    Attributes:
        request_identifier: identifier of the request.
        result: HRESULT, unsigned 32 bits (`mqdssm.model.hresults`).
        requester_name: requester's name in the request.
    """

    operation = Operation.CHANGE_REPLY

    request_identifier: int
    result: int
    requester_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequestMessage(ReplicationMessage):
    """Request for the changes of a partition between two sequence numbers.

    See [MC-MQDSRP] 2.2.6.4.

    Attributes:
        partition_id: the partition.
        from_seq_number: start of the range.
        to_seq_number: end of the range.
        known_purged_seq_number: the purged number in the requester's state.
        is_sync0: the requester's partition is in the sync0 state.
        scope: the scope flag.
        requester_name: machine name of the sender.
    """

    operation = Operation.SYNC_REQUEST

    partition_id: Guid
    from_seq_number: SequenceNumber
    to_seq_number: SequenceNumber
    known_purged_seq_number: SequenceNumber
    is_sync0: bool = False
    scope: Scope = Scope.SITE
    requester_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReplyMessage(ReplicationMessage):
    """Reply to a synchronization request: the changes ([MC-MQDSRP] 2.2.6.5).

    The header of the message is in 2.2.5.3.

    Attributes:
        partition_id: the partition.
        from_seq_number: start of the changes.
        to_seq_number: end of the changes.
        purged_seq_number: the partition's purged sequence number.
        complete_sync0: progress of the authority's sync0 state.
        directory_changes: the changes, at most 65,535.
    """

    operation = Operation.SYNC_REPLY

    partition_id: Guid
    from_seq_number: SequenceNumber
    to_seq_number: SequenceNumber
    purged_seq_number: SequenceNumber
    complete_sync0: CompleteSync0 = CompleteSync0.NONE
    directory_changes: tuple[DirectoryChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BSCAckMessage(ReplicationMessage):
    """Acknowledgement of a BSC, which is also its sign of life ([MC-MQDSRP] 2.2.6.6).

    Attributes:
        bsc_machine_id: GUID of the BSC's queue manager.
        bsc_name: its machine name.
    """

    operation = Operation.BSC_ACK

    bsc_machine_id: Guid
    bsc_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PSCAckMessage(ReplicationMessage):
    """Acknowledgement of a PSC for the authority's partition ([MC-MQDSRP] 2.2.6.7).

    Attributes:
        psc_site_id: the PSC's site.
        acked_partition_id: the authority's partition.
        acked_seq_number: the acknowledged number.
        psc_name: machine name of the PSC.
    """

    operation = Operation.PSC_ACK

    psc_site_id: Guid
    acked_partition_id: Guid
    acked_seq_number: SequenceNumber
    psc_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPurgedMessage(ReplicationMessage):
    """Refusal of a synchronization request for purged changes ([MC-MQDSRP] 2.2.6.8).

    Attributes:
        partition_id: the partition.
        purged_seq_number: its purged sequence number.
    """

    operation = Operation.ALREADY_PURGED

    partition_id: Guid
    purged_seq_number: SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePropagationMessage(ReplicationMessage):
    """Changes of an object authority or a PSC ([MC-MQDSRP] 2.2.6.9).

    An object authority sends them to its neighbours, a PSC to its BSCs.

    Attributes:
        flush: the receiver must not flush the changes to its BSCs.
        directory_changes: the changes, at most 65,535.
        seq_number_header: sequence numbers of the sender's partitions.
    """

    operation = Operation.CHANGE_PROPAGATION

    flush: bool = False
    directory_changes: tuple[DirectoryChange, ...] = ()
    seq_number_header: SeqNumberHeader = SeqNumberHeader()
