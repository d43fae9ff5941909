"""Packets out of the byte stream of a session ([MS-MQQB] 2.1.1, 3.1.5.1).

The module has no input or output of its own.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from mqdssm.errors import DecodeError
from mqdssm.model.packets import PACKET_BYTES_MAX, Packet
from mqdssm.wire.mqqb import decode_packet
from mqdssm.wire.mqqb_headers import BASE_HEADER, BASE_HEADER_BYTES, PACKET_SIZE_AT

T = TypeVar("T")


class StreamReader(ABC, Generic[T]):
    """Reader of a byte stream.

    Each BaseHeader is read as soon as it is there. A wrong version, signature or size is refused before the
    rest arrives. The buffer holds at most the packet that this header claims, and the last bytes fed.

    Attributes:
        error: reason why the stream cannot be read any further; None: it can.
    """

    def __init__(self) -> None:
        self.error: DecodeError | None = None
        self._buffer = bytearray()
        self._needed = BASE_HEADER_BYTES
        self._has_start = False
        self._user_start = b""  # of the last user packet's BaseHeader, up to PacketSize
        self._user_trailing = 0  # octets behind that packet's PacketSize

    @property
    def pending_bytes(self) -> int:
        """Number of bytes of an incomplete packet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[T]:
        """Add bytes of the stream; return the packets that they complete.

        Packets before a malformed one are returned: the error comes with the next call, and is in `error`.

        Raises:
            DecodeError: the stream has a malformed packet: the session must end ([MS-MQQB] 3.1.5.1.3).
        """
        if self.error is not None:
            raise self.error
        self._buffer += data
        packets: list[T] = []
        try:
            at = self._read(packets)
        except DecodeError as error:
            self.error = error
            self._buffer.clear()
            if not packets:
                raise
            return packets
        del self._buffer[:at]
        return packets

    def _read(self, packets: list[T]) -> int:
        """Read the complete packets of the buffer; return the offset behind them."""
        at = 0
        with memoryview(self._buffer) as view:
            while len(view) - at >= self._needed:
                data = bytes(view[at : at + self._needed])
                if self._has_start:
                    packets.append(self._convert(data))
                    at += self._needed
                    self._needed, self._has_start = BASE_HEADER_BYTES, False
                else:
                    self._needed, self._has_start = self._read_total_bytes(data), True
        return at

    def _read_total_bytes(self, header: bytes) -> int:
        """Return the size of a packet by its BaseHeader.

        A header like that of the last user packet is read faster.
        """
        size = int.from_bytes(header[PACKET_SIZE_AT : PACKET_SIZE_AT + 4], "little")
        begin = header[:PACKET_SIZE_AT]
        if begin == self._user_start and BASE_HEADER_BYTES <= size <= PACKET_BYTES_MAX:
            return size + self._user_trailing
        start, _ = BASE_HEADER.read(header, 0, BASE_HEADER_BYTES)
        if not start.is_internal:
            self._user_start, self._user_trailing = begin, start.total_bytes - start.packet_size
        return start.total_bytes

    @abstractmethod
    def _convert(self, data: bytes) -> T:
        """Convert the bytes of one packet."""


class PacketFramer(StreamReader[Packet]):
    """Reader of a byte stream that decodes its packets."""

    def _convert(self, data: bytes) -> Packet:
        return decode_packet(data)


class PacketSplitter(StreamReader[bytes]):
    """Reader of a byte stream that cuts it into packets.

    Headers behind the first one are not checked.
    """

    def _convert(self, data: bytes) -> bytes:
        return data
