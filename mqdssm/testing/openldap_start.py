"""Start of a slapd: free ports, a probe, and the reason of a failed start."""

import os
import random
import socket
import struct
import time
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.testing.openldap_config import OpenLdapOptions

START_WAIT_S: Final = 30.0  # 0.1 s on an idle machine; others may be busy with theirs
PROBE_WAIT_S: Final = 2.0  # for one question; it is asked again
LOCK_WAIT_S: Final = 1.0  # a slapd that is just ending needs 0.1 s
POLL_S: Final = 0.005
EXIT_FOLDER_IN_USE: Final = 75  # of start.sh
LOWEST_PORT: Final = 15000
LOG_CHARACTERS_MAX: Final = 2000

# an anonymous base search of the root DSE for no attributes (RFC 4511), message 1
PROBE: Final = bytes.fromhex("302a 0201 01 6325 0400 0a0100 0a0100 020100 020100 010100") + (
    b"\x87\x0bobjectClass\x30\x05\x04\x031.1"
)


class AddressTakenError(Exception):
    """Another process listens on a port that the server needs."""


def explain_failure(status: int | None, log: str, folder: Path, program: str = "slapd") -> Exception:
    """Return the error that explains why an LDAP server has ended.

    Args:
        status: its exit status, negative for a signal.
        log: what it wrote.
        folder: where it should have run.
        program: name of its program.

    Returns:
        `AddressTakenError` or `ConfigError`.
    """
    log = log.strip()[-LOG_CHARACTERS_MAX:]
    if status == EXIT_FOLDER_IN_USE:
        return explain_used_folder(folder)
    if ("bind(" in log and "errno=98" in log) or "NT_STATUS_ADDRESS_ALREADY_ASSOCIATED" in log:
        return AddressTakenError(f"a port of the LDAP server is taken: {log}")
    return ConfigError(f"{program} ended with status {status}: {log}")


def explain_used_folder(folder: Path) -> ConfigError:
    """Return the error for a folder that another server uses."""
    return ConfigError(f"{folder} is in use by another LDAP server")


def is_answering(path: Path) -> bool:
    """Return True if the server on an ldapi socket answers a search of its root DSE."""
    return find_answering_process(path) is not None


def find_answering_process(path: Path) -> int | None:
    """Return the process that answers a search of the root DSE on an ldapi socket.

    Returns:
        Its id; 0 if the system does not tell; None if no process answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PROBE_WAIT_S)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(PROBE)
            if connection.recv(8)[:1] != b"\x30":
                return None
            return _read_peer(connection)
        except OSError:
            return None


def _read_peer(connection: socket.socket) -> int:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return int(pid)


def require_free(folder: Path) -> None:
    """Raise ConfigError if a server holds the lock of a folder.

    Start scripts take this lock.

    Raises:
        ConfigError: another server serves the folder.
    """
    import fcntl  # not on Windows, where the container can still be used

    try:
        lock = (folder / "lock").open("r+")
    except OSError:
        return  # no lock yet, or no folder: its creation reports errors
    deadline = time.monotonic() + LOCK_WAIT_S
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise explain_used_folder(folder) from error
                time.sleep(POLL_S)
            else:
                return


def choose_ports(options: OpenLdapOptions) -> tuple[int, int]:
    """Return the two ports of the options, with free ports in place of 0."""
    free = free_ports(2)
    return options.port or free[0], options.ldaps_port or free[1]


def free_ports(count: int) -> list[int]:
    """Find free TCP ports on loopback.

    The ports lie below the kernel's range for outgoing connections. From that range, a client that retries
    while the server is down could get the server's own port.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(LOWEST_PORT, _read_lowest_outgoing_port())
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def _read_lowest_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return max(int(text.split()[0]), LOWEST_PORT + 1000)
    except (OSError, ValueError):
        return 32768
