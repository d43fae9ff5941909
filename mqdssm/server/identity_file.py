"""Names and role of a server in server.toml, which follow the directory (T133).

Only the lines of these settings are replaced: comments and the order of the file stay.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import write_atomically
from mqdssm.server.config import ServerSection, format_toml_value

FOLLOWING: Final = ("machine_name", "role", "pec_name", "psc_name")
"""Settings of `[server]` that are rewritten; the role changes with the names that it needs."""
_SECTION: Final = re.compile(r"\s*\[\s*server\s*\]\s*(#.*)?")
_TABLE: Final = re.compile(r"\s*\[")
_SETTING: Final = re.compile(r"""(?P<key>\s*(?P<name>[a-z_]+)\s*=\s*)("[^"]*"|'[^']*')(?P<rest>\s*(#.*)?)""")


def write_identity(file: Path, identity: ServerSection) -> bool:
    """Write names and role of a server into its configuration file.

    Args:
        file: server.toml. It is replaced atomically, and keeps its permissions.
        identity: the names and the role.

    Returns:
        False if the file has them already.

    Raises:
        ConfigError: the file cannot be read or written, or has a form that only an editor can change.
    """
    target = file.resolve()  # a symbolic link stays
    with convert_folder_errors(f"{file} cannot be read"):
        data, mode = target.read_bytes(), target.stat().st_mode & 0o777
    try:
        text = data.decode()
        before = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    section = before.get("server")
    if not isinstance(section, dict):
        raise ConfigError(f"{file} has no table [server]")
    settings = {name: str(getattr(identity, name)) for name in FOLLOWING}
    if all(section.get(name, "") == value for name, value in settings.items()):
        return False
    changed = "".join(_with_settings(text.splitlines(keepends=True), settings))
    expected = {name: value for name, value in (section | settings).items() if value != ""}
    if _parse_document(changed) != before | {"server": expected}:
        advice = ", ".join(
            f"{name} = {format_toml_value(value)}" for name, value in settings.items() if value
        )
        raise ConfigError(f"{file} has an unusual form: write {advice} into its table [server]")
    write_atomically(target, [changed], mode=mode)
    return True


def _parse_document(text: str) -> dict[str, Any]:
    """Return the document of a text; an empty one if it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _with_settings(lines: list[str], settings: dict[str, str]) -> list[str]:
    """Return the lines of a file with other settings in the table `[server]`.

    A setting without a value is left out, and one that is missing is added at the beginning.
    """
    changed: list[str] = []
    missing, is_inside, begin = dict(settings), False, 0
    for line in lines:
        content = line.rstrip("\r\n")
        if _TABLE.match(content):
            is_inside = _SECTION.fullmatch(content) is not None
            begin = len(changed) + 1 if is_inside else begin
        setting = _SETTING.fullmatch(content) if is_inside else None
        if setting is None or setting["name"] not in missing:
            changed.append(line)
            continue
        value = missing.pop(setting["name"])
        if value:
            changed.append(
                f"{setting['key']}{format_toml_value(value)}{setting['rest']}{line[len(content) :]}"
            )
    changed[begin:begin] = [
        f"{name} = {format_toml_value(value)}\n" for name, value in missing.items() if value
    ]
    return changed
