"""Networks of a test's own: Linux network namespaces, joined by bridges (iproute2, root)."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from support.programs import starting

_numbers = count(1)


def ip(*arguments: str) -> None:
    """Run iproute2."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def ip_batch(commands: Iterable[str], *options: str) -> None:
    """Run several commands of iproute2 in one process; the first that fails ends it, unless forced."""
    text = "\n".join(commands)
    done = subprocess.run(
        ["ip", *options, "-batch", "-"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode and "-force" not in options:
        raise OSError(f"ip {' '.join(options)}, of these commands:\n{text}\n{done.stderr.strip()}")


@cache
def why_not() -> str:
    """Why this machine can have no network namespaces; empty: it can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        with Lan.made({"x": ["y"]}) as lan:
            lan.run("y", ["true"])
    except FileNotFoundError:
        return "iproute2 is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return f"this kernel or container allows no network namespaces: {error}"
    return ""


@dataclass(frozen=True)
class Lan:
    """Some networks, and hosts on them: each host is a namespace with one interface for each network.

    The first network is 10.77.1.0/24, the second 10.77.2.0/24; the first host on it has address 1.
    """

    stem: str
    networks: dict[str, list[str]]

    @classmethod
    @contextmanager
    def made(cls, networks: dict[str, list[str]]) -> "Iterator[Lan]":
        """Make them; all of it vanishes at the end.

        Args:
            networks: name of each -> the hosts on it.
        """
        lan = cls(f"mq{os.getpid() % 100_000}n{next(_numbers)}", networks)
        try:
            lan._make()
            yield lan
        finally:
            ip_batch((f"netns delete {space}" for space in lan._spaces), "-force")

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(host for some in self.networks.values() for host in some))

    def space(self, name: str) -> str:
        """Name of the namespace of a host."""
        return f"{self.stem}-{name}"

    @property
    def _spaces(self) -> list[str]:
        return [self.space(name) for name in ("switch", *self.hosts)]

    def _make(self) -> None:
        ip_batch(f"netns add {space}" for space in self._spaces)
        switch: list[str] = []
        of_hosts: dict[str, list[str]] = {host: [] for host in self.hosts}
        for network, hosts in self.networks.items():
            bridge = f"net-{network}"
            switch += [f"link add name {bridge} type bridge", f"link set dev {bridge} up"]
            for host in hosts:
                port, space = self._port(network, host), self.space(host)
                switch.append(f"link add name {port} type veth peer name {bridge} netns {space}")
                switch.append(f"link set dev {port} master {bridge} up")
                address = f"{self.address(network, host)}/24"
                of_hosts[host].append(f"address add {address} broadcast + dev {bridge}")
                of_hosts[host].append(f"link set dev {bridge} up")
        ip_batch(switch, "-n", self.space("switch"))
        for host, commands in of_hosts.items():
            ip_batch(commands, "-n", self.space(host))

    def address(self, network: str, host: str) -> str:
        number = list(self.networks).index(network) + 1
        return f"10.77.{number}.{self.networks[network].index(host) + 1}"

    def broadcast(self, network: str) -> str:
        return f"10.77.{list(self.networks).index(network) + 1}.255"

    def ip(self, host: str, *arguments: str) -> None:
        """Run iproute2 on a host."""
        ip("-n", self.space(host), *arguments)

    def cut(self, network: str, host: str) -> None:
        """Let everything to and from a host on a network be lost."""
        ip("-n", self.space("switch"), "link", "set", "dev", self._port(network, host), "nomaster")

    def mend(self, network: str, host: str) -> None:
        """End a cut."""
        ip("-n", self.space("switch"), "link", "set", "dev", self._port(network, host), "master",
           f"net-{network}")  # fmt: skip

    def _port(self, network: str, host: str) -> str:
        return f"port-{network}{self.networks[network].index(host) + 1}"

    def run(self, host: str, command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on a host, to its end."""
        return starting.run(command, network=self.space(host), text=True, timeout=60, **more)

    def start(self, host: str, command: Sequence[str], **more: Any) -> "subprocess.Popen[str]":
        """Start a program on a host."""
        return starting.start(command, network=self.space(host), text=True, stdout=subprocess.PIPE, **more)
