"""``mqdssm support-bundle``: collect data for support, without secrets."""

import contextlib
import json
import os
import platform
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mqdssm.cli import logs
from mqdssm.cli.exits import UsageProblem, words_of
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.model.safe_text import REMOVED, is_secret_setting, redact_strictly

PACKAGES: Final = (
    "mqdssm",
    "ldap3",
    "pydantic",
    "pydantic-settings",
    "cryptography",
    "typer",
    "rich",
    "pyspark",
    "pyarrow",
    "pandas",
)
LOG_BYTES_MAX: Final = 512 * 1024
"""Maximum bytes from the end of the log file."""
SECRET_CHARS_MIN: Final = 4
"""Minimum length of a secret to remove: shorter ones occur in every text by chance."""

_README: Final = """What mqdssm's support-bundle command gathered:

versions.json   this program, Python, the system, the libraries
settings.json   where the settings come from, and what they are
doctor.json     what the checks of 'mqdssm doctor' found
log.txt         the log of that run, and the end of the log file if there is one

Passwords were removed. Names of servers, users and objects were not: look before you give it away.
"""


def support_bundle(
    run: CommandRun,
    *,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Zip file to write.")] = None,
) -> None:
    """Collect data for support in a zip file, without passwords.

    The file holds versions, settings, findings of doctor and the recent log.
    """
    target = to or Path(time.strftime("mqdssm-support-%Y%m%dT%H%M%SZ.zip", time.gmtime()))
    if target.exists():
        raise UsageProblem(f"{target} exists: name another file")
    parts = {
        "versions.json": list_versions(),
        "settings.json": _collect_settings(run),
        "doctor.json": _collect_findings(run),
    }
    secrets = _collect_secrets(run)
    clean = {"README.txt": _README}
    for name, part in parts.items():
        clean[name] = json.dumps(_clean_data(part, secrets), indent=2, ensure_ascii=False) + "\n"
    clean["log.txt"] = clean_text(_log(run), secrets)
    with _open_private(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in clean.items():
            bundle.writestr(name, text)
    document = {"file": str(target), "contents": list(clean)}
    run.output.answer(document, f"written {target}: {', '.join(clean)}")
    run.output.note("passwords were removed; names of servers and objects were not: look before you send it")


def _open_private(target: Path) -> Any:
    """Open a new file that only its owner may read."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "wb")


def list_versions() -> Mapping[str, Any]:
    """Return the versions of the installed packages and programs."""
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "python": sys.version,
        "system": platform.platform(),
        "machine": platform.machine(),
        "encoding": sys.getfilesystemencoding(),
        "packages": packages,
        "java": _describe_java(),
    }


def _describe_java() -> str:
    from mqdssm.errors import ConfigError
    from mqdssm.spark.gateway import find_java, find_java_major

    try:
        java = find_java()
        return f"{java}, version {find_java_major(java)}"
    except ConfigError as error:
        return str(error)


def _collect_settings(run: CommandRun) -> Mapping[str, Any]:
    try:
        loaded = run.loaded
    except UsageProblem as error:
        return {"problem": str(error)}
    values = loaded.settings.model_dump(mode="json", exclude={"password"})
    if loaded.settings.password is not None:
        values["password"] = REMOVED
    return {
        "settings": {
            name: {"value": value, "from": loaded.sources.get(name)} for name, value in values.items()
        },
        "environment": sorted(name for name in os.environ if name.startswith(("MQDSSM_", "LC_", "LANG"))),
    }


def _collect_findings(run: CommandRun) -> Mapping[str, Any]:
    from mqdssm.cli.doctor import examine
    from mqdssm.errors import MqdssmError

    try:
        findings, connected = examine(run)
    except (MqdssmError, ValueError) as error:  # without settings nothing can be examined
        return {"problem": words_of(error)}
    return {"connected": connected, "findings": [finding.as_dict() for finding in findings]}


def _log(run: CommandRun) -> str:
    lines = ["-- this run", *logs.read_kept_lines()]
    with contextlib.suppress(UsageProblem):
        file = run.loaded.settings.log_file
        if file is not None and file.exists():
            lines += [f"-- the end of {file}", _end_of(file)]
    return "\n".join(lines) + "\n"


def _end_of(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LOG_BYTES_MAX))
        return opened.read(LOG_BYTES_MAX).decode(errors="replace")


def _collect_secrets(run: CommandRun) -> set[str]:
    """Return all known passwords."""
    secrets = {os.environ.get("MQDSSM_PASSWORD", "")}
    with contextlib.suppress(UsageProblem):
        loaded = run.loaded
        if loaded.settings.password is not None:
            secrets.add(loaded.settings.password.get_secret_value())
        with contextlib.suppress(UsageProblem):
            secrets.add(loaded.stored_password() or "")
        with contextlib.suppress(UsageProblem):
            secrets.add(run.password() or "")
    return secrets


def clean_text(text: str, secrets: Iterable[str]) -> str:
    """Remove known passwords, and values named like secrets, from a text.

    Args:
        text: of a part of the bundle.
        secrets: passwords that are known.
    """
    forms = {form for secret in secrets if len(secret) >= SECRET_CHARS_MIN for form in _list_forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, REMOVED)
    return redact_strictly(text)


def _clean_data(data: Any, secrets: Iterable[str]) -> Any:
    """Remove secrets from all texts of a JSON value."""
    if isinstance(data, str):
        return clean_text(data, secrets)
    if isinstance(data, Mapping):
        return {
            name: REMOVED
            if isinstance(value, str) and is_secret_setting(name)
            else _clean_data(value, secrets)
            for name, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [_clean_data(value, secrets) for value in data]
    return data


def _list_forms(secret: str) -> Iterable[str]:
    """Return the encodings in which a password may occur in a text."""
    from base64 import b64encode
    from urllib.parse import quote, quote_plus

    raw = secret.encode()
    return (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        b64encode(raw).decode(),
        raw.hex(),
    )


app = declare_command(
    support_bundle,
    examples=("mqdssm support-bundle", "mqdssm support-bundle --connection lab --to lab.zip"),
)
