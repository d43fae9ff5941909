"""Many threads over one directory while its server goes away and comes back: every answer is checked."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import mqdssm
from mqdssm.testing.openldap import OpenLdapServer

THREADS = 20


@dataclass
class Worker:
    """One thread's work, and what the directory must hold of it."""

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
                self.one_round(f"{self.computer}\\q{number}", number)
            except Exception as error:  # noqa: BLE001  a thread must not die silently
                self.problems.append(f"{type(error).__name__}: {error}")

    def one_round(self, path: str, number: int) -> None:
        label = f"{self.computer} {number}"
        if not self.change(
            path, lambda: self.directory.create(mqdssm.Queue(pathname=path, label=label)), label
        ):
            return
        by_path = mqdssm.Filter("Pathname", "==", path)
        try:
            queue = self.directory.read(mqdssm.Queue, by_path)
        except mqdssm.DirectoryNotConnected:
            return
        if queue.label != label or queue.pathname != path:
            self.problems.append(f"asked for {path}, got {queue.pathname} with {queue.label!r}")
        queue.label = f"{label} changed"
        if not self.change(path, lambda: self.directory.write(queue), queue.label):
            return
        if number % 3 == 0:
            self.change(path, lambda: self.directory.delete(queue), None)
        self.done += 1

    def change(self, path: str, work, label: str | None) -> bool:
        """Do it; afterwards we know what the directory holds, except where we were told that nobody does."""
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


def restarts(server: OpenLdapServer, seconds: float) -> Iterator[float]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.7)
        server.kill()
        time.sleep(0.15)
        server.start()
        yield end - time.monotonic()


def run_threads(seconds: float) -> None:
    with OpenLdapServer(durable=True) as server:
        computers = [f"pc{number}" for number in range(THREADS)]
        with mqdssm.connect(
            server.url, user=server.user, password=server.password, ca_file=server.ca_file
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
                for _ in restarts(server, seconds):
                    pass
            finally:
                stop.set()
                for thread in threads:
                    thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert [problem for worker in workers for problem in worker.problems] == []
            stored = {queue.pathname: queue.label for queue in directory.search(mqdssm.Queue)}
        unknown = {path for worker in workers for path in worker.unknown}
        expected = {path: label for worker in workers for path, label in worker.expected.items()}
        assert {p: v for p, v in stored.items() if p not in unknown} == {
            p: v for p, v in expected.items() if p not in unknown
        }
        assert sum(worker.done for worker in workers) > THREADS
        assert sum(worker.refused for worker in workers) > 0, "no thread ever met the missing server"


def test_twenty_threads_and_a_server_that_restarts() -> None:
    run_threads(6)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_twenty_threads_for_long() -> None:
    run_threads(600)
