"""Export: the objects of a directory as Parquet files and a manifest."""

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mqdssm
from mqdssm.errors import ConfigError
from mqdssm.spark.columns import TYPES
from mqdssm.spark.failures import unpack
from mqdssm.spark.manifest import SCHEMA_VERSION, ExportedFile, ExportedType, Manifest, sha256, utc_seconds
from mqdssm.spark.options import Tls
from mqdssm.spark.session import check_spark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STAGING: Final = ".staging"


def export(
    urls: str | Sequence[str],
    types: Sequence[str],
    to_dir: str | os.PathLike[str],
    *,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    profile: str = "auto",
) -> Manifest:
    """Export types of objects to ``DIR/<type>/part-*.parquet``, and write ``DIR/manifest.json`` last.

    What cannot work is found before Java starts: a folder with something in it, no Java, a server that does
    not let us in. An attribute that is not set is NULL, where the specification gives no default.

    Args:
        urls: one or several LDAP servers; they are tried in turn.
        types: names as on the command line (``queue``, ``queue-manager``, ...).
        to_dir: the folder; it is made, or must be empty.
        user: DN to bind as; None is SASL EXTERNAL over ``ldapi:``.
        password: of that user. It goes to Spark's workers in a file that only we may read, and that is
            removed.
        tls: ``ldaps``, ``starttls`` or ``none``; None: as the URL says.
        ca_file: PEM file of the authorities to trust.
        profile: kind of server, or ``auto``.

    Returns:
        The manifest, as it was written.

    Raises:
        ConfigError: no Java or pyspark, a folder that is not empty, an unknown type.
        DirectoryNotConnected: no server can be reached, or none lets us in.
        DirectoryError: the search failed; there is no manifest then.
    """
    wanted = _checked_types(types)
    check_spark()
    folder = _empty_folder(Path(to_dir))
    servers = [urls] if isinstance(urls, str) else list(urls)
    with mqdssm.connect(
        servers, user=user, password=password, tls=tls, ca_file=_text(ca_file), profile=profile
    ) as directory:
        server = directory.session.server_url
        root = str(directory.session.naming.root)
    started = datetime.now(UTC)
    options = {
        "url": " ".join(servers),
        "user": user,
        "tls": tls,
        "cafile": _absolute(ca_file),
        "profile": profile,
    }
    with _credentials(password) as credentials, spark_session("mqdssm export") as spark:
        given = {name: value for name, value in {**options, **credentials}.items() if value}
        exported = {name: _export_type(spark, name, folder, given) for name in wanted}
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        server=server,
        naming_context=root,
        started=utc_seconds(started),
        ended=utc_seconds(datetime.now(UTC)),
        types=exported,
        versions=_versions(),
    )
    manifest.write(folder)
    return manifest


def _checked_types(types: Sequence[str]) -> list[str]:
    if not types:
        raise ConfigError(f"nothing to export: name one of {', '.join(TYPES)}")
    for name in types:
        if name not in TYPES:
            raise ConfigError(f"{name!r} is no type: use one of {', '.join(TYPES)}")
    return list(dict.fromkeys(types))


def _empty_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: export into a folder of its own")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}") from error
    return folder.resolve()


@contextlib.contextmanager
def _credentials(password: str | None) -> Iterator[Mapping[str, str]]:
    """Put the password where only we can read it; options and environment are seen by too many."""
    if password is None:
        yield {}
        return
    handle, name = tempfile.mkstemp(prefix="mqdssm-")  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(password + "\n")
        yield {"credentialsfile": name}
    finally:
        Path(name).unlink(missing_ok=True)


def _export_type(spark: "SparkSession", name: str, folder: Path, options: Mapping[str, str]) -> ExportedType:
    from pyspark.errors import PySparkException

    from mqdssm.spark.source import read

    staging = folder / _STAGING / name
    try:
        read(spark, name, **options).write.option("compression", "none").parquet(staging.as_uri())
    except PySparkException as error:
        shutil.rmtree(folder / _STAGING, ignore_errors=True)
        known = unpack(str(error))
        if known is not None:
            raise known from None
        raise
    target = folder / name
    target.mkdir()
    files = []
    for number, part in enumerate(sorted(staging.glob("part-*.parquet"))):
        path = target / f"part-{number:05d}.parquet"
        part.rename(path)
        files.append(ExportedFile(path=f"{name}/{path.name}", rows=_rows(path), sha256=sha256(path)))
    shutil.rmtree(folder / _STAGING)
    return ExportedType(rows=sum(file.rows for file in files), files=tuple(files))


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("mqdssm", "pyspark", "pyarrow"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _absolute(path: str | os.PathLike[str] | None) -> str | None:
    """Workers have another current folder."""
    return None if path is None else str(Path(path).resolve())
