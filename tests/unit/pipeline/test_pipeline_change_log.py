"""The log of changes: rows stay until they are released, and what does not fit is refused with words."""

import os
import stat
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline.changes import change_log
from mqdssm.pipeline.changes.change_log import ChangeLog

SCHEMA = pa.schema([("Sequence", pa.int64()), ("ChangeId", pa.string())])


def opened(folder: Path, kind: str = "queue", schema: pa.Schema = SCHEMA) -> ChangeLog:
    return ChangeLog(folder, kind, schema).open()


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_pydict(
        {"Sequence": numbers, "ChangeId": [f"id-{number}" for number in numbers]}, schema=SCHEMA
    )


def numbers(log: ChangeLog, start: int, end: int) -> list[list[int]]:
    return [batch.column("Sequence").to_pylist() for batch in log.read_between(start, end)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a log with the rows 1 to 6, in three files."""
    log = opened(tmp_path / "state")
    for first, count in ((1, 3), (4, 1), (5, 2)):
        log.append(rows(first, count))
    log.close()
    return tmp_path / "state"


def test_rows_are_there_again_until_they_are_released(folder: Path) -> None:
    log = opened(folder)
    assert (log.end, log.is_new, log.newest_ids) == (6, True, {"id-5", "id-6"})
    for _ in range(2):
        assert numbers(log, 1, 5) == [[2, 3], [4], [5]]
    assert numbers(log, 6, 6) == []
    log.release(4)
    assert numbers(log, 4, 6) == [[5, 6]]
    log.close()
    log = opened(folder)
    assert (log.end, log.is_new) == (6, False)
    log.release(2)  # of an older batch, once more
    with pytest.raises(ConfigError, match="holds the changes 5 to 6, and the checkpoint goes on behind 3"):
        list(log.read_between(3, 6))
    with pytest.raises(ConfigError, match="goes on behind 7: bring back the folder"):
        log.check(7)
    log.release(6)
    assert log.newest_ids == {"id-5", "id-6"}, "what was told and not yet committed is recognised"
    log.append(rows(7, 1))
    log.release(7)
    log.close()
    assert [path.name for path in folder.glob("*.arrow")] == ["000000000007-000000000007.arrow"]


def test_only_its_owner_reads_it(folder: Path) -> None:
    assert folder.stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o177 for path in folder.glob("*.*")} == {0}


def test_what_a_kill_left_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    for name in ("lock", ".changes.json.abc", ".000000000001-000000000009.arrow.xyz"):
        (folder / name).write_bytes(b"half")
    log = opened(folder)
    assert (log.end, log.is_new) == (0, True)
    log.close()


def folders_synced(monkeypatch: pytest.MonkeyPatch, broken: Path | None = None) -> list[Path]:
    """Folders that are synced from now on; one of them cannot be."""
    synced: list[Path] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            synced.append(Path(f"/proc/self/fd/{handle}").readlink())
            if synced[-1] == broken:
                raise OSError(5, "Input/output error")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files come from /proc")
def test_a_log_is_on_the_disk_before_an_offset_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    synced = folders_synced(monkeypatch)
    log = opened(folder)
    assert synced == [tmp_path, folder]  # its own name, and that of its first file
    log.append(rows(1, 1))
    assert synced == [tmp_path, folder, folder]
    log.close()
    folders_synced(monkeypatch, broken=tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be used: .*Input/output error"):
        opened(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files come from /proc")
def test_rows_that_are_not_on_the_disk_are_not_in_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(folder)
    with monkeypatch.context() as patch:
        folders_synced(patch, broken=folder)
        with pytest.raises(OSError, match="Input/output error"):
            log.append(rows(7, 2))
    assert log.end == 6
    log.append(rows(7, 3))
    log.close()
    log = opened(folder)
    assert numbers(log, 6, 9) == [[7, 8, 9]]
    log.close()


def test_what_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was begun with object 'queue', not 'site'"):
        opened(folder, "site")
    with pytest.raises(ConfigError, match=r"was begun with columns .*: give the same options"):
        opened(folder, schema=pa.schema([("Sequence", pa.int64())]))
    with pytest.raises(ConfigError, match="is no state folder and not empty"):
        opened(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="a file is there: name a folder"):
        opened(tmp_path / "file")
    (folder / "000000000004-000000000004.arrow").rename(tmp_path / "away")
    with pytest.raises(ConfigError, match="changes 4 to 4 are missing"):
        opened(folder)


@pytest.mark.parametrize("name", ["000000000005-000000000006.arrow", "changes.json"])
def test_damage_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"nothing of ours")
    with pytest.raises(ConfigError, match=rf"{name} is damaged.*: bring back a copy"):
        opened(folder)


def test_one_query_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(folder)
    monkeypatch.setattr(change_log, "TAKEN_WAIT_S", 0.0)
    with pytest.raises(ConfigError, match="another query works with this state"):
        opened(folder)
    monkeypatch.setattr(change_log, "TAKEN_WAIT_S", 20.0)
    ends = threading.Timer(0.3, log.close)  # as a query does that is just being stopped
    ends.start()
    opened(folder).close()
    ends.join()
