"""Five servers and five slapds with thousands of objects, while slapds and servers are killed."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from support.replication.clients import Client as Worker
from support.replication.clients import differences
from support.replication.live_directories import MEMBERS, SITES, Client, Directories
from support.replication.live_servers import site_of
from support.servers.sessions import options_for

from mqdssm.engines.replication.operations import LoadState
from mqdssm.store.ldap import LdapStore

OBJECTS: Final = 5_000
PATIENCE_S: Final = 300
"""How long a client asks for one change: servers refuse requests for a while after each start."""
WHOLE_S: Final = 600.0
DOWN_S: Final = 1.0
"""How long who was killed stays away."""
VICTIMS: Final = ("PSC1", "BSC2", "PEC", "PSC2", "BSC1")


@pytest.fixture
def enterprise() -> Iterator[Directories]:
    made = Directories(with_proxies=True)
    try:
        made.found()
        yield made
    finally:
        made.close()


def kill_directory(enterprise: Directories, name: str) -> None:
    """`kill -9` of a slapd, and its start: the driver repeats what had no answer."""
    server = enterprise.directories[name]
    server.kill()
    time.sleep(DOWN_S)
    server.start()


def kill_server(enterprise: Directories, name: str) -> None:
    """`kill -9` of a server: its connections end anywhere, its memory is gone; then it starts again."""
    enterprise.kill(name)
    time.sleep(DOWN_S)
    enterprise.with_proxy(name)
    enterprise.start(name)


KILLS: Final[list[tuple[Callable[[Directories, str], None], str]]] = [
    (kill, name) for name in VICTIMS for kill in (kill_directory, kill_server)
]


def told(enterprise: Directories) -> str:
    """What servers say of themselves, for whoever looks for the reason of a failure."""
    lines = []
    for name, server in enterprise.servers.items():
        lines.append(
            f"{name}: {dict(server.driver.counts.copy())}, {dict(server.queue_manager.counts.copy())}"
        )
        with LdapStore.open(options_for(enterprise.directories[name])) as store:
            lines += [f"  {one}" for one in store.perform(LoadState()).partitions]
    return "\n".join(lines)


class Crew:
    """Clients at all servers, each in a thread."""

    def __init__(self, enterprise: Directories) -> None:
        sites = tuple(map(site_of, SITES))
        self.workers = [
            Worker(
                name,
                Client(enterprise, name),
                sites,
                patience_s=PATIENCE_S,
                makes_sites=name == "PEC",
            )
            for name in MEMBERS
        ]
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(one,), daemon=True) for one in self.workers
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, worker: Worker) -> None:
        try:
            while len(worker.things) < OBJECTS / len(self.workers):
                worker.run(10)
        except BaseException as error:  # noqa: BLE001  told by the test
            self.failures.append(error)

    def wait(self, objects: float) -> None:
        """Wait until so many have been made, or somebody has failed."""
        while sum(len(one.things) for one in self.workers) < objects and not self.failures:
            time.sleep(0.05)

    def join(self) -> None:
        """Wait until all are done."""
        for thread in self._threads:
            thread.join()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_thousands_of_objects_while_slapds_and_servers_are_killed(enterprise: Directories) -> None:
    crew = Crew(enterprise)
    for number, (kill, name) in enumerate(KILLS, 1):
        crew.wait(OBJECTS * number / (len(KILLS) + 1))
        if not crew.failures:
            kill(enterprise, name)
    crew.join()
    if crew.failures:
        raise AssertionError(told(enterprise)) from crew.failures[0]
    enterprise.wait_whole(seconds=WHOLE_S)
    things = [thing for worker in crew.workers for thing in worker.things.values()]
    assert len(things) >= OBJECTS
    for name in MEMBERS:
        assert not differences(things, enterprise.objects(name))
