"""A directory server as a process among hostile peers: it serves the others, in bounded memory."""

import logging
import random
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from support.servers.enterprise import FIVE, EnterpriseProcesses, Member, on_loopback, wait_for
from support.servers.processes import stop
from support.servers.proxy import Proxy
from support.session.hostile_peers import (
    ESTABLISH,
    PARAMETERS,
    PacketMaker,
    claims,
    closed,
    connect,
    crawling,
    half_open,
    open_session,
    send_packets,
    sources,
)
from support.session.raw_client import user_packet

from mqdssm.drivers.measurements import MessageOutcome
from mqdssm.model.elements import Queue
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server.config import ServerConfig
from mqdssm.server.control_client import ControlClient

log: Final = logging.getLogger(__name__)
SETTINGS: Final = """
[timers]
intrasite_s = 0.2
intersite_s = 0.2
sync_wait_s = 2
initialization_s = 3
retry_connect_s = 1
retry_connect_max_s = 2

[notification]
receive = true
"""
MEBI: Final = 1 << 20
MEMORY_MAX: Final = 300 * MEBI
"""How much more memory than at the start the server may use at any time."""
REPLICATION: Final = r"OS:PEC01\private$\mqis_queue$"
THREADS: Final = 4
"""Connections over which packets are sent at the same time."""
GOOD_SENDER_S: Final = 30.0
"""Longest time of a change of a good sender among hostile packets."""
QUEUES: Final = ("mqis_queue$", "notify_queue$", "order_queue$", "nothing")


def memory(member: Member, field: str = "VmRSS") -> int:
    """Octets of a server's memory: now, or the most (VmHWM)."""
    assert member.process is not None
    text = Path(f"/proc/{member.process.pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


class World:
    """A PEC, which is attacked, and a PSC whose messages to the PEC are recorded."""

    def __init__(self, servers: EnterpriseProcesses, proxy: Proxy) -> None:
        self.servers, self.proxy = servers, proxy
        self.pec, self.psc = servers.members.values()
        listen = ServerConfig.read(self.pec.config).transport.listen
        host, _, port = listen.rpartition(":")
        self.address = SocketAddress(host, int(port))
        self.memory_before = memory(self.pec)
        self._made = 0

    def replicate(self, within_s: float = 30) -> float:
        """Create a queue of the PEC through the PSC, and wait until it has come back; the seconds."""
        self._made += 1
        begin, before = time.monotonic(), self.numbers(self.psc)
        with ControlClient(self.psc.socket) as client:
            client.create(Queue(pathname=rf"PEC01\good{self._made}"))
        wait_for("the queue has come", within_s, lambda: self.numbers(self.psc) > before)
        return time.monotonic() - begin

    def numbers(self, member: Member) -> int:
        """Sum of the last numbers of all partitions."""
        return sum(partition.last_number for partition in member.status().partitions)

    def received(self) -> Counter[str]:
        """Replication messages that the PEC has taken for genuine, by type."""
        return Counter(
            {
                count.message_type: count.count
                for count in self.pec.status().messages
                if count.outcome is MessageOutcome.RECEIVED
            }
        )

    def events(self) -> Counter[str]:
        """What transport and queue manager of the PEC have counted."""
        return Counter({event.event: event.count for event in self.pec.status().events})

    def settled(self) -> tuple[Counter[str], int]:
        """Return what the PEC has received, and its numbers, once nothing more comes."""
        seen = (self.received(), self.numbers(self.pec))
        while (time.sleep(1), now := (self.received(), self.numbers(self.pec)))[1] != seen:
            seen = now
        return seen

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Stop the PSC during a block: nobody else sends genuine messages."""
        assert self.psc.process is not None
        stop(self.psc.process.pid)
        try:
            yield
        finally:
            self.psc.process.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """The server works, has no defect, and used a bounded amount of memory."""
        assert self.pec.status().is_healthy
        assert not self.events()["defect"]
        assert memory(self.pec, "VmHWM") < self.memory_before + MEMORY_MAX
        self.replicate()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        servers = stack.enter_context(on_loopback(tmp_path, FIVE[:2], settings=SETTINGS))
        listen = ServerConfig.read(servers.pec.config).transport.listen
        proxy = stack.enter_context(Proxy("127.0.0.1", int(listen.rpartition(":")[2])))
        with ControlClient(servers.members["PSC01"].socket) as client:
            client.add_host("PEC01", f"{proxy.host}:{proxy.port}")
        servers.end("PSC01")
        servers.start("PSC01")
        yield World(servers, proxy)


def attack_with_packets(world: World, count: int, seed: int) -> None:
    """Random and mutated packets over several connections: the messages of the PSC arrive meanwhile."""
    with packets_under_way(world, count, seed) as is_over:
        while not is_over():
            world.replicate(GOOD_SENDER_S)


def attack_alone(world: World, count: int, seed: int) -> None:
    """Random and mutated packets while nobody signs any: the directory server takes none of them."""
    with world.alone():
        before, numbers = world.settled()
        with packets_under_way(world, count, seed):
            pass
        assert world.settled() == (before, numbers)


@contextmanager
def packets_under_way(world: World, count: int, seed: int) -> Iterator[Callable[[], bool]]:
    """Send packets by a few threads during a block, whose end waits for them; yields whether all are sent."""
    makers = [PacketMaker(THREADS * seed + number, QUEUES, "PEC01") for number in range(THREADS)]
    begin, events = time.monotonic(), world.events()
    with ThreadPoolExecutor(THREADS) as pool:
        sent = [pool.submit(send_packets, world.address, maker, count // THREADS) for maker in makers]
        yield lambda: all(future.done() for future in sent)
        total = sum(future.result() for future in sent)
    rate = total / (time.monotonic() - begin)
    log.info("%d packets, %.0f/s: %s", total, rate, world.events() - events)
    assert total >= count


def attack_with_connections(world: World, count: int) -> None:
    """Half-open connections keep nobody out, and are closed."""
    begin = time.monotonic()
    connections = half_open(world.address, count, random.Random(count))
    try:
        assert len(connections) > count // 2
        open_session(world.address).close()  # of a peer that was not there before
        world.replicate()
        assert closed(connections, 30) == len(connections)
    finally:
        for connection in connections:
            connection.close()
    assert time.monotonic() - begin < 60 + count / 20


def attack_slowly(world: World, count: int, seconds: float) -> None:
    """One octet a second, before and after the begin of a session; and messages that claim 4 GiB."""
    chance = random.Random(1)
    with ExitStack() as stack:
        crawlers = [stack.enter_context(connect(world.address, sources(chance))) for _ in range(count)]
        crawlers += [stack.enter_context(open_session(world.address, sources(chance))) for _ in range(count)]
        stack.enter_context(crawling(crawlers, user_packet(1, bytes(4 * MEBI - 1000), REPLICATION)))
        for size in (0xFFFF_FFFF, 0x8000_0000, 5 * MEBI):
            liars = [stack.enter_context(open_session(world.address, sources(chance))) for _ in range(count)]
            for liar in liars:
                with suppress(OSError):
                    liar.sendall(claims(size, REPLICATION) + bytes(64 * 1024))
            assert closed(liars, 30) == count
        time.sleep(seconds)
        world.replicate()


def forge(world: World, count: int) -> None:
    """Unsigned messages, recorded ones, and recorded ones that were changed: none is taken."""
    world.replicate()
    recorded = [bytes(recording.up) for recording in world.proxy.recordings if recording.up]
    assert any(len(data) > len(ESTABLISH + PARAMETERS) for data in recorded)
    with world.alone():
        (before, numbers), events = world.settled(), world.events()
        for number in range(count):
            with open_session(world.address) as stranger:
                stranger.sendall(user_packet(number, random.Random(number).randbytes(50), REPLICATION))
        for _ in range(count):
            replay(world, recorded)
        wait_for("all are refused", 30, lambda: _refused(world, events) >= (count, count * len(recorded)))
        tamper(world, recorded, count)
        assert world.settled() == (before, numbers)


def _refused(world: World, before: Counter[str]) -> tuple[int, int]:
    """Messages that were refused for their signatures, and as known ones."""
    new = world.events() - before
    return new["refused: NACK_BAD_SIGNATURE"], new["dropped: came twice"] + new["distrusted: seen before"]


def tamper(world: World, recorded: list[bytes], count: int) -> None:
    """Send recorded messages of a good sender with one bit changed."""
    chance, begin = random.Random(count), len(ESTABLISH + PARAMETERS)
    whole = [data for data in recorded if len(data) > begin]
    for _ in range(count):
        data = bytearray(chance.choice(whole))
        data[chance.randrange(begin, len(data))] ^= 1 << chance.randrange(8)
        replay(world, [bytes(data)])


def replay(world: World, recorded: list[bytes]) -> None:
    """Send what was recorded once more, each on a connection of its own."""
    for data in recorded:
        with connect(world.address) as replayer, suppress(OSError):
            replayer.sendall(data)
            replayer.shutdown(socket.SHUT_WR)
            closed([replayer], 5)


@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3")
@pytest.mark.timeout(120)
def test_a_server_among_hostile_peers(world):
    attack_with_packets(world, 1_000, 1)
    attack_alone(world, 200, 1)
    attack_with_connections(world, 700)
    attack_slowly(world, 5, 1)
    forge(world, 3)
    world.check()


@pytest.mark.soak
@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3")
@pytest.mark.timeout(7200)
def test_a_server_among_many_hostile_peers(world):
    """A million packets, and the other attacks, in two halves: the second one needs no more memory."""
    highest = []
    for attempt in range(2):
        attack_with_packets(world, 300_000, attempt)
        attack_alone(world, 200_000, 2 + attempt)
        attack_with_connections(world, 5_000)
        attack_slowly(world, 200, 60)
        forge(world, 200)
        world.check()
        highest.append(memory(world.pec, "VmHWM"))
        log.info("memory: %d MiB before, at most %d MiB", world.memory_before // MEBI, highest[-1] // MEBI)
    assert highest[1] < highest[0] + 32 * MEBI


@pytest.mark.soak
@pytest.mark.spec("MS-MQQB 3.1.5.8.3")
@pytest.mark.timeout(600)
def test_recorded_messages_are_known_after_a_kill(world):
    world.replicate()
    recorded = [bytes(recording.up) for recording in world.proxy.recordings if recording.up]
    world.servers.end("PSC01")
    numbers = world.numbers(world.pec)
    world.servers.end("PEC01", signal.SIGKILL)
    world.servers.start("PEC01")
    for _ in range(20):
        replay(world, recorded)
    assert world.events()["distrusted: seen before"] >= 20
    assert not world.received()
    assert world.numbers(world.pec) == numbers
