"""Free loopback addresses for domain controllers, which need fixed ports."""

import random
import socket
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.testing.samba_config import LDAP_PORTS

START_WAIT_S: Final = 60.0  # 0.2 s on an idle machine; others may be busy with theirs
ADDRESS_ATTEMPTS: Final = 40
LAST_OCTETS: Final = (2, 254)  # 127.0.0.1 is left to other servers


def free_address() -> str:
    """Find an address 127.0.0.N on which all ports that Samba needs are free.

    Raises:
        ConfigError: no free address was found, for example because a server listens on all addresses.
    """
    chance = random.SystemRandom()
    used_port = 0
    for _ in range(ADDRESS_ATTEMPTS):
        address = f"127.0.0.{chance.randint(*LAST_OCTETS)}"
        used_port = taken_port(address)
        if not used_port:
            return address
    raise ConfigError(
        f"port {used_port} is taken on every loopback address that was tried: "
        "does an LDAP server of this machine listen on all addresses?"
    )


def taken_port(address: str) -> int:
    """Return one of Samba's ports that is taken on an address; 0 if all are free."""
    for port in LDAP_PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return port
    return 0
