"""Floods of a discovery server on real UDP sockets: what others get, and what the packet filter lets in."""

import asyncio
import socket
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from ipaddress import IPv4Network
from itertools import product
from statistics import median_low

import pytest
from support.discovery.client import OTHER_SITE, OWN_SITE, other_reply, own_reply, request
from support.discovery.services import HERE, answers, client, serving

from mqdssm.drivers.discovery import packet_filter
from mqdssm.drivers.discovery.client import DiscoveryDriver
from mqdssm.engines.discovery.answers import BRIEF_ONE_IN, REPLY_BYTES_MAX
from mqdssm.engines.discovery.rates import BYTES_AT_ONCE, BYTES_PER_S, OVER_RATE_PER_S
from mqdssm.engines.discovery.sources import EVERYWHERE, SourceNetworks
from mqdssm.engines.discovery.values import Network

pytestmark = pytest.mark.slow  # waits for threads and sockets

MANY = [f"127.3.0.{number}" for number in range(1, 201)]
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


def _answered(where: tuple[str, int], sender: str = HERE, seconds: float = 1) -> bool:
    """True if a request is answered in time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind((sender, 0))
        asking.settimeout(seconds)
        asking.sendto(request(), where)
        try:
            return bool(asking.recv(4096))
        except TimeoutError:
            return False


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("seconds", [1.0, pytest.param(10.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("packets", "senders"),
    [
        pytest.param(GARBAGE, [HERE], id="garbage"),
        pytest.param([request()], ["127.0.0.2"], id="requests"),
        pytest.param([request()], MANY, id="requests of many"),
        pytest.param([request(site=OTHER_SITE)], MANY, id="requests of many of the own site"),
    ],
)
def test_a_flood_does_not_keep_others_from_their_answer(
    packets: list[bytes], senders: list[str], seconds: float
) -> None:
    async def run() -> tuple[int, list[int], dict[str, int]]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            command = _flooder(where, seconds, packets, senders)
            flooding = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert flooding.stdout is not None
            await flooding.stdout.readline()  # it begins
            tries = await asyncio.to_thread(lambda: list(_patient(where, seconds - 0.3)))
            sent, _ = await flooding.communicate()
            return int(sent), tries, dict(service.counts.copy())

    sent, tries, counts = asyncio.run(run())
    assert sent > 2000 * seconds, "this was no flood"
    # most clients: on a busy machine the flood's time slice alone overflows the socket for moments
    assert median_low(tries) <= 3, f"{tries}, {counts}"
    # a try is answered, in time or too late; the flood is, too, if it asks, but not more than a source may
    flooded, briefly = counts["answered"] - sum(tries), counts.get("answered briefly", 0)
    if packets is GARBAGE:
        assert (flooded, briefly) == (0, 0), counts
        return
    over_rate = OVER_RATE_PER_S * (seconds + 2)
    assert briefly <= min(sent / BRIEF_ONE_IN, over_rate), counts
    assert flooded + briefly <= len(senders) * (10 + 5 * (seconds + 1)) + over_rate, counts


def _flooder(where: tuple[str, int], seconds: float, packets: list[bytes], senders: list[str]) -> list[str]:
    """The command line of a process of its own that floods, and tells how many datagrams that were."""
    code = (
        "import socket, sys, time\n"
        "host, port, seconds, senders, *packets = sys.argv[1:]\n"
        "packets = [bytes.fromhex(one) for one in packets]\n"
        "sockets = []\n"
        "for sender in senders.split():\n"
        "    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
        "    sockets[-1].bind((sender, 0))\n"
        "print('begin', flush=True)\n"
        "end, sent = time.monotonic() + float(seconds), 0\n"
        "while time.monotonic() < end:\n"
        "    for number in range(100):\n"
        "        sending = sockets[(sent + number) % len(sockets)]\n"
        "        for data in packets:\n"
        "            sending.sendto(data, (host, int(port)))\n"
        "    sent += 100\n"
        "print(sent * len(packets))\n"
    )
    packed = [one.hex() for one in packets]
    return [sys.executable, "-c", code, where[0], str(where[1]), str(seconds), " ".join(senders), *packed]


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_small_flood_of_many_sources_brings_no_more_bytes_than_it_costs_and_the_rate() -> None:
    """Decision S5, on sockets: 400 sources that all ask at once, some of them the own site."""
    many = answers(*(f"SERVER{number:05}" for number in range(100)), site=OTHER_SITE)

    async def run() -> tuple[int, int, int, dict[str, int]]:
        received = sent = own = 0
        async with serving(many, address="0.0.0.0") as (service,):
            port = service.addresses[0][1]
            with ExitStack() as stack:
                asking = []
                for number in range(400):
                    one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    one.bind((f"127.3.{number // 200}.{number % 200 + 1}", 0))
                    one.setblocking(False)
                    asking.append(one)
                for turn in range(3):
                    for number, one in enumerate(asking):
                        site = OTHER_SITE if number % 4 == 0 else OWN_SITE
                        received += one.sendto(request(site=site), (HERE, port))
                        if not number % 50:
                            await asyncio.sleep(0)
                    enough = len(asking) * (turn + 1)
                    while sum(service.counts.copy().values()) < enough:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                for number, one in enumerate(asking):
                    with suppress(BlockingIOError):
                        while True:
                            sent += len(one.recv(2048))
                            own += number % 4 == 0
            return received, sent, own, dict(service.counts.copy())

    begin = time.monotonic()
    received, sent, own, counts = asyncio.run(run())
    took_s = time.monotonic() - begin
    assert sent <= received + BYTES_AT_ONCE + BYTES_PER_S * took_s
    assert sent < 0.5 * REPLY_BYTES_MAX * 900
    assert own == 300  # one of the own site is always answered
    assert counts["answered briefly"] > 100
    assert counts["too many bytes for all sources"] > 100


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_computer_whose_address_is_forged_has_its_answer() -> None:
    """Decision S5: somebody asks in its name, 150 times a second."""

    async def run() -> int:
        async with serving(answers("PSC1", "PSC2")) as (service,):
            (where,) = service.addresses
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forging:
                forging.bind(("127.4.0.1", 0))
                for _ in range(60):
                    forging.sendto(request(), where)
                await asyncio.sleep(0.1)
                answered = 0
                for _ in range(12):
                    for _ in range(7):
                        forging.sendto(request(), where)
                    answered += await asyncio.to_thread(_answered, where, "127.4.0.1", 0.3)
                return answered

    assert asyncio.run(run()) >= 2


def passed(
    packets: list[bytes],
    *,
    muted: Collection[str] = (),
    sender: str = HERE,
    sources: SourceNetworks = EVERYWHERE,
    dropped: int | None = None,
) -> list[bytes]:
    """What of some datagrams arrives at a socket with the filter of the server."""
    end = b"\0\1" + bytes(50)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last,
    ):
        receiving.bind((HERE, 0))
        receiving.settimeout(10)
        if not packet_filter.attach(receiving, muted, sources):
            pytest.skip("this system has no packet filters")
        sending.bind((sender, 0))
        last.bind((HERE, 0))
        for data in packets:
            sending.sendto(data, receiving.getsockname())
        last.sendto(end, receiving.getsockname())
        arrived = []
        while not arrived or arrived[-1] != end:
            arrived.append(receiving.recv(65_536))
        if dropped is not None:
            assert packet_filter.count_dropped(receiving) == dropped
        return arrived[:-1]


def test_the_packet_filter_lets_requests_through_and_nothing_else() -> None:
    """It is right if the engine would not have answered what it drops, and the other way round (S16)."""
    packets = [
        *GARBAGE,
        request(),
        *(request(ipx=range(number)) for number in range(33)),
        *(request()[:length] for length in range(52)),
        *(request() + bytes(more) for more in range(140)),
        *(
            request() + count.to_bytes(4, "little") + bytes(4 * 2)
            for count in (1, 2, 3, 0x100, 0x102, 0x1_0002, 0x0200_0002)
        ),
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


@pytest.mark.parametrize("more", [0, packet_filter.NETWORKS_MAX - 2, packet_filter.NETWORKS_MAX])
def test_the_packet_filter_drops_what_comes_from_other_networks(more: int) -> None:
    """Decision S19; where there are more networks than a program names, the engine alone does."""
    others = [IPv4Network((0x0A00_0000 + 512 * number, 24)) for number in range(more)]
    sources = SourceNetworks([IPv4Network("127.0.0.0/24"), IPv4Network("127.5.0.64/26"), *others])
    too_many = len(sources.networks) > packet_filter.NETWORKS_MAX
    muted = {f"127.1.0.{number}" for number in range(packet_filter.SOURCES_MAX)}
    for sender, is_allowed in (
        ("127.0.0.77", True),
        ("127.5.0.64", True),
        ("127.5.0.127", True),
        ("127.5.0.128", False),
        ("127.0.1.1", False),
    ):
        assert (sender in sources) is is_allowed
        arrives = is_allowed or too_many
        wanted = [request()] * 3 if arrives else []
        drops = 0 if arrives else 3
        assert passed([request()] * 3, muted=muted, sender=sender, sources=sources, dropped=drops) == wanted


def test_where_there_is_no_packet_filter_the_engine_drops_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> dict[str, int]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                for data in GARBAGE:
                    sending.sendto(data, where)
            result = await DiscoveryDriver(client(wait_s=0.5)).discover([Network(*where)])
            assert result is not None
            return dict(service.counts.copy())

    monkeypatch.setattr("sys.platform", "freebsd")
    assert asyncio.run(run()) == {"no request": len(GARBAGE), "answered": 1}


def test_a_muted_source_is_heard_again() -> None:
    async def run() -> tuple[float, dict[str, int]]:
        async with serving(answers()) as (service,):
            (where,) = service.addresses
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooding:
                flooding.bind((HERE, 0))
                begin = time.monotonic()
                while "flood of one source" not in service.counts.copy():
                    flooding.sendto(request(), where)
                    await asyncio.sleep(0)
                before = service.counts.copy()["answered"]
                while service.counts.copy()["answered"] == before:
                    flooding.sendto(request(), where)
                    await asyncio.sleep(0.05)
            return time.monotonic() - begin, dict(service.counts.copy())

    took_s, counts = asyncio.run(run())
    assert took_s < 60
    assert counts["flood of one source"] == 1
