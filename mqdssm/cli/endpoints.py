"""Parsing of addresses and GUIDs on the command line."""

import ipaddress
from typing import TYPE_CHECKING

from mqdssm.cli.exits import UsageProblem

if TYPE_CHECKING:
    from mqdssm.model.guid import Guid
    from mqdssm.model.socket_addresses import SocketAddress


def parse_endpoint(option: str, text: str, default_port: int, *, any_port: bool = False) -> "SocketAddress":
    """Parse ``ADDRESS`` or ``ADDRESS:PORT``.

    Args:
        option: where it was typed.
        text: what was typed.
        default_port: where none is.
        any_port: port 0 is one, too.

    Raises:
        UsageProblem: it is something else.
    """
    from mqdssm.model.socket_addresses import PORT_MAX, parse_socket_address

    port_min = 0 if any_port else 1
    try:
        address = parse_socket_address(text, port=default_port, port_min=port_min)
        ipaddress.IPv4Address(address.host)
    except ValueError:
        raise UsageProblem(
            f"{option} {text}: no IPv4 address with a port from {port_min} to {PORT_MAX}, as "
            f"10.0.0.255:{default_port}"
        ) from None
    return address


def parse_network(option: str, text: str) -> ipaddress.IPv4Network:
    """Parse an IPv4 network, as ``10.0.0.0/24``.

    An address alone is a network of one.

    Raises:
        UsageProblem: it is something else.
    """
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise UsageProblem(f"{option} {text}: {error}; an IPv4 network is wanted, as 10.0.0.0/24") from None


def parse_guid(option: str, text: str) -> "Guid":
    """Parse a GUID.

    Raises:
        UsageProblem: it is none.
    """
    from mqdssm.model.guid import Guid

    try:
        return Guid.parse(text)
    except ValueError:
        raise UsageProblem(
            f"{option}: {text!r} is no GUID, as 7f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4"
        ) from None
