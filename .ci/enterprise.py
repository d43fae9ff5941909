"""Run an enterprise of five directory servers, and replicate objects: `make enterprise OBJECTS=20000`.

A PEC, two PSCs and two BSCs run as processes, each with its own slapd in a network namespace of its own.
Clients create queues at all five. The program prints the rate of acknowledged changes, the lag of the
replicas, and the time until all are equal; then it compares the replicas object by object. It needs root.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock, Thread

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.servers.namespaces import Lan, why_not  # noqa: E402  found by the path above

from mqdssm.errors import DirectoryError  # noqa: E402
from mqdssm.model.elements import Queue  # noqa: E402
from mqdssm.server.control_client import ControlClient  # noqa: E402
from mqdssm.testing.openldap_config import ServerFolder  # noqa: E402

PROGRAM = [sys.executable, "-c", "from mqdssm.cli.main import run; run()"]
NETWORK = "wan"
START_S = 120.0
SETTLE_S = 1_200.0
CONNECTIONS = 4
"""Clients of each server."""


@dataclass
class Server:
    """A directory server of the enterprise."""

    name: str
    site: str
    role: str
    folder: Path
    created: int = 0
    failed: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def socket(self) -> Path:
        """Its control socket."""
        return self.folder / "control.sock"

    @property
    def host(self) -> str:
        """Its host in the network."""
        return self.name.lower()


def mqdssm(*arguments: str) -> str:
    """Run a command of ours to its end, and return its output."""
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"mqdssm {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def serving(lan: Lan, server: Server) -> Iterator[None]:
    """Run a server on its host, and stop it at the end."""
    log = (server.folder.parent / f"{server.host}.log").open("w")
    line = [*PROGRAM, "serve", str(server.folder / "server.toml"), "-o", "json"]
    process = lan.start(server.host, line, stderr=log)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready or json.loads(ready)["event"] != "ready":
            raise SystemExit(f"{server.name} does not start: {Path(log.name).read_text()}")
        yield
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def last_numbers(server: Server) -> dict[str, int]:
    """The last number of each partition at a server."""
    with ControlClient(server.socket) as client:
        return {str(part.partition_id): part.last_number for part in client.status().partitions}


def wait_until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, or end the program."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)


def create(server: Server, machine: str, first: int, number: int) -> None:
    """Create queues through a server; the client goes on after a refusal."""
    with ControlClient(server.socket) as client:
        for at in range(first, first + number):
            try:
                client.create(Queue(pathname=f"{machine}\\{server.host}-{at}", label=f"Orders {at}"))
            except DirectoryError:
                with server.lock:
                    server.failed += 1
            else:
                with server.lock:
                    server.created += 1


def make(lan: Lan, server: Server, above: Server) -> None:
    """Make the folder of a server; one above it admits it."""
    listen = f"{lan.address(NETWORK, server.host)}:1801"
    common = (str(server.folder), "--site", server.site, "--machine", server.name, "--listen", listen)
    if server.role == "pec":
        mqdssm("enterprise", "init", *common, "--name", "Contoso")
    else:
        mqdssm("enterprise", "add-server", *common, "--role", server.role, "--through", str(above.socket))


def build(lan: Lan, running: ExitStack, folder: Path) -> list[Server]:
    """Make and start all five servers; each knows the addresses of the others."""
    places = [("PEC01", "Berlin", "pec"), ("PSC01", "Paris", "psc"), ("PSC02", "Oslo", "psc"),
              ("BSC01", "Paris", "bsc"), ("BSC02", "Oslo", "bsc")]  # fmt: skip
    servers = [Server(name, site, role, folder / name.lower()) for name, site, role in places]
    pec = servers[0]
    for role, tier in groupby(servers, lambda server: server.role):
        begin = time.monotonic()
        started = list(tier)
        for server in started:
            make(
                lan, server, pec if role == "psc" else next(one for one in servers if one.site == server.site)
            )
            running.enter_context(serving(lan, server))
        for server in started:
            wait_until(f"{server.name} has its machine", START_S, partial(is_known, server))
        print(f"  {role.upper()}: {time.monotonic() - begin:.1f} s", flush=True)
    for server in servers:
        with ControlClient(server.socket) as client:
            for other in servers:
                client.add_host(other.name, f"{lan.address(NETWORK, other.host)}:1801")
    return servers


def is_known(server: Server) -> bool:
    """Whether a server has its site's partition with its own machine."""
    with ControlClient(server.socket) as client:
        snapshot = client.status()
    own = next((part for part in snapshot.partitions if part.partition_id == snapshot.site_id), None)
    return own is not None and own.last_number >= (2 if server.role == "bsc" else 1)


def load(servers: list[Server], objects: int) -> float:
    """Create the objects at all servers; seconds that it took."""
    owners = {server.site: server.name for server in servers if server.role != "bsc"}
    each = objects // (len(servers) * CONNECTIONS)
    threads = [
        Thread(target=create, args=(server, owners[server.site], each * part, each))
        for server in servers
        for part in range(CONNECTIONS)
    ]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    worst = 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        lag = lag_of(servers)
        worst = max(worst, lag)
        done = sum(server.created for server in servers)
        print(f"{time.monotonic() - begin:6.0f} s  {done:7,d} created  lag {lag:6,d} changes", flush=True)
    seconds = time.monotonic() - begin
    print(f"largest lag: {worst:,} changes")
    return seconds


def lag_of(servers: list[Server]) -> int:
    """The largest difference of the last number of a partition between two servers."""
    known = [last_numbers(server) for server in servers]
    highest = {name: max(numbers.get(name, 0) for numbers in known) for numbers in known for name in numbers}
    return max(highest[name] - numbers.get(name, 0) for numbers in known for name in highest)


def main() -> int:
    """Run the enterprise; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", type=int)
    objects = parser.parse_args().objects
    if reason := why_not():
        raise SystemExit(f"make enterprise: {reason}")
    names = ["pec01", "psc01", "psc02", "bsc01", "bsc02"]
    with (
        tempfile.TemporaryDirectory(prefix="mqdssm-") as folder,
        Lan.made({NETWORK: names}) as lan,
        ExitStack() as running,
    ):
        for name in names:
            lan.ip(name, "link", "set", "lo", "up")
        begin = time.monotonic()
        servers = build(lan, running, Path(folder))
        print(f"five servers work after {time.monotonic() - begin:.0f} s", flush=True)
        seconds = load(servers, objects)
        created = sum(server.created for server in servers)
        print(f"{created:,} objects created in {seconds:.0f} s: {created / seconds:.0f} changes a second")
        for server in servers:
            print(f"  {server.name}: {server.created:,} created, {server.failed:,} refused or unknown")
        begin = time.monotonic()
        wait_until("all replicas have the last numbers", SETTLE_S, lambda: lag_of(servers) == 0)
        print(f"converged {time.monotonic() - begin:.1f} s after the last change")
        urls = [ServerFolder(server.folder / "directory").ldapi_url for server in servers]
        answer = json.loads(mqdssm("compare-replicas", *urls, "-o", "json").splitlines()[-1])
        print(f"compared: {json.dumps(answer)}")
    return 0 if created else 1


if __name__ == "__main__":
    sys.exit(main())
