"""A client of raw sockets: [MS-MQQB] 2.2 and [MS-MQMQ] 2.2.19 by struct alone, no code of ours."""

import socket
import struct

OWN = bytes(range(16))
BASE = struct.Struct("<BBHIII")
SIGNATURE = 0x524F494C
RECOVERABLE, TRANSACTION, SECURITY = 0x20, 0x10_0000, 0x8_0000
"""Flags of UserHeader."""


class RawClient:
    """One session, of the initiator."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        connection.settimeout(5)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> bytes:
        """One packet."""
        head = self._exactly(16)
        version, _, _, signature, size, _ = BASE.unpack(head)
        assert (version, signature) == (0x10, SIGNATURE)
        return head + self._exactly(size - 16)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            assert piece, "the peer has closed the connection"
            data += piece
        return data

    def is_closed(self) -> bool:
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def establish(self, server: bytes = bytes(16), own: bytes = OWN) -> bytes:
        body = own + server + struct.pack("<IHH", 1234, 0x0310, 0) + bytes(512)
        self.send(packet(0x0B, struct.pack("<HH", 0, 2) + body))
        return self.read()

    def open(self, own: bytes = OWN) -> None:
        assert self.establish(own=own)[16:20] == struct.pack("<HH", 0, 2)
        self.send(packet(0x0B, struct.pack("<HHIIHH", 0, 3, 500, 20_000, 0, 64)))
        reply = self.read()
        assert reply[18:20] == b"\x03\0"
        assert struct.unpack_from("<II", reply, 20) == (500, 20_000)


def accept(connection: socket.socket, own: bytes) -> RawClient:
    """Open the session of an initiator that has connected; it is answered and then ignored."""
    peer = RawClient(connection)
    request = peer.read()
    peer.send(request[:36] + own + request[52:])
    peer.send(peer.read())
    return peer


def packet(flags: int, rest: bytes) -> bytes:
    return BASE.pack(0x10, 0, flags, SIGNATURE, 16 + len(rest), 0xFFFF_FFFF) + rest


def direct(name: str) -> bytes:
    """A direct format name in a packet."""
    text = f"{name}\0".encode("utf-16-le")
    data = struct.pack("<H", len(text)) + text
    return data + bytes(-len(data) % 4)


def user_packet(
    number: int,
    body: bytes,
    destination: str = r"OS:right\private$\notify_queue$",
    *,
    flags: int = 0,
    headers: bytes = b"",
    admin: str | None = None,
) -> bytes:
    """A message; with `admin` it asks for all acknowledgements of the arrival."""
    queues = direct(destination) + (b"" if admin is None else direct(admin))
    flags |= 0x0020_1C00 | (0 if admin is None else 7 << 13)
    user = OWN + bytes(16) + struct.pack("<IIII", 0xFFFF_FFFF, 1_700_000_000, number, flags) + queues
    acks = 0 if admin is None else 5
    sizes = (len(body), len(body), 0, 0x8003, 0x6801, 0)
    properties = struct.pack("<BBH20xIIIIIIII", acks, 0, 0, 0, 0, *sizes) + body
    is_transactional = bool(flags & TRANSACTION)
    return packet(0 if is_transactional else 3, user + headers + properties + bytes(-len(properties) % 4))
