"""Protocol of the control socket of a directory server: frames with JSON.

A frame is four octets with the length in big-endian order, and as many octets of JSON in UTF-8. Both sides
begin with a `Hello`. Then the client sends requests, one at a time, and the server answers each.
"""

import logging
import socket
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, MqdssmError, ObjectNotFound, OutcomeUnknown
from mqdssm.server.config import Address, MachineName, NameText
from mqdssm.server.snapshot import ServerSnapshot

PROTOCOL_VERSION: Final = 1
"""Version of this protocol; servers and clients one minor version apart share a version."""
REQUEST_BYTES_MAX: Final = 4 << 20
"""Longest request in octets: an object has at most 2 MiB (decision R66), and base64 adds a third."""
REPLY_BYTES_MAX: Final = 64 << 20
"""Longest reply in octets: the state of a server with thousands of sites."""
TOKEN_S_MAX: Final = 7 * 24 * 3600
"""Longest validity of a join token: a week."""
_LENGTH_BYTES: Final = 4

log: Final = logging.getLogger(__name__)


class _Document(BaseModel):
    """Base of all documents: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Hello(_Document):
    """First document of each side.

    Attributes:
        protocol: version of the protocol.
        machine_name: of the server; empty from a client.
    """

    protocol: int
    machine_name: str = ""


class StatusRequest(_Document):
    """Request for the state of the server; the reply is a `StatusReply`."""

    request: Literal["status"] = "status"


class ObjectChangeRequest(_Document):
    """Request for a change of an object; the reply is an `OutcomeReply`.

    Attributes:
        command: the change.
        element: name of the object's type, as ``Queue``.
        attributes: the object's attributes by their names of the specification, in the form of
            `DirectoryObject.to_json`. To write or delete an object, one attribute identifies it.
    """

    request: Literal["change"] = "change"
    command: Literal["create", "write", "delete"]
    element: str = Field(max_length=64)
    attributes: dict[str, Any]


class TakeOverRequest(_Document):
    """Request to own a partition whose owner is lost for good.

    The reply is an `OutcomeReply`.

    Attributes:
        partition: its identifier.
        from_running_owner: True to take it also from an owner that answers, which is not asked.
        dry_run: True to ask the owner only.
    """

    request: Literal["take-over"] = "take-over"
    partition: UUID
    from_running_owner: bool = False
    dry_run: bool = False


class NameAuthorityRequest(_Document):
    """Request to accept another server as the owner of a partition.

    The reply is an `OutcomeReply`. The request also confirms that this server steps down.
    """

    request: Literal["name-authority"] = "name-authority"
    partition: UUID
    machine_name: str = Field(min_length=1, max_length=256)


class ResynchronizeRequest(_Document):
    """Request for a full synchronization of a partition.

    The reply is an `OutcomeReply`.
    """

    request: Literal["resynchronize"] = "resynchronize"
    partition: UUID


class RoleRequest(_Document):
    """Request to give a machine another role; the reply is an `OutcomeReply`.

    The request goes to the owner of the partition that changes (docs/directory-servers.md).

    Attributes:
        machine_name: the machine.
        role: PEC hands the enterprise over to a PSC, PSC a site to a BSC; None: no directory server any more.
    """

    request: Literal["role"] = "role"
    machine_name: str = Field(min_length=1, max_length=256)
    role: Role | None


class SitePscRequest(_Document):
    """Request to the PEC to name another PSC of a site, whose PSC is lost for good.

    The reply is an `OutcomeReply`.

    Attributes:
        site: name of the site.
        machine_name: its new PSC; empty: none, before a site is removed whose PSC never started.
    """

    request: Literal["site-psc"] = "site-psc"
    site: str = Field(min_length=1, max_length=256)
    machine_name: str = Field(max_length=256)


class ServerRemovalRequest(_Document):
    """Request to the PSC of a site to remove a BSC; the reply is an `OutcomeReply`.

    Attributes:
        machine_name: machine of the BSC.
        dry_run: True to check only if it can be removed.
    """

    request: Literal["remove-server"] = "remove-server"
    machine_name: str = Field(min_length=1, max_length=256)
    dry_run: bool = False


class HostRequest(_Document):
    """Request to remember the address of a machine; the reply is an `OutcomeReply`."""

    request: Literal["host"] = "host"
    machine_name: str = Field(min_length=1, max_length=256)
    machine_id: UUID | None = None
    address: str = Field(max_length=300)


class AdmissionRequest(_Document):
    """Request to make the objects of a new directory server.

    The reply is an `AdmissionReply`. A PSC is admitted by the PEC, which makes its site. A BSC is
    admitted by the PSC of its site, which makes its machine. A repeated request has the same result.

    Attributes:
        machine_name: machine of the new server.
        machine_id: its QueueManager.Identifier.
        role: PSC or BSC.
        site: name of its site; for a BSC, the site of the server that is asked.
        site_id: identifier of the site if it is new.
        public_keys: PROPID_QM_SIGN_PK of the new server, in base64.
        address: address and port by which the others reach it.
    """

    request: Literal["admit"] = "admit"
    machine_name: MachineName
    machine_id: UUID
    role: Literal[Role.PSC, Role.BSC]
    site: Annotated[NameText, Field(min_length=1, max_length=256)]
    site_id: UUID
    public_keys: str = Field(max_length=64 << 10)
    address: Annotated[Address, Field(max_length=300)]


class TokenRequest(_Document):
    """Request for a join token; the reply is a `TokenReply`.

    Attributes:
        role: PSC or BSC, admitted as by an `AdmissionRequest`.
        site: its site.
        machine_name: its machine.
        address: address by which the new server reaches this one; empty: where this server listens.
        valid_s: seconds until the token expires.
    """

    request: Literal["token"] = "token"
    role: Literal[Role.PSC, Role.BSC]
    site: Annotated[NameText, Field(min_length=1, max_length=256)]
    machine_name: MachineName
    address: Annotated[str, Field(max_length=300)] = ""
    valid_s: int = Field(ge=60, le=TOKEN_S_MAX)


class TokenWithdrawalRequest(_Document):
    """Request to withdraw the join token for a machine.

    The reply is an `OutcomeReply`.
    """

    request: Literal["withdraw-token"] = "withdraw-token"
    machine_name: MachineName


class ServerStopRequest(_Document):
    """Request to stop the server; the reply comes before it stops."""

    request: Literal["stop"] = "stop"


Request = (
    StatusRequest
    | ObjectChangeRequest
    | TakeOverRequest
    | NameAuthorityRequest
    | ResynchronizeRequest
    | RoleRequest
    | SitePscRequest
    | ServerRemovalRequest
    | HostRequest
    | AdmissionRequest
    | TokenRequest
    | TokenWithdrawalRequest
    | ServerStopRequest
)


class StatusReply(_Document):
    """State of the server."""

    reply: Literal["status"] = "status"
    snapshot: ServerSnapshot


class OutcomeReply(_Document):
    """Outcome of a change.

    Attributes:
        status: HRESULT.
        identifier: of the object, if there is one.
    """

    reply: Literal["outcome"] = "outcome"
    status: int
    identifier: UUID | None = None


class KnownKey(_Document):
    """Key of a directory server that a new server has to know.

    Attributes:
        machine_name: its machine.
        machine_id: its QueueManager.Identifier.
        role: PEC or PSC.
        public_keys: its PROPID_QM_SIGN_PK in base64.
    """

    machine_name: str
    machine_id: UUID
    role: Literal[Role.PEC, Role.PSC]
    public_keys: str


class AdmissionReply(_Document):
    """Facts that a new directory server needs.

    Attributes:
        enterprise: name of the enterprise.
        site_id: identifier of its site.
        pec_name: machine of the PEC.
        psc_name: for a BSC, machine of its PSC; else empty.
        keys: of the PEC, and for a BSC of its PSC.
        hosts: known addresses by name of the machine.
    """

    reply: Literal["admitted"] = "admitted"
    enterprise: str
    site_id: UUID
    pec_name: str
    psc_name: str
    keys: tuple[KnownKey, ...]
    hosts: dict[str, str]


class TokenReply(_Document):
    """Join token.

    Attributes:
        token: its text, which is secret.
        expires: seconds since 1970.
        fingerprint: fingerprint of the server's key, which the token pins.
    """

    reply: Literal["token"] = "token"
    token: str = Field(repr=False)
    expires: int
    fingerprint: str


class RefusedReply(_Document):
    """Refusal of a request that cannot be carried out.

    Nothing was done, unless the kind is "unknown".

    Attributes:
        problem: the reason.
        kind: "usage" if the request is wrong, "not found" if there is no such object, "failure" if the
            server cannot do it now. "unknown" if the server does not know if the change was made.
    """

    reply: Literal["refused"] = "refused"
    problem: str
    kind: Literal["usage", "not found", "failure", "unknown"]


Reply = StatusReply | OutcomeReply | AdmissionReply | TokenReply | RefusedReply

REQUESTS: Final[TypeAdapter[Request]] = TypeAdapter(Annotated[Request, Field(discriminator="request")])
REPLIES: Final[TypeAdapter[Reply]] = TypeAdapter(Annotated[Reply, Field(discriminator="reply")])
HELLOS: Final[TypeAdapter[Hello]] = TypeAdapter(Hello)


def reply_of(act: Callable[[], Reply]) -> Reply:
    """Return the reply of an action, or a refusal if it raises an error.

    The kind "unknown" says that a change may have been made, or not.
    """
    try:
        return act()
    except ValidationError as error:
        return RefusedReply(problem=problem_of(error), kind="usage")
    except ObjectNotFound as error:
        return RefusedReply(problem=str(error), kind="not found")
    except ValueError as error:
        return RefusedReply(problem=str(error), kind="usage")
    except OutcomeUnknown as error:
        return RefusedReply(problem=str(error), kind="unknown")
    except MqdssmError as error:
        return RefusedReply(problem=str(error), kind="failure")
    except Exception:
        log.exception("a request fails by a defect")
        return RefusedReply(problem="a defect, described in the server's log", kind="unknown")


def send_document(connection: socket.socket, document: BaseModel, bytes_max: int) -> None:
    """Send a document.

    Raises:
        ConfigError: the document is too long; nothing was sent.
        OSError: the connection is lost.
    """
    data = document.model_dump_json().encode()
    if len(data) > bytes_max:
        raise ConfigError(f"a document of {len(data)} octets is too long for the control socket")
    connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)


def receive_document(connection: socket.socket, bytes_max: int) -> bytes | None:
    """Receive the octets of a document.

    Returns:
        None if the peer has closed the connection before it.

    Raises:
        ConfigError: the document is too long, or the connection ends within it.
        OSError: the connection is lost, or its time is over.
    """
    head = _receive(connection, _LENGTH_BYTES)
    if not head:
        return None
    length = int.from_bytes(head, "big")
    if len(head) < _LENGTH_BYTES or not 0 < length <= bytes_max:
        raise ConfigError(f"no frame of a control socket: {head.hex()}")
    data = _receive(connection, length)
    if len(data) < length:
        raise ConfigError(f"a frame ends after {len(data)} of {length} octets")
    return data


def _receive(connection: socket.socket, octets: int) -> bytes:
    """Receive so many octets; fewer if the connection ends."""
    parts = bytearray()
    while len(parts) < octets:
        part = connection.recv(min(octets - len(parts), 1 << 16))
        if not part:
            break
        parts += part
    return bytes(parts)


def problem_of(error: ValidationError) -> str:
    """Return the problems of a document that is not valid, without its values."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:5])
