"""Replication between five servers, each with a slapd of its own ([MC-MQDSRP] 1.3.1.2, 1.3.1.3)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_directories import MEMBERS, PARTITIONS, SITES, Client, Directories
from live_servers import site_of
from replication_clients import Client as Worker
from replication_clients import differences

CHANGES = 30
"""Changes at each server of the ordinary run."""


@pytest.fixture(scope="module")
def enterprise() -> Iterator[Directories]:
    made = Directories()
    try:
        made.found()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def workers(enterprise: Directories) -> list[Worker]:
    """Clients at all servers, who have done their work."""
    sites = tuple(map(site_of, SITES))
    made = [Worker(name, Client(enterprise, name), sites) for name in MEMBERS]
    with ThreadPoolExecutor(len(made)) as threads:
        list(threads.map(lambda one: one.run(CHANGES), made))
    enterprise.wait_whole()
    return made


def test_all_servers_have_the_same(enterprise: Directories, workers: list[Worker]) -> None:
    for partition_id in PARTITIONS:
        first, *others = (enterprise.changes(name, partition_id) for name in MEMBERS)
        assert first
        assert all(one == first for one in others)
    things = [thing for worker in workers for thing in worker.things.values()]
    for name in MEMBERS:
        assert not differences(things, enterprise.objects(name))
