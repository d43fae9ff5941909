"""The local engine without Java and pyspark: kills and signals in the middle of an export, resumed and equal.

The command runs in a process of its own with a session of its own, as users run it.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.enterprises.many_objects import fill
from support.spark.export_command import Command, readers
from support.spark.runner_work import are_gone
from support.spark.without_java import blocked_packages

from mqdssm.pipeline.manifest import MANIFEST_NAME
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform == "win32", reason="looks for processes in /proc"),
]

QUEUES = 2_000
MANY_OBJECTS = "from mqdssm.pipeline.export import run\nrun.SMALL_OBJECTS = 10"
"""Makes everything too much for one process."""


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as made:
        fill(made, QUEUES)
        yield made


@pytest.fixture
def command(server, tmp_path) -> Iterator[Command]:
    """The command on a machine with neither Java nor pyspark."""
    made = Command(
        server, tmp_path / "out", QUEUES, ("--workers", "2"), {"PATH": "/nowhere", "JAVA_HOME": ""}
    )
    made.before = MANY_OBJECTS
    made.python_path.append(str(blocked_packages(tmp_path)))
    yield made
    made.end()


def resumed(command: Command) -> None:
    code, out, err = command.ended(command.start("--resume"))
    assert code == 0, err
    manifest = command.check()
    assert (manifest.resumed, manifest.engine) == (1, "local")
    assert json.loads(out) == manifest.model_dump(mode="json")


def test_workers_are_killed_and_showed_no_password(command, server) -> None:
    command.environment |= {"MQDSSM_PASSWORD": server.password, "MQDSSM_PASSWORD_FILE": ""}
    process = command.start()
    command.in_the_middle(process)
    killed = readers(process.pid)
    assert len(killed) == 2
    seen = b""
    for pid in killed:
        with contextlib.suppress(OSError):
            seen += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert b"mqdssm.pipeline.worker" in seen
    assert b"MQDSSM_USER" in seen
    assert server.password.encode() not in seen
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    code, _, err = command.ended(process)
    assert code == 0, err  # other workers go on
    assert command.check().engine == "local"


def test_the_program_is_killed(command) -> None:
    process = command.start()
    command.in_the_middle(process)
    workers = readers(process.pid)
    process.kill()
    process.communicate()
    assert len(workers) == 2
    assert are_gone(workers)
    assert not (command.folder / MANIFEST_NAME).exists()
    refused = command.ended(command.start())
    assert refused[0] == 6
    assert "holds an unfinished export: go on with --resume" in json.loads(refused[2])["message"]
    resumed(command)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_it(command, number, code) -> None:
    process = command.start()
    command.in_the_middle(process)
    workers = readers(process.pid)
    process.send_signal(number)
    found, out, err = command.ended(process)
    assert (found, out) == (code, "")
    assert "Traceback" not in err
    assert are_gone(workers)
    # at a safe place: no file is left that no journal knows
    known = {
        json.loads(line)["file"]["path"]
        for journal in command.folder.glob(".export/journal/*.jsonl")
        for line in journal.read_text().splitlines()
    }
    made = {str(path.relative_to(command.folder)) for path in command.folder.glob("*/part-*")}
    assert made == known
    resumed(command)


def test_slapd_is_killed(command, server) -> None:
    process = command.start()
    command.in_the_middle(process)
    server.kill()
    server.start()
    code, _, err = command.ended(process)
    if code:
        assert code == 3, err
        assert "go on with --resume" in err
        resumed(command)
    command.check()


def test_spark_is_refused_in_words(command) -> None:
    command.options = ("--engine", "spark")
    code, out, err = command.ended(command.start())
    assert (code, out) == (6, "")
    assert "needs Java 17" in json.loads(err)["message"]
