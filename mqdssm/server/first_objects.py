"""Objects that a directory server makes at its first starts.

These are the enterprise, its site and its machine. Each is made once, also after a crash in between. A
PSC has to own its partition first, and a BSC's machine is made at its PSC.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mqdssm.drivers.directory_server import DirectoryServer
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import is_failure, name_of
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.config import SERVICES, ServerSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstObject:
    """Object that a server makes for itself.

    Attributes:
        object_type: its type.
        partition_id: its partition.
        name: its path name.
        identifier: its GUID; None: any.
        properties: its other properties.
    """

    object_type: ObjectType
    partition_id: Guid
    name: str
    identifier: Guid | None
    properties: Properties


def site_of(name: str, identifier: Guid, psc_name: str, signing_key: bytes) -> FirstObject:
    """Return the object of a site with its PSC."""
    return FirstObject(
        object_type=ObjectType.SITE,
        partition_id=PEC_PARTITION_ID,
        name=name,
        identifier=identifier,
        properties=((Propid.S_PSC, psc_name), (Propid.S_PSC_SIGNPK, signing_key)),
    )


def machine_of(
    name: str, identifier: Guid, site_id: Guid, service: Service, signing_key: bytes
) -> FirstObject:
    """Return the object of a machine that is a directory server."""
    return FirstObject(
        object_type=ObjectType.MACHINE,
        partition_id=site_id,
        name=name,
        identifier=identifier,
        properties=(
            (Propid.QM_SITE_ID, site_id),
            (Propid.QM_ADDRESS, b""),
            (Propid.QM_CNS, ()),
            (Propid.QM_SERVICE, int(service)),
            (Propid.QM_SIGN_PK, signing_key),
        ),
    )


def first_objects(server: ServerSection, signing_key: bytes) -> Iterator[FirstObject]:
    """Yield the objects that a server makes, in their order.

    Args:
        server: identity of the server.
        signing_key: its public keys, as in PROPID_QM_SIGN_PK.
    """
    site_id, machine_id = Guid.of(server.site_id), Guid.of(server.machine_id)
    if server.role is Role.PEC:
        yield FirstObject(
            object_type=ObjectType.ENTERPRISE,
            partition_id=PEC_PARTITION_ID,
            name=server.enterprise,
            identifier=None,
            properties=((Propid.E_PECNAME, server.machine_name),),
        )
        yield site_of(server.site, site_id, server.machine_name, signing_key)
    if server.role is not Role.BSC:
        yield machine_of(server.machine_name, machine_id, site_id, SERVICES[server.role], signing_key)


def make_first_objects(server: DirectoryServer, objects: tuple[FirstObject, ...]) -> str:
    """Make the objects that are missing.

    Returns:
        Why one cannot be made yet; empty if all exist.
    """
    for first in objects:
        try:
            if _exists(server, first):
                continue
        except DirectoryError as error:
            return f"the directory cannot be read: {error}"
        outcome = server.driver.change(
            command=Command.CREATE,
            object_type=first.object_type,
            partition_id=first.partition_id,
            path_name=first.name,
            identifier=first.identifier,
            properties=first.properties,
        )
        if is_failure(outcome.status):
            return f"{first.object_type.spec_name} {first.name} cannot be made: {name_of(outcome.status)}"
    return ""


def _exists(server: DirectoryServer, first: FirstObject) -> bool:
    """Return True if the directory has the object, in any partition."""
    if first.object_type is ObjectType.ENTERPRISE:
        listed = server.store.lookup(
            ops.ListObjects(object_type=first.object_type, partition_id=first.partition_id)
        )
        return isinstance(listed, ops.ObjectsListed) and bool(listed.objects)
    read = server.store.lookup(ops.ReadObject(object_type=first.object_type, identifier=first.identifier))
    return isinstance(read, ops.ObjectRead) and not is_failure(read.status)
