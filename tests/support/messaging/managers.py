"""Queue managers of programs on loopback, with ports that nobody else has."""

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mqdssm.drivers.tcp.network import TcpSettings
from mqdssm.messaging import QueueManager
from mqdssm.messaging.queue_manager import MESSAGING

QUICK: Final = replace(
    MESSAGING,
    flush_s=0.3,
    sessions=replace(MESSAGING.sessions, retry_connect_s=0.05, retry_connect_max_s=0.1, ack_send_max_s=0.01),
)
"""Settings of queue managers that connect again at once."""


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Managers:
    """Queue managers that know each other by name."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder, self._closing = folder, closing
        self.hosts = {name: ("127.0.0.1", free_port()) for name in ("left", "right")}

    def make(self, name: str, *, settings: TcpSettings = QUICK, **options: Any) -> QueueManager:
        """A queue manager that is not started."""
        own: dict[str, Any] = {
            "folder": self._folder / name,
            "listen": self.hosts[name],
            "address": name,
            "hosts": self.hosts,
        }
        return QueueManager(machine_name=name, settings=settings, **(own | options))

    def start(self, name: str, **options: Any) -> QueueManager:
        """A queue manager that the test closes at its end."""
        manager = self.make(name, **options).start()
        self._closing.callback(manager.close, 0.0)
        return manager


def queue(machine: str, name: str = "orders") -> str:
    """Format name of a private queue."""
    return rf"DIRECT=OS:{machine}\private$\{name}"
