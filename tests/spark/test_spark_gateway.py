"""Java is started by us, and nothing of it is left: not when the start is broken off, and not at the end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from support.servers.processes import runs

pytestmark = [pytest.mark.spark]

WAIT_S = 120.0
PROGRAM = """
from mqdssm.spark.session import spark_session
with spark_session():
    print("it started")
"""
# answers as Java 17; then it waits, as the launcher that makes the command line, or as the command
JAVA = """#!/bin/sh
case "$*" in
  *-version*) echo 'openjdk version "17.0.1"' >&2; exit 0 ;;
  *launcher.Main*) [ "$STAGE" = launcher ] || { printf '\\0\\n'; printf '%s\\0' "$0" command 0; exit 0; } ;;
esac
echo $$ >> "$PIDS"
exec sleep 600
"""


def started_with(value: str) -> list[int]:
    """All processes that have inherited an environment with this in it."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if value.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    return os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def fake_java(tmp_path, environment) -> dict[str, str]:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    return environment | {"JAVA_HOME": str(tmp_path / "jdk"), "PIDS": str(tmp_path / "pids")}


class Program:
    """A program that starts Spark, in a session of its own as from a terminal."""

    def __init__(self, environment: dict[str, str], text: str = PROGRAM) -> None:
        self.mark = f"TMPDIR={environment['TMPDIR']}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", text],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in started_with(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.005)

    def commands(self) -> bytes:
        """The command lines of what was started."""
        found = b""
        for pid in started_with(self.mark):
            with contextlib.suppress(OSError):
                found += Path(f"/proc/{pid}/cmdline").read_bytes()
        return found

    def interrupt(self) -> str:
        """Press Ctrl-C; gives what it printed until it ended."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.communicate(timeout=WAIT_S)[0]

    def gone(self) -> bool:
        """Whether all that it started ends. A process that ends at once may still be seen for a moment."""
        deadline = time.monotonic() + WAIT_S
        while any(map(runs, started_with(self.mark))) and time.monotonic() < deadline:
            time.sleep(0.01)
        return not any(map(runs, started_with(self.mark)))


@pytest.mark.parametrize("stage", ["launcher", "command"])
def test_ctrl_c_while_java_starts_leaves_no_java_behind(tmp_path, fake_java, stage) -> None:
    pids = tmp_path / "pids"
    with Program(fake_java | {"STAGE": stage}) as program:
        program.wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"))
        out = program.interrupt()
        assert (program.process.returncode, out) == (-signal.SIGINT, "")
        assert program.gone()  # else it sleeps for ten minutes
        assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.soak
@pytest.mark.parametrize("seen", [b"spark-submit", b"launcher.Main", b"SparkSubmit", b"SparkSubmit#later"])
def test_ctrl_c_while_a_real_java_starts(tmp_path, environment, seen) -> None:
    command, _, later = seen.partition(b"#")
    with Program(environment) as program:
        program.wait_for(lambda: command in program.commands())
        if later:  # Java has made its first files
            program.wait_for(lambda: list((tmp_path / "tmp").glob("*/told")))
        out = program.interrupt()
        assert (program.process.returncode, out) == (-signal.SIGINT, "")
        assert program.gone()
        assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.soak
def test_java_has_ended_when_the_program_ends(tmp_path, environment) -> None:
    with Program(environment) as program:
        assert program.process.communicate(timeout=WAIT_S) == ("it started\n", "")
        assert not any(map(runs, started_with(program.mark)))
        assert not list((tmp_path / "tmp").iterdir())


def test_what_java_says_when_it_cannot_start(fake_java) -> None:
    java = Path(fake_java["JAVA_HOME"], "bin", "java")
    java.write_text(JAVA.replace("exec sleep 600", "echo 'Error: could not create the machine' >&2; exit 1"))
    with Program(fake_java | {"STAGE": "command"}) as program:
        _, err = program.process.communicate(timeout=WAIT_S)
    words = "ConfigError: Spark did not start: Error: could not create the machine; Spark's own log: "
    assert words in err
    assert "Error: could" in Path(err.rpartition(words)[2].strip()).read_text()  # the log was kept
