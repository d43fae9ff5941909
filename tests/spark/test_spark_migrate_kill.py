"""kill -9 of the program, of Spark's workers and of slapd while a plan is applied: it goes on, nothing twice.

The command runs in a process of its own with a session of its own, as users run it.
"""

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from applying import everything, login_to, tables, undo
from export_command import readers
from planning import plan_here

from mqdssm.spark.migrate.report import Report
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.soak, pytest.mark.xdist_group("spark")]

KILLS = int(os.environ.get("MQDSSM_TEST_KILLS", "20"))
QUEUES = 4_000
WAIT_S = 300.0


@pytest.fixture
def planned(tmp_path):
    with OpenLdapServer(durable=False) as server:
        login = login_to(server, tmp_path)
        source = tables(server, tmp_path, machines=100, queues=QUEUES)
        plan_here(server, source, tmp_path / "plan", create_computers=True)
        yield server, login, tmp_path / "plan"


def start(folder: Path, login: dict[str, str], rate: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **login, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "mqdssm.cli.main", "apply", str(folder), "--max-rate", str(rate)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def journaled(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal/*.jsonl"))


def in_the_middle(process: subprocess.Popen[bytes], folder: Path, before: int, chance: random.Random) -> bool:
    """Wait until the run has written some more; False: it ended."""
    wanted = before + chance.randrange(1, 4_000)
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and journaled(folder) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process.poll() is None


def strike(planned, kill: Callable[[subprocess.Popen[bytes]], bool]) -> None:
    """Kill something again and again, apply again, and compare.

    Args:
        planned: server, log-in, plan.
        kill: kills; gives whether the program may end by itself, so that it is waited for.
    """
    server, login, folder = planned
    empty, chance = everything(server), random.Random(6)
    struck = 0
    while struck < KILLS:
        before = journaled(folder)
        process = start(folder, login, rate=400)
        if not in_the_middle(process, folder, before, chance):
            assert process.wait() == 0, process.communicate()
            break  # all is done
        if kill(process):
            process.wait(WAIT_S)
            assert process.returncode in {0, 3}, process.communicate()
        struck += 1
        process.communicate()
    assert struck
    last = start(folder, login, rate=100_000)
    out, err = last.communicate(timeout=WAIT_S)
    assert last.returncode == 0, err.decode()
    assert re.search(rb"(\d+) read, \1 written, 0 equal, 0 rejected, 0 lost\n$", out)
    assert Report.load(folder).is_fine
    full = everything(server)
    guids = [guid for entry in full.values() for guid in entry.get("objectguid", [])]
    assert len(guids) == len(set(guids))
    undo(server, folder)
    assert everything(server) == empty


def test_the_program_is_killed(planned):
    def kill(process: subprocess.Popen[bytes]) -> bool:
        process.kill()
        return False

    strike(planned, kill)


def test_workers_are_killed(planned):
    def kill(process: subprocess.Popen[bytes]) -> bool:
        for pid in readers(process.pid):
            os.kill(pid, 9)
        return True

    strike(planned, kill)


def test_slapd_is_killed(planned):
    server = planned[0]

    def kill(_: subprocess.Popen[bytes]) -> bool:
        server.kill()
        time.sleep(0.2)  # for a while nobody listens
        server.start()
        return True

    strike(planned, kill)
