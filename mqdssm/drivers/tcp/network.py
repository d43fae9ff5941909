"""Carrier of messages over TCP, with all sessions in an event loop.

See [MS-MQQB] 2.1.

The event loop has a thread of its own. The queue manager's thread hands messages over through an `Outbox` for
each neighbour, and never waits for the loop. The loop calls methods of the queue manager that do not wait
(decision T42).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import (
    DEFAULTS,
    RETRY_S,
    DeliveryState,
    LocalQueueManager,
    QueueManagerSettings,
)
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.queue_manager.outgoing import Address, QueuedMessage
from mqdssm.drivers.tcp.message_numbers import MessageNumbers
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.outbox import Outbox
from mqdssm.drivers.tcp.session_connection import PendingBytes, SessionConnection
from mqdssm.drivers.tcp.session_driver import (
    AcceptedSession,
    NeighborSession,
    SessionContext,
    SessionDriver,
    SessionStatus,
)
from mqdssm.drivers.threads import EventCounts, WorkerThread
from mqdssm.drivers.transport import LocalQueue
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.errors import ConfigError, TransportError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import is_acknowledgement

log: Final = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 512
"""Connections that are accepted: half of the files that a process usually may open."""
CONNECTIONS_OF_ADDRESS_MAX: Final = 32
"""Connections from one IP address that are accepted."""
NEIGHBORS_MAX: Final = 1000
"""Machines that messages may go to at one time."""
PENDING_BYTES_MAX: Final = 64 << 20
"""Octets of incomplete packets of all connections: sixteen of the longest packets."""
FLUSH_S: Final = 5.0
"""Seconds for which a stopping queue manager waits for acknowledgements."""
_RESOLVERS: Final = 4  # threads that wait for DNS and the directory, and as many for strangers' names
_SWEEP_S: Final = 30.0  # how often sessions with neighbours that have ended are removed
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    """Settings of a carrier over TCP.

    Attributes:
        connections_max: connections that are accepted.
        connections_of_address_max: connections from one IP address that are accepted.
        neighbors_max: machines that messages may go to at one time.
        pending_bytes_max: octets of incomplete packets of all connections.
        flush_s: seconds for which a stopping queue manager waits for acknowledgements.
        sessions: times and window of sessions; the identifier is the queue manager's.
        queue_manager: limits and other addresses of the queue manager.
    """

    connections_max: int = CONNECTIONS_MAX
    connections_of_address_max: int = CONNECTIONS_OF_ADDRESS_MAX
    neighbors_max: int = NEIGHBORS_MAX
    pending_bytes_max: int = PENDING_BYTES_MAX
    flush_s: float = FLUSH_S
    sessions: SessionSettings = field(default_factory=lambda: SessionSettings(identifier=NULL_GUID))
    queue_manager: QueueManagerSettings = DEFAULTS


TCP_DEFAULTS: Final = TcpSettings()


class TcpNetwork:
    """Network of one local queue manager.

    `mqdssm.drivers.queue_manager.local_queue_manager.MessageCarrier` is the protocol of such networks.

    Args:
        listen: IP address and port to listen on, port 0: any; None: messages are only sent.
        numbers: file of the message numbers.
        resolver: finds other machines.
        store: keeps recoverable messages; its owner closes it after the queue manager. None: recoverable
            messages are refused, with NackQueueExceedQuota (decision T49).
        settings: limits and times.
        clock: seconds since 1970.
        address_setting: words for the argument or setting with the address, for errors.

    Attributes:
        counts: what was dropped, closed or refused.
    """

    def __init__(
        self,
        listen: SocketAddress | None,
        numbers: Path,
        resolver: NameResolver,
        *,
        store: MessageStore | None = None,
        settings: TcpSettings = TCP_DEFAULTS,
        clock: Callable[[], float] = time.time,
        address_setting: str = "listen=",
    ) -> None:
        self._store = store
        self._address_setting = address_setting
        self.counts: Final = EventCounts()
        self._listen, self._numbers_file, self._resolver = listen, numbers, resolver
        self._settings, self._clock = settings, clock
        self._loop: Final = asyncio.new_event_loop()
        self._lock: Final = Lock()
        self._outboxes: Final[dict[Address, Outbox]] = {}
        self._is_closing = False
        self._neighbors: Final[dict[Address, NeighborSession]] = {}
        self._accepted: Final[dict[AcceptedSession, str]] = {}  # with the IP address of the peer
        self._context: SessionContext | None = None
        self._numbers: MessageNumbers | None = None
        self._server: asyncio.Server | None = None
        self._executor: Final = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolver")
        self._stranger_executor: Final = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolver")
        self._is_resuming = False
        self._thread: Final = WorkerThread(self._loop.run_forever, "message carrier")

    @property
    def address(self) -> SocketAddress:
        """IP address and port that the queue manager listens on.

        The port is 0 if it does not listen.
        """
        if self._server is None or not self._server.sockets:
            return self._listen or SocketAddress("", 0)
        host, port, *_ = self._server.sockets[0].getsockname()
        return SocketAddress(host, port)

    def probe(self, on_answer: Callable[[], object]) -> None:
        """Ask whether the event loop works; from any thread.

        Args:
            on_answer: called in the event loop.
        """
        self._call(on_answer)

    @property
    def numbers_problem(self) -> str:
        """Reason why messages cannot be numbered any more; empty if they can."""
        return "" if self._numbers is None else self._numbers.problem

    def sessions(self) -> tuple[SessionStatus, ...]:
        """Return the status of all sessions, from any thread, without waiting."""
        neighbors, accepted = tuple(self._neighbors.values()), tuple(self._accepted)  # copied in one step
        return (
            *(neighbor.status for neighbor in neighbors),
            *(session.status for session in accepted),
        )

    def add(
        self,
        machine_name: str,
        identifier: Guid,
        *,
        signer: Signer | None = None,
        verifier: Verifier | None = None,
        queues: Iterable[LocalQueue] = (),
    ) -> LocalQueueManager:
        """Start the queue manager, and listen.

        Args:
            machine_name: QueueManager.ComputerName.
            identifier: QueueManager.Identifier.
            signer: signs its messages.
            verifier: verifies the signatures of messages to it.
            queues: queues that exist before the first message can arrive.

        Raises:
            ValueError: there is a queue manager already.
            ConfigError: the file of message numbers cannot be used.
            TransportError: the address cannot be listened on.
        """
        if self._numbers is not None:
            raise ValueError("a carrier over TCP has one queue manager: make another carrier")
        try:
            self._numbers = MessageNumbers(self._numbers_file)
        except ConfigError:
            self._loop.close()
            raise
        queue_manager = LocalQueueManager(
            self,
            machine_name,
            identifier,
            numbers=self._numbers,
            clock=self._clock,
            signer=signer,
            verifier=verifier,
            store=self._store,
            settings=self._settings.queue_manager,
        )
        self._context = SessionContext(
            queue_manager=queue_manager,
            resolver=self._resolver,
            executor=self._executor,
            stranger_executor=self._stranger_executor,
            settings=replace(self._settings.sessions, identifier=identifier),
            pending=PendingBytes(self._settings.pending_bytes_max),
            counts=self.counts,
            clock=self._clock,
        )
        self._thread.start()
        try:
            for queue in queues:
                queue_manager.open(queue)
            queue_manager.start()
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        except (OSError, OverflowError) as error:  # a port above 65535 is an OverflowError
            queue_manager.close()
            host, port = self.address
            reason = getattr(error, "strerror", None) or error
            raise TransportError(
                f"cannot listen on {host}:{port}: {reason}: give another address ({self._address_setting})"
            ) from error
        except BaseException:
            queue_manager.close()
            raise
        return queue_manager

    # --- MessageCarrier, called from the queue manager's threads

    def deliver(self, source: LocalQueueManager, queued: QueuedMessage) -> DeliveryState:
        """Hand a message over to the session with its neighbour."""
        if source.has_address(queued.address):
            is_taken = source.offer((queued.message,), partial(self._end_local, source, queued))
            return DeliveryState.IN_FLIGHT if is_taken else DeliveryState.REFUSED
        outbox = self._outboxes.get(queued.address) or self._open_outbox(queued)
        if outbox is None:
            return DeliveryState.REFUSED
        is_taken, must_wake = outbox.hand_over(queued)
        if must_wake:
            self._call(self._attend, outbox)
        return DeliveryState.IN_FLIGHT if is_taken else DeliveryState.REFUSED

    def _open_outbox(self, queued: QueuedMessage) -> Outbox | None:
        """Return the outbox for the machine of a message; None if there are too many."""
        with self._lock:
            outbox = self._outboxes.get(queued.address)
            if outbox is None:
                if self._is_closing or len(self._outboxes) >= self._limit_neighbors(queued):
                    return None
                outbox = self._outboxes[queued.address] = Outbox(queued.address)
            return outbox

    def _end_local(self, source: LocalQueueManager, queued: QueuedMessage, is_settled: bool) -> None:
        """Confirm a message to our own machine when it is stored, or try it again later."""
        if is_settled:
            source.confirm((queued,))
        else:
            self._call(self._loop.call_later, RETRY_S, source.take_back, (queued,))

    def _limit_neighbors(self, queued: QueuedMessage) -> int:
        """Return how many neighbours there may be.

        Strangers choose those of acknowledgements.
        """
        neighbors_max = self._settings.neighbors_max
        is_for_stranger = is_acknowledgement(queued.message.message_class)
        return neighbors_max // 2 if is_for_stranger else neighbors_max

    def wake(self) -> None:
        """Offer messages again that the queue manager had no room for."""
        with self._lock:
            is_first, self._is_resuming = not self._is_resuming, True
        if is_first:
            self._call(self._resume)

    def remove(self, queue_manager: LocalQueueManager) -> None:
        """End all sessions and the event loop.

        Messages in flight have `flush_s` seconds to be acknowledged.
        """
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
        if not is_first or self._numbers is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for executor in (self._executor, self._stranger_executor):
            executor.shutdown(wait=False, cancel_futures=True)
        self._numbers.close()
        log.info("%s has stopped", queue_manager.machine_name)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # --- event loop

    async def _start(self) -> None:
        if self._listen is not None:
            host, port = self._listen
            self._server = await self._loop.create_server(self._accept, host, port)
        self._loop.call_later(_SWEEP_S, self._remove_idle_sessions)
        self._loop.set_exception_handler(self._count_defect)

    def _count_defect(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Count an error that nobody handles, and log it."""
        self.counts.add("defect")
        loop.default_exception_handler(context)

    def _accept(self) -> asyncio.Protocol:
        """Make the session and the connection of a peer that connects."""
        context = self._context
        assert context is not None  # noqa: S101  set before `_start`
        session = AcceptedSession(
            context, self._admit, lambda ended: self._accepted.pop(ended, None), self._tell_neighbors
        )
        return SessionConnection(session, 0, context.pending)

    def _tell_neighbors(self, host: str, identifier: Guid) -> None:
        """Let neighbours that may be a peer be connected soon: it has opened a session."""
        for neighbor in self._neighbors.values():
            neighbor.expect_neighbor(host, identifier)

    def _list_peer_hosts(self) -> frozenset[str]:
        """Return the IP addresses of the peers whose sessions are open."""
        return frozenset(host for session, host in self._accepted.items() if session.is_open)

    def _admit(self, session: AcceptedSession, host: str) -> bool:
        """Register an accepted connection.

        If there are too many, another one ends for it.

        Returns:
            False if the queue manager is closing, or takes no connections.
        """
        settings = self._settings
        limit, rivals = settings.connections_max, list(self._accepted)
        of_host = [other for other, other_host in self._accepted.items() if other_host == host]
        if len(of_host) >= settings.connections_of_address_max:
            limit, rivals = settings.connections_of_address_max, of_host
        if self._is_closing or not limit:
            self.counts.add("refused: too many connections")
            return False
        if len(rivals) >= limit:
            self._displace(rivals)
        self._accepted[session] = host
        return True

    def _displace(self, sessions: Iterable[AcceptedSession]) -> None:
        """End the session that is needed least (decision T140).

        A session that is not open goes first. If all are open, the one whose last packet came first goes. The
        peer connects again when it has messages.
        """
        displaced = min(sessions, key=lambda session: (session.is_open, session.active_at))
        del self._accepted[displaced]
        self.counts.add("closed: too many connections")
        if displaced.connection is not None:
            displaced.connection.abort()

    def _attend(self, outbox: Outbox) -> None:
        outbox.attend()
        context = self._context
        if context is None or self._outboxes.get(outbox.address) is not outbox:
            return  # removed meanwhile: the queue manager asks again
        neighbor = self._neighbors.get(outbox.address)
        if neighbor is None:
            neighbor = NeighborSession(context, outbox, self._list_peer_hosts)
            self._neighbors[outbox.address] = neighbor
        neighbor.pump()

    def _sessions(self) -> list[SessionDriver]:
        return [*self._neighbors.values(), *self._accepted]

    def _resume(self) -> None:
        with self._lock:
            self._is_resuming = False
        for session in self._sessions():
            if session.connection is not None:
                self._loop.call_soon(session.connection.resume)  # a defect of one leaves the others alone

    def _remove_idle_sessions(self) -> None:
        """Remove the sessions with neighbours that nothing is sent to."""
        for address, neighbor in list(self._neighbors.items()):
            if neighbor.is_idle:
                with self._lock:
                    del self._outboxes[address]
                del self._neighbors[address]
        self._loop.call_later(_SWEEP_S, self._remove_idle_sessions)

    async def _shut_down(self) -> None:
        if self._server is not None:
            self._server.close()
        for neighbor in self._neighbors.values():
            neighbor.stop_sending()
        neighbors = self._neighbors.values()
        await self._wait_until(lambda: not any(neighbor.messages_in_flight for neighbor in neighbors))
        connections = [session.connection for session in self._sessions() if session.connection is not None]
        for session in self._sessions():
            session.stop()
        await self._wait_until(lambda: all(connection.is_ended for connection in connections))
        for connection in connections:
            connection.abort()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, for `flush_s` at most."""
        until = self._loop.time() + self._settings.flush_s
        while self._loop.time() < until and not condition():  # noqa: ASYNC110  many objects, once, at the end
            await asyncio.sleep(_POLL_S)
