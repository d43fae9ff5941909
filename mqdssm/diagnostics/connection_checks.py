"""Checks before the directory is read: settings, servers, certificates."""

import contextlib
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mqdssm.diagnostics.findings import OPERATION_LIMIT_S, CheckFinding, make_ok, make_problem, make_warning
from mqdssm.directory.channel import Channel
from mqdssm.directory.connect import Attempt, open_channel, trust
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.requests import encode_extended
from mqdssm.directory.responses import EXTENDED_RESPONSE
from mqdssm.errors import DirectoryNotConnected

DAYS_LEFT_MIN: Final = 30
"""Days of validity below which a certificate is a warning."""
SLOW_CONNECTION_S: Final = 2.0
STARTTLS_OID: Final = "1.3.6.1.4.1.1466.20037"
_DAY_S: Final = 86_400


def check_settings(
    options: ConnectionOptions, sources: Sequence[str] = (), file: Path | None = None
) -> Iterator[CheckFinding]:
    """Report the settings in use, and insecure ones.

    Args:
        options: how to connect.
        sources: where the settings come from.
        file: that holds the password; None: there is none.
    """
    name = "settings"
    local = all(endpoint.is_local_socket for endpoint in options.endpoints)
    who = options.user or ("the user of this process" if local else "nobody")
    urls = ", ".join(endpoint.url for endpoint in options.endpoints)
    yield make_ok(name, f"{urls} as {who}; from {', '.join(dict.fromkeys(sources))}")
    if file is not None and os.name == "posix" and file.exists():
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            yield make_warning(
                name, f"others may read the password file {file} ({mode:04o})", f"chmod 600 {file}"
            )
    if options.allow_clear_text:
        advice = "use StartTLS or LDAPS, without --allow-clear-text (configuration file: allow_clear_text)"
        yield make_warning(name, "the password may go in clear text to another machine", advice)
    if options.user is None and not local:
        words = "nobody logs in: servers show little to strangers"
        yield make_warning(name, words, "set a user: --user, MQDSSM_USER")


def check_connection(options: ConnectionOptions, endpoint: Endpoint) -> Iterator[CheckFinding]:
    """Check that a server can be reached and accepts the log-in."""
    name = f"connection {endpoint.url}"
    started = time.monotonic()
    with open_bound(options, endpoint):
        took = time.monotonic() - started
    how = {"ldaps": "LDAPS", "starttls": "StartTLS", "none": "no TLS"}[endpoint.tls]
    text = f"connected with {'a local socket' if endpoint.is_local_socket else how} in {took * 1000:.0f} ms"
    if took > SLOW_CONNECTION_S:
        yield make_warning(
            name, f"{text}, which is slow", "does the name resolve quickly? is the server busy?"
        )
    else:
        yield make_ok(name, text)


@contextlib.contextmanager
def open_bound(options: ConnectionOptions, endpoint: Endpoint) -> Iterator[Channel]:
    """Open a separate bound connection to one server."""
    deadline = time.monotonic() + OPERATION_LIMIT_S
    channel = open_channel(Attempt(options, endpoint, trust(options), deadline), OperationObserver())
    try:
        yield channel
    finally:
        channel.close()


def check_certificate(options: ConnectionOptions, endpoint: Endpoint) -> Iterator[CheckFinding]:
    """Check the use of TLS, and the validity of the certificate."""
    name = f"certificate {endpoint.url}"
    if endpoint.tls == "none":
        if endpoint.is_local_socket:
            yield make_ok(name, "none needed on a local socket")
        else:
            words = "no TLS: everybody on the way can read and change what goes by"
            yield make_warning(name, words, "take --tls none out: StartTLS is what ldap:// means here")
        return
    with _open_secured(options, endpoint) as channel:
        peer_certificate = channel.getpeercert() or {}
        version, cipher = channel.version(), (channel.cipher() or ("?",))[0]
    until = str(peer_certificate.get("notAfter", ""))
    days = int((ssl.cert_time_to_seconds(until) - time.time()) // _DAY_S) if until else 0
    text = f"trusted, valid for {endpoint.host} until {until}; {version}, {cipher}"
    if days < DAYS_LEFT_MIN:
        yield make_warning(name, f"{text}: {days} days left", "renew the server's certificate")
    else:
        yield make_ok(name, text)


@contextlib.contextmanager
def _open_secured(options: ConnectionOptions, endpoint: Endpoint) -> Iterator[ssl.SSLSocket]:
    """Open a TLS connection to a server without logging in."""
    address = (endpoint.host or "", endpoint.port)
    with socket.create_connection(address, timeout=OPERATION_LIMIT_S) as raw:
        if endpoint.tls == "starttls":
            _start_tls(raw, endpoint)
        raw.settimeout(OPERATION_LIMIT_S)
        with trust(options).wrap_socket(raw, server_hostname=endpoint.host) as secured:
            yield secured


def _start_tls(raw: socket.socket, endpoint: Endpoint) -> None:
    deadline = time.monotonic() + OPERATION_LIMIT_S
    channel = Channel(raw, endpoint.url, 1, OperationObserver())
    result = channel.request(1, encode_extended(1, STARTTLS_OID), EXTENDED_RESPONSE, deadline)
    if result.code != 0:
        raise DirectoryNotConnected(
            f"{endpoint.url} refuses StartTLS", ldap_code=result.code, server_text=result.text
        )


def make_no_server_finding(endpoints: int) -> CheckFinding:
    """Make the finding for the case that no server accepted the log-in."""
    these = "the server did not let" if endpoints == 1 else f"none of the {endpoints} servers let"
    return make_problem(
        "directory", f"{these} us in: nothing else can be examined", "mend the connection first"
    )
