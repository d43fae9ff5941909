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

from mqdssm.directory.options import TlsMode
from mqdssm.errors import ConfigError
from mqdssm.spark.columns import TYPES
from mqdssm.spark.manifest import SCHEMA_VERSION, ExportedFile, ExportedType, Manifest, sha256, utc_seconds
from mqdssm.spark.options import SourceOptions
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
    tls: TlsMode | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    profile: str = "auto",
    naming_context: str | None = None,
    forest: bool = False,
    catalog: str | Sequence[str] = (),
    allow_clear_text: bool = False,
) -> Manifest:
    """Export types of objects to ``DIR/<type>/part-*.parquet``, and write ``DIR/manifest.json`` last.

    What cannot work is found before Java starts: a folder with something in it, no Java, a server that does
    not let us in. An attribute that is not set is NULL, where the specification gives no default.

    Args:
        urls: one or several LDAP servers; they are tried in turn.
        types: names as on the command line (``queue``, ``queue-manager``, ...).
        to_dir: the folder; it is made, or must be empty.
        user: DN to bind as; None: anonymous, SASL EXTERNAL over ``ldapi:``.
        password: of that user. It goes to Spark's workers in a file that only we may read, and that is
            removed.
        tls: ``ldaps``, ``starttls`` or ``none``; None: as the URL says.
        ca_file: PEM file of the authorities to trust.
        profile: kind of server, or ``auto``.
        naming_context: where computers, queues and users are, if not below the root (decision M8).
        forest: look for objects of all domains, through a global catalog (decision M73).
        catalog: one or several global catalogs; none: the servers' own.
        allow_clear_text: let the password go in clear text to another machine.

    Returns:
        The manifest, as it was written.

    Raises:
        ConfigError: no Java or pyspark, a folder that is not empty, an unknown type.
        DirectoryNotConnected: no server can be reached, or none lets us in.
        DirectoryError: a search failed; the folder is empty again then.
        SparkFailed: Spark itself failed, as when the disk is full; the same.
    """
    wanted = _checked_types(types)
    check_spark()
    folder = _empty_folder(Path(to_dir))
    started = datetime.now(UTC)
    given = {
        "url": urls if isinstance(urls, str) else " ".join(urls),
        "user": user or "",
        "tls": tls or "",
        "cafile": "" if ca_file is None else str(Path(ca_file).resolve()),
        "profile": profile,
        "namingcontext": naming_context or "",
        "forest": str(forest),
        "catalog": catalog if isinstance(catalog, str) else " ".join(catalog),
        "allowcleartext": str(allow_clear_text),
    }
    with _credentials(password) as credentials:
        options = {**given, **credentials}
        with SourceOptions.parse({**options, "object": wanted[0]}).connect() as directory:
            # the one that answered: another server may hold the state of another time
            options["url"] = server = directory.session.server_url or ""
            root = str(directory.session.naming.root)
        exported = _export_types(wanted, folder, options)
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
            raise ConfigError(f"{folder} is not empty: an export needs a folder of its own")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}") from error
    return folder.resolve()


def _export_types(types: Sequence[str], folder: Path, options: Mapping[str, str]) -> dict[str, ExportedType]:
    """Export the types one after the other; what is there when one fails is removed again."""
    # measured: the JVM only passes the rows on, and is not slower with 500,000 of them
    with spark_session("mqdssm export", brief=True) as spark:
        try:
            return {name: _export_type(spark, name, folder, options) for name in types}
        except BaseException:
            for name in types:  # the folder was empty: all of these are ours
                shutil.rmtree(folder / name, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(folder / _STAGING, ignore_errors=True)


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
    from mqdssm.spark.source import read

    staging = folder / _STAGING / name
    read(spark, name, **options).write.option("compression", "none").parquet(staging.as_uri())
    target = folder / name
    target.mkdir()
    files = []
    for number, part in enumerate(sorted(staging.glob("part-*.parquet"))):
        path = target / f"part-{number:05d}.parquet"
        part.rename(path)
        files.append(ExportedFile(path=f"{name}/{path.name}", rows=_rows(path), sha256=sha256(path)))
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
