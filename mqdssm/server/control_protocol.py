"""Protocol of the control socket of a directory server: frames with JSON.

A frame is four octets with the length in big-endian order, and as many octets of JSON in UTF-8. Both sides
begin with a `Hello`. Then the client sends requests, one at a time, and the server answers each.

Server and client may be one minor version apart (decision T151). A client ignores fields of replies that it
does not know, and newer replies have defaults for fields that older servers do not send. A server refuses a
request with a field that it does not know, since it would do something else; a field with its default is not
sent. Another meaning of a field needs another version of the protocol.
"""

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

import mqdssm
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, MqdssmError, ObjectNotFound, OutcomeUnknown
from mqdssm.server.config import Address, MachineName, NameText
from mqdssm.server.snapshot import ServerSnapshot

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

PROTOCOL_VERSION: Final = 1
"""Newest version of this protocol that is spoken."""
PROTOCOL_OLDEST: Final = 1
"""Oldest version that is spoken: that of the previous minor version of mqdssm."""
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


class _Request(_Document):
    """Base of all requests.

    A field with its default is not sent, so that older servers need not know it.
    """

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        return {
            name: value
            for name, value in serialize(self).items()
            if name == "request" or getattr(self, name) != defaults[name]
        }


class Hello(_Document):
    """First document of each side.

    Attributes:
        protocol: newest version of the protocol that it speaks.
        oldest: oldest version that it speaks; None: the newest alone.
        mqdssm: its version of mqdssm; empty: not known.
        machine_name: of the server; empty from a client.
    """

    protocol: int
    oldest: int | None = None
    mqdssm: str = ""
    machine_name: str = ""

    @classmethod
    def own(cls, machine_name: str = "") -> "Hello":
        """Return the document of this program."""
        return cls(
            protocol=PROTOCOL_VERSION,
            oldest=PROTOCOL_OLDEST,
            mqdssm=mqdssm.__version__,
            machine_name=machine_name,
        )

    def problem(self) -> str:
        """Return why this program cannot speak with the sender; empty if it can."""
        oldest = self.protocol if self.oldest is None else self.oldest
        if oldest <= PROTOCOL_VERSION and self.protocol >= PROTOCOL_OLDEST:
            return ""
        return (
            f"it is mqdssm {self.mqdssm or '?'} with {_format_versions(oldest, self.protocol)} of the "
            f"control protocol, this is mqdssm {mqdssm.__version__} with "
            f"{_format_versions(PROTOCOL_OLDEST, PROTOCOL_VERSION)}; they may be one minor version apart: "
            "use the mqdssm of the server"
        )


def _format_versions(oldest: int, newest: int) -> str:
    return f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"


class StatusRequest(_Request):
    """Request for the state of the server; the reply is a `StatusReply`."""

    request: Literal["status"] = "status"


class ObjectChangeRequest(_Request):
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


class TakeOverRequest(_Request):
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


class NameAuthorityRequest(_Request):
    """Request to accept another server as the owner of a partition.

    The reply is an `OutcomeReply`. The request also confirms that this server steps down.
    """

    request: Literal["name-authority"] = "name-authority"
    partition: UUID
    machine_name: str = Field(min_length=1, max_length=256)


class ResynchronizeRequest(_Request):
    """Request for a full synchronization of a partition.

    The reply is an `OutcomeReply`.
    """

    request: Literal["resynchronize"] = "resynchronize"
    partition: UUID


class RoleRequest(_Request):
    """Request to give a machine another role; the reply is an `OutcomeReply`.

    The request goes to the owner of the partition that changes (docs/directory-servers.md).

    Attributes:
        machine_name: the machine.
        role: PEC hands the enterprise over to a PSC, PSC a site to a BSC; None: no directory server any more.
    """

    request: Literal["role"] = "role"
    machine_name: str = Field(min_length=1, max_length=256)
    role: Role | None


class SitePscRequest(_Request):
    """Request to the PEC to name another PSC of a site, whose PSC is lost for good.

    The reply is an `OutcomeReply`.

    Attributes:
        site: name of the site.
        machine_name: its new PSC; empty: none, before a site is removed whose PSC never started.
    """

    request: Literal["site-psc"] = "site-psc"
    site: str = Field(min_length=1, max_length=256)
    machine_name: str = Field(max_length=256)


class ServerRemovalRequest(_Request):
    """Request to the PSC of a site to remove a BSC; the reply is an `OutcomeReply`.

    Attributes:
        machine_name: machine of the BSC.
        dry_run: True to check only if it can be removed.
    """

    request: Literal["remove-server"] = "remove-server"
    machine_name: str = Field(min_length=1, max_length=256)
    dry_run: bool = False


class SiteRequest(_Request):
    """Request to the PEC to create a site without a PSC.

    The reply is an `OutcomeReply`.

    Attributes:
        attributes: attributes of the Site by their names of the specification, with its Name.
    """

    request: Literal["site"] = "site"
    attributes: dict[str, Any]


class HostRequest(_Request):
    """Request to remember the address of a machine; the reply is an `OutcomeReply`."""

    request: Literal["host"] = "host"
    machine_name: str = Field(min_length=1, max_length=256)
    machine_id: UUID | None = None
    address: str = Field(max_length=300)


class AdmissionRequest(_Request):
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


class TokenRequest(_Request):
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


class TokenWithdrawalRequest(_Request):
    """Request to withdraw the join token for a machine.

    The reply is an `OutcomeReply`.
    """

    request: Literal["withdraw-token"] = "withdraw-token"
    machine_name: MachineName


class DryRunRequest(_Request):
    """Request to check another request, and to change nothing.

    The reply is an `OutcomeReply`, or the refusal that the other request would get.

    Attributes:
        checked: the other request.
    """

    request: Literal["dry-run"] = "dry-run"
    checked: Annotated[
        SiteRequest | RoleRequest | HostRequest | AdmissionRequest | TokenRequest | TokenWithdrawalRequest,
        Field(discriminator="request"),
    ]


class ServerStopRequest(_Request):
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
    | SiteRequest
    | HostRequest
    | AdmissionRequest
    | TokenRequest
    | TokenWithdrawalRequest
    | DryRunRequest
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


RefusalKind = Literal["usage", "not found", "failure", "unknown"]


def _replace_unknown_kind(kind: str) -> str:
    return kind if kind in get_args(RefusalKind) else "unknown"


class RefusedReply(_Document):
    """Refusal of a request that cannot be carried out.

    Nothing was done, unless the kind is "unknown".

    Attributes:
        problem: the reason.
        kind: "usage" if the request is wrong, "not found" if there is no such object, "failure" if the
            server cannot do it now. "unknown" if the server does not know if the change was made; a kind of
            a newer server is read as this one.
    """

    reply: Literal["refused"] = "refused"
    problem: str
    kind: Annotated[RefusalKind, BeforeValidator(_replace_unknown_kind)]


Reply = StatusReply | OutcomeReply | AdmissionReply | TokenReply | RefusedReply

REQUESTS: Final[TypeAdapter[Request]] = TypeAdapter(Annotated[Request, Field(discriminator="request")])
REPLIES: Final[TypeAdapter[Reply]] = TypeAdapter(Annotated[Reply, Field(discriminator="reply")])
HELLOS: Final[TypeAdapter[Hello]] = TypeAdapter(Hello)


def read_leniently(documents: TypeAdapter[T], data: bytes) -> T:
    """Read a document, without the fields that only a newer version knows.

    Raises:
        ValidationError: it is no such document.
    """
    return documents.validate_json(data, extra="ignore")


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
    """Return the problems of a document that is not valid, without its values.

    A field or a request that is not known is named, with the version that does not know it.
    """
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(": ".join(filter(None, _place_and_words(problem))) for problem in problems[:5])


def _place_and_words(problem: "ErrorDetails") -> tuple[str, str]:
    """Return the place of a problem, which may be empty, and its words."""
    place, words = ".".join(map(str, problem["loc"])), problem["msg"]
    unknown = (
        f"not known to mqdssm {mqdssm.__version__}: a newer one made it; upgrade the server, or do without"
    )
    if problem["type"] == "extra_forbidden":
        words = unknown
    elif problem["type"] == "union_tag_invalid":
        words = f"{problem['ctx']['tag'][:64]!r} is {unknown}"
    return place, words
