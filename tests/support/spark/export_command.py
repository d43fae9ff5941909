"""``mqdssm export`` in a process of its own, to be killed in the middle; and what its processes are."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.manifest import MANIFEST_NAME, Manifest
from mqdssm.testing.openldap import OpenLdapServer
from support.enterprises.many_objects import ldapsearch
from support.enterprises.queue_oracle import compare
from support.programs.starting import MQDSSM, start

WAIT_S = 180.0


@dataclass
class Command:
    """``mqdssm export`` of everything into one folder.

    Attributes:
        server: whose queues are exported.
        folder: where to.
        queues: how many there are.
        options: further ones, each time.
        environment: further variables.
        python_path: folders before that of the package.
        before: Python statements that are run first.
    """

    server: OpenLdapServer
    folder: Path
    queues: int
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    python_path: list[str] = field(default_factory=list)
    before: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
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
            "PYTHONPATH": os.pathsep.join([*self.python_path, str(Path(__file__).parents[3])]),
            "MQDSSM_URL": self.server.url,
            "MQDSSM_USER": self.server.user,
            "MQDSSM_PASSWORD_FILE": str(self.server.folder / "password"),
            "MQDSSM_CA_FILE": self.server.ca_file,
            **self.environment,
        }
        code = f"{self.before}\nfrom mqdssm.cli.main import run\nrun()"
        program = [sys.executable, "-c", code] if self.before else MQDSSM
        process = start(
            [*program, *options, "-o", "json", *self.options, *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def finished_files(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob(".export/journal/*.jsonl"))

    def in_the_middle(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until some files are there; gives how many."""
        deadline = time.monotonic() + WAIT_S
        while (count := self.finished_files()) < 20:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "nothing was exported"
            time.sleep(0.005)
        return count

    def ended(self, process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out.decode(), err.decode()

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

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
        compare(found["ldap"], found["queue"], ldapsearch(self.server), self.queues)
        return manifest


def children(pid: int) -> list[int]:
    """Of all threads: Java's start processes, too."""
    return [
        int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()
    ]


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]


def readers(pid: int) -> list[int]:
    """The workers below a process: of the local engine, or of Spark, whose command line is their daemon's."""
    found = []
    for one in descendants(pid):
        command = Path(f"/proc/{one}/cmdline").read_bytes()
        if b"mqdssm.pipeline.worker" in command or (b"pyspark.daemon" in command and not children(one)):
            found.append(one)
    return found


def without_engine(output: str) -> list[str]:
    """Sorted lines of ``validate -o json``, whose summary does not name the engine."""
    lines = [json.loads(line) for line in output.splitlines()]
    return sorted(
        json.dumps({name: value for name, value in line.items() if name != "engine"}) for line in lines
    )
