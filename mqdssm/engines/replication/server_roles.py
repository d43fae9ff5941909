"""Roles and names of this server in the objects.

The objects are its machine, the PSC of its site, and the PEC.

The authority of a partition writes its name into the object that names the authority. A name is written again
until its partition's owner has accepted it.
"""

from mqdssm.engines.replication import authority, requests
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.internal_events import HandoverFailed
from mqdssm.engines.replication.jobs import Job, list_objects, read_object
from mqdssm.engines.replication.properties import CONTROLLER, get_text, has_role
from mqdssm.engines.replication.state import Partition, ReplicaState
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service


def read_own_machine(server: ReplicaState) -> Job[ops.ObjectRead]:
    """Read the object of our own machine, from our site's partition."""
    settings = server.settings
    return read_object(ObjectType.MACHINE, identifier=settings.machine_id, partition_id=settings.site_id)


def read_other_controllers(server: ReplicaState, site: Partition) -> Job[tuple[ops.ObjectRead, ...]]:
    """Return the other machines of a site that have the role of its PSC."""
    machines = yield from list_objects(ObjectType.MACHINE, site.id, CONTROLLER)
    return tuple(machine for machine in machines if machine.identifier != server.settings.machine_id)


def read_enterprise() -> Job[ops.ObjectRead | None]:
    """Read the enterprise's object; return None if there is none yet."""
    enterprises = yield from list_objects(ObjectType.ENTERPRISE, PEC_PARTITION_ID)
    return next(iter(enterprises), None)


def write_roles(server: ReplicaState) -> Job[None]:
    """Write our role and name into our machine, the PSC of our site, and the PEC."""
    site = server.site
    waits = False
    if site is not None and server.is_demoted:  # a handover that was interrupted, or refused
        outcome = yield from _write_role(server, site, server.settings.machine_id, Service.PSC)
        server.is_demoted = outcome.identifier is None
        waits = outcome.status in authority.TEMPORARY_STATUSES
    waits |= yield from _write_machine_name(server)
    enterprise = server.enterprise
    if enterprise is not None:
        enterprise_object = yield from read_enterprise()
        if enterprise_object is not None:
            waits |= yield from _write_name(
                server, ObjectType.ENTERPRISE, enterprise_object, Propid.E_PECNAME
            )
        yield from _persist_pec_name(server, enterprise)
    if site is not None:
        site_object = yield from read_object(ObjectType.SITE, identifier=site.id)
        waits |= yield from _write_name(server, ObjectType.SITE, site_object, Propid.S_PSC)
    if waits:
        server.start_timer(Timer(TimerPurpose.CLAIM), server.settings.sync_wait_s)


def _persist_pec_name(server: ReplicaState, enterprise: Partition) -> Job[None]:
    """Persist our name as the PEC's once the enterprise has it.

    Until then, another name means a handover.
    """
    if not enterprise.record.owned or enterprise.record.authority_name == server.name:
        return
    enterprise_object = yield from read_enterprise()
    pec_name = (
        get_text(enterprise_object.properties or (), Propid.E_PECNAME)
        if enterprise_object is not None
        else server.name
    )
    if server.is_me(pec_name or ""):
        yield from server.save(enterprise, authority_name=server.name)


def on_handover_failed(server: ReplicaState, _event: HandoverFailed) -> Job[None]:
    """Write our role and name into the objects again."""
    yield from write_roles(server)


def on_claim_timer(server: ReplicaState, _key: str) -> Job[None]:
    """Try again to write our role and name into the objects."""
    yield from write_roles(server)


def _write_machine_name(server: ReplicaState) -> Job[bool]:
    if server.settings.site_id not in server.partitions:
        return False
    machine = yield from read_own_machine(server)
    if machine.partition_id != server.settings.site_id:
        return False
    return (yield from _write_name(server, ObjectType.MACHINE, machine, Propid.QM_PATHNAME))


def _write_name(
    server: ReplicaState, kind: ObjectType, stored_object: ops.ObjectRead, propid: Propid
) -> Job[bool]:
    """Set a property of an object to our name, here or at its authority.

    Returns:
        True if it has still to be checked that the property is set.
    """
    name = get_text(stored_object.properties or (), propid)
    partition = (
        server.partitions.get(stored_object.partition_id) if stored_object.partition_id is not None else None
    )
    if stored_object.identifier is None or partition is None or server.is_me(name or ""):
        return False
    properties = ((propid, server.name),)
    if not partition.record.owned:
        requests.request_update(server, kind, stored_object.identifier, partition.id, properties)
        return True
    request = ChangeRequest(
        command=Command.UPDATE, object_type=kind, identifier=stored_object.identifier, properties=properties
    )
    outcome = yield from authority.execute(server, partition, request)
    if outcome.status != Hresult.MQ_OK:
        server.note("our name was refused", f"{propid.spec_name}, status {outcome.status:#010x}")
    return outcome.status in authority.TEMPORARY_STATUSES


def write_site_roles(server: ReplicaState, site: Partition) -> Job[int]:
    """Make this server the PSC of its site in the objects, and the others BSCs.

    Returns:
        MQ_OK; else the status of the last update that failed.
    """
    status: int = Hresult.MQ_OK
    controllers = yield from read_other_controllers(server, site)
    for controller in controllers:
        outcome = yield from _write_role(server, site, controller.identifier, Service.BSC)
        status = outcome.status or status
    machine = yield from read_own_machine(server)
    if machine.partition_id == site.id and not has_role(machine.properties or (), CONTROLLER):
        outcome = yield from _write_role(server, site, machine.identifier, Service.PSC)
        status = outcome.status or status
    return status


def _write_role(
    server: ReplicaState, site: Partition, identifier: Guid | None, role: Service
) -> Job[ops.ObjectOutcome]:
    request = ChangeRequest(
        command=Command.UPDATE,
        object_type=ObjectType.MACHINE,
        identifier=identifier,
        properties=((Propid.QM_SERVICE, int(role)),),
    )
    return (yield from authority.write(server, site, request))
