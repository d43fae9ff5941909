"""Log-in by GSS-SPNEGO, and its security layer.

The layer signs and seals the connection ([MS-ADTS] 5.1.1.1.2, 5.1.2).

NTLM comes with pyspnego itself (extra ``ad``); Kerberos needs the system's library as well (extra
``kerberos``). Without TLS everything is signed and sealed; over TLS it must not be, and the
log-in is bound to the server's certificate instead ([RFC5929] 4).
"""

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from mqdssm.directory import failures
from mqdssm.directory.requests import encode_sasl_bind
from mqdssm.directory.responses import BIND_RESPONSE, LdapResult, MessageSplitter, decode_result
from mqdssm.directory.secret import remove_frames
from mqdssm.errors import ConfigError, DecodeError, DirectoryNotConnected, MissingPackageError

if TYPE_CHECKING:
    from mqdssm.directory.options import ConnectionOptions, Endpoint

MECHANISM: Final = "GSS-SPNEGO"
IN_PROGRESS: Final = 14
LEGS_MAX: Final = 10
"""Maximum requests of one log-in: NTLM takes two, Kerberos one or two."""
PLAIN_BYTES_MAX: Final = 60_000
"""Maximum octets sealed in one buffer: servers accept 64 KiB at least."""
SEALED_BYTES_MAX: Final = (1 << 24) + 4096
"""Maximum size of a sealed buffer: SASL's maximum, and the overhead of sealing."""
RECEIVE_BYTES: Final = 256 * 1024

_PROTOCOLS: Final = {"spnego": "negotiate", "ntlm": "ntlm", "kerberos": "kerberos"}


class Wire(Protocol):
    """Transport of the octets of a log-in."""

    def sendall(self, data: bytes, /) -> None:
        """Send all octets."""

    def recv(self, size: int, /) -> bytes:
        """Receive some octets; none at the end of the stream."""


@dataclass(frozen=True, slots=True)
class SaslLogIn:
    """Options, server and certificate of a log-in.

    Attributes:
        options: who, and how.
        endpoint: the server.
        certificate: of the server as DER, over TLS; None over a bare connection, which is then sealed.
    """

    options: "ConnectionOptions"
    endpoint: "Endpoint"
    certificate: bytes | None

    def run(self, wire: Wire, first_id: int) -> "SecurityLayer | None":
        """Log in.

        Args:
            wire: to the server.
            first_id: the first of `LEGS_MAX` message ids that are free.

        Returns:
            The layer through which everything else goes; None over TLS.

        Raises:
            DirectoryNotConnected: the server did not let us in; the message names the cure.
            ConfigError: a library is missing, or a name that this kind of log-in does not know.
            OSError: the connection broke.
        """
        context = self._make_context()
        splitter = MessageSplitter()
        answer: bytes | None = None
        for number in range(first_id, first_id + LEGS_MAX):
            token = self._step(context, answer)
            wire.sendall(encode_sasl_bind(number, MECHANISM, token))
            result = _bind_result(wire, splitter, number)
            if result.code not in {0, IN_PROGRESS}:
                raise failures.bind_refused(self.endpoint, self.options, result.code, result.text)
            answer = result.response_value
            if result.code == 0:
                if answer:
                    self._step(context, answer)
                return self._make_layer(context)
        raise DirectoryNotConnected(f"{self.endpoint.url}: the log-in does not come to an end")

    def _make_context(self) -> Any:
        try:
            import spnego  # noqa: PLC0415  an extra
        except ImportError as error:
            extra = "kerberos" if self.options.authentication == "kerberos" else "ad"
            raise MissingPackageError("spnego", extra=extra) from error
        flags = spnego.ContextReq
        required_flags = flags.mutual_auth | flags.sequence_detect | flags.replay_detect
        required_flags |= (
            flags.integrity | flags.confidentiality if self.certificate is None else flags.no_integrity
        )
        options = self.options
        try:
            return spnego.client(
                self._make_credential(spnego),
                options.password.reveal() if options.password is not None else None,
                hostname=options.kerberos_host or self.endpoint.host or "",
                service="ldap",
                protocol=_PROTOCOLS[str(options.authentication)],
                context_req=required_flags,
                channel_bindings=None if self.certificate is None else make_channel_binding(self.certificate),
            )
        except ImportError as error:
            raise _make_kerberos_error(error) from remove_frames(error)
        except Exception as error:  # noqa: BLE001  pyspnego lets errors of GSS-API and SSPI through
            raise failures.make_no_ticket(self.endpoint, self.options, error) from remove_frames(error)

    def _make_credential(self, spnego: Any) -> Any:
        user = self.options.user
        if user is not None and self.options.authentication != "ntlm":
            name, at, realm = user.partition("@")
            user = name + at + realm.upper()  # realms of Active Directory are upper-case, and Kerberos cares
        if self.options.keytab is not None:
            return spnego.KerberosKeytab(self.options.keytab, principal=user)
        return user

    def _step(self, context: Any, answer: bytes | None) -> bytes:
        try:
            return context.step(answer) or b""
        except ImportError as error:
            raise _make_kerberos_error(error) from remove_frames(error)
        except Exception as error:  # noqa: BLE001  as above
            raise failures.make_no_ticket(self.endpoint, self.options, error) from remove_frames(error)

    def _make_layer(self, context: Any) -> "SecurityLayer | None":
        if self.certificate is not None:
            return None
        from spnego import ContextReq  # noqa: PLC0415  an extra

        needed = ContextReq.integrity | ContextReq.confidentiality
        if not context.complete or context.context_attr & needed != needed:
            raise DirectoryNotConnected(
                f"{self.endpoint.url}: the server let us in without signing and sealing what follows",
                hint="nothing was sent over it; use LDAPS or StartTLS",
            )
        return SecurityLayer(context)


def _make_kerberos_error(error: ImportError) -> ConfigError:
    return ConfigError(
        f"this log-in needs Kerberos, which is not there ({error}): install mqdssm with its extra "
        "'kerberos': pip install 'mqdssm[kerberos]'; authentication='ntlm' does without"
    )


def _bind_result(wire: Wire, splitter: MessageSplitter, number: int) -> LdapResult:
    try:
        while True:
            data = wire.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the server closed the connection during the log-in")
            buffer, messages = splitter.feed(data)
            if not messages:
                continue
            answer = messages[0]
            if len(messages) != 1 or splitter.pending or answer.id not in {0, number}:
                raise OSError("the server broke the LDAP protocol during the log-in")
            if answer.tag != BIND_RESPONSE and answer.id != 0:
                raise OSError(f"the server answers the log-in with 0x{answer.tag:02x}")
            return decode_result(buffer, answer)
    except DecodeError as error:
        raise OSError(f"the server broke the LDAP protocol during the log-in: {error}") from error


class SecurityLayer:
    """Security layer of a pyspnego context."""

    def __init__(self, context: Any) -> None:
        """Initialize with a context that is complete."""
        self._context = context

    def seal(self, data: bytes) -> bytes:
        """Seal one buffer.

        Raises:
            OSError: it cannot be sealed.
        """
        try:
            sealed: bytes = self._context.wrap(data, encrypt=True).data
        except Exception as error:  # as a broken connection: the ticket may have ended
            raise OSError(f"what is to be sent cannot be sealed: {error}") from error
        return sealed

    def open(self, data: bytes) -> bytes:
        """Open one buffer.

        Raises:
            OSError: the buffer was changed in transit, or is not sealed.
        """
        try:
            unwrapped = self._context.unwrap(data)
        except Exception as error:
            raise OSError(f"what was received is not what was sealed: {error}") from error
        if not unwrapped.encrypted:
            raise OSError("the server sends what is not sealed")
        opened: bytes = unwrapped.data
        return opened


class SealedTransport:
    """Socket with a security layer ([RFC4422] 3.7).

    Each buffer follows its length, 4 octets big-endian.
    """

    def __init__(self, raw: Any, layer: SecurityLayer) -> None:
        """Take over a connected socket after the log-in."""
        self._raw = raw
        self._layer = layer
        self._sealed = bytearray()
        self._plain = b""
        self._deadline: float | None = None

    def sendall(self, data: bytes, /) -> None:
        """Seal octets and send them."""
        for start in range(0, len(data), PLAIN_BYTES_MAX):
            sealed = self._layer.seal(data[start : start + PLAIN_BYTES_MAX])
            self._shorten_timeout()
            self._raw.sendall(struct.pack(">I", len(sealed)) + sealed)

    def recv(self, size: int, /) -> bytes:
        """Receive and open a buffer, and return some octets.

        There are none at the end of the stream.
        """
        while not self._plain:
            buffer = self._take_buffer()
            if buffer is None:
                return b""
            self._plain = self._layer.open(buffer)
        some, self._plain = self._plain[:size], self._plain[size:]
        return some

    def settimeout(self, seconds: float | None, /) -> None:
        """Set the time-out of the next call as a whole; 0 never waits."""
        self._deadline = None if not seconds else time.monotonic() + seconds
        self._raw.settimeout(seconds)

    def close(self) -> None:
        """Close the socket."""
        self._raw.close()

    def _shorten_timeout(self) -> None:
        if self._deadline is not None:
            remaining_s = self._deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError("timed out")
            self._raw.settimeout(remaining_s)

    def _take_buffer(self) -> bytes | None:
        while True:
            if len(self._sealed) >= 4:
                size = int.from_bytes(self._sealed[:4], "big")
                if size > SEALED_BYTES_MAX:
                    raise OSError(f"the server sends a sealed buffer of {size} bytes")
                if len(self._sealed) >= 4 + size:
                    buffer = bytes(self._sealed[4 : 4 + size])
                    del self._sealed[: 4 + size]
                    return buffer
            self._shorten_timeout()
            data = self._raw.recv(RECEIVE_BYTES)
            if not data:
                return None
            self._sealed += data


def make_channel_binding(certificate: bytes) -> Any:
    """Return the channel binding of a TLS connection.

    The type of the binding is tls-server-end-point ([RFC5929] 4.1).

    Args:
        certificate: the server's, as DER.
    """
    from cryptography import x509  # noqa: PLC0415  slow to import
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from spnego.channel_bindings import GssChannelBindings  # noqa: PLC0415  an extra

    signed_with = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    weak = signed_with is None or signed_with.name in {"md5", "sha1"}
    digest = hashes.Hash(hashes.SHA256() if weak or signed_with is None else signed_with)
    digest.update(certificate)
    return GssChannelBindings(application_data=b"tls-server-end-point:" + digest.finalize())
