"""Configuration of a directory server: one TOML file.

The file has no password, and not `restored`, which is for one start. Its paths are relative to its folder.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from ipaddress import IPv4Address, IPv4Network, ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard
from unicodedata import category
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

from mqdssm.directory.log_in import Authentication, TlsMode
from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.drivers.tcp.network import TcpSettings
from mqdssm.engines.notification.settings import INTERVAL_S, SETTLE_S
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.errors import ConfigError, DecodeError
from mqdssm.events.input_files import TooLongFileError, read_toml
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.notification import NotificationVersion
from mqdssm.model.replication import Service
from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address
from mqdssm.model.suggestions import suggest_name
from mqdssm.wire.keys import PublicKeys

SERVICES: Final = {Role.PEC: Service.PEC, Role.PSC: Service.PSC, Role.BSC: Service.BSC}
"""PROPID_QM_SERVICE of each role."""
_FIXED: Final = frozenset(
    {"machine_name", "machine_id", "site_id", "role", "pec_name", "psc_name", "restored"}
)
_ENGINE: Final = frozenset(field.name for field in fields(Settings)) - _FIXED
_CARRIER: Final = frozenset(
    {"connections_max", "connections_of_address_max", "neighbors_max", "pending_bytes_max", "flush_s"}
)
_SESSION: Final = frozenset(
    {
        "initialization_s",
        "cleanup_s",
        "retry_connect_s",
        "retry_connect_max_s",
        "ack_wait_s",
        "ack_send_max_s",
        "window_size",
    }
)
TIMERS: Final = frozenset(name for name in _ENGINE | _CARRIER | _SESSION if name.endswith("_s"))
"""Names in `[timers]`: those of `Settings`, `TcpSettings` and `SessionSettings` that are seconds."""
LIMITS: Final = (_ENGINE | _CARRIER | _SESSION) - TIMERS
"""Names in `[limits]`: those of the same settings that are numbers."""
TIMER_S_MAX: Final = 2_000_000.0
"""Largest value in `[timers]`, 23 days: waiting calls of systems take milliseconds in 31 bits."""
FLUSH_S: Final = 1.0
"""Seconds for which a stopping server waits for acknowledgements; what is lost is propagated again."""
_NAME_SIGNS: Final = "-_.!@#$%^&'(){}~"  # what Active Directory lets a computer's DNS or NetBIOS name have
_NAME_CHARS_MAX: Final = 256
CONFIG_BYTES_MAX: Final = 1 << 20
"""Longest configuration file: some thousand hosts."""


def _check_address(text: str) -> str:
    parse_socket_address(text)
    return text


def _check_listened(text: str) -> str:
    ip_address(parse_socket_address(text, port_min=0).host)
    return text


def _check_name(text: str) -> str:
    """Refuse what is no computer name in Active Directory, DNS or NetBIOS."""
    wrong = sorted({character for character in text if not _is_of_machine_name(character)})
    if wrong:
        characters = " ".join(map(repr, wrong[:5]))
        raise ValueError(
            f"{text!r} is no name of a machine, because of {characters}: "
            f"letters, digits and {_NAME_SIGNS} are allowed"
        )
    if not 1 <= len(text) <= _NAME_CHARS_MAX:
        raise ValueError(f"{text!r} is no name of a machine: it has 1 to {_NAME_CHARS_MAX} characters")
    return text


def _is_of_machine_name(character: str) -> bool:
    return character.isalnum() or category(character) in {"Mn", "Mc"} or character in _NAME_SIGNS


def _check_optional_name(text: str) -> str:
    return _check_name(text) if text else text


def _check_characters(text: str) -> str:
    """Refuse control characters, and halves of surrogate pairs."""
    if any(category(character) in {"Cc", "Cs"} for character in text):
        raise ValueError(f"{text!r} is no name: it has a control character, or one that is not in Unicode")
    return text


MachineName = Annotated[str, AfterValidator(_check_name)]
NameText = Annotated[str, AfterValidator(_check_characters)]
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
        role: PEC, PSC or BSC at the first start; later the directory has it, and the file follows (T133).
        enterprise: name of the enterprise; a PEC creates it at its first start.
        site: name of its site.
        site_id: identifier of its site.
        pec_name: machine of the PEC; it follows, too.
        psc_name: for a BSC: machine of its PSC; likewise.
    """

    machine_name: MachineName
    machine_id: UUID
    role: Role
    enterprise: NameText = ""
    site: NameText = Field(min_length=1)
    site_id: UUID
    pec_name: MachineName
    psc_name: Annotated[str, AfterValidator(_check_optional_name)] = ""

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
        tls: as `ConnectionOptions`, like the following.
        ca_file: PEM file of the authorities to trust.
        base_dn: root of a private directory.
        database_bytes_max: the largest that the database of a private directory may grow.
    """

    url: str = ""
    user: str = ""
    password_file: Path | None = None
    tls: TlsMode | None = None
    ca_file: Path | None = None
    authentication: Authentication | None = None
    keytab: Path | None = None
    kerberos_host: str | None = None
    naming_context: str | None = None
    allow_clear_text: bool = False
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
    address = _parse_local_address(text)
    ip_address(address.host)
    if not address.port:
        raise ValueError(f"{text!r} has no port from 1 to 65535, as 127.0.0.1:9464")
    return text


def _parse_local_address(text: str) -> SocketAddress:
    """Parse an address with a port; a port alone is on loopback."""
    is_port = text.isascii() and text.isdigit()
    return parse_socket_address(f"127.0.0.1:{text}" if is_port else text, port_min=0)


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
        return None if self.address is None else _parse_local_address(self.address)


def _check_ipv4(text: str) -> str:
    IPv4Address(parse_socket_address(text, port_min=0).host)
    return text


class DiscoverySection(_Section):
    """Answers to machines that look for a directory server ([MS-MQSD]).

    Attributes:
        listen: IPv4 addresses and UDP ports, as 0.0.0.0:1801, which receives broadcasts; none: no answers.
        allow_from: IPv4 networks that are answered beside those of this computer.
    """

    listen: tuple[Annotated[str, AfterValidator(_check_ipv4)], ...] = ()
    allow_from: tuple[IPv4Network, ...] = ()

    @property
    def addresses(self) -> tuple[SocketAddress, ...]:
        """Addresses to listen on."""
        return tuple(parse_socket_address(address, port_min=0) for address in self.listen)


class NotificationSection(_Section):
    """Notifications of the owners of changed objects ([MS-MQCN]).

    Attributes:
        send: True to send them; one server of the enterprise is enough (decision T63).
        version: 2, after which receivers read the object; 1 as MSMQ's directory servers, for which each
            object must have a security descriptor.
        receive: True to receive those about the server's own machine.
        settle_s: seconds for which the first one that is received waits for others.
        interval_s: seconds between two times at which received ones are processed.
    """

    send: bool = False
    version: NotificationVersion = NotificationVersion.BODY
    receive: bool = False
    settle_s: float = Field(default=SETTLE_S, ge=0, le=TIMER_S_MAX)
    interval_s: float = Field(default=INTERVAL_S, ge=0, le=TIMER_S_MAX)


class ServerConfig(BaseSettings):
    """Configuration of a directory server.

    Attributes:
        server: its identity.
        transport: addresses of messages.
        store: its directory.
        metrics: local port of metrics and the status page.
        discovery: answers to machines that look for a directory server.
        notification: notifications of the owners of changed objects.
        timers: seconds, by the names of `TIMERS`.
        limits: numbers, by the names of `LIMITS`.
        pinned: keys of the PEC, and for a BSC of its PSC.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    server: ServerSection
    transport: TransportSection
    store: StoreSection = Field(default_factory=StoreSection)
    metrics: MetricsSection = Field(default_factory=MetricsSection)
    discovery: DiscoverySection = Field(default_factory=DiscoverySection)
    notification: NotificationSection = Field(default_factory=NotificationSection)
    timers: dict[str, Annotated[float, Field(ge=0, le=TIMER_S_MAX)]] = Field(default_factory=dict)
    limits: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    pinned: tuple[PinnedSection, ...] = ()

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the file alone: a variable would change a server in silence."""
        del settings_cls
        return (init_settings,)

    @classmethod
    def read(cls, file: Path) -> "ServerConfig":
        """Read the configuration from a file.

        Raises:
            ConfigError: the file cannot be read, or has a wrong or unknown setting.
        """
        values = _document_of(file)
        for place, name, names in _find_unknown_settings(values):
            raise ConfigError(_words_of_unknown(f"{file}: [{place}]" if place else f"{file}", name, names))
        try:
            return cls(**values)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False, include_context=False)
            texts = (
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].removeprefix('Value error, ')}"
                for problem in problems
            )
            raise ConfigError(f"{file}: {'; '.join(texts)}") from None

    def settings(self, *, restored: bool = False) -> Settings:
        """Return the settings of the engine.

        Args:
            restored: True for the one start after a backup was restored.

        Raises:
            ConfigError: a timer or limit that cannot be.
        """
        server = self.server
        try:
            return Settings(
                machine_name=server.machine_name,
                machine_id=Guid.of(server.machine_id),
                site_id=Guid.of(server.site_id),
                role=server.role,
                pec_name=server.pec_name,
                psc_name=server.psc_name,
                restored=restored,
                **self._select_settings(_ENGINE),
            )
        except ValueError as error:
            raise ConfigError(f"the configuration cannot be used: {error}") from error

    def tcp_settings(self) -> TcpSettings:
        """Return the settings of the carrier of messages.

        Raises:
            ConfigError: a timer or limit that cannot be.
        """
        try:
            sessions = SessionSettings(identifier=NULL_GUID, **self._select_settings(_SESSION))
        except ValueError as error:
            raise ConfigError(f"the configuration cannot be used: {error}") from error
        return TcpSettings(sessions=sessions, **{"flush_s": FLUSH_S, **self._select_settings(_CARRIER)})

    def _select_settings(self, names: Collection[str]) -> dict[str, Any]:
        """Return the timers and limits that the file has, of some names."""
        given: dict[str, Any] = {**self.timers, **self.limits}
        return {name: value for name, value in given.items() if name in names}

    def trusted_senders(self) -> dict[Guid, TrustedSender]:
        """Return the pinned keys by QueueManager.Identifier."""
        return {Guid.of(pinned.machine_id): pinned.sender for pinned in self.pinned}

    def to_toml(self) -> str:
        """Return the configuration as a file."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        tables = {name: value for name, value in values.items() if isinstance(value, dict)}
        parts = [part for name, table in tables.items() for part in _format_toml_table(name, table)]
        parts += [
            "\n".join(("[[pinned]]", *_format_toml_values(pinned))) for pinned in values.get("pinned", ())
        ]
        return "\n\n".join(parts) + "\n"


def _document_of(file: Path) -> dict[str, Any]:
    """Read a file of TOML.

    Raises:
        ConfigError: it cannot be read, is too long or no TOML.
    """
    try:
        return read_toml(file, CONFIG_BYTES_MAX)
    except FileNotFoundError:
        raise ConfigError(f"there is no {file}: 'mqdssm enterprise init' makes one") from None
    except TooLongFileError:
        text = f"{file} is longer than {CONFIG_BYTES_MAX} octets: it is no configuration"
        raise ConfigError(text) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file} cannot be read: {reason}") from error


def _find_unknown_settings(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Collection[str]]]:
    """Yield unknown settings: table, name, and the names that there are."""
    sections = {name: field.annotation for name, field in ServerConfig.model_fields.items()}
    settings_of: dict[str, Collection[str]] = {
        **{name: kind.model_fields for name, kind in sections.items() if _is_section(kind)},
        "timers": TIMERS,
        "limits": LIMITS,
        "pinned": PinnedSection.model_fields,
    }
    for section, content in document.items():
        if section not in settings_of:
            yield "", section, settings_of
            continue
        for table in content if isinstance(content, list) else [content]:
            if isinstance(table, dict):
                yield from (
                    (section, name, settings_of[section])
                    for name in table
                    if name not in settings_of[section]
                )


def _is_section(kind: Any) -> TypeGuard[type[_Section]]:
    return isinstance(kind, type) and issubclass(kind, _Section)


def _words_of_unknown(where: str, name: str, names: Collection[str]) -> str:
    """Return the message for an unknown setting, which would have no effect."""
    if name == "password":
        return f"{where} holds a password: put it into a file, and name that with password_file"
    if name == "restored":
        return f"{where} has 'restored', which is for one start: give serve the option --restored"
    return f"{where} has {name!r}, which is no setting{suggest_name(name.lower(), sorted(names))}"


def encode_keys(keys: PublicKeys) -> str:
    """Return public keys as text for `PinnedSection`."""
    return b64encode(bytes(keys)).decode()


def _format_toml_table(name: str, table: Mapping[str, Any]) -> Iterable[str]:
    """Yield a table, then the tables in it."""
    yield "\n".join((f"[{name}]", *_format_toml_values(table)))
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _format_toml_table(f"{name}.{key}", value)


def _format_toml_values(table: Mapping[str, Any]) -> Iterable[str]:
    """Yield the simple values of a table."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_format_toml_key(key)} = {format_toml_value(value)}"


def _format_toml_key(key: str) -> str:
    """Return a key, quoted unless it may be bare."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else format_toml_value(key)


def format_toml_value(value: Any) -> str:
    """Return a value of TOML; a JSON string is one, but for U+007F."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
