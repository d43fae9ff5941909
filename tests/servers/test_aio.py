"""The events for asyncio on a real server: many tasks, few connections, cancelled calls."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

import mqdssm
from mqdssm import aio
from mqdssm.directory.pool import Pool
from mqdssm.testing import OpenLdapServer

QUEUES = 40


@pytest.fixture(scope="module")
def openldap_server() -> Iterator[OpenLdapServer]:
    """A server without the objects of other tests."""
    with OpenLdapServer(durable=False) as server:
        yield server


@pytest.fixture
def queues(openldap_server: OpenLdapServer, openldap_directory: mqdssm.Directory) -> list[mqdssm.Queue]:
    """Queues of one queue manager, each with its number as label."""
    site = openldap_directory.create(mqdssm.Site(name="Asynchronous"))
    openldap_server.add_computer("aio")
    openldap_directory.create(mqdssm.QueueManager(computer_name="aio", site_identifier_list=[site]))
    made = [mqdssm.Queue(pathname=rf"aio\q{number}", label=str(number)) for number in range(QUEUES)]
    assert all(outcome.succeeded for outcome in openldap_directory.create_many(made))
    return made


def connect(server: OpenLdapServer, **options: Any) -> aio.Connecting:
    return aio.connect(
        server.url, user=server.user, password=server.password, ca_file=server.ca_file, **options
    )


def run(
    server: OpenLdapServer, work: Callable[[aio.AsyncDirectory], Awaitable[None]], **options: Any
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), connect(server, **options) as directory:
            await work(directory)

    asyncio.run(main())


async def label_of(directory: aio.AsyncDirectory, queue: mqdssm.Queue) -> str:
    by_identifier = mqdssm.Filter("Identifier", "==", queue.identifier)
    found = await directory.read(mqdssm.Queue, by_identifier, attributes=["Identifier", "Label"])
    assert found.identifier == queue.identifier, "the answer to another request"
    return found.label


def test_a_thousand_requests_at_a_time(openldap_server, queues, monkeypatch) -> None:
    """Reads and writes of 1,000 tasks over 4 connections: each gets its own answer."""
    opened, original = [], Pool._connect

    def counting(pool: Pool, *args: Any) -> Any:
        opened.append(threading.current_thread().name)
        return original(pool, *args)

    monkeypatch.setattr(Pool, "_connect", counting)

    async def work(directory: aio.AsyncDirectory) -> None:
        async def one(number: int) -> None:
            queue = queues[number % QUEUES]
            if number % 5 == 0:
                await directory.write(mqdssm.Queue(identifier=queue.identifier, quota=number))
            else:
                assert await label_of(directory, queue) == queue.label

        await asyncio.gather(*(one(number) for number in range(1000)))

    run(openldap_server, work, connections=4)
    assert len(opened) <= 5, "one for each thread, and the one that connected"


def test_cancelled_calls_leave_nothing_behind(openldap_server, queues) -> None:
    """After a cancellation no connection has an answer to somebody else's request, and writes are whole."""
    chance = random.Random(21)

    async def work(directory: aio.AsyncDirectory) -> None:
        async def change(number: int) -> None:
            queue = mqdssm.Queue(
                identifier=queues[number % QUEUES].identifier, quota=number, journal_quota=number
            )
            await directory.write(queue)

        cancelled = 0
        for _ in range(30):
            tasks = [asyncio.create_task(change(number)) for number in range(20)]
            tasks += [asyncio.create_task(label_of(directory, queue)) for queue in queues[:20]]
            await asyncio.sleep(chance.random() / 50)
            for task in chance.sample(tasks, 30):
                cancelled += task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            unexpected = [
                task.exception() for task in tasks if not task.cancelled() and task.exception() is not None
            ]
            assert unexpected == []
            for queue in queues[::7]:
                assert await label_of(directory, queue) == queue.label
        assert cancelled > 100, "too few calls were cancelled to prove anything"
        async for found in directory.search(mqdssm.Queue):
            assert found.quota == found.journal_quota
        assert directory.directory.session.references == 0

    run(openldap_server, work, connections=3)


def test_a_call_that_is_cancelled_before_its_turn_does_nothing(openldap_server, queues) -> None:
    async def work(directory: aio.AsyncDirectory) -> None:
        go = threading.Event()
        busy = asyncio.create_task(directory.run(lambda _: go.wait(20)))
        await asyncio.sleep(0)
        write = asyncio.create_task(
            directory.write(mqdssm.Queue(identifier=queues[0].identifier, label="never"))
        )
        await asyncio.sleep(0.05)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        go.set()
        assert await busy
        assert await label_of(directory, queues[0]) == "0"

    run(openldap_server, work, connections=1)


def test_a_write_that_is_cancelled_while_it_runs_is_made_or_not(openldap_server, queues) -> None:
    """With a time-out of asyncio: the outcome is unknown to the caller, and the connection is used again."""

    async def work(directory: aio.AsyncDirectory) -> None:
        async def write_on() -> None:
            for number in range(1000):
                await directory.write(mqdssm.Queue(identifier=queues[1].identifier, label=f"new {number}"))

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write_on(), 0.02)
        label = await label_of(directory, queues[1])
        assert label == "1" or label.startswith("new ")
        assert directory.directory.session.references == 0

    run(openldap_server, work, connections=1)


def test_searches(openldap_server, queues) -> None:
    async def work(directory: aio.AsyncDirectory) -> None:
        search = directory.search(
            mqdssm.Queue, mqdssm.Filter("Label", "!=", "5"), sort=mqdssm.SortKey("Label")
        )
        labels = [queue.label async for queue in search]
        assert labels == sorted(str(number) for number in range(QUEUES) if number != 5)
        async with aclosing(directory.search(mqdssm.Queue)) as early:
            async for _ in early:
                break
        assert len([queue async for queue in directory.search(mqdssm.Queue, limit=3)]) == 3
        assert await directory.count(mqdssm.Queue) == QUEUES
        page = await directory.search_page(mqdssm.Queue, limit=QUEUES - 1)
        rest = await directory.search_page(mqdssm.Queue, limit=QUEUES, token=page.next_token)
        assert (len(page.items), len(rest.items), rest.next_token) == (QUEUES - 1, 1, None)
        nested = 0
        async for manager in directory.search(mqdssm.QueueManager):
            async for queue in directory.search(mqdssm.Queue, below=manager.full_path):
                nested += queue.pathname.startswith("aio\\")
        assert nested == QUEUES
        task = asyncio.create_task(anext(directory.search(mqdssm.Queue)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(mqdssm.GenericDirectoryError, match="Colour"):
            await anext(directory.search(mqdssm.Queue, mqdssm.Filter("Colour", "==", "red")))
        for _ in range(100):
            if directory.directory.session.references == 0:
                break
            await asyncio.sleep(0.02)
        assert directory.directory.session.references == 0

    run(openldap_server, work, connections=1)


def test_a_search_that_is_left_early_is_closed_in_a_thread(openldap_server, queues, monkeypatch) -> None:
    """Closing may wait for the server: the event loop must not do it, nor the garbage collector in it."""
    search, closed = mqdssm.Directory.search, []

    def watched(*args, **options):
        try:
            yield from search(*args, **options)
        finally:
            closed.append(threading.current_thread())

    monkeypatch.setattr(mqdssm.Directory, "search", watched)

    async def work(directory: aio.AsyncDirectory) -> None:
        async with aclosing(directory.search(mqdssm.Queue)) as early:
            await anext(early)
        for _ in range(100):
            if closed:
                break
            await asyncio.sleep(0.02)
        assert [thread is threading.main_thread() for thread in closed] == [False]

    run(openldap_server, work, connections=1, page_size=10)


def test_each_event(openldap_server, queues) -> None:
    async def work(directory: aio.AsyncDirectory) -> None:
        made = mqdssm.Queue(pathname=r"aio\new", label="new", quota=4)
        guid = await directory.create(made)
        assert await directory.upsert(mqdssm.Queue(pathname=r"aio\new", label="newer")) is False
        made.label = "other"
        with pytest.raises(mqdssm.ObjectChanged):
            await directory.write(made, if_unchanged=True)
        await directory.delete(mqdssm.Queue(identifier=guid))
        with pytest.raises(mqdssm.ObjectNotFound):
            await directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
        more = [mqdssm.Queue(pathname=rf"aio\more{number}") for number in range(9)]
        for method in (
            directory.create_many,
            directory.upsert_many,
            directory.write_many,
            directory.delete_many,
        ):
            assert [outcome.error async for outcome in method(more)] == [None] * 9
        with pytest.raises(mqdssm.ObjectNotFound):
            await directory.resolve_queue_alias("CN=nobody,DC=example,DC=com")
        with pytest.raises(mqdssm.ObjectNotFound):
            await directory.resolve_distribution_list(f"DL={guid}")

    run(openldap_server, work)


def test_certificates(openldap_server, queues) -> None:
    async def work(directory: aio.AsyncDirectory) -> None:
        from support.wire.certificates import certificate

        manager = mqdssm.QueueManager(computer_name="aio")
        names = [f"aio{number}" for number in range(6)]
        made = await asyncio.gather(
            *(directory.add_certificate(manager, certificate(name)) for name in names)
        )
        assert len(set(made)) == 6
        await asyncio.gather(*(directory.remove_certificate(manager, identifier) for identifier in made))
        (found,) = [
            one
            async for one in directory.search(mqdssm.QueueManager, mqdssm.QueueManager.computer_name == "aio")
        ]
        assert found.public_signing_key_list == b""

    run(openldap_server, work)


def test_a_closed_directory(openldap_server, queues) -> None:
    async def main() -> None:
        directory = await connect(openldap_server, connections=1)
        go = threading.Event()
        busy = asyncio.create_task(directory.run(lambda _: go.wait(20)))
        waiting = asyncio.create_task(label_of(directory, queues[0]))
        await asyncio.sleep(0.02)
        closing = asyncio.create_task(directory.close())
        await asyncio.sleep(0.02)
        go.set()
        await closing
        assert await busy
        for call in (waiting, label_of(directory, queues[0])):
            with pytest.raises(mqdssm.DirectoryNotConnected, match="closed"):
                await call

    asyncio.run(main())


def test_a_cancelled_connection_is_closed(openldap_server, monkeypatch) -> None:
    closed, close = threading.Event(), mqdssm.Directory.close

    def closing(directory: mqdssm.Directory) -> None:
        close(directory)
        closed.set()

    monkeypatch.setattr(mqdssm.Directory, "close", closing)

    async def main() -> None:
        connecting = asyncio.ensure_future(_opened(openldap_server))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert await asyncio.to_thread(closed.wait, 20)

    asyncio.run(main())


async def _opened(server: OpenLdapServer) -> aio.AsyncDirectory:
    return await connect(server)


@pytest.mark.parametrize("connections", [0, 33])
def test_numbers_of_connections(openldap_server, connections) -> None:
    with pytest.raises(ValueError, match="1 to 32"):
        connect(openldap_server, connections=connections)


def test_arguments_are_those_of_connect() -> None:
    from inspect import signature

    from mqdssm.directory.log_in import LogInArguments

    options = set(aio.ConnectArguments.__annotations__) | set(LogInArguments.__annotations__)
    own = set(signature(mqdssm.connect).parameters) - {"url_or_urls", "login"}
    assert options == own | set(LogInArguments.__annotations__)


def test_more_searches_than_connections(openldap_server, queues) -> None:
    """Those that wait for their turn hold no thread: the next pages of the others need the threads."""

    async def work(directory: aio.AsyncDirectory) -> None:
        async def count() -> int:
            return len([found async for found in directory.search(mqdssm.Queue, attributes=["Label"])])

        assert set(await asyncio.gather(*(count() for _ in range(80)))) == {QUEUES}
        assert directory.directory.session.references == 0

    run(openldap_server, work, connections=4, page_size=10)


def test_searches_that_are_never_read_to_their_end(openldap_server, queues, monkeypatch) -> None:
    monkeypatch.setattr(aio, "SEARCHES_MAX", 2)

    async def work(directory: aio.AsyncDirectory) -> None:
        begun = [directory.search(mqdssm.Queue) for _ in range(3)]
        for search in begun[:2]:
            await anext(search)
        with pytest.raises(mqdssm.DirectoryNotConnected, match="2 searches are in progress, and none ended"):
            await anext(begun[2])
        await begun[0].aclose()
        assert len([found async for found in directory.search(mqdssm.Queue)]) == QUEUES
        await begun[1].aclose()

    run(openldap_server, work, page_size=10, operation_timeout_s=0.5)
