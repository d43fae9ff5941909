"""Pipelined changes whose results go to the caller.

Nothing is compared or sent twice.

The loader's own order holds: a parent before its children, one change of an object after the other. When
the connection is lost, the outcome of unanswered changes is unknown: repeat them.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.filters import LdapFilter
from mqdssm.directory.loading.items import WINDOW, Item
from mqdssm.directory.loading.tasks import RESULT_TAGS, ChangeTask, Order, TaskQueue
from mqdssm.directory.requests import make_assertion_control
from mqdssm.directory.responses import LdapResult
from mqdssm.errors import DecodeError, DirectoryNotConnected

if TYPE_CHECKING:
    from mqdssm.directory.pool import Pool
    from mqdssm.directory.session import Session

AT_ONCE: Final = 32
"""Changes taken from the caller before sending: it may take some time to make one."""
QUEUED_MAX: Final = 4 * WINDOW
"""Maximum changes queued ahead of sending: many may have to wait for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInFlight:
    """Change with an optional assertion.

    Attributes:
        item: the change; its `before` does not count.
        condition: what the entry must match ([RFC4528]), else the result is 122; None: nothing.
    """

    item: Item
    condition: LdapFilter | None = None


class ChannelSender:
    """Sends changes over one channel of a pool."""

    def __init__(self, session: "Session", pool: "Pool") -> None:
        self._session = session
        self._pool = pool
        self._limit_s = session.options.operation_timeout_s

    def send(self, requests: Iterable[ChangeInFlight]) -> Iterator[tuple[ChangeInFlight, LdapResult]]:
        """Send changes, and yield each with its result.

        The results come as the server answers, in any order.

        Raises:
            DirectoryNotConnected: no server can be reached, or the connection was lost: what was not yielded
                may have been done, or not.
            ValueError: a change that cannot be encoded; others may have been sent.
        """
        pending = iter(requests)
        with self._pool.lease(time.monotonic() + self._limit_s) as channel:
            conversation = _Conversation(self._session, channel, self._limit_s)
            try:
                for request, result in conversation.run(pending):
                    if result.code == 0:
                        self._pool.note_change_on(channel.url)
                    yield request, result
            except ConnectionBroken as broken:
                if broken.timed_out:
                    self._pool.suspect(channel.url)
                raise DirectoryNotConnected(
                    f"changes were under way when the connection to {channel.url} was lost: {broken.words}",
                    hint="repeat them: those that were not answered may have been made",
                ) from broken
            finally:
                channel.broken = channel.broken or conversation.is_waiting


class _Conversation:
    """Queued and unanswered changes of one channel."""

    def __init__(self, session: "Session", channel: Channel, limit_s: float) -> None:
        self._profile = session.profile
        self._channel = channel
        self._limit_s = limit_s
        self._queue = TaskQueue()
        self._requests: dict[Order, ChangeInFlight] = {}  # by the order of their tasks
        self._under_way: dict[int, ChangeTask] = {}
        self._tags: dict[int, int] = {}

    @property
    def is_waiting(self) -> bool:
        """True if answers are outstanding."""
        return bool(self._under_way)

    def run(self, pending: Iterator[ChangeInFlight]) -> Iterator[tuple[ChangeInFlight, LdapResult]]:
        """Send and receive until all are answered.

        The caller makes the next changes while the server works on earlier ones.
        """
        while True:
            has_taken = self._take(pending)
            self._fill()
            if has_taken and len(self._under_way) < WINDOW:
                continue
            if not self._under_way:
                return
            for number, result in self._channel.answers(self._tags, time.monotonic() + self._limit_s):
                del self._tags[number]
                task = self._under_way.pop(number)
                self._queue.done(task)
                yield self._requests.pop(task.order), result

    def _take(self, pending: Iterator[ChangeInFlight]) -> bool:
        """Take some more changes from the caller; False if there is no room or no change."""
        some = list(islice(pending, max(0, min(AT_ONCE, QUEUED_MAX - len(self._queue)))))
        for request in some:
            task = ChangeTask.of(request.item)
            self._queue.put(task)
            self._requests[task.order] = request
        return bool(some)

    def _fill(self) -> None:
        """Send as many changes as fit into the window, with one call."""
        if len(self._under_way) > WINDOW - WINDOW // 4:
            return
        packets: list[bytes] = []
        while len(self._under_way) < WINDOW:
            task = self._queue.take()
            if task is None:
                break
            packets.append(self._encode_task(task))
        if packets:
            self._channel.send(b"".join(packets), time.monotonic() + self._limit_s)

    def _encode_task(self, task: ChangeTask) -> bytes:
        condition = self._requests[task.order].condition
        controls = () if condition is None else (make_assertion_control(condition),)
        number = self._channel.choose_id()
        try:
            packet = task.encode(number, self._profile, controls)
        except DecodeError as error:
            raise ValueError(f"{task.item.dn}: {error}") from error
        self._under_way[number] = task
        self._tags[number] = RESULT_TAGS[task.action]
        return packet


BURST_S: Final = 0.1
"""Seconds for which unused capacity is kept: a server that paused is not flooded afterwards."""


class RateLimiter:
    """Rate limiter for changes.

    Args:
        rate: how many; None: all.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = time.monotonic()

    def take(self) -> bool:
        """Return True and count a change if one may be sent now."""
        if self._rate is None:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = max(self._next, now - BURST_S) + 1 / self._rate
        return True

    def wait(self) -> None:
        """Sleep until the next change may be sent."""
        remaining_s = self._next - time.monotonic()
        if self._rate is not None and remaining_s > 0:
            time.sleep(remaining_s)
