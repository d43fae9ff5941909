"""Runs a discovery client over UDP ([MS-MQSD] 3.1).

A socket for each network sends requests and receives replies.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery.values import DiscoveryResult, Network
from mqdssm.model.guid import Guid
from mqdssm.wire.mqsd import PACKET_BYTES_MAX

log: Final = logging.getLogger(__name__)

DATAGRAMS_AT_ONCE: Final = 64
"""Taken from one socket before others, and the timer, have their turn."""


class DiscoveryDriver:
    """Runs one client, in an event loop.

    Args:
        client: decides everything.
        asking: told of each request that is sent.
        make_guid: of requests.

    Attributes:
        counts: what was dropped, or could not be sent.
    """

    def __init__(
        self,
        client: do.DiscoveryClient,
        *,
        asking: Callable[[do.Broadcast], None] = lambda _: None,
        make_guid: Callable[[], Guid] = lambda: Guid.of(uuid4()),
    ) -> None:
        self.counts: Final = EventCounts()
        self._client, self._asking, self._make_guid = client, asking, make_guid
        self._sockets: Final[dict[Network, socket.socket]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Future[DiscoveryResult | None] | None = None
        self._waiting = 0  # callers that wait for the result
        self._performers: Final[Mapping[type, Callable[..., None]]] = {
            do.Broadcast: self._broadcast,
            do.SearchFinished: self._end,
            Dropped: lambda action: self.counts.add(action.what),
        }

    async def discover(self, networks: Sequence[Network], *, anew: bool = False) -> DiscoveryResult | None:
        """Get Directory Server List ([MS-MQSD] 3.1.4.1).

        A second caller waits for the same answer.

        Args:
            networks: all that the computer is connected to, in the order in which they are asked.
            anew: ask also where an earlier answer still holds.

        Returns:
            What was learnt; None: nobody answered on any network.
        """
        self._waiting += 1
        try:
            if self._running is None:
                self._running = asyncio.get_running_loop().create_future()
                self._take(do.Discover(networks=tuple(networks), request_id=self._make_guid(), anew=anew))
            return await asyncio.shield(self._running)
        finally:
            self._waiting -= 1
            if not self._waiting:  # all have their answer, or have given up
                self._close()

    def report_networks(self, networks: Sequence[Network]) -> None:
        """Report the networks to which the computer is now connected.

        Call it in the event loop.
        """
        self._take(do.NetworksChanged(networks=tuple(networks)))

    def _take(self, event: do.Event) -> None:
        loop = asyncio.get_running_loop()
        for action in self._client.step(event, loop.time()):
            self._performers[type(action)](action)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._client.deadline
        self._timer = None if deadline is None else loop.call_at(deadline, self._take, do.Waited())

    def _broadcast(self, action: do.Broadcast) -> None:
        network = action.network
        self._asking(action)
        try:
            opened = self._sockets.get(network) or self._open(network)
            opened.sendto(action.data, (network.address, network.port))
        except (OSError, OverflowError, ValueError) as error:  # also for an invalid port or address
            self.counts.add("request not sent")
            log.warning("nobody can be asked on %s: %s", network, getattr(error, "strerror", None) or error)
            asyncio.get_running_loop().call_soon(self._take, do.RequestSendFailed(network=network))

    def _open(self, network: Network) -> socket.socket:
        """Open a socket for one network, so that replies can be assigned to it.

        Raises:
            OSError: the socket cannot be opened.
        """
        opened = self._sockets[network] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        opened.bind((network.local, 0))
        asyncio.get_running_loop().add_reader(opened, partial(self._read, network, opened))
        return opened

    def _read(self, network: Network, opened: socket.socket) -> None:
        for _ in range(DATAGRAMS_AT_ONCE):
            if opened.fileno() < 0:  # the previous answer ended the search
                return
            try:
                data, (source, _port) = opened.recvfrom(PACKET_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError:  # ICMP says that a host is unreachable: others may answer
                self.counts.add("network error")
                return
            self._take(do.ReplyReceived(network=network, data=data, source=source))

    def _end(self, action: do.SearchFinished) -> None:
        if self._running is not None and not self._running.done():
            self._running.set_result(action.result)
        self._close_sockets()

    def _close(self) -> None:
        """Stop the client, the timer and the sockets.

        Callers may have given up before: the client is stopped then, too.
        """
        while self._client.state is not do.ClientState.IDLE:
            self._client.step(do.NetworksChanged(networks=()), asyncio.get_running_loop().time())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._close_sockets()
        if self._running is not None and not self._running.done():
            self._running.cancel()
        self._running = None

    def _close_sockets(self) -> None:
        for opened in self._sockets.values():
            if opened.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(opened)
                opened.close()
        self._sockets.clear()
