"""A stand-alone cluster of Spark's: a master and two workers, processes with addresses of their own.

A pip-installed pyspark has no start scripts for it; ``bin/spark-class`` is enough. Environment and current
folder of the processes are not the tests'.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark
import pytest

from mqdssm.spark.session import BRIEF_JAVA
from support.servers.processes import runs

WAIT_S: Final = 120.0
MASTER_HOST: Final = "127.0.0.1"
WORKER_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
_HOME: Final = Path(pyspark.__file__).parent
_LISTENS: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Registering worker"


class SparkCluster:
    """A cluster that runs.

    Args:
        folder: for logs and what its processes leave.

    Attributes:
        master: its address, for ``--spark-master``.
        shared: a folder that all of its machines see, since all are this one.
        lonely: a folder that the second worker does not see, but an empty one of the same name; None where we
            may not mount one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.lonely = folder / "lonely" if _may_mount() else None
        self.master = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start it, and wait until its workers are known."""
        for path in filter(None, (self.shared, self.lonely)):
            path.mkdir(parents=True)
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", MASTER_HOST, "--port", "0")
        self.master = self._wait_for(_LISTENS)[1]
        for number in range(len(WORKER_HOSTS)):
            self._start_worker(number)
        self._wait_for(re.compile(f"(?s)(?:{_REGISTERED}.*){{{len(WORKER_HOSTS)}}}"))

    def lose(self, number: int) -> None:
        """Kill a worker and all that runs on it, as if its machine was gone."""
        process = self._processes.pop(f"worker-{number}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def replace(self, number: int) -> None:
        """Start a worker again that was lost."""
        known = self.log().count(_REGISTERED)
        self._start_worker(number)
        self._wait_for(re.compile(f"(?s)(?:{_REGISTERED}.*){{{known + 1}}}"))

    def worked(self) -> set[int]:
        """The workers on which tasks ran so far."""
        return {
            number
            for number in range(len(WORKER_HOSTS))
            if any(b"Running task" in path.read_bytes() for path in self._work(number).rglob("stderr"))
        }

    def stop(self) -> None:
        """End its processes; executors end with their worker."""
        for process in reversed(self._processes.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(WAIT_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + WAIT_S
        while (left := self.executors()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left, "executors are left"

    @property
    def options(self) -> list[str]:
        """What a command needs to run on it: a driver that listens where the workers are."""
        words = [
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            "spark.executor.memory=600m",
        ]
        return ["--spark-master", self.master, *(word for one in words for word in ("--spark-conf", one))]

    def executors(self) -> list[int]:
        """Processes of Java that work for an application."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and runs(entry.name):
                with contextlib.suppress(OSError):
                    here = (entry / "cwd").readlink().is_relative_to(self.folder)
                    if here and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def log(self) -> str:
        """What the master said."""
        return (self.folder / "master.log").read_text(errors="replace")

    def _work(self, number: int) -> Path:
        return self.folder / f"work-{number}"

    def _start_worker(self, number: int) -> None:
        host, work = WORKER_HOSTS[number], str(self._work(number))
        options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", work, self.master]
        alone = self.lonely is not None and number == 1
        self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, alone=alone)

    def _start(self, name: str, *words: str, alone: bool = False) -> None:
        command = [str(_HOME / "bin" / "spark-class"), *words, "--webui-port", "0"]
        if alone:
            hide = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", hide, str(self.lonely), *command]
        environment = {
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(_HOME),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": BRIEF_JAVA,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "TMPDIR": str(self.folder),
            **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[name] = process

    def _wait_for(self, pattern: "re.Pattern[str]") -> "re.Match[str]":
        deadline = time.monotonic() + WAIT_S
        while (found := pattern.search(self.log())) is None:
            ended = [one.args for one in self._processes.values() if one.poll() is not None]
            assert not ended, f"{ended} ended: {self.log()}"
            assert time.monotonic() < deadline, f"the cluster did not start: {self.log()}"
            time.sleep(0.1)
        return found


def _may_mount() -> bool:
    """Whether a process may have mounts of its own."""
    try:
        return (
            subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster for the tests of a module."""
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
