"""Addresses of other servers: of the configuration, and added later."""

import json
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from mqdssm.drivers.queue_manager.outgoing import Address
from mqdssm.drivers.tcp.name_resolution import MachineDirectory, NameResolver
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import write_atomically
from mqdssm.model.guid import Guid
from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address

HOSTS_MAX: Final = 10_000
"""Addresses that are kept; further ones are refused."""


class HostTable:
    """Table of addresses with a file for the added ones; thread-safe.

    The address of a machine that was given last counts: an added one replaces that of the configuration
    until the configuration has another one (decision T122).

    Args:
        file: the file; it is made with the first added address.
        configured: addresses of the configuration, by name of the machine.
        identifiers: identifiers of machines whose names are known.
        machines: names of machines in the directory.

    Attributes:
        resolver: finds machines by this table, the directory and DNS.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(
        self,
        file: Path,
        configured: dict[str, str],
        identifiers: dict[str, UUID],
        machines: MachineDirectory | None,
    ) -> None:
        self._file, self._lock = file, Lock()
        self._configured: Final = {name.casefold(): address for name, address in configured.items()}
        self._identifiers: Final = identifiers
        self._added: Final[dict[str, dict[str, str]]] = _read(file)
        changed = {
            name: row | {"address": self._configured[name], "configured": self._configured[name]}
            for name, row in self._added.items()
            if self._configured.get(name, row.get("configured")) != row.get("configured")
        }
        if changed:
            self._keep(changed)
        resolved: dict[Address, SocketAddress] = {}
        for name, address in self.addresses().items():
            resolved |= dict.fromkeys(self._list_keys(name), parse_socket_address(address))
        self.resolver: Final = NameResolver(resolved, machines)

    def addresses(self) -> dict[str, str]:
        """Return all addresses by name of the machine."""
        with self._lock:
            return self._configured | {name: row["address"] for name, row in self._added.items()}

    def check(self, machine_name: str, address: str) -> SocketAddress:
        """Check that an address can be added; return it.

        Raises:
            ConfigError: too many addresses.
            ValueError: no address.
        """
        host = parse_socket_address(address)
        with self._lock:
            self._check_room(machine_name.casefold())
        return host

    def _check_room(self, name: str) -> None:
        """Check, with the lock held, that the table has room for a machine.

        Raises:
            ConfigError: too many addresses.
        """
        if name not in self._added and len(self._added) >= HOSTS_MAX:
            raise ConfigError(f"{self._file} has {HOSTS_MAX} addresses already: remove some")

    def add(self, machine_name: str, machine_id: UUID | None, address: str) -> None:
        """Add or change the address of a machine, durably.

        Args:
            machine_name: its name.
            machine_id: its QueueManager.Identifier; None: the known one, if there is one.
            address: its address.

        Raises:
            ConfigError: too many addresses, or the file cannot be written.
            ValueError: no address.
        """
        host, name = parse_socket_address(address), machine_name.casefold()
        with self._lock:
            self._check_room(name)
            before = self._added.get(name, {})
            facts = {
                "address": address,
                "id": str(machine_id) if machine_id else before.get("id", ""),
                "configured": self._configured.get(name, ""),
            }
            self._keep({name: {fact: text for fact, text in facts.items() if text}})
            for key in self._list_keys(name):
                self.resolver.add_host(key, host)

    def _keep(self, rows: dict[str, dict[str, str]]) -> None:
        """Write addresses to the file, then to the table.

        Raises:
            ConfigError: the file cannot be written.
        """
        write_atomically(self._file, [json.dumps(self._added | rows, indent=1)])
        self._added.update(rows)

    def _list_keys(self, name: str) -> list[Address]:
        """Return the name of a machine, and its known identifiers."""
        identifiers = {self._identifiers.get(name), self._parse_added_identifier(name)}
        return [name, *(Guid.of(identifier) for identifier in identifiers if identifier is not None)]

    def _parse_added_identifier(self, name: str) -> UUID | None:
        text = self._added.get(name, {}).get("id")
        return UUID(text) if text else None


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        rows = json.loads(file.read_bytes())
        for row in rows.values():
            parse_socket_address(row["address"])
            UUID(row.get("id", str(UUID(int=0))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used: {error}") from error
    return dict(rows)
