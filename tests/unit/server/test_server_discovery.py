"""Discovery server of a directory server as a process: a PEC with a private slapd answers searches."""

import socket
import time
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
from support.discovery.client import guid_of

from mqdssm.model.discovery import TopologyClientRequest, TopologyServerReply
from mqdssm.model.guid import Guid
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from mqdssm.wire.mqsd import decode, encode

WAIT_S = 30


@pytest.fixture
def folder(tmp_path: Path) -> DirectoryServerFolder:
    path = tmp_path / "pec"
    make_pec(
        path,
        enterprise="Contoso",
        site="Berlin",
        machine_name="PEC01",
        listen="127.0.0.1:0",
        store=StoreSection(),
    )
    return DirectoryServerFolder(path)


class Running:
    """A server in a thread, with its reports."""

    def __init__(self, folder: DirectoryServerFolder) -> None:
        self.reports: list[str] = []
        self._ready = Event()
        self.process = ServerProcess(
            folder,
            ServerConfig.read(folder.config),
            on_ready=lambda _: self._ready.set(),
            on_report=self.reports.append,
        )
        self._thread = Thread(target=self.process.run)
        self._thread.start()
        assert self._ready.wait(WAIT_S)

    def close(self) -> None:
        self.process.stop()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@pytest.mark.slow
@pytest.mark.spec("MS-MQSD 3.2")
def test_machines_of_other_sites_are_told_of_the_server(folder):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    with folder.config.open("a") as file:
        file.write(f'\n[discovery]\nlisten = ["127.0.0.1:{address[1]}"]\nallow_from = ["127.0.0.0/8"]\n')
    request = TopologyClientRequest(
        enterprise_id=guid_of("enterprise"), request_id=guid_of("request"), site_id=guid_of("another site")
    )
    with closing(Running(folder)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.3)
        reply = _ask(client, encode(request), address)
    assert isinstance(reply, TopologyServerReply)
    assert reply.correlation_id == guid_of("request")
    assert reply.responding_site_id == Guid.of(ServerConfig.read(folder.config).server.site_id)
    assert [server.name for server in reply.directory_service_servers] == ["PEC01"]


def _ask(client: socket.socket, request: bytes, address: tuple[str, int]) -> object:
    """Ask until an answer comes: the server may not have begun."""
    deadline = time.monotonic() + WAIT_S
    while True:
        client.sendto(request, address)
        try:
            return decode(client.recv(65536))
        except (TimeoutError, ConnectionRefusedError):
            assert time.monotonic() < deadline


def test_an_address_that_is_taken_is_reported_and_replication_goes_on(folder):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with folder.config.open("a") as file:
            file.write(f'\n[discovery]\nlisten = ["127.0.0.1:{port}"]\n')
        with closing(Running(folder)) as server:
            deadline = time.monotonic() + WAIT_S
            while not server.reports:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert server.process._stopping.is_set() is False
    assert server.reports[0].startswith("machines that look for a directory server are not answered: ")
    assert f"127.0.0.1:{port}" in server.reports[0]
