"""Stopping a directory server whose directory does not take changes, with a private slapd."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest

from mqdssm.engines.replication import operations as ops
from mqdssm.errors import DirectoryNotConnected, OutcomeUnknown
from mqdssm.model.elements import Queue
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.control_client import ControlClient
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from mqdssm.store.ldap import LdapStore

WAIT_S = 60
STOP_S = 8.0
"""Longest time of a stop: far below the 30 s after which `serve` ends without care."""


class StuckServer:
    """PEC at work in a thread; new objects wait as if slapd were away, from `is_stuck` on."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_pec(
            path,
            enterprise="Contoso",
            site="Berlin",
            machine_name="PEC01",
            listen="127.0.0.1:0",
            store=StoreSection(),
        )
        folder = DirectoryServerFolder(path)
        self.ready, self.is_stuck, self.tried = Event(), Event(), Event()
        config = ServerConfig.read(folder.config)
        self.process = ServerProcess(folder, config, on_ready=lambda _: self.ready.set())
        self.thread = Thread(target=self.process.run)
        perform = LdapStore.perform

        def stuck(store: LdapStore, operation: ops.Operation) -> ops.Result:
            if self.is_stuck.is_set() and isinstance(operation, ops.CreateObject):
                self.tried.set()
                raise DirectoryNotConnected("slapd is away")
            return perform(store, operation)

        monkeypatch.setattr(LdapStore, "perform", stuck)

    def stop(self) -> float:
        """Stop the server; return how long it took in seconds."""
        before = time.monotonic()
        self.process.stop()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        return time.monotonic() - before


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StuckServer:
    return StuckServer(tmp_path / "pec", monkeypatch)


@pytest.mark.slow
def test_a_waiting_client_does_not_hold_up_the_end(server, tmp_path):
    server.thread.start()
    assert server.ready.wait(WAIT_S)
    server.is_stuck.set()
    with ThreadPoolExecutor() as threads, ControlClient(tmp_path / "pec" / "control.sock") as client:
        waiting = threads.submit(client.create, Queue(pathname=r"PEC01\orders"))
        assert server.tried.wait(WAIT_S)
        assert server.stop() < STOP_S
        with pytest.raises(OutcomeUnknown):  # the change may have been made
            waiting.result(WAIT_S)


def test_first_objects_that_cannot_be_made_do_not_hold_up_the_end(server):
    server.is_stuck.set()
    server.thread.start()
    assert server.tried.wait(WAIT_S)
    assert server.stop() < STOP_S
    assert not server.ready.is_set()
