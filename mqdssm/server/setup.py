"""Making the folder of a directory server: its key and its configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Protocol
from uuid import uuid4

from pydantic import ValidationError

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import (
    ConfigError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectNotFound,
    TransportError,
    convert_folder_errors,
)
from mqdssm.events.durable_files import write_atomically
from mqdssm.model.socket_addresses import parse_socket_address
from mqdssm.server.config import (
    PinnedSection,
    ServerConfig,
    ServerSection,
    StoreSection,
    TransportSection,
    encode_keys,
)
from mqdssm.server.control_protocol import AdmissionReply, AdmissionRequest, problem_of
from mqdssm.server.folder import DirectoryServerFolder


def make_pec(
    path: Path,
    *,
    enterprise: str,
    site: str,
    machine_name: str,
    listen: str,
    store: StoreSection,
    dry_run: bool = False,
) -> Path:
    """Make the folder of the PEC of a new enterprise; return its configuration file.

    Args:
        path: the new folder.
        enterprise: name of the enterprise.
        site: name of the PEC's site.
        machine_name: its machine.
        listen: address and port for messages.
        store: its directory.
        dry_run: True to make the checks only.

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
    if dry_run:
        folder = DirectoryServerFolder(path)
        folder.check_new()
        return folder.config
    return write_folder(path, config)


class Admitter(Protocol):
    """Server that admits new ones: a `ControlClient` or a `TokenClient`."""

    def admit(self, request: AdmissionRequest) -> AdmissionReply:
        """Have the objects of a new server made, as `ControlClient.admit`."""


def add_server(
    path: Path,
    client: Admitter,
    *,
    role: Literal[Role.PSC, Role.BSC],
    site: str,
    machine_name: str,
    listen: str,
    address: str = "",
) -> Path:
    """Make the folder of another directory server, admitted by one that works.

    A request whose outcome is unknown stays in the folder with its key. The same call repeats it.

    Args:
        path: the new folder, or that of a request whose outcome is unknown.
        client: the PEC for a PSC, the site's PSC for a BSC, by its control socket or a join token.
        role: PSC or BSC.
        site: its site; that of a PSC is made.
        machine_name: its machine.
        listen: IP address and port for messages.
        address: address and port by which the others reach it; empty: where it listens.

    Raises:
        ConfigError: a value that cannot be used, or the folder is not empty.
        ValueError: the other server cannot admit it.
        GenericDirectoryError: a change was refused.
        OutcomeUnknown: the objects of the new server may have been made.
        DirectoryNotConnected: the request was not sent.
        TransportError: with a token: the address cannot be listened on.
    """
    draft = _draft(role=role, site=site, machine_name=machine_name, listen=listen, address=address or listen)
    folder = DirectoryServerFolder(path)
    is_repeated = _has_request(folder)
    request = _read_begun(folder, draft) if is_repeated else _begin(folder, draft)
    try:
        reply = client.admit(request)
    except DirectoryNotConnected as error:  # OutcomeUnknown, too: the other server may have taken the key
        raise type(error)(f"{error}; {path} keeps the key and the request: repeat the command") from error
    except (GenericDirectoryError, ObjectNotFound, TransportError, ValueError):
        if not is_repeated:  # else the first request may have been carried out
            _discard(folder)
        raise
    file = _write_config(folder, _build_admitted_config(request, reply, listen))
    with convert_folder_errors(f"{folder.admission} cannot be removed"):
        folder.admission.unlink()
    return file


def check_addition(
    path: Path,
    client: "Checker | None",
    *,
    role: Literal[Role.PSC, Role.BSC],
    site: str,
    machine_name: str,
    listen: str,
    address: str = "",
) -> Path:
    """Make the checks of `add_server`; return the configuration file to be made.

    Nothing is changed.

    Args:
        path: as of `add_server`.
        client: the server that admits; None: it is not asked, as its token would be used.
        role: as of `add_server`.
        site: as of `add_server`.
        machine_name: as of `add_server`.
        listen: as of `add_server`.
        address: as of `add_server`.

    Raises:
        ConfigError: as `add_server`.
        ValueError: as `add_server`.
        DirectoryError: the other server would refuse the new one, or cannot be asked.
    """
    draft = _draft(role=role, site=site, machine_name=machine_name, listen=listen, address=address or listen)
    folder = DirectoryServerFolder(path)
    if _has_request(folder):
        _read_begun(folder, draft)
    else:
        folder.check_new()
        if client is not None:
            client.check(draft)
    return folder.config


class Checker(Protocol):
    """Server that checks if it can admit a new one: a `ControlClient`."""

    def check(self, request: AdmissionRequest) -> None:
        """Check that the server can be admitted, as `ControlClient.check`."""


def _draft(
    *, role: Literal[Role.PSC, Role.BSC], site: str, machine_name: str, listen: str, address: str
) -> AdmissionRequest:
    """Return a request with new identifiers, without a key.

    Raises:
        ConfigError: a value that cannot be used.
    """
    try:
        request = AdmissionRequest(
            machine_name=machine_name,
            machine_id=uuid4(),
            role=role,
            site=site,
            site_id=uuid4(),
            public_keys="",
            address=address,
        )
        TransportSection(listen=listen)
        _build_server_section(request, enterprise="", pec_name=machine_name, psc_name=machine_name)
    except ValidationError as error:
        raise ConfigError(problem_of(error)) from None
    reached = parse_socket_address(address)
    if reached.is_anywhere:
        raise ConfigError(f"give the address and port by which the others reach it, which is not {reached}")
    return request


def _has_request(folder: DirectoryServerFolder) -> bool:
    """Return True if the folder has a request whose outcome is unknown.

    Raises:
        ConfigError: the folder cannot be read.
    """
    with convert_folder_errors(f"{folder.path} cannot hold a directory server"):
        return folder.admission.exists() and not folder.config.exists()


def _begin(folder: DirectoryServerFolder, draft: AdmissionRequest) -> AdmissionRequest:
    """Make the folder with a new key and the request; return the request.

    Raises:
        ConfigError: the folder cannot be made, or is not empty.
    """
    folder.make()
    try:
        key = PrivateKey.load_or_generate(folder.key)
        request = draft.model_copy(update={"public_keys": encode_keys(key.public_keys())})
        write_atomically(folder.admission, [request.model_dump_json(indent=1)])
    except ConfigError:
        _discard(folder)
        raise
    return request


def _read_begun(folder: DirectoryServerFolder, draft: AdmissionRequest) -> AdmissionRequest:
    """Return the request that was begun in a folder.

    Raises:
        ConfigError: the files cannot be used, or belong to a request with other values than the draft.
    """
    with convert_folder_errors(f"{folder.admission} cannot be read"):
        data = folder.admission.read_bytes()
    try:
        request = AdmissionRequest.model_validate_json(data)
    except ValidationError as error:
        raise ConfigError(f"{folder.admission} is no request: {problem_of(error)}") from None
    keys = encode_keys(PrivateKey.load(folder.key).public_keys())
    own = {"machine_id": request.machine_id, "site_id": request.site_id, "public_keys": keys}
    if draft.model_copy(update=own) != request:
        raise ConfigError(
            f"{folder.path} has another request, for the {request.role} {request.machine_name} of "
            f"{request.site} at {request.address}: repeat that one, or name a new folder"
        )
    return request


def _discard(folder: DirectoryServerFolder) -> None:
    """Remove the folder of a request that was not carried out."""
    with convert_folder_errors(f"{folder.path} cannot be removed"):
        for file in (folder.admission, folder.key):
            file.unlink(missing_ok=True)
        folder.path.rmdir()


def _build_admitted_config(request: AdmissionRequest, reply: AdmissionReply, listen: str) -> ServerConfig:
    """Return the configuration of a server that was admitted.

    Raises:
        ConfigError: the reply has a value that cannot be used.
    """
    try:
        return ServerConfig(
            server=_build_server_section(
                request.model_copy(update={"site_id": reply.site_id}),
                enterprise=reply.enterprise,
                pec_name=reply.pec_name,
                psc_name=reply.psc_name,
            ),
            transport=TransportSection(listen=listen, hosts=reply.hosts),
            pinned=tuple(PinnedSection(**known_key.model_dump()) for known_key in reply.keys),
        )
    except ValidationError as error:
        raise ConfigError(f"the reply cannot be used: {problem_of(error)}") from None


def _build_server_section(
    request: AdmissionRequest, *, enterprise: str, pec_name: str, psc_name: str
) -> ServerSection:
    """Return the identity of a server that is admitted.

    The name of the PSC is left out for a PSC.
    """
    return ServerSection(
        machine_name=request.machine_name,
        machine_id=request.machine_id,
        role=request.role,
        enterprise=enterprise,
        site=request.site,
        site_id=request.site_id,
        pec_name=pec_name,
        psc_name=psc_name if request.role is Role.BSC else "",
    )


def write_folder(path: Path, config: ServerConfig) -> Path:
    """Make the folder of a server with its key, and its configuration at last.

    Raises:
        ConfigError: the folder cannot be made, or is not empty.
    """
    folder = DirectoryServerFolder(path)
    folder.make()
    PrivateKey.load_or_generate(folder.key)
    return _write_config(folder, config)


_OFF_HEAD: Final = (
    "# Off by default: remove the first # of each line of a table, and start the server again.\n"
)
_OFF: Final[Mapping[str, str]] = {
    "metrics": """#[metrics]  # status page, metrics for Prometheus and health, without log-in
#address = "127.0.0.1:9464"
""",
    "discovery": """#[discovery]  # answers machines that look for a directory server, on UDP
#listen = ["0.0.0.0:1801"]
""",
    "notification": """#[notification]
#send = true  # notifies the owners of changed objects; one server of the enterprise is enough
#receive = true  # receives notifications about objects of the server's own machine
""",
}
"""Tables of server.toml that are off by default, as comments."""


def _write_config(folder: DirectoryServerFolder, config: ServerConfig) -> Path:
    text = config.to_toml()
    off = [lines for table, lines in _OFF.items() if f"\n[{table}]" not in f"\n{text}"]
    write_atomically(folder.config, [text, "\n", "\n".join((_OFF_HEAD, *off)) if off else ""])
    return folder.config
