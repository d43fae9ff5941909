"""``manifest.json``, the list of files of an export.

A folder without it is not an export.
"""

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import AwareDatetime, Field, ValidationError

from mqdssm.errors import ConfigError
from mqdssm.pipeline.documents import Document, write_document
from mqdssm.tables.mqis import MQIS_TABLES

MANIFEST_NAME: Final = "manifest.json"
SCHEMA_VERSION: Final = 2  # of the manifest and of the columns; raised when either changes its meaning

ChangeKind = Literal["added", "modified", "deleted"]


class ExportedFile(Document):
    """One file of an export.

    Attributes:
        path: relative to the folder of the export, with forward slashes.
        rows: number of objects in it.
        sha256: digest of its bytes, lower-case hexadecimal.
    """

    path: str = Field(pattern=r"^[a-z-]+/[^/\\]+$")
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    def check(self, folder: Path) -> None:
        """Check that the file exists in a folder and has its SHA-256.

        Raises:
            ConfigError: the file is missing or differs.
        """
        check_sha256(folder / self.path, self.sha256, "export", "exported")


class ExportedType(Document):
    """Files of one type.

    A type without objects has a file without rows, which shows its columns.

    Attributes:
        rows: number of objects in all files.
        files: in the order in which LDIF has to be loaded: parents first.
        columns: Arrow type by name, which CSV and JSON Lines do not hold; empty for LDIF.
    """

    rows: int = Field(ge=0)
    files: tuple[ExportedFile, ...]
    columns: Mapping[str, str] = {}


class ChangedObject(Document):
    """Object that was changed while the export ran, and read again.

    Attributes:
        type: its type, as on the command line; ``parents`` for a parent of exported objects.
        dn: its current or last DN; None if the export does not hold it.
        guid: its objectGUID; None if it has none.
        what: kind of change; ``added`` also for an object that a scan missed because it was moved.
    """

    type: str
    dn: str | None
    guid: str | None
    what: ChangeKind


class Manifest(Document):
    """Contents of ``manifest.json``: files, source, times and versions of an export.

    Attributes:
        schema_version: `SCHEMA_VERSION` of the program that wrote it.
        server: URL of the LDAP server that was read last.
        profile: kind of server.
        naming_context: root of the directory, a DN.
        format: ``parquet``, ``csv``, ``jsonl`` or ``ldif``.
        dialect: of LDIF: ``openldap`` or ``ad``; None for other formats.
        started: when the first search began; that of the first attempt, if it was resumed.
        ended: when the last file was complete.
        resumed: number of times the export was interrupted and resumed.
        consistent: True if the export shows the directory at one moment: nothing changed while it ran, or all
            changes were read again until there were no more.
        changed: objects that changed while the export ran. The files hold them as they were read again.
        types: files of each type, by its name on the command line.
        parents: LDIF files with the parents of exported objects that have none of the exported types.
        load_order: paths of all LDIF files of the directory, in the order of loading.
        engine: ``local`` or ``spark``; empty in exports of earlier programs.
        versions: of mqdssm, Python, pyspark and pyarrow.
    """

    schema_version: int
    server: str
    profile: str = ""
    naming_context: str
    format: str = "parquet"
    dialect: str | None = None
    started: AwareDatetime
    ended: AwareDatetime
    resumed: int = Field(default=0, ge=0)
    consistent: bool = False
    changed: tuple[ChangedObject, ...] = ()
    types: Mapping[str, ExportedType]
    parents: tuple[ExportedFile, ...] = ()
    load_order: tuple[str, ...] = ()
    engine: str = ""
    versions: Mapping[str, str]

    def write(self, folder: Path, *, readable: bool = False) -> Path:
        """Write the manifest atomically, as the last step, and return its path.

        Args:
            folder: of the export.
            readable: let others read it, as the umask allows; False: mode 0600.
        """
        target = folder / MANIFEST_NAME
        write_document(target, self, mode=None if readable else 0o600)
        return target

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest of an export, without looking at its files.

        Raises:
            ConfigError: the folder is no complete export, or has another version.
        """
        path = folder / MANIFEST_NAME
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ConfigError(f"{folder} {_explain_no_export(folder)}") from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        try:
            raw: Any = json.loads(text)
            _check_version(path, raw)
            return cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(f"{path} is no manifest of ours: {_problems_of(error)}") from error
        except ValueError as error:
            raise ConfigError(f"{path} is no manifest of ours: {error}") from error

    def check(self, folder: Path) -> None:
        """Check that each file exists and has the SHA-256 of the manifest.

        Raises:
            ConfigError: a file is missing or differs.
        """
        for part in (*(file for kind in self.types.values() for file in kind.files), *self.parents):
            part.check(folder)


def _explain_no_export(folder: Path) -> str:
    """Return the message for a folder without a manifest, with advice."""
    if not folder.exists():
        return "is no export: there is no such folder"
    if not folder.is_dir():
        return "is no export but a file: name the folder that holds the manifest"
    tables = {name.lower() for name in MQIS_TABLES}
    if any(path.is_file() and path.stem.lower() in tables for path in folder.iterdir()):
        return f"is no export: it has no {MANIFEST_NAME}, but MQIS tables; name it with --mqis"
    return (
        f"is no export, or one that did not end: it has no {MANIFEST_NAME}; export again, or go on with "
        "--resume"
    )


def _problems_of(error: ValidationError) -> str:
    """Return the problems of a manifest in one line.

    Each has its place and its reason.
    """
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)


def _check_version(path: Path, raw: Any) -> None:
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path} has version {version}, this program knows {SCHEMA_VERSION}: use a later one"
        )
    if isinstance(version, int) and version < SCHEMA_VERSION:
        raise ConfigError(
            f"{path} has version {version}, of an earlier program whose columns were others: export again"
        )


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in lower-case hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path, expected: str, document: str, participle: str) -> None:
    """Check that a file of an export or a plan exists and has its SHA-256.

    Args:
        path: of the file.
        expected: its SHA-256.
        document: whose file it is, ``export`` or ``plan``: the command that writes it again, too.
        participle: what was done with the file.

    Raises:
        ConfigError: it cannot be read, or was altered.
    """
    try:
        digest = hash_file(path)
    except OSError as error:
        raise ConfigError(f"{path} of the {document} cannot be read: {error.strerror}") from error
    if digest != expected:
        raise ConfigError(f"{path} is not what was {participle} (its SHA-256 differs): {document} again")


def to_utc_seconds(moment: datetime) -> datetime:
    """Return a time without its fraction of a second, for manifests."""
    return moment.replace(microsecond=0)


def list_versions() -> dict[str, str]:
    """Return the versions of mqdssm, Python, pyspark and pyarrow, for manifests."""
    result = {"python": platform.python_version()}
    for package in ("mqdssm", "pyspark", "pyarrow"):
        with contextlib.suppress(PackageNotFoundError):
            result[package] = version(package)
    return result
