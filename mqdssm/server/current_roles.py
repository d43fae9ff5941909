"""Roles that directory servers have now.

PROPID_QM_SERVICE says which servers are BSCs. A handover of the enterprise leaves it as it was: the
enterprise names its PEC, and every other owner of a site is a PSC (decision T111).
"""

from pathlib import Path

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.properties import get_roles, get_text, get_value
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import key_of
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.errors import ConfigError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import is_failure
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.config import ServerSection
from mqdssm.store.performer import Store


def role_of(service: Service, machine_name: str, pec_name: str) -> Role | None:
    """Return the role of a machine; None if it is no directory server.

    Args:
        service: PROPID_QM_SERVICE of the machine.
        machine_name: its name.
        pec_name: machine of the PEC; empty: not known, and PROPID_QM_SERVICE counts.
    """
    if not service & (Service.PEC | Service.PSC):
        return Role.BSC if service & Service.BSC else None
    is_pec = key_of(machine_name) == key_of(pec_name) if pec_name else bool(service & Service.PEC)
    return Role.PEC if is_pec else Role.PSC


def pec_name_of(status: ServerStatus) -> str:
    """Return the machine of the PEC that a running server knows; else empty."""
    names = (part.authority_name for part in status.partitions if part.partition_id == PEC_PARTITION_ID)
    return next(names, "")


def role_of_running(server: DirectoryServer) -> Role:
    """Return the role of a running server by what it owns, else its first role."""
    status = server.driver.status()
    if status.psc_name:
        return Role.BSC
    owned = {partition.partition_id for partition in status.partitions if partition.is_owned}
    if PEC_PARTITION_ID in owned:
        return Role.PEC
    return Role.PSC if owned else server.settings.role


def read_current_identity(
    store: Store, server: ServerSection, signing_key: bytes, folder: Path
) -> ServerSection:
    """Return the identity of a configured server, with its role by the directory.

    The directory counts (decisions T60, T133). At the first start it has no role yet.

    Args:
        store: the directory.
        server: the configured identity.
        signing_key: its public keys, as in PROPID_QM_SIGN_PK.
        folder: folder of the server.

    Raises:
        ConfigError: the key is another one, or the machine is no directory server any more.
        DirectoryError: the directory cannot be read.
    """
    identifier = Guid.of(server.machine_id)
    read = store.perform(ops.ReadObject(object_type=ObjectType.MACHINE, identifier=identifier))
    if is_failure(read.status):
        return server  # the first start
    properties = read.properties or ()
    stored_key = get_value(properties, Propid.QM_SIGN_PK)
    if stored_key and stored_key != signing_key:
        raise ConfigError(
            f"key.pem in {folder} is not the key that other servers know of {server.machine_name}: put the "
            "former file back, from a backup"
        )
    partitions = {part.partition_id: part for part in store.perform(ops.LoadState()).partitions}
    enterprise, site = partitions.get(PEC_PARTITION_ID), partitions.get(Guid.of(server.site_id))
    is_pec = enterprise is not None and enterprise.owned
    pec_name = server.machine_name if is_pec else _read_pec_name(store, server)
    role = role_of(get_roles(properties) or Service.NONE, server.machine_name, pec_name)
    if role is None:
        raise ConfigError(
            f"the directory has {server.machine_name} without a role of a directory server: remove "
            f"{folder}, or give the machine its role again at the owner of its site"
        )
    return _with_role(server, role, pec_name, "" if site is None or site.owned else site.authority_name)


def identity_of_running(server: DirectoryServer, configured: ServerSection) -> ServerSection:
    """Return the identity of a running server, with the role that it has now."""
    status = server.driver.status()
    return _with_role(configured, role_of_running(server), pec_name_of(status), status.psc_name)


def _with_role(server: ServerSection, role: Role, pec_name: str, psc_name: str) -> ServerSection:
    """Return an identity with another role; names that are not known stay.

    Nothing changes if a BSC knows no PSC but itself, as in the middle of a handover.
    """
    own = key_of(server.machine_name)
    psc_name = next((name for name in (psc_name, server.psc_name) if name and key_of(name) != own), "")
    if role is Role.BSC and not psc_name:
        return server
    names = {
        "role": role,
        "pec_name": server.machine_name if role is Role.PEC else pec_name or server.pec_name,
        "psc_name": psc_name if role is Role.BSC else "",
    }
    return ServerSection(**{**server.model_dump(), **names})


def _read_pec_name(store: Store, server: ServerSection) -> str:
    """Return the machine of the PEC by the enterprise's object.

    Without an enterprise, as in a directory that is not whole yet, the configuration counts.
    """
    listing = ops.ListObjects(object_type=ObjectType.ENTERPRISE, partition_id=PEC_PARTITION_ID)
    listed = store.perform(listing).objects
    named = get_text(listed[0].properties or (), Propid.E_PECNAME) if listed else None
    return named or (server.machine_name if server.role is Role.PEC else server.pec_name)
