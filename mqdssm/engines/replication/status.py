"""Partitions and neighbours of a directory server, for people and metrics.

Reading the status changes nothing. Numbers are sequence numbers, or differences of them.
"""

from dataclasses import dataclass

from mqdssm.engines.replication import purging
from mqdssm.engines.replication.state import Neighbor, Partition, ReplicaState
from mqdssm.model.guid import Guid
from mqdssm.model.replication import PurgeState
from mqdssm.model.seqnum import SequenceNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Status of one partition.

    Attributes:
        partition_id: GUID_NULL for the enterprise, else the site's identifier.
        authority_name: machine name of the owner.
        is_owned: True if this server owns it.
        last: LastSeqNumber.
        purged: PurgedSeqNumber.
        missing: how many numbers up to the highest reported one are not applied.
        not_purged: how many numbers follow `purged`; deleted objects among them are still kept.
        purge_state: step of a full synchronization.
        is_unfinished: True if a change failed halfway, and is tried again (decision R103).
        foreign: number of objects that another program has changed since the start, and that got no number;
            in a replica they differ from the owner's (decision R112).
        is_new: True if the copy never was complete (decision R140).
    """

    partition_id: Guid
    authority_name: str
    is_owned: bool
    last: SequenceNumber
    purged: SequenceNumber
    missing: int
    not_purged: int
    purge_state: PurgeState
    is_unfinished: bool
    foreign: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementStatus:
    """Acknowledgement of one partition of this server by one PSC.

    Attributes:
        partition_id: the partition.
        acked: the number that the PSC acknowledged last.
        unacknowledged: how many numbers follow it. PSCs acknowledge each 256th.
        holds_purging: True if deleted objects are kept only for this PSC.
    """

    partition_id: Guid
    acked: SequenceNumber
    unacknowledged: int
    holds_purging: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborStatus:
    """Status of one neighbour.

    Attributes:
        machine_name: its machine.
        site_id: its site.
        is_bsc: True for a BSC of this site, False for the PSC of another site.
        waiting: number of changes that wait to be sent to it.
        acknowledgements: for a PSC, one for each partition that this server owns.
        silent_s: for a BSC, seconds since its last acknowledgement; None if there was none, and for PSCs.
        is_far_behind: True for a PSC to which this PEC does not hand the enterprise over (decision R221).
    """

    machine_name: str
    site_id: Guid
    is_bsc: bool
    waiting: int
    acknowledgements: tuple[AcknowledgementStatus, ...]
    silent_s: float | None
    is_far_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """Status of a directory server.

    Attributes:
        machine_name: its machine.
        psc_name: for a BSC, its PSC; else empty.
        partitions: by identifier.
        neighbors: by name.
    """

    machine_name: str
    psc_name: str
    partitions: tuple[PartitionStatus, ...]
    neighbors: tuple[NeighborStatus, ...]


def status_of(server: ReplicaState, now: float) -> ServerStatus:
    """Return the state of a server's partitions and neighbours.

    Nothing is changed.

    Args:
        server: a server, which may be running in another thread.
        now: seconds since 1970 by its clock.
    """
    partitions = sorted(server.partitions.values(), key=lambda partition: partition.id)
    neighbors = (*server.pscs.values(), *server.bscs.values())  # copied before they are used
    owned = [partition for partition in partitions if partition.record.owned]
    return ServerStatus(
        machine_name=server.name,
        psc_name=server.psc_name,
        partitions=tuple(_report_partition(partition) for partition in partitions),
        neighbors=tuple(
            _report_neighbor(server, neighbor, owned, now)
            for neighbor in sorted(neighbors, key=lambda neighbor: neighbor.name)
        ),
    )


def _report_partition(partition: Partition) -> PartitionStatus:
    record, last = partition.record, partition.last
    return PartitionStatus(
        partition_id=partition.id,
        authority_name=record.authority_name,
        is_owned=record.owned,
        last=last,
        purged=record.purged,
        missing=max(partition.known_number - last, 0),
        not_purged=max(last - record.purged, 0),
        purge_state=record.purge_state,
        is_unfinished=partition.is_unfinished,
        foreign=len(partition.foreign),
        is_new=partition.record.is_new,
    )


def _report_neighbor(
    server: ReplicaState, neighbor: Neighbor, owned: list[Partition], now: float
) -> NeighborStatus:
    record = neighbor.record
    last_ack_time = record.last_acked_time
    return NeighborStatus(
        machine_name=neighbor.name,
        site_id=record.partition_id,
        is_bsc=record.is_bsc,
        waiting=len(neighbor.available),
        acknowledgements=()
        if record.is_bsc
        else tuple(_report_acknowledgement(server, neighbor, partition) for partition in owned),
        silent_s=max(now - last_ack_time, 0.0) if record.is_bsc and last_ack_time else None,
        is_far_behind=(
            not record.is_bsc and server.enterprise is not None and purging.is_far_behind(server, neighbor)
        ),
    )


def _report_acknowledgement(
    server: ReplicaState, neighbor: Neighbor, partition: Partition
) -> AcknowledgementStatus:
    acked, last = neighbor.record.acked_of(partition.id), partition.last
    return AcknowledgementStatus(
        partition_id=partition.id,
        acked=acked,
        unacknowledged=max(last - acked, 0),
        holds_purging=purging.holds_purging(server.settings, last, acked),
    )
