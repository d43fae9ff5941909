"""Making the folder of a directory server: its key and its configuration."""

from pathlib import Path
from typing import Literal
from uuid import uuid4

from pydantic import ValidationError

from mqdssm.drivers.private_key import PrivateKey
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, MqdssmError, OutcomeUnknown
from mqdssm.events.durable_files import replace_file
from mqdssm.server.config import (
    PinnedSection,
    ServerConfig,
    ServerSection,
    StoreSection,
    TransportSection,
    encoded_keys,
    parse_address,
)
from mqdssm.server.control_client import ControlClient
from mqdssm.server.control_protocol import AdmissionRequest, problem_of
from mqdssm.server.folder import DirectoryServerFolder


def make_pec(
    path: Path, *, enterprise: str, site: str, machine_name: str, listen: str, store: StoreSection
) -> Path:
    """Make the folder of the PEC of a new enterprise; return its configuration file.

    Args:
        path: the new folder.
        enterprise: name of the enterprise.
        site: name of the PEC's site.
        machine_name: its machine.
        listen: address and port for messages.
        store: its directory.

    Raises:
        ConfigError: a value that cannot be used, or the folder is not empty.
    """
    try:
        config = ServerConfig(
            server=ServerSection(
                machine_name=machine_name,
                machine_id=uuid4(),
                role=Role.PEC,
                enterprise=enterprise,
                site=site,
                site_id=uuid4(),
                pec_name=machine_name,
            ),
            transport=TransportSection(listen=listen),
            store=store,
        )
    except ValidationError as error:
        raise ConfigError(problem_of(error)) from None
    if not enterprise.strip():
        raise ConfigError("the enterprise needs a name")
    return write_folder(path, config)


def add_server(
    path: Path,
    client: ControlClient,
    *,
    role: Literal[Role.PSC, Role.BSC],
    site: str,
    machine_name: str,
    listen: str,
) -> Path:
    """Make the folder of another directory server, admitted by one that works.

    Args:
        path: the new folder.
        client: control socket of the PEC for a PSC, of the site's PSC for a BSC.
        role: PSC or BSC.
        site: its site; that of a PSC is made.
        machine_name: its machine.
        listen: address and port for messages, by which the others reach it.

    Raises:
        ConfigError: a value that cannot be used, or the folder is not empty.
        ValueError: the other server cannot admit it.
        DirectoryError: a change was refused.
    """
    if parse_address(listen).host in {"0.0.0.0", "::"}:  # noqa: S104  refused
        raise ConfigError("give an address to listen on by which the other servers reach this one")
    folder = DirectoryServerFolder(path)
    folder.make()
    key = PrivateKey.load_or_generate(folder.key)
    machine_id = uuid4()
    request = AdmissionRequest(
        machine_name=machine_name,
        machine_id=machine_id,
        role=role,
        site=site,
        site_id=uuid4(),
        public_keys=encoded_keys(key.public_keys()),
        address=listen,
    )
    try:
        reply = client.admit(request)
    except OutcomeUnknown:
        raise  # the other server may have taken the key
    except (MqdssmError, ValueError):
        folder.key.unlink()
        folder.path.rmdir()
        raise
    config = ServerConfig(
        server=ServerSection(
            machine_name=machine_name,
            machine_id=machine_id,
            role=role,
            enterprise=reply.enterprise,
            site=site,
            site_id=reply.site_id,
            pec_name=reply.pec_name,
            psc_name=reply.psc_name,
        ),
        transport=TransportSection(listen=listen, hosts=reply.hosts),
        pinned=tuple(PinnedSection(**known_key.model_dump()) for known_key in reply.keys),
    )
    return _write_config(folder, config)


def write_folder(path: Path, config: ServerConfig) -> Path:
    """Make the folder of a server with its key, and its configuration at last.

    Raises:
        ConfigError: the folder cannot be made, or is not empty.
    """
    folder = DirectoryServerFolder(path)
    folder.make()
    PrivateKey.load_or_generate(folder.key)
    return _write_config(folder, config)


def _write_config(folder: DirectoryServerFolder, config: ServerConfig) -> Path:
    replace_file(folder.config, [config.to_toml().encode()])
    return folder.config
