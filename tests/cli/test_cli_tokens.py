"""``mqdssm enterprise make-token``, and ``add-server`` with the token."""

import socket
from contextlib import ExitStack

import pytest
from support.replication.joining import Berlin

from mqdssm.server.config import ServerConfig
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.snapshot_reader import SnapshotReader

NAMED = ("--role", "psc", "--site", "Rome", "--machine", "PSC2")
MAKE = ("enterprise", "make-token", *NAMED)


@pytest.fixture
def server(tmp_path):
    """Option for the control socket of a PEC whose tokens are valid now."""
    with ExitStack() as stack:
        berlin = Berlin(tmp_path, stack)
        berlin.clock.now = 4_000_000_000.0
        read = SnapshotReader(berlin.pec.server).read
        service = ControlService(berlin.pec.server, read, lambda: None, token_admission=berlin.admission)
        stack.enter_context(ControlServer(tmp_path / "control.sock", service))
        yield "--server", str(tmp_path / "control.sock")


def listen() -> tuple[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return "--listen", f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_token_by_a_file_and_by_standard_input(alone, server, tmp_path):
    file = tmp_path / "token"
    answer = alone(*MAKE, *server, "--to", str(file), "--hours", "2")
    token = file.read_text()
    assert (file.stat().st_mode & 0o777, token.count("\n")) == (0o600, 1)
    assert token.strip() not in answer.stdout + answer.stderr
    assert "expires at 2096-10-02 09:06 UTC" in answer.stdout
    assert "exists" in alone.error(*MAKE, *server, "--to", str(file), code=2)
    add = ("enterprise", "add-server", str(tmp_path / "psc"), *listen())
    for name, value in (("--role", "bsc"), ("--site", "Oslo"), ("--machine", "PSC3")):
        words = alone.error(*add, "--token", str(file), name, value, code=2)
        assert f"is for the psc PSC2 of Rome, not for {value}" in words
    printed = alone(*MAKE, *server, "--to", "-").stdout
    assert printed.startswith("mqdssm-join-1.")
    assert printed != token
    shown = alone(*add, "--token", "-", *NAMED, stdin=printed)
    assert "has to prove its key SHA256:" in shown.stderr
    assert ServerConfig.read(tmp_path / "psc" / "server.toml").server.machine_name == "PSC2"
    assert printed.strip() not in shown.stdout + shown.stderr


def test_a_token_is_withdrawn(alone, server, tmp_path):
    withdraw = ("enterprise", "withdraw-token", "--machine", "PSC2", *server)
    assert "no join token for PSC2" in alone.error(*withdraw, code=4)
    alone(*MAKE, *server, "--to", str(tmp_path / "token"))
    alone(*withdraw)
    alone(*withdraw, code=4)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "give --through SOCKET or --token FILE"),
        (("--through", "a", "--token", "b"), "give --through SOCKET or --token FILE"),
        (("--through", "a", "--role", "psc", "--site", "Rome"), "give --role, --site and --machine"),
        (("--token", "missing"), "cannot be read"),
        (("--token", "-"), "no whole join token"),
    ],
)
def test_options_that_do_not_fit(alone, tmp_path, options, problem):
    words = alone.error("enterprise", "add-server", str(tmp_path / "psc"), *listen(), *options, code=2)
    assert problem in words
    assert not (tmp_path / "psc").exists()


def test_tokens_that_cannot_be_made(alone, server, tmp_path):
    to = ("--to", str(tmp_path / "token"))
    make = ("enterprise", "make-token", "--role", "psc", *server, *to)
    assert "exists already" in alone.error(*make, "--site", "Site1", "--machine", "PSC7", code=6)
    assert "no name of a machine" in alone.error(*make, "--site", "Rome", "--machine", "A\\B", code=2)
    words = alone.error(*make, "--site", "Rome", "--machine", "A", "--address", "0.0.0.0:1801", code=2)
    assert "which is not 0.0.0.0:1801" in words
    assert not (tmp_path / "token").exists()
