"""Exports by the local engine, which does little work in this process: seams, and how to break them off."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mqdssm.errors import MqdssmError
from mqdssm.spark import export as export_module
from mqdssm.spark.manifest import Manifest

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
