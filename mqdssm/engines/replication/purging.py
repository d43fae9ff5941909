"""Acknowledgements, and the purging of tombstones that depends on them.

[MC-MQDSRP] 3.1.7.2.9, 3.2.7.4, 3.2.7.5, 3.3.6.2, 3.3.7.4.
"""

from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.operations import Done, PurgeDeletedObjects
from mqdssm.engines.replication.settings import Settings
from mqdssm.engines.replication.state import Neighbor, Partition, ReplicaState, key_of
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model.messages import BSCAckMessage, PSCAckMessage
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.seqnum import SequenceNumber


def purge_if_due(server: ReplicaState, partition: Partition) -> Job[None]:
    """Purge after each interval of changes (3.1.7.2.3)."""
    if partition.last > partition.purged_at + server.settings.purge_interval:
        yield from purge(server, partition)
        partition.purged_at = partition.last


def purge(server: ReplicaState, partition: Partition) -> Job[None]:
    """Purge Deleted Objects (3.1.7.2.9, decision R5)."""
    record = partition.record
    if not partition.is_normal:
        return
    _warn_of_silent_pscs(server, partition)
    buffered = partition.last.minus(server.settings.purge_buffer)
    allowed = _find_lowest_acked(server, partition) if record.owned else record.allowed_purge
    up_to = min(buffered, allowed, partition.last)
    if up_to <= record.purged:
        return
    # first the number, then the tombstones: a server that asks in between is told that they may be gone
    yield from server.save(partition, purged=up_to)
    yield from perform(PurgeDeletedObjects(partition_id=partition.id, up_to=up_to), Done)


def _find_lowest_acked(server: ReplicaState, partition: Partition) -> SequenceNumber:
    """Return the number that all other PSCs have acknowledged.

    Without PSCs it is the last number.
    """
    acked = [psc.record.acked_of(partition.id) for psc in server.pscs.values()]
    return min(acked, default=partition.last)


def holds_purging(settings: Settings, last: SequenceNumber, acked: SequenceNumber) -> bool:
    """Return True if purging waits for a PSC.

    The number that the PSC acknowledged is that low.
    """
    return last - acked > settings.purge_buffer + settings.ack_interval


def is_far_behind(server: ReplicaState, psc: Neighbor) -> bool:
    """Return True if a PSC may be far behind in the enterprise (decision R221).

    The PSC may lack more than purging waits for. An acknowledgement may be lost, and the PSC's headers have
    its number as well.
    """
    reached = max(psc.record.acked_pec, psc.reported_pec)
    return holds_purging(server.settings, server.partitions[PEC_PARTITION_ID].last, reached)


def _warn_of_silent_pscs(server: ReplicaState, partition: Partition) -> None:
    """Warn of PSCs without acknowledgements for which tombstones are kept.

    The directory grows.
    """
    if not partition.record.owned:
        return
    for neighbor in server.pscs.values():
        acked = neighbor.record.acked_of(partition.id)
        if holds_purging(server.settings, partition.last, acked):
            server.warn(
                "deleted objects are kept for a PSC that does not acknowledge",
                f"{neighbor.name} has acknowledged {acked} of {partition.last} in partition {partition.id}: "
                "start it, or remove its site",
            )


def acknowledge(server: ReplicaState, partition: Partition) -> None:
    """Send PSC Ack (3.3.7.4) after each interval of numbers (decision R35)."""
    interval = server.settings.ack_interval
    record = partition.record
    if server.is_bsc or record.owned or not partition.is_normal or not record.authority_name:
        return  # a site without a PSC has no server that waits for it
    if partition.last // interval <= partition.acked_at // interval:
        return
    partition.acked_at = partition.last
    message = PSCAckMessage(
        site_id=server.settings.site_id,
        psc_site_id=server.settings.site_id,
        acked_partition_id=partition.id,
        acked_seq_number=partition.last,
        psc_name=server.name,
    )
    server.send(record.authority_name, message, acks=True)


def receive_psc_ack(server: ReplicaState, message: PSCAckMessage, sender: str) -> Job[None]:
    """Handle PSC Ack (3.2.7.4)."""
    neighbor = server.pscs.get(key_of(message.psc_name))
    partition = server.partitions.get(message.acked_partition_id)
    is_its_own = key_of(sender) == key_of(message.psc_name)
    if not is_its_own or neighbor is None or partition is None or not partition.record.owned:
        server.note("dropped: an acknowledgement of nothing of ours", f"from {sender}")
        return
    # an older acknowledgement may come later (decision R158)
    acked = max(min(message.acked_seq_number, partition.last), neighbor.record.acked_of(partition.id))
    if partition.id == PEC_PARTITION_ID:
        yield from server.save_neighbor(neighbor, acked_pec=acked)
    else:
        yield from server.save_neighbor(neighbor, acked=acked)


def start_bsc_ack(server: ReplicaState) -> None:
    """Start the BSC Ack Timer for the first time (3.3.2.2)."""
    server.start_timer(Timer(TimerPurpose.BSC_ACK), server.settings.bsc_ack_first_s)


def on_bsc_ack_timer(server: ReplicaState, _key: str) -> None:
    """Handle BSC Ack Timer Event (3.3.6.2)."""
    if server.is_bsc:
        message = BSCAckMessage(
            site_id=server.settings.site_id,
            bsc_machine_id=server.settings.machine_id,
            bsc_name=server.name,
        )
        server.send(server.psc_name, message, acks=True)
        server.start_timer(Timer(TimerPurpose.BSC_ACK), server.settings.bsc_ack_s)


def receive_bsc_ack(server: ReplicaState, message: BSCAckMessage, sender: str) -> Job[None]:
    """Handle BSC Ack (3.2.7.5)."""
    neighbor = server.bscs.get(key_of(message.bsc_name))
    if neighbor is None or key_of(sender) != key_of(message.bsc_name):
        server.note("dropped: an acknowledgement of no BSC of ours", f"from {sender}")
        return
    yield from server.save_neighbor(neighbor, last_acked_time=server.now)
