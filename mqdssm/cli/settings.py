"""Settings of a run: options, environment and configuration file.

Options have precedence over the environment, and both over the file.
The configuration file is TOML: settings at its top, or several connections by name::

    default = "lab"

    [connections.lab]
    url = "ldap://ldap.example.com"
    user = "cn=admin,dc=example,dc=com"
    password_file = "lab.password"      # relative to this file
    ca_file = "ca.pem"
    read_only = true

A password is neither an option nor in this file: both are read by too many.
"""

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, NoDecode, SettingsConfigDict
from pydantic_settings.sources import PydanticBaseSettingsSource

from mqdssm.cli.config_file import read_config
from mqdssm.cli.exits import UsageProblem
from mqdssm.directory.log_in import Authentication, TlsMode
from mqdssm.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "MQDSSM_"
NEARLY: Final = 0.9
"""Minimum similarity, 0 to 1, of a misspelt variable's name."""
_NO_SETTINGS: Final = frozenset({"MQDSSM_CONFIG", "MQDSSM_CONNECTION"})
"""Variables that name a source of settings."""

_TRUE_OR_FALSE: Final = "true or false is expected"
_WORDS: Final[Mapping[str, str]] = {"bool_parsing": _TRUE_OR_FALSE, "bool_type": _TRUE_OR_FALSE}
"""Messages in place of pydantic's, by type of error."""

log: Final = logging.getLogger(__name__)


class CommandSettings(BaseSettings):
    """Settings of a run, each from the source of highest precedence.

    Attributes:
        url: LDAP servers, tried in this order.
        user: who logs in; None: nobody, or over ``ldapi:`` the user of the process.
        password: from ``MQDSSM_PASSWORD``; never shown.
        password_file: a file that holds the password.
        tls: ``ldaps``, ``starttls`` or ``none``; None: as the URL says.
        authentication: how to log in; None: by what else is given.
        keytab: file with the user's Kerberos keys, instead of a password.
        kerberos_host: name of the server in its tickets, if the URL has another one.
        ca_file: PEM file of the authorities to trust; None: those of the system.
        profile: kind of server, or ``auto``.
        read_only: nothing is ever written.
        naming_context: where computers, queues and users are, if not below the root (decision M8).
        forest: look for objects of all domains, through a global catalog (decision M73).
        catalog: global catalogs, tried in this order; none: the servers' own.
        allow_clear_text: let the password go in clear text to another machine.
        allow_replicated: change the directory of a replicating server, too (decision R106).
        log_file: a file for the log; None: it stays in memory.
        spark_master: where Spark runs; None: on this machine.
        spark_conf: settings of Spark, each ``KEY=VALUE``.
        spark_shared: a folder that all machines of a cluster see.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
    )

    url: Annotated[tuple[str, ...], NoDecode] = ()
    user: str | None = None
    password: SecretStr | None = Field(default=None, repr=False)
    password_file: Path | None = None
    tls: TlsMode | None = None
    authentication: Authentication | None = None
    keytab: Path | None = None
    kerberos_host: str | None = None
    ca_file: Path | None = None
    profile: str = "auto"
    read_only: bool = False
    naming_context: str | None = None
    forest: bool = False
    catalog: Annotated[tuple[str, ...], NoDecode] = ()
    allow_clear_text: bool = False
    allow_replicated: bool = False
    log_file: Path | None = None
    spark_master: str | None = None
    spark_conf: Annotated[tuple[str, ...], NoDecode] = ()
    spark_shared: Path | None = None

    @field_validator("url", "catalog", mode="before")
    @classmethod
    def _split_urls(cls, value: Any) -> Any:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _split_lines(cls, value: Any) -> Any:
        return tuple(value.splitlines()) if isinstance(value, str) else value  # values may have blanks

    @field_validator("password_file", "ca_file", "log_file", "spark_shared", mode="after")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with their sources.

    Attributes:
        settings: the settings.
        sources: name of a setting -> ``--option``, variable or file; those that nobody set are not there.
    """

    settings: CommandSettings
    sources: Mapping[str, str]

    def stored_password(self) -> str | None:
        """Return the password, if the environment or a file holds one.

        Raises:
            UsageProblem: the file cannot be used, or both are set at the same place.
        """
        file, password = self.password_file(), self.settings.password
        if file is not None:
            return read_password(file)
        return None if password is None else password.get_secret_value()

    def password_file(self) -> Path | None:
        """Return the password file, or None.

        The environment's password has precedence: the result is None then, too.

        Raises:
            UsageProblem: both are set at the same place.
        """
        file = self.settings.password_file
        if file is None or self.settings.password is None:
            return file
        if self.sources["password_file"].startswith(ENVIRONMENT_PREFIX):
            raise UsageProblem("MQDSSM_PASSWORD and MQDSSM_PASSWORD_FILE exclude each other: set one of them")
        return file if self.sources["password_file"].startswith("--") else None


def load(
    options: Mapping[str, Any],
    *,
    config: Path | None = None,
    connection: str | None = None,
    environment: bool = True,
) -> Loaded:
    """Load the settings from all sources.

    Args:
        options: from the command line; None is not given.
        config: the configuration file; None: ``MQDSSM_CONFIG``, or the usual place if there is one.
        connection: one of its connections; None: ``MQDSSM_CONNECTION``, or the file's ``default``.
        environment: variables count; not where a connection is meant as it stands in the configuration file.

    Raises:
        UsageProblem: a setting that cannot be, a file that cannot be used.
    """
    values = {name: value for name, value in options.items() if value is not None}
    names = set(CommandSettings.model_fields) - {"password"}
    file, file_settings = read_config(config, connection, names)

    class _Sourced(CommandSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            from_file = InitSettingsSource(settings_cls, dict(file_settings))
            return (init_settings, env_settings, from_file) if environment else (init_settings, from_file)

    sources = {name: str(file) for name in file_settings}
    fields = CommandSettings.model_fields if environment else {}
    variables = {name: ENVIRONMENT_PREFIX + name.upper() for name in fields}
    if environment:
        _warn_of_misspelt({*variables.values(), *_NO_SETTINGS})
    sources |= {name: variable for name, variable in variables.items() if os.environ.get(variable)}
    sources |= {name: f"--{name.replace('_', '-')}" for name in values}
    try:
        settings = _Sourced(**values)
    except ValidationError as error:
        problems = [
            f"{_place_of(str(detail['loc'][0]), sources, file)}: {_WORDS.get(detail['type'], detail['msg'])}"
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise UsageProblem("; ".join(problems)) from None
    return Loaded(settings, sources)


def read_password(file: Path) -> str:
    """Read a password from a file, without its line end.

    Raises:
        UsageProblem: it cannot be read, or holds none.
    """
    from mqdssm.directory.secret import read_password

    try:
        return read_password(file)
    except ConfigError as error:
        raise UsageProblem(str(error)) from None


def _place_of(name: str, sources: Mapping[str, str], file: Path) -> str:
    """Return the source and name of a setting."""
    source = sources.get(name, name)
    return f"{file}: {name}" if source == str(file) else source


def _warn_of_misspelt(names: Collection[str]) -> None:
    """Log a warning for variables whose names are probably misspelt."""
    for name in sorted(os.environ):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in names:
            nearest = get_close_matches(name, names, 1, NEARLY)
            if nearest:
                log.warning("the variable %s means nothing: did you mean %s?", name, nearest[0])
