"""Signals and kills in the middle of a plan and of its application: a safe end, resumed, and nothing twice.

The command runs in a process of its own with a session of its own, and finds neither Java nor pyspark.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.mqis.applied_plans import apply_here, everything, login_to, operations_in, sample_plan, tables
from support.mqis.plans import plan_here
from support.spark.export_command import readers
from support.spark.runner_work import are_gone
from support.spark.without_java import environment_without_java, start_mqdssm

from mqdssm.model.dn import normalize
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.migrate import planning, row_planner, staging, verification
from mqdssm.pipeline.migrate.apply_journal import JournalLine
from mqdssm.pipeline.migrate.apply_work import ApplyTask
from mqdssm.pipeline.migrate.plan_file import PLAN_NAME, MigrationPlan, PlanAction
from mqdssm.pipeline.migrate.verification import VerifyTask
from mqdssm.pipeline.runner import Job, Stopped, StopRequest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform == "win32", reason="looks for processes in /proc"),
]

QUEUES = 900
PART_ROWS = 400
"""Rows of a file of operations: some for each worker."""
WAIT_S = 120.0
RATE = 120
"""Changes a second: a file takes longer than a worker has to reach a safe place."""
PROCESSES = """
from mqdssm.pipeline.migrate import applying, planning, row_planner, staging
applying.SMALL_ROWS = planning.SMALL_ROWS = 800
row_planner.ROWS_TOGETHER = 10
staging.PART_ROWS = 300
"""
"""Makes queues, and they alone, too much work for one process."""


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as made:
        yield made


@pytest.fixture
def source(server, tmp_path) -> Path:
    return tables(server, tmp_path, machines=30, queues=QUEUES)


@pytest.fixture
def folder(server, source, tmp_path, monkeypatch) -> Path:
    """A plan with several files of queues."""
    monkeypatch.setattr(staging, "PART_ROWS", PART_ROWS)
    plan_here(server, source, tmp_path / "plan", create_computers=True)
    return tmp_path / "plan"


@pytest.fixture
def command(server, tmp_path) -> Iterator["Command"]:
    made = Command(environment_without_java(tmp_path, more=login_to(server, tmp_path)))
    yield made
    made.end()


class Command:
    """The command on a machine with neither Java nor pyspark.

    Args:
        environment: variables of its processes.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, workers: int) -> "subprocess.Popen[str]":
        before = PROCESSES if workers > 1 else ""
        made = start_mqdssm(self._environment, *words, "--workers", str(workers), "-o", "json", before=before)
        self._started.append(made)
        return made

    def ended(self, process: "subprocess.Popen[str]") -> tuple[int, str, str]:
        out, err = process.communicate(timeout=WAIT_S)
        assert "Traceback" not in err
        return process.returncode, out, err

    def end(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def wait_until(process: "subprocess.Popen[str]", is_time: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_time():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def queues_written(folder: Path) -> int:
    """Number of queues in the journal, as far as it is on disk."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("journal/3-children-*.jsonl"))


def recorded(folder: Path) -> set[str]:
    """Return the names of what the journal holds as made; each line must be whole."""
    names = {one.row_id: normalize(one.dn) for one in operations_in(folder)}
    found = set()
    for path in folder.glob("journal/*.jsonl"):
        lines = [line for line in path.read_bytes().splitlines() if line]
        parsed = [JournalLine.parse(line) for line in lines]
        assert all(one is not None and one.is_done for one in parsed)
        rows = [one.row for one in parsed if one is not None]
        assert len(rows) == len(set(rows))  # nothing twice
        found |= {names[row] for row in rows}
    return found


def check_resumed(command: Command, server: OpenLdapServer, folder: Path, made: set[str]) -> None:
    """Apply the plan again: only what was not made is made."""
    code, out, err = command.ended(command.start("apply", str(folder), workers=1))
    assert code == 0, err
    report = json.loads(out)
    assert report["resumed"] == 1
    assert "object equal" not in report["operations"]  # nothing was sent twice
    assert len(recorded(folder)) > len(made)
    queues = [dn for dn, entry in everything(server).items() if b"mSMQQueue" in entry["objectclass"]]
    assert len(queues) == QUEUES
    assert len(recorded(folder)) == len(operations_in(folder))


class StopAfter(StopRequest):
    """A request to stop that comes while the work is under way.

    Args:
        looks: number of times that the work finds no request.
    """

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    @property
    def is_set(self) -> bool:
        self._looks -= 1
        return self._looks < 0


class Stopping(LocalRunner):
    """Stops within the first piece of one kind of work, and looks for no stop between pieces."""

    def __init__(self, kind: type) -> None:
        super().__init__(1)
        self._kind = kind

    def run(self, job: Job, **_: Any) -> list[Any]:
        kinds = (type(job.work), type(getattr(job.work, "do", None)))
        with job.work.open(StopAfter(3) if self._kind in kinds else StopRequest()) as piece:
            return [piece(number) for number in range(len(job.names))]


@pytest.mark.parametrize("kind", [planning.StageTask, planning.RowPlanWork])
def test_planning_stops_within_a_piece(server, tmp_path, monkeypatch, kind) -> None:
    monkeypatch.setattr(row_planner, "ROWS_TOGETHER", 2)
    source = tables(server, tmp_path)
    with pytest.raises(Stopped):
        plan_here(server, source, tmp_path / "plan", runner=Stopping(kind), create_computers=True)
    assert not (tmp_path / "plan" / PLAN_NAME).exists()
    again = plan_here(server, source, tmp_path / "plan", create_computers=True)
    whole = plan_here(server, source, tmp_path / "whole", create_computers=True)
    assert again.total == whole.total
    assert operations_in(tmp_path / "plan") == operations_in(tmp_path / "whole")


@pytest.mark.parametrize("kind", [ApplyTask, VerifyTask])
def test_applying_stops_within_a_piece(server, tmp_path, monkeypatch, kind) -> None:
    monkeypatch.setattr(verification, "AT_ONCE", 2)
    _, folder = sample_plan(server, tmp_path, users=0)
    before = set(everything(server))

    def stopped(work, count):
        return [
            work(number, StopAfter(3) if isinstance(work, kind) else StopRequest()) for number in range(count)
        ]

    with pytest.raises(Stopped):
        apply_here(server, folder, do=stopped)
    made = recorded(folder)
    assert set(everything(server)) - before <= made  # no outcome is unknown
    assert (len(made) == len(operations_in(folder))) == (kind is VerifyTask)
    report = apply_here(server, folder)
    assert report.is_fine
    assert report.operations.get("object equal", 0) == 0  # nothing was sent twice


@pytest.mark.soak
@pytest.mark.parametrize(
    ("workers", "number", "code"),
    [
        (2, signal.SIGTERM, 143),
        (1, signal.SIGINT, 130),
        (2, signal.SIGINT, 130),
        (1, signal.SIGTERM, 143),
    ],
)
def test_applying_stops_within_a_file(command, server, folder, workers, number, code) -> None:
    before = set(everything(server))
    process = command.start("apply", str(folder), "--max-rate", str(RATE), workers=workers)
    wait_until(process, lambda: queues_written(folder) >= 100)
    pids = readers(process.pid)
    assert len(pids) == (2 if workers == 2 else 0)
    process.send_signal(number)
    found, out, _ = command.ended(process)
    assert (found, out) == (code, "")
    assert are_gone(pids)
    made = recorded(folder)
    assert set(everything(server)) - before <= made  # no outcome is unknown
    assert queues_written(folder) < QUEUES
    check_resumed(command, server, folder, made)


def kill(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.soak
def test_killed_workers_of_an_application_are_replaced(command, server, folder) -> None:
    before = set(everything(server))
    process = command.start("apply", str(folder), "--max-rate", str(RATE), workers=2)
    wait_until(process, lambda: queues_written(folder) >= 100)
    kill(readers(process.pid))
    code, out, err = command.ended(process)
    assert code == 0, err
    report = json.loads(out)
    assert (report["lost_count"], report["refused_count"], report["resumed"]) == (0, 0, 0)
    assert report["operations"]["object equal"] > 0  # what was written and not recorded was looked up
    added = {normalize(one.dn) for one in operations_in(folder) if one.action == PlanAction.ADD}
    assert added == set(everything(server)) - before
    assert len(recorded(folder)) == len(operations_in(folder))


@pytest.mark.soak
def test_killed_workers_of_a_plan_are_replaced(command, server, source, folder, tmp_path) -> None:
    to = tmp_path / "killed"
    process = command.start("plan", str(source), "--to", str(to), "--create-computers", workers=2)
    wait_until(process, lambda: len(readers(process.pid)) == 2 and [*to.glob(".planning/progress/*")])
    kill(readers(process.pid))
    code, out, err = command.ended(process)
    assert code == 0, err
    undisturbed = MigrationPlan.load(folder)
    assert json.loads(out)["tables"] == json.loads(undisturbed.model_dump_json())["tables"]
    killed, whole = (
        sorted((replace(one, row_id=0) for one in operations_in(each)), key=lambda one: (one.dn, one.role))
        for each in (to, folder)
    )
    assert killed == whole
