"""Clients that create queues at servers of an enterprise, through their control sockets.

`make enterprise` calls them. The test of containers runs this file in a container, so it imports nothing of
the tests: ``python queue_load.py OBJECTS NAME=MACHINE=SOCKET...`` prints a line of JSON for each server.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

from mqdssm.errors import DirectoryError
from mqdssm.model.elements import Queue
from mqdssm.server.control_client import ControlClient

CONNECTIONS = 4
"""Clients of each server."""


@dataclass(frozen=True)
class LoadedServer:
    """A server at which queues are created.

    Attributes:
        name: its name, which is in the names of the queues.
        machine: machine of the queues.
        socket: its control socket.
    """

    name: str
    machine: str
    socket: Path

    @classmethod
    def parse(cls, text: str) -> "LoadedServer":
        """Read ``NAME=MACHINE=SOCKET``."""
        name, machine, socket = text.split("=", 2)
        return cls(name, machine, Path(socket))


@dataclass
class Outcomes:
    """Numbers of changes of the clients of one server, and the last problem."""

    created: int = 0
    failed: int = 0
    problem: str = ""
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, problem: str = "") -> None:
        """Count one change, which had a problem or none."""
        with self._lock:
            self.created += not problem
            self.failed += bool(problem)
            self.problem = problem or self.problem

    def as_json(self, name: str) -> str:
        """Return a line for programs."""
        return json.dumps(
            {"server": name, "created": self.created, "failed": self.failed, "problem": self.problem}
        )


def create_queues(
    servers: Sequence[LoadedServer], objects: int, on_progress: Callable[[int], None] = lambda _created: None
) -> dict[str, Outcomes]:
    """Create so many queues in all, equally many at each server; a client goes on after a refusal.

    Args:
        servers: the servers.
        objects: number of queues.
        on_progress: receives the number of created queues, about once a second.

    Raises:
        ValueError: there are fewer queues than clients.
    """
    each = objects // (len(servers) * CONNECTIONS)
    if not each:
        raise ValueError(f"{objects} queues are too few for {len(servers) * CONNECTIONS} clients")
    outcomes = {server.name: Outcomes() for server in servers}
    threads = [
        Thread(target=_create, args=(server, range(each * part, each * (part + 1)), outcomes[server.name]))
        for server in servers
        for part in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        on_progress(sum(outcome.created for outcome in outcomes.values()))
    return outcomes


def _create(server: LoadedServer, numbers: range, outcomes: Outcomes) -> None:
    """Create queues through a server."""
    try:
        with ControlClient(server.socket) as client:
            for number in numbers:
                queue = Queue(pathname=f"{server.machine}\\{server.name}-{number}", label=f"Orders {number}")
                try:
                    client.create(queue)
                except DirectoryError as error:
                    outcomes.add(f"{type(error).__name__}: {error}")
                else:
                    outcomes.add()
    except DirectoryError as error:
        outcomes.add(f"{type(error).__name__}: {error}")


def exit_code(outcomes: dict[str, Outcomes]) -> int:
    """Return 0 if the clients of each server have created objects, and no change failed."""
    return 0 if all(outcome.created and not outcome.failed for outcome in outcomes.values()) else 1


def main(arguments: Sequence[str]) -> int:
    """Create queues at the servers that the arguments name; the exit code."""
    objects, *servers = arguments
    outcomes = create_queues([LoadedServer.parse(text) for text in servers], int(objects))
    for name, outcome in outcomes.items():
        sys.stdout.write(f"{outcome.as_json(name)}\n")
    return exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
