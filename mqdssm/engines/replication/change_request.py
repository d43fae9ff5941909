"""Change of an object, and reasons to refuse it.

The authority of its partition is asked to make it.
"""

from dataclasses import dataclass

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication import properties as props
from mqdssm.engines.replication import purging
from mqdssm.engines.replication.jobs import Job, list_objects, perform, read_object
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Properties, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN
from mqdssm.wire.mqdsrp import MESSAGE_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A requested change; see `ChangeObject` for the fields."""

    command: Command
    object_type: ObjectType
    path_name: str | None = None
    identifier: Guid | None = None
    properties: Properties = ()
    scope: Scope = Scope.ENTERPRISE


def refusal_of(
    server: ReplicaState, partition: Partition, request: ChangeRequest, stored_object: ops.ObjectRead | None
) -> Job[Hresult | None]:
    """Return why a change may not be made (decision R34); None if it may."""
    refused = _check_change(server, partition, request)
    if refused is not None:
        return refused
    if request.object_type is ObjectType.MACHINE:
        return (yield from _check_machine(server, partition, request))
    if (
        request.object_type is ObjectType.SITE
        and request.command is Command.DELETE
        and stored_object is not None
    ):
        return (yield from _check_site(server, stored_object.identifier))
    if request.object_type is ObjectType.ENTERPRISE:
        return (yield from _check_enterprise(server, partition, request))
    return None


def _check_change(server: ReplicaState, partition: Partition, request: ChangeRequest) -> Hresult | None:
    if not partition.is_normal or partition.is_unfinished:
        return Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    if (partition.id != PEC_PARTITION_ID) is not (request.object_type in props.SITE_TYPES):
        return Hresult.MQDS_WRONG_OBJ_TYPE
    if sum(props.size_of(value) for _, value in request.properties) > MESSAGE_BYTES_MAX // 2:
        return Hresult.MQ_ERROR_ILLEGAL_PROPERTY_SIZE  # too long for a message
    if request.command is not Command.CREATE:
        return None
    identifier = props.get_value(request.properties, props.IDENTIFIERS[request.object_type])
    if identifier is None or (request.object_type is ObjectType.SITE and identifier == PEC_PARTITION_ID):
        return Hresult.MQ_ERROR_PROPERTY  # a site's identifier is that of its partition, too (decision R95)
    if partition.id != PEC_PARTITION_ID and not server.has_machine:  # the PSC's machine is first
        is_own_machine = (
            props.get_guid(request.properties, Propid.QM_MACHINE_ID) == server.settings.machine_id
        )
        if request.object_type is not ObjectType.MACHINE or not is_own_machine:
            return Hresult.MQ_ERROR_ILLEGAL_OPERATION
    return None


def _check_machine(server: ReplicaState, partition: Partition, request: ChangeRequest) -> Job[Hresult | None]:
    is_own_machine = request.identifier == server.settings.machine_id
    site_id = props.get_guid(request.properties, Propid.QM_SITE_ID)
    if site_id is not None and site_id != partition.id:
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # the machine's queues are in this partition
    if request.command is Command.DELETE:
        if is_own_machine:
            machines = yield from list_objects(ObjectType.MACHINE, partition.id)
            return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS if len(machines) > 1 else None
        return None
    role = props.get_roles(request.properties)
    if request.command is Command.CREATE:
        is_own_machine = (
            props.get_guid(request.properties, Propid.QM_MACHINE_ID) == server.settings.machine_id
        )
        role = role or Service.NONE
    if role is None:
        return None
    if is_own_machine is not bool(role & props.CONTROLLER) and (
        is_own_machine or request.command is Command.CREATE
    ):
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # a site has one PSC, which can only hand over
    if role & props.CONTROLLER and not is_own_machine and server.enterprise is not None:
        return Hresult.MQ_ERROR_ILLEGAL_OPERATION  # the PEC has to hand over the enterprise first
    return None


def _check_site(server: ReplicaState, identifier: Guid | None) -> Job[Hresult | None]:
    """Return why a site may not be deleted: it has to be empty, and known as a whole."""
    site_partition = server.partitions.get(identifier) if identifier is not None else None
    if site_partition is None:
        return None
    site = yield from read_object(ObjectType.SITE, identifier=site_partition.id)
    # the PSC never came and no longer can: the site names no PSC
    abandoned = site_partition.last == MIN and not props.get_text(site.properties or (), Propid.S_PSC)
    whole = site_partition.is_normal and site_partition.is_whole and site_partition.last > MIN
    if site_partition.record.owned or not (whole or abandoned):
        return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
    answer = yield from perform(ops.HasObjects(partition_id=site_partition.id), ops.Answer)
    return Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS if answer.yes else None


def _check_enterprise(
    server: ReplicaState, partition: Partition, request: ChangeRequest
) -> Job[Hresult | None]:
    """Return an error for a forbidden change of an enterprise.

    A second enterprise, a deletion, and a PEC that is no PSC are forbidden (decisions R34, R96), and a PEC
    that lacks many changes (decision R221).
    """
    if request.command is Command.DELETE:
        return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    if request.command is Command.CREATE and partition.last > MIN:
        enterprises = yield from list_objects(ObjectType.ENTERPRISE, partition.id)
        mine = props.get_guid(request.properties, Propid.E_ID)
        if any(enterprise.identifier != mine for enterprise in enterprises):
            return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    pec_name = props.get_text(request.properties, Propid.E_PECNAME)
    if pec_name is None or server.is_me(pec_name):
        return None
    psc = server.pscs.get(key_of(pec_name))
    if psc is None or purging.is_far_behind(server, psc):
        return Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    return None
