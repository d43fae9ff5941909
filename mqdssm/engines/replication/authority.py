"""Changes of our own objects: numbered, written and queued for neighbours.

See [MC-MQDSRP] 3.2.7.2.

Neighbours receive the whole object as it is after the change, or its deletion, never a difference
(decision R31). A neighbour that lacks an earlier change therefore loses nothing.
"""

from dataclasses import replace
from typing import Final

from mqdssm.engines.replication import change_request, propagation, purging
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication import properties as props
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.internal_events import HandoverFailed, ObjectsChanged, SuccessorNamed, publish
from mqdssm.engines.replication.jobs import Job, perform, read_object
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber

TEMPORARY_STATUSES: Final = frozenset(
    {
        Hresult.MQ_ERROR_DS_IS_FULL,
        Hresult.MQ_ERROR_DS_ERROR,
        Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE,
        Hresult.MQDS_NO_RSP_FROM_OWNER,
    }
)
"""Statuses of changes that may succeed later; if a store returns one, the change may have been made."""


def execute(server: ReplicaState, partition: Partition, request: ChangeRequest) -> Job[ops.ObjectOutcome]:
    """Check and write a change.

    If the change names a new PSC or PEC, the partition is handed over.
    """
    if request.command is Command.SYNC:
        request = yield from _create_or_update(partition, request)
    if request.command is Command.UPDATE or request.command is Command.DELETE:
        stored_object = yield from _read_object(partition, request)
        if stored_object.status != Hresult.MQ_OK or stored_object.partition_id != partition.id:
            return ops.ObjectOutcome(status=Hresult.MQDS_OBJECT_NOT_FOUND)
        request = replace(request, identifier=stored_object.identifier)  # decision R21
        request = _add_psc(server, request, stored_object)
    else:
        stored_object = None
    refused = yield from change_request.refusal_of(server, partition, request, stored_object)
    if refused is not None:
        return ops.ObjectOutcome(status=refused)
    successor = _find_successor(server, request, stored_object)
    if successor is not None and request.object_type is ObjectType.MACHINE and server.has_machine:
        demoted = ChangeRequest(
            command=Command.UPDATE,
            object_type=ObjectType.MACHINE,
            identifier=server.settings.machine_id,
            properties=((Propid.QM_SERVICE, int(Service.BSC)),),
        )
        outcome = yield from write(server, partition, demoted)
        server.is_demoted = outcome.identifier is not None
        if outcome.status != Hresult.MQ_OK:
            return outcome
    outcome = yield from write(server, partition, request, successor)
    if successor is not None and outcome.identifier is None:
        yield from publish(server, HandoverFailed())
    return outcome


def _add_psc(server: ReplicaState, request: ChangeRequest, stored_object: ops.ObjectRead) -> ChangeRequest:
    """Add the PSC to an update of a site (decision R181).

    The site's object names a PSC from before a handover, and none that we do not know yet (R195).
    """
    site = None if stored_object.identifier is None else server.partitions.get(stored_object.identifier)
    if request.object_type is not ObjectType.SITE or request.command is not Command.UPDATE or site is None:
        return request
    if server.has_not_followed(stored_object):
        return request
    named, authority_name = (
        props.get_text(stored_object.properties or (), Propid.S_PSC),
        site.record.authority_name,
    )
    if props.get_value(request.properties, Propid.S_PSC) is not None or not named or not authority_name:
        return request
    if key_of(named) == key_of(authority_name):
        return request
    return replace(request, properties=(*request.properties, (Propid.S_PSC, authority_name)))


def hand_over_if_named(server: ReplicaState, partition: Partition, change: DirectoryChange) -> Job[None]:
    """Hand a partition over if a change names a new authority (decision R38).

    A service beside us made the change.
    """
    successor = None
    if change.object_type is ObjectType.ENTERPRISE:
        successor = props.get_text(change.properties, Propid.E_PECNAME)
    elif change.object_type is ObjectType.MACHINE:
        role = props.get_roles(change.properties) or Service.NONE
        successor = props.get_text(change.properties, Propid.QM_PATHNAME) if role & props.CONTROLLER else None
    if successor is not None and not server.is_me(successor):
        yield from publish(server, SuccessorNamed(partition=partition, successor=successor))


def _read_object(partition: Partition, request: ChangeRequest) -> Job[ops.ObjectRead]:
    return read_object(
        request.object_type,
        path_name=request.path_name,
        identifier=request.identifier,
        partition_id=partition.id,
    )


def _create_or_update(partition: Partition, request: ChangeRequest) -> Job[ChangeRequest]:
    """Turn Directory Sync into a creation or an update, at the authority (3.1.7.2.8)."""
    stored_object = yield from _read_object(partition, request)
    if stored_object.status == Hresult.MQ_OK:
        return replace(request, command=Command.UPDATE)
    properties = request.properties
    if request.identifier is not None:
        properties = props.with_identifier(request.object_type, request.identifier, properties)
    return replace(request, command=Command.CREATE, properties=properties)


def write(
    server: ReplicaState, partition: Partition, request: ChangeRequest, successor: str | None = None
) -> Job[ops.ObjectOutcome]:
    """Write a change with the next number, and queue it for the neighbours.

    Then the partition is handed over, if asked to.
    """
    if partition.is_unfinished:
        return ops.ObjectOutcome(status=Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
    if partition.last == MAX:
        return ops.ObjectOutcome(status=Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES)
    number = partition.last.next()
    with partition.guard_numbering():
        outcome = yield from _write_numbered(server, partition, request, number)
        if outcome.identifier is not None:
            yield from propagate_change(server, partition, request, outcome.identifier, number)
            if successor is not None:
                yield from publish(server, SuccessorNamed(partition=partition, successor=successor))
    if outcome.identifier is not None:
        yield from purging.purge_if_due(server, partition)
    return outcome


def _write_numbered(
    server: ReplicaState, partition: Partition, request: ChangeRequest, number: SequenceNumber
) -> Job[ops.ObjectOutcome]:
    """Write a change with its number.

    After a failure, check whether it was written (decision R103).

    Returns:
        The outcome; its identifier is set if the object has the number. The status is then MQ_OK, or
        MQDS_NO_RSP_FROM_OWNER if a part of the change is still to be written.
    """
    outcome = yield from perform(write_operation(partition.id, request, number), ops.ObjectOutcome)
    if outcome.status not in TEMPORARY_STATUSES:
        return outcome
    return (yield from check_failed_write(server, partition, request, number, outcome.status))


def check_failed_write(
    server: ReplicaState, partition: Partition, request: ChangeRequest, number: SequenceNumber, status: int
) -> Job[ops.ObjectOutcome]:
    """Check whether a change was written although its write failed (decision R103).

    Returns:
        The outcome, as `_write_numbered` returns it.
    """
    recovered = yield from perform(ops.Recover(partition_id=partition.id), ops.Recovered)
    if recovered.status != Hresult.MQ_OK:
        server.warn("a change is not finished", f"{number} of {partition.id}")
        server.finish_later(partition)
    if recovered.highest < number:
        if recovered.doubtful < number:
            return ops.ObjectOutcome(status=status)
        server.finish_later(partition)  # an entry that cannot be read may have the number (decision R159)
        return ops.ObjectOutcome(status=Hresult.MQDS_NO_RSP_FROM_OWNER)
    finished = recovered.status == Hresult.MQ_OK
    return ops.ObjectOutcome(
        status=Hresult.MQ_OK if finished else Hresult.MQDS_NO_RSP_FROM_OWNER,
        identifier=request.identifier
        or props.get_guid(request.properties, props.IDENTIFIERS[request.object_type]),
    )


def recover_partition(server: ReplicaState, partition: Partition) -> Job[None]:
    """Complete interrupted changes of a partition (decision R15).

    An authority's last number is set from objects and tombstones.
    """
    recovered = yield from perform(ops.Recover(partition_id=partition.id), ops.Recovered)
    record = partition.record
    if record.owned:
        partition.last = max(partition.last, record.last, recovered.highest, record.purged)
        if recovered.doubtful > partition.last:  # it may have been given, and sent to others (R155)
            yield from server.save(partition, last=recovered.doubtful)
    if recovered.status != Hresult.MQ_OK:
        server.warn("a change is not finished", f"{recovered.highest} of {partition.id}")
        server.finish_later(partition)


def propagate_change(
    server: ReplicaState,
    partition: Partition,
    request: ChangeRequest,
    identifier: Guid,
    number: SequenceNumber,
) -> Job[DirectoryChange | None]:
    """Propagate Directory Change (3.1.7.1.2).

    The follow-up work of a written change is done.

    Returns:
        The change that neighbours are sent; None if another program has deleted the object.
    """
    previous = partition.last
    partition.last = number
    partition.foreign.discard(identifier)
    if request.command is Command.DELETE:
        change = props.make_deletion(request.object_type, identifier, partition.id, number, request.scope)
    else:
        stored_object = yield from read_object(
            request.object_type, identifier=identifier, partition_id=partition.id
        )
        if not stored_object.properties:
            server.note("an object of ours has gone, and nobody deleted it", str(identifier))
            return None
        change = _as_change(request, identifier, partition.id, number, stored_object.properties)
    change = replace(change, previous_seq_number=previous, purged_seq_number=partition.record.purged)
    propagation.enqueue(server, server.neighbors, change)
    yield from publish(server, ObjectsChanged(partition=partition, changes=[change]))
    return change


def _as_change(
    request: ChangeRequest,
    identifier: Guid,
    partition_id: Guid,
    number: SequenceNumber,
    properties: Properties,
) -> DirectoryChange:
    """Return a change that creates a new object with a path name (4.3).

    Else it has the whole object (decision R31).
    """
    if request.command is not Command.CREATE or request.path_name is None:
        return props.make_object_change(request.object_type, identifier, partition_id, number, properties)
    return DirectoryChange(
        command=Command.CREATE,
        path_name=request.path_name,
        partition_id=partition_id,
        previous_seq_number=MIN,
        seq_number=number,
        purged_seq_number=MIN,
        properties=props.with_identifier(request.object_type, identifier, properties),
    )


def write_operation(partition_id: Guid, request: ChangeRequest, number: SequenceNumber) -> ops.Operation:
    """Return the operation that writes a change under a number."""
    match request.command:
        case Command.CREATE:
            return ops.CreateObject(
                object_type=request.object_type,
                path_name=request.path_name,
                properties=request.properties,
                partition_id=partition_id,
                seq_number=number,
            )
        case Command.DELETE:
            return ops.DeleteObject(
                object_type=request.object_type,
                path_name=request.path_name,
                identifier=request.identifier,
                scope=request.scope,
                partition_id=partition_id,
                seq_number=number,
            )
        case _:
            return ops.UpdateObject(
                object_type=request.object_type,
                path_name=request.path_name,
                identifier=request.identifier,
                properties=request.properties,
                partition_id=partition_id,
                seq_number=number,
            )


def _find_successor(
    server: ReplicaState, request: ChangeRequest, stored_object: ops.ObjectRead | None
) -> str | None:
    """Return the machine that a change makes the authority of the partition.

    None if there is none.
    """
    if request.command is not Command.UPDATE or stored_object is None:
        return None
    if request.object_type is ObjectType.ENTERPRISE:
        pec_name = props.get_text(request.properties, Propid.E_PECNAME)
        return pec_name if pec_name is not None and not server.is_me(pec_name) else None
    if request.object_type is not ObjectType.MACHINE or request.identifier == server.settings.machine_id:
        return None
    role = props.get_roles(request.properties) or Service.NONE
    return (
        props.get_text(stored_object.properties or (), Propid.QM_PATHNAME)
        if role & props.CONTROLLER
        else None
    )
