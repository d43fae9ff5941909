"""Answering clients that look for a directory server: [discovery].

Both servers are processes of their own, asked in turn over loopback by one client that keeps some requests
under way. Ours does all that it always does, but no source is refused: there is only one here.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID, uuid5

from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World

REQUESTS: Final = 40_000
REQUESTS_QUICK: Final = 2_000
UNDER_WAY: Final = 64
RUNS: Final = 7
WAIT_S: Final = 10.0
ROOT: Final = Path(__file__).parent.parent
_NAMES: Final = UUID("5f2b0c7e-1d0a-4a7b-9a55-0f3c2f6f9d11")

DISCOVERY: Final = Goal(
    name="discovery",
    title="40,000 requests for directory servers, answered with a list of five over loopback",
    against="a bare asyncio UDP echo",
    goal=0.5,
    direction="at_least",
)


def guid(name: str) -> bytes:
    return uuid5(_NAMES, name).bytes_le


def discovery(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it needs no directory
    """Both in turn."""
    number, runs = (REQUESTS_QUICK, 1) if quick else (REQUESTS, RUNS)
    with ExitStack() as stack:
        ours, theirs = (asking(stack.enter_context(served(side)), number) for side in ("ours", "theirs"))
        return interleaved(ours, theirs, runs).speed(DISCOVERY, number, "replies")


def asking(port: int, number: int) -> Callable[[], None]:
    """One run: so many requests, each with an id of its own, and a reply to each."""
    from mqdssm.model.discovery import TopologyClientRequest
    from mqdssm.model.guid import Guid
    from mqdssm.wire.mqsd import encode

    packet = TopologyClientRequest(
        enterprise_id=Guid(guid("enterprise")), request_id=Guid(guid("id")), site_id=Guid(guid("site"))
    )
    data = encode(packet)
    requests = [data[:20] + one.to_bytes(16, "little") + data[36:] for one in range(UNDER_WAY)]

    def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(WAIT_S)
            client.connect(("127.0.0.1", port))
            for one in requests:
                client.send(one)
            for sent in range(number):
                client.recv(2048)
                if sent + UNDER_WAY < number:
                    client.send(requests[sent % UNDER_WAY])

    return work


@contextmanager
def served(side: str) -> Iterator[int]:
    """A server at work; its port."""
    command = [sys.executable, "-m", "benchmarks.discovering", side]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def serve_ours() -> None:
    """The real server."""
    from mqdssm.drivers.discovery.server import DiscoveryService
    from mqdssm.engines.discovery.answers import Answers
    from mqdssm.engines.discovery.rates import CommonRate, SourceRates
    from mqdssm.engines.discovery.values import Knowledge
    from mqdssm.model.discovery import DirectoryServiceServer
    from mqdssm.model.guid import Guid

    fast = CommonRate(per_s=1e12, at_once=10**12)
    answers = Answers(SourceRates(per_s=1e9, at_once=1_000_000_000), byte_rate=fast)
    answers.learn(
        Knowledge(
            site=Guid(guid("another site")),
            servers=tuple(DirectoryServiceServer.of(f"SERVER{number:04}") for number in range(5)),
            networks=(Guid(guid("network")),),
        )
    )
    service = DiscoveryService([("127.0.0.1", 0)], answers)
    service.start()
    print(service.addresses[0][1], flush=True)
    await service.run()


class Echo(asyncio.DatagramProtocol):
    """The least that a server of asyncio's can do."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data, addr)  # type: ignore[attr-defined]  # a DatagramTransport


async def serve_theirs() -> None:
    """The yardstick."""
    made = asyncio.get_running_loop().create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    transport, _ = await made
    print(transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


ROWS: Final = {DISCOVERY: discovery}

if __name__ == "__main__":
    asyncio.run({"ours": serve_ours, "theirs": serve_theirs}[sys.argv[1]]())
