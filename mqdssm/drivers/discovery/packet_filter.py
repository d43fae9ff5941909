"""Packet filter in the Linux kernel that drops all but requests (decision S16).

A flood fills the buffer of the socket, and most requests of others are lost. So a classic BPF program
(socket(7) SO_ATTACH_FILTER; it sees the header of [RFC768] first) checks each datagram when it is sent. It
also drops datagrams from networks that are not answered (decision S19). Only Linux has such filters; without
one, the engine drops these datagrams.
"""

import ctypes
import ipaddress
import logging
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from typing import Final

from mqdssm.engines.discovery.answers import REQUEST_BYTES_MAX
from mqdssm.engines.discovery.sources import EVERYWHERE, SourceNetworks
from mqdssm.model.discovery import PacketType
from mqdssm.wire.mqsd import IP_REQUEST_BYTES, IPX_REQUEST_BYTES_MIN

log: Final = logging.getLogger(__name__)

SOURCES_MAX: Final = 64
"""Sources that a program names; a jump reaches 255 instructions."""
NETWORKS_MAX: Final = 32
"""Networks that a program names; where there are more, the engine alone judges them."""
_SO_ATTACH_FILTER: Final = 26
_SO_MEMINFO: Final = 55
_DROPS_AT: Final = 4 * 8  # SK_MEMINFO_DROPS, linux/sock_diag.h
_HEADER: Final = 8  # of UDP
_SOURCE_AT: Final = 0xFFF0_0000 + 12  # SKF_NET_OFF: in the header of IP
_TYPE_AT: Final = _HEADER + 1
_COUNT_AT: Final = _HEADER + IP_REQUEST_BYTES  # IPXNetworkCount, little-endian, at most 32
_IPX_AT: Final = _COUNT_AT + 4
# instructions, linux/filter.h
_LOAD_LENGTH, _LOAD_BYTE, _LOAD_WORD = 0x80, 0x30, 0x20
_IF_EQUAL, _IF_EQUAL_X, _IF_ABOVE, _IF_AT_LEAST = 0x15, 0x1D, 0x25, 0x35
_AND, _SHIFT_LEFT, _ADD, _TO_X, _RETURN = 0x54, 0x64, 0x04, 0x07, 0x06
_NEXT, _DROP, _ACCEPT, _SOURCES = "next", "drop", "accept", "sources"
_Row = tuple[int, int, str, str]  # instruction, operand, where to go if it holds, and if not


def build_program(muted: Collection[str] = (), sources: SourceNetworks = EVERYWHERE) -> bytes:
    """Return the BPF program that accepts only requests from permitted sources.

    A source is permitted if it is allowed and not muted.

    Args:
        muted: IPv4 addresses, at most `SOURCES_MAX`.
        sources: networks that are answered, at most `NETWORKS_MAX`.
    """
    shape: list[_Row] = [
        (_LOAD_LENGTH, 0, _NEXT, _NEXT),
        (_IF_AT_LEAST, _HEADER + IP_REQUEST_BYTES, _NEXT, _DROP),
        (_IF_ABOVE, _HEADER + REQUEST_BYTES_MAX, _DROP, _NEXT),
        (_LOAD_BYTE, _TYPE_AT, _NEXT, _NEXT),
        (_IF_EQUAL, PacketType.CLIENT_REQUEST, _NEXT, _DROP),
        (_LOAD_LENGTH, 0, _NEXT, _NEXT),
        (_IF_AT_LEAST, _HEADER + IPX_REQUEST_BYTES_MIN, _NEXT, _SOURCES),
        # with IPX networks: as many as it says
        (_LOAD_WORD, _COUNT_AT, _NEXT, _NEXT),
        (_AND, 0x00FF_FFFF, _NEXT, _NEXT),
        (_IF_EQUAL, 0, _NEXT, _DROP),
        (_LOAD_BYTE, _COUNT_AT, _NEXT, _NEXT),
        (_SHIFT_LEFT, 2, _NEXT, _NEXT),
        (_ADD, _IPX_AT, _NEXT, _NEXT),
        (_TO_X, 0, _NEXT, _NEXT),
        (_LOAD_LENGTH, 0, _NEXT, _NEXT),
        (_IF_EQUAL_X, 0, _NEXT, _DROP),
    ]
    addresses = [int(ipaddress.IPv4Address(address)) for address in list(muted)[:SOURCES_MAX]]
    of_source: list[_Row] = [
        (_LOAD_WORD, _SOURCE_AT, _NEXT, _NEXT),
        *((_IF_EQUAL, address, _DROP, _NEXT) for address in addresses),
    ]
    if len(sources.networks) <= NETWORKS_MAX:
        for network in sources.networks:
            of_source += [
                (_LOAD_WORD, _SOURCE_AT, _NEXT, _NEXT),
                (_AND, int(network.netmask), _NEXT, _NEXT),
                (_IF_EQUAL, int(network.network_address), _ACCEPT, _NEXT),
            ]
        of_source.append((_RETURN, 0, _NEXT, _NEXT))
    ends: list[_Row] = [(_RETURN, 0xFFFF_FFFF, _NEXT, _NEXT), (_RETURN, 0, _NEXT, _NEXT)]
    places = {_SOURCES: len(shape), _ACCEPT: len(shape) + len(of_source)}
    places[_DROP] = places[_ACCEPT] + 1
    return b"".join(_assemble([*shape, *of_source, *ends], places))


def _assemble(rows: list[_Row], places: dict[str, int]) -> Iterator[bytes]:
    """Yield each row as a struct sock_filter; jumps count from the next instruction."""
    for at, (code, operand, holds, fails) in enumerate(rows):
        jumps = (places.get(where, at + 1) - at - 1 for where in (holds, fails))
        yield struct.pack("=HBBI", code, *jumps, operand)


def attach(
    filtered: socket.socket, muted: Collection[str] = (), sources: SourceNetworks = EVERYWHERE
) -> bool:
    """Attach the filter to a UDP socket; an existing filter is replaced.

    Args:
        filtered: the socket.
        muted: IPv4 addresses, as in `build_program`.
        sources: networks that are answered, as in `build_program`.

    Returns:
        True if the socket has the filter now.
    """
    if sys.platform != "linux":
        return False
    instructions = build_program(muted, sources)
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    fprog = struct.pack("HP", len(instructions) // 8, ctypes.addressof(buffer))
    try:
        filtered.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
    except OSError as error:
        log.info("no packet filter: %s", error)
        return False
    return True


def count_dropped(filtered: socket.socket) -> int:
    """Return the number of datagrams that the operating system dropped.

    The filter or a lack of room makes the system drop datagrams.

    0 also on systems that do not count them.
    """
    if sys.platform != "linux":
        return 0
    try:
        counters = filtered.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _DROPS_AT + 4)
    except OSError:
        return 0
    return int.from_bytes(counters[_DROPS_AT : _DROPS_AT + 4], sys.byteorder)
