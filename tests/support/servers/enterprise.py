"""Enterprise of directory servers as processes, each with its own slapd, on a host of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Any, Final, TextIO

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryError
from mqdssm.server.config import StoreSection
from mqdssm.server.control_client import ControlClient
from mqdssm.server.setup import add_server, make_pec
from mqdssm.server.snapshot import ServerSnapshot
from mqdssm.testing.openldap_config import ServerFolder
from support.servers.namespaces import Lan
from support.servers.packet_relay import PacketRelay

PROGRAM: Final = (sys.executable, "-c", "from mqdssm.cli.main import run; run()")
NETWORK: Final = "wan"
PORT: Final = 1801
START_S: Final = 120.0
STOP_S: Final = 60.0


@dataclass(frozen=True)
class Place:
    """Name, site and role of a server; the PSC of a site comes before its BSCs."""

    name: str
    site: str
    role: Role

    @property
    def host(self) -> str:
        """Its host in the network."""
        return self.name.lower()


FIVE: Final = (
    Place("PEC01", "Berlin", Role.PEC),
    Place("PSC01", "Paris", Role.PSC),
    Place("PSC02", "Oslo", Role.PSC),
    Place("BSC01", "Paris", Role.BSC),
    Place("BSC02", "Oslo", Role.BSC),
)


@dataclass
class Member:
    """A server of the enterprise, which may run.

    Attributes:
        place: its name, site and role.
        folder: its folder.
        process: its process; None: it was ended.
        environment: of its process, beside that of the tests.
        program: command line of mqdssm, of this version or another one.
    """

    place: Place
    folder: Path
    process: "subprocess.Popen[str] | None" = None
    environment: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = PROGRAM

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def host(self) -> str:
        return self.place.host

    @property
    def socket(self) -> Path:
        """Its control socket."""
        return self.folder / "control.sock"

    @property
    def log(self) -> Path:
        """What it says on standard error, in all its lives."""
        return self.folder.parent / f"{self.host}.log"

    @property
    def ldapi_url(self) -> str:
        """URL of its private directory."""
        return ServerFolder(self.folder / "directory").ldapi_url

    @property
    def config(self) -> Path:
        return self.folder / "server.toml"

    def status(self) -> ServerSnapshot:
        with ControlClient(self.socket) as client:
            return client.status()


def wait_for(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; a server that does not answer makes it false."""
    deadline = time.monotonic() + seconds
    while True:
        problem = ""
        try:
            if condition():
                return
        except DirectoryError as error:
            problem = str(error)
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s; {problem}"
        time.sleep(0.2)


class EnterpriseProcesses:
    """The servers, which the tests start, end and harm.

    Args:
        folder: the servers' folders are made here.
        places: the servers.
        address_of: IP address and port of the server of a host.
        launch: starts a program on a host, as `Lan.start`.
        settings: further tables of all configurations.
        own_settings: further tables of the configurations of single servers, by name.
        program: command line of mqdssm by which the servers are started at first.
    """

    def __init__(
        self,
        folder: Path,
        places: Sequence[Place] = FIVE,
        *,
        address_of: Callable[[str], str],
        launch: Callable[..., "subprocess.Popen[str]"],
        settings: str = "",
        own_settings: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.members = {place.name: Member(place, folder / place.host, program=program) for place in places}
        self._address_of, self._launch = address_of, launch
        self._settings, self._own_settings = settings, own_settings or {}

    @property
    def pec(self) -> Member:
        return next(iter(self.members.values()))

    def build(self) -> Iterator[tuple[str, float]]:
        """Make and start all servers, and tell each the addresses of the others.

        Yields each role and the seconds until its servers worked.
        """
        for role, tier in groupby(self.members.values(), lambda member: member.place.role):
            begin, started = time.monotonic(), list(tier)
            for member in started:
                self._make(member)
                self.start(member.name)
            for member in started:
                wait_for(f"{member.name} has its machine", START_S, partial(_is_known, member))
            yield role.value, time.monotonic() - begin
        for member in self.members.values():
            with ControlClient(member.socket) as client:
                for other in self.members.values():
                    client.add_host(other.name, self._address_of(other.host))

    def _make(self, member: Member) -> None:
        """Make the folder of a server; one above it admits it."""
        place, listen = member.place, self._address_of(member.host)
        name, site = place.name, place.site
        if place.role is Role.PEC:
            store = StoreSection()
            make_pec(
                member.folder, enterprise="Contoso", site=site, machine_name=name, listen=listen, store=store
            )
        else:
            above = self.pec if place.role is Role.PSC else self.psc_of(place.site)
            with ControlClient(above.socket) as client:
                add_server(
                    member.folder, client, role=place.role, site=site, machine_name=name, listen=listen
                )
        with member.config.open("a") as file:
            file.write(f"\n{self._settings}\n{self._own_settings.get(place.name, '')}\n")

    def psc_of(self, site: str) -> Member:
        """The server that owns a site's partition."""
        return next(member for member in self.members.values() if member.place.site == site)

    def start(self, name: str, *options: str) -> None:
        """Start a server, and wait until it is ready."""
        member = self.members[name]
        line = [*member.program, "serve", str(member.config), "-o", "json", *options]
        with member.log.open("a") as log:
            process = self._launch(member.host, line, stderr=log, env={**os.environ, **member.environment})
        output = process.stdout
        assert output is not None
        for text in output:
            if json.loads(text)["event"] == "ready":
                break
        else:
            output.close()
            process.wait(STOP_S)
            raise AssertionError(f"{name} does not start: {member.log.read_text()[-2000:]}")
        member.process = process
        Thread(target=_read_all, args=(output,), daemon=True).start()  # else the pipe would fill

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        """Send a server a signal, and wait for its end."""
        member = self.members[name]
        process, member.process = member.process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(STOP_S)

    def close(self) -> None:
        """Stop all servers."""
        for member in self.members.values():
            if member.process is not None:
                member.process.terminate()
        for name in self.members:
            self.end(name)

    def last_numbers(self) -> list[dict[str, int]]:
        """The last number of each partition, at each server."""
        return [
            {str(part.partition_id): part.last_number for part in member.status().partitions}
            for member in self.members.values()
        ]

    def lag(self) -> int:
        """The largest difference of the last number of a partition between two servers."""
        known = self.last_numbers()
        names = {name for numbers in known for name in numbers}
        columns = [[numbers.get(name, 0) for numbers in known] for name in names]
        return max(max(column) - min(column) for column in columns)

    def compare(self) -> dict[str, Any]:
        """Compare the replicas object by object; the summary of the command."""
        urls = [member.ldapi_url for member in self.members.values()]
        done = subprocess.run(
            [*PROGRAM, "compare-replicas", *urls, "-o", "json"], capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        assert lines, done.stderr
        if done.returncode:
            raise AssertionError("\n".join(lines[-20:]))
        summary: dict[str, Any] = json.loads(lines[-1])
        return summary


def _read_all(output: TextIO) -> None:
    with output:
        for _ in output:
            pass


def _is_known(member: Member) -> bool:
    """Whether a server has its site's partition with its own machine."""
    snapshot = member.status()
    own = next((part for part in snapshot.partitions if part.partition_id == snapshot.site_id), None)
    return own is not None and own.last_number >= (2 if member.place.role is Role.BSC else 1)


@contextmanager
def building(made: EnterpriseProcesses) -> Iterator[EnterpriseProcesses]:
    """Make and start the servers of an enterprise; all are stopped in the end."""
    try:
        for _ in made.build():
            pass
        yield made
    finally:
        made.close()


@contextmanager
def bad_network(
    folder: Path, places: Sequence[Place] = FIVE, **settings: Any
) -> Iterator[tuple[EnterpriseProcesses, Lan, PacketRelay]]:
    """Servers on hosts whose packets the tests pass on."""
    with Lan.made({NETWORK: [place.host for place in places]}) as lan, PacketRelay.between(lan) as relay:
        for host in lan.hosts:
            lan.ip(host, "link", "set", "lo", "up")
        made = EnterpriseProcesses(
            folder,
            places,
            address_of=lambda host: f"{relay.address(host)}:{PORT}",
            launch=lan.start,
            **settings,
        )
        with building(made):
            yield made, lan, relay


@contextmanager
def on_loopback(
    folder: Path, places: Sequence[Place] = FIVE, **settings: Any
) -> Iterator[EnterpriseProcesses]:
    """Servers on ports of this computer."""
    ports = {place.host: free_port() for place in places}
    made = EnterpriseProcesses(
        folder,
        places,
        address_of=lambda host: f"127.0.0.1:{ports[host]}",
        launch=lambda _host, line, **more: subprocess.Popen(line, text=True, stdout=subprocess.PIPE, **more),
        **settings,
    )
    with building(made):
        yield made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
