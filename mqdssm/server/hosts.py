"""Addresses of other servers: of the configuration, and added later."""

import json
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from mqdssm.drivers.name_resolution import MachineDirectory, NameResolver, SocketAddress
from mqdssm.drivers.outgoing import Address
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import replace_file
from mqdssm.model.guid import Guid
from mqdssm.server.config import parse_address

HOSTS_MAX: Final = 10_000
"""Addresses that are kept; further ones are refused."""


class HostTable:
    """Table of addresses with a file for the added ones; thread-safe.

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
        self._added: Final[dict[str, dict[str, str]]] = _read(file)
        self._configured: Final = configured
        resolved: dict[Address, SocketAddress] = {}
        for name, address in self.addresses().items():
            resolved[name] = parse_address(address)
            identifier = identifiers.get(name.casefold())
            if identifier is not None:
                resolved[Guid.of(identifier)] = resolved[name]
        for row in self._added.values():
            if row.get("id"):
                resolved[Guid.of(UUID(row["id"]))] = parse_address(row["address"])
        self.resolver: Final = NameResolver(resolved, machines)

    def addresses(self) -> dict[str, str]:
        """Return all addresses by name of the machine; the configuration's count."""
        with self._lock:
            added = {name: row["address"] for name, row in self._added.items()}
        return added | {name.casefold(): address for name, address in self._configured.items()}

    def add(self, machine_name: str, machine_id: UUID | None, address: str) -> None:
        """Add or change the address of a machine, durably.

        Raises:
            ConfigError: too many addresses, or the file cannot be written.
            ValueError: no address.
        """
        host, name = parse_address(address), machine_name.casefold()
        with self._lock:
            if name not in self._added and len(self._added) >= HOSTS_MAX:
                raise ConfigError(f"{self._file} has {HOSTS_MAX} addresses already: remove some")
            self._added[name] = {"address": address} | ({"id": str(machine_id)} if machine_id else {})
            try:
                replace_file(self._file, [json.dumps(self._added, indent=1).encode()])
            except OSError as error:
                raise ConfigError(f"{self._file} cannot be written: {error.strerror}") from error
        self.resolver.add_host(name, host)
        if machine_id is not None:
            self.resolver.add_host(Guid.of(machine_id), host)


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        rows = json.loads(file.read_bytes())
        for row in rows.values():
            parse_address(row["address"])
            UUID(row.get("id", str(UUID(int=0))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used: {error}") from error
    return dict(rows)
