"""Reports to systemd: its watchdog hears of a server only while the engine's thread works."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from support.replication.queue_managers import wait_until
from support.servers.running_server import RunningServer, init, running

from mqdssm.drivers.engine_driver import EngineDriver
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.service_manager import Watchdog, notify_manager

INTERVAL_S = 20.0


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of systemd, which a test reads."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiving


def reports(manager: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(manager.recv(100))
        except BlockingIOError:
            return found


class HangingEngine:
    """Driver whose engine hangs in each event until it is released."""

    def __init__(self) -> None:
        self.hangs, self.released = Event(), Event()
        self.driver: EngineDriver[str] = EngineDriver(self._step, None)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _step(self, _event: object, _now: float) -> tuple[object, ...]:
        self.hangs.set()
        assert self.released.wait(30)
        return ()

    def _run(self) -> None:
        while self.driver.take_next(None):
            pass

    def hang(self) -> None:
        self.driver._events.put("event")
        assert self.hangs.wait(30)

    def has_answered(self) -> None:
        """Wait until the thread has processed everything so far."""
        answered = Event()
        self.driver.probe(answered.set)
        assert answered.wait(30)

    def close(self) -> None:
        self.released.set()
        self.driver.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def engine() -> Iterator[HangingEngine]:
    made = HangingEngine()
    yield made
    made.close()


def test_an_engine_that_hangs_is_not_reported(manager: socket.socket, engine: HangingEngine) -> None:
    now = 1000.0
    watchdog = Watchdog(engine.driver.probe, INTERVAL_S, clock=lambda: now)
    watchdog.turn()
    engine.has_answered()
    watchdog.turn()
    assert reports(manager) == [b"WATCHDOG=1"]
    watchdog.turn()
    engine.has_answered()
    watchdog.turn()
    assert reports(manager) == []  # it is not time yet
    engine.hang()
    for _ in range(5):
        now += INTERVAL_S
        watchdog.turn()
    assert reports(manager) == []
    engine.released.set()
    engine.has_answered()
    watchdog.turn()
    assert reports(manager) == [b"WATCHDOG=1"]  # of one proof, not of five


@pytest.fixture
def server(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RunningServer, ControlServer]]:
    """A PEC that systemd has started, with a report each 0.1 seconds."""
    made: list[ControlServer] = []
    init_control = ControlServer.__init__

    def init_and_keep(self: ControlServer, path: Path, service: ControlService) -> None:
        init_control(self, path, service)
        made.append(self)

    monkeypatch.setattr(ControlServer, "__init__", init_and_keep)
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with running(init(tmp_path / "pec")) as process:
        yield process, made[0]


def wait_for_report(manager: socket.socket) -> None:
    wait_until(lambda: b"WATCHDOG=1" in reports(manager), 20)


def is_silent(manager: socket.socket) -> bool:
    """True if no report comes in five times the interval, after one that may be under way."""
    time.sleep(0.5)
    reports(manager)
    time.sleep(0.5)
    return not reports(manager)


@pytest.mark.slow
def test_a_carrier_whose_event_loop_hangs_is_not_reported(
    manager: socket.socket, server: tuple[RunningServer, ControlServer]
) -> None:
    """Decision T161."""
    wait_for_report(manager)
    running_server = server[0].process._server
    assert running_server is not None
    network, released = running_server.queue_manager._carrier, Event()
    assert isinstance(network, TcpNetwork)
    network._loop.call_soon_threadsafe(released.wait, 30)
    try:
        assert is_silent(manager)
    finally:
        released.set()
    wait_for_report(manager)


@pytest.mark.slow
def test_a_control_socket_that_hangs_is_not_reported(
    manager: socket.socket, server: tuple[RunningServer, ControlServer], caplog: pytest.LogCaptureFixture
) -> None:
    """Decision T161; the probes themselves leave no line in the log."""
    caplog.set_level("INFO")
    wait_for_report(manager)
    with server[1]._lock:  # the thread that accepts clients waits for it
        assert is_silent(manager)
    wait_for_report(manager)
    assert "is disconnected" not in caplog.text
    assert server[0].snapshot().problems == ()


@pytest.mark.parametrize(
    ("environment", "interval_s"),
    [
        ({"WATCHDOG_USEC": "60000000"}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),  # meant for another process
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "minute"}, None),
        ({}, None),
    ],
)
def test_systemd_says_how_often(
    environment: dict[str, str], interval_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_on_answer: Callable[[], object]) -> None:
        raise AssertionError("no probe before the first turn")

    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    watchdog = Watchdog.of_environment(probe)
    assert (None if watchdog is None else watchdog.interval_s) == interval_s


def test_a_manager_that_is_gone_does_no_harm(
    manager: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    Path(manager.getsockname()).unlink()
    notify_manager("READY=1")
    assert "systemd cannot be told READY=1" in caplog.text
