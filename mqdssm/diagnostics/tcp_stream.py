"""Bytes of TCP connections from captured segments.

The bytes are in order, each once; memory is bounded.
"""

from typing import Final

from mqdssm.errors import MqdssmError

PENDING_BYTES_MAX: Final = 8 << 20
"""Most bytes of one direction that wait for an earlier segment: two packets of the largest size."""
PENDING_SEGMENTS_MAX: Final = 4_096
"""Most segments of one direction that wait for an earlier segment."""
_NUMBERS: Final = 1 << 32  # sequence numbers are modulo this (RFC 9293 3.4)
_HALF: Final = 1 << 31


class LostBytesError(MqdssmError):
    """Bytes of a connection are not in the capture."""


class TcpStream:
    """One direction of a connection.

    Attributes:
        pending_bytes: number of bytes that wait for an earlier segment.
    """

    def __init__(self) -> None:
        self.pending_bytes = 0
        self._next: int | None = None
        self._pending: dict[int, bytes] = {}

    def start(self, number: int) -> None:
        """Begin with the segment that opens the connection.

        The segment may be in the capture twice.
        """
        if self._next is None:
            self._next = (number + 1) % _NUMBERS

    def add(self, number: int, data: bytes) -> bytes:
        """Add a segment; return the bytes that are now in order.

        In a capture without the opening segment the first segment counts as the beginning.

        Raises:
            LostBytesError: too much waits for a segment that is not in the capture.
        """
        if self._next is None:
            self._next = number
        self._keep(number, data)
        parts: list[bytes] = []
        while (usable := self._find_usable()) is not None:
            segment = self._pending.pop(usable)
            self.pending_bytes -= len(segment)
            fresh = segment[(self._next - usable) % _NUMBERS :]
            self._next = (self._next + len(fresh)) % _NUMBERS
            parts.append(fresh)
        if self.pending_bytes > PENDING_BYTES_MAX or len(self._pending) > PENDING_SEGMENTS_MAX:
            raise LostBytesError(f"the capture lacks a segment before sequence number {min(self._pending)}")
        return b"".join(parts)

    def _keep(self, number: int, data: bytes) -> None:
        """Keep a segment, unless a longer one begins at the same place."""
        known_bytes = len(self._pending.get(number, b""))
        if len(data) > known_bytes:
            self._pending[number] = data
            self.pending_bytes += len(data) - known_bytes

    def _find_usable(self) -> int | None:
        """Return the number of a kept segment that does not begin behind the next byte."""
        following = self._next or 0
        if following in self._pending:
            return following
        return next((number for number in self._pending if 0 < (following - number) % _NUMBERS < _HALF), None)
