"""State of replication in a directory server: partitions, neighbours, tombstones ([MC-MQDSRP] 3.1.1.2).

Names of machines are compared without case.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.messages import Scope
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MIN, SequenceNumber

PEC_PARTITION_ID: Final = NULL_GUID
"""The enterprise partition, GUID_NULL ([MC-MQDSRP] 1.9)."""


class PurgeState(IntEnum):
    """Progress of a full synchronization of a partition ([MC-MQDSRP] 3.1.1.2.3)."""

    NORMAL = 0
    STARTSYNC0 = 1
    SYNC0 = 2
    COMPLETESYNC0 = 3


class Service(IntFlag):
    """Role of a machine in the directory, PROPID_QM_SERVICE ([MS-MQMQ] 2.3.2.9)."""

    NONE = 0
    ROUTING = 1
    BSC = 2
    PSC = 4
    PEC = 8
    RAS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPartition:
    """The persisted half of a partition's replication state ([MC-MQDSRP] 3.1.1.2.3).

    Attributes:
        partition_id: GUID_NULL for the enterprise, else the site's identifier.
        authority_name: machine name of the object authority.
        owned: whether this server is the authority: decides, whatever names say (decision R30).
        last: LastSeqNumber. Of an owned partition the store may know a higher one (`Recovered`).
        purged: PurgedSeqNumber.
        allowed_purge: AllowedPurgeSeqNumber.
        purge_state: where a full synchronization stands.
        predecessor: of an owned partition: the machine that handed it over, until the enterprise knows of it.
        is_new: of our site and the enterprise: our copy began empty or as an older one, and has not been
            whole since: what we owned may be lost (decisions R140, R160).
    """

    partition_id: Guid
    authority_name: str
    owned: bool = False
    last: SequenceNumber = MIN
    purged: SequenceNumber = MIN
    allowed_purge: SequenceNumber = MIN
    purge_state: PurgeState = PurgeState.NORMAL
    predecessor: str = ""
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryNeighbor:
    """The persisted half of a neighbour ([MC-MQDSRP] 3.1.1.2.4).

    Attributes:
        partition_id: the site it belongs to.
        machine_name: its machine.
        is_bsc: a backup controller of our site; else the primary one of another site.
        acked: AckedSeqNumber, of the site partition that is ours.
        acked_pec: AckedPECSeqNumber, of the enterprise partition, if that is ours.
        last_acked_time: LastAckedTime of a BSC, seconds since 1970; 0 is never.
    """

    partition_id: Guid
    machine_name: str
    is_bsc: bool = False
    acked: SequenceNumber = MIN
    acked_pec: SequenceNumber = MIN
    last_acked_time: float = 0.0

    def acked_of(self, partition_id: Guid) -> SequenceNumber:
        """Return what a PSC has acknowledged of a partition of ours."""
        return self.acked_pec if partition_id == PEC_PARTITION_ID else self.acked


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedObject:
    """A tombstone ([MC-MQDSRP] 3.1.1.2.2)."""

    identifier: Guid
    partition_id: Guid
    seq_number: SequenceNumber
    object_type: ObjectType
    scope: Scope
