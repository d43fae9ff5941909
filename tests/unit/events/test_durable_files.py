"""Durable files: names are synced as contents are, and what the disk refuses is an error."""

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from mqdssm.errors import ConfigError
from mqdssm.events import durable_files
from mqdssm.events.durable_files import lock_file, replace_file, sync_folder, write_atomically


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each fsync, whether it was that of a folder."""
    calls: list[bool] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        calls.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return calls


def refuse_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_file_is_on_the_disk_before_its_name(tmp_path: Path, synced: list[bool]) -> None:
    replace_file(tmp_path / "file", [b"a", memoryview(b"b")])
    assert (tmp_path / "file").read_bytes() == b"ab"
    assert synced == [False, True]


def test_a_name_without_a_folder_is_synced_in_the_current_one(
    tmp_path: Path, synced: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically(Path("file"), ["ä"], mode=0o640)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "ä"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert synced == [False, True]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_what_the_disk_refuses_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_folders(monkeypatch, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        sync_folder(tmp_path)
    with pytest.raises(ConfigError, match=rf"file cannot be written: {os.strerror(number)}"):
        write_atomically(tmp_path / "file", ["new"])


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_is_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_folders(monkeypatch, number)
    sync_folder(tmp_path)
    replace_file(tmp_path / "file", [b"new"])


def test_a_folder_that_may_not_be_listed_is_synced_with_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a parent, as a /home of mode 0711, is no reason to refuse a state folder in it."""
    real, synced = os.open, []

    def refuse(path: object, *rest: int) -> int:
        if path == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    sync_folder(tmp_path)
    assert synced == [True]


def test_a_folder_that_is_not_there_is_an_error_but_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "none")
    monkeypatch.setattr(durable_files, "_SYNCS_FOLDERS", False)  # as there, where folders are not opened
    sync_folder(tmp_path / "none")


@pytest.mark.skipif(sys.platform == "win32", reason="needs O_NOFOLLOW")
def test_a_lock_is_no_link_that_another_user_made(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(OSError, match="symbolic links"),
        lock_file(tmp_path / "lock", wait_s=0, message="held"),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()
