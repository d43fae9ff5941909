"""Exports whose work items are done in this process: the same code as in Spark's workers, without Java."""

from pathlib import Path
from typing import Any

import pytest

from mqdssm.errors import MqdssmError
from mqdssm.spark import export as export_module
from mqdssm.spark.cluster import HERE, SparkOptions
from mqdssm.spark.export_worker import Task, export_item
from mqdssm.spark.journal import Folder
from mqdssm.spark.manifest import Manifest


def run_here(task: Task, on: SparkOptions = HERE) -> None:
    """Do the work items one after the other."""
    folder = Folder(Path(task.folder))
    for name in task.plan.types:
        for item, journal in enumerate(folder.journals(task.plan, name)):
            if not journal.done:
                export_item(task, name, item)


@pytest.fixture
def without_spark(monkeypatch) -> None:
    monkeypatch.setattr(export_module, "_run", run_here)
    monkeypatch.setattr(export_module, "check_spark", lambda: None)


def access_to(server: Any) -> dict[str, Any]:
    """How to log in as the administrator of a private server."""
    return {"user": server.user, "password": server.password, "ca_file": server.ca_file}


def contents(folder: Path, manifest: Manifest, name: str) -> bytes:
    """All text files of a type, in the order of the manifest."""
    return b"".join((folder / one.path).read_bytes() for one in manifest.types[name].files)


def breaks_after(monkeypatch, count: int, error: Exception | None = None) -> None:
    """Make the work break off after some files."""
    from mqdssm.spark import export_worker

    real = export_worker.Journal.add
    left = [count]

    def add(self, finished) -> None:
        real(self, finished)
        left[0] -= 1
        if left[0] == 0:
            monkeypatch.setattr(export_worker.Journal, "add", real)
            raise error or MqdssmError("broken off")

    monkeypatch.setattr(export_worker.Journal, "add", add)
