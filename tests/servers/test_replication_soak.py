"""Five servers and five slapds with thousands of objects, while slapds and servers are killed."""

import threading
import time
from collections.abc import Callable

import pytest
from live_directories import MEMBERS, SITES, Client, Directories
from live_servers import site_of
from replication_clients import Client as Worker
from replication_clients import differences
from sessions import options_for

from mqdssm.engines.replication.operations import LoadState
from mqdssm.store.ldap import LdapStore

OBJECTS = int(__import__('os').environ.get('OBJECTS','5000'))
WHOLE_S = 600.0
DOWN_S = 1.0
"""How long who was killed stays away."""
VICTIMS = ("PSC1", "BSC2", "PEC", "PSC2", "BSC1")


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


def told(enterprise: Directories) -> str:
    """What servers say of themselves, for whoever looks for the reason."""
    lines = []
    for name, server in enterprise.servers.items():
        lines.append(f"{name}: {dict(server.driver.counts.seen())}, {dict(server.host.counts.seen())}")
        with LdapStore.open(options_for(enterprise.directories[name])) as store:
            lines += [f"  {one}" for one in store.perform(LoadState()).partitions]
    return "\n".join(lines)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_thousands_of_objects_while_slapds_and_servers_are_killed() -> None:
    enterprise = Directories(with_proxies=True)
    try:
        enterprise.found()
        sites = tuple(map(site_of, SITES))
        workers = [Worker(name, Client(enterprise, name), sites, patience_s=int(__import__('os').environ.get('PATIENCE','300'))) for name in MEMBERS]
        failures: list[BaseException] = []

        def work(worker: Worker) -> None:
            try:
                while len(worker.things) < OBJECTS / len(workers):
                    worker.run(10)
            except BaseException as error:  # noqa: BLE001  told below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in workers]
        for thread in threads:
            thread.start()
        kills: list[tuple[Callable[[Directories, str], None], str]] = [
            (kill, name) for name in VICTIMS for kill in (kill_directory, kill_server)
        ]
        for number, (kill, name) in enumerate(kills, 1):
            share = OBJECTS * number / (len(kills) + 1)
            while sum(len(one.things) for one in workers) < share and not failures:
                time.sleep(0.05)
            if not failures:
                kill(enterprise, name)
        for thread in threads:
            thread.join()
        if failures:
            raise AssertionError(told(enterprise)) from failures[0]
        enterprise.wait_whole(seconds=WHOLE_S)
        things = [thing for worker in workers for thing in worker.things.values()]
        assert len(things) >= OBJECTS
        for name in MEMBERS:
            assert not differences(things, enterprise.objects(name))
    finally:
        enterprise.close()
