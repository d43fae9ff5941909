"""Delivery by ``mqdssm watch``: commands, blocked and closed outputs, signals at any time, what is told."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from support.programs.starting import run, start
from support.watching.watch_program import PROGRAM, WAIT_S, running

from mqdssm.cli.watch import delivery
from mqdssm.cli.watch.command import WatchEvent
from mqdssm.cli.watch.delivery import LinePrinter
from mqdssm.model.watching import ChangeEvent

pytestmark = pytest.mark.slow  # starts programs


@pytest.fixture
def environment(cli) -> dict[str, str]:
    known = {name: value for name, value in cli.environment.items() if value is not None}
    return dict(os.environ) | known


class Machine:
    """A machine of its own; plain LDAP tools make its queues."""

    def __init__(self, plain: Any, server: Any) -> None:
        self.plain, self.name = plain, f"D{uuid4().hex[:8]}".upper()
        server.add_computer(self.name)
        self.dn = f"CN=msmq,CN={self.name},CN=Computers,{server.base_dn}"
        plain.add(self.dn, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})

    def queue(self, label: str, *, size: int = 0) -> str:
        values = {
            "objectClass": "mSMQQueue",
            "objectGUID": uuid4().bytes_le,
            "mSMQLabelEx": label + "x" * size,
        }
        return self.plain.add(f"CN=q{uuid4().hex[:6]},{self.dn}", values)


@pytest.fixture
def machine(plain, server) -> Machine:
    return Machine(plain, server)


def once(environment: dict[str, str], *args: str, code: int = 0) -> list[dict[str, Any]]:
    """Run the command until it ends; its lines, but for those that tell of the watch itself."""
    done = run([*PROGRAM, "-o", "json", "--once", *args], env=environment, timeout=WAIT_S)
    assert done.returncode == code, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [one for one in lines if one["event"] not in {"ready", "heartbeat"}]


def test_a_snapshot_of_some_types_events_and_computers(environment, machine, tmp_path):
    state, (dn,) = str(tmp_path / "state"), [machine.queue("there")]
    chosen = ("queue", "queue-manager", "--state", state, "--computer", machine.name.lower())
    found = once(environment, *chosen, "--snapshot")
    assert {(one["event"], one["dn"].lower()) for one in found} == {
        ("existing", dn.lower()),
        ("existing", machine.dn.lower()),
    }
    assert all(one["id"] and one["time"].endswith("Z") for one in found)
    assert len({one["id"] for one in found}) == 2
    machine.plain.modify(dn, "replace: mSMQLabelEx\nmSMQLabelEx: not told")
    new = machine.queue("new")
    assert [one["dn"].lower() for one in once(environment, *chosen, "--event", "created")] == [new.lower()]
    assert once(environment, *chosen) == []


def test_the_selectable_events_are_those_of_changes():
    assert [one.value for one in WatchEvent] == [one.value for one in ChangeEvent]


def test_heartbeats_are_lines_of_json(environment, machine, tmp_path):
    with running(
        tmp_path, environment, "queue", "-o", "json", "--heartbeat", "0.1", state=tmp_path / "state"
    ) as program:
        lines = [json.loads(line) for line in program.lines(2)]
        assert {one["event"] for one in lines} == {"heartbeat"}
        assert program.end() == 0
    first = json.loads(program.out.read_text().splitlines()[0])
    assert (first["event"], first["server"]) == ("ready", environment["MQDSSM_URL"])
    whole = [json.loads(line) for line in program.out.read_text().splitlines()]
    assert len({one["id"] for one in whole}) == len(whole)
    assert all(one["time"] for one in whole)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--once"], "--once tells nothing without --state FILE or --snapshot"),
        (["--heartbeat", "5"], "--heartbeat is for '--output json' without --exec"),
        (["--exec", "no-such-command-here"], "there is no such command"),
        (["--exec", "'"], "No closing quotation"),
    ],
)
def test_options_by_which_nobody_is_told_are_refused(cli, args, words):
    assert words in cli.error("watch", *args, code=2)


class TestCommands:
    @pytest.fixture
    def sink(self, tmp_path) -> Callable[..., str]:
        """A command that fails some times with each line, then keeps it."""

        def make(failures: int, *, sleep_s: float = 0.0) -> str:
            file, kept = tmp_path / f"sink{uuid4().hex[:6]}.py", tmp_path / "kept"
            file.write_text(
                "import sys, time, pathlib\n"
                f"line = sys.stdin.read()\ntries = pathlib.Path({str(tmp_path / 'tries')!r})\n"
                "with tries.open('a') as out: out.write('.')\n"
                f"time.sleep({sleep_s})\n"
                f"if len(tries.read_text()) <= {failures}: sys.exit(7)\n"
                f"with open({str(kept)!r}, 'a') as out: out.write(line)\n"
            )
            return shlex.join([sys.executable, str(file)])

        return make

    @staticmethod
    def kept(tmp_path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()]

    def test_what_a_command_took_counts_as_told(self, environment, machine, sink, tmp_path):
        state = str(tmp_path / "state")
        assert once(environment, "queue", "--state", state) == []
        dn = machine.queue("Schöne Grüße")
        once(environment, "queue", "--state", state, "--exec", sink(2))
        (line,) = self.kept(tmp_path)
        assert (line["event"], line["dn"].lower()) == ("created", dn.lower())
        assert line["changes"]["Label"]["new"] == "Schöne Grüße"
        assert len((tmp_path / "tries").read_text()) == 3
        assert once(environment, "queue", "--state", state) == []

    def test_what_a_command_refuses_is_told_again_and_nothing_behind_it(
        self, environment, machine, sink, tmp_path
    ):
        state = str(tmp_path / "state")
        once(environment, "queue", "--state", state)
        first, second = machine.queue("1"), machine.queue("2")
        failing = sink(1000)
        once(environment, "queue", "--state", state, "--exec", failing, "--tries", "2", code=6)
        assert len((tmp_path / "tries").read_text()) == 2
        found = once(environment, "queue", "--state", state)
        assert [one["dn"].lower() for one in found] == [first.lower(), second.lower()]

    def test_a_command_that_takes_too_long_is_killed(self, environment, machine, sink, tmp_path):
        state = str(tmp_path / "state")
        once(environment, "queue", "--state", state)
        machine.queue("1")
        slow = ("--exec", sink(0, sleep_s=600), "--time-limit", "1.5", "--tries", "1")
        once(environment, "queue", "--state", state, *slow, code=6)
        assert len(once(environment, "queue", "--state", state)) == 1

    def test_a_signal_ends_it_while_a_command_runs(self, environment, machine, sink, tmp_path):
        state = tmp_path / "state"
        args = ("queue", "--exec", sink(0, sleep_s=600))
        with running(tmp_path, environment, *args, state=state) as program:
            machine.queue("1")
            program.wait((tmp_path / "tries").exists)
            assert program.end() == 0
        assert len(once(environment, "queue", "--state", str(state))) == 1


@contextmanager
def blocked(environment: dict[str, str], *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command with an output that nobody reads; its errors go the same way."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with start([*PROGRAM, *args], env=environment, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_signal_ends_it_while_its_output_is_blocked(how, environment, machine, tmp_path):
    state = tmp_path / "state"
    once(environment, "queue", "--state", str(state))
    dns = [machine.queue(f"{number}", size=30_000) for number in range(4)]  # more than a pipe holds
    with blocked(environment, "queue", "-o", "json", "--state", str(state)) as process:
        end = time.monotonic() + WAIT_S
        while journal(state).count(b'"created"') < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)  # the pipe is full
        process.send_signal(how)
        assert process.wait(20) == 0
        assert process.stdout is not None
        whole = [
            json.loads(line) for line in process.stdout.read().splitlines(keepends=True) if line[-1:] == b"\n"
        ]
    told = [one["dn"].lower() for one in whole if one["event"] == "created"]
    rest = [one["dn"].lower() for one in once(environment, "queue", "--state", str(state))]
    assert 0 < len(told) < 4
    assert sorted(told + rest) == sorted(dn.lower() for dn in dns), "each once"


def journal(state: Path) -> bytes:
    return state.with_name(f"{state.name}.journal").read_bytes()


def test_who_does_not_read_is_told_so(monkeypatch, capfd):
    monkeypatch.setattr(delivery, "STALLED_S", 0.5)
    here, there = os.pipe()
    with os.fdopen(there, "w") as stalled, LinePrinter() as printer:
        monkeypatch.setattr(sys, "stdout", stalled)
        thread = Thread(target=printer.deliver, args=("x" * 1_000_000,))
        thread.start()
        end, said = time.monotonic() + 20, ""
        while "nobody has read the output" not in said and time.monotonic() < end:
            time.sleep(0.05)
            said += capfd.readouterr().err
        with os.fdopen(here, "rb") as reader:
            assert len(reader.read(1_000_001)) == 1_000_001
        thread.join(20)
    assert said.count("the server is not read meanwhile") == 1


def test_a_closed_output_is_refused_and_nothing_counts_as_told(environment, machine, tmp_path):
    state = tmp_path / "state"
    once(environment, "queue", "--state", str(state))
    machine.queue("1")
    command = shlex.join([*PROGRAM, "queue", "--state", str(state), "--once"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} >&-"], check=False, env=environment, capture_output=True, timeout=WAIT_S
    )
    assert done.returncode == 2
    assert b"the standard output is closed: nobody would be told" in done.stderr
    assert len(once(environment, "queue", "--state", str(state))) == 1


def test_a_full_disk_ends_it_and_the_change_is_told_again(environment, machine, tmp_path):
    state = tmp_path / "state"
    once(environment, "queue", "--state", str(state))
    machine.queue("1")
    with Path("/dev/full").open("wb") as full:
        command = [*PROGRAM, "queue", "--state", str(state), "--once"]
        done = run(command, env=environment, stdout=full, timeout=WAIT_S)
    assert done.returncode == 6
    assert b"No space left" in done.stderr
    assert len(once(environment, "queue", "--state", str(state))) == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_a_server_is_silent(how, environment):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings = environment | {"MQDSSM_URL": f"ldap://127.0.0.1:{port}", "MQDSSM_TLS": "none"}
        settings = {
            name: value for name, value in settings.items() if name not in {"MQDSSM_USER", "MQDSSM_PASSWORD"}
        }
        with start(PROGRAM, env=settings, stderr=subprocess.PIPE) as process:
            silent.settimeout(WAIT_S)
            accepted, _ = silent.accept()
            with accepted:
                process.send_signal(how)
                assert process.wait(20) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_is_imported(how, environment):
    command = [sys.executable, "-X", "importtime", *PROGRAM[1:]]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.endswith(" mqdssm.cli\n"):
                process.send_signal(how)
                break
        process.stderr.read()
        assert process.wait(20) == 0
