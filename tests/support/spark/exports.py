"""Exports by the engine of the test; the local one does little work in this process: seams, breaking off."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.errors import MqdssmError
from mqdssm.pipeline.export import run as export_module
from mqdssm.pipeline.export.worker import ItemJournal
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.manifest import SCHEMA_VERSION, ExportedFile, ExportedType, Manifest, hash_file
from mqdssm.pipeline.runner import Job, Piece, StopRequest, Work
from support.spark.engines import chosen_engine


def export_here(*args: Any, **more: Any) -> Manifest:
    """Export with the engine of the test: without Spark also where another test has a session."""
    return export_module.export(*args, engine=chosen_engine(), **more)


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


@dataclass(frozen=True)
class Around:
    """Work that is done within a context, which each worker enters."""

    work: Work
    context: Callable[[], AbstractContextManager[Any]]

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        with self.context(), self.work.open(stop) as piece:
            yield piece


def around_next_work(monkeypatch, context: Callable[[], AbstractContextManager[Any]]) -> None:
    """Do the next job of the test's engine within a context that each worker enters."""
    runner: Any = LocalRunner
    if chosen_engine() == "spark":
        from mqdssm.spark.runner import SparkRunner

        runner = SparkRunner
    real = runner.run

    def run(self: Any, job: Job, **more: Any) -> list[Any]:
        monkeypatch.setattr(runner, "run", real)
        found: list[Any] = real(self, replace(job, work=Around(job.work, context)), **more)
        return found

    monkeypatch.setattr(runner, "run", run)


def breaks_after(monkeypatch, count: int) -> None:
    """Make the next export break off when a worker has written some files."""
    around_next_work(monkeypatch, partial(_breaking, count))


@contextmanager
def _breaking(count: int) -> Iterator[None]:
    real, left = ItemJournal.add, [count]

    def add(self: ItemJournal, finished: Any) -> None:
        real(self, finished)
        left[0] -= 1
        if left[0] == 0:
            raise MqdssmError("broken off")

    with patch.object(ItemJournal, "add", add):
        yield


def write_export(folder: Path, tables: Mapping[str, pa.Table], *, group_rows: int = 10_000) -> None:
    """Make an export of tables, without a directory."""
    types = {}
    for name, table in tables.items():
        path = folder / name / "part-000-00000.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path, row_group_size=group_rows)
        file = ExportedFile(path=f"{name}/{path.name}", rows=table.num_rows, sha256=hash_file(path))
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
