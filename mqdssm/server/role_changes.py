"""Changes of the roles of directory servers, as changes of objects.

The role of a machine is PROPID_QM_SERVICE of its object. The enterprise names its PEC, and a site its PSC.
"""

from typing import Final

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.store_thread import LookUp, list_objects, read_object
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import key_of
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN
from mqdssm.server.config import SERVICES
from mqdssm.server.control_protocol import RoleRequest, ServerRemovalRequest, SitePscRequest
from mqdssm.server.current_roles import pec_name_of, role_of, role_of_running
from mqdssm.server.object_changes import RequestedChange

_SERVERS: Final = Service.PSC | Service.PEC


def build_role_change(request: RoleRequest, look_up: LookUp, status: ServerStatus) -> RequestedChange:
    """Return the change of an object that gives a machine another role.

    Args:
        request: the machine and the role.
        look_up: performs a reading operation of the store.
        status: neighbours of the server.

    Raises:
        ObjectNotFound: no such machine, or no enterprise.
        ValueError: the machine cannot have the role.
        DirectoryError: the machine lacks too much to become the PEC, or the directory cannot be read.
    """
    machine = _read(look_up, ObjectType.MACHINE, request.machine_name)
    if request.role is Role.PEC:
        if not _read_service(machine) & _SERVERS:
            raise ValueError(f"{request.machine_name} is no PSC: only a PSC becomes the PEC")
        _check_is_near(request.machine_name, status)
        enterprises = list_objects(look_up, ObjectType.ENTERPRISE)
        if not enterprises:
            raise ObjectNotFound("the directory of this server has no enterprise")
        named = (Propid.E_PECNAME, request.machine_name)
        return RequestedChange.of_existing(ObjectType.ENTERPRISE, enterprises[0].identifier, (named,))
    service = Service.NONE if request.role is None else SERVICES[request.role]
    if request.role is None and _read_service(machine) & _SERVERS:
        raise ValueError(
            f"{request.machine_name} is the PSC of its site: hand the site over first, or remove the site"
        )
    if machine.partition_id is None:
        raise ObjectNotFound(f"the directory of this server has no site of {request.machine_name}")
    return RequestedChange.of_existing(
        ObjectType.MACHINE,
        machine.identifier,
        ((Propid.QM_SERVICE, int(service)),),
        partition_id=machine.partition_id,
    )


def _check_is_near(machine_name: str, status: ServerStatus) -> None:
    """Check that a PSC has most of the enterprise's changes (decision R221).

    Raises:
        GenericDirectoryError: it lacks too many.
    """
    for neighbor in status.neighbors:
        if neighbor.is_far_behind and key_of(neighbor.machine_name) == key_of(machine_name):
            last = next(part.last for part in status.partitions if part.partition_id == PEC_PARTITION_ID)
            numbers = [ack.acked for ack in neighbor.acknowledgements if ack.partition_id == PEC_PARTITION_ID]
            raise GenericDirectoryError(
                f"{machine_name} has acknowledged only {max(numbers, default=MIN)} of {last} numbers of the "
                "enterprise, and may follow another owner: wait until it has more, or name another PSC; "
                "nothing was changed"
            )


def build_site_psc_change(request: SitePscRequest, look_up: LookUp, status: ServerStatus) -> RequestedChange:
    """Return the change of a site that names another PSC and its key, or none.

    Args:
        request: the site and the machine.
        look_up: performs a reading operation of the store.
        status: partitions of the server.

    Raises:
        ObjectNotFound: no such site or machine.
        ValueError: the machine belongs to another site; or none, and the site has a PSC that has started.
        DirectoryError: the directory cannot be read.
    """
    site = _read(look_up, ObjectType.SITE, request.site)
    if not request.machine_name:
        if not any(part.partition_id == site.identifier and part.last == MIN for part in status.partitions):
            raise ValueError(f"the PSC of {request.site} has started: it can only be replaced")
        nobody: Properties = ((Propid.S_PSC, ""), (Propid.S_PSC_SIGNPK, b""))
        return RequestedChange.of_existing(ObjectType.SITE, site.identifier, nobody)
    machine = _read(look_up, ObjectType.MACHINE, request.machine_name)
    if machine.partition_id != site.identifier:
        raise ValueError(f"{request.machine_name} is no machine of {request.site}")
    properties: Properties = ((Propid.S_PSC, request.machine_name),)
    key = dict(machine.properties or ()).get(Propid.QM_SIGN_PK)
    if isinstance(key, bytes) and key:
        properties += ((Propid.S_PSC_SIGNPK, key),)
    return RequestedChange.of_existing(ObjectType.SITE, site.identifier, properties)


def build_server_removal(request: ServerRemovalRequest, server: DirectoryServer) -> RequestedChange:
    """Return the deletion of the machine of a BSC.

    Args:
        request: the BSC.
        server: the PSC of its site.

    Raises:
        ObjectNotFound: no such machine.
        ValueError: the machine is no BSC of the site, or has queues.
        DirectoryError: the directory cannot be read.
    """
    name, look_up, site_id = request.machine_name, server.store.lookup, server.settings.site_id
    machine = _read(look_up, ObjectType.MACHINE, name)
    role = role_of(_read_service(machine), name, pec_name_of(server.driver.status()))
    if role is None:
        raise ValueError(f"{name} is no directory server: delete its queue manager")
    if role is Role.PEC:
        raise ValueError(f"{name} is the PEC: hand the enterprise over first")
    if role is Role.PSC:
        raise ValueError(f"{name} is the PSC of its site: hand the site over first, or remove the site")
    if role_of_running(server) is Role.BSC or machine.partition_id != site_id:
        raise ValueError(
            f"{name} is removed by the PSC of its site, which {server.settings.machine_name} is not"
        )
    queues = look_up(ops.HasObjects(partition_id=site_id, queues_of=machine.identifier))
    if isinstance(queues, ops.Answer) and queues.yes:
        raise ValueError(f"{name} has queues: delete them first, or make it an ordinary machine (demote)")
    return RequestedChange.of_existing(
        ObjectType.MACHINE, machine.identifier, (), command=Command.DELETE, partition_id=site_id
    )


def _read(look_up: LookUp, object_type: ObjectType, name: str) -> ops.ObjectRead:
    read = read_object(look_up, object_type, path_name=name)
    if read is None:
        is_machine = object_type is ObjectType.MACHINE
        hint = ": a directory server makes its machine at its first start; has it been started?"
        raise ObjectNotFound(
            f"the directory of this server has no {object_type.spec_name} {name}{hint if is_machine else ''}"
        )
    return read


def _read_service(machine: ops.ObjectRead) -> Service:
    value = dict(machine.properties or ()).get(Propid.QM_SERVICE)
    return Service(value if isinstance(value, int) else 0)
