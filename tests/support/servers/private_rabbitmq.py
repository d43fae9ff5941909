"""A private RabbitMQ node with its management API; Debian's package ``rabbitmq-server``."""

import base64
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 120.0


def why_none() -> str:
    """Return why there can be no node here; empty if there can."""
    return "" if SERVER.exists() else "there is no RabbitMQ: apt-get install rabbitmq-server"


class RabbitMq:
    """Management API of a node."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/"

    def ask(self, path: str, document: Any = None) -> Any:
        """Send a GET, or a POST with a document."""
        request = urllib.request.Request(
            self._url + path,
            data=None if document is None else json.dumps(document).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("overview")["node"])
        except (urllib.error.URLError, OSError, KeyError, ValueError):
            return False


@contextmanager
def running(folder: Path) -> Iterator[RabbitMq]:
    """Run a node with all its files in a folder."""
    amqp, management, distribution, names = free_ports(4)
    (folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.default = 127.0.0.1:{amqp}\n"
        f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n"
        "collect_statistics_interval = 1000\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"mqdssm{amqp}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
    }
    log = (folder / "out").open("wb")
    with log, subprocess.Popen([str(SERVER)], env=environment, stdout=log, stderr=log, cwd=folder) as process:
        node = RabbitMq(management)
        try:
            _wait(node, process, folder)
            yield node
        finally:
            process.terminate()
            process.wait(60)
            epmd = ["epmd", "-port", str(names), "-kill"]
            subprocess.run(epmd, env=environment, capture_output=True, timeout=60, check=False)


def _wait(node: RabbitMq, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_S
    while not node.is_ready():
        assert process.poll() is None, (folder / "out").read_text()[-2000:]
        assert time.monotonic() < end, (folder / "out").read_text()[-2000:]
        time.sleep(0.5)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
