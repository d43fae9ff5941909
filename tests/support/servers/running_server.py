"""Directory servers with all their parts, in threads of the tests."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

from mqdssm.errors import DirectoryError
from mqdssm.model.elements import Queue
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.control_client import ControlClient
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from support.replication.queue_managers import wait_until

QUICK = "\n[timers]\nintrasite_s = 0.05\nintersite_s = 0.05\nheader_s = 0.3\nsync_wait_s = 0.3\n"
"""Timers of servers that hear of each other at once."""


class RunningServer:
    """A server process in a thread of the tests."""

    def __init__(self, folder: Path, *, restored: bool = False) -> None:
        self.folder = DirectoryServerFolder(folder)
        self.reports: list[str] = []
        self.addresses: list[SocketAddress] = []
        self.error: Exception | None = None
        self.process = ServerProcess(
            self.folder,
            ServerConfig.read(self.folder.config),
            restored=restored,
            on_ready=self.addresses.append,
            on_report=self.reports.append,
        )
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.process.run()
        except Exception as error:  # noqa: BLE001  raised by `stop`
            self.error = error

    def start(self) -> "RunningServer":
        self._thread.start()
        return self

    def wait_ready(self) -> "RunningServer":
        wait_until(lambda: bool(self.addresses) or not self._thread.is_alive(), 20)
        assert self.error is None
        return self

    def client(self) -> ControlClient:
        return ControlClient(self.folder.control)

    def snapshot(self) -> Any:
        with self.client() as client:
            return client.status()

    def create(self, pathname: str) -> bool:
        """Create a queue; False while the server is not ready to."""
        try:
            with self.client() as client:
                return bool(client.create(Queue(pathname=pathname)))
        except DirectoryError:
            return False

    def stop_when_ended(self) -> None:
        """Wait for the end, and raise its error."""
        self._thread.join(30)
        self.stop()

    def stop(self) -> None:
        self.process.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def running(folder: Path) -> Iterator[RunningServer]:
    server = RunningServer(folder).start()
    try:
        yield server.wait_ready()
    finally:
        server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def init(folder: Path, **store: Any) -> Path:
    """Make the folder of a PEC."""
    config = make_pec(
        folder,
        enterprise="Contoso",
        site="Berlin",
        machine_name="PEC01",
        listen=f"127.0.0.1:{free_port()}",
        store=StoreSection(**store),
    )
    config.write_text(config.read_text() + QUICK)
    return folder


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page of a server's local port."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
