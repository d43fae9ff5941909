"""Hostile peers of a queue manager, with raw sockets: mutated packets, floods, and slow senders."""

import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from mqdssm.model.socket_addresses import SocketAddress
from support.session.raw_client import BASE, OWN, RECOVERABLE, SIGNATURE, packet, user_packet

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that ends a connection by a reset: it leaves nothing behind here."""
ESTABLISH: Final = packet(
    0x0B, struct.pack("<HH", 0, 2) + OWN + bytes(16) + struct.pack("<IHH", 1234, 0x0310, 0) + bytes(512)
)
PARAMETERS: Final = packet(0x0B, struct.pack("<HHIIHH", 0, 3, 500, 20_000, 0, 64))
ACKNOWLEDGEMENT: Final = packet(0x0B, struct.pack("<HHHHIHH", 0, 1, 1, 0, 0, 1, 64))
_INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


def connect(address: SocketAddress, source: str = "", timeout_s: float = 5.0) -> socket.socket:
    """Connect from a source address; the end is a reset."""
    connection = socket.create_connection(address, timeout_s, (source, 0) if source else None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def sources(chance: random.Random) -> str:
    """An address of loopback, other than that of good peers."""
    return f"127.{chance.randrange(1, 200)}.{chance.randrange(1, 200)}.{chance.randrange(1, 200)}"


class PacketMaker:
    """Makes packets by chance: valid ones, mutated ones, and random octets.

    Args:
        seed: of the choices.
        queues: names of the server's queues.
        machine: name of the server's machine.
    """

    def __init__(self, seed: int, queues: Sequence[str], machine: str) -> None:
        self.chance: Final = random.Random(seed)
        self._queues, self._machine = queues, machine

    def make(self) -> bytes:
        """Return the next packet."""
        kind = self.chance.random()
        if kind < 0.1:
            return self.chance.randbytes(self.chance.choice((1, 15, 16, 17, 64, 1500)))
        whole = self._valid()
        if kind < 0.15:
            return whole
        return self._mutated(whole)

    def _valid(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.3:
            return chance.choice((ESTABLISH, PARAMETERS, ACKNOWLEDGEMENT))
        destination = rf"OS:{self._machine}\private$\{chance.choice(self._queues)}"
        return user_packet(
            chance.randrange(1 << 32),
            chance.randbytes(chance.choice((0, 1, 20, 300))),
            destination,
            flags=chance.choice((0, 0, RECOVERABLE)),
            admin=chance.choice((None, None, rf"TCP:127.0.0.1\private$\{chance.choice(self._queues)}")),
        )

    def _mutated(self, whole: bytes) -> bytes:
        chance, data = self.chance, bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            match chance.randrange(6):
                case 0:
                    data[at] ^= 1 << chance.randrange(8)
                case 1:
                    data[at] = chance.randrange(256)
                case 2:
                    size = chance.choice((1, 2, 4))
                    value = chance.choice(_INTERESTING) & ((1 << 8 * size) - 1)
                    data[at : at + size] = value.to_bytes(size, "little")
                case 3:
                    del data[at : at + chance.randrange(1, 40)]
                case 4:
                    data[at:at] = chance.randbytes(chance.randrange(1, 40))
                case _:
                    other = self._valid()
                    data[at:] = other[chance.randrange(len(other)) :]
            if not data:
                data += b"\0"
        if chance.random() < 0.7 and len(data) >= 16:  # a size that is right: the rest is read
            struct.pack_into("<II", data, 4, SIGNATURE, len(data))
        return bytes(data)


def send_packets(address: SocketAddress, maker: PacketMaker, count: int) -> int:
    """Send packets, a few on each connection, and let the server read them; how many were written whole."""
    sent = 0
    while sent < count:
        packets = [maker.make() for _ in range(maker.chance.randrange(1, 6))]
        with connect(address, sources(maker.chance)) as connection, suppress(OSError):
            if maker.chance.random() < 0.8:
                for request in (ESTABLISH, PARAMETERS):
                    connection.sendall(request)
                    _read(connection)
            connection.sendall(b"".join(packets))
            sent += len(packets)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    return sent


def _read(connection: socket.socket) -> None:
    head = connection.recv(16, socket.MSG_WAITALL)
    if len(head) == 16:
        connection.recv(BASE.unpack(head)[4] - 16, socket.MSG_WAITALL)


def open_session(address: SocketAddress, source: str = "") -> socket.socket:
    """Connect, and open a session."""
    connection = connect(address, source)
    try:
        for request in (ESTABLISH, PARAMETERS):
            connection.sendall(request)
            _read(connection)
    except OSError:
        connection.close()
        raise
    return connection


def claims(size: int, destination: str) -> bytes:
    """The begin of a message that claims a size: in its header, in those of its parts, or in both."""
    whole = bytearray(user_packet(1, b"x" * 100, destination))
    struct.pack_into("<I", whole, 8, size & 0xFFFF_FFFF)
    return bytes(whole)


@contextmanager
def crawling(connections: Sequence[socket.socket], data: bytes) -> Iterator[None]:
    """Send data octet by octet, one a second, on each connection, during a block."""
    ending = threading.Event()

    def crawl() -> None:
        for at in itertools.count():
            if ending.wait(1):
                return
            for connection in connections:
                with suppress(OSError):
                    connection.sendall(data[at % len(data) : at % len(data) + 1])

    thread = threading.Thread(target=crawl, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def half_open(address: SocketAddress, count: int, chance: random.Random) -> list[socket.socket]:
    """Make connections that say nothing, from many addresses; those that were accepted."""
    made = []
    for _ in range(count):
        with suppress(OSError):
            made.append(connect(address, sources(chance), timeout_s=1))
    return made


def closed(connections: Sequence[socket.socket], within_s: float) -> int:
    """How many connections the peer ends within a time."""
    until, ended = time.monotonic() + within_s, 0
    for connection in connections:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            while connection.recv(4096):
                pass
            ended += 1
        except TimeoutError:
            continue
        except OSError:
            ended += 1
    return ended
