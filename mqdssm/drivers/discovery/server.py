"""Runs discovery servers over UDP, with a socket for each address.

See [MS-MQSD] 3.2.
"""

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from mqdssm.drivers.discovery import packet_filter
from mqdssm.drivers.discovery.interfaces import on_link_networks
from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import server as do
from mqdssm.engines.discovery.answers import REQUEST_BYTES_MAX, Answers
from mqdssm.engines.discovery.sources import LOOPBACK, SourceNetworks, sources_of
from mqdssm.engines.discovery.values import PORT_MAX
from mqdssm.errors import ConfigError, TransportError

log: Final = logging.getLogger(__name__)

DATAGRAMS_AT_ONCE: Final = 256
"""Taken from a socket before anything else has its turn."""
INTERFACES_S: Final = 10.0
"""How often the networks of this computer are looked at."""
REPORT_S: Final = 60.0
"""How often the log tells what was answered and what was not."""
DROPPED: Final = "dropped by the system"
"""Counts what the packet filter, or a full buffer, kept away."""
RECEIVE_BYTES: Final = 4 << 20
"""What is asked for datagrams that wait; the system may give less."""
OF_THE_DESTINATION: Final = frozenset(
    {
        errno.EACCES,  # a broadcast address
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EINVAL,  # port 0
        errno.ENETUNREACH,
        errno.ENOBUFS,
        errno.EPERM,  # a packet filter
    }
)
"""Errors of a send that say nothing of our socket: who sends us forged sources must not make us reopen it
(decision S15)."""

_TODO: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "another program listens there: end it, or use another port",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
    errno.EACCES: "ports below 1024 are for privileged users",
}
"""What to do about an address that cannot be listened on."""


class DiscoveryListener:
    """Discovery server on one address: its engine and its socket.

    Args:
        address: where it listens; port 0: any.
        answers: what is answered.
        counts: how often what was dropped; ``"answered"`` and ``"answered briefly"``: how many replies were
            sent.
    """

    def __init__(self, address: do.Address, answers: Answers, counts: EventCounts) -> None:
        self._address, self._counts = address, counts
        self._server: Final = do.DiscoveryServer(answers)
        self._socket: socket.socket | None = None
        self._muted: set[str] = set()
        self._dropped_before = 0  # by sockets that are closed
        self._ended: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._performers: Final[Mapping[type, Callable[..., None]]] = {
            do.Open: self._open,
            do.Close: self._close,
            do.SendReply: self._reply,
            do.Mute: self._ignore_source,
            do.Ended: self._end,
            Dropped: lambda action: counts.add(action.what),
        }

    @property
    def address(self) -> do.Address:
        """The address and the port on which the server listens."""
        return self._address

    @property
    def is_listening(self) -> bool:
        """True if there is a socket."""
        return self._socket is not None

    @property
    def sources(self) -> SourceNetworks:
        """Networks whose computers are answered."""
        return self._server.sources

    def allow(self, sources: SourceNetworks) -> None:
        """Answer only computers of these networks."""
        if sources.networks != self._server.sources.networks:
            self._server.sources = sources
            self._filter(self._muted)

    def count_dropped(self) -> int:
        """Return the number of datagrams that the operating system has dropped."""
        now = 0 if self._socket is None else packet_filter.count_dropped(self._socket)
        return self._dropped_before + now

    def start(self) -> None:
        """Begin to listen."""
        self._take(do.Start())

    def stop(self) -> None:
        """Stop the server, so that `wait` returns."""
        if not self._ended.done():
            self._take(do.StopServer())

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            TransportError: it cannot listen, or no longer.
        """
        await asyncio.shield(self._ended)

    def _take(self, event: do.Event) -> None:
        for action in self._server.step(event, time.monotonic()):
            self._performers[type(action)](action)

    def _open(self, _action: do.Open) -> None:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            opened.setblocking(False)
            opened.bind(self._address)
        except OSError as error:
            opened.close()
            self._take(do.OpenFailed(reason=_explain_failure(error)))
            return
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        packet_filter.attach(opened, self._muted, self._server.sources)
        self._socket, self._address = opened, opened.getsockname()
        asyncio.get_running_loop().add_reader(opened, self._read, opened)
        self._take(do.Opened())

    def _close(self, _action: do.Close) -> None:
        if self._socket is not None:
            self._dropped_before = self.count_dropped()
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _read(self, opened: socket.socket) -> None:
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                data, source = opened.recvfrom(REQUEST_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._counts.add("network error")
                log.warning("receiving on %s:%d: %s", *self._address, error)
                return
            self._take(do.RequestReceived(data, source))
            if self._socket is not opened:
                return

    def _reply(self, action: do.SendReply) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(action.data, action.destination)
        except BlockingIOError:
            self._counts.add("reply not sent")
        except OSError as error:
            self._counts.add("reply not sent")
            if error.errno not in OF_THE_DESTINATION:
                log.warning("sending from %s:%d: %s; the socket is opened anew", *self._address, error)
                self._take(do.ReplySendFailed(reason=str(error)))
        else:
            self._counts.add("answered briefly" if action.is_brief else "answered")

    def _ignore_source(self, action: do.Mute) -> None:
        """Drop the datagrams of a source for a while.

        Datagrams that are already in the buffer still arrive.
        """
        if len(self._muted) < packet_filter.SOURCES_MAX and action.source not in self._muted:
            self._filter(self._muted | {action.source})
            loop = asyncio.get_running_loop()
            loop.call_later(action.seconds, lambda: self._filter(self._muted - {action.source}))

    def _filter(self, muted: set[str]) -> None:
        self._muted = muted
        if self._socket is not None:
            packet_filter.attach(self._socket, muted, self._server.sources)

    def _end(self, action: do.Ended) -> None:
        if self._ended.done():
            return
        if action.reason:
            problem = f"cannot listen on {self._address[0]}:{self._address[1]}: {action.reason}"
            self._ended.set_exception(TransportError(problem))
        else:
            self._ended.set_result(None)


def _explain_failure(error: OSError) -> str:
    """Return the reason why an address cannot be listened on, with a remedy."""
    reason = error.strerror or str(error)
    todo = _TODO.get(error.errno or 0)
    return reason if todo is None else f"{reason}; {todo}"


class DiscoveryService:
    """Discovery servers on several addresses with the same answers.

    Computers on the networks of the address that is listened on are answered, and those that are allowed
    (decision S19).

    Args:
        addresses: where to listen, IPv4 address and port; port 0: a free one.
        answers: what is answered.
        allow_from: networks that are answered although this computer is not connected to them.
        on_report: gets a line every `REPORT_S` in which something was counted, as the log does.

    Attributes:
        counts: how often what was dropped, and ``"answered"``, ``"answered briefly"``.
    """

    def __init__(
        self,
        addresses: Sequence[do.Address],
        answers: Answers,
        *,
        allow_from: Sequence[IPv4Network] = (),
        on_report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Initialize the servers without opening sockets.

        Call it in the event loop that will run them.

        Raises:
            ValueError: no IPv4 address, or no port.
        """
        for address, port in addresses:
            IPv4Address(address)
            if not 0 <= port <= PORT_MAX:
                raise ValueError(f"{port} is no port, 0 to {PORT_MAX}")
        self.counts: Final = EventCounts()
        self._allow_from, self._on_report = tuple(allow_from), on_report
        self._listeners: Final = [DiscoveryListener(address, answers, self.counts) for address in addresses]
        self._reported: Mapping[str, int] = {}
        self._allow()

    @property
    def addresses(self) -> list[do.Address]:
        """The addresses and ports on which the servers listen."""
        return [listener.address for listener in self._listeners]

    @property
    def sources(self) -> SourceNetworks:
        """Networks whose computers are answered, at one of the addresses at least."""
        return SourceNetworks(
            network for listener in self._listeners for network in listener.sources.networks
        )

    @property
    def is_listening(self) -> bool:
        """True if the service listens on all addresses."""
        return all(listener.is_listening for listener in self._listeners)

    def start(self) -> None:
        """Begin to listen on all addresses."""
        for listener in self._listeners:
            listener.start()

    def stop(self) -> None:
        """Stop all listeners."""
        for listener in self._listeners:
            listener.stop()

    async def run(self) -> None:
        """Run all listeners until `stop`, or until one of them fails.

        Raises:
            TransportError: an address cannot be listened on, or no longer.
        """
        tasks = [
            asyncio.create_task(_repeat(INTERFACES_S, self._allow)),
            asyncio.create_task(_repeat(REPORT_S, self._report)),
        ]
        try:
            await asyncio.gather(*(listener.wait() for listener in self._listeners))
        finally:
            for task in tasks:
                task.cancel()
            self.stop()

    def _allow(self) -> None:
        """Read the networks of this computer again, and answer only allowed ones."""
        try:
            on_link = on_link_networks()
        except ConfigError:  # not known on this system
            on_link = (LOOPBACK,)
        except OSError as error:
            log.warning("the networks of this computer cannot be read, they stay as they were: %s", error)
            return
        for listener in self._listeners:
            listener.allow(sources_of(listener.address[0], on_link, self._allow_from))

    def read_counts(self) -> Mapping[str, int]:
        """Return all counts, including datagrams dropped by the operating system."""
        dropped = sum(listener.count_dropped() for listener in self._listeners)
        return {**self.counts.copy(), **({DROPPED: dropped} if dropped else {})}

    def _report(self) -> None:
        """Report the counts since the last report, if there are any."""
        seen = self.read_counts()
        new = {name: count - self._reported.get(name, 0) for name, count in seen.items()}
        self._reported = seen
        if words := ", ".join(f"{name}: {count}" for name, count in new.items() if count > 0):
            line = f"in the last {REPORT_S:g} s: {words}"
            log.info(line)
            self._on_report(line)


async def _repeat(every_s: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(every_s)
        work()
