"""The IPv4 networks that this computer is connected to: what a client fills NetworkAddressList with.

[MS-MQSD] 3.1.4.1. Linux alone is asked (SIOCGIFCONF and its relatives, netdevice(7)).
"""

import array
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
_SIOCGIFCONF: Final = 0x8912
_SIOCGIFFLAGS: Final = 0x8913
_SIOCGIFBRDADDR: Final = 0x8919
_SIOCGIFDSTADDR: Final = 0x8917
_UP: Final = 0x1
_BROADCAST: Final = 0x2
_LOOPBACK: Final = 0x8
_POINT_TO_POINT: Final = 0x10
_NAME_BYTES: Final = 16
_IFREQ_BYTES: Final = _NAME_BYTES + (24 if struct.calcsize("P") == 8 else 16)
_ADDRESS: Final = slice(_NAME_BYTES + 4, _NAME_BYTES + 8)  # of struct sockaddr_in, behind family and port


def connected_networks(port: int = IP_PORT) -> tuple[Network, ...]:
    """All networks of this computer, without its loopback; a point-to-point link is one of remote access.

    Args:
        port: where servers listen.

    Raises:
        ConfigError: this system cannot be asked.
    """
    if sys.platform != "linux":
        raise ConfigError(
            "the networks of this computer are not known on this system: name them, as 10.0.0.255"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # several addresses on one network are one network
        return tuple({one.address: one for one in _networks(asked, port)}.values())


def _networks(asked: socket.socket, port: int) -> Iterator[Network]:
    for request in _addresses(asked):
        (flags,) = struct.unpack_from("=H", _ioctl(asked, _SIOCGIFFLAGS, request), _NAME_BYTES)
        if flags & _LOOPBACK or not flags & _UP:
            continue
        local = socket.inet_ntoa(request[_ADDRESS])
        if flags & _POINT_TO_POINT:
            peer = socket.inet_ntoa(_ioctl(asked, _SIOCGIFDSTADDR, request)[_ADDRESS])
            yield Network(peer, port, remote_access=True, local=local)
        elif flags & _BROADCAST:
            everybody = socket.inet_ntoa(_ioctl(asked, _SIOCGIFBRDADDR, request)[_ADDRESS])
            if everybody != "0.0.0.0":  # noqa: S104  no address to listen on: an interface without one
                yield Network(everybody, port, local=local)


def _addresses(asked: socket.socket) -> Iterator[bytes]:
    """One struct ifreq for each address: the interface's name, and the address."""
    room = array.array("B", bytes(ADDRESSES_MAX * _IFREQ_BYTES))
    address, size = room.buffer_info()
    answer = fcntl.ioctl(asked, _SIOCGIFCONF, struct.pack("iP", size, address))
    (filled,) = struct.unpack_from("i", answer)
    data = room.tobytes()[:filled]
    for at in range(0, filled, _IFREQ_BYTES):
        yield data[at : at + _IFREQ_BYTES]


def _ioctl(asked: socket.socket, what: int, request: bytes) -> bytes:
    answer: bytes = fcntl.ioctl(asked, what, request)
    return answer
