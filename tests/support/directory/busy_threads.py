"""Many threads on one directory while its server goes away and comes back: every answer is checked."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import mqdssm

THREADS = 20


class Computers(Protocol):
    """A server, as far as it is needed here."""

    def add_computer(self, name: str) -> str:
        """Add a computer."""


@dataclass
class Worker:
    """One thread's work on its own queues, and what the directory must hold of it."""

    directory: mqdssm.Directory
    computer: str
    stop: threading.Event
    expected: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    done: int = 0
    refused: int = 0

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            try:
                self.one_round(rf"{self.computer}\q{number}", number)
            except Exception as error:  # noqa: BLE001  a thread must not die silently
                self.problems.append(f"{type(error).__name__}: {error}")

    def one_round(self, path: str, number: int) -> None:
        queue = mqdssm.Queue(pathname=path, label=f"{self.computer} {number}")
        if not self.change(path, lambda: self.directory.create(queue), queue.label):
            return
        try:
            read = self.directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", path))
        except mqdssm.DirectoryNotConnected:
            self.refused += 1
            return
        if (read.label, read.pathname) != (queue.label, path):
            self.problems.append(f"asked for {path}, got {read.pathname} with {read.label!r}")
        read.label = f"{queue.label} changed"
        if not self.change(path, lambda: self.directory.write(read), read.label):
            return
        if number % 3 == 0:
            self.change(path, lambda: self.directory.delete(read), None)
        self.done += 1

    def change(self, path: str, work: Callable[[], object], label: str | None) -> bool:
        """Do it; afterwards it is known what is stored, except where we were told that nobody knows."""
        try:
            work()
        except mqdssm.OutcomeUnknown:
            self.unknown.add(path)
            return False
        except mqdssm.DirectoryNotConnected:
            self.refused += 1  # it was not carried out: what is expected stays as it was
            return False
        if label is None:
            self.expected.pop(path, None)
        else:
            self.expected[path] = label
        return True


def work_through(directory: mqdssm.Directory, server: Computers, disturb: Callable[[], None]) -> None:
    """Let `THREADS` threads work while `disturb` runs; then the directory must hold what it should.

    Args:
        directory: on the server, empty.
        server: adds computers.
        disturb: takes the server away and brings it back, at least once.
    """
    computers = [f"pc{number}" for number in range(THREADS)]
    site = directory.create(mqdssm.Site(name="HQ"))
    for computer in computers:
        server.add_computer(computer)
        directory.create(mqdssm.QueueManager(computer_name=computer, site_identifier_list=(site,)))
    stop = threading.Event()
    workers = [Worker(directory, computer, stop) for computer in computers]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        disturb()
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [problem for worker in workers for problem in worker.problems] == []
    unknown = {path for worker in workers for path in worker.unknown}
    expected = {path: label for worker in workers for path, label in worker.expected.items()}
    stored = {queue.pathname or "": queue.label for queue in directory.search(mqdssm.Queue)}
    assert _without(stored, unknown) == _without(expected, unknown)
    assert sum(worker.done for worker in workers) > THREADS
    assert sum(worker.refused for worker in workers) + len(unknown) > 0, "no thread met the missing server"


def _without(labels: dict[str, str], paths: set[str]) -> dict[str, str]:
    return {path: label for path, label in labels.items() if path not in paths}
