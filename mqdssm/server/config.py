"""Configuration of a directory server: one TOML file.

The file has no password, and not `restored`, which is for one start. Its paths are relative to its folder.
"""

import json
import re
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mqdssm.drivers.keyring import TrustedSender
from mqdssm.drivers.name_resolution import SocketAddress
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.errors import ConfigError, DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.replication import Service
from mqdssm.wire.keys import PublicKeys

SESSION_PORT: Final = 1801
SERVICES: Final = {Role.PEC: Service.PEC, Role.PSC: Service.PSC, Role.BSC: Service.BSC}
"""PROPID_QM_SERVICE of each role."""
_FIXED: Final = frozenset(
    {"machine_name", "machine_id", "site_id", "role", "pec_name", "psc_name", "restored"}
)
_TIMERS: Final = frozenset(field.name for field in fields(Settings)) - _FIXED


def parse_address(text: str) -> SocketAddress:
    """Parse ``host:port``, ``[address]:port`` or a host alone, whose port is 1801.

    Raises:
        ValueError: no such address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(SESSION_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{text!r} is no address, as 127.0.0.1:1801")
    return SocketAddress(host, int(port))


def _check_address(text: str) -> str:
    parse_address(text)
    return text


def _check_listened(text: str) -> str:
    ip_address(parse_address(text).host)
    return text


def _check_name(text: str) -> str:
    if not text.strip() or "\\" in text or len(text) > 256:
        raise ValueError(f"{text!r} is no name of a machine")
    return text


MachineName = Annotated[str, AfterValidator(_check_name)]
Address = Annotated[str, AfterValidator(_check_address)]
ListenedAddress = Annotated[str, AfterValidator(_check_listened)]


class _Section(BaseModel):
    """Base of all sections: immutable, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ServerSection(_Section):
    """Identity of the server.

    Attributes:
        machine_name: name of its machine.
        machine_id: QueueManager.Identifier.
        role: PEC, PSC or BSC. The role in the directory counts; another one here is an error.
        enterprise: name of the enterprise; a PEC creates it at its first start.
        site: name of its site.
        site_id: identifier of its site.
        pec_name: machine of the PEC, for the first start.
        psc_name: for a BSC: machine of its PSC, for the first start.
    """

    machine_name: MachineName
    machine_id: UUID
    role: Role
    enterprise: str = ""
    site: str = Field(min_length=1)
    site_id: UUID
    pec_name: MachineName
    psc_name: str = ""

    @model_validator(mode="after")
    def _check_role(self) -> "ServerSection":
        if (self.role is Role.BSC) is not bool(self.psc_name):
            raise ValueError("psc_name is for a BSC, and a BSC needs it")
        if self.role is Role.PEC and self.pec_name.casefold() != self.machine_name.casefold():
            raise ValueError("a PEC's pec_name is its own machine_name")
        return self


class TransportSection(_Section):
    """Addresses of messages.

    Attributes:
        listen: IP address and port of the queue manager.
        hosts: addresses of other machines by name; the directory and DNS have the rest.
    """

    listen: ListenedAddress
    hosts: dict[str, Address] = Field(default_factory=dict)


class StoreSection(_Section):
    """Directory of the server: a given one, or a private slapd in its folder.

    Attributes:
        url: of a slapd with the schemas msmq and mqis, for this server alone; empty: a private one.
        user: DN that logs in.
        password_file: file with its password.
        ca_file: PEM file of the authorities to trust.
        base_dn: root of a private directory.
        database_bytes_max: the largest that the database of a private directory may grow.
    """

    url: str = ""
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    base_dn: str = "dc=mqdssm,dc=internal"
    database_bytes_max: int = Field(default=4 << 30, ge=1 << 20)


class PinnedSection(_Section):
    """Key of another server that the directory may not have yet.

    Attributes:
        machine_name: its machine.
        machine_id: its QueueManager.Identifier.
        role: its role.
        public_keys: PROPID_QM_SIGN_PK in base64.
    """

    machine_name: MachineName
    machine_id: UUID
    role: Literal[Role.PEC, Role.PSC]
    public_keys: str

    @field_validator("public_keys")
    @classmethod
    def _check_keys(cls, text: str) -> str:
        try:
            PublicKeys.from_bytes(b64decode(text, validate=True))
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return text

    @property
    def sender(self) -> TrustedSender:
        """The machine with its keys."""
        return TrustedSender(
            machine_name=self.machine_name,
            service=SERVICES[self.role],
            keys=PublicKeys.from_bytes(b64decode(self.public_keys)).keys,
            machine_id=Guid.of(self.machine_id),
        )


def _check_local(text: str) -> str:
    address = _local_address(text)
    ip_address(address.host)
    if not 0 < address.port <= 0xFFFF:
        raise ValueError(f"{text!r} has no port from 1 to 65535, as 127.0.0.1:9464")
    return text


def _local_address(text: str) -> SocketAddress:
    """Parse an address with a port; a port alone is on loopback."""
    is_port = text.isascii() and text.isdigit()
    return parse_address(f"127.0.0.1:{text}" if is_port else text)


class MetricsSection(_Section):
    """Local port of metrics, health and the status page, which has no log-in.

    Attributes:
        address: IP address and port, or a port of 127.0.0.1; None: there is no such port.
        hosts: names by which browsers and Prometheus call this computer, beside localhost, the name of the
            machine and IP addresses; requests with other names are refused (decision T80).
    """

    address: Annotated[str, AfterValidator(_check_local)] | None = None
    hosts: tuple[str, ...] = ()

    @property
    def listen(self) -> SocketAddress | None:
        """The address to listen on; None: there is none."""
        return None if self.address is None else _local_address(self.address)


class ServerConfig(BaseSettings):
    """Configuration of a directory server.

    Attributes:
        server: its identity.
        transport: addresses of messages.
        store: its directory.
        metrics: local port of metrics and the status page.
        timers: intervals and limits of `Settings`, by name.
        pinned: keys of the PEC, and for a BSC of its PSC.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    server: ServerSection
    transport: TransportSection
    store: StoreSection = Field(default_factory=StoreSection)
    metrics: MetricsSection = Field(default_factory=MetricsSection)
    timers: dict[str, float] = Field(default_factory=dict)
    pinned: tuple[PinnedSection, ...] = ()

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the file alone: a variable would change a server in silence."""
        del settings_cls
        return (init_settings,)

    @field_validator("timers")
    @classmethod
    def _check_timers(cls, timers: dict[str, float]) -> dict[str, float]:
        for name, value in timers.items():
            if name not in _TIMERS:
                raise ValueError(f"{name!r} is no setting: {', '.join(sorted(_TIMERS))} are")
            if value < 0:
                raise ValueError(f"{name} is {value}: it cannot be negative")
        return timers

    @classmethod
    def read(cls, file: Path) -> "ServerConfig":
        """Read the configuration from a file.

        Raises:
            ConfigError: the file cannot be read, or has a wrong or unknown setting.
        """
        try:
            with file.open("rb") as opened:
                values = tomllib.load(opened)
        except (OSError, tomllib.TOMLDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"{file} cannot be read: {reason}") from error
        try:
            return cls(**values)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False, include_context=False)
            texts = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
            raise ConfigError(f"{file}: {'; '.join(texts)}") from None

    def settings(self, *, restored: bool = False) -> Settings:
        """Return the settings of the engine.

        Args:
            restored: True for the one start after a backup was restored.
        """
        server, timers = self.server, dict[str, Any](self.timers)
        whole = {field.name for field in fields(Settings) if field.type is int or field.type == "int"}
        return Settings(
            machine_name=server.machine_name,
            machine_id=Guid.of(server.machine_id),
            site_id=Guid.of(server.site_id),
            role=server.role,
            pec_name=server.pec_name,
            psc_name=server.psc_name,
            restored=restored,
            **{name: int(value) if name in whole else value for name, value in timers.items()},
        )

    def trusted_senders(self) -> dict[Guid, TrustedSender]:
        """Return the pinned keys by QueueManager.Identifier."""
        return {Guid.of(pinned.machine_id): pinned.sender for pinned in self.pinned}

    def to_toml(self) -> str:
        """Return the configuration as a file."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        tables = {name: value for name, value in values.items() if isinstance(value, dict)}
        parts = [part for name, table in tables.items() for part in _toml_table(name, table)]
        parts += ["\n".join(("[[pinned]]", *_toml_values(pinned))) for pinned in values.get("pinned", ())]
        return "\n\n".join(parts) + "\n"


def encoded_keys(keys: PublicKeys) -> str:
    """Return public keys as text for `PinnedSection`."""
    return b64encode(bytes(keys)).decode()


def _toml_table(name: str, table: Mapping[str, Any]) -> Iterable[str]:
    """Yield a table, then the tables in it."""
    yield "\n".join((f"[{name}]", *_toml_values(table)))
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml_table(f"{name}.{key}", value)


def _toml_values(table: Mapping[str, Any]) -> Iterable[str]:
    """Yield the simple values of a table; a JSON string is a basic string of TOML."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_toml_key(key)} = {json.dumps(value, ensure_ascii=False)}"


def _toml_key(key: str) -> str:
    """Return a key, quoted unless it may be bare."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
