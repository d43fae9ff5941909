"""Directory servers, their clients and files one minor version apart (decisions T150 to T154)."""

import json
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from support.programs.starting import run
from support.servers.crews import QUICK, Crew, check_whole
from support.servers.enterprise import FIVE, PROGRAM, EnterpriseProcesses, Member, on_loopback, wait_for
from support.versions.minor_versions import NEXT, NEXT_FORMAT, NEXT_VERSION, PREVIOUS

import mqdssm
from mqdssm.drivers.queue_manager import message_schema
from mqdssm.errors import ConfigError
from mqdssm.model.elements import Queue
from mqdssm.server.backup import back_up, restore
from mqdssm.server.control_client import ControlClient
from mqdssm.server.folder import FORMAT, DirectoryServerFolder

OWN = mqdssm.__version__
CURRENT_STEPS = len(message_schema.STEPS)
THREE = (FIVE[0], FIVE[1], FIVE[3])
"""A PEC, a PSC and its BSC."""


def upgrade(
    servers: EnterpriseProcesses, name: str, program: Sequence[str], number: int = signal.SIGTERM
) -> None:
    """End a server by a signal, and start it with another version."""
    member = servers.members[name]
    code = 0 if number == signal.SIGTERM else -number
    assert servers.end(name, number) == code, member.log.read_text()[-2000:]
    member.program = program
    servers.start(name)


def files_of(member: Member) -> tuple[int, int]:
    """Format of the folder, and version of the database of messages."""
    with closing(sqlite3.connect(member.folder / "messages.sqlite")) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    return DirectoryServerFolder(member.folder).check_format(), version


def command(program: Sequence[str], *words: object) -> Any:
    return run([*program, *map(str, words)], text=True)


def status_of(program: Sequence[str], member: Member) -> dict[str, Any]:
    """The state of a server, by the command of a version."""
    done = command(program, "status", "--server", member.socket, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.timeout(180)
def test_two_servers_are_upgraded_one_after_the_other(tmp_path):
    """Clients create queues meanwhile, and commands of all versions ask servers of two versions."""
    with on_loopback(tmp_path, FIVE[:2], settings=QUICK, program=PREVIOUS) as servers:
        pec, psc = servers.members.values()
        assert {pec.status().version, psc.status().version} == {"0.0.9"}
        assert (files_of(pec)[1], files_of(psc)[1]) == (CURRENT_STEPS - 1, CURRENT_STEPS - 1)
        at_pec, at_psc = (Crew(servers, 1, 0.05, at=[name], owners=["PEC01"]) for name in servers.members)
        at_psc.work(10)
        upgrade(servers, "PSC01", PROGRAM)
        at_psc.work(10)  # the PEC is older, and makes the changes
        for member, version in ((pec, "0.0.9"), (psc, OWN)):
            for program in PREVIOUS, PROGRAM, NEXT:
                assert status_of(program, member)["version"] == version
        at_psc.stop()  # an owner takes no requests of others for 20 s after its start (decision R33)
        upgrade(servers, "PEC01", PROGRAM)
        assert [files_of(member) for member in (pec, psc)] == [(FORMAT, CURRENT_STEPS)] * 2
        upgrade(servers, "PSC01", NEXT)
        at_pec.work(10)
        assert status_of(PROGRAM, psc)["version"] == NEXT_VERSION
        check_whole(servers, at_pec, at_psc)


@pytest.mark.timeout(120)
def test_an_older_version_does_not_take_what_a_newer_one_has_used(tmp_path):
    """Its folder, its database of messages, and its backup."""
    with on_loopback(tmp_path, FIVE[:1], settings=QUICK, program=NEXT) as servers:
        pec = servers.pec
        backup = tmp_path / "pec.backup"
        done = command(NEXT, "enterprise", "backup", pec.folder, "--to", backup)
        assert done.returncode == 0, done.stderr
        servers.end("PEC01")
        assert files_of_next(pec) == (NEXT_FORMAT, CURRENT_STEPS + 1)
        problem = f"has format {NEXT_FORMAT} of mqdssm {NEXT_VERSION}, and this mqdssm {OWN} knows formats up"
        pec.program = PROGRAM
        with pytest.raises(AssertionError, match=problem):
            servers.start("PEC01")
        with pytest.raises(ConfigError, match=f"folder .* {problem}"):
            back_up(DirectoryServerFolder(pec.folder), tmp_path / "second")
        with pytest.raises(ConfigError, match=f"backup .* {problem}"):
            restore(backup, tmp_path / "restored")
        pec.program = NEXT
        servers.start("PEC01")
        assert pec.status().version == NEXT_VERSION


def files_of_next(member: Member) -> tuple[int, int]:
    """As `files_of`, of a folder that this version does not take."""
    record = json.loads((member.folder / "format.json").read_text())
    assert record["mqdssm"] == NEXT_VERSION
    with closing(sqlite3.connect(member.folder / "messages.sqlite")) as database:
        return record["format"], database.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.timeout(120)
def test_a_backup_of_the_previous_version_is_restored(tmp_path):
    with on_loopback(tmp_path, FIVE[:1], settings=QUICK, program=PREVIOUS) as servers:
        pec, backup = servers.pec, tmp_path / "pec.backup"

        def create(name: str) -> bool:
            with ControlClient(pec.socket) as client:
                return bool(client.create(Queue(pathname=rf"PEC01\{name}")))

        wait_for("the first queue", 60, lambda: create("first"))
        done = command(PREVIOUS, "enterprise", "backup", pec.folder, "--to", backup)
        assert done.returncode == 0, done.stderr
        servers.end("PEC01")
        pec.folder.rename(tmp_path / "lost")
        restore(backup, pec.folder)
        pec.program = PROGRAM
        servers.start("PEC01", "--restored")
        wait_for("the second queue", 60, lambda: create("second"))
        with mqdssm.connect(pec.ldapi_url) as directory:
            found = {queue.pathname for queue in directory.search(Queue, attributes=["Pathname"])}
        assert found == {r"pec01\first", r"pec01\second"}


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_three_servers_are_upgraded_over_two_versions(tmp_path):
    """Previous, this and next version, with a crew at each server; for the second step servers are killed."""
    with on_loopback(tmp_path, THREE, settings=QUICK, program=PREVIOUS) as servers:
        crew = Crew(servers, 2, 0.05)
        crew.work(100)
        steps = ((PROGRAM, OWN, signal.SIGTERM), (NEXT, NEXT_VERSION, signal.SIGKILL))
        for program, version, number in steps:
            for name in ("BSC01", "PSC01", "PEC01"):
                upgrade(servers, name, program, number)
                crew.work(100, 600)
                assert servers.members[name].status().version == version
        check_whole(servers, crew)
        assert [files_of_next(member) for member in servers.members.values()] == [
            (NEXT_FORMAT, CURRENT_STEPS + 1)
        ] * 3
