"""Network whose packets pass through the tests: they are delayed, reordered, lost and cut (Linux, root).

Each host gets an interface whose packets a thread of the tests reads and passes on.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from support.servers.namespaces import Lan

_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_DEVICE: Final = "relay"
_PACKET_MAX: Final = 65_536
_BATCH: Final = 64
"""Packets that are read from one interface before the others have their turn."""
_PREFIX: Final = bytes((10, 78, 0))


class PacketRelay:
    """Passes on packets between hosts; the faults may be changed while it works.

    Args:
        lan: the hosts, in the order of their addresses.
        seed: of the choices.

    Attributes:
        delay_s: how long each packet takes.
        jitter_s: how much longer a packet takes at most, by chance: so packets overtake others.
        loss: share of the packets that are lost.
        cut: hosts that are cut off from all others.
        passed: packets that were passed on.
        overtaken: packets that were passed on before an earlier one of the same two hosts.
    """

    def __init__(self, lan: Lan, seed: int = 1) -> None:
        self.delay_s = self.jitter_s = self.loss = 0.0
        self.cut: frozenset[str] = frozenset()
        self.passed = self.overtaken = 0
        self._hosts: Final = lan.hosts
        self._random: Final = random.Random(seed)
        self._devices: Final = [_open_device(lan.space(host)) for host in self._hosts]
        for host in self._hosts:
            lan.ip(host, "address", "add", f"{self.address(host)}/24", "dev", _DEVICE)
            lan.ip(host, "link", "set", "dev", _DEVICE, "up")
        self._waiting: list[tuple[float, int, int, int, bytes]] = []
        self._numbers: Final = count()
        self._latest: Final[dict[tuple[int, int], int]] = {}
        self._ending, self._wake = os.pipe()
        self._thread: Final = threading.Thread(target=self._run, name="packet relay", daemon=True)

    def address(self, host: str) -> str:
        """IP address of a host."""
        return f"10.78.0.{self._hosts.index(host) + 1}"

    @classmethod
    @contextmanager
    def between(cls, lan: Lan) -> "Iterator[PacketRelay]":
        """Pass on packets during a block."""
        relay = cls(lan)
        relay._thread.start()
        try:
            yield relay
        finally:
            os.close(relay._wake)
            relay._thread.join()
            for descriptor in (*relay._devices, relay._ending):
                os.close(descriptor)

    def _run(self) -> None:
        poll = select.poll()
        for descriptor in (*self._devices, self._ending):
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        places = {device: place for place, device in enumerate(self._devices)}
        while True:
            wait = None if not self._waiting else max(0.0, self._waiting[0][0] - time.monotonic()) * 1000
            for descriptor, _ in poll.poll(wait):
                if descriptor == self._ending:
                    return
                self._read(places[descriptor], descriptor)
            self._pass_on()

    def _read(self, source: int, device: int) -> None:
        for _ in range(_BATCH):
            try:
                packet = os.read(device, _PACKET_MAX)
            except BlockingIOError:
                return
            target = self._target(packet)
            if target is None or self._is_lost(source, target):
                continue
            due = time.monotonic() + self.delay_s + self._random.uniform(0, self.jitter_s)
            heapq.heappush(self._waiting, (due, next(self._numbers), source, target, packet))

    def _target(self, packet: bytes) -> int | None:
        """The host that an IPv4 packet is for; None: no host has the address."""
        is_ours = len(packet) >= 20 and packet[0] >> 4 == 4 and packet[16:19] == _PREFIX
        place = packet[19] - 1 if is_ours else -1
        return place if 0 <= place < len(self._hosts) else None

    def _is_lost(self, source: int, target: int) -> bool:
        is_cut = (self._hosts[source] in self.cut) is not (self._hosts[target] in self.cut)
        return is_cut or self._random.random() < self.loss

    def _pass_on(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, number, source, target, packet = heapq.heappop(self._waiting)
            pair = source, target
            latest = self._latest.get(pair, -1)
            self.overtaken += number < latest
            self._latest[pair] = max(latest, number)
            self.passed += 1
            try:
                os.write(self._devices[target], packet)
            except BlockingIOError:
                continue  # the host's queue is full: lost


def _open_device(space: str) -> int:
    """Make the interface in a network namespace; its descriptor."""
    made: list[int | OSError] = []

    def make() -> None:
        """Enter the namespace, which a thread does for itself alone."""
        try:
            made.append(_make_device(space))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _make_device(space: str) -> int:
    namespace = os.open(Path("/run/netns") / space, os.O_RDONLY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(namespace, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", _DEVICE.encode(), _IFF_TUN_NO_PI))
    return device


def lose(lan: Lan, share: float) -> None:
    """Let all hosts lose a share of the packets that they receive (iptables); 0: none any more."""
    for host in lan.hosts:
        _run_iptables(lan, host, "-F", "INPUT")
        if share:
            rule = ("-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")
            _run_iptables(lan, host, "-A", "INPUT", "!", "-i", "lo", *rule)


def _run_iptables(lan: Lan, host: str, *arguments: str) -> None:
    done = lan.run(host, ["iptables", "-w", *arguments])
    if done.returncode:
        raise OSError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")
