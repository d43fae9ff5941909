"""Answers to synchronization requests ([MC-MQDSRP] 3.2.7.3, 3.2.7.7, 3.2.7.8)."""

from typing import Final

from mqdssm.engines.replication import reported_numbers, trust
from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.operations import ChangesFound, LookupChanges
from mqdssm.engines.replication.state import Partition, ReplicaState
from mqdssm.model import messages as msg
from mqdssm.model.frozen_records import make_copier
from mqdssm.model.seqnum import MAX, SequenceNumber

_copied: Final = make_copier(msg.DirectoryChange, "previous_seq_number", "purged_seq_number")


def receive(server: ReplicaState, message: msg.SyncRequestMessage, sender: str) -> Job[None]:
    """Handle Sync Request (3.2.7.3).

    Reply with all changes behind a number, up to the size of a message.

    Neither ToSeqNumber (decision R32) nor the scope (decision R41) limits the reply.
    """
    partition = server.partitions.get(message.partition_id)
    if partition is None or not partition.is_normal:
        server.note(
            "dropped: a request that cannot be answered now", f"{message.partition_id}, from {sender}"
        )
        return
    purged = partition.record.purged
    start = message.from_seq_number
    if start < purged and message.known_purged_seq_number < purged:
        _send_already_purged(server, partition, message.requester_name)
        return
    purged = max(purged, message.known_purged_seq_number)  # we have at least as many tombstones (R45)
    if message.known_purged_seq_number > partition.last and not partition.record.owned:
        # we still have objects whose deletion is purged elsewhere: the requester would keep them (R88)
        server.note("dropped: a request of who knows of more purging", f"partition {partition.id}")
        yield from reported_numbers.receive_claim(server, partition, message.known_purged_seq_number, sender)
        return
    if start > partition.last:
        yield from reported_numbers.receive_claim(server, partition, start, sender)
        return  # the requester has more than we do
    up_to = partition.last
    if not partition.record.owned and trust.is_from(
        server, message.requester_name, partition.record.authority_name
    ):
        up_to = MAX  # its authority lost its copy: it also gets changes written and not counted (R188)
    settings = server.settings
    result = yield from perform(
        LookupChanges(
            partition_id=partition.id,
            after=start,
            up_to=up_to,
            enterprise_scope=False,
            count_max=settings.message_changes_max,
            bytes_max=settings.message_bytes_max,
        ),
        ChangesFound,
    )
    reached = min(result.reached, max([partition.last, *(change.seq_number for change in result.changes)]))
    complete = msg.CompleteSync0.NONE
    if message.is_sync0:
        complete = msg.CompleteSync0.NOW if result.reached >= up_to else msg.CompleteSync0.SOON
    reply = msg.SyncReplyMessage(
        site_id=settings.site_id,
        partition_id=partition.id,
        from_seq_number=start,
        to_seq_number=reached,
        purged_seq_number=purged,
        complete_sync0=complete,
        directory_changes=chain_changes(result.changes, start, purged),
    )
    server.send(message.requester_name, reply, acks=False)


def chain_changes(
    changes: tuple[msg.DirectoryChange, ...], start: SequenceNumber, purged: SequenceNumber
) -> tuple[msg.DirectoryChange, ...]:
    """Return ascending changes with the number before each as PreviousSeqNumber.

    See decision R6.
    """
    chain = []
    previous = start
    for change in changes:
        chain.append(_copied(change, previous, purged))
        previous = change.seq_number
    return tuple(chain)


def _send_already_purged(server: ReplicaState, partition: Partition, requester_name: str) -> None:
    """Send Already Purged (3.2.7.7)."""
    message = msg.AlreadyPurgedMessage(
        site_id=server.settings.site_id,
        partition_id=partition.id,
        purged_seq_number=partition.record.purged,
    )
    server.send(requester_name, message, acks=False)
