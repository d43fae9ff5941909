"""``mqdssm serve`` as a process: stops, a kill, its folder and configuration, systemd, a directory away."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.project.source_tree import ROOT
from support.replication.queue_managers import wait_until
from support.replication.server_processes import served

from mqdssm.cli.server.serve import GRACE_S
from mqdssm.model.elements import Queue
from mqdssm.server.control_client import ControlClient

pytestmark = pytest.mark.slow  # starts programs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pec"


def init(cli, folder: Path, *more: str, listen: str = "127.0.0.1:0") -> dict[str, str]:
    names = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    return cli.json("enterprise", "init", str(folder), *names, "--listen", listen, *more)


def last_numbers(cli, control: Path) -> dict[str, int]:
    shown = cli.json("status", "--server", str(control))
    return {part["site_name"] or "enterprise": part["last_number"] for part in shown["partitions"]}


def test_a_new_enterprise_keeps_everything_over_stops_and_a_kill(alone, folder: Path) -> None:
    made = init(alone, folder)
    assert made["config"] == str(folder / "server.toml")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "password" not in (folder / "server.toml").read_text().casefold().replace("no passwords", "")
    control = folder / "control.sock"
    for number, ending in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGKILL)):
        with served(folder / "server.toml") as server:
            ready = server.wait_for("ready")
            assert ready["role"] == "PEC"
            assert ready["listen"].startswith("127.0.0.1:")
            with ControlClient(control) as client:
                client.create(Queue(pathname=rf"PEC01\queue{number}"))
            assert server.end(ending) == (-signal.SIGKILL if ending == signal.SIGKILL else 0)
    with served(folder / "server.toml") as server:
        server.wait_for("ready")
        # enterprise and site; machine and three queues, which are counted soon after the start
        wait_until(lambda: last_numbers(alone, control) == {"enterprise": 2, "Berlin": 4}, 20)
        words = alone.error("serve", str(folder / "server.toml"), code=6)
        assert words == f"the server in {folder} runs already: stop it first"
        assert server.end() == 0
    assert not control.exists()


def test_a_directory_of_its_own_needs_no_private_one(alone, folder: Path, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    made = init(
        *(alone, folder, "--url", "ldap://ldap.example.com", "--user", "cn=admin,dc=example,dc=com"),
        *("--password-file", str(password)),
    )
    text = Path(made["config"]).read_text()
    assert "secret" not in text
    assert f'password_file = "{password}"' in text
    assert not (folder / "directory").exists()


@pytest.mark.parametrize(
    ("listen", "reason"),
    [("127.0.0.1:70000", "is no address, as 127.0.0.1:1801"), (":1801", "is no address, as 127.0.0.1:1801")],
)
def test_addresses_that_are_none(alone, folder: Path, listen: str, reason: str) -> None:
    names = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    assert reason in alone.error("enterprise", "init", str(folder), *names, "--listen", listen, code=2)
    assert not folder.exists()


def test_a_configuration_that_is_missing_or_misspelt(alone, folder: Path) -> None:
    missing = str(folder / "no.toml")
    assert (
        alone.error("serve", missing, code=2) == f"there is no {missing}: 'mqdssm enterprise init' makes one"
    )
    file = Path(init(alone, folder, "--url", "ldap://ldap.example.com")["config"])
    file.write_text(file.read_text().replace("pec_name", "pec_nam"))
    error = json.loads(alone("serve", str(file), "-o", "json", code=2).stderr)
    assert "has 'pec_nam', which is no setting: did you mean pec_name?" in error["message"]


def test_a_folder_that_others_can_read(alone, folder: Path) -> None:
    file = init(alone, folder)["config"]
    folder.chmod(0o750)
    assert alone.error("serve", file, code=6) == f"{folder} can be read by others: chmod 700 {folder}"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else(alone, folder: Path) -> None:
    refusal = f"{folder} belongs to another user: name a folder of your own"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    names = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01", "--listen", "127.0.0.1:1801")
    assert alone.error("enterprise", "init", str(folder), *names, code=2) == refusal
    assert not list(folder.iterdir())
    folder.rmdir()
    file = init(alone, folder)["config"]
    os.chown(folder, 65534, 65534)
    assert alone.error("serve", file, code=6) == refusal


def test_a_server_goes_on_when_nobody_reads_its_output(alone, folder: Path, tmp_path: Path) -> None:
    file = Path(init(alone, folder)["config"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(str(tmp_path / "notify"))
        with served(file, NOTIFY_SOCKET=str(tmp_path / "notify")) as server:
            server.process.stdout.close()
            assert manager.recv(100) == b"READY=1"  # behind the line that nobody has read
            with ControlClient(folder / "control.sock") as client:
                client.create(Queue(pathname=r"PEC01\orders"))
            assert server.end() == 0


def test_systemd_is_told_when_the_server_works_and_stops(alone, folder: Path, tmp_path: Path) -> None:
    file = Path(init(alone, folder)["config"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(str(tmp_path / "notify"))
        with served(file, NOTIFY_SOCKET=str(tmp_path / "notify")) as server:
            assert manager.recv(100) == b"READY=1"
            assert server.end() == 0
        assert manager.recv(100) == b"STOPPING=1"


def test_systemd_is_told_again_and_again_that_the_server_works(alone, folder: Path, tmp_path: Path) -> None:
    file = Path(init(alone, folder)["config"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(str(tmp_path / "notify"))
        with served(file, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="600000") as server:
            assert [manager.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            server.process.send_signal(signal.SIGTERM)
            state = manager.recv(100)
            while state == b"WATCHDOG=1":
                state = manager.recv(100)
            assert state == b"STOPPING=1"
            assert server.process.wait(60) == 0


UNIT = ROOT / "docs" / "server" / "mqdssm-server@.service"


def test_the_unit_of_systemd_is_sound(tmp_path: Path) -> None:
    text = UNIT.read_text()
    (command,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    program = "/opt/mqdssm/bin/mqdssm"
    assert command == f"{program} serve /var/lib/mqdssm/%i/server.toml -o json"
    stop_s = int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])
    assert stop_s > GRACE_S  # the server itself ends before systemd kills it
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze (Debian: systemd)")
    unit = tmp_path / "mqdssm-server@pec.service"
    unit.write_text(text.replace(program, str(Path(sys.executable).parent / "mqdssm")))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    limit = ["--offline=yes", "--threshold=20", unit]  # 2.0 of 10
    done = subprocess.run([analyze, "security", *limit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_directory_that_is_away_is_waited_for_and_reported_once(
    alone, folder: Path, tmp_path: Path
) -> None:
    """The event goes to the program that reads the output; the log of -o json is JSON, too."""
    log_file = tmp_path / "serve.log"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"ldap://127.0.0.1:{nobody.getsockname()[1]}"
        file = Path(init(alone, folder, "--url", url)["config"])
        with served(file, MQDSSM_LOG_FILE=str(log_file)) as server:
            noted = server.wait_for("note")
            assert noted["message"].startswith("the directory cannot be reached, and is tried again: ")
            assert url in noted["message"]
            assert server.end() == 0
            assert server.process.stdout.read() == ""
    assert log_file.exists()
