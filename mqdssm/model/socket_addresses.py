"""Socket addresses of queue managers and servers, and their form as text."""

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from mqdssm.model.packets import SESSION_PORT

PORT_MAX: Final = 0xFFFF
_TEXT: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]|(?P<host>[^\s:\[\]\x00-\x20\x7F]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class SocketAddress(NamedTuple):
    """Address of a listening queue manager or server.

    Attributes:
        host: IP address or DNS name.
        port: TCP or UDP port.
    """

    host: str
    port: int = SESSION_PORT

    @property
    def is_anywhere(self) -> bool:
        """True for 0.0.0.0, :: and an empty host: all addresses of a machine.

        A server can listen there, and nobody can connect.
        """
        try:
            return ip_address(self.host or "::").is_unspecified
        except ValueError:  # a DNS name
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_socket_address(text: str, *, port: int = SESSION_PORT, port_min: int = 1) -> SocketAddress:
    """Parse ``host:port``, ``[IPv6 address]:port`` or a host alone.

    Args:
        text: the address.
        port: port of a host alone.
        port_min: 0 for an address to listen on, where the system chooses the port.

    Raises:
        ValueError: no such address.
    """
    match = _TEXT.fullmatch(text)
    number = int(match["port"] or port) if match else -1
    if match is None or not port_min <= number <= PORT_MAX or not _is_ipv6(match["ipv6"] or "::"):
        raise ValueError(f"{text!r} is no address, as 127.0.0.1:1801 or [2001:db8::1]:1801")
    return SocketAddress(match["host"] or match["ipv6"], number)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
