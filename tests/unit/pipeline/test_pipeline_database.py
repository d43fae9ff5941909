"""The database of joins: it sees what it is given and nothing else, keeps its memory, and stops at once."""

import contextlib
import errno
import os
import sys
import threading
import time

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline import database as database_module
from mqdssm.pipeline.database import DatabaseFailed, format_file_list, open_database
from mqdssm.pipeline.runner import Stopped, StopRequest

SPILLING = "select range as r, repeat('x', 100) || range as t from range(1500000) order by hash(range)"
LONG = "select sum(hash(x.range::varchar || y.range::varchar)) as s from range(1000000) x, range(1000000) y"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "own"
    made.mkdir()
    return made


def test_it_reads_what_it_is_given(folder, tmp_path) -> None:
    path = tmp_path / "it's given.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    with open_database(folder, [str(path)], StopRequest()) as database:
        (batch,) = database.read_batches(f"select sum(x) as s from {format_file_list([str(path)])}", 10)
    assert batch.to_pylist() == [{"s": 3}]


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "copy (select 1) to '{file}.copy'",
        "attach '{file}.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "set memory_limit = '1TB'",
        "select * from folder",  # a variable of Python
    ],
)
def test_everything_else_is_refused(folder, tmp_path, query) -> None:
    (tmp_path / "other").write_text("secret")
    with (
        open_database(folder, [], StopRequest()) as database,
        pytest.raises((ConfigError, DatabaseFailed)) as refused,
    ):
        database.run(query.format(file=tmp_path / "other"))
    assert "secret" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("other.")] == []


@pytest.mark.slow
def test_it_spills_to_its_folder_and_keeps_its_limit(folder) -> None:
    seen: list[int] = []
    with open_database(folder, [], StopRequest(), memory_mb=64) as database:
        rows = 0
        for batch in database.read_batches(SPILLING, 10_000):
            rows += batch.num_rows
            seen.append(sum(path.stat().st_size for path in folder.iterdir()))
    assert rows == 1_500_000
    assert max(seen) > 10_000_000


def test_too_little_memory_is_said_with_a_way_out(folder) -> None:
    with (
        open_database(folder, [], StopRequest(), memory_mb=16) as database,
        pytest.raises(ConfigError, match="needs more memory than 16 MB: use --engine spark"),
    ):
        database.run("create table t as select list(repeat('x', 1000) || range) from range(1000000)")


def test_a_full_disk_is_said_with_another_way_out(folder, monkeypatch) -> None:
    """DuckDB takes nine tenths of the space that is free when it begins; there may be less later."""
    settings = ("max_temp_directory_size = '5MB'", *database_module._LOCKED)
    monkeypatch.setattr(database_module, "_LOCKED", settings)
    with (
        open_database(folder, [], StopRequest(), memory_mb=64) as database,
        pytest.raises(ConfigError, match=rf"^the disk of {folder} is full: .*TMPDIR"),
    ):
        list(database.read_batches(SPILLING, 10_000))


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, ConfigError), (errno.EIO, DatabaseFailed)])
def test_a_file_that_cannot_be_written(folder, number, error) -> None:
    words = f'Could not write file "x.tmp": {os.strerror(number)}'

    def fail() -> None:
        raise duckdb.IOException(words)

    with open_database(folder, [], StopRequest()) as database, pytest.raises(error) as failed:
        database._wait(fail)
    is_full = str(failed.value).startswith(f"the disk of {folder} is full: ")
    assert is_full == (number == errno.ENOSPC)
    assert is_full or str(failed.value) == f"DuckDB: {words}"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE")
def test_other_trouble_with_files_is_said_as_it_is(tmp_path, folder) -> None:
    import resource

    with (
        open_database(tmp_path / "gone" / "too", [], StopRequest(), memory_mb=64) as database,
        pytest.raises(DatabaseFailed, match=r"Failed to create directory.*No such file or directory"),
    ):
        list(database.read_batches(SPILLING, 10_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with open_database(folder, [], StopRequest(), memory_mb=64) as database:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
            with pytest.raises(DatabaseFailed, match=r"Could not write file.*File too large"):
                list(database.read_batches(SPILLING, 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_a_query_stops_when_it_is_asked_to(folder) -> None:
    stop = StopRequest()
    threading.Timer(0.5, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(Stopped), open_database(folder, [], stop) as database:
        list(database.read_batches(LONG, 10))
    assert time.monotonic() - begun < 10  # it would take hours


def test_a_signal_stops_it_too(folder) -> None:
    """Any exception in the waiting thread: as Ctrl-C is one."""

    class Interrupting(StopRequest):
        def check(self) -> None:
            raise KeyboardInterrupt

    begun = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), open_database(folder, [], Interrupting()) as database:
        database.run(LONG)
        pytest.fail("it was not interrupted")
    assert time.monotonic() - begun < 10
