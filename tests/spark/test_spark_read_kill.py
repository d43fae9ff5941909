"""kill -9 of slapd, or of the program, while a command reads a directory: no half result, and a way back."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.enterprises.many_objects import fill
from support.mqis.comparison import RELEASE
from support.spark.export_command import readers
from support.spark.killed_command import WAIT_S, start, wait_for_a_piece
from support.spark.reading_commands import ReadingCommand
from support.spark.runner_work import are_gone

from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.slow,  # starts programs
    pytest.mark.server,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]
SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])
ENGINES = ["local", SPARK]
READING = ("validate", "inventory", "diff", "plan")
"""The others: test_spark_export_kill.py, test_spark_migrate_kill.py."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    with OpenLdapServer(durable=False) as started:
        fill(started, 300)
        monkeypatch.setenv("MQDSSM_URL", started.ldapi_url)
        yield started


def check_repeated(reading: ReadingCommand) -> None:
    """Check that the same command, given again, writes all of its files."""
    program = [sys.executable, "-m", "mqdssm.cli.main", *reading.words]
    again = subprocess.run(program, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert again.returncode in {0, 1}, again.stderr
    assert again.stdout
    for name, place in reading.places.items():
        assert place.exists() == (str(place) in reading.words), name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.soak] * (name != "plan")) for name in READING]
)
def test_slapd_is_killed(server: OpenLdapServer, tmp_path: Path, command: str, engine: str) -> None:
    reading = ReadingCommand(command, tmp_path, server.ldapi_url, engine)
    process = start(tmp_path / "ReleasedOnce", "ReleasedOnce", *reading.words)
    try:
        wait_for_a_piece(tmp_path / "ReleasedOnce", process)
        server.kill()
        (tmp_path / "ReleasedOnce" / RELEASE).touch()
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (3, ""), err
    assert reading.url in err
    assert "Traceback" not in err
    assert reading.results() == []
    server.start()
    check_repeated(reading)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "command", ["validate", pytest.param("plan", marks=pytest.mark.soak)]
)  # the others: test_spark_kill_reads.py
def test_the_program_is_killed(server: OpenLdapServer, tmp_path: Path, command: str, engine: str) -> None:
    reading = ReadingCommand(command, tmp_path, server.ldapi_url, engine)
    process = start(tmp_path / "HeldOnce", "HeldOnce", *reading.words)
    try:
        wait_for_a_piece(tmp_path / "HeldOnce", process)
        workers = readers(process.pid)
        assert workers
    finally:
        process.kill()
        process.communicate()
    assert are_gone(workers, 90.0)
    assert reading.results() == []
    check_repeated(reading)
