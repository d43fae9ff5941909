"""Packets out of the byte stream of a session ([MS-MQQB] 2.1.1, 3.1.5.1).

The module has no input or output of its own.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from mqdssm.errors import DecodeError
from mqdssm.model.packets import Packet
from mqdssm.wire.mqqb import decode_packet
from mqdssm.wire.mqqb_headers import BASE_HEADER, BASE_HEADER_BYTES

T = TypeVar("T")


class _StreamReader(ABC, Generic[T]):
    """Reader of a byte stream.

    It reads each BaseHeader as soon as it is there, and refuses a wrong version, signature or size before
    the rest arrives. It buffers at most the packet that this header claims, and the last bytes fed.

    Attributes:
        error: reason why the stream cannot be read any further; None: it can.
    """

    def __init__(self) -> None:
        self.error: DecodeError | None = None
        self._buffer = bytearray()
        self._needed = BASE_HEADER_BYTES
        self._has_start = False

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
                    start, _ = BASE_HEADER.read(data, 0, BASE_HEADER_BYTES)
                    self._needed, self._has_start = start.total_bytes, True
        return at

    @abstractmethod
    def _convert(self, data: bytes) -> T:
        """Convert the bytes of one packet."""


class PacketFramer(_StreamReader[Packet]):
    """Reader of a byte stream that decodes its packets."""

    def _convert(self, data: bytes) -> Packet:
        return decode_packet(data)


class PacketSplitter(_StreamReader[bytes]):
    """Reader of a byte stream that cuts it into packets.

    It does not check the headers behind the first one.
    """

    def _convert(self, data: bytes) -> bytes:
        return data
