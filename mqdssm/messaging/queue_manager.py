r"""Queue manager of a program.

A queue manager sends messages to private queues, and has private queues of its own.
"""

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock
from types import MappingProxyType, TracebackType
from typing import Final, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager, QueueManagerSettings
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.queue_manager.outgoing import Address, address_of
from mqdssm.drivers.tcp.name_resolution import MachineDirectory, NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork, TcpSettings
from mqdssm.drivers.threads import WorkerThread
from mqdssm.drivers.transport import Arrival, LocalQueue
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.errors import MqdssmError, TransportError, convert_folder_errors
from mqdssm.messaging.message_delivery import REQUESTED, Acknowledge, MessageDelivery
from mqdssm.messaging.private_queue import PrivateQueue
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, FormatName, PathKind, parse_format_name
from mqdssm.model.packets import SESSION_PORT
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import (
    DEFAULT_PRIORITY,
    INFINITE,
    NO_MESSAGE,
    TIME_TO_REACH_QUEUE_S,
    Acknowledgements,
    DeliveryGuarantee,
    Message,
    MessageId,
    is_acknowledgement,
)

log: Final = logging.getLogger(__name__)

EVERYWHERE: Final = SocketAddress("0.0.0.0", SESSION_PORT)  # noqa: S104  queue managers accept connections
"""Default address to listen on."""
ACK_SEND_S: Final = 0.2
"""Seconds after which a session acknowledges express messages: senders wait for it (decision T47)."""
MESSAGING: Final = TcpSettings(
    sessions=SessionSettings(identifier=NULL_GUID, ack_send_max_s=ACK_SEND_S),
    queue_manager=QueueManagerSettings(any_direct_name=True),
)
"""Default limits and times."""
FLUSH_S: Final = 5.0
"""Seconds for which a closing queue manager goes on to send what waits."""
_FIRST_NUMBER: Final = 8  # lower numbers of private queues belong to MSMQ itself
_RETRY_S: Final = 1.0  # until acknowledgements that stayed on the disk are removed again
_ACKNOWLEDGEMENTS: Final = LocalQueue(name="mqdssm_acknowledgements$", number=7)


class QueueManager:
    """Queue manager of this program, as a context manager or an asynchronous one.

    Any queue manager of MSMQ that has a TCP port can be its peer. Direct format names need no directory. Any
    thread may use the queue manager.

    Args:
        folder: its identity, recoverable messages and the numbers of messages; only one queue manager at a
            time can use it. None: a new identity, which ends with the program, and express messages alone.
        machine_name: QueueManager.ComputerName; None: the name of this computer.
        listen: IP address and port to listen on; None: nothing can arrive, acknowledgements neither.
        address: name or IP address by which other machines reach this one; None: the IP address that is used
            on the way to them.
        queues: names of private queues that exist before the first message can arrive, beside those that the
            folder has from earlier runs.
        hosts: addresses of machines, by name, IP address or QueueManager.Identifier.
        directory: names of machines; None: `hosts` and DNS alone.
        port: TCP port of machines that `hosts` does not have.
        settings: limits and times.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        machine_name: str | None = None,
        listen: tuple[str, int] | None = EVERYWHERE,
        address: str | None = None,
        queues: Iterable[str] = (),
        hosts: Mapping[str, tuple[str, int]] = MappingProxyType({}),
        directory: MachineDirectory | None = None,
        port: int = SESSION_PORT,
        settings: TcpSettings = MESSAGING,
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        self._machine_name = machine_name or socket.gethostname().partition(".")[0]
        self._listen = None if listen is None else SocketAddress(*listen)
        self._address, self._settings, self._queues = address, settings, tuple(queues)
        for name in self._queues:
            _check_queue(name)
        self._store: MessageStore | None = None
        addresses = {_parse_host_key(host): SocketAddress(*place) for host, place in hosts.items()}
        self._resolver: Final = NameResolver(addresses, directory, port=port)
        self._closing: Final = ExitStack()
        self._is_started = False
        self._manager: LocalQueueManager | None = None
        self._network: TcpNetwork | None = None
        self._lock: Final = Lock()
        self._sent: Final[WeakValueDictionary[MessageId, MessageDelivery]] = WeakValueDictionary()
        self._numbers: Final[dict[str, int]] = {}
        self._highest = _FIRST_NUMBER - 1  # without a store, which knows its own

    # --- its life

    def start(self) -> Self:
        """Start the queue manager; ``with`` does it.

        Raises:
            ConfigError: the folder cannot be used, or another queue manager uses it.
            TransportError: it is started already, the address cannot be listened on, or a stored message is
                damaged.
        """
        with self._lock:
            if self._is_started:
                raise TransportError(f"queue manager {self._machine_name} is started already: close it first")
            self._is_started = True
        try:
            manager = self._start_manager()
        except BaseException:
            self._stop()
            raise
        self._manager = manager
        return self

    def _start_manager(self) -> LocalQueueManager:
        """Start the queue manager and the thread of acknowledgements."""
        if self._folder is None:
            folder = Path(self._closing.enter_context(TemporaryDirectory(prefix="mqdssm-")))
        else:
            folder = self._folder
            with convert_folder_errors(f"the folder {folder} of the queue manager cannot be made"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._store = MessageStore(folder / "messages.sqlite")
            self._closing.callback(self._store.close)
            self._numbers.update(self._store.queues())
        identifier = Guid.of(uuid4()) if self._store is None else self._store.identifier()
        network = TcpNetwork(
            self._listen, folder / "numbers.json", self._resolver, store=self._store, settings=self._settings
        )
        queues = {queue.number: queue for queue in map(self._number_queue, [*self._queues, *self._numbers])}
        manager = network.add(self._machine_name, identifier, queues=(_ACKNOWLEDGEMENTS, *queues.values()))
        self._network = network
        is_closing, inbox = Event(), manager.open(_ACKNOWLEDGEMENTS)
        receiver = WorkerThread(lambda: self._read_acknowledgements(inbox, is_closing), "acknowledgements")
        self._closing.callback(receiver.join)
        self._closing.callback(manager.close)
        self._closing.callback(is_closing.set)
        receiver.start()
        return manager

    def _stop(self) -> None:
        try:
            self._closing.close()
        finally:
            self._is_started = False

    def close(self, flush_s: float = FLUSH_S) -> None:
        """Stop the queue manager.

        Messages that still wait after `flush_s` seconds are lost.

        Raises:
            Exception: the defect that had stopped it already.
        """
        if self._manager is not None:
            self._manager.flush(flush_s)
            self._stop()

    def flush(self, timeout_s: float) -> bool:
        """Wait until no message waits for another machine.

        Returns:
            False if some messages still wait after `timeout_s` seconds.
        """
        return self._running.flush(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(FLUSH_S if error is None else 0.0)

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.shield(self._withdraw(starting))
            raise

    async def _withdraw(self, starting: asyncio.Future[Self]) -> None:
        """Close the queue manager of a block that was cancelled before it began."""
        with suppress(MqdssmError):  # it has not started
            await starting
            await asyncio.to_thread(self.close, 0.0)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.close, FLUSH_S if error is None else 0.0))

    # --- what it knows

    @property
    def identifier(self) -> Guid:
        """QueueManager.Identifier."""
        return self._running.identifier

    @property
    def machine_name(self) -> str:
        """QueueManager.ComputerName."""
        return self._machine_name

    @property
    def listens_on(self) -> SocketAddress | None:
        """IP address and port that it listens on; None if it only sends."""
        return None if self._listen is None or self._network is None else self._network.address

    @property
    def _running(self) -> LocalQueueManager:
        if self._manager is None:
            raise TransportError("the queue manager is not started: use it in a with statement")
        return self._manager

    # --- messages

    def open(self, name: str) -> PrivateQueue:
        """Open a private queue for receiving, creating it if necessary.

        Args:
            name: as in its path name, without ``private$``.

        Raises:
            ValueError: no name of a queue.
            TransportError: the queue manager is closed.
        """
        _check_queue(name)
        manager = self._running
        queue = self._number_queue(name)
        return PrivateQueue(queue, manager.open(queue))

    def delete(self, name: str) -> None:
        """Delete a private queue and its messages.

        Senders receive NackQueueDeleted if they asked for it.

        Args:
            name: as in its path name, without ``private$``.

        Raises:
            TransportError: the queue manager is closed, or the disk fails.
        """
        self._running.delete(self._number_queue(name))
        with self._lock:
            self._numbers.pop(name.casefold(), None)
            if self._store is not None:
                self._store.remove_queue(name)

    def _number_queue(self, name: str) -> LocalQueue:
        """Return a queue with its number, which it keeps as long as it exists."""
        with self._lock:
            number = self._numbers.get(name.casefold())
            if number is None and self._store is not None:
                number = self._store.add_queue(name, _FIRST_NUMBER)
            elif number is None:
                self._highest += 1
                number = self._highest
            self._numbers[name.casefold()] = number
        return LocalQueue(name=name, number=number)

    def send(
        self,
        destination: str | FormatName,
        body: bytes,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        time_to_reach_queue: int | None = TIME_TO_REACH_QUEUE_S,
        time_to_be_received: int | None = None,
        acknowledge: Acknowledge | None = None,
        recoverable: bool = False,
        transactional: bool = False,
        encrypted: bool = False,
        body_type: int = 0,
        application_tag: int = 0,
        correlation: MessageId = NO_MESSAGE,
        response_queue: str | FormatName | None = None,
    ) -> MessageDelivery:
        r"""Accept a message for a private queue.

        The message is sent soon, in the order of priorities.

        Args:
            destination: format name, as ``DIRECT=TCP:10.0.0.5\private$\orders``.
            body: the content.
            label: text for people, up to 249 UTF-16 code units.
            priority: 0 to 7; 7 goes first.
            time_to_reach_queue: seconds until the message expires on its way; None: never.
            time_to_be_received: seconds until the message expires in its queue, too; None: never.
            acknowledge: acknowledgement to request: "reach", "receive" or None.
            recoverable: True to store the message in the folder until the peer has stored it; it is on the
                disk when `send` returns.
            transactional: True is refused: transactions are not supported.
            encrypted: True is refused: encryption is not supported.
            body_type: variant type (``VT_…``) of the body.
            application_tag: number of 32 bits for the receiver.
            correlation: identifier of the message that this one answers.
            response_queue: queue for answers.

        Raises:
            ValueError: a format name that nothing can be sent to, or a value out of its limits.
            TransportError: too many messages wait, or the queue manager is closed.
        """
        self._check_supported(recoverable=recoverable, transactional=transactional, encrypted=encrypted)
        target = _format_name(destination)
        requested = REQUESTED[acknowledge]
        message = Message(
            body=body,
            body_type=body_type,
            delivery=DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS,
            label=label,
            priority=priority,
            application_tag=application_tag,
            time_to_reach_queue_s=_convert_seconds(time_to_reach_queue),
            time_to_be_received_s=_convert_seconds(time_to_be_received),
            correlation=correlation,
            response_queue=None if response_queue is None else _format_name(response_queue),
        )
        if requested is not Acknowledgements.NONE:
            message = replace(
                message, acknowledgements=requested, administration_queue=self._name_own_queue(target)
            )
        sent = _RegisteredMessage(str(target), acknowledge, self._sent)
        self._running.send(message, target, observer=sent)
        return sent

    def _check_supported(self, *, recoverable: bool, transactional: bool, encrypted: bool) -> None:
        """Refuse kinds of messages that cannot be sent.

        Raises:
            ValueError: naming the kind.
        """
        for is_wanted, kind in ((transactional, "transactional"), (encrypted, "encrypted")):
            if is_wanted:
                raise ValueError(f"{kind} messages are not supported: send an express or recoverable message")
        if recoverable and self._folder is None:
            raise ValueError("recoverable messages need a folder of the queue manager: give it one")

    def _name_own_queue(self, destination: FormatName) -> FormatName:
        """Return a name of the queue for acknowledgements.

        The destination's machine can reach the queue by this name.
        """
        if self._listen is None:
            raise ValueError("acknowledgements cannot arrive: the queue manager does not listen")
        address = self._address or self._find_address_towards(address_of(destination)) or self._machine_name
        protocol = DirectProtocol.OS
        with suppress(ValueError):
            address, protocol = str(ip_address(address)), DirectProtocol.TCP
        return DirectFormatName(protocol, address, _ACKNOWLEDGEMENTS.name, PathKind.PRIVATE)

    def _find_address_towards(self, address: Address) -> str | None:
        """Return this machine's IP address on the way to another machine.

        Returns None if the address is not known.
        """
        if self._listen is not None and not self._listen.is_anywhere:
            return self._listen.host
        try:
            host, port = self._resolver.resolve(address)[0]
            family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
            with socket.socket(family, socket.SOCK_DGRAM) as route:
                route.connect((host, port))  # sends nothing
                return str(route.getsockname()[0])
        except (TransportError, OSError):
            return None

    def _read_acknowledgements(self, inbox: LocalInbox, is_closing: Event) -> None:
        """Report acknowledgements to the deliveries, and remove them.

        A delivery does not wait for the disk: what cannot be removed is read again a second later.
        """
        while (lent := inbox.lend(60.0)) is not None or not inbox.is_closed:
            unread = [] if lent is None else [lent]
            while (lent := inbox.lend(0)) is not None:
                unread.append(lent)
            for _, arrival in unread:
                self._report(arrival)
            if not _remove(inbox, unread):
                is_closing.wait(_RETRY_S)

    def _report(self, arrival: Arrival) -> None:
        message = arrival.message
        sent = self._sent.get(message.correlation) if is_acknowledgement(message.message_class) else None
        if sent is not None:
            sent.on_acknowledgement(message.message_class)


def _remove(inbox: LocalInbox, lent: list[tuple[int, Arrival]]) -> bool:
    """Remove acknowledgements that were lent.

    Returns:
        False: the disk fails; those that are left are put back.
    """
    for index, (number, arrival) in enumerate(lent):
        try:
            inbox.accept(number, arrival)
        except TransportError as error:  # this one is put back already
            log.warning("acknowledgements that were read stay on the disk: %s", error)
            for other in lent[index + 1 :]:
                inbox.put_back(*other)
            return False
    return True


class _RegisteredMessage(MessageDelivery):
    """Sent message that acknowledgements find as long as the program has it."""

    def __init__(
        self,
        destination: str,
        acknowledge: Acknowledge | None,
        registry: WeakValueDictionary[MessageId, MessageDelivery],
    ) -> None:
        super().__init__(destination, acknowledge)
        self._registry: Final = registry

    def on_accepted(self, identifier: MessageId) -> None:
        """Note the identifier, before an acknowledgement can arrive."""
        super().on_accepted(identifier)
        self._registry[identifier] = self


def _check_queue(name: str) -> None:
    """Raise ValueError if a text is no name of a queue."""
    DirectFormatName(DirectProtocol.OS, "localhost", name, PathKind.PRIVATE)


def _format_name(name: str | FormatName) -> FormatName:
    return parse_format_name(name) if isinstance(name, str) else name


def _convert_seconds(time_s: int | None) -> int:
    return INFINITE if time_s is None else time_s


def _parse_host_key(text: str) -> Address:
    """Return the machine that a key of `hosts` names."""
    with suppress(ValueError):
        return ip_address(text)
    with suppress(ValueError):
        return Guid.parse(text)
    return text
