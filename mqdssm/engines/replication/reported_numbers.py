"""Sequence numbers that other servers report, and the reactions to them.

See decisions R37, R39, R46, R72 and R107.

A higher number than ours is a claim that proves nothing. For another owner's partition it is a reason to ask
the servers that we trust. A partition of ours is given up only if the enterprise or the operator says so:
else any server could take it.
"""

from mqdssm.engines.replication import succession, sync_requests, topology, trust
from mqdssm.engines.replication.actions import NameAuthority
from mqdssm.engines.replication.jobs import Job
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangePropagationMessage, PartitionSeqNumbers, SeqNumberHeader
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.seqnum import SequenceNumber


def receive(
    server: ReplicaState, partition: Partition, numbers: PartitionSeqNumbers, sender: str
) -> Job[None]:
    """Handle the numbers of a partition in a SeqNumberHeader (3.2.7.1)."""
    record = partition.record
    is_behind = numbers.last_seq_number < partition.last
    if record.owned and partition.id == PEC_PARTITION_ID:
        _note_reached(server, numbers.last_seq_number, sender)
    if record.owned and is_behind and not _is_neighbor(server, sender):
        _send_number(server, partition, sender)
    if not record.owned:
        if numbers.purged_seq_number > record.allowed_purge and trust.accepts(server, partition, sender):
            yield from server.save(partition, allowed_purge=numbers.purged_seq_number)
        if is_behind and trust.is_from(server, sender, record.authority_name):
            _send_number(server, partition, sender)
        is_news = numbers.last_seq_number > partition.last
        if is_news and partition.tries and key_of(sender) == key_of(server.choose_upstream(partition)):
            sync_requests.repeat(server, partition)
    yield from receive_claim(server, partition, numbers.last_seq_number, sender)


def _note_reached(server: ReplicaState, number: SequenceNumber, sender: str) -> None:
    """Note how far a PSC follows us in the enterprise partition (decision R221).

    A number that we never gave is of another owner.
    """
    psc = server.pscs.get(key_of(sender))
    if psc is not None and number <= server.partitions[PEC_PARTITION_ID].last:
        psc.reported_pec = max(psc.reported_pec, number)


def _send_number(server: ReplicaState, partition: Partition, sender: str) -> None:
    """Send a server our number of a partition at once (decisions R37, R39).

    The server's number is lower.
    """
    numbers = PartitionSeqNumbers(
        partition_id=partition.id,
        last_seq_number=partition.last,
        purged_seq_number=partition.record.purged,
    )
    message = ChangePropagationMessage(
        site_id=server.settings.site_id,
        seq_number_header=SeqNumberHeader(machine_name=server.name, partition_seq_numbers=(numbers,)),
    )
    server.send(sender, message, acks=False)


def _is_neighbor(server: ReplicaState, sender: str) -> bool:
    return key_of(sender) in server.pscs or key_of(sender) in server.bscs


def receive_claim(
    server: ReplicaState, partition: Partition, number: SequenceNumber, sender: str
) -> Job[None]:
    """Handle the claim of a machine to have a number of a partition.

    A number that we have is ignored.
    """
    if number <= partition.last:
        return
    if not partition.record.owned:
        _request_changes(server, partition, number, sender)
    elif (yield from trust.may_displace(server, partition, sender)):
        yield from succession.step_down(server, partition, sender)
    else:
        _warn_of_claim(server, partition, number, sender)


def _request_changes(server: ReplicaState, partition: Partition, number: SequenceNumber, sender: str) -> None:
    """Ask the claimant for changes if it is trusted (decisions R46, R72).

    Else ask the usual server, and the PEC.
    """
    if trust.accepts(server, partition, sender) or trust.is_other_source(server, partition, sender):
        is_highest = number > partition.known_number
        partition.known_number = max(partition.known_number, number)
        partition.reporters[key_of(sender)] = (sender, number)
        has_less = trust.must_ask_first_source(partition) and number < partition.had_before
        may_ask = (is_highest or not partition.is_doubted) and not has_less  # decisions R166, R206
        if may_ask and not trust.is_from(server, server.choose_upstream(partition), sender):
            partition.hint = sender  # it is asked and trusted until our number is as high (3.2.7.1)
            partition.is_asking = False
        sync_requests.send(server, partition)
        return
    sync_requests.send(server, partition)
    _ask_pec(server)


def _ask_pec(server: ReplicaState) -> None:
    """Ask the PEC for news of the enterprise partition, which names each site's PSC."""
    enterprise = server.partitions[PEC_PARTITION_ID]
    if enterprise.record.owned:
        return
    if server.is_bsc and not enterprise.hint:
        enterprise.hint = enterprise.record.authority_name
        enterprise.is_asking = False
    sync_requests.send(server, enterprise)


def _warn_of_claim(server: ReplicaState, partition: Partition, number: SequenceNumber, sender: str) -> None:
    """Warn the operator once of a claim.

    Our directory may be an older copy, or the claim is false.
    """
    key = key_of(sender)
    if key not in partition.claimants:
        partition.claimants.add(key)
        server.warn(
            "somebody claims to know more of our partition than we do",
            f"{sender} has {number} of partition {partition.id}, whose last number is {partition.last}: "
            "if our directory is an older copy, name the authority that has more",
        )
    _ask_pec(server)


def name_authority(server: ReplicaState, event: NameAuthority) -> Job[None]:
    """Accept the authority of a partition that the operator names."""
    partition = server.partitions.get(event.partition_id)
    if partition is None or not event.machine_name or server.is_me(event.machine_name):
        server.reply(event.request, Hresult.MQ_ERROR_ILLEGAL_OPERATION)
        return
    server.note("the operator names an authority", f"{event.machine_name}, partition {partition.id}")
    if partition.record.owned:
        yield from succession.step_down(server, partition, event.machine_name)
    else:
        if partition.id == PEC_PARTITION_ID:
            yield from topology.follow_pec(server, event.machine_name)
        else:
            yield from succession.follow_authority(server, partition, event.machine_name)
        partition.hint = event.machine_name
        partition.is_asking = False
        sync_requests.send(server, partition)
        yield from topology.derive_neighbors(server)
    server.reply(event.request, Hresult.MQ_OK)
