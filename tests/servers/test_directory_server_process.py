"""Process of a directory server with a real slapd: folder, role, backup, a directory that is away."""

import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import tarfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.replication.queue_managers import wait_until
from support.servers.processes import stop
from support.servers.running_server import RunningServer, free_port, get, init, running

from mqdssm.drivers import store_thread
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import (
    ConfigError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    TransportError,
)
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.server import local_pages
from mqdssm.server import process as server_process
from mqdssm.server.backup import DIRECTORY, back_up, restore
from mqdssm.server.config import ServerConfig
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.renaming import rename_server
from mqdssm.server.setup import add_server
from mqdssm.testing import OpenLdapServer

pytestmark = [pytest.mark.timeout(120)]


def test_a_folder_has_one_process_and_keeps_its_role(tmp_path, monkeypatch):
    """Decision T133: the file follows the directory, at a start and while the server runs."""
    init(tmp_path / "pec")
    with running(tmp_path / "pec") as pec:
        wait_until(lambda: pec.create(r"PEC01\first"), 20)
        second = RunningServer(tmp_path / "pec").start()
        with pytest.raises(ConfigError, match="runs already"):
            second.stop()
    assert not pec.folder.control.exists()
    text = pec.folder.config.read_text()
    pec.folder.config.write_text(text.replace('role = "PEC"', 'role = "PSC"'))
    monkeypatch.setattr(server_process, "FOLLOW_S", 0.1)
    with running(tmp_path / "pec") as pec:
        assert pec.process.config.server.role is Role.PEC
        assert "server.toml follows: PEC01 is a PEC" in pec.reports[0]
        assert pec.folder.config.read_text() == text
        now = pec.process.config.server.model_copy(update={"role": Role.PSC, "pec_name": "PSC01"})
        pec.folder.config.write_text("server = 1")
        monkeypatch.setattr(server_process, "identity_of_running", lambda _server, _configured: now)
        wait_until(lambda: any("PEC01 is a PSC by its directory" in report for report in pec.reports), 20)
        pec.folder.config.write_text(text)
        wait_until(lambda: any("server.toml follows: PEC01 is a PSC" in report for report in pec.reports), 20)
        assert ServerConfig.read(pec.folder.config).server == now
        assert len(pec.reports) == 3


def test_a_server_gets_another_name(tmp_path):
    folder = DirectoryServerFolder(init(tmp_path / "pec"))
    with pytest.raises(ConfigError, match="has no machine PEC01 yet"):
        rename_server(folder, "HQ01")
    with running(folder.path) as pec:
        wait_until(lambda: pec.create(r"PEC01\first"), 20)
        with pytest.raises(ConfigError, match="runs already"):
            rename_server(folder, "HQ01")
        with pec.client() as client:
            site = client.status().site_id
            client.create(QueueManager(computer_name="WEB01", site_identifier_list=[site]))
            named = {"site": "Paris", "machine_name": "PSC01", "listen": "127.0.0.1:9"}
            add_server(tmp_path / "psc", client, role=Role.PSC, **named)
    text = folder.config.read_text()
    for name in "WEB01", "psc01":
        with pytest.raises(GenericDirectoryError, match="another machine has the name"):
            rename_server(folder, name)
    for name in "pec01", "A\\B", "":
        with pytest.raises(ConfigError):
            rename_server(folder, name)
    assert rename_server(folder, "HQ01", dry_run=True).server.pec_name == "HQ01"
    assert folder.config.read_text() == text
    rename_server(folder, "HQ01")
    assert folder.config.read_text() == text.replace('"PEC01"', '"HQ01"')
    with running(folder.path) as pec:
        wait_until(
            lambda: [part.owner for part in pec.snapshot().partitions if part.is_ours] == ["HQ01"] * 2, 20
        )
        assert pec.create(r"HQ01\second")
        assert pec.snapshot().machine_name == "HQ01"


def test_a_slapd_that_dies_again_and_again_says_what_to_do(tmp_path, monkeypatch, caplog):
    """It is killed eleven times: log and status name its end, its output and the next command."""
    monkeypatch.setattr(server_process, "FOLLOW_S", 0.1)
    init(tmp_path / "pec")
    with running(tmp_path / "pec") as pec:
        slapd = pec.process._slapd
        killed = set()
        while (pid := slapd.pid) is not None:
            if pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        assert len(killed) == 11
        wait_until(lambda: pec.process._slapd_problem, 20)
        (problem,) = [one for one in pec.snapshot().problems if one.subject == "private directory"]
        assert problem.severity == "error"
        assert "its slapd has ended (by signal 9, SIGKILL), and is not started again" in problem.text
        assert str(pec.folder.slapd_log) in problem.text
        assert problem.text.endswith(f"start it again: mqdssm serve {pec.folder.config}")
        assert caplog.messages.count(f"private directory: {problem.text}") == 1
        assert "ended 11 times within 60 s" in pec.folder.slapd_log.read_text()
    with running(tmp_path / "pec") as pec:  # the command that it names helps
        wait_until(lambda: pec.create(r"PEC01\first"), 20)
        assert not [one for one in pec.snapshot().problems if one.severity == "error"]


def test_a_slapd_whose_supervisor_is_gone_ends_no_server(tmp_path, monkeypatch):
    monkeypatch.setattr(server_process, "FOLLOW_S", 0.1)
    init(tmp_path / "pec")
    with running(tmp_path / "pec") as pec:
        os.kill(pec.process._slapd._supervised.process.pid, signal.SIGKILL)
        wait_until(lambda: pec.process._slapd_problem, 20)
        (problem,) = [one for one in pec.snapshot().problems if one.subject == "private directory"]
        assert "is gone, and slapd is not started again. Remove" in problem.text


@pytest.fixture
def slapd(tmp_path) -> Iterator[OpenLdapServer]:
    with OpenLdapServer(tmp_path / "slapd", replication=True, port=free_port()) as server:
        yield server


def test_a_directory_that_is_away_at_the_start_and_in_between(tmp_path, slapd):
    password = tmp_path / "password"
    password.write_text(slapd.password)
    password.chmod(0o600)
    init(tmp_path / "pec", url=slapd.url, user=slapd.user, password_file=password, ca_file=slapd.ca_file)
    slapd.stop()
    server = RunningServer(tmp_path / "pec").start()
    try:
        wait_until(lambda: any("cannot be reached" in report for report in server.reports), 20)
        assert not server.addresses
        slapd.start()
        server.wait_ready()
        wait_until(lambda: server.create(r"PEC01\first"), 20)
        slapd.stop()
        assert server.snapshot().machine_name == "PEC01"
        assert not server.create(r"PEC01\second")
        wait_until(lambda: not server.snapshot().store.is_reachable, 20)
        slapd.start()
        wait_until(lambda: server.create(r"PEC01\third"), 40)
        wait_until(lambda: server.snapshot().is_healthy, 20)
    finally:
        server.stop()


def test_a_directory_that_hangs(tmp_path, slapd, monkeypatch):
    """It takes requests and answers none: status says so in bounded time, though nobody else asked."""
    monkeypatch.setattr(store_thread, "SILENT_S", 3.0)
    password = tmp_path / "password"
    password.write_text(slapd.password)
    password.chmod(0o600)
    init(tmp_path / "pec", url=slapd.url, user=slapd.user, password_file=password, ca_file=slapd.ca_file)
    with running(tmp_path / "pec") as server:
        wait_until(lambda: server.create(r"PEC01\first"), 20)
        assert server.snapshot().store.is_reachable
        before = datetime.now(UTC)
        stop(slapd.pid)
        try:
            time.sleep(store_thread.KNOWN_S)  # an answer from just before counts no more
            store = server.snapshot().store
            assert datetime.now(UTC) - before < timedelta(seconds=3 + store_thread.KNOWN_S + 3)
            assert not store.is_reachable
            (since,) = re.findall(r"it has not answered since (.{19}) UTC", store.problem)
            moment = datetime.fromisoformat(f"{since}+00:00")
            assert before - timedelta(seconds=1) < moment < datetime.now(UTC)
            asked_at = time.monotonic()
            again = server.snapshot()
            assert (again.is_healthy, again.store.problem) == (False, store.problem)
            assert time.monotonic() - asked_at < 1
        finally:
            os.kill(slapd.pid, signal.SIGCONT)
        wait_until(lambda: server.snapshot().is_healthy, 20)
        assert server.create(r"PEC01\second")


def test_a_server_is_stopped_while_it_waits_for_its_directory(tmp_path):
    password = tmp_path / "password"
    password.write_text("secret")
    password.chmod(0o600)
    url = f"ldap://127.0.0.1:{free_port()}"
    init(tmp_path / "pec", url=url, user="cn=nobody", password_file=password)
    server = RunningServer(tmp_path / "pec").start()
    wait_until(lambda: bool(server.reports), 20)
    before = time.monotonic()
    server.stop()
    assert time.monotonic() - before < 10
    with pytest.raises(DirectoryNotConnected):
        server.client()


def test_metrics_health_and_the_status_page(tmp_path):
    folder, port = init(tmp_path / "pec"), free_port()
    config = folder / "server.toml"
    config.write_text(f'{config.read_text()}\n[metrics]\naddress = "{port}"\n')
    with running(folder):
        wait_until(lambda: "Berlin" in get(port, "/")[1])
        status, text = get(port, "/metrics")
        assert status == 200
        assert 'mqdssm_server_info{machine="PEC01",psc="",role="PEC",site="Berlin"' in text
        assert 'mqdssm_store_operation_seconds_count{operation="CreateObject"}' in text
        assert json.loads(get(port, "/health")[1])["status"] == "ok"
    with pytest.raises(ConnectionRefusedError):
        get(port, "/health")


def test_health_is_503_while_the_directory_is_away_or_hangs(tmp_path, slapd, monkeypatch):
    """The server is idle: nobody but the requests for its health asks the directory."""
    monkeypatch.setattr(store_thread, "SILENT_S", 1.0)
    monkeypatch.setattr(store_thread, "KNOWN_S", 0.1)
    monkeypatch.setattr(local_pages, "CHECKED_S", 0.1)
    password, port = tmp_path / "password", free_port()
    password.write_text(slapd.password)
    password.chmod(0o600)
    init(tmp_path / "pec", url=slapd.url, user=slapd.user, password_file=password, ca_file=slapd.ca_file)
    config = tmp_path / "pec" / "server.toml"
    config.write_text(f'{config.read_text()}\n[metrics]\naddress = "{port}"\n')

    def health() -> int:
        return get(port, "/health")[0]

    with running(tmp_path / "pec"):
        wait_until(lambda: health() == 200, 20)
        stop(slapd.pid)
        try:
            wait_until(lambda: health() == 503, 20)
            assert "it has not answered since" in get(port, "/health")[1]
        finally:
            os.kill(slapd.pid, signal.SIGCONT)
        wait_until(lambda: health() == 200, 20)
        slapd.stop()
        wait_until(lambda: health() == 503, 20)
        assert "the directory cannot be reached" in get(port, "/health")[1]
        slapd.start()
        wait_until(lambda: health() == 200, 40)


def test_a_local_port_that_is_taken(tmp_path):
    folder = init(tmp_path / "pec")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = folder / "server.toml"
        config.write_text(f'{config.read_text()}\n[metrics]\naddress = "127.0.0.1:{port}"\n')
        server = RunningServer(folder).start()
        with pytest.raises(TransportError, match=f"cannot listen on 127.0.0.1:{port}"):
            server.stop_when_ended()


def test_a_backup_of_a_running_server_is_restored(tmp_path):
    """The restored server has the objects of the backup, its key and its names; what came later is gone."""
    folder, file = DirectoryServerFolder(init(tmp_path / "pec")), tmp_path / "monday.backup"
    with pytest.raises(ConfigError, match="start the server once"):
        back_up(folder, file)
    assert not file.exists()
    with running(folder.path) as pec:
        wait_until(lambda: pec.create(r"PEC01\first"), 20)
        with pec.client() as client:
            client.add_host("PSC09", "127.0.0.1:9")
        back_up(folder, file)
        assert pec.create(r"PEC01\second")
    assert (file.stat().st_mode & 0o777, list(tmp_path.glob(".*"))) == (0o600, [])
    with pytest.raises(ConfigError, match="cannot be written"):
        back_up(folder, file)
    key = folder.key.read_bytes()
    shutil.rmtree(folder.path)
    restored = restore(file, folder.path)
    assert restored.key.read_bytes() == key
    assert "PSC09" in restored.hosts.read_text().upper()
    assert restored.founded.exists()
    assert not any(place.exists() for place in (restored.numbers, restored.marks, restored.path / DIRECTORY))
    with pytest.raises(ConfigError, match="is not empty"):
        restore(file, folder.path)
    server = RunningServer(folder.path, restored=True).start()
    try:
        server.wait_ready()
        wait_until(lambda: server.create(r"PEC01\second"), 20)
        with server.client() as client, pytest.raises(ObjectAlreadyExists):
            client.create(Queue(pathname=r"PEC01\first"))
    finally:
        server.stop()


def archive(members: dict[str, bytes]) -> bytes:
    """Return a tar file."""
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode="w:gz") as made:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return octets.getvalue()


def manifest(**members: bytes) -> bytes:
    names = {name.replace("_", "."): hashlib.sha256(content).hexdigest() for name, content in members.items()}
    return json.dumps({"format": 1, "sha256": names}).encode()


WHOLE = manifest(server_toml=b"", key_pem=b"", directory_ldif=b"")
EMPTY = {"manifest.json": WHOLE, "server.toml": b"", "key.pem": b"", "directory.ldif": b""}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no whole backup"),
        (b"PK", "no whole backup"),
        ({}, "no backup"),
        ({"x": b""}, "no backup"),
        ({"manifest.json": b"["}, "manifest is damaged"),
        ({"manifest.json": b'{"format": 2, "sha256": {}}'}, "has format 2"),
        ({"manifest.json": manifest(key_pem=b"")}, "no whole backup"),
        ({"manifest.json": WHOLE}, "is damaged"),
        ({"manifest.json": WHOLE, "../escaped": b""}, "'../escaped'"),
        ({"manifest.json": WHOLE, "key.pem": b""}, "server.toml is not as it was"),
        ({**EMPTY, "key.pem": b"other"}, "key.pem is not as it was"),
    ],
)
def test_files_that_are_no_backup(tmp_path, content, problem):
    file = tmp_path / "file"
    file.write_bytes(archive(content) if isinstance(content, dict) else content)
    with pytest.raises(ConfigError, match=problem):
        restore(file, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_directory_elsewhere_is_backed_up_there(tmp_path):
    folder = DirectoryServerFolder(init(tmp_path / "pec", url="ldapi://%2Frun%2Fslapd"))
    with pytest.raises(ConfigError, match="back it up there with slapcat"):
        back_up(folder, tmp_path / "file")


def test_the_name_of_another_machine_is_not_admitted(tmp_path):
    """Its address stays as it was."""
    init(tmp_path / "pec")
    with running(tmp_path / "pec") as pec, pec.client() as client:
        wait_until(lambda: pec.create(r"PEC01\first"), 20)
        client.add_host("PEC01", "127.0.0.1:9")
        with pytest.raises(GenericDirectoryError, match="PEC01 exists already"):
            add_server(
                tmp_path / "psc",
                client,
                role=Role.PSC,
                site="Rome",
                machine_name="PEC01",
                listen="127.0.0.1:10",
            )
        assert "127.0.0.1:9" in pec.folder.hosts.read_text()
    assert not (tmp_path / "psc").exists()
