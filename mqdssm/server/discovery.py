"""Discovery server of a directory server, in a thread ([MS-MQSD] 3.2)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from threading import Event
from typing import Final, Self

from mqdssm.drivers.discovery.directory_data import DiscoveryReader, KnowledgeCache, KnowledgeWatch
from mqdssm.drivers.discovery.server import DiscoveryService
from mqdssm.drivers.threads import WorkerThread
from mqdssm.engines.discovery.answers import Answers
from mqdssm.errors import MqdssmError, TransportError
from mqdssm.events.facade import Directory
from mqdssm.model.socket_addresses import SocketAddress

log: Final = logging.getLogger(__name__)

REFRESH_S: Final = 300.0
"""Longest time in seconds between two readings of the directory; changes are seen sooner."""
RETRY_S: Final = 1.0
"""Seconds until a directory that has not the own site yet is read again, doubled each time."""
RETRY_MAX_S: Final = 30.0
"""Longest such wait in seconds."""


class DiscoveryThread:
    """Discovery server in a thread; a context manager that stops it.

    The thread begins when the directory has the server's own site. If the server cannot listen, replication
    goes on without it (decision T62).

    Args:
        directory: of the server.
        site: name of its site.
        computer: its machine.
        listen: IPv4 addresses and UDP ports.
        allow_from: networks that are answered beside those of this computer.
        on_report: called with what an operator should know.

    Attributes:
        addresses: addresses that it listens on; none before it begins.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        site: str,
        computer: str,
        listen: Sequence[SocketAddress],
        allow_from: Sequence[IPv4Network] = (),
        on_report: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self.addresses: tuple[SocketAddress, ...] = ()
        self._directory, self._on_report = directory, on_report
        self._reader: Final = DiscoveryReader(directory, site=site, computer=computer)
        self._listen, self._allow_from = tuple(listen), tuple(allow_from)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._has_begun: Final = Event()
        self._thread: Final = WorkerThread(self._run, "discovery server")

    def __enter__(self) -> Self:
        self._thread.start()
        self._has_begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except TransportError as error:
            self._on_report(f"machines that look for a directory server are not answered: {error}")
        finally:
            self._has_begun.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_begun.set()
        answers = Answers()
        cache = KnowledgeCache(self._reader.read, answers.learn, refresh_s=REFRESH_S)
        if not await self._read_first(cache):
            return
        service = DiscoveryService(self._listen, answers, allow_from=self._allow_from)
        service.start()
        self.addresses = tuple(SocketAddress(*address) for address in service.addresses)
        tasks = [asyncio.create_task(cache.run()), asyncio.create_task(self._stop_with(service))]
        try:
            with KnowledgeWatch(self._directory, cache, tell=_log_unwatched).run():
                await service.run()
        finally:
            for task in tasks:
                task.cancel()

    async def _read_first(self, cache: KnowledgeCache) -> bool:
        """Read the directory until it has the own site.

        Returns:
            False if the server stops before.
        """
        wait_s = RETRY_S
        while not self._stopping.is_set():
            try:
                await cache.refresh()
            except MqdssmError as error:
                log.info("machines that look for a directory server are not answered yet: %s", error)
            else:
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)
            wait_s = min(2 * wait_s, RETRY_MAX_S)
        return False

    async def _stop_with(self, service: DiscoveryService) -> None:
        await self._stopping.wait()
        service.stop()


def _log_unwatched(why: str) -> None:
    log.warning("the directory is not watched, only read every %g s: %s", REFRESH_S, why)
