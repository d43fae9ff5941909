"""Drivers of sessions in the event loop.

The session is with a neighbour that messages go to, or with a peer that connects.

They perform the actions of `mqdssm.engines.session.session` ([MS-MQQB] 3.1.5 to 3.1.7).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import random
from typing import Final

from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.drivers.queue_manager.outgoing import QueuedMessage
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.outbox import Outbox
from mqdssm.drivers.tcp.peer_recognition import PeerRecognition
from mqdssm.drivers.tcp.session_connection import PendingBytes, SessionConnection
from mqdssm.drivers.threads import EventCounts, WarningLimit
from mqdssm.engines.actions import Dropped, Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.session import MessageSession
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.engines.session.timers import SessionState
from mqdssm.errors import TransportError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packet_messages import UnsupportedPacketError, message_of, packet_of
from mqdssm.model.packets import Packet, SessionHeader, UserPacket
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import DeliveryGuarantee, Message, MessageClass
from mqdssm.wire.message_packets import MessageEncoder
from mqdssm.wire.mqqb import encode_packet

log: Final = logging.getLogger(__name__)

CONNECT_S: Final = 5.0
"""Seconds for one attempt to connect to one socket address: two repeated SYN segments, after 1 and 3 s."""
SOCKET_ADDRESSES_MAX: Final = 4
"""Socket addresses of one machine that an attempt tries."""
BATCH_PACKETS: Final = 64
"""Packets that are handled together: a window of messages ([MS-MQQB] 3.1.1.2)."""
UNWANTED_S: Final = 5.0
"""Seconds after which a queue manager that has not asked again has no message left for a neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Objects that all sessions of a queue manager share.

    Attributes:
        queue_manager: sends and receives the messages.
        resolver: finds neighbours.
        executor: runs the resolver for messages of our programs.
        stranger_executor: runs the resolver for acknowledgements, whose addresses strangers choose.
        settings: of the sessions.
        pending: counts octets of incomplete packets.
        counts: what was dropped or noted.
        clock: seconds since 1970.
        warnings: limits the warnings that strangers cause.
    """

    queue_manager: LocalQueueManager
    resolver: NameResolver
    executor: Executor
    stranger_executor: Executor
    settings: SessionSettings
    pending: PendingBytes
    counts: EventCounts
    clock: Callable[[], float]
    warnings: WarningLimit = field(default_factory=WarningLimit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """Status of one session at one moment.

    Attributes:
        peer: name, identifier or IP address of a neighbour that messages go to; else IP address and port of
            the peer that has connected.
        is_initiator: True if this queue manager connects.
        state: of the session.
        in_flight: messages that the peer has not acknowledged.
        problem: why the neighbour could not be reached at the last attempt; empty if it could.
    """

    peer: str
    is_initiator: bool
    state: SessionState
    in_flight: int = 0
    problem: str = ""


def _select_express(packets: Collection[Packet | Message]) -> list[Message]:
    """Return the express messages that some packets begin with: at most a batch."""
    messages: list[Message] = []
    for packet in islice(packets, BATCH_PACKETS):
        if not isinstance(packet, Message) or packet.delivery is not DeliveryGuarantee.EXPRESS:
            break
        messages.append(packet)
    return messages


class SessionDriver:
    """Driver of one session; use it in the event loop only.

    Args:
        session: the engine.
        context: what all sessions share.

    Attributes:
        session: the engine.
    """

    def __init__(self, session: MessageSession, context: SessionContext) -> None:
        self.session: Final = session
        self._context: Final = context
        self._loop: Final = asyncio.get_running_loop()
        self._connection: SessionConnection | None = None
        self._timers: Final[dict[str, asyncio.TimerHandle]] = {}
        self._tokens = 0
        self._performers: Final[dict[type, Callable[..., None]]] = {
            StartTimer: self._start_timer,
            StopTimer: self._stop_timer,
            Note: self._note,
            Dropped: lambda action: context.counts.add(f"dropped: {action.what}"),
            do.CloseConnection: self._close_connection,
            do.SendPacket: lambda action: self._write(encode_packet(action.packet)),
            do.AcceptMessage: lambda _action: None,  # `_accept` has put it into its queue
            do.SessionOpened: lambda _action: context.counts.add("session opened"),
        }

    @property
    def is_open(self) -> bool:
        """True if the session takes messages."""
        return self.session.state is SessionState.OPEN

    @property
    def connection(self) -> SessionConnection | None:
        """The connection, if there is one."""
        return self._connection

    def take(self, event: do.Event) -> None:
        """Pass an event to the session and perform its actions."""
        for action in self.session.step(event, self._loop.time()):
            self._performers[type(action)](action)

    def stop(self) -> None:
        """End the session ([MS-MQQB] 3.1.4.2)."""
        self.take(do.Stop())

    # --- of the connection

    def on_connected(self, connection: SessionConnection) -> None:
        """Handle a new connection."""
        self._connection = connection
        self.take(do.Connected(connection=connection.number))

    def on_packets(self, connection: SessionConnection, packets: Collection[Packet | Message]) -> int:
        """Handle some packets.

        Several express messages in a row are passed to the queue manager together.

        Returns how many; 0 if the queue manager has no room for the first message now.
        """
        messages = _select_express(packets)
        if not self.is_open or not messages:
            return int(self._handle(connection, next(iter(packets))))
        if not self.session.may_read or not self._context.queue_manager.offer(messages):
            return 0
        self.take(do.ExpressReceived(messages=len(messages), connection=connection.number))
        return len(messages)

    def _handle(self, connection: SessionConnection, packet: Packet | Message) -> bool:
        """Handle one packet; return False if the queue manager has no room for it."""
        if not isinstance(packet, UserPacket | Message):
            self.take(do.PacketReceived(packet=packet, connection=connection.number))
            return True
        is_recoverable = packet.delivery is DeliveryGuarantee.RECOVERABLE
        if self.is_open and not (
            self.session.may_read and self._accept(packet, connection, self._tokens + 1)
        ):
            return False
        header = packet.session if isinstance(packet, UserPacket) else None
        self._count(connection, is_recoverable=is_recoverable, header=header)
        return True

    def _count(
        self,
        connection: SessionConnection,
        *,
        is_recoverable: bool = False,
        header: SessionHeader | None = None,
    ) -> None:
        """Pass the arrival of a message to the session."""
        self._tokens += 1
        self.take(
            do.MessageReceived(
                token=self._tokens,
                is_recoverable=is_recoverable,
                session_header=header,
                connection=connection.number,
            )
        )

    def on_malformed(self, connection: SessionConnection, reason: str) -> None:
        """Close the session ([MS-MQQB] 3.1.5.1.3)."""
        if connection is self._connection:
            self._context.counts.add("closed: malformed packet, or a limit")
            self.take(do.CloseSession(detail=f"{connection.peer}: {reason}"))

    def on_writable(self) -> None:
        """Do nothing: acknowledgements do not wait."""

    def on_lost(self, connection: SessionConnection, reason: str) -> None:
        """Handle the end of a connection ([MS-MQQB] 3.1.7.3)."""
        if connection is not self._connection:
            return  # one that was closed here, or that came too late
        self._connection = None
        self.take(do.ConnectionLost(connection=connection.number, reason=reason))

    def _accept(self, packet: UserPacket | Message, connection: SessionConnection, token: int) -> bool:
        """Pass a message to the queue manager; return False if that is full.

        The queue manager refuses what cannot be accepted: its answer may have to be stored, and the event
        loop does not wait for a disk (decision T42).
        """
        is_recoverable = packet.delivery is DeliveryGuarantee.RECOVERABLE
        on_settled = partial(self._settle_soon, connection, token) if is_recoverable else None
        message, refusal, reason = self._read(packet)
        if message is None:
            if on_settled is not None:
                on_settled(True)
        elif not self._context.queue_manager.offer((message,), on_settled, refusal=refusal):
            return False
        if reason:
            self._context.counts.add(reason)
        return True

    def _read(self, packet: UserPacket | Message) -> tuple[Message | None, MessageClass | None, str]:
        """Return the message of a packet; and class and reason of a refusal.

        The message is None if it has parts that are not supported, and no acknowledgement fits.
        """
        message = packet if isinstance(packet, Message) else None
        if isinstance(packet, UserPacket):
            try:
                message = message_of(packet)
            except UnsupportedPacketError as error:
                log.info("a message is dropped: %s", error)
                plain = replace(packet, transaction=None, security=None, soap=None, extension_data=b"")
                refused = None
                with suppress(UnsupportedPacketError):
                    refused = None if error.message_class is None else message_of(plain)
                return refused, error.message_class, "dropped: unsupported message"
        if packet.delivery is DeliveryGuarantee.RECOVERABLE and not self._context.queue_manager.is_storing:
            refusal = MessageClass.NACK_QUEUE_EXCEED_QUOTA
            return message, refusal, "refused: recoverable message, there is no store"
        return message, None, ""

    def _settle_soon(self, connection: SessionConnection, token: int, is_settled: bool) -> None:
        """Report a recoverable message, from any thread: it is stored, or could not be."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._on_settled, connection, token, is_settled)

    def _on_settled(self, connection: SessionConnection, token: int, is_settled: bool) -> None:
        if connection is not self._connection:
            return
        if is_settled:
            self.take(do.MessageStored(token=token))
        else:
            self.take(do.CloseSession(detail=f"{connection.peer}: a message cannot be stored"))
        if connection is self._connection:
            connection.resume()  # it stops reading when too many messages are not stored

    # --- actions

    def _stop_timer(self, action: StartTimer | StopTimer) -> None:
        running = self._timers.pop(action.name, None)
        if running is not None:
            running.cancel()

    def _start_timer(self, action: StartTimer) -> None:
        self._stop_timer(action)
        self._timers[action.name] = self._loop.call_later(action.after_s, self._fire, action.name)

    def _fire(self, name: str) -> None:
        del self._timers[name]
        self.take(TimerFired(name=name))

    def _note(self, action: Note) -> None:
        self._context.counts.add(action.what)
        if action.is_warning:
            self._context.warnings.log(log, "%s: %s", action.what, action.detail)
        else:
            log.info("%s: %s", action.what, action.detail)

    def _write(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.write(data)

    def _close_connection(self, _action: do.CloseConnection) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class AcceptedSession(SessionDriver):
    """Session that a peer has initiated (decision T44).

    Messages come from the peer, none go to it.

    Args:
        context: what all sessions share.
        admit: returns True if there may be a connection from an IP address.
        on_end: called when the connection is gone.
        on_open: called with the IP address of the peer, and the identifier that it claims.

    Attributes:
        active_at: when the last packet came, or the connection, by the clock of the event loop.
    """

    def __init__(
        self,
        context: SessionContext,
        admit: Callable[["AcceptedSession", str], bool],
        on_end: Callable[["AcceptedSession"], object],
        on_open: Callable[[str, Guid], object] = lambda _host, _identifier: None,
    ) -> None:
        super().__init__(MessageSession.accept(context.settings), context)
        self._admit, self._on_end, self._on_open = admit, on_end, on_open
        self.active_at = self._loop.time()
        self._performers[do.SessionOpened] = self._on_opened

    def _on_opened(self, _action: do.SessionOpened) -> None:
        self._context.counts.add("session opened")
        if self._connection is not None:
            self._on_open(self._connection.peer_host, self.session.remote_identifier)

    @property
    def status(self) -> SessionStatus:
        """Status of the session; it may be read in any thread."""
        connection = self._connection
        peer = "" if connection is None else connection.peer
        return SessionStatus(peer=peer, is_initiator=False, state=self.session.state)

    def on_connected(self, connection: SessionConnection) -> None:
        """Handle a new connection, if it may be."""
        if self._admit(self, connection.peer_host):
            super().on_connected(connection)
        else:
            connection.abort()

    def on_packets(self, connection: SessionConnection, packets: Collection[Packet | Message]) -> int:
        """Handle some packets; see `SessionDriver.on_packets`."""
        self.active_at = self._loop.time()
        return super().on_packets(connection, packets)

    def on_lost(self, connection: SessionConnection, reason: str) -> None:
        """Handle the end of a connection ([MS-MQQB] 3.1.7.3)."""
        super().on_lost(connection, reason)
        self._on_end(self)


class NeighborSession(SessionDriver):
    """Session with a neighbour, established when messages wait.

    Args:
        context: what all sessions share.
        outbox: messages for the neighbour.
        peer_hosts: returns the IP addresses of the peers whose sessions are open.
    """

    def __init__(
        self, context: SessionContext, outbox: Outbox, peer_hosts: Callable[[], frozenset[str]]
    ) -> None:
        address = outbox.address
        self._destination: Final = address if isinstance(address, Guid) else NULL_GUID
        session = MessageSession.initiate(context.settings, chance=random, destination=self._destination)
        super().__init__(session, context)
        self.outbox: Final = outbox
        self._in_flight: Final[dict[int, QueuedMessage]] = {}
        self._encoder: Final = MessageEncoder(self._destination)
        self._packets: Final[dict[int, bytes]] = {}  # of messages that the session has yet to transmit
        self._connecting: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None  # of a peer that is not known yet
        self._problem = ""
        self._hosts: frozenset[str] = frozenset()  # of the last look-up
        self._host = ""  # of the connection, or of the last attempt
        self._identifiers = (address,) if isinstance(address, Guid) else ()  # the last two of the peer
        self._peer_hosts: Final = peer_hosts
        self._recognition: Final = PeerRecognition(self._look_up_hosts, self._recognize)
        self._is_pumping = False
        self._is_stopping = False
        self._performers.update(
            {
                do.Connect: self._connect,
                do.TransmitMessages: self._transmit,
                do.MessagesAcknowledged: self._confirm,
                do.MessagesReturned: self._take_back,
                do.SessionOpened: self._on_opened,
            }
        )

    @property
    def is_idle(self) -> bool:
        """True if there is neither a session nor a message."""
        return self.session.state is SessionState.CLOSED and not self.outbox.is_wanted and not self._in_flight

    @property
    def status(self) -> SessionStatus:
        """Status of the session; it may be read in any thread."""
        return SessionStatus(
            peer=str(self.outbox.address),
            is_initiator=True,
            state=self.session.state,
            in_flight=self.messages_in_flight,
            problem=self._problem,
        )

    @property
    def messages_in_flight(self) -> int:
        """Number of messages that the neighbour has not acknowledged."""
        return len(self._in_flight)

    def on_connected(self, connection: SessionConnection) -> None:
        """Handle a new connection, unless the attempt was given up."""
        if self.session.state is SessionState.CONNECTING:
            super().on_connected(connection)
        else:
            connection.abort()

    def take(self, event: do.Event) -> None:
        """Pass an event to the session and perform its actions; then send what waits."""
        super().take(event)
        self.pump()

    def expect_neighbor(self, host: str, identifier: Guid) -> None:
        """Connect soon if this neighbour has opened a session, even from a new address.

        See the decisions T70 and T141.

        Args:
            host: IP address of the peer.
            identifier: QueueManager.Identifier that the peer claims.
        """
        state, is_known = self.session.state, identifier in self._identifiers
        is_waiting = state is SessionState.WAITING_RECONNECT
        if is_waiting and (is_known or host in self._hosts):
            self.take(do.NeighborHeard())
        elif is_waiting or (
            state is not SessionState.CLOSED and host != self._host and (is_known or not self.is_open)
        ):
            self._recognition.request()

    def _recognize(self, hosts: frozenset[str]) -> None:
        """Connect soon if a peer has opened a session from one of these addresses."""
        if hosts & self._peer_hosts():
            self.take(do.NeighborHeard(is_elsewhere=self._host not in hosts))

    def stop_sending(self) -> None:
        """Take no further messages from the queue manager."""
        self._is_stopping = True
        self.pump()

    def stop(self) -> None:
        """End the session ([MS-MQQB] 3.1.4.2)."""
        self._is_stopping = True
        self._recognition.stop()
        if self._connecting is not None:
            self._connecting.cancel()
        super().stop()

    def on_writable(self) -> None:
        """Send on: the peer has read."""
        self.pump()

    def pump(self) -> None:
        """Send the messages of the outbox as far as the window and the connection allow."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._can_send and (queued := self.outbox.take(self.session.send_capacity)):
                self._send(queued)
            if self._connection is not None:
                self._connection.flush()
            if not self.is_open:
                if returned := self.outbox.drain():
                    self._context.queue_manager.take_back(returned)
                if self.outbox.is_wanted and not self._is_stopping:
                    super().take(do.MessagesWaiting())
        finally:
            self._is_pumping = False
        room = self.session.send_capacity if self._can_send and not self._is_stopping else 0
        if self.outbox.set_room(room):
            self._context.queue_manager.wake()

    @property
    def _can_send(self) -> bool:
        is_writable = self._connection is not None and self._connection.is_writable
        return is_writable and self._checking is None and self.session.send_capacity > 0

    def _send(self, waiting: Iterable[QueuedMessage]) -> None:
        """Send messages that the session has a window for."""
        sent, now = [], self._context.clock()
        for queued in waiting:
            data = self._encode(queued, now)
            if data is not None:
                self._in_flight[queued.number] = queued
                self._packets[queued.number] = data
                is_recoverable = queued.message.delivery is DeliveryGuarantee.RECOVERABLE
                sent.append(do.NumberedMessage(queued.number, is_recoverable))
        if sent:
            super().take(do.SendMessages(messages=sent))

    def _encode(self, queued: QueuedMessage, now: float) -> bytes | None:
        """Return the packet of a message; None if the queue manager has to deal with it."""
        manager, deadline = self._context.queue_manager, queued.message.transit_deadline
        if deadline is not None and deadline <= now:
            manager.take_back((queued,))  # it expires there
            return None
        try:
            return self._encoder.encode(queued.message)
        except ValueError as error:
            self._context.counts.add("dropped: message that does not fit into a packet")
            self._context.warnings.log(log, "a message to %s cannot be sent: %s", queued.address, error)
            manager.give_up(queued)
            return None

    # --- actions

    def _transmit(self, action: do.TransmitMessages) -> None:
        packets = [self._packets.pop(number) for number in action.numbers]
        if action.session_header is not None:
            message, header = self._in_flight[action.numbers[0]].message, action.session_header
            packet = packet_of(message, queue_manager_address=self._destination, session=header)
            packets[0] = encode_packet(packet)
        if self._connection is not None:
            self._connection.write_soon(packets)

    def _confirm(self, action: do.MessagesAcknowledged) -> None:
        self._context.queue_manager.confirm([self._in_flight.pop(number) for number in action.numbers])

    def _take_back(self, action: do.MessagesReturned) -> None:
        for number in action.numbers:
            self._packets.pop(number, None)
        self._context.queue_manager.take_back([self._in_flight.pop(number) for number in action.numbers])

    def _on_opened(self, action: do.SessionOpened) -> None:
        self._context.counts.add("session opened")
        if action.remote_identifier not in self._identifiers:
            self._checking = self._loop.create_task(self._check(action.remote_identifier))

    async def _check(self, identifier: Guid) -> None:
        """Send messages to a new peer, unless it is another machine (decision T142)."""
        context, address = self._context, self.outbox.address
        is_another = await self._loop.run_in_executor(
            self._executor, context.resolver.is_of_another, address, identifier
        )
        self._checking = None
        if is_another:
            context.resolver.forget(address)
            self._problem = f"{self._host} is the address of another machine, {identifier}"
            self.take(do.CloseSession(detail=f"{address}: {self._problem}"))
        else:
            self._identifiers = (*self._identifiers[-1:], identifier)
            self.pump()

    def _stop_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def _connect(self, action: do.Connect) -> None:
        self._connecting = self._loop.create_task(self._try_to_connect(action.connection))

    def _close_connection(self, action: do.CloseConnection) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self._stop_checking()
        super()._close_connection(action)

    def on_lost(self, connection: SessionConnection, reason: str) -> None:
        """Handle the end of a connection ([MS-MQQB] 3.1.7.3)."""
        if connection is self._connection:
            self._stop_checking()
        super().on_lost(connection, reason)

    def _fire(self, name: str) -> None:
        if self._loop.time() - self.outbox.wanted_at > UNWANTED_S and not self._in_flight:
            self.outbox.give_up()
            super().take(do.NothingWaiting())
        super()._fire(name)

    async def _try_to_connect(self, number: int) -> None:
        """Connect to the neighbour, or report why that was not possible."""
        try:
            await self._connect_to_any(number)
        except (OSError, UnicodeError, TransportError) as error:  # TimeoutError is an OSError
            reason = str(error) or type(error).__name__
            if reason != self._problem and self.outbox.is_own:
                log.warning("%s cannot be reached: %s", self.outbox.address, reason)
            elif reason != self._problem:
                text = "%s cannot be reached for an acknowledgement: %s"
                self._context.warnings.log(log, text, self.outbox.address, reason)
            self._problem = reason
            self._connecting = None
            self.take(do.ConnectionLost(connection=number, reason=reason))
        else:
            self._problem = ""
            self._connecting = None

    async def _connect_to_any(self, number: int) -> None:
        context, address = self._context, self.outbox.address
        failure: OSError | UnicodeError | None = None
        for host, port in (await self._look_up())[:SOCKET_ADDRESSES_MAX]:
            self._host = host
            try:
                async with asyncio.timeout(CONNECT_S):
                    await self._loop.create_connection(
                        lambda: SessionConnection(self, number, context.pending), host, port
                    )
            except (OSError, UnicodeError) as error:
                failure = error
            else:
                return
        context.resolver.forget(address)
        raise failure or TransportError(f"{address} has no socket address")

    @property
    def _executor(self) -> Executor:
        """The executor for look-ups of this neighbour."""
        return self._context.executor if self.outbox.is_own else self._context.stranger_executor

    async def _look_up(self) -> tuple[SocketAddress, ...]:
        """Return the socket addresses of the neighbour."""
        resolve = self._context.resolver.resolve
        addresses = await self._loop.run_in_executor(self._executor, resolve, self.outbox.address)
        self._hosts = frozenset(host for host, _port in addresses)
        return addresses

    async def _look_up_hosts(self) -> frozenset[str]:
        """Return the IP addresses of the neighbour; none if they cannot be looked up."""
        with suppress(OSError, TransportError):
            await self._look_up()
            return self._hosts
        return frozenset()
