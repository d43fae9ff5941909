"""Leases: counted, reused, limited, and in the order of the servers."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqdssm.directory import pool as pool_module
from mqdssm.directory.channel import Channel
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.pool import Pool
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError

A, B, C = "ldap://a", "ldap://b", "ldap://c"


class FakeChannel:
    """What the pool needs of a channel."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.broken = False
        self.usable = True
        self.closed = False

    def is_usable(self) -> bool:
        return self.usable and not self.broken

    def close(self) -> None:
        self.closed = True


class World:
    """Servers that can be down."""

    def __init__(self) -> None:
        self.down: dict[str, int | None] = {}
        self.opened: list[FakeChannel] = []
        self.tried: list[str] = []
        self.welcomed: list[str] = []
        self.on_welcome: Callable[[], None] = lambda: None

    def open(self, attempt: Any, _counter: Any) -> Any:
        url = attempt.endpoint.url
        self.tried.append(url)
        if url in self.down:
            raise DirectoryNotConnected(f"{url} is down", ldap_code=self.down[url])
        channel = FakeChannel(url)
        self.opened.append(channel)
        return channel

    def welcome(self, channel: Channel, _endpoint: Endpoint, _deadline: float) -> None:
        self.welcomed.append(channel.url)
        self.on_welcome()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pool(world: World) -> Iterator[Pool]:
    made = Pool(ConnectionOptions.of([A, B, C]), world.welcome, world.open)
    yield made
    made.close()


def soon(seconds: float = 2.0) -> float:
    return time.monotonic() + seconds


def test_interrupted_operation_leaves_no_connection_behind(pool: Pool, world: World) -> None:
    with pytest.raises(KeyboardInterrupt), pool.lease(soon()):
        raise KeyboardInterrupt
    assert pool.references == 0
    assert world.opened[0].closed


@pytest.mark.spec("MS-MQDSSM 3.1.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.18")
@pytest.mark.spec("MS-MQDSSM 3.1.6.21")
def test_references_rise_and_fall(pool: Pool, world: World) -> None:
    assert (pool.references, pool.current_url) == (0, None)
    with pool.lease(soon()):
        assert pool.references == 1
        with pool.lease(soon()):
            assert pool.references == 2
        assert pool.references == 1
    assert pool.references == 0
    with pool.lease(soon()):
        pass
    assert len(world.opened) == 2
    assert world.welcomed == [A]  # a server is looked at once


def test_error_in_an_operation_gives_the_lease_back(pool: Pool, world: World) -> None:
    with pytest.raises(KeyError), pool.lease(soon()):
        raise KeyError
    assert pool.references == 0
    assert not world.opened[0].closed


def test_broken_and_stale_channels_are_replaced(pool: Pool, world: World) -> None:
    with pool.lease(soon()) as channel:
        channel.broken = True
    assert world.opened[0].closed
    with pool.lease(soon()):
        pass
    world.opened[1].usable = False  # the server closed it meanwhile
    with pool.lease(soon()) as channel:
        assert channel is world.opened[2]
    assert world.opened[1].closed


class TestOrder:
    def test_first_that_works_stays(self, pool: Pool, world: World) -> None:
        world.down = {A: None}
        with pool.lease(soon()), pool.lease(soon()):
            assert world.tried == [A, B, B]
        assert pool.current_url == B

    def test_failed_server_comes_after_the_others(
        self, pool: Pool, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.down = {A: None}
        with pool.lease(soon()) as channel:
            world.down = {B: None}
            channel.broken = True
        world.tried.clear()
        with pool.lease(soon()) as channel:
            assert world.tried == [B, C]
            channel.broken = True
        world.tried.clear()
        monkeypatch.setattr(pool_module, "FAILED_SERVER_REST_S", 0.0)
        world.down = {C: None}
        with pool.lease(soon()):
            assert world.tried == [C, A]

    def test_suspected_server_is_left(self, pool: Pool, world: World) -> None:
        with pool.lease(soon()):
            pool.suspect(A)
        assert world.opened[0].closed  # not kept: it is not the server in use any more
        with pool.lease(soon()):
            assert pool.current_url == B

    def test_idle_connections_to_a_silent_server_are_dropped(self, pool: Pool, world: World) -> None:
        """They look healthy, but each would cost another time-out."""
        with pool.lease(soon()), pool.lease(soon()):
            pass
        pool.suspect(A)
        assert [channel.closed for channel in world.opened] == [True, True]

    def test_one_server_at_a_time(self, pool: Pool, world: World) -> None:
        with pool.lease(soon()):
            pass
        with pool.lease(soon(), only=B):
            assert world.opened[0].closed
        with pool.lease(soon()) as channel:
            assert channel.url == B

    def test_only_one_server_will_do(self, pool: Pool, world: World) -> None:
        with pool.lease(soon()):
            pass
        with pool.lease(soon(), only=B) as channel:
            assert channel.url == B
        world.down = {C: None}
        with pytest.raises(DirectoryNotConnected), pool.lease(soon(), only=C):
            pass
        assert world.tried == [A, B, C]

    def test_all_down(self, pool: Pool, world: World) -> None:
        world.down = {A: None, B: 52, C: None}
        with pytest.raises(DirectoryNotConnected) as caught, pool.lease(soon()):
            pass
        assert caught.value.ldap_code == 52
        for url in (A, B, C):
            assert f"{url} is down" in str(caught.value)
        assert pool.references == 0
        world.down = {}
        with pool.lease(soon()):  # nothing is disabled for ever (decision M24)
            pass

    def test_wrong_password_is_not_spread(self, pool: Pool, world: World) -> None:
        world.down = {A: 49}
        with pytest.raises(DirectoryNotConnected), pool.lease(soon()):
            pass
        assert world.tried == [A]

    def test_rejected_server_is_closed(self, pool: Pool, world: World) -> None:
        def reject() -> None:
            raise GenericDirectoryError("another directory")

        world.on_welcome = reject
        with pytest.raises(GenericDirectoryError), pool.lease(soon()):
            pass
        assert world.opened[0].closed
        assert pool.references == 0


class TestLimits:
    def test_waits_for_a_connection_then_gives_up(self, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool_module, "CHANNELS_MAX", 2)
        with pool.lease(soon()), pool.lease(soon()):
            started = time.monotonic()
            with pytest.raises(DirectoryNotConnected, match="all 2 connections"), pool.lease(soon(0.1)):
                pass
            assert time.monotonic() - started < 1
        assert pool.references == 0

    def test_next_one_gets_it(self, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool_module, "CHANNELS_MAX", 1)
        got = threading.Event()

        def wait() -> None:
            with pool.lease(soon(5)):
                got.set()

        with pool.lease(soon()):
            waiter = threading.Thread(target=wait)
            waiter.start()
            assert not got.wait(0.05)
        assert got.wait(2)
        waiter.join()

    def test_few_idle_connections_are_kept(
        self, pool: Pool, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "IDLE_CHANNELS_MAX", 1)
        with pool.lease(soon()), pool.lease(soon()):
            pass
        assert sorted(channel.closed for channel in world.opened) == [False, True]

    def test_closing(self, pool: Pool, world: World) -> None:
        with pool.lease(soon()):
            idle = pool.lease(soon())
            with idle:
                pass
            pool.close()
            assert [channel.closed for channel in world.opened] == [False, True]
        assert world.opened[0].closed  # when it came back
        with pytest.raises(DirectoryNotConnected, match="closed"), pool.lease(soon()):
            pass
