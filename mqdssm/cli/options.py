"""Options shared by all commands, before or behind the command's name.

An option behind the name has precedence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mqdssm.cli.config_file import describe_default_file
from mqdssm.directory.log_in import Authentication, TlsMode

_CONNECTION: Final = "Connection"
_GENERAL: Final = "General"
_SPARK: Final = "Spark"
_ENGINE: Final = "Options"
"""Panel of a command's own options."""


class Format(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"


class EngineName(StrEnum):
    """Names of the engines."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def _declare_option(
    name: str, help_text: str, metavar: str | None = None, *more: str, panel: str = _CONNECTION, **limits: Any
) -> Any:
    return typer.Option(name, *more, help=help_text, metavar=metavar, rich_help_panel=panel, **limits)


def declare_output_option(formats: type[StrEnum]) -> Any:
    """Return the annotated type of ``--output``.

    Args:
        formats: what it may be; those that only one command has are for programs.
    """
    programs = " or ".join(
        f"[b]{output_format.value}[/]" for output_format in formats if output_format.value != Format.TABLE
    )
    words = f"[b]table[/] for people (default), {programs} for programs."
    return Annotated[formats | None, _declare_option("--output", words, None, "-o", panel=_GENERAL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOptions:
    """Shared options with their help.

    None, False and the empty list mean "not given".
    """

    output: StrEnum | None = None
    config: Annotated[
        Path | None,
        _declare_option(
            "--config",
            f"The configuration file, TOML. Default: {describe_default_file()}. MQDSSM_CONFIG.",
            "FILE",
            panel=_GENERAL,
        ),
    ] = None
    debug: Annotated[
        bool, _declare_option("--debug", "Print the log, and a traceback for errors.", panel=_GENERAL)
    ] = False
    url: Annotated[
        list[str] | None,
        _declare_option(
            "--url",
            "Address of the server: ldap://, ldaps:// or ldapi://. Repeatable: the next one is "
            "tried if one does not answer. MQDSSM_URL.",
            "URL",
        ),
    ] = None
    user: Annotated[
        str | None,
        _declare_option(
            "--user", "The user who logs in: a DN, or user@domain on Active Directory. MQDSSM_USER.", "DN"
        ),
    ] = None
    password_file: Annotated[
        Path | None,
        _declare_option(
            "--password-file",
            "File that holds the password. Default: a prompt. MQDSSM_PASSWORD_FILE, MQDSSM_PASSWORD.",
            "FILE",
        ),
    ] = None
    tls: Annotated[
        TlsMode | None,
        _declare_option("--tls", "Encryption. Default: by the URL, StartTLS for ldap://. MQDSSM_TLS."),
    ] = None
    authentication: Annotated[
        Authentication | None,
        _declare_option(
            "--authentication", "Method of the log-in. Default: by the other options. MQDSSM_AUTHENTICATION."
        ),
    ] = None
    keytab: Annotated[
        Path | None,
        _declare_option(
            "--keytab", "Kerberos keys of the user, in place of a password. MQDSSM_KEYTAB.", "FILE"
        ),
    ] = None
    kerberos_host: Annotated[
        str | None,
        _declare_option(
            "--kerberos-host",
            "Name of the server in Kerberos tickets. Default: the host of the URL. MQDSSM_KERBEROS_HOST.",
            "HOST",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        _declare_option(
            "--ca-file",
            "Certificate authorities to trust, PEM. Default: those of the system. MQDSSM_CA_FILE.",
            "FILE",
        ),
    ] = None
    profile: Annotated[
        str | None,
        _declare_option("--profile", "Kind of server. Default: the server is asked. MQDSSM_PROFILE.", "NAME"),
    ] = None
    naming_context: Annotated[
        str | None,
        _declare_option(
            "--naming-context",
            "Base DN of computers, queues and users. Default: the root of the directory. "
            "MQDSSM_NAMING_CONTEXT.",
            "DN",
        ),
    ] = None
    forest: Annotated[
        bool,
        _declare_option(
            "--forest", "Active Directory: search all domains, through a global catalog. MQDSSM_FOREST."
        ),
    ] = False
    catalog: Annotated[
        list[str] | None,
        _declare_option(
            "--catalog",
            "URL of the global catalog for --forest. Default: port 3268 or 3269 of the server. "
            "MQDSSM_CATALOG.",
            "URL",
        ),
    ] = None
    connection: Annotated[
        str | None,
        _declare_option(
            "--connection", "Name of a connection in the configuration file. MQDSSM_CONNECTION.", "NAME"
        ),
    ] = None
    read_only: Annotated[bool, _declare_option("--read-only", "Refuse every change. MQDSSM_READ_ONLY.")] = (
        False
    )
    allow_clear_text: Annotated[
        bool,
        _declare_option(
            "--allow-clear-text",
            "Allow a password to be sent to another machine without encryption. MQDSSM_ALLOW_CLEAR_TEXT.",
        ),
    ] = False
    allow_replicated: Annotated[
        bool,
        _declare_option(
            "--allow-replicated",
            "Allow changes in the directory of a replicating server. Its replicas will then "
            "differ. MQDSSM_ALLOW_REPLICATED.",
        ),
    ] = False
    spark_master: Annotated[
        str | None,
        _declare_option(
            "--spark-master",
            "Spark cluster: spark://HOST:7077, yarn or k8s://https://HOST:PORT. Default: "
            "this machine. MQDSSM_SPARK_MASTER.",
            "URL",
            panel=_SPARK,
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        _declare_option(
            "--spark-conf", "Spark setting. Repeatable. MQDSSM_SPARK_CONF.", "KEY=VALUE", panel=_SPARK
        ),
    ] = None
    spark_shared: Annotated[
        Path | None,
        _declare_option(
            "--spark-shared",
            "Folder for temporary files that all machines of the cluster share. MQDSSM_SPARK_SHARED.",
            "DIR",
            panel=_SPARK,
        ),
    ] = None
    engine: Annotated[
        EngineName,
        _declare_option(
            "--engine",
            "local: processes of this machine; spark: Spark; auto: Spark if an option or setting "
            "names it (validate: also for millions of objects); else local.",
            panel=_ENGINE,
        ),
    ] = EngineName.AUTO
    workers: Annotated[
        int | None,
        _declare_option(
            "--workers",
            "Number of processes of the local engine. Default: one for each core.",
            "N",
            panel=_ENGINE,
            min=1,
        ),
    ] = None

    @property
    def is_for_programs(self) -> bool:
        """True if programs read the output.

        Formats of one command only are for programs, too.
        """
        return self.output not in {None, Format.TABLE}

    def overridden(self, later: "GivenOptions") -> "GivenOptions":
        """Merge two sets of options; given options of `later` have precedence."""
        return GivenOptions(
            **{
                field.name: getattr(later, field.name) or getattr(self, field.name)
                for field in fields(GivenOptions)
            }
        )

    def settings(self) -> dict[str, Any]:
        """Return the options that are settings; those not given are None."""
        return {
            field.name: _setting_of(getattr(self, field.name))
            for field in fields(self)
            if field.name not in _NO_SETTINGS
        }


def _setting_of(value: Any) -> Any:
    """Return the value of an option as a setting."""
    if isinstance(value, list):
        return tuple(value) or None
    return None if value is False else value


def _select_panel(name: str) -> dict[str, Any]:
    """Return the options of a panel of the help: name -> annotated type."""
    rows: dict[str, Any] = {
        field.name: field.type for field in fields(GivenOptions) if field.name != "output"
    }
    return {key: kind for key, kind in rows.items() if kind.__metadata__[0].rich_help_panel == name}


GENERAL: Final[Mapping[str, Any]] = {"output": declare_output_option(Format), **_select_panel(_GENERAL)}
"""Options of every command: name -> annotated type."""
CONNECTION: Final[Mapping[str, Any]] = _select_panel(_CONNECTION)
"""Options of the commands that connect: name -> annotated type."""
SPARK: Final[Mapping[str, Any]] = _select_panel(_SPARK)
"""Options of the commands that run on Spark: name -> annotated type."""
ENGINE: Final[Mapping[str, Any]] = _select_panel(_ENGINE)
"""Options of these commands for the choice of the engine: name -> annotated type."""
DEFAULTS: Final[Mapping[str, Any]] = {field.name: field.default for field in fields(GivenOptions)}
_NO_SETTINGS: Final = frozenset({*GENERAL, *ENGINE, "connection"})


def collect_command_options(*, connects: bool, spark: bool, formats: type[StrEnum]) -> dict[str, Any]:
    """Return the shared options of a command, in the order of its help.

    Args:
        connects: the command connects to a server.
        spark: the command can run on Spark.
        formats: of its output.
    """
    return {
        **(ENGINE if spark else {}),
        **(CONNECTION if connects else {}),
        **(SPARK if spark else {}),
        **GENERAL,
        "output": declare_output_option(formats),
    }
