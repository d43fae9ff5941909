"""kill -9 of the program, of Spark's workers and of slapd while a plan is applied: it goes on, nothing twice.

The command runs in a process of its own with a session of its own, as users run it.
"""

import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.mqis.applied_plans import everything, login_to, tables, undo
from support.mqis.plans import plan_here
from support.spark.export_command import children, readers

from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.soak,
    pytest.mark.timeout(1800),
]

KILLS = int(os.environ.get("MQDSSM_TEST_KILLS", "20"))
QUEUES = 4_000
RATE = 200
"""Changes a second while something is killed."""
BETWEEN = 4_200 * 40 // (KILLS + 1)
"""Bytes of journal between two kills, on average: some 40 for each operation."""
WAIT_S = 300.0
ENGINES = ("spark", "local")


@pytest.fixture
def planned(tmp_path):
    with OpenLdapServer(durable=False) as server:
        login = login_to(server, tmp_path)
        source = tables(server, tmp_path, machines=100, queues=QUEUES)
        plan_here(server, source, tmp_path / "plan", create_computers=True)
        yield server, login, tmp_path / "plan"


def start(
    folder: Path, login: dict[str, str], rate: int = RATE, engine: str = "spark"
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **login, "PYTHONPATH": str(Path(__file__).parents[2])}
    options = ["--max-rate", str(rate), "--engine", engine]
    command = [sys.executable, "-m", "mqdssm.cli.main", "apply", str(folder), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def journaled(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal/*.jsonl"))


def in_the_middle(process: subprocess.Popen[bytes], folder: Path, chance: random.Random) -> bool:
    """Wait until the run has written some more; False: it ended."""
    wanted = journaled(folder) + chance.randrange(1, 2 * BETWEEN)
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and journaled(folder) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process.poll() is None


def strike(
    planned, kill: Callable[[subprocess.Popen[bytes]], object], says: str = "", engine: str = "spark"
) -> None:
    """Kill something again and again, apply again when the run has ended of that, and compare.

    Args:
        planned: server, log-in, plan.
        kill: kills something of a run.
        says: what a run that ends of it says.
        engine: of the runs.
    """
    server, login, folder = planned
    empty, chance, struck, code = everything(server), random.Random(6), 0, None
    while struck < KILLS and code != 0:
        with start(folder, login, engine=engine) as process:
            while struck < KILLS and in_the_middle(process, folder, chance):
                kill(process)
                struck += 1
            if struck == KILLS and process.poll() is None:
                process.kill()
            err = process.communicate(timeout=WAIT_S)[1].decode()
            code = process.returncode
            assert code in {0, 3, 6, 129, 130, 143, -9}, err
            assert code not in {6, 129, 130, 143} or says in err, err
    assert struck
    with start(folder, login, rate=100_000, engine=engine) as last:
        out, err_bytes = last.communicate(timeout=WAIT_S)
    assert last.returncode == 0, err_bytes.decode()
    assert re.search(rb"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost\n$", out)
    assert MigrationReport.load(folder).is_fine
    full = everything(server)
    guids = [guid for entry in full.values() for guid in entry.get("objectguid", [])]
    assert len(guids) == len(set(guids))
    undo(server, folder)
    assert everything(server) == empty


@pytest.mark.parametrize("engine", ENGINES)
def test_the_program_is_killed(planned, engine):
    strike(planned, lambda process: (process.kill(), process.wait()), engine=engine)


def test_workers_are_killed(planned):
    killed: list[int] = []

    def kill(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has just ended
            for pid in readers(process.pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    strike(planned, kill)
    assert killed


def test_java_is_killed(planned):
    def kill(process: subprocess.Popen[bytes]) -> None:
        for pid in children(process.pid):
            if Path(f"/proc/{pid}/comm").read_text() == "java\n":
                os.kill(pid, signal.SIGKILL)
        process.wait(WAIT_S)

    strike(planned, kill, "Spark failed: its Java was killed, as a machine does that has no memory left; ")


@pytest.mark.parametrize("engine", ENGINES)
def test_it_is_interrupted(planned, engine):
    numbers = itertools.cycle((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def interrupt(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(next(numbers))
        process.wait(WAIT_S)

    says = f"what was done is written down: 'mqdssm apply {planned[2]}' goes on\n"
    strike(planned, interrupt, says, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_slapd_is_killed(planned, engine):
    server = planned[0]

    def kill(_: subprocess.Popen[bytes]) -> None:
        server.kill()
        server.start()

    strike(planned, kill, engine=engine)
