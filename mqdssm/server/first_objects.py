"""Enterprise, site and machine, which a directory server makes at first starts.

Each object is made once, also after a crash in between. A PSC has to own its partition first, and a BSC's
machine is made at its PSC.
"""

from collections.abc import Iterator
from pathlib import Path

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.store_thread import list_objects, read_object
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, DirectoryError, MappingError
from mqdssm.events.durable_files import write_atomically
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import is_failure, name_of
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.server.config import SERVICES, ServerSection
from mqdssm.server.object_changes import RequestedChange


def site_of(name: str, identifier: Guid, psc_name: str, signing_key: bytes) -> RequestedChange:
    """Return the creation of a site with its PSC."""
    properties = (Propid.S_PSC, psc_name), (Propid.S_PSC_SIGNPK, signing_key)
    return RequestedChange.build_creation(ObjectType.SITE, name, properties, identifier=identifier)


def machine_of(
    name: str, identifier: Guid, site_id: Guid, service: Service, signing_key: bytes
) -> RequestedChange:
    """Return the creation of a machine that is a directory server."""
    properties = (
        (Propid.QM_SITE_ID, site_id),
        (Propid.QM_ADDRESS, b""),
        (Propid.QM_CNS, ()),
        (Propid.QM_SERVICE, int(service)),
        (Propid.QM_SIGN_PK, signing_key),
    )
    return RequestedChange.build_creation(
        ObjectType.MACHINE, name, properties, partition_id=site_id, identifier=identifier
    )


def build_first_objects(server: ServerSection, signing_key: bytes) -> Iterator[RequestedChange]:
    """Yield the objects that a server makes, as changes, in their order.

    Args:
        server: identity of the server.
        signing_key: its public keys, as in PROPID_QM_SIGN_PK.
    """
    site_id, machine_id = Guid.of(server.site_id), Guid.of(server.machine_id)
    if server.role is Role.PEC:
        names = ((Propid.E_PECNAME, server.machine_name),)
        yield RequestedChange.build_creation(ObjectType.ENTERPRISE, server.enterprise, names)
        yield site_of(server.site, site_id, server.machine_name, signing_key)
    if server.role is not Role.BSC:
        yield machine_of(server.machine_name, machine_id, site_id, SERVICES[server.role], signing_key)


def make_first_objects(server: DirectoryServer, objects: tuple[RequestedChange, ...], marker: Path) -> str:
    """Make the objects that are missing.

    An enterprise and a site are made once only (decision T110): other servers have those of a directory
    that was lost, and send them.

    Args:
        server: the directory server.
        objects: its first objects, in their order.
        marker: file in the server's folder that exists when all objects have existed once; it is written.

    Returns:
        Why one cannot be made yet, or the marker cannot be written; empty if all exist.
    """
    is_founded = marker.exists()
    for first in objects:
        try:
            if _exists(server, first):
                continue
        except (DirectoryError, MappingError) as error:
            return f"the directory cannot be read: {error}"
        if is_founded and first.object_type is not ObjectType.MACHINE:
            return (
                f"{first.title} was made before, and is not in the directory: "
                "restore a backup, or write the key of a PSC that runs into server.toml as [[pinned]], and "
                "this server gets all from there. Only if there is no other server: remove "
                f"{marker} to begin a new enterprise"
            )
        if is_founded and not _owns(server, first.partition_id):
            return f"the partition of {first.title} is not owned yet"
        outcome = first.perform(server.driver)
        if is_failure(outcome.status):
            return f"{first.title} cannot be made: {name_of(outcome.status)}"
    if not is_founded:
        try:
            write_atomically(marker, ["The first objects of this server were made.\n"])
        except ConfigError as error:
            return str(error)
    return ""


def _exists(server: DirectoryServer, first: RequestedChange) -> bool:
    """Return True if the directory has the object, in any partition."""
    if first.object_type is ObjectType.ENTERPRISE:
        return bool(list_objects(server.store.lookup, first.object_type, first.partition_id))
    return read_object(server.store.lookup, first.object_type, identifier=first.identifier) is not None


def _owns(server: DirectoryServer, partition_id: Guid) -> bool:
    """Return True if the server owns a partition now."""
    partitions = server.driver.status().partitions
    return any(part.is_owned for part in partitions if part.partition_id == partition_id)
