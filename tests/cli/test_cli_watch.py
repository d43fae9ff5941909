"""``mqdssm watch`` as a program: lines as changes are made, signals, pipes, refusals."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from support.programs.starting import start
from support.watching.watch_program import PROGRAM, WAIT_S, running

from mqdssm.testing import OpenLdapServer

pytestmark = pytest.mark.slow  # starts programs


@pytest.fixture
def environment(cli) -> dict[str, str]:
    known = {name: value for name, value in cli.environment.items() if value is not None}
    return dict(os.environ) | known


@pytest.fixture
def queue(plain, server) -> Callable[[str], str]:
    """Makes queues below one machine."""
    name = f"V{uuid4().hex[:8]}"
    server.add_computer(name)
    machine = f"CN=msmq,CN={name},CN=Computers,{server.base_dn}"
    plain.add(machine, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})

    def add(label: str) -> str:
        values = {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQLabelEx": label}
        return plain.add(f"CN=q{uuid4().hex[:6]},{machine}", values)

    return add


def label(plain, dn: str, text: str) -> None:
    plain.modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {text}")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_json_lines_as_changes_are_made(how, environment, plain, queue, tmp_path):
    state = tmp_path / "state"
    with running(tmp_path, environment, "queue", "-o", "json", state=state) as program:
        dn = queue("Schöne Grüße")
        created = json.loads(program.lines(1)[0])
        assert list(created) == ["id", "time", "event", "type", "dn", "guid", "changes"]
        assert (created["event"], created["type"]) == ("created", "queue")
        assert created["dn"].lower() == dn.lower()
        assert created["changes"]["Label"] == {"old": None, "new": "Schöne Grüße"}
        label(plain, dn, "new")
        changed = json.loads(program.lines(2)[1])
        assert (changed["event"], changed["guid"]) == ("changed", created["guid"])
        assert changed["changes"]["Label"] == {"old": "Schöne Grüße", "new": "new"}
        assert program.end(how) == 0
        assert program.err.read_text() == ""
        assert [json.loads(line)["event"] for line in program.out.read_text().splitlines()] == [
            "ready",
            "created",
            "changed",
        ]
    plain.delete(dn)
    with running(tmp_path, environment, "queue", "-o", "json", state=state) as program:
        deleted = json.loads(program.lines(1)[0])
        assert (deleted["event"], deleted["guid"]) == ("deleted", created["guid"])
        assert deleted["changes"]["Label"] == {"old": "new", "new": None}
        assert program.end() == 0
        assert len(program.lines(1)) == 1
        assert len(program.out.read_text().splitlines()) == 2


def test_lines_for_people(environment, plain, queue, tmp_path):
    dn = queue("before")
    with running(tmp_path, environment, state=tmp_path / "state") as program:
        label(plain, dn, "after\u202etxt")
        (line,) = program.lines(1)
        assert line.startswith("changed  queue          ")
        assert "Label: before → after\\u202etxt" in line
        assert program.end() == 0
        said = f"watching {environment['MQDSSM_URL']}: Ctrl-C ends it\n"
        assert program.err.read_text() == said


def test_after_a_kill_nothing_is_lost_and_nothing_invented(environment, plain, queue, tmp_path):
    """What was not committed is told again, with its id; what was undone meanwhile is told as well."""
    state, lives = tmp_path / "state", []
    dn = queue("0")
    for number in range(1, 5):
        with running(tmp_path, environment, "queue", "-o", "json", state=state) as program:
            if number > 1:
                undone = f'"new": "{number - 2}"'
                program.wait(lambda p=program, u=undone: u in p.out.read_text())
            label(plain, dn, str(number))
            program.wait(lambda n=number, p=program: f'"new": "{n}"' in p.out.read_text())
            program.end(signal.SIGKILL)
            lives += [json.loads(line) for line in program.lines(1)]
        label(plain, dn, str(number - 1))  # undone while nobody watches
    with running(tmp_path, environment, "queue", "-o", "json", state=state) as program:
        program.wait(lambda: '"new": "3"' in program.out.read_text())
        lives += [json.loads(line) for line in program.lines(1)]
    told = list({one["id"]: one["changes"]["Label"] for one in lives}.values())
    assert [(one["old"], one["new"]) for one in told] == [
        ("0", "1"), ("1", "0"), ("0", "2"), ("2", "1"), ("1", "3"), ("3", "2"), ("2", "4"), ("4", "3"),
    ]  # fmt: skip


def test_a_closed_pipe_ends_it_quietly(environment, plain, queue, tmp_path):
    state, dn = tmp_path / "state", queue("0")
    command = [*PROGRAM, "queue", "-o", "json", "--state", str(state)]
    with start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        end = time.monotonic() + WAIT_S
        while not state.exists() and time.monotonic() < end:
            time.sleep(0.02)
        label(plain, dn, "read")
        assert '"ready"' in process.stdout.readline()
        assert '"read"' in process.stdout.readline()
        process.stdout.close()
        label(plain, dn, "never read")
        assert process.wait(WAIT_S) == 141
        assert process.stderr.read() == ""
    with running(tmp_path, environment, "queue", "-o", "json", state=state) as program:
        assert '"never read"' in program.lines(1)[0]


def test_refusals_say_what_to_do(cli, tmp_path):
    said = cli.error("watch", "queue", "--ignore", "Lable", code=2)
    assert "--ignore Lable" in said
    assert "mqdssm schema show" in said
    other = tmp_path / "other"
    for somebody_elses in ('{"a": 1}\n', "letter\n", "\x00\x01"):
        other.write_text(somebody_elses)
        assert "this is no state of mqdssm watch" in cli.error("watch", "--state", str(other), code=2)
    other.write_text('{"format": "mqdssm watch", "version": 7}\n')
    assert "remove the file to begin anew" in cli.error("watch", "--state", str(other), code=2)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("", "'.' is no place for a state: name a file"),
        ("{tmp}", "{tmp}: this is a folder: name a file for the state"),
        (
            "{tmp}/none/state",
            "{tmp}/none/state: there is no folder {tmp}/none: make it, or name another file",
        ),
    ],
)
def test_a_state_that_cannot_be_kept_there(cli, tmp_path, state, words):
    said = cli.error("watch", "--state", state.format(tmp=tmp_path), code=2)
    assert said == words.format(tmp=tmp_path)


def test_a_server_that_is_away_is_told_once(environment, tmp_path):
    with OpenLdapServer(durable=True) as server:
        settings = environment | {
            "MQDSSM_URL": server.url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
            "MQDSSM_CA_FILE": str(server.ca_file),
        }
        with running(tmp_path, settings, state=tmp_path / "state") as program:
            server.stop()
            program.wait(lambda: "was lost" in program.err.read_text())
            server.start()
            assert program.end() == 0
            said = [line for line in program.err.read_text().splitlines() if "was lost" in line]
    assert len(said) == 1
    assert said[0].startswith("warning: the connection to ")


def test_a_server_that_tells_nothing_is_refused(alone):
    with OpenLdapServer(durable=False, syncprov=False) as server:
        settings = {
            "MQDSSM_URL": server.ldapi_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
        }
        said = alone.error("watch", code=6, **settings)
    assert "does not tell of changes" in said
    assert "overlay syncprov" in said


def test_a_state_of_another_directory_is_refused(alone, environment, tmp_path):
    state = tmp_path / "state"
    with running(tmp_path, environment, "site", state=state) as program:
        assert program.end() == 0
    with OpenLdapServer(durable=False) as server:
        settings = {
            "MQDSSM_URL": server.ldapi_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
        }
        said = alone.error("watch", "site", "--state", str(state), code=2, **settings)
    assert "another directory than the one that the state is of" in said
