"""kill -9 of the program, of a worker of Spark's, and of slapd, in the middle of an export: resumed, equal.

The command runs in a process of its own with a session of its own, as users run it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from many_objects import fill, ldapsearch
from queue_oracle import compare

from mqdssm.spark.manifest import MANIFEST_NAME, Manifest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.xdist_group("spark")]

QUEUES = 12_000
WAIT_S = 180.0


@dataclass
class Command:
    """``mqdssm export`` of everything into one folder."""

    server: OpenLdapServer
    folder: Path
    started: list[subprocess.Popen] = field(default_factory=list)

    def start(self, *more: str) -> subprocess.Popen:
        options = [
            "export",
            "--type",
            "queue",
            "--type",
            "ldap",
            "--to",
            str(self.folder),
            "--file-rows",
            "50",
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "MQDSSM_URL": self.server.url,
            "MQDSSM_USER": self.server.user,
            "MQDSSM_PASSWORD_FILE": str(self.server.folder / "password"),
            "MQDSSM_CA_FILE": self.server.ca_file,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "mqdssm.cli.main", *options, "-o", "json", *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def finished_files(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob(".export/journal/*.jsonl"))

    def in_the_middle(self, process: subprocess.Popen) -> int:
        """Wait until some files are there; gives how many."""
        deadline = time.monotonic() + WAIT_S
        while (count := self.finished_files()) < 20:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "nothing was exported"
            time.sleep(0.005)
        return count

    def ended(self, process: subprocess.Popen) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out.decode(), err.decode()

    def check(self) -> Manifest:
        manifest = Manifest.load(self.folder)
        manifest.check(self.folder)
        assert manifest.consistent
        assert sorted(path.name for path in self.folder.iterdir()) == ["ldap", MANIFEST_NAME, "queue"]
        found = {}
        for name, exported in manifest.types.items():
            assert {path.name for path in (self.folder / name).iterdir()} == {
                part.path.rpartition("/")[2] for part in exported.files
            }
            tables = [pq.read_table(self.folder / part.path) for part in exported.files]
            found[name] = pa.concat_tables(tables).to_pylist()
        compare(found["ldap"], found["queue"], ldapsearch(self.server), QUEUES)
        return manifest


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as made:
        fill(made, QUEUES)
        yield made


@pytest.fixture
def command(server, tmp_path) -> Iterator[Command]:
    made = Command(server, tmp_path / "out")
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def children(pid: int) -> list[int]:
    """Of all threads: Java's start processes, too."""
    return [
        int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()
    ]


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]


def readers(pid: int) -> list[int]:
    """The workers of Spark's below a process: forked by its daemon, whose command line they have."""
    found = []
    for one in descendants(pid):
        command = Path(f"/proc/{one}/cmdline").read_bytes()
        if b"pyspark.daemon" in command and not children(one):
            found.append(one)
    return found


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


@pytest.mark.parametrize("pause_s", [0.0, pytest.param(90.0, marks=pytest.mark.soak)])
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
