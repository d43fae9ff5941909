"""Sessions of queue managers in a capture file, pcap or pcapng.

The sessions are those of [MS-MQQB] 2.1.1.
The file is read frame by frame; memory is bounded, whatever it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from struct import error as StructError  # noqa: N812  an exception, which struct writes in small letters
from typing import IO, Any, Final, TypeAlias

from mqdssm.diagnostics.tcp_stream import LostBytesError, TcpStream
from mqdssm.errors import ConfigError, DecodeError, MissingPackageError
from mqdssm.wire.packet_framer import PacketSplitter

TIME_MAX: Final = 253_402_300_799.0
"""Latest time of a frame: the last second of the year 9999."""
FRAME_BYTES_MAX: Final = 1 << 20
"""Largest frame of a capture; tcpdump cuts at 256 KiB."""
CONNECTIONS_MAX: Final = 4_096
"""Most connections that are followed at a time; the oldest gives way."""
BUFFERED_BYTES_MAX: Final = 64 << 20
"""Most bytes of incomplete packets; the connection that exceeds it is not followed any further."""
_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_LINK_TYPES: Final = {0: "loopback", 1: "ethernet", 108: "loopback", 113: "sll", 276: "sll2"}
"""Module of dpkt for frames of a link type (LINKTYPE_ of libpcap)."""
_IP_LINK_TYPES: Final = frozenset({12, 14, 101, 228, 229})
"""Link types whose frames begin with the header of IP."""
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10

Endpoint: TypeAlias = tuple[str, int]
"""Address and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedItem:
    """A packet of a session, or the reason why one direction ends.

    Attributes:
        time: seconds since 1970.
        session: number of the TCP connection in the capture, from 1.
        source: the sender.
        destination: the receiver.
        data: the packet; empty with a problem.
        problem: the reason, or an empty text.
    """

    time: float
    session: int
    source: Endpoint
    destination: Endpoint
    data: bytes = b""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """A TCP segment of a capture."""

    time: float
    source: Endpoint
    destination: Endpoint
    number: int
    flags: int
    data: bytes

    @property
    def opens_connection(self) -> bool:
        return bool(self.flags & _SYN) and not self.flags & _ACK


@dataclass(slots=True)
class _Direction:
    """One direction of a connection."""

    session: int
    source: Endpoint
    destination: Endpoint
    stream: TcpStream = field(default_factory=TcpStream)
    splitter: PacketSplitter = field(default_factory=PacketSplitter)
    is_finished: bool = False
    time: float = 0.0

    @property
    def buffered_bytes(self) -> int:
        return self.stream.pending_bytes + self.splitter.pending_bytes

    def item(self, *, data: bytes = b"", problem: str = "") -> CapturedItem:
        return CapturedItem(
            time=self.time,
            session=self.session,
            source=self.source,
            destination=self.destination,
            data=data,
            problem=problem,
        )

    def add(self, segment: _Segment) -> Iterator[CapturedItem]:
        """Add a segment; yield the packets that it completes.

        A problem that ends this direction is yielded, too.
        """
        self.time = segment.time
        if segment.flags & _SYN:
            self.stream.start(segment.number)
        if self.is_finished or not segment.data:
            return
        try:
            for data in self.splitter.feed(self.stream.add(segment.number, segment.data)):
                yield self.item(data=data)
            self.splitter.feed(b"")  # raises the error of a packet behind these
        except (DecodeError, LostBytesError) as error:
            yield from self.end(str(error))

    def end(self, problem: str = "") -> Iterator[CapturedItem]:
        """End this direction; yield the problem, or that the last packet is incomplete."""
        missing = f"{self.buffered_bytes} bytes of an incomplete packet" if self.buffered_bytes else ""
        if (problem or missing) and not self.is_finished:
            yield self.item(problem=problem or missing)
        self.is_finished = True
        self.stream, self.splitter = TcpStream(), PacketSplitter()


class Capture:
    """Reader of captures.

    Attributes:
        sessions: number of connections so far.
        unreadable_frames: number of frames so far that are damaged, cut off or fragments.
    """

    def __init__(self, port: int) -> None:
        """Set up.

        Args:
            port: TCP port of the queue managers.
        """
        self.sessions = 0
        self.unreadable_frames = 0
        self._port = port
        self._connections: dict[frozenset[Endpoint], dict[Endpoint, _Direction]] = {}
        self._buffered_bytes = 0

    def read(self, file: IO[bytes]) -> Iterator[CapturedItem]:
        """Read a file; yield packets and problems in the order of the frames.

        Raises:
            ConfigError: the file is no capture, or its frames cannot be read.
            MissingPackageError: dpkt is not installed.
        """
        for segment in self._read_segments(file):
            yield from self._follow(segment)
        for key in list(self._connections):
            yield from self._close(key)

    def _read_segments(self, file: IO[bytes]) -> Iterator[_Segment]:
        """Yield the TCP segments from and to the port."""
        try:
            import dpkt  # noqa: PLC0415  of an extra, and only needed here
        except ImportError as error:
            raise MissingPackageError("dpkt") from error
        start = file.read(len(_PCAPNG_MAGIC))
        try:
            reader = (dpkt.pcapng if start == _PCAPNG_MAGIC else dpkt.pcap).Reader(_BoundedFile(file, start))
            link_type = reader.datalink()
            parse = _choose_frame_parser(dpkt, link_type)
            for time, frame in reader:
                try:
                    segment = _segment_of(dpkt, float(time), parse(frame))
                except (dpkt.Error, ValueError, IndexError, StructError):
                    self.unreadable_frames += 1
                    continue
                if segment is not None and self._port in {segment.source[1], segment.destination[1]}:
                    yield segment
        except (dpkt.Error, ValueError, IndexError, StructError) as error:
            raise ConfigError(f"the file is no capture in the format pcap or pcapng: {error}") from None

    def _follow(self, segment: _Segment) -> Iterator[CapturedItem]:
        """Add a segment to its connection; yield the packets that it completes."""
        key = frozenset((segment.source, segment.destination))
        directions = self._connections.get(key)
        if directions and segment.opens_connection and any(end.is_finished for end in directions.values()):
            yield from self._close(key)  # the ports are used again
            directions = None
        if directions is None:
            if not segment.data and not segment.flags & _SYN:
                return  # the end of a connection that is closed already
            directions = self._open(key, segment)
            if len(self._connections) > CONNECTIONS_MAX:
                yield from self._close(next(iter(self._connections)), "more connections than can be followed")
        direction = directions[segment.source]
        before = direction.buffered_bytes
        yield from direction.add(segment)
        self._buffered_bytes += direction.buffered_bytes - before
        if segment.flags & _FIN and not direction.stream.pending_bytes:
            yield from self._end(direction)
        if self._buffered_bytes > BUFFERED_BYTES_MAX:
            yield from self._end(direction, "more bytes of incomplete packets than can be kept")
        if segment.flags & _RST or all(each.is_finished for each in directions.values()):
            yield from self._close(key)

    def _open(self, key: frozenset[Endpoint], segment: _Segment) -> dict[Endpoint, _Direction]:
        self.sessions += 1
        ends = ((segment.source, segment.destination), (segment.destination, segment.source))
        directions = {source: _Direction(self.sessions, source, target) for source, target in ends}
        self._connections[key] = directions
        return directions

    def _end(self, direction: _Direction, problem: str = "") -> Iterator[CapturedItem]:
        """End one direction."""
        self._buffered_bytes -= direction.buffered_bytes
        yield from direction.end(problem)

    def _close(self, key: frozenset[Endpoint], problem: str = "") -> Iterator[CapturedItem]:
        """End both directions of a connection."""
        for direction in self._connections.pop(key).values():
            yield from self._end(direction, problem)


class _BoundedFile:
    """File that starts with bytes read before, and limits the size of a frame."""

    def __init__(self, file: IO[bytes], start: bytes) -> None:
        self._file = file
        self._start = start

    def read(self, size: int) -> bytes:
        """Read bytes.

        Raises:
            ValueError: too many at once, which no frame has.
        """
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise ValueError(f"a frame claims {size} bytes, at most {FRAME_BYTES_MAX}")
        start, self._start = self._start[:size], self._start[size:]
        return start + self._file.read(size - len(start))


def _choose_frame_parser(dpkt: Any, link_type: int) -> Any:
    """Return the function that parses a frame.

    Raises:
        ValueError: frames of a kind that cannot be read.
    """
    if link_type in _IP_LINK_TYPES:
        return lambda frame: (dpkt.ip6.IP6 if frame[0] >> 4 == 6 else dpkt.ip.IP)(frame)
    if link_type not in _LINK_TYPES:
        raise ValueError(f"its link type is {link_type}; capture on Ethernet, loopback or any")
    name = _LINK_TYPES[link_type]
    module = getattr(dpkt, name)
    return getattr(module, {"sll": "SLL", "sll2": "SLL2"}.get(name, name.capitalize()))


def _segment_of(dpkt: Any, time: float, frame: Any) -> _Segment | None:
    """Return the TCP segment of a frame; None: it has none, or a part of one.

    Raises:
        ValueError: a fragment, or a time that is none.
    """
    if not 0 <= time <= TIME_MAX:
        raise ValueError("a time that is none")
    layers = (frame, getattr(frame, "data", None))
    packet = next((layer for layer in layers if isinstance(layer, dpkt.ip.IP | dpkt.ip6.IP6)), None)
    if packet is None:
        return None
    if isinstance(packet, dpkt.ip.IP) and (packet.mf or packet.offset):
        raise ValueError("a fragment")
    segment = packet.data
    if not isinstance(segment, dpkt.tcp.TCP):
        return None
    return _Segment(
        time=time,
        source=(str(ip_address(packet.src)), segment.sport),
        destination=(str(ip_address(packet.dst)), segment.dport),
        number=segment.seq,
        flags=segment.flags,
        data=bytes(segment.data),
    )
