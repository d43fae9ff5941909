"""IPv4 networks that this computer is connected to.

A client fills NetworkAddressList with them ([MS-MQSD] 3.1.4.1), a server answers them (decision S19). Linux
alone is asked (SIOCGIFCONF and its relatives, netdevice(7)).
"""

import array
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Final

from mqdssm.engines.discovery.values import Network
from mqdssm.errors import ConfigError
from mqdssm.model.discovery import IP_PORT

if sys.platform == "linux":
    import fcntl

ADDRESSES_MAX: Final = 1024
_UNKNOWN: Final = "the networks of this computer are not known on this system"
_SIOCGIFCONF: Final = 0x8912
_SIOCGIFFLAGS: Final = 0x8913
_SIOCGIFBRDADDR: Final = 0x8919
_SIOCGIFDSTADDR: Final = 0x8917
_SIOCGIFNETMASK: Final = 0x891B
_UP: Final = 0x1
_BROADCAST: Final = 0x2
_LOOPBACK: Final = 0x8
_POINT_TO_POINT: Final = 0x10
_NAME_BYTES: Final = 16
_IFREQ_BYTES: Final = _NAME_BYTES + (24 if struct.calcsize("P") == 8 else 16)
_ADDRESS: Final = slice(_NAME_BYTES + 4, _NAME_BYTES + 8)  # of struct sockaddr_in, behind family and port
_PAIR: Final = 2
_EVERYWHERE: Final = "255.255.255.255"
_NOBODY: Final = frozenset({"0.0.0.0", _EVERYWHERE})  # noqa: S104  no addresses to listen on
"""Broadcast addresses without information: none was set, or it goes to the default route."""


def list_networks(port: int = IP_PORT) -> tuple[Network, ...]:
    """Return all networks of this computer but its loopback.

    Point-to-point links count as remote access.

    Args:
        port: where servers listen.

    Raises:
        ConfigError: this system cannot be asked.
    """
    if sys.platform != "linux":
        raise ConfigError(f"{_UNKNOWN}: name them, as 10.0.0.255")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # several addresses on one network are one network
        return tuple({network.address: network for network in _yield_networks(sock, port)}.values())


def on_link_networks() -> tuple[ipaddress.IPv4Network, ...]:
    """Return the networks that this computer reaches without a router.

    The computer's loopback is included.

    Raises:
        ConfigError: this system cannot be asked.
    """
    if sys.platform != "linux":
        raise ConfigError(f"{_UNKNOWN}: name them, as 10.0.0.0/24")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return tuple(dict.fromkeys(_on_link(sock)))


def _on_link(sock: socket.socket) -> Iterator[ipaddress.IPv4Network]:
    for request in _addresses(sock):
        try:
            flags = _read_flags(sock, request)
            mask = _text_of(_call_ioctl(sock, _SIOCGIFNETMASK, request))
            others_end = (
                _text_of(_call_ioctl(sock, _SIOCGIFDSTADDR, request)) if flags & _POINT_TO_POINT else ""
            )
        except OSError:
            continue  # as in _yield_networks
        network = ipaddress.IPv4Interface(f"{_text_of(request)}/{mask}").network
        if not flags & _UP or not network.prefixlen:  # a mask of nothing would be everybody
            continue
        yield network
        if others_end and others_end not in _NOBODY:
            yield ipaddress.IPv4Network(others_end)


def _yield_networks(sock: socket.socket, port: int) -> Iterator[Network]:
    for request in _addresses(sock):
        try:
            network = _read_network(sock, request, port)
        except OSError:
            continue  # the interface or its address was removed meanwhile
        if network is not None:
            yield network


def _read_network(sock: socket.socket, request: bytes, port: int) -> Network | None:
    """Return the network of an interface address.

    None if no server can be asked on it.

    Raises:
        OSError: the address is not there any more.
    """
    flags = _read_flags(sock, request)
    if flags & _LOOPBACK or not flags & _UP:
        return None
    local = _text_of(request)
    if flags & _POINT_TO_POINT:
        address = _text_of(_call_ioctl(sock, _SIOCGIFDSTADDR, request))
    elif flags & _BROADCAST:
        address = _text_of(_call_ioctl(sock, _SIOCGIFBRDADDR, request))
    else:
        return None
    remote: str | None = address
    if address in _NOBODY or address == local:  # as of a tunnel into a whole network
        remote = _broadcast_address(local, _text_of(_call_ioctl(sock, _SIOCGIFNETMASK, request)))
    if remote is None:
        return None
    return Network(remote, port, remote_access=bool(flags & _POINT_TO_POINT), local=local)


def _broadcast_address(local: str, mask: str) -> str | None:
    """Return the broadcast address of a network (decision S18).

    None if no other computer is in it.
    """
    network = ipaddress.IPv4Interface(f"{local}/{mask}").network
    if network.num_addresses > _PAIR:
        return str(network.broadcast_address)
    return next(
        (str(address) for address in network if str(address) != local), None
    )  # of two the other, [RFC3021]


def _addresses(sock: socket.socket) -> Iterator[bytes]:
    """Yield the interface's name and the address of each struct ifreq."""
    room = array.array("B", bytes(ADDRESSES_MAX * _IFREQ_BYTES))
    address, size = room.buffer_info()
    answer = fcntl.ioctl(sock, _SIOCGIFCONF, struct.pack("iP", size, address))
    (filled,) = struct.unpack_from("i", answer)
    data = room.tobytes()[:filled]
    for at in range(0, filled, _IFREQ_BYTES):
        yield data[at : at + _IFREQ_BYTES]


def _read_flags(sock: socket.socket, request: bytes) -> int:
    (flags,) = struct.unpack_from("=H", _call_ioctl(sock, _SIOCGIFFLAGS, request), _NAME_BYTES)
    return int(flags)


def _text_of(request: bytes) -> str:
    return socket.inet_ntoa(request[_ADDRESS])


def _call_ioctl(sock: socket.socket, command: int, request: bytes) -> bytes:
    answer: bytes = fcntl.ioctl(sock, command, request)
    return answer
