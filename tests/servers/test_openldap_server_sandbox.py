"""The kept OpenLDAP in the background: it outlives its starter, survives crashes, and stops when told."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.servers.processes import stop

from mqdssm.errors import ConfigError, ObjectAlreadyExists
from mqdssm.testing import OpenLdapServer, sandbox_status, start_sandbox, stop_sandbox
from mqdssm.testing.openldap_config import OpenLdapOptions, ServerFolder
from mqdssm.testing.openldap_start import find_answering_process

WAIT_S = 20
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A folder whose sandbox, if there is one, is stopped in the end."""
    path = tmp_path / "sandbox"
    yield path
    with contextlib.suppress(ConfigError):
        stop_sandbox(path)


def slapd_of(folder):
    return find_answering_process(ServerFolder(folder).socket)


def test_start_stop_and_start_again(folder):
    started = start_sandbox(folder)
    assert started.running
    assert started.answers
    started.accounts().add_computer("web01")
    assert sandbox_status(folder) == started
    assert start_sandbox(folder) == started  # it runs: nothing to be done
    assert stop_sandbox(folder)
    assert slapd_of(folder) is None
    assert not stop_sandbox(folder)
    stopped = sandbox_status(folder)
    assert (stopped.running, stopped.answers, stopped.pid) == (False, False, None)
    again = start_sandbox(folder)
    assert (again.url, again.ldaps_url, again.ldapi_url) == (
        started.url,
        started.ldaps_url,
        started.ldapi_url,
    )
    with pytest.raises(ObjectAlreadyExists):
        again.accounts().add_computer("web01")


def test_state_file_says_how_to_reach_it_and_not_the_password(folder):
    state = start_sandbox(folder)
    text = (folder / "sandbox.json").read_text()
    written = json.loads(text)
    for name in ("url", "ldapi_url", "ldaps_url", "user", "password_file", "ca_file", "base_dn"):
        assert written[name] == getattr(state, name)
    password = Path(state.password_file)
    assert password.stat().st_mode & 0o077 == 0
    assert password.read_text() not in text
    ran = subprocess.run(
        ["ldapwhoami", "-x", "-ZZ", "-H", state.url, "-D", state.user, "-y", state.password_file],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={"LDAPTLS_CACERT": state.ca_file, "PATH": os.environ["PATH"]},
    )
    assert ran.stdout == f"dn:{state.user}\n", ran.stderr


def test_it_outlives_the_command_that_started_it(folder):
    code = f"from mqdssm.testing import start_sandbox; print(start_sandbox({str(folder)!r}).pid)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=PROJECT
    )
    state = sandbox_status(folder)
    assert state.answers
    assert state.pid == int(process.stdout)
    assert os.getpgid(state.pid) != os.getpgrp()
    assert Path(f"/proc/{state.pid}/cwd").readlink() == Path("/")


def test_a_crash_is_mended(folder):
    start_sandbox(folder)
    crashed = slapd_of(folder)
    os.kill(crashed, signal.SIGSEGV)
    deadline = time.monotonic() + WAIT_S
    while slapd_of(folder) in {None, crashed}:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert stop_sandbox(folder)
    assert "ended by signal 11, started again" in (folder / "slapd.log").read_text()


def test_killing_the_supervisor_ends_slapd_and_frees_the_folder(folder):
    os.kill(start_sandbox(folder).pid, signal.SIGKILL)
    deadline = time.monotonic() + WAIT_S
    while slapd_of(folder) is not None or sandbox_status(folder).running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert start_sandbox(folder).answers


def test_a_folder_without_a_sandbox(tmp_path):
    for ask in (sandbox_status, stop_sandbox):
        with pytest.raises(ConfigError, match="holds no sandbox"):
            ask(tmp_path)


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        start_sandbox(tmp_path / "file")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"options": {"nonsense": 1}}', "\x00"])
def test_a_state_file_that_makes_no_sense(folder, text):
    folder.mkdir()
    (folder / "sandbox.json").write_text(text)
    for ask in (sandbox_status, start_sandbox, stop_sandbox):
        with pytest.raises(ConfigError, match=r"sandbox\.json cannot be used"):
            ask(folder)


def test_options_are_kept(folder):
    start_sandbox(folder, OpenLdapOptions(durable=False, base_dn="dc=lab,dc=test"))
    stop_sandbox(folder)
    assert start_sandbox(folder).base_dn == "dc=lab,dc=test"
    assert "nosync" in (folder / "conf" / "slapd.conf").read_text()
    stop_sandbox(folder)
    with pytest.raises(ConfigError, match="root dc=lab,dc=test, not dc=example,dc=com"):
        start_sandbox(folder, OpenLdapOptions())
    start_sandbox(folder, OpenLdapOptions(base_dn="dc=lab,dc=test", accesslog=True))
    assert "cn=log" in (folder / "conf" / "slapd.conf").read_text()


def test_a_port_that_was_taken_meanwhile_is_replaced(folder):
    before = start_sandbox(folder)
    stop_sandbox(folder)
    port = int(before.url.rpartition(":")[2])
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        after = start_sandbox(folder)
    assert after.url != before.url
    assert after.answers


def test_a_port_that_was_asked_for_is_not_replaced(folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match="is taken"):
            start_sandbox(folder, OpenLdapOptions(port=port))
    assert slapd_of(folder) is None


def test_two_commands_at_once_start_one(folder):
    found = []
    threads = [threading.Thread(target=lambda: found.append(start_sandbox(folder))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({state.pid for state in found}) == 1


def test_sandbox_and_server_never_share_a_folder(folder):
    state = start_sandbox(folder)
    with pytest.raises(ConfigError, match="in use"):
        OpenLdapServer(folder).start()
    assert sandbox_status(folder) == state
    stop_sandbox(folder)
    with OpenLdapServer(folder), pytest.raises(ConfigError, match="in use"):
        start_sandbox(folder)


def test_a_paused_slapd_is_stopped(folder):
    start_sandbox(folder)
    slapd = slapd_of(folder)
    stop(slapd)
    assert stop_sandbox(folder)
    assert not Path(f"/proc/{slapd}").exists()
