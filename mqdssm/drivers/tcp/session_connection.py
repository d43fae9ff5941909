"""Connection of a session: bytes to packets and back, with limits.

See [MS-MQQB] 2.1.1 and 3.1.5.1.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Any, Final, Protocol

from mqdssm.errors import DecodeError
from mqdssm.model.packets import Packet
from mqdssm.model.transport import Message
from mqdssm.wire.message_packets import MessageFramer

WRITE_BYTES_HIGH: Final = 1 << 20
"""Octets that wait to be written, beyond which no further message is sent."""
BATCH_BYTES: Final = 1 << 16
"""Octets of packets that are written together."""
WRITE_BYTES_MAX: Final = 8 << 20
"""Octets that wait to be written, beyond which the connection is closed: its peer does not read."""
UNOPENED_BYTES_MAX: Final = 1024
"""Octets of an incomplete packet of a session that is not open: its own packets are smaller."""
CLOSING_S: Final = 10.0
"""Seconds for which a closed connection may still write."""


class ConnectionOwner(Protocol):
    """Driver of the session of a connection."""

    @property
    def is_open(self) -> bool:
        """True if the session takes messages."""

    def on_connected(self, connection: "SessionConnection") -> None:
        """Handle a new connection."""

    def on_packets(self, connection: "SessionConnection", packets: Collection[Packet | Message]) -> int:
        """Handle the first of some packets, in their order.

        Returns how many: the others have to wait. If none can be handled, they wait until
        `SessionConnection.resume` is called.
        """

    def on_malformed(self, connection: "SessionConnection", reason: str) -> None:
        """Handle bytes that are no packet, or more of them than are allowed."""

    def on_writable(self) -> None:
        """Handle the end of a congestion."""

    def on_lost(self, connection: "SessionConnection", reason: str) -> None:
        """Handle the end of a connection."""


class PendingBytes:
    """Octets of incomplete packets of all connections, with a limit.

    Args:
        bytes_max: how many there may be; the connection with the most is closed when there are more.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._of: Final[dict[SessionConnection, int]] = {}
        self._total = 0

    def set(self, connection: "SessionConnection", octets: int) -> None:
        """Set the octets of a connection."""
        self._total += octets - self._of.pop(connection, 0)
        if octets:
            self._of[connection] = octets
        if self._total > self._bytes_max:
            largest = max(self._of, key=self._of.__getitem__)
            largest.refuse("too many octets of incomplete packets")


class SessionConnection(asyncio.Protocol):
    """TCP connection of one session, in the event loop.

    Args:
        owner: drives the session.
        number: of the connection, for the session.
        pending: counts octets of incomplete packets.

    Attributes:
        number: of the connection, for the session.
        is_ended: True if the connection is gone, with all that was written.
    """

    def __init__(self, owner: ConnectionOwner, number: int, pending: PendingBytes) -> None:
        self.number: Final = number
        self._owner, self._pending = owner, pending
        self._framer: Final = MessageFramer()
        self._backlog: Final[deque[Packet | Message]] = deque()
        self._unwritten: Final[list[bytes]] = []
        self._unwritten_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._is_congested = False
        self._is_closed = False
        self.is_ended = False

    @property
    def peer(self) -> str:
        """IP address and port of the peer."""
        name: Any = None if self._transport is None else self._transport.get_extra_info("peername")
        return "?" if name is None else f"{name[0]}:{name[1]}"

    @property
    def peer_host(self) -> str:
        """IP address of the peer."""
        return self.peer.rpartition(":")[0]

    @property
    def is_writable(self) -> bool:
        """True if messages may be written: the peer reads what was written."""
        return not self._is_congested and not self._is_closed

    def write(self, data: bytes) -> None:
        """Write a packet, with those that wait for `flush`."""
        self.write_soon((data,))
        self.flush()

    def write_soon(self, packets: Collection[bytes]) -> None:
        """Write packets soon, together with others; the caller calls `flush` at last."""
        self._unwritten.extend(packets)
        self._unwritten_bytes += sum(map(len, packets))
        if self._unwritten_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the packets of `write_soon`."""
        data = b"".join(self._unwritten)
        self._unwritten.clear()
        self._unwritten_bytes = 0
        if self._transport is None or self._is_closed or not data:
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > WRITE_BYTES_MAX:
            self.refuse("the peer does not read")

    def refuse(self, reason: str) -> None:
        """Report the peer to the owner, soon: not from within a step of the session."""
        if not self._is_closed:
            asyncio.get_running_loop().call_soon(self._owner.on_malformed, self, reason)

    def resume(self) -> None:
        """Read on: there is room for packets again."""
        if self._is_closed:
            return
        self._process()
        if not self._backlog and self._transport is not None and not self._is_closed:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection after what was written, within `CLOSING_S`."""
        self.flush()
        self._is_closed = True
        self._backlog.clear()
        self._pending.set(self, 0)
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(CLOSING_S, self._transport.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    # --- calls of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report the connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  create_connection, create_server
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self._owner.on_connected(self)

    def data_received(self, data: bytes) -> None:
        """Decode packets and report them, until the owner has no room."""
        if self._is_closed:
            return
        try:
            self._backlog.extend(self._framer.feed(data))
        except DecodeError as error:
            self._owner.on_malformed(self, str(error))
            return
        self._process()
        if self._backlog and self._transport is not None:
            self._transport.pause_reading()
        if not self._is_closed:
            self._check_pending()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        self._is_closed = self.is_ended = True
        self._pending.set(self, 0)
        self._owner.on_lost(self, "closed by the peer" if exc is None else str(exc))

    def pause_writing(self) -> None:
        """Note that the peer reads too slowly."""
        self._is_congested = True

    def resume_writing(self) -> None:
        """Note that the peer has read, and report it."""
        self._is_congested = False
        self._owner.on_writable()

    def _process(self) -> None:
        while self._backlog and not self._is_closed:
            handled = self._owner.on_packets(self, self._backlog)
            if not handled:
                return
            for _ in range(min(handled, len(self._backlog))):  # closing has emptied it
                self._backlog.popleft()
        if self._framer.error is not None and not self._is_closed:
            self._owner.on_malformed(self, str(self._framer.error))

    def _check_pending(self) -> None:
        octets = self._framer.pending_bytes
        if octets > UNOPENED_BYTES_MAX and not self._owner.is_open:
            self._owner.on_malformed(self, f"{octets} octets before the session is open")
        else:
            self._pending.set(self, octets)
