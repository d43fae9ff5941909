"""Nothing of an embedded OpenLDAP is left behind, however its owner ends; and it needs no rights."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.servers.processes import GONE_WAIT_S, runs, stop, wait_until_gone

from mqdssm.errors import ConfigError
from mqdssm.testing import OpenLdapServer

ROOT = "dc=example,dc=com"

# A program of its own that starts a server, says where it is, and waits to be ended.
OWNER = """
import sys, time
from mqdssm.testing import OpenLdapServer, accounts, start_sandbox
with OpenLdapServer(durable=False) as server:
    {then}
    print(server.pid, server._supervised.process.pid, server.folder, flush=True)
    time.sleep(60)
"""


class TestNoOrphan:
    @pytest.fixture
    def owner(self):
        started = []

        def start(then="pass"):
            process = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(OWNER).format(then=then)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
            )
            started.append(process)
            slapd, supervisor, folder = process.stdout.readline().split()
            assert runs(slapd)
            return process, int(slapd), int(supervisor), Path(folder)

        yield start
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)  # so that it deletes its folder
            process.wait(GONE_WAIT_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_when_the_owner_is_ended(self, owner, number):
        process, slapd, supervisor, folder = owner()
        process.send_signal(number)
        process.wait()
        wait_until_gone(slapd, folder)
        wait_until_gone(supervisor)

    def test_when_the_whole_terminal_is_interrupted(self, owner):
        process, slapd, _, folder = owner()
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        wait_until_gone(slapd, folder)

    def test_when_a_forked_child_holds_the_pipe_open(self, owner):
        process, slapd, _, folder = owner("import os; os.fork() or time.sleep(60)")
        process.kill()
        process.wait()
        wait_until_gone(slapd, folder)

    def test_when_the_supervisor_is_killed(self, owner):
        _, slapd, supervisor, _ = owner()
        os.kill(supervisor, signal.SIGKILL)
        wait_until_gone(slapd)

    def test_when_slapd_is_paused(self):
        with OpenLdapServer(durable=False) as server:
            pid, folder = server.pid, server.folder
            stop(pid)
        wait_until_gone(pid, folder)

    def test_the_owner_learns_that_the_supervisor_is_gone(self):
        server = OpenLdapServer(durable=False)
        server.start()
        slapd = server.pid
        try:
            server._supervised.process.kill()
            server._supervised.process.wait()
            with pytest.raises(ConfigError, match="supervisor of the LDAP server"):
                server.stop()
        finally:
            server.close()
        wait_until_gone(slapd)


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_as_an_ordinary_user():
    code = (
        "from mqdssm.testing import OpenLdapServer\n"
        "with OpenLdapServer() as server:\n"
        "    print(server.add_computer('web01'), server.add_user('u')[0])\n"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-x", sys.executable], check=False).returncode:
        # the interpreter lies in root's own folder: let nobody look in, and nothing more
        nobody += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    ran = subprocess.run(
        [*nobody, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[2],
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ran.stdout == f"CN=web01,CN=Computers,{ROOT} CN=u,CN=Users,{ROOT}\n", ran.stderr
