"""The events of a directory for asyncio (decision M120).

The events run in a few threads, and each thread uses one connection at a time. So one implementation serves
both interfaces: guards, fail-over and reading back are the same. A cancelled call does not interrupt its
thread, which receives the answer, and returns the connection without an unread answer.
"""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar, Unpack
from uuid import UUID

from mqdssm.directory.log_in import LogInArguments
from mqdssm.directory.pool import CHANNELS_MAX
from mqdssm.directory.secret import Secret
from mqdssm.errors import DirectoryNotConnected
from mqdssm.events.bulk_changes import CONNECTIONS, ElementOutcome, check_connections
from mqdssm.events.facade import Directory, Filters
from mqdssm.events.facade import connect as connect_directory
from mqdssm.events.pages import SearchPage
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import QueueManager, User
from mqdssm.model.filters import SortKey
from mqdssm.model.notice import Notify

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

E = TypeVar("E", bound=DirectoryObject)
T = TypeVar("T")

AHEAD_MAX: Final = 256
"""Maximum number of objects that a thread reads from a search ahead of the caller."""
SEARCHES_MAX: Final = CHANNELS_MAX // 2
"""Maximum number of searches in progress: each keeps a connection, and the other half is for the threads."""


class ConnectArguments(LogInArguments, total=False):
    """Keyword arguments of `connect`, those of `mqdssm.connect`."""

    password: str | Secret | None
    connect_timeout_s: float
    operation_timeout_s: float
    page_size: int
    read_only: bool
    forest: bool
    catalog: str | Iterable[str] | None
    create_server_objects: bool
    check_msmq: bool
    notify: Notify | None


class AsyncDirectory:
    """Directory of MSMQ objects for asyncio; made by `connect`.

    Each method is the one of `mqdssm.Directory` with that name: arguments, results and errors are the same,
    but changes of many elements use 4 connections of their own, and have no `on_progress`.
    Any number of tasks may call it: calls beyond the number of connections wait for their turn.

    A call that is cancelled before its turn does nothing. One that is cancelled later ends on the server: the
    outcome of a cancelled change is unknown, so read the object. Its connection serves other calls after the
    answer or the time-out of the operation.
    """

    def __init__(self, directory: Directory, *, connections: int = CONNECTIONS) -> None:
        """Use a directory, which is closed with this object.

        Args:
            directory: it.
            connections: calls at a time, 1 to 32, each with a connection. A search in progress has one more.

        Raises:
            ValueError: a number of connections that is not allowed.
        """
        check_connections(connections)
        self._directory = directory
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="mqdssm-aio")
        self._closed = False
        self._turns = asyncio.Semaphore(SEARCHES_MAX)
        self._searches_ended = 0

    @property
    def directory(self) -> Directory:
        """The directory whose methods run in the threads."""
        return self._directory

    async def run(self, work: Callable[[Directory], T]) -> T:
        """Call a function with the directory in one of the threads.

        Args:
            work: makes as many calls as it likes, on one connection at a time.

        Raises:
            DirectoryNotConnected: this directory is closed.
        """
        return await asyncio.wrap_future(self._begin(partial(work, self._directory)))

    def _begin(self, work: Callable[[], T]) -> "Future[T]":
        if self._closed:
            raise DirectoryNotConnected("this directory is closed", hint="connect again")
        return self._threads.submit(contextvars.copy_context().run, work)

    async def create(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> UUID:
        """Create an object ([MS-MQDSSM] 3.1.6.1)."""
        return await self.run(lambda directory: directory.create(obj, attributes=attributes))

    async def delete(self, obj: DirectoryObject, recursive: bool = False) -> None:
        """Delete an object ([MS-MQDSSM] 3.1.6.2)."""
        await self.run(lambda directory: directory.delete(obj, recursive))

    async def read(self, kind: type[E], filters: Filters[E], *, attributes: Sequence[str] | None = None) -> E:
        """Read the first object that satisfies all filters ([MS-MQDSSM] 3.1.6.3)."""
        return await self.run(lambda directory: directory.read(kind, filters, attributes=attributes))

    async def write(
        self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None, if_unchanged: bool = False
    ) -> None:
        """Write attributes of an object ([MS-MQDSSM] 3.1.6.7)."""
        await self.run(
            lambda directory: directory.write(obj, attributes=attributes, if_unchanged=if_unchanged)
        )

    async def upsert(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> bool:
        """Write an object, or create it if it does not exist."""
        return await self.run(lambda directory: directory.upsert(obj, attributes=attributes))

    async def add_certificate(self, owner: User | QueueManager, certificate: "Certificate | bytes") -> UUID:
        """Register one signing certificate."""
        return await self.run(lambda directory: directory.add_certificate(owner, certificate))

    async def remove_certificate(
        self, owner: User | QueueManager, certificate: "Certificate | bytes | UUID"
    ) -> None:
        """Remove one signing certificate."""
        await self.run(lambda directory: directory.remove_certificate(owner, certificate))

    async def resolve_queue_alias(self, full_path: str) -> str:
        """Return the format name of a queue alias ([MS-MQDSSM] 3.1.6.8)."""
        return await self.run(lambda directory: directory.resolve_queue_alias(full_path))

    async def resolve_distribution_list(self, format_name: str) -> list[str]:
        """Return the format names of a distribution list's queues ([MS-MQDSSM] 3.1.6.9)."""
        return await self.run(lambda directory: directory.resolve_distribution_list(format_name))

    async def search(
        self,
        kind: type[E],
        filters: Filters[E] = (),
        *,
        attributes: Sequence[str] | None = None,
        sort: SortKey | Iterable[SortKey] = (),
        below: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[E, None]:
        """Yield the objects that satisfy all filters ([MS-MQDSSM] 3.1.6.4-3.1.6.6).

        At most 256 objects are read ahead. Close the generator to stop early, as with
        `contextlib.aclosing`.
        """
        objects = await self.run(
            lambda directory: directory.search(
                kind, filters, attributes=attributes, sort=sort, below=below, limit=limit
            )
        )
        await self._wait_for_turn()
        try:
            async with aclosing(self._iterate_items(objects, AHEAD_MAX)) as stream:
                async for obj in stream:
                    yield obj
        finally:
            self._searches_ended += 1
            self._turns.release()

    async def _wait_for_turn(self) -> None:
        """Wait until fewer than `SEARCHES_MAX` searches are in progress.

        A thread must not wait for this: the searches in progress need the threads.

        Raises:
            DirectoryNotConnected: no search ended for as long as an operation may take.
        """
        limit_s = self._directory.session.options.operation_timeout_s
        while True:
            ended = self._searches_ended
            try:
                async with asyncio.timeout(limit_s):
                    await self._turns.acquire()
            except TimeoutError:
                if ended == self._searches_ended:
                    raise DirectoryNotConnected(
                        f"{SEARCHES_MAX} searches are in progress, and none ended in {limit_s:g} s",
                        hint="close searches that are not read to their end",
                    ) from None
            else:
                return

    async def search_page(
        self,
        kind: type[E],
        filters: Filters[E] = (),
        *,
        limit: int,
        token: str | None = None,
        attributes: Sequence[str] | None = None,
        below: str | None = None,
    ) -> SearchPage[E]:
        """Return a page of the objects that satisfy all filters (decision M112)."""
        return await self.run(
            lambda directory: directory.search_page(
                kind, filters, limit=limit, token=token, attributes=attributes, below=below
            )
        )

    async def count(self, kind: type[E], filters: Filters[E] = (), *, below: str | None = None) -> int:
        """Return the number of objects that satisfy all filters."""
        return await self.run(lambda directory: directory.count(kind, filters, below=below))

    def create_many(
        self, elements: Iterable[E], *, attributes: Sequence[str] | None = None, stop_on_error: bool = False
    ) -> AsyncGenerator[ElementOutcome[E], None]:
        """Create many objects, and yield their outcomes."""
        changes = self._directory.create_many(elements, attributes=attributes, stop_on_error=stop_on_error)
        return self._iterate_items(changes, 1)

    def write_many(
        self,
        elements: Iterable[E],
        *,
        attributes: Sequence[str] | None = None,
        if_unchanged: bool = False,
        stop_on_error: bool = False,
    ) -> AsyncGenerator[ElementOutcome[E], None]:
        """Write many objects, and yield their outcomes."""
        changes = self._directory.write_many(
            elements, attributes=attributes, if_unchanged=if_unchanged, stop_on_error=stop_on_error
        )
        return self._iterate_items(changes, 1)

    def upsert_many(
        self, elements: Iterable[E], *, attributes: Sequence[str] | None = None, stop_on_error: bool = False
    ) -> AsyncGenerator[ElementOutcome[E], None]:
        """Write or create many objects, and yield their outcomes."""
        changes = self._directory.upsert_many(elements, attributes=attributes, stop_on_error=stop_on_error)
        return self._iterate_items(changes, 1)

    def delete_many(
        self, elements: Iterable[E], *, recursive: bool = False, stop_on_error: bool = False
    ) -> AsyncGenerator[ElementOutcome[E], None]:
        """Delete many objects, and yield their outcomes."""
        changes = self._directory.delete_many(elements, recursive=recursive, stop_on_error=stop_on_error)
        return self._iterate_items(changes, 1)

    async def _iterate_items(self, items: Generator[T, None, None], ahead: int) -> AsyncGenerator[T, None]:
        """Yield the items of a generator that runs in the threads, in batches."""
        step: Future[list[T]] | None = None
        size = 1
        try:
            while True:
                step = self._begin(partial(_take, items, size))
                batch = await asyncio.wrap_future(step)
                for item in batch:
                    yield item
                if len(batch) < size:
                    return
                size = min(2 * size, ahead)
        finally:
            if step is not None:  # a cancelled step may still run: a generator cannot be closed meanwhile
                step.add_done_callback(lambda _: self._close_generator(items))

    def _close_generator(self, items: Generator[object, None, None]) -> None:
        """Close a generator in a thread: it may wait for changes that were sent."""
        try:
            self._threads.submit(items.close)
        except RuntimeError:  # this directory was closed meanwhile
            items.close()

    async def close(self) -> None:
        """Close all connections after the running calls.

        Calls that wait for their turn raise DirectoryNotConnected.
        """
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._directory.close()
        self._threads.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _take(items: Generator[T, None, None], count: int) -> list[T]:
    return list(islice(items, count))


class Connecting:
    """Connection that is made by ``await`` or ``async with``."""

    def __init__(self, connect: Callable[[], Directory], connections: int) -> None:
        """Prepare a connection.

        Args:
            connect: makes the directory, in a thread.
            connections: as for `AsyncDirectory`.
        """
        self._connect = connect
        self._connections = connections
        self._directory: AsyncDirectory | None = None

    def __await__(self) -> Generator[object, None, AsyncDirectory]:
        return self._open().__await__()

    async def _open(self) -> AsyncDirectory:
        connecting = asyncio.get_running_loop().run_in_executor(None, self._connect)
        try:
            directory = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_abandoned)
            raise
        return AsyncDirectory(directory, connections=self._connections)

    async def __aenter__(self) -> AsyncDirectory:
        self._directory = await self._open()
        return self._directory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._directory is not None:
            await self._directory.close()


def _close_abandoned(connecting: "asyncio.Future[Directory]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def connect(
    url_or_urls: str | Iterable[str], *, connections: int = CONNECTIONS, **options: Unpack[ConnectArguments]
) -> Connecting:
    """Connect to a directory, for asyncio.

    Use the result in ``async with``, or ``await`` it and close the directory later.

    Args:
        url_or_urls: as for `mqdssm.connect`.
        connections: calls at a time, 1 to 32, each with a connection. A search in progress has one more.
        options: those of `mqdssm.connect`.

    Raises:
        ValueError: a number of connections that is not allowed.
        DirectoryError: when it is awaited, as `mqdssm.connect`.
        ConfigError: when it is awaited: settings that cannot be.
    """
    check_connections(connections)
    return Connecting(partial(connect_directory, url_or_urls, **options), connections)
