"""SIGTERM and SIGHUP end a command in good order: nothing of the password is left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.programs.starting import MQDSSM, start
from support.spark.runner_work import processes_with

from mqdssm.pipeline.migrate.plan_file import MigrationPlan, PlanOptions, PlanTarget
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]  # starts programs

PASSWORD = "planted-7391-password"
WAIT_S = 250
SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _heeded_signals() -> Iterator[None]:
    """Undo what nohup does, if the tests were started with it: children inherit it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


QUICK = ("read enterprise", "list queue", "doctor", "watch queue --state STATE", "schema check")
"""Commands without Spark."""
PIPELINE = (
    "export --to OUT",
    "validate",
    "inventory",
    "diff TABLES URL",
    "plan TABLES --to PLAN",
    "migrate TABLES --to PLAN",
)


@contextmanager
def silent_server() -> Iterator[tuple[socket.socket, str]]:
    """A server that takes connections and never answers; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        yield server, f"ldap://127.0.0.1:{server.getsockname()[1]}"


def files_with_the_password(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]


def end_while_it_logs_in(command: str, number: int, folder: Path, *, closed: bool = False) -> tuple[int, str]:
    """Start a command, and send it a signal while it waits for its server; exit code and what it said.

    Args:
        command: with OUT, PLAN, STATE and TABLES for files below the folder, URL for that of the server.
        number: of the signal.
        folder: for all files, temporary ones in its folder ``tmp``.
        closed: nobody reads what it says.
    """
    (folder / "tmp").mkdir()
    with silent_server() as (server, url):
        places = {name: str(folder / name.lower()) for name in ("OUT", "PLAN", "STATE", "TABLES")} | {
            "URL": url
        }
        words = [places.get(word, word) for word in command.split()]
        process = start(
            [*MQDSSM, *words],
            env={
                **os.environ,
                "TMPDIR": str(folder / "tmp"),
                "MQDSSM_URL": url,
                "MQDSSM_TLS": "none",
                "MQDSSM_USER": "cn=x",
                "MQDSSM_PASSWORD": PASSWORD,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = server.accept()  # it logs in now
            with connection:
                assert files_with_the_password(folder) == []
                if closed:
                    assert process.stderr is not None
                    process.stderr.close()
                    process.stderr = None
                process.send_signal(number)
                _, said = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
            process.communicate()
    assert files_with_the_password(folder) == []
    assert list((folder / "tmp").iterdir()) == []
    assert processes_with(f"TMPDIR={folder / 'tmp'}") == []
    return process.returncode, said or ""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", QUICK)
def test_a_command_ends(command: str, number: int, tmp_path: Path) -> None:
    code, said = end_while_it_logs_in(command, number, tmp_path)
    if command.startswith("watch") and number == signal.SIGTERM:
        return  # which ends a watch in its own way
    assert (code, said) == (128 + number, f"error: ended by {signal.Signals(number).name}\n")


def test_a_terminal_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    code, _ = end_while_it_logs_in("list queue", signal.SIGHUP, tmp_path, closed=True)
    assert code == 128 + signal.SIGHUP


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    program = (
        "import os, signal, time\n"
        "from mqdssm.cli.exits import raise_on_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup\n"
        "with raise_on_signals():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt as error:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)  # while things are put in order\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended by SIGTERM\n")


@pytest.mark.spark
@pytest.mark.parametrize("number", SIGNALS)
def test_an_export_ends(number: int, tmp_path: Path) -> None:
    code, said = end_while_it_logs_in("export --to OUT", number, tmp_path)
    assert (code, said) == (128 + number, f"error: ended by {signal.Signals(number).name}\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_applying_a_plan_ends(number: int, tmp_path: Path) -> None:
    root = "DC=example,DC=com"
    target = PlanTarget(
        urls=("ldap://x",),
        profile="openldap",
        root=root,
        configuration=f"CN=Configuration,{root}",
        keeps_guids=True,
    )
    plan = MigrationPlan(
        made=datetime.now(UTC),
        source="tables",
        target=target,
        options=PlanOptions(),
        tables={},
        operations={},
        levels=(),
        equal=(),
    )
    (tmp_path / "plan").mkdir()
    plan.write(tmp_path / "plan")
    code, said = end_while_it_logs_in("apply PLAN", number, tmp_path)
    assert code == 128 + number
    assert said.endswith(f"error: ended by {signal.Signals(number).name}\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_the_demonstration_ends(number: int, tmp_path: Path) -> None:
    """Its temporary folder has the password of its private directory."""
    process = start(
        [*MQDSSM, "demo", "--no-spark"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + WAIT_S
        while not (secrets := list(tmp_path.glob("*/directory/password"))) and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert secrets
        process.send_signal(number)
        _, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number
    assert said.endswith(f"error: ended by {signal.Signals(number).name}\n")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", PIPELINE)
def test_a_command_of_the_pipeline_ends(command: str, number: int, engine: str, tmp_path: Path) -> None:
    generate(
        EnterprisePlan(sites=1, machines=2, queues=3, users=1, seed=1), tmp_path / "tables", SampleForm.MQIS
    )
    code, said = end_while_it_logs_in(f"{command} --engine {engine}", number, tmp_path)
    assert code == 128 + number
    assert said.endswith(f"error: ended by {signal.Signals(number).name}\n")
