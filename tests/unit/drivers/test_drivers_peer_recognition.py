"""A neighbour that moves to another address: attempts and look-ups in simulated time (decision T141)."""

import asyncio
import math
from concurrent.futures import Executor, Future
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock
from uuid import UUID

import pytest
from support.session.jumping_loop import JumpingLoop

from mqdssm.drivers.tcp.outbox import Outbox
from mqdssm.drivers.tcp.peer_recognition import LOOK_UP_S
from mqdssm.drivers.tcp.session_connection import PendingBytes
from mqdssm.drivers.tcp.session_driver import CONNECT_S, NeighborSession, SessionContext
from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.session.settings import RETRY_CONNECT_S, RETRY_JITTER, SessionSettings
from mqdssm.engines.session.timers import SessionState
from mqdssm.errors import TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import Message

OLD, NEW, STRANGER = "10.0.0.1", "10.0.0.2", "10.9.9.9"
OURS, THEIRS = (Guid.of(UUID(int=number)) for number in (1, 2))


class InlineExecutor(Executor):
    """Executor that does the work at once."""

    def submit(self, function, /, *arguments, **_keywords):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except TransportError as error:
            future.set_exception(error)
        return future


class World:
    """A neighbour that never answers, the names that DNS has, and the peers that have opened sessions.

    Attributes:
        dns: IP addresses of the neighbour.
        peers: IP addresses of peers whose sessions are open.
        attempts: times and addresses.
        lookups: times.
    """

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.dns, self.peers = {OLD}, set()
        self.attempts, self.lookups = [], []
        self.loop.create_connection = self._connect
        context = SessionContext(
            queue_manager=Mock(),
            resolver=SimpleNamespace(resolve=self._resolve, forget=lambda _address: None),
            executor=InlineExecutor(),
            stranger_executor=InlineExecutor(),
            settings=SessionSettings(identifier=OURS),
            pending=PendingBytes(1000),
            counts=EventCounts(),
            clock=lambda: 0.0,
        )
        outbox = Outbox("right")
        outbox.hand_over(SimpleNamespace(message=Message()))
        outbox.wanted_at = math.inf  # the message does not expire
        self.neighbor = NeighborSession(context, outbox, lambda: frozenset(self.peers))
        self.neighbor.pump()

    def _resolve(self, _address):
        self.lookups.append(self.loop.time())
        if not self.dns:
            raise TransportError("DNS has no address")
        return tuple(SocketAddress(host, 1801) for host in self.dns)

    async def _connect(self, _factory, host, _port):
        self.attempts.append((self.loop.time(), host))
        await asyncio.sleep(math.inf if host == OLD else 0)
        raise ConnectionRefusedError

    def hear(self, host, identifier=THEIRS):
        self.peers.add(host)
        self.neighbor.expect_neighbor(host, identifier)

    async def wait_for(self, state):
        while self.neighbor.session.state is not state:  # noqa: ASYNC110  simulated time
            await asyncio.sleep(0.01)


def simulated(story):
    """Run a story in simulated time."""

    async def run():
        world = World()
        await story(world)
        world.neighbor.stop()
        return world

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(run())


@pytest.mark.spec("MS-MQQB 3.1.2.3")
@pytest.mark.parametrize("is_nameless", [False, True])
def test_a_neighbour_at_a_new_address_is_connected_five_seconds_after_the_last_attempt(is_nameless):
    """While it is away, attempts fail, or DNS has no address of it."""

    async def story(world):
        await asyncio.sleep(10.0)
        world.dns = set() if is_nameless else {OLD}
        await asyncio.sleep(600.0)
        await world.wait_for(SessionState.WAITING_RECONNECT)
        await asyncio.sleep(10.0)
        world.dns, before = {NEW}, world.loop.time()
        world.attempts.clear()
        world.hear(NEW)
        await asyncio.sleep(3 * RETRY_CONNECT_S)
        (first, _), (second, _) = world.attempts[:2]
        assert {host for _, host in world.attempts} == {NEW}
        # an attempt or a look-up may just have been made
        assert before <= first <= before + RETRY_CONNECT_S * (1 + RETRY_JITTER)
        assert RETRY_CONNECT_S <= second - first <= RETRY_CONNECT_S * (1 + RETRY_JITTER)

    simulated(story)


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_an_attempt_at_the_old_address_is_given_up():
    async def story(world):
        await asyncio.sleep(1.0)
        world.dns = {NEW}
        world.hear(NEW)
        await asyncio.sleep(5.0)

    world = simulated(story)
    assert world.attempts == [(1000.0, OLD), (pytest.approx(1000.0 + RETRY_CONNECT_S), NEW)]


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_strangers_cause_no_attempts_and_few_look_ups():
    """They claim to be the neighbour; one has even its identifier."""

    async def story(world):
        await asyncio.sleep(300.0)
        await world.wait_for(SessionState.WAITING_RECONNECT)
        world.attempts.clear()
        world.lookups.clear()
        for second in range(600):
            world.hear(STRANGER, Guid.of(UUID(int=second)))
            await asyncio.sleep(1.0)

    world = simulated(story)
    assert {host for _time, host in world.attempts} == {OLD}
    assert len(world.attempts) <= 600 / (60.0 + CONNECT_S) + 1
    assert len(world.lookups) - len(world.attempts) <= 600 / LOOK_UP_S + 1
    times = [time for time, _host in world.attempts]
    assert min(second - first for first, second in pairwise(times)) > 60.0


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_the_neighbour_among_strangers_is_recognised_with_the_next_look_up():
    async def story(world):
        await asyncio.sleep(300.0)
        await world.wait_for(SessionState.WAITING_RECONNECT)
        await asyncio.sleep(6.0)
        world.dns, world.attempts[:] = {NEW}, []
        world.hear(STRANGER)
        await asyncio.sleep(0.5)
        assert not world.attempts
        world.hear(NEW)
        await asyncio.sleep(LOOK_UP_S)
        assert [host for _time, host in world.attempts] == [NEW]

    simulated(story)
