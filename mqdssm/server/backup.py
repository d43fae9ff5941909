"""Backup of a directory server with a private directory, in one file.

The file is a tar archive: the configuration, the key, added addresses, the marker of the first objects,
and the whole directory as LDIF of slapcat. Message numbers and replay marks are left out: a restored
server begins with new numbers (decision T40), and old marks would let recorded messages in.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import mqdssm
from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.server.config import ServerConfig
from mqdssm.server.folder import FORMAT, DirectoryServerFolder, check_known_format
from mqdssm.server.private_directory import check_dump, dump_directory, load_directory

MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 1 << 16
DIRECTORY: Final = "directory.ldif"
_CONFIG, _KEY, _HOSTS, _FOUNDED = "server.toml", "key.pem", "hosts.json", "first-objects.made"
_NEEDED: Final = frozenset({_CONFIG, _KEY, DIRECTORY})
_MEMBERS: Final = _NEEDED | {_HOSTS, _FOUNDED}


def check_back_up(folder: DirectoryServerFolder, file: Path) -> ServerConfig:
    """Check that a backup can be written; return the configuration of the server.

    Nothing is changed.

    Args:
        folder: as of `back_up`.
        file: as of `back_up`.

    Raises:
        ConfigError: as of `back_up`, unless slapcat or the disk fails.
    """
    config = _read_config(folder)
    check_dump(folder)
    with convert_folder_errors(f"the backup {file} cannot be written"):
        if file.exists():
            raise ConfigError(f"the backup {file} exists: name a new file")
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise ConfigError(f"the backup {file} cannot be written: {file.parent} cannot be written")
        for source in (folder.config, folder.key):
            source.open("rb").close()
    return config


def back_up(folder: DirectoryServerFolder, file: Path) -> None:
    """Write a backup of a directory server, which may run meanwhile.

    Args:
        folder: the server's.
        file: new file, for its owner alone: it has the private key and the hashes of passwords.

    Raises:
        ConfigError: the server has a directory of its own, the folder or the directory cannot be read, or
            the file exists or cannot be written.
    """
    config = _read_config(folder)
    with (
        convert_folder_errors(f"the backup {file} cannot be written"),
        _open_new_file(file) as archive_file,
        tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as temporary,
    ):
        ldif = Path(temporary) / DIRECTORY
        dump_directory(config.store, folder, ldif)
        sources = {_CONFIG: folder.config, _KEY: folder.key, DIRECTORY: ldif}
        optional = {_HOSTS: folder.hosts, _FOUNDED: folder.founded}
        sources |= {name: source for name, source in optional.items() if source.exists()}
        _write_archive(archive_file, config, sources)


def _read_config(folder: DirectoryServerFolder) -> ServerConfig:
    """Return the configuration of a server with a private directory.

    Raises:
        ConfigError: it cannot be read, or the server has a directory of its own.
    """
    folder.check_format()
    config = ServerConfig.read(folder.config)
    if config.store.url:
        raise ConfigError(
            f"the directory of {config.server.machine_name} is at {config.store.url}: back it up there with "
            f"slapcat, and save {folder.config} and {folder.key} with it"
        )
    return config


def check_restore(file: Path, path: Path) -> ServerConfig:
    """Check that a backup can be restored; return the configuration in the file.

    The backup is unpacked into a temporary folder, which is removed. Its entries are not loaded.

    Args:
        file: as of `restore`.
        path: as of `restore`.

    Raises:
        ConfigError: the file is no whole backup, or the folder is not empty or cannot be made.
    """
    folder = DirectoryServerFolder(path)
    with (
        convert_folder_errors(f"the backup {file} cannot be read"),
        file.open("rb") as opened,
        tempfile.TemporaryDirectory(prefix="mqdssm-") as temporary,
    ):
        folder.check_new()
        _extract(file, opened, Path(temporary))
        return ServerConfig.read(DirectoryServerFolder(Path(temporary)).config)


def restore(file: Path, path: Path) -> DirectoryServerFolder:
    """Make the folder of a directory server from a backup; return it.

    The first start needs `restored` (decision R70). A restore that fails leaves no folder.

    Args:
        file: written by `back_up`.
        path: the new folder.

    Raises:
        ConfigError: the file is no whole backup, the folder is not empty, or slapd is missing.
    """
    folder = DirectoryServerFolder(path)
    with convert_folder_errors(f"the backup {file} cannot be read"), file.open("rb") as opened:
        folder.make()
        try:
            _extract(file, opened, folder.path)
            config = ServerConfig.read(folder.config)
            ldif = folder.path / DIRECTORY
            load_directory(config.store, folder, ldif)
            ldif.unlink()
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
    return folder


@contextmanager
def _open_new_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a new file of mode 0600; remove it if the block fails."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _write_archive(archive_file: IO[bytes], config: ServerConfig, sources: dict[str, Path]) -> None:
    manifest = {
        "format": FORMAT,
        "mqdssm": mqdssm.__version__,
        "machine_name": config.server.machine_name,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": {name: _compute_digest(source) for name, source in sources.items()},
    }
    text = json.dumps(manifest, indent=1).encode()
    with tarfile.open(fileobj=archive_file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        head = tarfile.TarInfo(MANIFEST)
        head.size, head.mode = len(text), 0o600
        archive.addfile(head, io.BytesIO(text))
        for name, source in sources.items():
            archive.add(source, arcname=name, recursive=False)


def _extract(file: Path, opened: IO[bytes], target: Path) -> None:
    """Write the members of a backup into a folder, and check them.

    Raises:
        ConfigError: a member is unknown, missing or damaged.
    """
    try:
        with tarfile.open(fileobj=opened, mode="r:gz") as archive:
            digests = _read_manifest(file, archive)
            while (member := archive.next()) is not None:
                content = archive.extractfile(member)
                if member.name not in digests or not member.isreg() or content is None:
                    raise ConfigError(f"{file} is no backup of a directory server: it has {member.name!r}")
                handle = os.open(target / member.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as written:
                    shutil.copyfileobj(content, written)
    except (tarfile.TarError, EOFError, FileExistsError) as error:
        raise ConfigError(f"{file} is no whole backup of a directory server: {error}") from error
    for name, digest in digests.items():
        if not (target / name).exists() or _compute_digest(target / name) != digest:
            raise ConfigError(f"{file} is damaged: {name} is not as it was when the backup was made")


def _read_manifest(file: Path, archive: tarfile.TarFile) -> dict[str, str]:
    """Return the digests of the members by name.

    Raises:
        ConfigError: the archive has no manifest, or a newer mqdssm made it.
    """
    head = archive.next()
    content = None if head is None or head.name != MANIFEST else archive.extractfile(head)
    if head is None or content is None or head.size > MANIFEST_BYTES_MAX:
        raise ConfigError(f"{file} is no backup of a directory server")
    try:
        manifest: dict[str, Any] = json.loads(content.read())
        number, digests = int(manifest["format"]), dict[str, str](manifest["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is no backup of a directory server: its manifest is damaged") from error
    check_known_format(f"the backup {file}", number, str(manifest.get("mqdssm", "?")))
    if not _NEEDED <= digests.keys() <= _MEMBERS:
        raise ConfigError(f"{file} is no whole backup of a directory server: it has {', '.join(digests)}")
    return digests


def _compute_digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
