"""Parsing of addresses and GUIDs on the command line."""

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from mqdssm.cli.exits import UsageProblem

if TYPE_CHECKING:
    from mqdssm.model.guid import Guid

_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_PORT_MAX: Final = 65_535


def endpoint(option: str, text: str, default_port: int, *, any_port: bool = False) -> tuple[str, int]:
    """Parse ``ADDRESS`` or ``ADDRESS:PORT``.

    Args:
        option: where it was typed.
        text: what was typed.
        default_port: where none is.
        any_port: port 0 is one, too.

    Raises:
        UsageProblem: it is something else.
    """
    address, colon, port = text.partition(":")
    try:
        host = str(ipaddress.IPv4Address(address))
    except ValueError:
        raise UsageProblem(f"{option} {text}: {address!r} is no IPv4 address, as 10.0.0.255") from None
    if not colon:
        return host, default_port
    if _PORT.fullmatch(port) is None or not (0 if any_port else 1) <= int(port) <= _PORT_MAX:
        raise UsageProblem(f"{option} {text}: {port!r} is no port, {0 if any_port else 1} to {_PORT_MAX}")
    return host, int(port)


def network(option: str, text: str) -> ipaddress.IPv4Network:
    """Parse an IPv4 network, as ``10.0.0.0/24``.

    An address alone is a network of one.

    Raises:
        UsageProblem: it is something else.
    """
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise UsageProblem(f"{option} {text}: {error}; an IPv4 network is wanted, as 10.0.0.0/24") from None


def guid(option: str, text: str) -> "Guid":
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
