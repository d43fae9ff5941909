"""Making the folder of a directory server: its key and its configuration."""

from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from mqdssm.drivers.private_key import PrivateKey
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError
from mqdssm.server.config import ServerConfig, ServerSection, StoreSection, TransportSection
from mqdssm.server.control_protocol import problem_of
from mqdssm.server.folder import ServerFolder


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


def write_folder(path: Path, config: ServerConfig) -> Path:
    """Make the folder of a server with its key and its configuration, which is written last.

    Raises:
        ConfigError: the folder cannot be made, or is not empty.
    """
    folder = ServerFolder(path)
    folder.make()
    PrivateKey.load_or_generate(folder.key)
    folder.config.write_text(config.to_toml(), encoding="utf-8")
    folder.config.chmod(0o600)
    return folder.config
