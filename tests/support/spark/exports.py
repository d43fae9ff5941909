"""Exports by the local engine, which does little work in this process: seams, and how to break them off."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import MqdssmError
from mqdssm.pipeline.export import run as export_module
from mqdssm.pipeline.manifest import SCHEMA_VERSION, ExportedFile, ExportedType, Manifest, sha256

export_here = partial(export_module.export, engine="local")
"""Exports without Spark, also where another test of this process has a session."""


def after_reading(monkeypatch, step: Callable[[], Any]) -> None:
    """Do something when everything was read, and before an export ends."""
    real = export_module._read

    def read(*args: Any, **more: Any) -> None:
        real(*args, **more)
        step()

    monkeypatch.setattr(export_module, "_read", read)


def access_to(server: Any) -> dict[str, Any]:
    """How to log in as the administrator of a private server."""
    return {"user": server.user, "password": server.password, "ca_file": server.ca_file}


def contents(folder: Path, manifest: Manifest, name: str) -> bytes:
    """All text files of a type, in the order of the manifest."""
    return b"".join((folder / one.path).read_bytes() for one in manifest.types[name].files)


def breaks_after(monkeypatch, count: int, error: Exception | None = None) -> None:
    """Make the work break off after some files."""
    from mqdssm.pipeline.export import worker as export_worker

    real = export_worker.ItemJournal.add
    left = [count]

    def add(self, finished) -> None:
        real(self, finished)
        left[0] -= 1
        if left[0] == 0:
            monkeypatch.setattr(export_worker.ItemJournal, "add", real)
            raise error or MqdssmError("broken off")

    monkeypatch.setattr(export_worker.ItemJournal, "add", add)


def write_export(folder: Path, tables: Mapping[str, pa.Table], *, group_rows: int = 10_000) -> None:
    """Make an export of tables, without a directory."""
    types = {}
    for name, table in tables.items():
        path = folder / name / "part-000-00000.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path, row_group_size=group_rows)
        file = ExportedFile(path=f"{name}/{path.name}", rows=table.num_rows, sha256=sha256(path))
        types[name] = ExportedType(rows=table.num_rows, files=(file,))
    Manifest(
        schema_version=SCHEMA_VERSION,
        server="ldap://test",
        naming_context="DC=example,DC=com",
        started=datetime(2026, 6, 1, tzinfo=UTC),
        ended=datetime(2026, 6, 1, tzinfo=UTC),
        consistent=True,
        types=types,
        versions={},
    ).write(folder)
