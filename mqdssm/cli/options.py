"""Options shared by all commands, before or behind the command's name; the latter have precedence."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mqdssm.cli.profile_file import shown_default_file

_CONNECTION: Final = "Connection"
_GENERAL: Final = "General"
_SPARK: Final = "Spark"


class Format(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"


class Authentication(StrEnum):
    """Mechanism of the log-in."""

    SIMPLE = "simple"
    SPNEGO = "spnego"
    NTLM = "ntlm"
    KERBEROS = "kerberos"
    EXTERNAL = "external"


class Tls(StrEnum):
    """Use of TLS by a connection."""

    LDAPS = "ldaps"
    STARTTLS = "starttls"
    NONE = "none"


def _option(
    name: str, help_text: str, metavar: str | None = None, *more: str, panel: str = _CONNECTION
) -> Any:
    return typer.Option(
        name, *more, help=help_text, metavar=metavar, rich_help_panel=panel, show_default=False
    )


def output_option(formats: type[StrEnum]) -> Any:
    """Return the annotated type of ``--output``.

    Args:
        formats: what it may be; those that only one command has are for programs.
    """
    programs = " or ".join(f"[b]{one.value}[/]" for one in formats if one.value != Format.TABLE)
    words = f"[b]table[/] for people (default), {programs} for programs."
    return Annotated[formats | None, _option("--output", words, None, "-o", panel=_GENERAL)]


_CONFIG: Final = _option(
    "--config", f"The profile file, TOML, else {shown_default_file()}. MQDSSM_CONFIG.", "FILE", panel=_GENERAL
)
_DEBUG: Final = _option("--debug", "Log to the terminal; a traceback for errors.", panel=_GENERAL)
_URL: Final = _option("--url", "ldap://, ldaps:// or ldapi://; several are tried in turn. MQDSSM_URL.", "URL")
_USER: Final = _option("--user", "Who logs in. MQDSSM_USER.", "DN")
_PASSWORD_FILE: Final = _option(
    "--password-file",
    "Holds the password; else it is asked for. MQDSSM_PASSWORD_FILE, MQDSSM_PASSWORD.",
    "FILE",
)
_TLS: Final = _option("--tls", "Else as the URL says; for ldap:// StartTLS. MQDSSM_TLS.")
_AUTHENTICATION: Final = _option(
    "--authentication", "How to log in; else by what is given. MQDSSM_AUTHENTICATION."
)
_KEYTAB: Final = _option(
    "--keytab", "The user's Kerberos keys, instead of a password. MQDSSM_KEYTAB.", "FILE"
)
_KERBEROS_HOST: Final = _option(
    "--kerberos-host", "The server's name in tickets, if not the URL's. MQDSSM_KERBEROS_HOST.", "HOST"
)
_CA_FILE: Final = _option("--ca-file", "Authorities to trust, PEM. MQDSSM_CA_FILE.", "FILE")
_PROFILE: Final = _option("--profile", "Kind of server, else found out. MQDSSM_PROFILE.", "NAME")
_CONTEXT: Final = _option("--naming-context", "Where computers are, if not below the root.", "DN")
_FOREST: Final = _option(
    "--forest", "Active Directory: look in all domains, by a global catalog. MQDSSM_FOREST."
)
_CATALOG: Final = _option(
    "--catalog", "Of --forest, if not the server's port 3268 or 3269. MQDSSM_CATALOG.", "URL"
)
_CONNECTION_NAME: Final = _option("--connection", "One of the connections in the profile file.", "NAME")
_READ_ONLY: Final = _option("--read-only", "Refuse every change before it is sent. MQDSSM_READ_ONLY.")
_CLEAR_TEXT: Final = _option("--allow-clear-text", "Let the password go in clear text to another machine.")
_REPLICATED: Final = _option(
    "--allow-replicated", "Change the directory of a replicating server, too: its replicas will differ."
)
_SPARK_MASTER: Final = _option(
    "--spark-master",
    "A cluster: spark://HOST:7077, yarn, k8s://https://HOST:PORT. Else this machine. MQDSSM_SPARK_MASTER.",
    "URL",
    panel=_SPARK,
)
_SPARK_CONF: Final = _option(
    "--spark-conf", "A setting of Spark's; repeatable. MQDSSM_SPARK_CONF.", "KEY=VALUE", panel=_SPARK
)
_SPARK_SHARED: Final = _option(
    "--spark-shared",
    "A folder that all machines of the cluster see, for what lies between. MQDSSM_SPARK_SHARED.",
    "DIR",
    panel=_SPARK,
)

GENERAL: Final[Mapping[str, Any]] = {
    "output": output_option(Format),
    "config": Annotated[Path | None, _CONFIG],
    "debug": Annotated[bool, _DEBUG],
}
"""Options of every command: name -> annotated type."""

CONNECTION: Final[Mapping[str, Any]] = {
    "url": Annotated[list[str] | None, _URL],
    "user": Annotated[str | None, _USER],
    "password_file": Annotated[Path | None, _PASSWORD_FILE],
    "tls": Annotated[Tls | None, _TLS],
    "authentication": Annotated[Authentication | None, _AUTHENTICATION],
    "keytab": Annotated[Path | None, _KEYTAB],
    "kerberos_host": Annotated[str | None, _KERBEROS_HOST],
    "ca_file": Annotated[Path | None, _CA_FILE],
    "profile": Annotated[str | None, _PROFILE],
    "naming_context": Annotated[str | None, _CONTEXT],
    "forest": Annotated[bool, _FOREST],
    "catalog": Annotated[list[str] | None, _CATALOG],
    "connection": Annotated[str | None, _CONNECTION_NAME],
    "read_only": Annotated[bool, _READ_ONLY],
    "allow_clear_text": Annotated[bool, _CLEAR_TEXT],
    "allow_replicated": Annotated[bool, _REPLICATED],
}
"""Options of the commands that connect: name -> annotated type."""

SPARK: Final[Mapping[str, Any]] = {
    "spark_master": Annotated[str | None, _SPARK_MASTER],
    "spark_conf": Annotated[list[str] | None, _SPARK_CONF],
    "spark_shared": Annotated[Path | None, _SPARK_SHARED],
}
"""Options of the commands that run on Spark: name -> annotated type."""

DEFAULTS: Final[Mapping[str, Any]] = {
    name: False if name in {"debug", "read_only", "allow_clear_text", "allow_replicated", "forest"} else None
    for name in (*CONNECTION, *SPARK, *GENERAL)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOptions:
    """Values of the shared options; None, False and the empty list mean "not given"."""

    output: StrEnum | None = None
    config: Path | None = None
    debug: bool = False
    url: list[str] | None = None
    user: str | None = None
    password_file: Path | None = None
    tls: Tls | None = None
    authentication: Authentication | None = None
    keytab: Path | None = None
    kerberos_host: str | None = None
    ca_file: Path | None = None
    profile: str | None = None
    naming_context: str | None = None
    forest: bool = False
    catalog: list[str] | None = None
    connection: str | None = None
    read_only: bool = False
    allow_clear_text: bool = False
    allow_replicated: bool = False
    spark_master: str | None = None
    spark_conf: list[str] | None = None
    spark_shared: Path | None = None

    def overridden(self, later: "GivenOptions") -> "GivenOptions":
        """Merge two sets of options; given options of `later` have precedence."""
        return GivenOptions(
            **{one.name: getattr(later, one.name) or getattr(self, one.name) for one in fields(GivenOptions)}
        )

    def settings(self) -> dict[str, Any]:
        """Return the options that are settings; those not given are None."""
        return {
            "url": tuple(self.url) if self.url else None,
            "user": self.user,
            "password_file": self.password_file,
            "tls": None if self.tls is None else self.tls.value,
            "authentication": None if self.authentication is None else self.authentication.value,
            "keytab": self.keytab,
            "kerberos_host": self.kerberos_host,
            "ca_file": self.ca_file,
            "profile": self.profile,
            "naming_context": self.naming_context,
            "forest": self.forest or None,
            "catalog": tuple(self.catalog) if self.catalog else None,
            "read_only": self.read_only or None,
            "allow_clear_text": self.allow_clear_text or None,
            "allow_replicated": self.allow_replicated or None,
            "spark_master": self.spark_master,
            "spark_conf": tuple(self.spark_conf) if self.spark_conf else None,
            "spark_shared": self.spark_shared,
        }
