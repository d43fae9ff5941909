"""Many threads over one session while its server dies and comes back: every answer is checked."""

import random
import threading
import time
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from support.servers.sessions import container, options_for, scratch

from mqdssm.directory.filters import TRUE, Equal
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, ObjectAlreadyExists, ObjectNotFound, OutcomeUnknown
from mqdssm.testing.openldap import OpenLdapServer

THREADS = 20


@dataclass
class Worker:
    """Makes, changes, reads and deletes objects of its own, and remembers what must be there."""

    session: Session
    place: str
    name: str
    objects: dict[str, tuple[UUID, bytes]] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    done: int = 0
    failed: int = 0
    made: int = 0

    def run(self, stop: threading.Event, seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not stop.is_set():
                step = chance.choice([self.add, self.add, self.change, self.read, self.search, self.remove])
                try:
                    step(chance)
                    self.done += 1
                except DirectoryNotConnected:
                    self.failed += 1
                    time.sleep(0.01)
        except BaseException as error:  # noqa: BLE001  whatever it is, the test must say it
            self.wrong.append(f"{self.name}: {error!r}")

    def some(self, chance: random.Random) -> str | None:
        sure = sorted(set(self.objects) - self.unsure)
        return chance.choice(sure) if sure else None

    def add(self, _: random.Random) -> None:
        self.made += 1
        dn, guid = f"CN={self.name}-{self.made},{self.place}", uuid4()
        try:
            self.session.add(dn, container(guid, description=[b"0"]))
        except OutcomeUnknown:
            self.unsure.add(dn)
            raise
        except ObjectAlreadyExists:
            self.wrong.append(f"{dn} was made twice")
        else:
            self.objects[dn] = guid, b"0"

    def change(self, chance: random.Random) -> None:
        dn = self.some(chance)
        if dn is None:
            return
        value = str(chance.random()).encode()
        try:
            self.session.modify(dn, {"description": [value]})
        except OutcomeUnknown:
            self.unsure.add(dn)
            raise
        self.objects[dn] = self.objects[dn][0], value

    def read(self, chance: random.Random) -> None:
        dn = self.some(chance)
        if dn is None:
            return
        guid, value = self.objects[dn]
        entry = self.session.get(chance.choice([dn, guid]), ["description", "objectGUID"])
        if (entry.first("objectGUID"), entry.first("description")) != (guid.bytes_le, value):
            self.wrong.append(f"{dn}: {entry} instead of {guid} {value!r}")

    def search(self, chance: random.Random) -> None:
        dn = self.some(chance)
        if dn is None:
            return
        wanted = Equal("objectGUID", self.objects[dn][0].bytes_le)
        found = list(self.session.find(self.place, wanted, ["description"], page_size=1))
        if [one.first("description") for one in found] != [self.objects[dn][1]]:
            self.wrong.append(f"{dn}: found {found}")

    def remove(self, chance: random.Random) -> None:
        dn = self.some(chance)
        if dn is None:
            return
        try:
            self.session.delete(dn)
        except OutcomeUnknown:
            self.unsure.add(dn)
            raise
        except ObjectNotFound:
            self.wrong.append(f"{dn} was not there to delete")
        del self.objects[dn]


def storm(seconds: float, pause_s: float) -> None:
    """Run the threads; kill, stop and start the server; compare what each thread knows with the directory."""
    with OpenLdapServer(durable=False) as server:
        options = options_for(server, operation_timeout_s=20, connect_timeout_s=5)
        with Session.open(options) as session, scratch(session) as place:
            session.read_back = ReadBack(settle_s=0.3, limit_s=20)
            workers = [Worker(session, place, f"w{number:02}") for number in range(THREADS)]
            stop = threading.Event()
            threads = [
                threading.Thread(target=worker.run, args=(stop, number))
                for number, worker in enumerate(workers)
            ]
            for thread in threads:
                thread.start()
            restarts = 0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(pause_s)
                (server.kill if restarts % 2 else server.stop)()
                server.start()
                restarts += 1
            stop.set()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
            assert [word for worker in workers for word in worker.wrong] == []
            assert restarts >= 2
            assert session.references == 0
            assert sum(worker.done for worker in workers) > THREADS
            compare(session, place, workers)


def compare(session: Session, place: str, workers: list[Worker]) -> None:
    expected = {dn: value for worker in workers for dn, value in worker.objects.items()}
    unsure = set().union(*(worker.unsure for worker in workers))
    there = {
        f"CN={(entry.first('cn') or b'').decode()},{place}": entry
        for entry in session.find(place, TRUE, ["cn", "description", "objectGUID"], SearchScope.ONE_LEVEL)
    }
    assert set(there) - unsure == set(expected) - unsure
    for dn in set(expected) - unsure:
        guid, value = expected[dn]
        assert there[dn].first("objectGUID") == guid.bytes_le
        assert there[dn].first("description") == value


def test_twenty_threads_and_restarts() -> None:
    storm(seconds=3.0, pause_s=0.7)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_twenty_threads_and_restarts_for_ten_minutes() -> None:
    storm(seconds=600.0, pause_s=2.0)
