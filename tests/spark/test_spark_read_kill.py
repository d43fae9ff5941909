"""kill -9 of slapd, or of the program, while a command reads a directory: no half result, and a way back."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.enterprises.many_objects import fill
from support.mqis.comparison import RELEASE
from support.spark.export_command import readers
from support.spark.killed_command import WAIT_S, start, wait_for_a_piece
from support.spark.runner_work import are_gone

from mqdssm.pipeline.migrate.plan_file import PLAN_NAME
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.slow,  # starts programs
    pytest.mark.server,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]
SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])
ENGINES = ["local", SPARK]
COMMANDS = {
    "validate": "validate -o json --history HISTORY --metrics METRICS --report REPORT",
    "inventory": "inventory --csv CSV --html REPORT -o json",
    "diff": "diff TABLES URL -o json",
    "plan": "plan TABLES --to PLAN --create-computers",
}
OUTPUTS = ("HISTORY", "METRICS", "REPORT", "CSV", "PLAN")


class Reading:
    """A command that reads a directory of 300 queues, and the places of its files."""

    def __init__(self, folder: Path, server: OpenLdapServer, command: str, engine: str) -> None:
        tables = folder / "tables"
        generate(EnterprisePlan(sites=2, machines=6, queues=30, users=2, seed=1), tables, SampleForm.MQIS)
        fill(server, 300)
        self.url, self.folder = server.ldapi_url, folder
        self.places = {name: folder / name.lower() for name in OUTPUTS}
        words = {**self.places, "TABLES": tables, "URL": self.url}
        self.words = [str(words.get(word, word)) for word in COMMANDS[command].split()]
        self.words += ["--engine", engine]

    def start(self, kind: str) -> "subprocess.Popen[str]":
        """Start the command; see `killed_command.start`."""
        return start(self.folder / kind, kind, *self.words)

    def result_files(self) -> list[str]:
        """Return the names of all files, except those of an unfinished plan."""
        found = [path for place in self.places.values() for path in (place, *place.rglob("*"))]
        plan = self.places["PLAN"]
        unfinished = plan.exists() and not (plan / PLAN_NAME).exists()
        return [
            str(path) for path in found if path.is_file() and not (unfinished and path.is_relative_to(plan))
        ]

    def check_repeated(self) -> None:
        """Check that the same command, given again, writes all of its files."""
        program = [sys.executable, "-m", "mqdssm.cli.main", *self.words]
        again = subprocess.run(program, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert again.returncode in {0, 1}, again.stderr
        assert again.stdout
        for name, place in self.places.items():
            assert place.exists() == (str(place) in self.words), name


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    with OpenLdapServer(durable=False) as started:
        monkeypatch.setenv("MQDSSM_URL", started.ldapi_url)
        yield started


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.soak] * (name != "plan")) for name in COMMANDS]
)
def test_slapd_is_killed(server: OpenLdapServer, tmp_path: Path, command: str, engine: str) -> None:
    reading = Reading(tmp_path, server, command, engine)
    process = reading.start("ReleasedOnce")
    try:
        wait_for_a_piece(tmp_path / "ReleasedOnce", process)
        server.kill()
        (tmp_path / "ReleasedOnce" / RELEASE).touch()
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (3, ""), err
    assert reading.url in err
    assert "Traceback" not in err
    assert reading.result_files() == []
    server.start()
    reading.check_repeated()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "command", ["validate", pytest.param("plan", marks=pytest.mark.soak)]
)  # the others: test_spark_kill_reads.py
def test_the_program_is_killed(server: OpenLdapServer, tmp_path: Path, command: str, engine: str) -> None:
    reading = Reading(tmp_path, server, command, engine)
    process = reading.start("HeldOnce")
    try:
        wait_for_a_piece(tmp_path / "HeldOnce", process)
        workers = readers(process.pid)
        assert workers
    finally:
        process.kill()
        process.communicate()
    assert are_gone(workers, 90.0)
    assert reading.result_files() == []
    reading.check_repeated()
