"""The drivers of discovery on real UDP sockets of this machine."""

import asyncio
import errno
import socket
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import product
from types import SimpleNamespace

import pytest
from discovering import (
    ENTERPRISE,
    NETWORK_2,
    OTHER_SITE,
    OWN_SITE,
    guid_of,
    knowledge,
    other_reply,
    own_reply,
    request,
)

from mqdssm.drivers import discovery_server, packet_filter
from mqdssm.drivers.discovery import DiscoveryDriver
from mqdssm.drivers.discovery_server import DiscoveryService
from mqdssm.drivers.interfaces import connected_networks
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.client import Broadcast, DiscoveryClient, State
from mqdssm.engines.discovery.values import DiscoveryResult, Network
from mqdssm.errors import TransportError
from mqdssm.model.guid import Guid

HERE = "127.0.0.1"


def client(wait_s: float = 10.0, site: Guid = OWN_SITE) -> DiscoveryClient:
    return DiscoveryClient(enterprise_id=ENTERPRISE, site_id=site, wait_s=wait_s)


def answers(*names: str, site: Guid = OTHER_SITE) -> Answers:
    made = Answers()
    made.learn(knowledge(*names or ("PSC2",), site=site))
    return made


@asynccontextmanager
async def serving(*served: Answers, address: str = HERE) -> AsyncIterator[list[DiscoveryService]]:
    """A server for each."""
    services = [DiscoveryService([(address, 0)], one) for one in served]
    for service in services:
        service.start()
    running = [asyncio.create_task(service.run()) for service in services]
    try:
        yield services
    finally:
        for service in services:
            service.stop()
        await asyncio.gather(*running)


def network_of(service: DiscoveryService) -> Network:
    ((address, port),) = service.addresses
    return Network(address, port)


@contextmanager
def silent() -> Iterator[tuple[Network, socket.socket]]:
    """A network on which somebody listens who says only what the test wants."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind((HERE, 0))
        listening.settimeout(10)
        yield Network(*listening.getsockname()), listening


async def asked(listening: socket.socket) -> tuple[bytes, tuple[str, int]]:
    return await asyncio.to_thread(listening.recvfrom, 4096)


def test_a_server_of_the_own_site_answers() -> None:
    async def run() -> DiscoveryResult | None:
        async with serving(answers(site=OWN_SITE)) as (service,):
            begin = time.monotonic()
            result = await DiscoveryDriver(client()).discover([network_of(service)])
            assert time.monotonic() - begin < 5  # nobody waited
            assert service.counts.seen() == {"answered": 1}
            return result

    result = asyncio.run(run())
    assert result is not None
    assert (result.is_own_site, result.site, result.answered_by) == (True, OWN_SITE, HERE)


def test_one_of_another_site_is_believed_when_nobody_else_answers() -> None:
    async def run() -> DiscoveryResult | None:
        async with serving(answers("PSC2", "BSC2")) as (service,):
            return await DiscoveryDriver(client(wait_s=0.2)).discover([network_of(service)])

    result = asyncio.run(run())
    assert result is not None
    assert [one.name for one in result.servers] == ["PSC2", "BSC2"]
    assert result.connected_networks == (NETWORK_2,)


def test_networks_are_asked_in_turn_and_silence_is_waited_for() -> None:
    told: list[Broadcast] = []

    async def run() -> tuple[DiscoveryResult | None, float]:
        with silent() as (nobody, _):
            async with serving(answers(site=OWN_SITE)) as (service,):
                driver = DiscoveryDriver(client(wait_s=0.3), asking=told.append)
                begin = time.monotonic()
                return await driver.discover([nobody, network_of(service)]), time.monotonic() - begin

    result, took_s = asyncio.run(run())
    assert result is not None
    assert took_s >= 0.3
    assert [(one.number, one.total) for one in told] == [(1, 2), (2, 2)]


def test_nobody_answers() -> None:
    async def run() -> DiscoveryResult | None:
        with silent() as (nobody, _):
            return await DiscoveryDriver(client(wait_s=0.1)).discover([nobody])

    assert asyncio.run(run()) is None


def test_wrong_and_late_answers_are_counted_and_dropped() -> None:
    async def run() -> tuple[DiscoveryResult | None, dict[str, int]]:
        with silent() as (first, one), silent() as (second, other):
            driver = DiscoveryDriver(client(wait_s=0.5))
            finding = asyncio.create_task(driver.discover([first, second]))
            data, source = await asked(one)
            wanted = Guid(data[20:36])
            _, source_2 = await asked(other)
            one.sendto(own_reply(request=wanted), source)  # too late
            other.sendto(b"garbage", source_2)
            other.sendto(own_reply(request=guid_of("another")), source_2)
            other.sendto(request(request_id=wanted), source_2)
            other.sendto(other_reply("PSC2", request=wanted), source_2)
            return await finding, dict(driver.counts.seen())

    result, counts = asyncio.run(run())
    assert result is not None
    assert [one.name for one in result.servers] == ["PSC2"]
    assert counts == {
        "answer on a network that is not being asked": 1,
        "no topology packet": 1,
        "answer to another request": 1,
        "request of another client": 1,
    }


def test_a_network_without_a_way_to_it_is_not_waited_for() -> None:
    async def run() -> tuple[DiscoveryResult | None, dict[str, int]]:
        driver = DiscoveryDriver(client(wait_s=60))
        # no computer of ours has this address, so no socket can have it either
        return await driver.discover([Network("198.51.100.255", local="198.51.100.1")]), dict(
            driver.counts.seen()
        )

    result, counts = asyncio.run(run())
    assert result is None
    assert counts == {"request not sent": 1}


def test_a_second_caller_waits_for_the_same_answer() -> None:
    async def run() -> list[DiscoveryResult | None]:
        async with serving(answers(site=OWN_SITE)) as (service,):
            driver = DiscoveryDriver(client())
            where = [network_of(service)]
            found = await asyncio.gather(driver.discover(where), driver.discover(where))
            assert service.counts.seen() == {"answered": 1}
            # the answer still holds; who wants to know anew asks
            assert await driver.discover(where) == found[0]
            assert service.counts.seen() == {"answered": 1}
            await driver.discover(where, anew=True)
            assert service.counts.seen() == {"answered": 2}
            return found

    first, second = asyncio.run(run())
    assert first is second


def test_who_gives_up_does_not_take_the_answer_from_others() -> None:
    async def run() -> DiscoveryResult | None:
        with silent() as (where, listening):
            driver = DiscoveryDriver(client(wait_s=60))
            first = asyncio.create_task(driver.discover([where]))
            data, source = await asked(listening)
            second = asyncio.create_task(driver.discover([where]))
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            listening.sendto(own_reply(request=Guid(data[20:36])), source)
            return await second

    assert asyncio.run(run()) is not None


def test_who_gives_up_leaves_nothing_behind() -> None:
    async def run() -> None:
        with silent() as (nobody, _):
            discovering = client(wait_s=60)
            driver = DiscoveryDriver(discovering)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(driver.discover([nobody]), 0.1)
            assert discovering.state is State.IDLE
            with pytest.raises(TimeoutError):  # and may try again
                await asyncio.wait_for(driver.discover([nobody]), 0.1)

    asyncio.run(run())


def test_networks_may_change_meanwhile() -> None:
    async def run() -> DiscoveryResult | None:
        with silent() as (nobody, listening):
            async with serving(answers(site=OWN_SITE)) as (service,):
                driver = DiscoveryDriver(client(wait_s=60))
                finding = asyncio.create_task(driver.discover([nobody]))
                await asked(listening)
                driver.networks_changed([network_of(service)])
                return await finding

    assert asyncio.run(run()) is not None


# --- the server's socket


def test_an_address_in_use_ends_the_service() -> None:
    async def run() -> None:
        with silent() as (taken, _):
            service = DiscoveryService([(HERE, 0), (taken.address, taken.port)], answers())
            service.start()
            assert not service.is_listening
            await service.run()

    with pytest.raises(TransportError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
        asyncio.run(run())


class Socket(socket.socket):
    """One whose next replies fail."""

    failures: list[int] = []  # noqa: RUF012  of all of them
    opened = 0

    def __init__(self, *args: int) -> None:
        super().__init__(*args)
        Socket.opened += 1

    def sendto(self, *args) -> int:
        if self.failures:
            number = self.failures.pop()
            raise OSError(number, errno.errorcode[number])
        return super().sendto(*args)


@pytest.mark.spec("MS-MQSD 3.2.5")
@pytest.mark.parametrize(
    ("number", "opened"), [(errno.ENETDOWN, 2), (errno.EHOSTUNREACH, 1), (errno.EINVAL, 1), (errno.EAGAIN, 1)]
)
def test_after_a_network_error_the_socket_is_opened_anew(
    monkeypatch: pytest.MonkeyPatch, number: int, opened: int
) -> None:
    """But not for an error that whoever forges a source can bring about (decision S15)."""

    async def run() -> dict[str, int]:
        async with serving(answers()) as (service,):
            where = service.addresses[0]
            Socket.failures[:] = [number]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.bind((HERE, 0))
                asking.settimeout(0.3)
                for _ in range(20):
                    asking.sendto(request(), where)
                    try:
                        await asked(asking)
                        break
                    except TimeoutError:
                        continue
            assert service.addresses[0] == where
            return dict(service.counts.seen())

    Socket.opened = 0
    monkeypatch.setattr(discovery_server, "socket", SimpleNamespace(**{**vars(socket), "socket": Socket}))
    counts = asyncio.run(run())
    assert counts == {"reply not sent": 1, "answered": 1}
    assert Socket.opened == opened


def test_a_forged_source_that_cannot_be_answered_does_no_harm() -> None:
    """Port 0 cannot be sent to: the reply fails, and nothing else."""

    async def run() -> dict[str, int]:
        async with serving(answers()) as (service,):
            ((address, port),) = service.addresses
            forged = _udp(request(), source=(HERE, 0), destination=(address, port))
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as raw:
                raw.sendto(forged, (address, 0))
            result = await DiscoveryDriver(client(wait_s=0.5)).discover([Network(address, port)])
            assert result is not None
            return dict(service.counts.seen())

    try:
        counts = asyncio.run(run())
    except PermissionError:
        pytest.skip("only root may forge datagrams")
    assert counts == {"reply not sent": 1, "answered": 1}


def _udp(data: bytes, *, source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """A UDP packet without checksum."""
    ports = source[1].to_bytes(2, "big") + destination[1].to_bytes(2, "big")
    return ports + (8 + len(data)).to_bytes(2, "big") + bytes(2) + data


# --- floods


GARBAGE = [
    bytes(52),
    b"\0\1" + bytes(58),
    request()[:51],
    own_reply(),
    other_reply("PSC2"),
    b"x" * 1400,
    request() + b"\x02\0\0\0" + bytes(4),
]


def _patient(where: tuple[str, int], seconds: float) -> Iterator[int]:
    """A client that repeats each second: after how many tries it is answered, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield next((number for number in range(1, 4) if _answered(where)), 4)
        time.sleep(0.3)


def _answered(where: tuple[str, int]) -> bool:
    """Whether a request is answered within a second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind((HERE, 0))
        asking.settimeout(1)
        asking.sendto(request(), where)
        try:
            return bool(asking.recv(4096))
        except TimeoutError:
            return False


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("seconds", [1.5, pytest.param(10.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("packets", "sender"),
    [pytest.param(GARBAGE, HERE, id="garbage"), pytest.param([request()], "127.0.0.2", id="requests")],
)
def test_a_flood_does_not_keep_others_from_their_answer(
    packets: list[bytes], sender: str, seconds: float
) -> None:
    async def run() -> tuple[int, list[int], dict[str, int]]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            command = _flooder(where, seconds, packets, sender)
            flooding = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert flooding.stdout is not None
            await flooding.stdout.readline()  # it begins
            tries = await asyncio.to_thread(lambda: list(_patient(where, seconds - 0.3)))
            sent, _ = await flooding.communicate()
            return int(sent), tries, dict(service.counts.seen())

    sent, tries, counts = asyncio.run(run())
    assert sent > 2000 * seconds, "this was no flood"
    assert tries
    assert max(tries) <= 3, f"{tries}, {counts}"
    # a try is answered, in time or too late; the flood is, too, if it asks, but not more than a source may
    flooded = counts["answered"] - sum(tries)
    assert flooded <= (0 if packets is GARBAGE else 10 + 5 * (seconds + 1)), counts


def _flooder(where: tuple[str, int], seconds: float, packets: list[bytes], sender: str) -> list[str]:
    """The command line of a process of its own that floods, and tells how many datagrams that were."""
    code = (
        "import socket, sys, time\n"
        "host, port, seconds, sender, *packets = sys.argv[1:]\n"
        "packets = [bytes.fromhex(one) for one in packets]\n"
        "sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "sending.bind((sender, 0))\n"
        "print('begin', flush=True)\n"
        "end, sent = time.monotonic() + float(seconds), 0\n"
        "while time.monotonic() < end:\n"
        "    for _ in range(100):\n"
        "        for data in packets:\n"
        "            sending.sendto(data, (host, int(port)))\n"
        "    sent += 100 * len(packets)\n"
        "print(sent)\n"
    )
    packed = [one.hex() for one in packets]
    return [sys.executable, "-c", code, where[0], str(where[1]), str(seconds), sender, *packed]


def passed(packets: list[bytes], *, muted: Collection[str] = (), sender: str = HERE) -> list[bytes]:
    """What of some datagrams arrives at a socket with the filter of the server."""
    end = b"\0\1" + bytes(50)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last,
    ):
        receiving.bind((HERE, 0))
        receiving.settimeout(10)
        if not packet_filter.attach(receiving, muted):
            pytest.skip("this system has no packet filters")
        sending.bind((sender, 0))
        last.bind((HERE, 0))
        for data in packets:
            sending.sendto(data, receiving.getsockname())
        last.sendto(end, receiving.getsockname())
        arrived = []
        while not arrived or arrived[-1] != end:
            arrived.append(receiving.recv(65_536))
        return arrived[:-1]


def test_the_packet_filter_lets_requests_through_and_nothing_else() -> None:
    """It is right if the engine would not have answered what it drops, and the other way round (S16)."""
    packets = [
        *GARBAGE,
        request(),
        *(request(ipx=range(number)) for number in range(33)),
        *(request()[:length] for length in range(52)),
        *(request() + bytes(more) for more in range(140)),
        *(request() + count.to_bytes(4, "little") + bytes(4 * 2) for count in (1, 2, 3, 0x100, 0x0200_0002)),
        *(bytes([version, kind, 7, 7]) + request()[4:] for version, kind in product((0, 9), range(256))),
        request(ipx=range(32)) + bytes(4),
        bytes(65_507),
    ]
    wanted = []
    for data in packets:
        judge = answers()
        if isinstance(judge.answer(data, HERE, 0), bytes):
            wanted.append(data)
    assert passed(packets) == wanted
    assert len(wanted) > 40


def test_the_packet_filter_mutes_sources() -> None:
    muted = {f"127.1.0.{number}" for number in range(packet_filter.SOURCES_MAX)}
    for source in ("127.1.0.0", "127.1.0.63"):
        assert passed([request()] * 3, muted=muted, sender=source) == []
    assert passed([request()] * 3, muted=muted, sender="127.1.0.64") == [request()] * 3
    # more than a program can name are not muted, rather than that there is no program
    many = [f"127.1.{number // 250}.{number % 250}" for number in range(1000)]
    assert passed([request()], muted=many, sender=many[packet_filter.SOURCES_MAX]) == [request()]
    assert passed([bytes(52)], muted=many) == []


def test_where_there_is_no_packet_filter_the_engine_drops_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> dict[str, int]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                for data in GARBAGE:
                    sending.sendto(data, where)
            result = await DiscoveryDriver(client(wait_s=0.5)).discover([Network(*where)])
            assert result is not None
            return dict(service.counts.seen())

    monkeypatch.setattr("sys.platform", "freebsd")
    assert asyncio.run(run()) == {"no request": len(GARBAGE), "answered": 1}


def test_a_muted_source_is_heard_again() -> None:
    async def run() -> tuple[float, dict[str, int]]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooding:
                flooding.bind((HERE, 0))
                begin = time.monotonic()
                while "flood of one source" not in service.counts.seen():
                    flooding.sendto(request(), where)
                    await asyncio.sleep(0)
                before = service.counts.seen()["answered"]
                while service.counts.seen()["answered"] == before:
                    flooding.sendto(request(), where)
                    await asyncio.sleep(0.05)
            return time.monotonic() - begin, dict(service.counts.seen())

    took_s, counts = asyncio.run(run())
    assert took_s < 60
    assert counts["flood of one source"] == 1


# --- the machine's networks


def test_the_networks_of_this_machine_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for network in connected_networks(port=1234):
        socket.inet_aton(network.address)
        socket.inet_aton(network.local)
        assert network.port == 1234
        assert not network.local.startswith("127.")
    monkeypatch.setattr("sys.platform", "win32")
    from mqdssm.errors import ConfigError

    with pytest.raises(ConfigError, match="name them"):
        connected_networks()
