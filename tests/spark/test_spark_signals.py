"""SIGTERM, SIGHUP and SIGINT while a job of Spark runs: exit code, no half result, no password, no process.

The first piece of the first job is held until then. `tests/cli/test_cli_signals.py` has the log-in.
"""

import signal
import sys
from collections.abc import Iterator

import pytest
from support.spark.export_command import descendants, readers
from support.spark.killed_command import WAIT_S, start, wait_for_a_piece
from support.spark.reading_commands import COMMANDS, ReadingCommand
from support.spark.runner_work import processes_with

from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.slow,  # starts programs
    pytest.mark.server,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="looks for processes in /proc"),
]

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
QUICK = ("validate", signal.SIGTERM)
"""What ordinary runs try: a start of Java each."""


def cases() -> Iterator[object]:
    for command in COMMANDS:
        for number in SIGNALS:
            marks = [] if (command, number) == QUICK else [pytest.mark.soak]
            yield pytest.param(command, number, marks=marks, id=f"{command}-{number.name}")


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as started:
        yield started


@pytest.mark.parametrize(("command", "number"), [*cases()])
def test_a_signal_while_a_job_runs(
    server, tmp_path, monkeypatch, command: str, number: signal.Signals
) -> None:
    folder, temporary, password = tmp_path / "work", tmp_path / "tmp", server.password
    temporary.mkdir()
    reading = ReadingCommand(command, folder, server.url, "spark")
    for name, value in {
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": password,
        "MQDSSM_CA_FILE": server.ca_file,
        "TMPDIR": str(temporary),
    }.items():
        monkeypatch.setenv(name, value)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as without nohup
    try:
        process = start(tmp_path / "held", "HeldOnce", *reading.words)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        wait_for_a_piece(tmp_path / "held", process)
        assert readers(process.pid)
        assert len(descendants(process.pid)) >= 2  # Java, and workers below it
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert password not in out + err
    if number != signal.SIGINT:
        assert err.splitlines()[-1] == f"error: ended by {number.name}"
    assert processes_with(f"TMPDIR={temporary}") == []
    assert list(temporary.iterdir()) == []
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in left if password.encode() in path.read_bytes()] == []
    assert reading.results() == []
