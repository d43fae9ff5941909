"""Checks of ``mqdssm doctor`` before the directory is read: settings, servers, certificates."""

import contextlib
import logging
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mqdssm.cli.checks import OPERATION_LIMIT_S, CheckFinding, ok, problem, warning

if TYPE_CHECKING:
    from mqdssm.cli.settings import Loaded
    from mqdssm.directory.channel import Channel
    from mqdssm.directory.options import ConnectionOptions, Endpoint

DAYS_LEFT_MIN: Final = 30
"""Days of validity below which a certificate is a warning."""
SLOW_CONNECTION_S: Final = 2.0
STARTTLS_OID: Final = "1.3.6.1.4.1.1466.20037"
_DAY_S: Final = 86_400

log: Final = logging.getLogger(__name__)


def settings(loaded: "Loaded") -> Iterator[CheckFinding]:
    """Report the settings in use, and insecure ones."""
    name, found = "settings", loaded.settings
    sources = ", ".join(dict.fromkeys(loaded.sources.values()))
    local = all(url.lower().startswith("ldapi:") for url in found.url)
    who = found.user or ("the user of this process" if local else "nobody")
    yield ok(name, f"{', '.join(found.url)} as {who}; from {sources}")
    file = found.password_file
    if file is not None and os.name == "posix" and file.exists():
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            yield warning(name, f"others may read the password file {file} ({mode:04o})", f"chmod 600 {file}")
    if found.allow_clear_text:
        advice = "use StartTLS or LDAPS, and take allow_clear_text out"
        yield warning(name, "the password may go in clear text to another machine", advice)
    if found.user is None and not local:
        words = "nobody logs in: servers show little to strangers"
        yield warning(name, words, "set a user: --user, MQDSSM_USER")


def connection(options: "ConnectionOptions", endpoint: "Endpoint") -> Iterator[CheckFinding]:
    """Check that a server can be reached and accepts the log-in."""
    from mqdssm.directory import connect

    name = f"connection {endpoint.url}"
    log.debug("connecting with %s", connect.__name__)  # it is loaded: the time is the connection's own
    started = time.monotonic()
    with bound(options, endpoint):
        took = time.monotonic() - started
    how = {"ldaps": "LDAPS", "starttls": "StartTLS", "none": "no TLS"}[endpoint.tls]
    said = f"connected with {'a local socket' if endpoint.is_local_socket else how} in {took * 1000:.0f} ms"
    if took > SLOW_CONNECTION_S:
        yield warning(name, f"{said}, which is slow", "does the name resolve quickly? is the server busy?")
    else:
        yield ok(name, said)


@contextlib.contextmanager
def bound(options: "ConnectionOptions", endpoint: "Endpoint") -> "Iterator[Channel]":
    """Open a separate bound connection to one server."""
    from mqdssm.directory.channel import ThreadSafeCounter
    from mqdssm.directory.connect import Attempt, open_channel, trust

    deadline = time.monotonic() + OPERATION_LIMIT_S
    channel = open_channel(Attempt(options, endpoint, trust(options), deadline), ThreadSafeCounter())
    try:
        yield channel
    finally:
        channel.close()


def certificate(options: "ConnectionOptions", endpoint: "Endpoint") -> Iterator[CheckFinding]:
    """Check the use of TLS, and the validity of the certificate."""
    name = f"certificate {endpoint.url}"
    if endpoint.tls == "none":
        if endpoint.is_local_socket:
            yield ok(name, "none needed on a local socket")
        else:
            words = "no TLS: everybody on the way can read and change what goes by"
            yield warning(name, words, "take --tls none out: StartTLS is what ldap:// means here")
        return
    with _secured(options, endpoint) as channel:
        shown = channel.getpeercert() or {}
        version, cipher = channel.version(), (channel.cipher() or ("?",))[0]
    until = str(shown.get("notAfter", ""))
    days = int((ssl.cert_time_to_seconds(until) - time.time()) // _DAY_S) if until else 0
    said = f"trusted, valid for {endpoint.host} until {until}; {version}, {cipher}"
    if days < DAYS_LEFT_MIN:
        yield warning(name, f"{said}: {days} days left", "renew the server's certificate")
    else:
        yield ok(name, said)


@contextlib.contextmanager
def _secured(options: "ConnectionOptions", endpoint: "Endpoint") -> Iterator[ssl.SSLSocket]:
    """Open a TLS connection to a server without logging in."""
    from mqdssm.directory.connect import trust

    address = (endpoint.host or "", endpoint.port)
    with socket.create_connection(address, timeout=OPERATION_LIMIT_S) as raw:
        if endpoint.tls == "starttls":
            _start_tls(raw, endpoint)
        raw.settimeout(OPERATION_LIMIT_S)
        with trust(options).wrap_socket(raw, server_hostname=endpoint.host) as secured:
            yield secured


def _start_tls(raw: socket.socket, endpoint: "Endpoint") -> None:
    from mqdssm.directory.channel import Channel, ThreadSafeCounter
    from mqdssm.directory.requests import encode_extended
    from mqdssm.directory.responses import EXTENDED_RESPONSE
    from mqdssm.errors import DirectoryNotConnected

    deadline = time.monotonic() + OPERATION_LIMIT_S
    channel = Channel(raw, endpoint.url, 1, ThreadSafeCounter())
    result = channel.request(1, encode_extended(1, STARTTLS_OID), EXTENDED_RESPONSE, deadline)
    if result.code != 0:
        raise DirectoryNotConnected(
            f"{endpoint.url} refuses StartTLS", ldap_code=result.code, server_text=result.text
        )


def nobody_home(endpoints: int) -> CheckFinding:
    """Make the finding for the case that no server accepted the log-in."""
    these = "the server did not let" if endpoints == 1 else f"none of the {endpoints} servers let"
    return problem("directory", f"{these} us in: nothing else can be examined", "mend the connection first")
