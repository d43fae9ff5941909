"""State of replication in a directory server ([MC-MQDSRP] 3.1.1.2).

The state has partitions, neighbours and tombstones.
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
    """Persistent half of a partition's replication state ([MC-MQDSRP] 3.1.1.2.3).

    Attributes:
        partition_id: GUID_NULL for the enterprise, else the site's identifier.
        authority_name: machine name of the object authority.
        owned: True if this server is the authority, whatever the names are (decision R30).
        last: LastSeqNumber. The store may know a higher one of an owned partition (`Recovered`).
        purged: PurgedSeqNumber.
        allowed_purge: AllowedPurgeSeqNumber.
        purge_state: progress of a full synchronization.
        predecessor: former authority of an owned partition, until the whole enterprise knows the new one.
        is_new: of our site and the enterprise: our copy began empty or from older data and has not been
            complete since; objects that we owned may be lost (decisions R140, R160).
        followed: of a site: number of the enterprise's partition when its authority was recorded. A newer
            object of the site may name another one (decisions R127, R195).
        first_source: name of the server that a full synchronization began with, or is to (decision R220).
            Empty: none is under way, or an older version of mqdssm began it.
        had_before: `last` before the full synchronization under way (decision R220).
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
    followed: SequenceNumber = MIN
    first_source: str = ""
    had_before: SequenceNumber = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryNeighbor:
    """Persistent half of a neighbour's state ([MC-MQDSRP] 3.1.1.2.4).

    Attributes:
        partition_id: the neighbour's site.
        machine_name: the neighbour's machine.
        is_bsc: True for a backup controller of our site, False for the primary controller of another site.
        acked: AckedSeqNumber, of our own site partition.
        acked_pec: AckedPECSeqNumber, of the enterprise partition, if we own it.
        last_acked_time: LastAckedTime of a BSC, seconds since 1970; 0: never.
    """

    partition_id: Guid
    machine_name: str
    is_bsc: bool = False
    acked: SequenceNumber = MIN
    acked_pec: SequenceNumber = MIN
    last_acked_time: float = 0.0

    def acked_of(self, partition_id: Guid) -> SequenceNumber:
        """Return the number that the neighbour has acknowledged of a partition of ours."""
        return self.acked_pec if partition_id == PEC_PARTITION_ID else self.acked


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedObject:
    """Tombstone of a deleted object ([MC-MQDSRP] 3.1.1.2.2)."""

    identifier: Guid
    partition_id: Guid
    seq_number: SequenceNumber
    object_type: ObjectType
    scope: Scope
