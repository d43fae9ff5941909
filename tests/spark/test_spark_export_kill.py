"""kill -9 of the program, of a worker of Spark's, and of slapd, in the middle of an export: resumed, equal.

The command runs in a process of its own with a session of its own, as users run it. Each test starts Java
twice: what `make test` sees of this is the local engine's (`tests/servers/test_export_kill.py`).
"""

import json
import os
import signal
from collections.abc import Iterator

import pytest
from support.enterprises.many_objects import fill
from support.spark.export_command import Command, readers

from mqdssm.pipeline.manifest import MANIFEST_NAME
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.soak, pytest.mark.server]

QUEUES = 12_000


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as made:
        fill(made, QUEUES)
        yield made


@pytest.fixture
def command(server, tmp_path) -> Iterator[Command]:
    made = Command(server, tmp_path / "out", QUEUES, ("--engine", "spark"))
    yield made
    made.end()


def test_the_program_is_killed(command) -> None:
    process = command.start()
    before = command.in_the_middle(process)
    process.kill()
    process.communicate()
    assert not (command.folder / MANIFEST_NAME).exists()
    refused = command.ended(command.start())
    assert refused[0] == 6
    assert "holds an unfinished export: go on with --resume" in json.loads(refused[2])["message"]
    kept = {path: path.stat().st_mtime_ns for path in command.folder.glob("*/part-*")}
    assert len(kept) >= before
    code, out, err = command.ended(command.start("--resume"))
    assert code == 0, err
    manifest = command.check()
    assert manifest.resumed == 1
    assert json.loads(out) == manifest.model_dump(mode="json")
    # the files that were complete are the same ones
    same = [path for path, time_ns in kept.items() if path.is_file() and path.stat().st_mtime_ns == time_ns]
    assert len(same) >= before


def test_a_worker_is_killed(command) -> None:
    process = command.start()
    command.in_the_middle(process)
    killed = readers(process.pid)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    code, _, err = command.ended(process)
    assert code == 0, err  # Spark gives the work to another one
    command.check()


@pytest.mark.parametrize("pause_s", [0.0, 90.0])
def test_slapd_is_killed(command, server, pause_s) -> None:
    process = command.start()
    command.in_the_middle(process)
    server.kill()
    try:
        if pause_s:
            code, _, err = command.ended(process)
            assert code == 3, err
            said = json.loads(err.strip().splitlines()[-1])
            assert "go on with --resume" in said["message"] + said["hint"]
            assert said["error"] == "DirectoryNotConnected"
    finally:
        server.start()
    code, _, err = command.ended(process)
    if code:
        assert code == 3, err
        code, _, err = command.ended(command.start("--resume"))
    assert code == 0, err
    command.check()
