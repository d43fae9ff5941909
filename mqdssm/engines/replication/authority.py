"""Changes of our own objects: number, write and queue them for neighbours ([MC-MQDSRP] 3.2.7.2).

Neighbours receive the whole object as it is after the change, or its deletion, never a difference
(decision R31). A neighbour that lacks an earlier change therefore loses nothing.
"""

from dataclasses import replace
from typing import Final

from mqdssm.engines.replication import propagation, purging, succession, topology
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.operations import (
    Answer,
    CreateObject,
    DeleteObject,
    HasObjects,
    ListObjects,
    ObjectOutcome,
    ObjectRead,
    ObjectsListed,
    Operation,
    ReadObject,
    Recover,
    Recovered,
    UpdateObject,
)
from mqdssm.engines.replication.properties import (
    CONTROLLER,
    IDENTIFIERS,
    SITE_TYPES,
    deletion,
    get,
    guid,
    service,
    text,
    whole,
    with_identifier,
)
from mqdssm.engines.replication.sizes import size_of
from mqdssm.engines.replication.state import Job, Partition, ReplicaState, key_of, perform
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.wire.mqdsrp import MESSAGE_BYTES_MAX

PASSING: Final = frozenset(
    {
        Hresult.MQ_ERROR_DS_IS_FULL,
        Hresult.MQ_ERROR_DS_ERROR,
        Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE,
        Hresult.MQDS_NO_RSP_FROM_OWNER,
    }
)
"""Statuses of changes that may succeed later; if a store returns one, the change may have been made."""


def execute(server: ReplicaState, partition: Partition, wanted: ChangeRequest) -> Job[ObjectOutcome]:
    """Check and write a change; hand the partition over if the change names a new PSC or PEC."""
    if wanted.command is Command.SYNC:
        wanted = yield from _create_or_update(partition, wanted)
    if wanted.command is Command.UPDATE or wanted.command is Command.DELETE:
        operation = _read(partition, wanted)
        found = yield from perform(operation, ObjectRead)
        if found.status != Hresult.MQ_OK or found.partition_id != partition.id:
            return ObjectOutcome(status=Hresult.MQDS_OBJECT_NOT_FOUND)
        wanted = replace(wanted, identifier=found.identifier)  # decision R21
        wanted = _with_psc(server, wanted, found)
    else:
        found = None
    refused = yield from _refusal(server, partition, wanted, found)
    if refused is not None:
        return ObjectOutcome(status=refused)
    successor = _successor(server, wanted, found)
    if successor is not None and wanted.object_type is ObjectType.MACHINE and server.has_machine:
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
    outcome = yield from write(server, partition, wanted, successor)
    if successor is not None and outcome.identifier is None:
        yield from succession.claim(server)  # this server stays the authority
    return outcome


def _with_psc(server: ReplicaState, wanted: ChangeRequest, found: ObjectRead) -> ChangeRequest:
    """Add the PSC to an update of a site whose object names a PSC from before a handover (R181)."""
    site = None if found.identifier is None else server.partitions.get(found.identifier)
    if wanted.object_type is not ObjectType.SITE or wanted.command is not Command.UPDATE or site is None:
        return wanted
    said, authority_name = text(found.properties or (), Propid.S_PSC), site.record.authority_name
    if get(wanted.properties, Propid.S_PSC) is not None or not said or not authority_name:
        return wanted
    if key_of(said) == key_of(authority_name):
        return wanted
    return replace(wanted, properties=(*wanted.properties, (Propid.S_PSC, authority_name)))


def pass_on(server: ReplicaState, partition: Partition, change: DirectoryChange) -> Job[None]:
    """Hand a partition over if the change of a service beside us names a new authority (decision R38)."""
    successor = None
    if change.object_type is ObjectType.ENTERPRISE:
        successor = text(change.properties, Propid.E_PECNAME)
    elif change.object_type is ObjectType.MACHINE:
        role = service(change.properties) or Service.NONE
        successor = text(change.properties, Propid.QM_PATHNAME) if role & CONTROLLER else None
    if successor is not None and not server.is_me(successor):
        yield from _hand_over(server, partition, successor)


def _hand_over(server: ReplicaState, partition: Partition, successor: str) -> Job[None]:
    yield from succession.hand_over(server, partition, successor)
    propagation.send_all(server)
    yield from topology.derive(server)


def _read(partition: Partition, wanted: ChangeRequest) -> ReadObject:
    return ReadObject(
        object_type=wanted.object_type,
        path_name=wanted.path_name,
        identifier=wanted.identifier,
        partition_id=partition.id,
    )


def _create_or_update(partition: Partition, wanted: ChangeRequest) -> Job[ChangeRequest]:
    """Turn Directory Sync into a creation or an update, at the authority (3.1.7.2.8)."""
    operation = _read(partition, wanted)
    found = yield from perform(operation, ObjectRead)
    if found.status == Hresult.MQ_OK:
        return replace(wanted, command=Command.UPDATE)
    properties = wanted.properties
    if wanted.identifier is not None:
        properties = with_identifier(wanted.object_type, wanted.identifier, properties)
    return replace(wanted, command=Command.CREATE, properties=properties)


def write(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest, successor: str | None = None
) -> Job[ObjectOutcome]:
    """Write a change with the next number, and queue it for the neighbours; then hand over if asked to."""
    if partition.unfinished:
        return ObjectOutcome(status=Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
    if partition.last == MAX:
        return ObjectOutcome(status=Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES)
    number = partition.last.next()
    with partition.numbering():
        outcome = yield from _give(server, partition, wanted, number)
        if outcome.identifier is not None:
            yield from made(server, partition, wanted, outcome.identifier, number)
            if successor is not None:
                yield from _hand_over(server, partition, successor)
    if outcome.identifier is not None:
        yield from purging.after_changes(server, partition)
    return outcome


def _give(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest, number: SequenceNumber
) -> Job[ObjectOutcome]:
    """Write a change with its number; after a failure check whether it was written (decision R103).

    Returns:
        The outcome; its identifier is set if the object has the number. The status is then MQ_OK, or
        MQDS_NO_RSP_FROM_OWNER if a part of the change is still to be written.
    """
    outcome = yield from perform(_operation(partition, wanted, number), ObjectOutcome)
    if outcome.status not in PASSING:
        return outcome
    return (yield from settle_failed(server, partition, wanted, number, outcome.status))


def settle_failed(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest, number: SequenceNumber, status: int
) -> Job[ObjectOutcome]:
    """Check whether a change was written although its write failed (decision R103); return as `_give`."""
    recovered = yield from perform(Recover(partition_id=partition.id), Recovered)
    if recovered.status != Hresult.MQ_OK:
        server.warn("a change is not finished", f"{number} of {partition.id}")
        server.finish_later(partition)
    if recovered.highest < number:
        if recovered.doubtful < number:
            return ObjectOutcome(status=status)
        server.finish_later(partition)  # an entry that cannot be read may have the number (decision R159)
        return ObjectOutcome(status=Hresult.MQDS_NO_RSP_FROM_OWNER)
    finished = recovered.status == Hresult.MQ_OK
    return ObjectOutcome(
        status=Hresult.MQ_OK if finished else Hresult.MQDS_NO_RSP_FROM_OWNER,
        identifier=wanted.identifier or guid(wanted.properties, IDENTIFIERS[wanted.object_type]),
    )


def made(
    server: ReplicaState,
    partition: Partition,
    wanted: ChangeRequest,
    identifier: Guid,
    number: SequenceNumber,
) -> Job[DirectoryChange | None]:
    """Propagate Directory Change (3.1.7.1.2): do the follow-up work of a written change.

    Returns:
        The change that neighbours are sent; None if another program has deleted the object.
    """
    previous = partition.last
    partition.last = number
    partition.foreign.discard(identifier)
    if wanted.command is Command.DELETE:
        change = deletion(wanted.object_type, identifier, partition.id, number, wanted.scope)
    else:
        operation = _read(partition, replace(wanted, path_name=None, identifier=identifier))
        found = yield from perform(operation, ObjectRead)
        if not found.properties:
            server.note("an object of ours has gone, and nobody deleted it", str(identifier))
            return None
        change = _as_change(wanted, identifier, partition.id, number, found.properties)
    change = replace(change, previous_seq_number=previous, purged_seq_number=partition.record.purged)
    propagation.enqueue(server, server.neighbors, change)
    flush = yield from topology.after_changes(server, partition, [change])
    if flush:
        propagation.flush(server)
    return change


def _as_change(
    wanted: ChangeRequest,
    identifier: Guid,
    partition_id: Guid,
    number: SequenceNumber,
    properties: Properties,
) -> DirectoryChange:
    """Return a change that creates a new object with a path name (4.3), else the whole object (R31)."""
    if wanted.command is not Command.CREATE or wanted.path_name is None:
        return whole(wanted.object_type, identifier, partition_id, number, properties)
    return DirectoryChange(
        command=Command.CREATE,
        path_name=wanted.path_name,
        partition_id=partition_id,
        previous_seq_number=MIN,
        seq_number=number,
        purged_seq_number=MIN,
        properties=with_identifier(wanted.object_type, identifier, properties),
    )


def _operation(partition: Partition, wanted: ChangeRequest, number: SequenceNumber) -> Operation:
    match wanted.command:
        case Command.CREATE:
            return CreateObject(
                object_type=wanted.object_type,
                path_name=wanted.path_name,
                properties=wanted.properties,
                partition_id=partition.id,
                seq_number=number,
            )
        case Command.DELETE:
            return DeleteObject(
                object_type=wanted.object_type,
                path_name=wanted.path_name,
                identifier=wanted.identifier,
                scope=wanted.scope,
                partition_id=partition.id,
                seq_number=number,
            )
        case _:
            return UpdateObject(
                object_type=wanted.object_type,
                path_name=wanted.path_name,
                identifier=wanted.identifier,
                properties=wanted.properties,
                partition_id=partition.id,
                seq_number=number,
            )


def _refusal(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest, found: ObjectRead | None
) -> Job[Hresult | None]:
    """Return why a change may not be made (decision R34); None if it may."""
    refused = _general_refusal(server, partition, wanted)
    if refused is not None:
        return refused
    if wanted.object_type is ObjectType.MACHINE:
        return (yield from _machine_refusal(server, partition, wanted))
    if wanted.object_type is ObjectType.SITE and wanted.command is Command.DELETE and found is not None:
        return (yield from _site_refusal(server, found.identifier))
    if wanted.object_type is ObjectType.ENTERPRISE:
        return (yield from _enterprise_refusal(server, partition, wanted))
    return None


def _general_refusal(server: ReplicaState, partition: Partition, wanted: ChangeRequest) -> Hresult | None:
    if not partition.is_normal or partition.unfinished:
        return Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    if (partition.id != PEC_PARTITION_ID) is not (wanted.object_type in SITE_TYPES):
        return Hresult.MQDS_WRONG_OBJ_TYPE
    if sum(size_of(value) for _, value in wanted.properties) > MESSAGE_BYTES_MAX // 2:
        return Hresult.MQ_ERROR_ILLEGAL_PROPERTY_SIZE  # too long for a message
    if wanted.command is not Command.CREATE:
        return None
    identifier = get(wanted.properties, IDENTIFIERS[wanted.object_type])
    if identifier is None or (wanted.object_type is ObjectType.SITE and identifier == PEC_PARTITION_ID):
        return Hresult.MQ_ERROR_PROPERTY  # a site's identifier is that of its partition, too (decision R95)
    if partition.id != PEC_PARTITION_ID and not server.has_machine:  # the PSC's machine is first
        own = guid(wanted.properties, Propid.QM_MACHINE_ID) == server.settings.machine_id
        if wanted.object_type is not ObjectType.MACHINE or not own:
            return Hresult.MQ_ERROR_ILLEGAL_OPERATION
    return None


def _machine_refusal(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest
) -> Job[Hresult | None]:
    own = wanted.identifier == server.settings.machine_id
    site_id = guid(wanted.properties, Propid.QM_SITE_ID)
    if site_id is not None and site_id != partition.id:
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # the machine's queues are in this partition
    if wanted.command is Command.DELETE:
        if own:
            operation = ListObjects(object_type=ObjectType.MACHINE, partition_id=partition.id)
            found = yield from perform(operation, ObjectsListed)
            return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS if len(found.objects) > 1 else None
        return None
    role = service(wanted.properties)
    if wanted.command is Command.CREATE:
        own = guid(wanted.properties, Propid.QM_MACHINE_ID) == server.settings.machine_id
        role = role or Service.NONE
    if role is None:
        return None
    if own is not bool(role & CONTROLLER) and (own or wanted.command is Command.CREATE):
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # a site has one PSC, which can only hand over
    if role & CONTROLLER and not own and server.enterprise is not None:
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # the PEC has to hand over the enterprise first
    return None


def _site_refusal(server: ReplicaState, identifier: Guid | None) -> Job[Hresult | None]:
    """Return why a site may not be deleted: it has to be empty, and known as a whole."""
    known = server.partitions.get(identifier) if identifier is not None else None
    if known is None:
        return None
    operation = ReadObject(object_type=ObjectType.SITE, identifier=known.id)
    site = yield from perform(operation, ObjectRead)
    # the PSC never came and no longer can: the site names no PSC
    abandoned = known.last == MIN and not text(site.properties or (), Propid.S_PSC)
    whole = known.is_normal and known.whole and known.last > MIN
    if known.record.owned or not (whole or abandoned):
        return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
    answer = yield from perform(HasObjects(partition_id=known.id), Answer)
    return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS if answer.yes else None


def _enterprise_refusal(
    server: ReplicaState, partition: Partition, wanted: ChangeRequest
) -> Job[Hresult | None]:
    """Return an error for a second enterprise, a deletion, or a PEC that is no PSC (decisions R34, R96)."""
    if wanted.command is Command.DELETE:
        return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    if wanted.command is Command.CREATE and partition.last > MIN:
        operation = ListObjects(object_type=ObjectType.ENTERPRISE, partition_id=partition.id)
        found = yield from perform(operation, ObjectsListed)
        mine = guid(wanted.properties, Propid.E_ID)
        if any(one.identifier != mine for one in found.objects):
            return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    pec_name = text(wanted.properties, Propid.E_PECNAME)
    if pec_name is None or server.is_me(pec_name) or key_of(pec_name) in server.pscs:
        return None
    return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION


def _successor(server: ReplicaState, wanted: ChangeRequest, found: ObjectRead | None) -> str | None:
    """Return the machine that a change makes the authority of the partition; None if there is none."""
    if wanted.command is not Command.UPDATE or found is None:
        return None
    if wanted.object_type is ObjectType.ENTERPRISE:
        pec_name = text(wanted.properties, Propid.E_PECNAME)
        return pec_name if pec_name is not None and not server.is_me(pec_name) else None
    if wanted.object_type is not ObjectType.MACHINE or wanted.identifier == server.settings.machine_id:
        return None
    role = service(wanted.properties) or Service.NONE
    return text(found.properties or (), Propid.QM_PATHNAME) if role & CONTROLLER else None
