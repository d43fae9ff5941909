"""Captures of TCP connections, written by hand: pcap and pcapng, segment by segment."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address

FIN, SYN, RST, ACK = 1, 2, 4, 16
SERVER_PORT = 1801


@dataclass
class CapturedConnection:
    """A connection from a client to a queue manager, as Ethernet frames."""

    client: str = "10.0.0.1"
    server: str = "10.0.0.2"
    client_port: int = 40_000
    server_port: int = SERVER_PORT
    frames: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=lambda: [2**32 - 100, 5_000])

    def open(self) -> "CapturedConnection":
        self.segment(0, SYN)
        self.segment(1, SYN | ACK)
        return self

    def send(self, data: bytes, *, by_server: bool = False, size: int = 1_000) -> "CapturedConnection":
        for at in range(0, len(data), size):
            self.segment(int(by_server), ACK, data[at : at + size])
        return self

    def close(self) -> "CapturedConnection":
        self.segment(0, FIN | ACK)
        self.segment(1, FIN | ACK)
        return self

    def segment(self, side: int, flags: int, data: bytes = b"") -> None:
        """Add a frame of one side."""
        hosts = [ip_address(self.client), ip_address(self.server)]
        ports = [self.client_port, self.server_port]
        source, target = hosts[side], hosts[1 - side]
        tcp = struct.pack(
            ">HHIIBBHHH", ports[side], ports[1 - side], self.numbers[side], 0, 0x50, flags, 65535, 0, 0
        )
        tcp += data
        if source.version == 4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0)
            kind = b"\x08\x00"
        else:
            head = struct.pack(">IHBB", 0x60000000, len(tcp), 6, 64)
            kind = b"\x86\xdd"
        self.frames.append(bytes(12) + kind + head + source.packed + target.packed + tcp)
        self.numbers[side] = (self.numbers[side] + len(data) + bool(flags & (SYN | FIN))) % 2**32


def pcap_of(frames: Iterable[bytes], *, link_type: int = 1) -> bytes:
    """Write a file in the format of libpcap."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link_type)]
    for number, frame in enumerate(frames):
        parts += [struct.pack("<IIII", 1_700_000_000, number, len(frame), len(frame)), frame]
    return b"".join(parts)


def pcapng_of(frames: Iterable[bytes], begun_us: int = 1_700_000_000_000_000) -> bytes:
    """Write a file in the format of pcapng; `begun_us`: microseconds since 1970 of the first frame."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", 12 + len(body))
        return struct.pack("<I", kind) + size + body + size

    parts = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    parts.append(block(1, struct.pack("<HHI", 1, 0, 262_144)))
    for number, frame in enumerate(frames):
        time = begun_us + number
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
        parts.append(block(6, head + frame))
    return b"".join(parts)
