"""Messages between two processes over TCP: [session]."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World
from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.drivers.queue_manager.outgoing import Address
from mqdssm.drivers.tcp.name_resolution import NameResolver, SocketAddress
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.drivers.transport import LocalQueue
from mqdssm.model.guid import Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, PathKind
from mqdssm.model.transport import Message

SESSION: Final = Goal(
    name="session",
    title="express messages of 1 KiB from one process to another over one session",
    against="a plain asyncio stream of frames of 1 KiB with the same acknowledgements",
    goal=0.3,
    direction="at_least",
)
ROOT: Final = Path(__file__).parent.parent
BODY: Final = bytes(range(256)) * 4
WINDOW: Final = 64
"""Messages that may be unacknowledged; half of them are acknowledged at once ([MS-MQQB] 3.1.1.2)."""
QUEUE: Final = LocalQueue(name="orders", number=100)
DESTINATION: Final = DirectFormatName(DirectProtocol.OS, "receiver", "orders", kind=PathKind.PRIVATE)


def session(world: World | None, *, quick: bool) -> Outcome:
    """Send the same number of messages to a process of ours and to a stream; the directory is not needed."""
    del world
    number = 1_024 if quick else 4_096
    with (
        served("ours", number) as ours_server,
        served("theirs", number) as theirs_server,
        queue_manager("sender", {"receiver": ours_server.address}) as sender,
    ):

        def ours() -> None:
            for _ in range(number):
                sender.send(Message(body=BODY), DESTINATION)
            ours_server.wait_for_batch()

        def theirs() -> None:
            asyncio.run(stream(theirs_server.address, number))
            theirs_server.wait_for_batch()

        return interleaved(ours, theirs, 3 if quick else 9).speed(SESSION, number, "messages")


class Receiver:
    """Process that receives; it prints its port, and a line for each batch."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self._output = process.stdout
        self.address: Final = SocketAddress("127.0.0.1", int(self._output.readline()))

    def wait_for_batch(self) -> None:
        """Wait until a batch was received."""
        if self._output.readline() != "received\n":
            raise AssertionError("the receiver has ended")


@contextmanager
def served(side: str, number: int) -> Iterator[Receiver]:
    """Run a receiving process."""
    command = [sys.executable, "-m", "benchmarks.sessions", side, str(number)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Receiver(process)
        finally:
            process.terminate()


@contextmanager
def queue_manager(name: str, hosts: Mapping[Address, SocketAddress]) -> Iterator[LocalQueueManager]:
    """Run a queue manager on a free port."""
    with tempfile.TemporaryDirectory() as folder:
        resolver = NameResolver(hosts)
        network = TcpNetwork(SocketAddress("127.0.0.1", 0), Path(folder, "numbers.json"), resolver)
        manager = network.add(name, Guid(name.encode().ljust(16)))
        try:
            if name == "receiver":
                print(network.address.port, flush=True)
            yield manager
        finally:
            manager.close()


def receive_ours(number: int) -> None:
    """Receive batches with a queue manager."""
    with queue_manager("receiver", {}) as manager:
        inbox = manager.open(QUEUE)
        while True:
            for _ in range(number):
                while inbox.receive(60) is None:
                    pass
            print("received", flush=True)


async def receive_theirs(number: int) -> None:
    """Receive batches from a stream; acknowledge each half of a window with four octets."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for count in range(1, number + 1):
            length = int.from_bytes(await reader.readexactly(4), "little")
            await reader.readexactly(length)
            if count % (WINDOW // 2) == 0:
                writer.write(count.to_bytes(4, "little"))
        print("received", flush=True)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def stream(address: SocketAddress, number: int) -> None:
    """Send frames, at most a window of them unacknowledged."""
    reader, writer = await asyncio.open_connection(*address)
    acknowledged = 0
    for count in range(number):
        while count - acknowledged >= WINDOW:
            acknowledged = int.from_bytes(await reader.readexactly(4), "little")
        writer.write(len(BODY).to_bytes(4, "little"))
        writer.write(BODY)
    while acknowledged < number:
        acknowledged = int.from_bytes(await reader.readexactly(4), "little")
    writer.close()


ROWS: Final = {SESSION: session}

if __name__ == "__main__":
    if sys.argv[1] == "ours":
        receive_ours(int(sys.argv[2]))
    else:
        asyncio.run(receive_theirs(int(sys.argv[2])))
