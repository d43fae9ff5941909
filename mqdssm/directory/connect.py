"""Opening of LDAP connections, the only user of ldap3.

Every option of ldap3 is set here.

ldap3 connects, secures and binds; then the channel takes over the socket, and ldap3 decodes nothing
(decision M39). Its defaults would verify no certificate, wait for ever, follow referrals with the
user's password and fetch the schema at every bind, hence nothing is left to them.
"""

import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import ldap3
from ldap3.core.exceptions import LDAPException, LDAPOperationResult

from mqdssm.directory import failures
from mqdssm.directory.channel import Channel
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions, Endpoint, is_loopback
from mqdssm.directory.sasl import LEGS_MAX, SaslLogIn, SealedTransport, SecurityLayer
from mqdssm.directory.secret import remove_frames
from mqdssm.errors import ConfigError, DirectoryNotConnected, MqdssmError

if TYPE_CHECKING:
    from collections.abc import Iterable

BIND_ANSWER_BYTES_MAX: Final = 1 << 20
"""Maximum bytes received before the bind is done: hundreds of times those of StartTLS and bind answers."""


def trust(options: ConnectionOptions) -> ssl.SSLContext:
    """Return the TLS settings, with TLS 1.2 at least.

    Certificate and host name are always verified.

    Where no server is reached over TLS, the system's certification authorities are not read: that takes as
    long as many operations.

    Raises:
        ConfigError: the CA file cannot be used.
    """
    try:
        if options.ca_file is None and all(endpoint.tls == "none" for endpoint in options.endpoints):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts nobody
        else:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=options.ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = (None if isinstance(error, ssl.SSLError) else error.strerror) or error
        raise ConfigError(f"the CA file {options.ca_file!r} cannot be used: {reason}") from error
    context.check_hostname = True
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _HurriedSocket:
    """Socket for ldap3's bind.

    The whole bind has one deadline and a limit of bytes.

    ldap3 gives each `recv` the whole time-out again, so that a server that drips single bytes would
    hold it for ever.
    """

    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self.raw = raw
        self._deadline = deadline
        self._received = 0

    def _shorten_timeout(self) -> None:
        remaining_s = self._deadline - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("timed out")
        self.raw.settimeout(remaining_s)

    def recv(self, size: int) -> bytes:
        self._shorten_timeout()
        data = self.raw.recv(size)
        self._received += len(data)
        if self._received > BIND_ANSWER_BYTES_MAX:
            raise OSError(f"the server sent more than {BIND_ANSWER_BYTES_MAX} bytes before the bind was done")
        return data

    def sendall(self, data: bytes) -> None:
        self._shorten_timeout()
        self.raw.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class _VerifiedTls(ldap3.Tls):  # type: ignore[misc]  # ldap3 is untyped
    """TLS settings of ldap3 with OpenSSL's verification.

    ldap3 does not verify during the handshake.
    """

    def __init__(self, context: ssl.SSLContext, host: str, deadline: float) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = context
        self._host = host
        self._deadline = deadline
        self.failure: Exception | None = None

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:  # noqa: ARG002  ldap3's signature
        raw = connection.socket.raw if isinstance(connection.socket, _HurriedSocket) else connection.socket
        raw.settimeout(max(self._deadline - time.monotonic(), 0.001))
        try:
            connection.socket = self._context.wrap_socket(raw, server_hostname=self._host)
        except OSError as error:
            self.failure = error
            raise


def _resolve_addresses(endpoint: Endpoint) -> "Iterable[str]":
    """Return the network addresses of an endpoint, or the path of its socket."""
    if endpoint.host is None:
        return [endpoint.path or ""]
    if endpoint.address is not None:
        return [endpoint.address]
    try:
        addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise failures.make_not_resolved(endpoint, error) from error
    return dict.fromkeys(str(entry[4][0]) for entry in addresses)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt to connect to one server.

    Attributes:
        options: who connects, and how.
        endpoint: the server.
        context: what `trust` made of the options.
        deadline: when to give up, as `time.monotonic` tells the time.
    """

    options: ConnectionOptions
    endpoint: Endpoint
    context: ssl.SSLContext
    deadline: float


def open_channel(attempt: Attempt, observer: OperationObserver) -> Channel:
    """Connect, secure and bind ([MS-MQDSSM] 3.1.6.18).

    Every address of one server is tried in order.

    Args:
        attempt: what to try.
        observer: observes the operations of the session.

    Raises:
        DirectoryNotConnected: it did not work; the message names the cure.
        ConfigError: the password would travel in clear text to another machine.
    """
    failure: DirectoryNotConnected | None = None
    for address in _resolve_addresses(attempt.endpoint):
        if attempt.endpoint.host is not None and is_loopback(address) is not True:
            attempt.options.refuse_clear_text(attempt.endpoint)
        if time.monotonic() >= attempt.deadline:
            break
        try:
            channel = _open(attempt, address, observer)
        except DirectoryNotConnected as error:
            if error.ldap_code is not None:
                raise  # the server answered: another address of it would say the same
            failure = error
        else:
            channel.address = address
            return channel
    raise failure or failures.make_out_of_time(attempt.endpoint)


def _open(attempt: Attempt, address: str, observer: OperationObserver) -> Channel:
    endpoint, deadline = attempt.endpoint, attempt.deadline
    tls = _VerifiedTls(attempt.context, endpoint.host or "", deadline)
    try:
        connection = _make_ldap3_connection(attempt, address, tls)
    except LDAPException as error:  # an address that ldap3 does not take for one
        raise failures.make_not_connected(endpoint, error) from error
    try:
        connection.open(read_server_info=False)
        if not endpoint.is_local_socket:
            # now, not after the bind: else each log-in over TLS waits 40 ms for a delayed acknowledgement
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if endpoint.tls == "starttls":
            connection.socket = _HurriedSocket(connection.socket, deadline)
            connection.start_tls(read_server_info=False)
        connection.socket = _HurriedSocket(connection.socket, deadline)
        if attempt.options.seals:
            return _log_in(attempt, connection, observer)
        bound = connection.bind(read_server_info=False, controls=None)
    except MqdssmError:
        raise
    except LDAPOperationResult as error:
        raise failures.make_refusal(endpoint, attempt.options, error) from remove_frames(error)
    except (LDAPException, OSError) as error:
        raise failures.make_not_connected(endpoint, tls.failure or error) from remove_frames(error)
    except Exception as error:  # noqa: BLE001  ldap3's decoder lets KeyError and more out of odd answers
        raise failures.make_not_understood(endpoint, error) from remove_frames(error)
    else:
        if bound:
            return _take_over(connection, endpoint, observer)
        answer = connection.result or {}  # of SASL's next step, or a referral
        code, text = int(answer.get("result", 0)), str(answer.get("message", ""))
        raise failures.bind_refused(endpoint, attempt.options, code, text)
    finally:
        _close_abandoned_socket(connection)  # a socket that a channel has taken over is not ldap3's any more


def _make_ldap3_connection(attempt: Attempt, address: str, tls: _VerifiedTls) -> ldap3.Connection:
    options, endpoint = attempt.options, attempt.endpoint
    external = endpoint.is_local_socket and options.user is None
    server = ldap3.Server(
        host=f"ldapi://{quote(address, safe='')}" if endpoint.is_local_socket else address,
        port=None if endpoint.is_local_socket else endpoint.port,
        use_ssl=endpoint.tls == "ldaps",
        allowed_referral_hosts=[],  # a referral is never followed: it would carry the password elsewhere
        get_info=ldap3.NONE,  # no schema, no root DSE: we read what we need
        tls=None if endpoint.is_local_socket else tls,
        formatter=None,
        connect_timeout=max(attempt.deadline - time.monotonic(), 0.001),
        mode=ldap3.IP_SYSTEM_DEFAULT,
        validator=None,
    )
    simple = ldap3.SIMPLE if options.user is not None else ldap3.ANONYMOUS
    return ldap3.Connection(
        server,
        user=options.user,
        password=options.password.reveal() if options.password is not None else None,
        auto_bind=ldap3.AUTO_BIND_NONE,
        version=3,
        authentication=ldap3.SASL if external else simple,
        client_strategy=ldap3.SYNC,
        auto_referrals=False,
        auto_range=False,
        sasl_mechanism=ldap3.EXTERNAL if external else None,
        sasl_credentials="" if external else None,
        check_names=False,
        collect_usage=False,
        read_only=False,
        lazy=False,
        raise_exceptions=True,
        pool_name=None,
        pool_size=None,
        pool_lifetime=None,
        cred_store=None,
        fast_decoder=True,
        receive_timeout=None,  # the socket's own deadline: ldap3's would start anew with every byte
        return_empty_attributes=False,
        use_referral_cache=False,
        auto_escape=False,
        auto_encode=False,
        pool_keepalive=None,
        source_address=None,
        source_port=None,
        source_port_list=None,
    )


def _log_in(attempt: Attempt, connection: ldap3.Connection, observer: OperationObserver) -> Channel:
    """Log in by GSS-SPNEGO over the connection of ldap3.

    TLS, if there is any, already secures the connection.
    """
    wire: _HurriedSocket = connection.socket
    certificate = wire.raw.getpeercert(True) if isinstance(wire.raw, ssl.SSLSocket) else None
    log_in = SaslLogIn(attempt.options, attempt.endpoint, certificate)
    layer = log_in.run(wire, connection.server.next_message_id())
    return _take_over(connection, attempt.endpoint, observer, layer)


def _take_over(
    connection: ldap3.Connection,
    endpoint: Endpoint,
    observer: OperationObserver,
    layer: SecurityLayer | None = None,
) -> Channel:
    """Take the bound socket from ldap3 and return a channel for it."""
    bound = connection.socket.raw
    first_id = connection.server.next_message_id() + LEGS_MAX
    connection.password = None
    connection.socket = None
    connection.closed = True
    if not endpoint.is_local_socket:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    transport = bound if layer is None else SealedTransport(bound, layer)
    return Channel(transport, endpoint.url, first_id, observer)


def _close_abandoned_socket(connection: ldap3.Connection) -> None:
    """Close the socket that ldap3 leaves open when connecting fails.

    The password is removed as well.
    """
    connection.password = None  # ldap3 shows it in the connection's repr
    open_socket, connection.socket, connection.closed = connection.socket, None, True
    if open_socket is not None:
        open_socket.close()
