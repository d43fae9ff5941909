"""Work items of an export: who fails stops the others, who is asked to end does not."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.pipeline.export import worker
from mqdssm.pipeline.export.file_writer import ExportFiles, PartOptions, RowBatch
from mqdssm.pipeline.export.journal import WORK_NAME, ExportFolder
from mqdssm.pipeline.export.worker import STOP_NAME, ExportTask, ExportWork
from mqdssm.pipeline.runner import Stopped, StopRequest


class NoAccess:
    """Nobody connects here: the work item is not reached."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("queue", f"{WORK_NAME}/keys"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@contextlib.contextmanager
def item_that_raises(folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(worker, "export_item", fail)
    access: Any = NoAccess()
    plan: Any = None
    with ExportWork(ExportTask(access, str(folder), plan), (("queue", 0),)).open(StopRequest()) as piece:
        yield piece


def test_a_worker_that_is_asked_to_end_stops_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM sets the stop of one worker; another one does its piece again (decision M110)."""
    with (
        item_that_raises(folder, Stopped("the work was stopped"), monkeypatch) as piece,
        pytest.raises(Stopped),
    ):
        piece(0)
    assert not (folder / WORK_NAME / STOP_NAME).exists()


@pytest.mark.parametrize("error", [GenericDirectoryError("refused"), OSError(28, "No space left on device")])
def test_a_worker_that_fails_stops_the_others(
    folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "refused|failed: No space left on device; when that is mended, go on with --resume"
    with (
        item_that_raises(folder, error, monkeypatch) as piece,
        pytest.raises((GenericDirectoryError, ConfigError), match=words),
    ):
        piece(0)
    assert (folder / WORK_NAME / STOP_NAME).exists()


def test_a_file_whose_name_is_not_on_the_disk_is_not_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal must not name a file that a power failure can take away (decision M97)."""

    def broken(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")

    files = ExportFiles(PartOptions(ExportFolder(folder), "queue", "jsonl", "none", 0, file_rows=1), ())
    rows = RowBatch(pa.array(["a"]), pa.array(["a"]), [b"text\n"])
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        list(files.add(rows))
