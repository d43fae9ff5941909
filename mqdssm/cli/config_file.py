"""Configuration file in TOML: settings, or several named connections."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.events.input_files import TooLongFileError, read_toml
from mqdssm.model.suggestions import suggest_name

FILE_NAME: Final = "config.toml"
CONFIG_BYTES_MAX: Final = 1 << 20

_PATHS: Final = frozenset({"password_file", "keytab", "ca_file", "log_file", "spark_shared"})
_OF_ALL: Final = frozenset({"log_file", "spark_master", "spark_conf", "spark_shared"})  # connections
_BESIDE: Final = ("connections", "default")
"""Keys of the file other than settings."""
_NO_PASSWORD: Final = "put the password into a file of its own and name that with password_file"  # noqa: S105  no password


def find_default_file() -> Path:
    """Return the usual place of the configuration file on this kind of system."""
    return Path(typer.get_app_dir("mqdssm")) / FILE_NAME


def describe_default_file() -> str:
    """Return the usual place of the configuration file for people, with ``~``."""
    file = find_default_file()
    return f"~/{file.relative_to(Path.home()).as_posix()}" if file.is_relative_to(Path.home()) else str(file)


def read_config(
    config: Path | None, connection: str | None, names: Collection[str]
) -> tuple[Path, Mapping[str, Any]]:
    """Read the configuration file.

    Args:
        config: the file; None: ``MQDSSM_CONFIG``, or the usual place if there is one.
        connection: one of its connections; None: ``MQDSSM_CONNECTION``, or the file's ``default``.
        names: settings that it may hold.

    Returns:
        The file, and the settings of the connection.

    Raises:
        UsageProblem: the file cannot be used, or has no such connection or setting.
    """
    named = config or os.environ.get("MQDSSM_CONFIG")
    connection = connection or os.environ.get("MQDSSM_CONNECTION") or None
    file = Path(named).expanduser() if named else find_default_file()
    try:
        content = read_toml(file, CONFIG_BYTES_MAX)
    except FileNotFoundError:
        if named:
            raise UsageProblem(f"there is no configuration file {file}") from None
        if connection:
            raise UsageProblem(f"connection {connection!r} needs a configuration file, as {file}") from None
        return file, {}
    except OSError as error:
        raise UsageProblem(f"the configuration file {file} cannot be read: {error.strerror}") from None
    except TooLongFileError as error:
        raise UsageProblem(f"the configuration file {error}") from None
    except ValueError as error:
        raise UsageProblem(f"the configuration file {file} is no TOML: {error}") from None
    return file, _choose_settings(file, content, connection, names)


def _choose_settings(
    file: Path, content: dict[str, Any], connection: str | None, names: Collection[str]
) -> Mapping[str, Any]:
    _check_names(str(file), content, (*_BESIDE, *names))
    connections: Any = content.pop("connections", {})
    default: Any = content.pop("default", None)
    connection_name = connection or default
    chosen: Any = content
    if not isinstance(connections, dict):
        raise UsageProblem(f"{file}: connections must be tables, as [connections.lab]")
    if connection_name is not None:
        chosen = connections.get(connection_name) if isinstance(connection_name, str) else None
        if not isinstance(chosen, dict):
            raise UsageProblem(
                f"{file} has no connection {connection_name!r}; it has {', '.join(connections) or 'none'}"
            )
        _check_names(f"{file}: connection {connection_name!r}", chosen, names)
        # only settings that do not concern the log-in are inherited
        chosen = {name: value for name, value in content.items() if name in _OF_ALL} | chosen
    return {name: _resolve_value(file, name, value) for name, value in chosen.items()}


def _check_names(where: str, content: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise UsageProblem for unknown keys, since a misspelt one would have no effect.

    Raises:
        UsageProblem: there is one, or a password.
    """
    if "password" in content:
        raise UsageProblem(f"{where} holds a password: {_NO_PASSWORD}")
    for name in content:
        if name not in names:
            hint = suggest_name(name.lower(), sorted(names))
            raise UsageProblem(f"{where} has {name!r}, which is no setting{hint}")


def _resolve_value(file: Path, name: str, value: Any) -> Any:
    if name in _PATHS and isinstance(value, str):
        return file.parent / Path(value).expanduser()
    return value
