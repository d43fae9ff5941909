"""The drivers of discovery on real UDP sockets of this machine."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from types import SimpleNamespace

import pytest
from support.discovery.client import (
    NETWORK_2,
    OWN_SITE,
    guid_of,
    other_reply,
    own_reply,
    request,
)
from support.discovery.services import HERE, answers, client, network_of, serving

from mqdssm.drivers.discovery import interfaces
from mqdssm.drivers.discovery import server as discovery_server
from mqdssm.drivers.discovery.client import DiscoveryDriver
from mqdssm.drivers.discovery.interfaces import list_networks
from mqdssm.drivers.discovery.server import DiscoveryService
from mqdssm.engines.discovery.client import Broadcast, ClientState
from mqdssm.engines.discovery.values import DiscoveryResult, Network
from mqdssm.errors import ConfigError, TransportError
from mqdssm.model.guid import Guid

pytestmark = pytest.mark.slow  # waits for threads and sockets


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
            assert service.counts.copy() == {"answered": 1}
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
            return await finding, dict(driver.counts.copy())

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
            driver.counts.copy()
        )

    result, counts = asyncio.run(run())
    assert result is None
    assert counts == {"request not sent": 1}


def unchecked(address: str, port: int = 1) -> Network:
    """A network that no socket takes, past the checks of `Network`."""
    network = Network(HERE)
    object.__setattr__(network, "address", address)
    object.__setattr__(network, "port", port)
    return network


@pytest.mark.parametrize("none", [unchecked(HERE, 70_000), unchecked("." * 70)])
def test_an_address_that_is_none_is_not_waited_for_either(none: Network) -> None:
    async def run() -> DiscoveryResult | None:
        async with serving(answers(site=OWN_SITE)) as (service,):
            driver = DiscoveryDriver(client(wait_s=60))
            return await driver.discover([none, network_of(service), none])

    assert asyncio.run(run()) is not None


def test_a_discovery_that_could_not_begin_leaves_nothing_behind() -> None:
    async def run() -> DiscoveryResult | None:
        async with serving(answers(site=OWN_SITE)) as (service,):
            driver = DiscoveryDriver(client(wait_s=60))
            with pytest.raises(TypeError, match="null character"):
                await driver.discover([unchecked("no\0where")])
            return await asyncio.wait_for(driver.discover([network_of(service)]), 10)

    assert asyncio.run(run()) is not None


def test_a_second_caller_waits_for_the_same_answer() -> None:
    async def run() -> list[DiscoveryResult | None]:
        async with serving(answers(site=OWN_SITE)) as (service,):
            driver = DiscoveryDriver(client())
            where = [network_of(service)]
            found = await asyncio.gather(driver.discover(where), driver.discover(where))
            assert service.counts.copy() == {"answered": 1}
            # the answer still holds; who wants to know anew asks
            assert await driver.discover(where) == found[0]
            assert service.counts.copy() == {"answered": 1}
            await driver.discover(where, anew=True)
            assert service.counts.copy() == {"answered": 2}
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
            assert discovering.state is ClientState.IDLE
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
                driver.report_networks([network_of(service)])
                return await finding

    assert asyncio.run(run()) is not None


# --- where there can be nobody


@pytest.mark.parametrize(
    ("address", "port"), [("127.0.0.1", 99_999), ("127.0.0.1", -1), ("here", 1801), ("::1", 1801), ("", 1801)]
)
def test_what_is_no_address_is_refused(address: str, port: int) -> None:
    with pytest.raises(ValueError, match=r"port|Address|Octet|octets"):
        Network(address, port)
    with pytest.raises(ValueError, match=r"port|Address|Octet|octets"):
        DiscoveryService([(address, port)], answers())


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
            return dict(service.counts.copy())

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
            return dict(service.counts.copy())

    try:
        counts = asyncio.run(run())
    except PermissionError:
        pytest.skip("only root may forge datagrams")
    assert counts == {"reply not sent": 1, "answered": 1}


def _udp(data: bytes, *, source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """A UDP packet without checksum."""
    ports = source[1].to_bytes(2, "big") + destination[1].to_bytes(2, "big")
    return ports + (8 + len(data)).to_bytes(2, "big") + bytes(2) + data


# --- who is answered, and what the operator hears of it


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  sockets and timers of the service are at work
            await asyncio.sleep(0.01)


def test_networks_that_come_and_go_are_answered_as_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decision S19: the loopback alone where the system does not tell, in any case what is allowed."""
    networks = ["127.0.0.0/8", "10.1.0.0/16"]
    failures: list[Exception] = []

    def on_link() -> tuple[IPv4Network, ...]:
        if failures:
            raise failures[0]
        return tuple(map(IPv4Network, networks))

    async def run() -> None:
        service = DiscoveryService([("0.0.0.0", 0)], answers(), allow_from=[IPv4Network("10.9.0.0/16")])
        service.start()
        running = asyncio.create_task(service.run())
        assert str(service.sources) == "10.1.0.0/16, 10.9.0.0/16, 127.0.0.0/8"
        networks.pop()
        await soon(lambda: str(service.sources) == "10.9.0.0/16, 127.0.0.0/8")
        networks.append("10.2.0.0/16")
        await soon(lambda: "10.2.0.0/16" in str(service.sources))
        failures.append(OSError("no memory"))
        await asyncio.sleep(0.1)
        assert "10.2.0.0/16" in str(service.sources)
        failures[0] = ConfigError("not known")
        await soon(lambda: str(service.sources) == "10.9.0.0/16, 127.0.0.0/8")
        service.stop()
        await running

    monkeypatch.setattr(discovery_server, "on_link_networks", on_link)
    monkeypatch.setattr(discovery_server, "INTERFACES_S", 0.02)
    asyncio.run(run())


def test_the_log_tells_what_was_counted_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    async def run() -> None:
        service = DiscoveryService([(HERE, 0)], answers(site=OWN_SITE), on_report=lines.append)
        service.start()
        running = asyncio.create_task(service.run())
        for turn in (1, 2):
            await DiscoveryDriver(client()).discover([network_of(service)])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                sending.sendto(b"garbage", service.addresses[0])
            await soon(lambda turn=turn: sum(line.count("answered: 1") for line in lines) == turn)
        count = len(lines)
        await asyncio.sleep(0.2)
        assert len(lines) == count  # nothing happened
        service.stop()
        await running
        assert service.read_counts()["answered"] == 2
        counts = service.read_counts()
        # the packet filter keeps garbage away where there is one
        assert counts.get("dropped by the system", 0) + counts.get("no request", 0) == 2

    monkeypatch.setattr(discovery_server, "REPORT_S", 0.05)
    with caplog.at_level("INFO"):
        asyncio.run(run())
    assert lines[0].startswith("in the last 0.05 s: ")
    assert [one.message for one in caplog.records if one.message.startswith("in the last")] == lines


# --- the machine's networks


def test_the_networks_of_this_machine_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for network in list_networks(port=1234):
        socket.inet_aton(network.address)
        socket.inet_aton(network.local)
        assert network.port == 1234
        assert not network.local.startswith("127.")
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(ConfigError, match="name them"):
        list_networks()


def test_an_interface_that_goes_while_it_is_looked_at_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decision S12: the others are still there."""
    there = list_networks()
    listed = interfaces._addresses
    gone = b"gone0".ljust(16, b"\0") + socket.AF_INET.to_bytes(2, "little") + bytes(22)
    monkeypatch.setattr(interfaces, "_addresses", lambda asked: iter([gone, *listed(asked)]))
    assert list_networks() == there
