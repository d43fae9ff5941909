"""Queue managers that exchange messages over TCP on loopback."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.queue_manager.outgoing import Address
from mqdssm.drivers.tcp.name_resolution import MachineDirectory, NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork, TcpSettings
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.socket_addresses import SocketAddress
from support.replication.queue_managers import START, Clock, guid_of, key_of, sender_of

QUICK = TcpSettings(
    flush_s=0.3, sessions=SessionSettings(identifier=NULL_GUID, retry_connect_s=0.05, retry_connect_max_s=0.1)
)
"""Settings of machines that connect again at once, and do not wait long for acknowledgements at their end."""


class LiveResolver(NameResolver):
    """Hosts that come and go; nothing is cached."""

    def __init__(
        self, machines: Mapping[Address, SocketAddress], directory: MachineDirectory | None = None
    ) -> None:
        super().__init__(directory=directory)
        self._machines = machines

    def resolve(self, address: Address) -> tuple[SocketAddress, ...]:
        return NameResolver(self._machines).resolve(address)


class TcpMachines:
    """Machines on loopback that know each other's keys and ports."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.hosts: dict[Address, SocketAddress] = {}
        self.networks: dict[str, TcpNetwork] = {}
        self._folder = folder
        self._closing = ExitStack()

    def add(
        self,
        name: str,
        *,
        settings: TcpSettings = QUICK,
        host: str = "127.0.0.1",
        directory: MachineDirectory | None = None,
        **limits: Any,
    ) -> LocalQueueManager:
        """Start a queue manager; the others know it by name and identifier."""
        settings = replace(settings, **limits)
        store = self._closing.enter_context(closing(MessageStore(self._folder / f"{name}.sqlite")))
        network = TcpNetwork(
            SocketAddress(host, 0),
            self._folder / f"{name}.numbers",
            LiveResolver(self.hosts, directory),
            store=store,
            settings=settings,
            clock=self.clock,
        )
        known = {guid_of(one): sender_of(one) for one in ("LEFT", "RIGHT")}
        manager = network.add(
            name,
            guid_of(name),
            signer=Signer(guid_of(name), key_of(name)),
            verifier=Verifier(PinnedKeys(known), START),
        )
        self.networks[name] = network
        self.know(name, network.address)
        self._closing.callback(manager.close)
        return manager

    def know(self, name: str, address: SocketAddress) -> None:
        """Let all machines reach a machine at an address."""
        self.hosts[name.casefold()] = self.hosts[guid_of(name)] = address

    def close(self) -> None:
        self._closing.close()


class TcpNetworks:
    """Networks of several machines on loopback, used like one network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.networks: dict[str, TcpNetwork] = {}
        self._hosts: dict[Address, SocketAddress] = {}
        self._numbers = count()

    def add(
        self, machine_name: str, identifier: Guid, *, signer: Signer, verifier: Verifier
    ) -> LocalQueueManager:
        network = TcpNetwork(
            SocketAddress("127.0.0.1", 0),
            self._folder / f"{next(self._numbers)}.numbers",
            LiveResolver(self._hosts),
            settings=QUICK,
        )
        manager = network.add(machine_name, identifier, signer=signer, verifier=verifier)
        self.networks[machine_name] = network
        self._hosts[machine_name.casefold()] = self._hosts[identifier] = network.address
        return manager

    def address_of(self, machine_name: str) -> SocketAddress:
        """Return the socket address of a machine."""
        return self._hosts[machine_name.casefold()]

    def close(self) -> None:
        """Do nothing: each queue manager ends its own network."""


class CuttingProxy:
    """Proxy that cuts its connections after so many octets from the one that connects."""

    def __init__(self, target: SocketAddress, cuts: list[int]) -> None:
        self._target, self._cuts = target, cuts
        self.connections = 0

    def __enter__(self) -> SocketAddress:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._pass, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(_awaited(starting), self._loop).result()
        host, port = self._server.sockets[0].getsockname()
        return SocketAddress(host, port)

    def __exit__(self, *_exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self._cuts.pop(0) if self._cuts else None
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        returning = asyncio.ensure_future(_copy(there, writer))
        try:
            while data := await reader.read(65536 if left is None else max(1, left)):
                back.write(data)
                await back.drain()
                left = None if left is None else left - len(data)
                if left is not None and left <= 0:
                    break
        except OSError:
            pass
        finally:
            returning.cancel()
            writer.transport.abort()
            back.transport.abort()


async def _awaited(starting: Awaitable[asyncio.Server]) -> asyncio.Server:
    return await starting


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
