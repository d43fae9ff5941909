"""How what a discovery server knows is kept true, without a directory."""

import asyncio
from types import SimpleNamespace

import pytest
from support.discovery.client import knowledge

from mqdssm.drivers.discovery.directory_data import KnowledgeCache, _build_entry, protocols_of
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.model.elements import QueueManager

pytestmark = pytest.mark.slow  # waits for threads and sockets


@pytest.mark.parametrize(
    ("addresses", "protocols"),
    [
        pytest.param(b"", (True, False), id="none is known"),
        pytest.param(bytes.fromhex("04000100 0a000001"), (True, False), id="IP"),
        pytest.param(bytes.fromhex("04000200 0a000001"), (True, False), id="IP by remote access"),
        pytest.param(bytes.fromhex("0a000300") + bytes(10), (False, True), id="IPX"),
        pytest.param(
            bytes.fromhex("0a000300") + bytes(10) + bytes.fromhex("04000100 0a000001"), (True, True)
        ),
        pytest.param(bytes.fromhex("10000500") + bytes(16), (True, False), id="foreign"),
        pytest.param(bytes.fromhex("040001"), (True, False), id="cut"),
        pytest.param(bytes.fromhex("ffff0300"), (False, True), id="longer than there is"),
        pytest.param(bytes.fromhex("00000000") * 10_000, (True, False), id="many of no length"),
    ],
)
def test_protocols_of_addresses(addresses: bytes, protocols: tuple[bool, bool]) -> None:
    """Decision S11."""
    assert protocols_of(addresses) == protocols


@pytest.mark.spec("MS-MQSD 3.1.7.1")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("BERDC1", True),
        ("x" * 15, True),
        ("Düsseldorf_$-~", True),
        ("x" * 16, False),
        ("berdc1.example.com", False),
        ("a,b", False),
        ("a\\b", False),
        ("", False),
    ],
)
def test_a_list_has_netbios_names_alone(name: str, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Decision S20."""
    machine = QueueManager(computer_name=name or None, full_path="CN=msmq,CN=x")
    assert [one.name for one in _build_entry(machine, b"")] == ([name] if told else [])
    assert bool(caplog.records) is not told
    if not told:
        assert "CN=msmq,CN=x is not told of" in caplog.text


class Directory:
    """What is read, and what happens then."""

    def __init__(self) -> None:
        self.reads = 0
        self.failing = False

    def read(self) -> Knowledge:
        self.reads += 1
        if self.failing:
            raise DirectoryNotConnected("it is away")
        return knowledge(f"S{self.reads}")


async def until(reads: int, directory: Directory) -> None:
    async with asyncio.timeout(20):
        while directory.reads < reads:  # noqa: ASYNC110  it is read in another thread
            await asyncio.sleep(0.01)


def test_the_directory_is_read_at_an_interval() -> None:
    directory, learnt = Directory(), []

    async def run() -> None:
        cache = KnowledgeCache(directory.read, learnt.append, refresh_s=0.1, pause_s=0.05)
        keeping = asyncio.create_task(cache.run())
        await until(3, directory)
        keeping.cancel()

    asyncio.run(run())
    assert [known.servers[0].name for known in learnt[:2]] == ["S1", "S2"]


def test_many_changes_are_few_readings() -> None:
    directory, learnt = Directory(), []

    async def run() -> None:
        cache = KnowledgeCache(directory.read, learnt.append, pause_s=0.2)
        keeping = asyncio.create_task(cache.run())
        for _ in range(100):
            for _ in range(10):
                cache.apply(SimpleNamespace(type="site"))
            cache.apply(SimpleNamespace(type="queue"))
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.5)
        keeping.cancel()

    asyncio.run(run())
    assert 1 <= directory.reads <= 8


def test_changes_of_other_objects_are_none() -> None:
    directory = Directory()

    async def run() -> None:
        cache = KnowledgeCache(directory.read, lambda _: None, pause_s=0.01)
        keeping = asyncio.create_task(cache.run())
        for kind in ("queue", "user", "enterprise", "routing-link"):
            cache.apply(SimpleNamespace(type=kind))
        await asyncio.sleep(0.2)
        keeping.cancel()

    asyncio.run(run())
    assert directory.reads == 0


def test_while_the_directory_is_away_what_was_known_counts() -> None:
    directory, learnt = Directory(), []

    async def run() -> None:
        cache = KnowledgeCache(directory.read, learnt.append, pause_s=0.01)
        await cache.refresh()
        directory.failing = True
        keeping = asyncio.create_task(cache.run())
        cache.invalidate()
        await until(2, directory)
        assert len(learnt) == 1
        directory.failing = False
        cache.invalidate()
        await until(3, directory)
        await asyncio.sleep(0.05)
        keeping.cancel()
        assert len(learnt) == 2
        with pytest.raises(asyncio.CancelledError):
            await keeping

    asyncio.run(run())


def test_a_change_that_could_not_be_read_is_read_soon() -> None:
    """Nobody tells of it again."""
    directory, learnt = Directory(), []

    async def run() -> None:
        cache = KnowledgeCache(directory.read, learnt.append, pause_s=0.01, retry_s=0.05)
        directory.failing = True
        keeping = asyncio.create_task(cache.run())
        await asyncio.sleep(0)
        cache.invalidate()
        await until(1, directory)
        directory.failing = False
        await until(2, directory)
        await asyncio.sleep(0.2)
        keeping.cancel()

    asyncio.run(run())
    assert 1 <= len(learnt) < directory.reads <= 8, "then it is quiet"


def test_a_change_while_it_is_read_is_read_again() -> None:
    """The reading may have passed it."""
    directory, learnt = Directory(), []

    async def run() -> None:
        cache = KnowledgeCache(read, learnt.append, pause_s=0.01)
        keeping = asyncio.create_task(cache.run())
        changes.append(cache)
        await asyncio.sleep(0)
        cache.invalidate()
        await until(2, directory)
        keeping.cancel()

    changes: list[KnowledgeCache] = []

    def read() -> Knowledge:
        knowledge = directory.read()
        while changes:
            changes.pop().apply(SimpleNamespace(type="site"))
        return knowledge

    asyncio.run(run())
    assert directory.reads == 2


def test_the_first_reading_must_succeed() -> None:
    directory = Directory()
    directory.failing = True
    with pytest.raises(DirectoryNotConnected):
        asyncio.run(KnowledgeCache(directory.read, lambda _: None).refresh())


def test_a_watcher_may_outlive_the_service() -> None:
    cache = KnowledgeCache(Directory().read, lambda _: None)
    cache.invalidate()  # before there is a loop
    asyncio.run(cache.refresh())
    cache.invalidate()  # after it


def test_too_often_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"every 0\.5 s is too often"):
        KnowledgeCache(Directory().read, lambda _: None, refresh_s=0.5)
