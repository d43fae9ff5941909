"""New name for the machine of a directory server that is stopped.

The server writes the name into its objects at its next start. Others know it by its identifier and key
(docs/directory-servers.md, "Changing roles").
"""

from pydantic import ValidationError

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.store_thread import LookUp, list_objects, read_object
from mqdssm.engines.replication.properties import get_text
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import key_of
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.server.config import ServerConfig, ServerSection
from mqdssm.server.control_protocol import problem_of
from mqdssm.server.current_roles import read_current_identity
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.identity_file import write_identity
from mqdssm.server.private_directory import directory_of
from mqdssm.store.ldap import LdapStore


def rename_server(folder: DirectoryServerFolder, machine_name: str, *, dry_run: bool = False) -> ServerConfig:
    """Give the machine of a directory server another name; return the configuration.

    Args:
        folder: folder of the server, which must be stopped. A private directory runs meanwhile.
        machine_name: the new name.
        dry_run: True to check only if the name can be given.

    Raises:
        ConfigError: the server runs, was never started, or the file or the name cannot be used.
        GenericDirectoryError: another machine has the name.
        DirectoryError: the directory cannot be read.
    """
    with folder.lock():
        config = ServerConfig.read(folder.config)
        signing_key = bytes(PrivateKey.load(folder.key).public_keys())
        with directory_of(config.store, folder) as options:
            store = LdapStore.open(options)
            try:
                identity = read_current_identity(store, config.server, signing_key, folder.path)
                renamed = _with_name(identity, machine_name)
                _check_name(store.perform, identity, machine_name)
            finally:
                store.close()
        if not dry_run:
            write_identity(folder.config, renamed)
    return config.model_copy(update={"server": renamed})


def _with_name(identity: ServerSection, machine_name: str) -> ServerSection:
    """Return an identity with another name of the machine.

    Raises:
        ConfigError: no name of a machine, or the present one.
    """
    if key_of(machine_name) == key_of(identity.machine_name):
        raise ConfigError(f"{identity.machine_name} has this name already")
    names = {"machine_name": machine_name}
    if identity.role is Role.PEC:
        names["pec_name"] = machine_name
    try:
        return ServerSection(**{**identity.model_dump(), **names})
    except ValidationError as error:
        raise ConfigError(problem_of(error)) from None


def _check_name(look_up: LookUp, identity: ServerSection, machine_name: str) -> None:
    """Check that no other machine has a name.

    A PSC that never started is named by its site alone, the PEC also by the enterprise.

    Raises:
        ConfigError: the server has no machine object yet.
        GenericDirectoryError: another machine has the name.
        DirectoryError: the directory cannot be read.
    """
    own_id = Guid.of(identity.machine_id)
    if read_object(look_up, ObjectType.MACHINE, identifier=own_id) is None:
        raise ConfigError(
            f"the directory has no machine {identity.machine_name} yet: start the server, and rename it later"
        )
    machine = read_object(look_up, ObjectType.MACHINE, path_name=machine_name)
    names = [
        get_text(site.properties or (), Propid.S_PSC) or ""
        for site in list_objects(look_up, ObjectType.SITE)
        if site.identifier != Guid.of(identity.site_id)
    ]
    if identity.role is not Role.PEC:
        names.append(identity.pec_name)
    if (machine is not None and machine.identifier != own_id) or key_of(machine_name) in map(key_of, names):
        raise GenericDirectoryError(
            f"another machine has the name {machine_name}: choose another one; nothing was changed"
        )
