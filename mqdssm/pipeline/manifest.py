"""``manifest.json``: what an export consists of. A folder without one is not an export."""

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from mqdssm.errors import ConfigError
from mqdssm.tables.mqis import MQIS_TABLES

MANIFEST_NAME: Final = "manifest.json"
SCHEMA_VERSION: Final = 2  # of the manifest and of the columns; raised when either changes its meaning
_READ_BYTES: Final = 1024 * 1024

What = Literal["added", "modified", "deleted"]


class ExportedFile(BaseModel):
    """One file of an export.

    Attributes:
        path: relative to the folder of the export, with forward slashes.
        rows: number of objects in it.
        sha256: digest of its bytes, lower-case hexadecimal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(pattern=r"^[a-z-]+/[^/\\]+$")
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ExportedType(BaseModel):
    """All files of one type; one without objects has a file without rows, so that its columns are known.

    Attributes:
        rows: objects in all of them.
        files: in the order in which LDIF has to be loaded: parents first.
        columns: names and Arrow types, which CSV and JSON Lines do not tell; none for LDIF.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = Field(ge=0)
    files: tuple[ExportedFile, ...]
    columns: Mapping[str, str] = {}


class ChangedObject(BaseModel):
    """An object that was changed while the export ran, and read again.

    Attributes:
        type: its type, as on the command line; ``parents`` for one that is above an exported object.
        dn: where it is, or was; None where the export does not say.
        guid: its objectGUID; None if it has none.
        what: what happened to it. ``added`` is also what a scan missed because it was moved meanwhile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    dn: str | None
    guid: str | None
    what: What


class Manifest(BaseModel):
    """What was exported, from where, when and by what.

    Attributes:
        schema_version: `SCHEMA_VERSION` of the program that wrote it.
        server: URL of the server that was read last.
        profile: kind of server.
        naming_context: root of the directory, a DN.
        format: ``parquet``, ``csv``, ``jsonl`` or ``ldif``.
        dialect: of LDIF: ``openldap`` or ``ad``; None for other formats.
        started: when the first search began; that of the first attempt, if it was resumed.
        ended: when the last file was complete.
        resumed: how often it was broken off and went on.
        consistent: whether it shows the directory as it was at one moment: nothing changed while it ran, or
            what did was read again until nothing more did.
        changed: the objects that changed while it ran. The files hold them as they were read again.
        types: what there is of each type, by its name on the command line.
        parents: files of LDIF with the objects that are above those of the types and of none of them.
        load_order: the paths of all files of LDIF that make the directory, in the order of loading.
        engine: ``local`` or ``spark``, whose workers read it; empty in exports of earlier programs.
        versions: of mqdssm, Python, pyspark and pyarrow.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """Write it into a folder, as the last step of an export: at once and whole, or not at all.

        Args:
            folder: of the export.
            readable: others may read it, as the umask allows; else it is for its owner alone (mode 0600).
        """
        target = folder / MANIFEST_NAME
        draft = folder / f".{MANIFEST_NAME}.new"
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if readable else 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        return target

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest of an export, without looking at its files.

        Raises:
            ConfigError: the folder is no (whole) export, or one of another version.
        """
        path = folder / MANIFEST_NAME
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ConfigError(f"{folder} {_why_no_export(folder)}") from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        try:
            raw: Any = json.loads(text)
            _check_version(path, raw)
            return cls.model_validate(raw)
        except (ValueError, ValidationError) as error:
            raise ConfigError(f"{path} is no manifest of ours: {error}") from error

    def check(self, folder: Path) -> None:
        """Compare every file with what the manifest says of it.

        Raises:
            ConfigError: a file is missing or differs.
        """
        for part in (*(file for kind in self.types.values() for file in kind.files), *self.parents):
            path = folder / part.path
            try:
                digest = sha256(path)
            except OSError as error:
                raise ConfigError(f"{path} of the export cannot be read: {error.strerror}") from error
            if digest != part.sha256:
                raise ConfigError(f"{path} is not what was exported (its SHA-256 differs); export again")


def _why_no_export(folder: Path) -> str:
    """What a folder without a manifest is, and what to do."""
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


def sha256(path: Path) -> str:
    """Digest a file, in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def utc_seconds(moment: datetime) -> datetime:
    """Cut a time to whole seconds, as manifests show it."""
    return moment.replace(microsecond=0)


def versions() -> dict[str, str]:
    """Versions of mqdssm, Python, pyspark and pyarrow, as manifests show them."""
    found = {"python": platform.python_version()}
    for package in ("mqdssm", "pyspark", "pyarrow"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
