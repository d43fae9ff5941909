"""Finding ports for a slapd, and telling whether it answers or why it does not."""

import os
import random
import socket
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.testing.openldap_config import OpenLdapOptions

START_WAIT_S: Final = 30.0  # 0.1 s on an idle machine; others may be busy with theirs
POLL_S: Final = 0.005
EXIT_FOLDER_IN_USE: Final = 75  # of start.sh
LOWEST_PORT: Final = 15000

# an anonymous base search of the root DSE for no attributes (RFC 4511), message 1
PROBE: Final = bytes.fromhex("302a 0201 01 6325 0400 0a0100 0a0100 020100 020100 010100") + (
    b"\x87\x0bobjectClass\x30\x05\x04\x031.1"
)


class PortTakenError(Exception):
    """Another process listens on the port."""


def failure(status: int | None, log: str, folder: Path) -> Exception:
    """Say why a slapd that ended did so.

    Args:
        status: its exit status, negative for a signal.
        log: what it wrote.
        folder: where it should have run.

    Returns:
        `PortTakenError` or `ConfigError`.
    """
    log = log.strip()
    if status == EXIT_FOLDER_IN_USE:
        return ConfigError(f"{folder} is in use by another LDAP server")
    if "bind(" in log and "errno=98" in log:
        return PortTakenError(f"a port of the LDAP server is taken: {log}")
    return ConfigError(f"slapd ended with status {status}: {log}")


def answers(path: Path) -> bool:
    """Tell whether the server behind an ldapi socket answers a search of its root DSE."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(START_WAIT_S)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(PROBE)
            return connection.recv(8)[:1] == b"\x30"
        except OSError:
            return False


def chosen_ports(options: OpenLdapOptions) -> tuple[int, int]:
    """Take the ports that are asked for, and free ones for the others."""
    free = free_ports(2)
    return options.port or free[0], options.ldaps_port or free[1]


def free_ports(count: int) -> list[int]:
    """Find TCP ports on loopback that nobody listens on.

    They lie below the range from which the kernel takes the ports of outgoing connections: there, a
    client that tries again and again while the server is down could be given the server's own port.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(LOWEST_PORT, _lowest_outgoing_port())
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _lowest_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return max(int(text.split()[0]), LOWEST_PORT + 1000)
    except (OSError, ValueError):
        return 32768
