"""Join token of a directory server on another host, and its documents.

The server that admits makes the token (decision T136), and an operator carries it to the new host, as a file.
Both sides derive keys from its secret, and seal their documents with them. An authentication code proves that
the sender has the token, and a signature that it has the key which the other side pins. Nothing is encrypted:
no document is secret.

Both hosts may be one minor version apart (decision T152): unknown fields of tokens and replies are ignored,
and requests with such fields are refused. A change of the sealing itself needs other prefixes and purposes.
"""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID, uuid4

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

import mqdssm
from mqdssm.directory.secret import Secret
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import find_signing_key
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, DecodeError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.transport import HashAlgorithm
from mqdssm.server.config import Address, MachineName, NameText
from mqdssm.server.control_protocol import AdmissionReply, AdmissionRequest, RefusedReply, problem_of
from mqdssm.wire.keys import PublicKeys

_ANY_PREFIX: Final = "mqdssm-join-"
PREFIX: Final = f"{_ANY_PREFIX}1."
"""Beginning of a token, with its version."""
TOKEN_BYTES_MAX: Final = 4096
"""Longest text of a token."""
SECRET_BYTES: Final = 32
"""Length of a secret: nobody guesses 256 bits."""
DOCUMENT_BYTES_MAX: Final = 128 << 10
"""Longest sealed request: an `AdmissionRequest` has at most 64 KiB of keys."""
_REQUEST: Final = b"mqdssm join request 1\0"
_REPLY: Final = b"mqdssm join reply 1\0"
_CHANNEL: Final = b"mqdssm join channel 1\0"


class _Document(BaseModel):
    """Base of all documents: immutable, without unknown fields or values in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class TokenClaims(_Document):
    """Facts that a token states.

    Attributes:
        token_id: identifier of the token.
        expires: seconds since 1970 after which it is worthless.
        role: role of the new server.
        site: its site.
        machine_name: its machine.
        server_name: machine of the server that admits.
        server_id: its QueueManager.Identifier.
        address: its address.
        fingerprint: `fingerprint_of` its public keys.
    """

    token_id: UUID
    expires: int
    role: Literal[Role.PSC, Role.BSC]
    site: Annotated[NameText, Field(min_length=1, max_length=256)]
    machine_name: MachineName
    server_name: MachineName
    server_id: UUID
    address: Address
    fingerprint: str


def _check_secret(text: str) -> str:
    if len(b64decode(text, validate=True)) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} octets")
    return text


class _TokenText(_Document):
    """Content of a token's text."""

    claims: TokenClaims
    secret: Annotated[str, AfterValidator(_check_secret)] = Field(repr=False)


@dataclass(frozen=True, slots=True)
class JoinToken:
    """Token: its claims and its secret.

    Attributes:
        claims: what it states.
        secret: octets in base64; they are never printed.
    """

    claims: TokenClaims
    secret: Secret = field(repr=False)

    @classmethod
    def new(cls, **claims: Any) -> Self:
        """Make a token with a new identifier and secret.

        Raises:
            ValidationError: a claim that cannot be.
        """
        secret = Secret(b64encode(token_bytes(SECRET_BYTES)).decode())
        return cls(TokenClaims(token_id=uuid4(), **claims), secret)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a token.

        Raises:
            ConfigError: no token of this version; the text is not quoted.
        """
        if text.strip().startswith(_ANY_PREFIX) and not text.strip().startswith(PREFIX):
            raise ConfigError(
                f"this join token is not of the version that mqdssm {mqdssm.__version__} knows: use the "
                "mqdssm of the server that made it"
            )
        try:
            content = _TokenText.model_validate_json(urlsafe_b64decode(_body_of(text)), extra="ignore")
        except ValueError:  # of pydantic and base64, too; their words may quote the secret
            raise ConfigError(
                "this is no whole join token: 'mqdssm enterprise make-token' makes one"
            ) from None
        return cls(content.claims, Secret(content.secret))

    def reveal(self) -> str:
        """Return the text of the token, which is secret."""
        content = {"claims": self.claims.model_dump(mode="json"), "secret": self.secret.reveal()}
        return PREFIX + urlsafe_b64encode(json.dumps(content).encode()).decode()

    def is_expired(self, now: float) -> bool:
        """Return True if the token is worthless at a time, in seconds since 1970."""
        return now >= self.claims.expires

    def channel(self, nonce: str) -> Guid:
        """Return the queue manager's identifier with which the new server asks.

        The identifier comes from the secret: nobody can choose that of another machine, and have its messages
        sent elsewhere.
        """
        return Guid(self.code(_CHANNEL, nonce.encode())[:GUID_BYTES])

    def code(self, purpose: bytes, data: bytes) -> bytes:
        """Return the authentication code of some octets, with a key for a purpose."""
        key = hmac.digest(b64decode(self.secret.reveal()), purpose, hashlib.sha256)
        return hmac.digest(key, self.claims.token_id.bytes + data, hashlib.sha256)


def _body_of(text: str) -> bytes:
    """Return the part of a token's text behind its prefix.

    Raises:
        ValueError: the text has another beginning, or is too long.
    """
    stripped = text.strip()
    if not stripped.startswith(PREFIX) or len(stripped) > TOKEN_BYTES_MAX:
        raise ValueError("no token")
    return stripped.removeprefix(PREFIX).encode("ascii")


class Sealed(_Document):
    """Sealed document, the body of a message.

    Attributes:
        token_id: identifier of the token.
        document: the document's octets, in base64.
        signature: signature of the sender's key, in base64.
        code: authentication code of the document, in base64.
    """

    token_id: UUID
    document: str
    signature: str
    code: str

    @classmethod
    def parse(cls, body: bytes) -> Self | None:
        """Read the body of a message; None if it is no sealed document."""
        try:
            return cls.model_validate_json(body, extra="ignore")
        except ValidationError:
            return None


class JoinRequest(_Document):
    """Request of a new server.

    Attributes:
        nonce: random text, which the reply repeats.
        request: names, key and address of the new server.
    """

    nonce: Annotated[str, Field(min_length=16, max_length=64)]
    request: AdmissionRequest


class JoinReply(_Document):
    """Reply of the server that admits.

    Attributes:
        nonce: that of the request.
        public_keys: PROPID_QM_SIGN_PK of the server, in base64.
        reply: facts that the new server needs, or the reason of a refusal.
    """

    nonce: str
    public_keys: str
    reply: Annotated[AdmissionReply | RefusedReply, Field(discriminator="reply")]


def fingerprint_of(public_keys: bytes) -> str:
    """Return a short text that identifies public keys, in the form of OpenSSH.

    Args:
        public_keys: PROPID_QM_SIGN_PK.
    """
    return "SHA256:" + b64encode(hashlib.sha256(public_keys).digest()).decode().rstrip("=")


def seal_request(token: JoinToken, key: PrivateKey, request: JoinRequest) -> bytes:
    """Return the body of a message with a request."""
    return _seal(token, key, _REQUEST, request)


def seal_reply(token: JoinToken, key: PrivateKey, reply: JoinReply) -> bytes:
    """Return the body of a message with a reply."""
    return _seal(token, key, _REPLY, reply)


def open_request(token: JoinToken, sealed: Sealed) -> tuple[JoinRequest, str] | None:
    """Return a request that was sealed with the token, and its unknown fields.

    Returns:
        None if somebody without the token sealed it. Unknown fields are a reason to refuse the request, in
        words; an empty text if there are none.

    Raises:
        ValueError: it was not signed with the key that it has, or is no request.
    """
    opened = _open(token, _REQUEST, sealed)
    if opened is None:
        return None
    document, signature = opened
    try:
        request = JoinRequest.model_validate_json(document, extra="ignore")
    except ValidationError as error:
        raise ValueError(f"no request of this version: {problem_of(error)}") from None
    if not _is_signed(request.request.public_keys, token, _REQUEST, document, signature):
        raise ValueError("the request is not signed with its key")
    return request, _describe_unknown_in(document)


def _describe_unknown_in(document: bytes) -> str:
    """Return the unknown fields of a request in words; empty if there are none."""
    try:
        JoinRequest.model_validate_json(document)
    except ValidationError as error:
        return problem_of(error)
    return ""


def open_reply(token: JoinToken, sealed: Sealed) -> JoinReply | None:
    """Return a reply that was sealed with the token and the key that the token pins.

    Returns:
        None if the token or the key was another one, or it is no reply.
    """
    opened = _open(token, _REPLY, sealed)
    if opened is None:
        return None
    try:
        reply = JoinReply.model_validate_json(opened[0], extra="ignore")
        fingerprint = fingerprint_of(b64decode(reply.public_keys, validate=True))
    except ValueError:  # of pydantic, too
        return None
    is_pinned = fingerprint == token.claims.fingerprint
    return reply if is_pinned and _is_signed(reply.public_keys, token, _REPLY, *opened) else None


def _seal(token: JoinToken, key: PrivateKey, purpose: bytes, content: BaseModel) -> bytes:
    document = content.model_dump_json().encode()
    signature = key.sign(_join_signed_octets(token, purpose, document), HashAlgorithm.SHA256)
    sealed = Sealed(
        token_id=token.claims.token_id,
        document=b64encode(document).decode(),
        signature=b64encode(signature).decode(),
        code=b64encode(token.code(purpose, document)).decode(),
    )
    return sealed.model_dump_json().encode()


def _open(token: JoinToken, purpose: bytes, sealed: Sealed) -> tuple[bytes, bytes] | None:
    """Return document and signature; None if somebody without the token sealed them."""
    try:
        octets = (sealed.document, sealed.signature, sealed.code)
        document, signature, code = (b64decode(text, validate=True) for text in octets)
    except ValueError:
        return None
    return (document, signature) if hmac.compare_digest(token.code(purpose, document), code) else None


def _is_signed(public_keys: str, token: JoinToken, purpose: bytes, document: bytes, signature: bytes) -> bool:
    """Return True if one of some public keys, in base64, signed a document."""
    try:
        keys = PublicKeys.from_bytes(b64decode(public_keys, validate=True)).keys
    except (DecodeError, ValueError):
        return False
    signed = _join_signed_octets(token, purpose, document)
    return find_signing_key(keys, signed, signature, HashAlgorithm.SHA256) is not None


def _join_signed_octets(token: JoinToken, purpose: bytes, document: bytes) -> bytes:
    """Return the octets that a signature covers."""
    return purpose + token.claims.token_id.bytes + document
