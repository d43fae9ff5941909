"""Loader that sends changes before earlier ones are answered.

A load stays on its first server, since another one may not have the new objects yet. After a lost connection
unanswered changes are sent again. An add that finds an equal object counts as made; repeating a modify or a
delete has no further effect.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.loading.existing_entries import AT_ONCE
from mqdssm.directory.loading.items import Action, Item, LoadOptions, Outcome
from mqdssm.directory.loading.result_handling import ResultHandler, make_refused_outcome
from mqdssm.directory.loading.sending import ChangeInFlight, ChannelSender, RateLimiter
from mqdssm.directory.loading.tasks import RESULT_TAGS, ChangeTask, TaskQueue
from mqdssm.directory.loading.transactions import Transactions
from mqdssm.directory.pool import Pool
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.server_info import ServerInfo
from mqdssm.directory.write_operations import WriteOperations
from mqdssm.errors import DecodeError, DirectoryError, DirectoryNotConnected

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

T = TypeVar("T")

BUSY_PAUSE_S: Final = 0.5
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
LOSSES_MAX: Final = 20
"""Number of connections lost in a row, without an answer in between, after which a load gives up."""
_DONE: Final = LdapResult(0)


class Loader:
    """Loader of changes; made by a session."""

    def __init__(
        self, session: "Session", pool: Pool, writing: WriteOperations, knowledge: ServerInfo
    ) -> None:
        """Initialize a loader that uses the channels of `pool`."""
        self._session = session
        self._pool = pool
        self._writing = writing
        self._knowledge = knowledge

    def load(
        self,
        items: Iterable[Item],
        options: LoadOptions | None = None,
        *,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Outcome]:
        """Make changes and yield their outcomes.

        A second call is harmless: equal entries are not written again.

        Args:
            items: the changes; they are taken as they are sent. Parents come before their children.
            options: how.
            is_enough: asked again and again; once it is true nothing more is begun. What was sent is finished
                and has its outcome, what was not has none.

        Yields:
            What became of each item, in any order. Others may be under way when one is yielded: an iterator
            that is closed early leaves these without an outcome.

        Raises:
            GenericDirectoryError: the session is read-only.
            DirectoryNotConnected: the server is gone and does not come back: what had no outcome is to be
                loaded again.
            DirectoryError: a look-up failed.
        """
        self._writing.refuse_if_read_only("load", "")
        self._session.refuse_if_replicated("load")
        queue, chosen = TaskQueue(), options or LoadOptions()
        judge = ResultHandler(self._session, chosen, queue, self._knowledge.error_of)
        yield from _Load(self._session, self._pool, chosen, queue, judge, is_enough=is_enough).run(
            iter(items)
        )

    def send(self, requests: Iterable[ChangeInFlight]) -> Iterator[tuple[ChangeInFlight, LdapResult]]:
        """Make changes and yield the server's results; nothing is compared or sent twice.

        Yields:
            Each change with its result, as the server answers, in any order.

        Raises:
            GenericDirectoryError: the session is read-only.
            DirectoryNotConnected: the connection was lost: what was not yielded may have been made, or not.
            ValueError: a change that cannot be sent.
        """
        self._writing.refuse_if_read_only("change", "")
        self._session.refuse_if_replicated("change")
        yield from ChannelSender(self._session, self._pool).send(requests)

    def error_of(self, result: LdapResult, operation: str, dn: str | None) -> DirectoryError:
        """Return the error for a result of `send` other than success."""
        return self._knowledge.error_of(result, operation, dn)


class _Load:
    """State of one load."""

    def __init__(
        self,
        session: "Session",
        pool: Pool,
        options: LoadOptions,
        queue: TaskQueue,
        judge: ResultHandler,
        *,
        is_enough: Callable[[], bool],
    ) -> None:
        self._session = session
        self._pool = pool
        self._options = options
        self._queue = queue
        self._judge = judge
        self._is_enough = is_enough
        self._is_ending = False
        self._pace = RateLimiter(options.max_rate)
        self._transactions = Transactions(session, options.transactions, options.window)
        self._limit_s = session.options.operation_timeout_s
        self._items: Iterator[Item] | None = None
        self._under_way: dict[int, ChangeTask] = {}
        self._tags: dict[int, int] = {}
        self._url: str | None = None
        self._losses = 0

    def run(self, items: Iterator[Item]) -> Iterator[Outcome]:
        """Load all items, reconnecting if necessary."""
        self._items = items
        while True:
            with ExitStack() as stack:
                channel = self._enter(stack)
                self._url = channel.url
                try:
                    yield from self._exchange_messages(channel)
                except ConnectionBroken as broken:
                    self._enqueue_unanswered(broken)
                else:
                    return
                finally:
                    channel.broken = channel.broken or bool(self._under_way)

    def _enter(self, stack: ExitStack) -> Channel:
        """Return a channel to the server on which the load began."""
        limit = time.monotonic() + self._options.reconnect_s
        if self._url is None:
            return stack.enter_context(self._pool.lease(limit))
        return self._call_patiently(lambda: stack.enter_context(self._pool.lease(limit, only=self._url)))

    def _call_patiently(self, ask: Callable[[], T]) -> T:
        """Call a function, waiting for a server that is not reachable."""
        end = time.monotonic() + self._options.reconnect_s
        pause = FIRST_PAUSE_S
        while True:
            try:
                return ask()
            except DirectoryNotConnected as error:
                if error.ldap_code is not None or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _enqueue_unanswered(self, broken: ConnectionBroken) -> None:
        """Queue unanswered changes again after a lost connection."""
        self._losses += 1
        if broken.garbled or self._losses > LOSSES_MAX:
            raise DirectoryNotConnected(
                f"the load stopped: {self._url}: {broken.words}",
                hint="what was answered is done; load the rest again",
            ) from broken
        tasks = list(self._under_way.values())
        self._forget()
        for task in tasks:
            self._queue.done(task)
            task.suspect = task.alone = True
        self._queue.put_first(tasks)

    def _forget(self) -> None:
        self._under_way.clear()
        self._tags.clear()

    def _exchange_messages(self, channel: Channel) -> Iterator[Outcome]:
        """Send and receive until every item has its outcome."""
        while True:
            yield from self._take_items()
            self._end_early()
            if self._transactions.size and not self._under_way:
                yield from self._group(channel)
            else:
                yield from self._fill(channel)
            if self._under_way:
                yield from self._handle_answers(channel)
            elif self._queue.is_ready:
                self._pace.wait()
            elif self._judge.curious:  # waiting tasks may depend on these look-ups
                yield from self._call_patiently(self._judge.look)
            elif self._items is None and not len(self._queue):
                return
            if self._judge.full:
                yield from self._call_patiently(self._judge.look)
            if self._judge.tired:
                self._judge.tired = False
                time.sleep(BUSY_PAUSE_S)

    def _take_items(self) -> Iterator[Outcome]:
        """Fill the queue with as many items as one step can send."""
        items_max = max(self._options.window, self._transactions.size)
        at_once = min(AT_ONCE, items_max)
        while self._items is not None and len(self._queue) < items_max and not self._is_enough():
            some = list(islice(self._items, at_once))
            if not some:
                self._items = None
                return
            yield from self._call_patiently(partial(self._judge.prepare, some))

    def _end_early(self) -> None:
        """Stop beginning changes if `is_enough` returns True."""
        if not self._is_ending and self._is_enough():
            self._is_ending = True
            self._items = None
            self._queue.withdraw()

    def _handle_answers(self, channel: Channel) -> Iterator[Outcome]:
        for number, result in channel.answers(self._tags, time.monotonic() + self._limit_s):
            del self._tags[number]
            if result.code == 0:
                self._pool.note_change_on(channel.url)
            outcome = self._judge.answer(self._under_way.pop(number), result)
            self._losses = 0
            if outcome is not None:
                yield outcome

    def _fill(self, channel: Channel) -> Iterator[Outcome]:
        """Send as many changes as fit into the window, with one call."""
        window = self._options.window
        if len(self._under_way) > window - window // 4:
            return
        tasks: list[ChangeTask] = []
        while len(self._under_way) + len(tasks) < window and len(self._queue) and self._pace.take():
            task = self._queue.take()
            if task is None:
                break
            tasks.append(task)
        yield from self._send(channel, tasks)

    def _send(self, channel: Channel, tasks: Sequence[ChangeTask]) -> Iterator[Outcome]:
        requests = []
        for task in tasks:
            number = channel.choose_id()
            try:
                requests.append(task.encode(number, self._session.profile))
            except (ValueError, DecodeError) as error:
                self._queue.done(task)
                yield make_refused_outcome(task.item, str(error))
                continue
            task.attempts += 1
            self._under_way[number] = task
            self._tags[number] = RESULT_TAGS[task.action]
        if requests:
            channel.send(b"".join(requests), time.monotonic() + self._limit_s)

    # -- transactions

    def _group(self, channel: Channel) -> Iterator[Outcome]:
        """Add a group in one transaction.

        Other changes are sent one by one, and those that the transaction refused.
        """
        group: dict[int, ChangeTask] = {}
        other_tasks: list[ChangeTask] = []
        while len(group) < self._transactions.size and len(other_tasks) < self._options.window:
            if not len(self._queue) or not self._pace.take():
                break
            task = self._queue.take()
            if task is None:
                break
            if task.action is Action.ADD and not task.alone:
                group[channel.choose_id()] = task
            else:
                other_tasks.append(task)
        if len(group) < 2:
            other_tasks += group.values()
        else:
            yield from self._commit_group(channel, group)
        yield from self._send(channel, other_tasks)

    def _commit_group(self, channel: Channel, group: dict[int, ChangeTask]) -> Iterator[Outcome]:
        self._under_way.update(group)
        try:
            odd = self._transactions.commit(channel, group, self._limit_s)
        except (ValueError, DecodeError):  # one of them cannot be encoded: sent alone it will be refused
            odd = None
        self._forget()
        self._losses = 0
        for number, task in group.items():
            if odd is not None and number not in odd:
                task.attempts += 1
                outcome = self._judge.answer(task, _DONE)
                if outcome is not None:
                    yield outcome
            else:
                self._queue.done(task)
                task.alone = True
                self._queue.put(task)
