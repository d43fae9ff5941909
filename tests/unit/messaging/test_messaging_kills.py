"""Senders and receivers of recoverable messages are killed: nothing is lost, nothing comes twice."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.messaging import worker
from support.messaging.managers import free_port
from support.project.source_tree import ROOT

COUNT = 80


class Processes:
    """One sender and one receiver, which are killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port, self._runs = folder, str(free_port()), 0
        self._running: list[subprocess.Popen[bytes]] = []

    def send(self, count: int) -> subprocess.Popen[bytes]:
        self._runs += 1
        printed = self._folder / f"sent-{self._runs:04}"
        return self._start("send", "left", str(self._runs), str(count), output=printed)

    def receive(self) -> subprocess.Popen[bytes]:
        self._runs += 1
        file = self._folder / f"received-{self._runs:04}"
        return self._start("receive", "right", str(file), output=self._folder / "output")

    def _start(self, role: str, name: str, *options: str, output: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, worker.__file__, role, str(self._folder / name), self._port, *options]
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, env=environment)
        self._running.append(process)
        return process

    def accepted(self) -> set[str]:
        """The bodies of all messages that `send` has accepted."""
        return {line for file in self._folder.glob("sent-*") for line in complete_lines(file)}

    def received(self) -> list[list[str]]:
        """The bodies that each run of the receiver has received."""
        return [complete_lines(file) for file in sorted(self._folder.glob("received-*"))]

    def progress(self, what: str) -> int:
        """The number of messages that the latest run has sent or received."""
        files = sorted(self._folder.glob(f"{what}-*"))
        return len(complete_lines(files[-1])) if files else 0

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()


def complete_lines(file: Path) -> list[str]:
    text = file.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    made = Processes(folder)
    try:
        yield made
    finally:
        made.close()


def check(runs: list[list[str]], accepted: set[str]) -> None:
    """A body comes twice only where a kill came between its receipt and its removal."""
    bodies: set[str] = set()
    last = None
    for run in runs:
        assert len(set(run)) == len(run)
        again = bodies.intersection(run)
        assert again <= {last}, f"came twice: {again}"
        bodies.update(run)
        last = run[-1] if run else last
    assert not accepted - bodies, "lost"


def exchange(folder: Path, seed: int, kills: int) -> None:
    """Kill one of both processes, again and again, when it has handled some messages."""
    chance = random.Random(seed)
    with processes(folder) as running:
        receiver, sender = running.receive(), running.send(COUNT)
        for _ in range(kills):
            if sender.poll() is not None:
                sender = running.send(COUNT)
            is_sender, wanted = chance.random() < 0.5, chance.randrange(1, COUNT // 2)
            until = time.monotonic() + 30
            while running.progress("sent" if is_sender else "received") < wanted:
                if sender.poll() is not None and not is_sender:
                    sender = running.send(COUNT)
                assert time.monotonic() < until, "no progress"
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.01))
            if is_sender:
                sender.kill()
                sender.wait()
                sender = running.send(COUNT)
            else:
                receiver.kill()
                receiver.wait()
                receiver = running.receive()
        assert sender.wait(60) == 0, sender.communicate()[1]
        until = time.monotonic() + 20
        while missing := running.accepted() - {body for run in running.received() for body in run}:
            assert time.monotonic() < until, f"lost: {sorted(missing)[:10]}, {receiver.poll()}"
            time.sleep(0.02)
        check(running.received(), running.accepted())


@pytest.mark.slow
def test_kills_lose_nothing_and_repeat_nothing(tmp_path):
    exchange(tmp_path, seed=1, kills=3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_many_kills_lose_nothing_and_repeat_nothing(tmp_path, seed):
    exchange(tmp_path, seed=seed, kills=40)


def test_the_check_notices_losses_and_repetitions():
    check([["a", "b"], ["b", "c"]], {"a", "b", "c"})
    with pytest.raises(AssertionError, match="lost"):
        check([["a"]], {"a", "b"})
    with pytest.raises(AssertionError, match="came twice"):
        check([["a", "b"], ["a"]], set())
    with pytest.raises(AssertionError):
        check([["a", "a"]], set())
