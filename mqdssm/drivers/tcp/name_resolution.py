"""Socket addresses of queue managers, from configured hosts, directory and DNS.

See [MS-MQQB] 3.1.5.2.1.
"""

import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mqdssm.drivers.queue_manager.outgoing import Address
from mqdssm.errors import DirectoryError, MappingError, ObjectNotFound, TransportError
from mqdssm.events.facade import Directory
from mqdssm.model.elements import QueueManager
from mqdssm.model.filters import Filter
from mqdssm.model.guid import Guid
from mqdssm.model.packets import SESSION_PORT
from mqdssm.model.socket_addresses import SocketAddress

log: Final = logging.getLogger(__name__)

BELIEVED_S: Final = 60.0
"""Seconds for which an answer of the directory is used: a renamed machine is found within a minute."""
UNKNOWN_S: Final = 5.0
"""Seconds for which the directory is not asked after a failure: the time between two attempts to connect."""
ANSWERS_MAX: Final = 1000
"""Maximum number of cached answers; the oldest ones are dropped."""


class MachineNames(NamedTuple):
    """Names of a machine in the directory.

    Attributes:
        computer_name: QueueManager.ComputerName.
        dns_name: QueueManager.QualifiedComputerName; "" if the directory has none.
        identifier: QueueManager.Identifier; None: not known.
    """

    computer_name: str
    dns_name: str
    identifier: Guid | None = None


class MachineDirectory(Protocol):
    """Directory of machines: `DirectoryMachines`."""

    def find(self, machine: str | Guid) -> MachineNames | None:
        """Return the names of a machine; None if there is no such machine.

        Raises:
            DirectoryError: the directory cannot be read.
        """


class DirectoryMachines:
    """Machines in a directory, by their ComputerName or Identifier.

    Args:
        directory: connected; its owner closes it.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def find(self, machine: str | Guid) -> MachineNames | None:
        """Return the names of a machine; None if there is no such machine.

        Raises:
            DirectoryError: the directory cannot be read.
        """
        if isinstance(machine, Guid):
            condition = Filter("Identifier", "==", machine.uuid)
        else:
            condition = Filter("ComputerName", "==", machine.partition(".")[0])
        try:
            element = self._directory.read(
                QueueManager, condition, attributes=["ComputerName", "QualifiedComputerName", "Identifier"]
            )
        except ObjectNotFound:
            return None
        identifier = None if element.identifier is None else Guid.of(element.identifier)
        names = MachineNames(element.computer_name or "", element.qualified_computer_name or "", identifier)
        is_full = isinstance(machine, str) and "." in machine
        return None if is_full and names.dns_name.casefold() != machine else names


class NameResolver:
    """Resolver of the addresses in format names; thread-safe.

    The hosts of the configuration come first. Then a machine's DNS name in the directory counts, then the
    name itself. In an outage of the directory an old answer is used (decision T41). DNS is asked each time:
    a machine may have a new address (decision T141).

    Args:
        hosts: socket addresses by machine name in any case, DNS name, QueueManager.Identifier or IP address.
        directory: names of machines; None: names and DNS alone.
        port: port of machines that `hosts` does not have.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        hosts: Mapping[Address, SocketAddress] = MappingProxyType({}),
        directory: MachineDirectory | None = None,
        *,
        port: int = SESSION_PORT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts: Final = {_key(address): host for address, host in hosts.items()}
        self._directory, self._port, self._clock = directory, port, clock
        self._answers: Final[OrderedDict[Address, tuple[float, _Answer]]] = OrderedDict()
        self._lock: Final = Lock()

    def resolve(self, address: Address) -> tuple[SocketAddress, ...]:
        """Return a machine's socket addresses, in the order in which to try them.

        The call may block.

        Raises:
            TransportError: nobody knows the machine, or the directory cannot be read.
        """
        key = _key(address)
        now = self._clock()
        with self._lock:
            until, answer = self._answers.get(key, (now, None))
        if answer is None or until <= now:
            try:
                answer, lasts_s = self._look_up(key), BELIEVED_S
            except (DirectoryError, MappingError) as error:
                if not isinstance(answer, tuple):
                    answer = f"{address} cannot be looked up in the directory: {error}"
                lasts_s = UNKNOWN_S
            except TransportError as error:
                answer, lasts_s = str(error), UNKNOWN_S
            self._remember(key, answer, now + lasts_s)
        if isinstance(answer, str):
            raise TransportError(answer)
        for host in answer:
            if addresses := _ask_dns(host):
                return addresses
        names = ", ".join(dict.fromkeys(host.host for host in answer)) or str(address)
        raise TransportError(
            f"DNS has no address of {names}: add one there, or to the hosts of the configuration"
        )

    def add_host(self, address: Address, host: SocketAddress) -> None:
        """Set the socket address of a machine, as if the configuration had it."""
        with self._lock:
            self._hosts[_key(address)] = host
            self._answers.pop(_key(address), None)

    def forget(self, address: Address) -> None:
        """Ask the directory anew next time: the machine was not reached."""
        with self._lock:
            until, answer = self._answers.get(_key(address), (0.0, None))
            if answer is not None:
                self._answers[_key(address)] = min(until, self._clock()), answer

    def is_of_another(self, address: Address, identifier: Guid) -> bool:
        """Return True if an identifier is another machine's than an address.

        The call may block. False if the directory cannot be read, or does not know both: a machine may be
        new, or have another name in DNS.
        """
        if self._directory is None or not isinstance(address, str):
            return False
        try:
            expected = self._directory.find(address.casefold())
            if expected is None or expected.identifier in {None, identifier}:
                return False
            return self._directory.find(identifier) is not None
        except (DirectoryError, MappingError) as error:
            log.info("%s cannot be looked up in the directory: %s", identifier, error)
            return False

    def _remember(self, key: Address, answer: "_Answer", until: float) -> None:
        with self._lock:
            self._answers[key] = until, answer
            self._answers.move_to_end(key)
            if len(self._answers) > ANSWERS_MAX:
                self._answers.popitem(last=False)

    def _look_up(self, address: Address) -> tuple[SocketAddress, ...]:
        """Return the socket addresses of a machine, with IP addresses or names for DNS.

        Raises:
            TransportError: no machine has the identifier.
        """
        if address in self._hosts:
            return (self._hosts[address],)
        if isinstance(address, IPv4Address | IPv6Address):
            return (SocketAddress(str(address), self._port),)
        names = None if self._directory is None else self._directory.find(address)
        if isinstance(address, Guid) and names is None:
            raise TransportError(
                f"no machine has the identifier {address} in the directory: wait for replication, or add it "
                "to the hosts of the configuration"
            )
        candidates = [] if isinstance(address, Guid) else [address]
        if names is not None:
            candidates = [name for name in (names.dns_name, names.computer_name) if name] + candidates
        identifier = None if names is None else names.identifier
        for candidate in (*candidates, identifier):  # a machine that was renamed keeps its identifier
            if candidate is not None and _key(candidate) in self._hosts:
                return (self._hosts[_key(candidate)],)
        return tuple(SocketAddress(name, self._port) for name in candidates)


_Answer = tuple[SocketAddress, ...] | str
"""Socket addresses with IP addresses or names for DNS, or why there are none."""


def _key(address: Address) -> Address:
    return address.casefold() if isinstance(address, str) else address


def _ask_dns(host: SocketAddress) -> tuple[SocketAddress, ...]:
    """Return the socket addresses of a host, without duplicates.

    The result is the host itself if it has an IP address, and empty if DNS does not have its name.
    """
    with suppress(ValueError):
        ip_address(host.host)
        return (host,)
    try:
        rows = socket.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # a label that is empty or too long is no DNS name
        return ()
    return tuple(dict.fromkeys(SocketAddress(str(row[4][0]), host.port) for row in rows))
