"""Twenty threads over sealed connections (GSS-SPNEGO) while the controller goes away and comes back."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import mqdssm
from mqdssm.testing import SambaDomainController

THREADS = 20


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
                self.one_round(rf"{self.computer}\q{number}".lower(), number)
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
        if (read.label, (read.pathname or "").lower()) != (queue.label, path):
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
            self.refused += 1  # it was not carried out
            return False
        if label is None:
            self.expected.pop(path, None)
        else:
            self.expected[path] = label
        return True


def run_threads(restarts: int) -> None:
    with SambaDomainController() as server:
        computers = [f"PC{number}" for number in range(THREADS)]
        with mqdssm.connect(
            server.url, user=server.user, password=server.password, authentication="spnego"
        ) as directory:
            site = directory.create(mqdssm.Site(name="HQ"))
            for computer in computers:
                server.add_computer(computer)
                directory.create(mqdssm.QueueManager(computer_name=computer, site_identifier_list=[site]))
            stop = threading.Event()
            workers = [Worker(directory, computer, stop) for computer in computers]
            threads = [threading.Thread(target=worker.run) for worker in workers]
            for thread in threads:
                thread.start()
            try:
                for number in range(restarts):
                    time.sleep(1)
                    (server.stop if number % 2 else server.kill)()
                    time.sleep(0.2)
                    server.start()
                time.sleep(1)
            finally:
                stop.set()
                for thread in threads:
                    thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert [problem for worker in workers for problem in worker.problems] == []
            stored = {(queue.pathname or "").lower(): queue.label for queue in directory.search(mqdssm.Queue)}
    unknown = {path for worker in workers for path in worker.unknown}
    expected = {path: label for worker in workers for path, label in worker.expected.items()}
    for path in unknown:
        stored.pop(path, None)
        expected.pop(path, None)
    assert stored == expected
    assert sum(worker.done for worker in workers) > THREADS
    assert sum(worker.refused for worker in workers) + len(unknown) > 0, "no thread met the missing server"


def test_twenty_sealed_threads_and_a_controller_that_restarts() -> None:
    run_threads(2)


@pytest.mark.soak
def test_twenty_sealed_threads_for_long() -> None:
    run_threads(30)
