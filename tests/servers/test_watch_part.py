"""A watch of a part of a naming context: what comes into it and leaves it, with what it stands below."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.replication.queue_managers import wait_until
from support.watching.kinds import KINDS
from support.watching.watchers import watching

import mqdssm
from mqdssm.events.watching.state_file import StateFile

pytestmark = pytest.mark.spec("MS-MQCN 3.2.3")


class Parts:
    """Two containers, of which one is watched, and a computer with a queue in each."""

    def __init__(self, kind: Any, server: Any, directory: mqdssm.Directory) -> None:
        self.kind, self.plain, self.whole = kind, kind.plain(server), directory
        base = directory.session.naming.root
        self.inside, self.outside = (f"OU=P{uuid4().hex[:8]},{base}" for _ in range(2))
        for place in (self.inside, self.outside):
            self.plain.add(place, {"objectClass": "organizationalUnit"})

    def queue(self, place: str) -> str:
        name = f"P{uuid4().hex[:8]}".upper()
        own = {"objectGUID": lambda: uuid4().bytes_le} if self.kind.keeps_guids else {}
        dn = f"CN={name},{place}"
        account = {"objectClass": "computer", "sAMAccountName": f"{name}$"}
        for above, values in (
            (dn, account if self.kind.name == "openldap" else {**account, "userAccountControl": "4096"}),
            (f"CN=msmq,{dn}", {"objectClass": "mSMQConfiguration"}),
            (f"CN=q,CN=msmq,{dn}", {"objectClass": "mSMQQueue", "mSMQLabelEx": "moves"}),
        ):
            self.plain.add(above, {**values, **{name: make() for name, make in own.items()}})
        return f"CN=q,CN=msmq,{dn}"

    def move(self, queue: str, place: str) -> str:
        """Move the computer of a queue; the new name of that."""
        computer = queue.split(",", 2)[2]
        name = computer.partition(",")[0]
        self.plain._run("ldapmodrdn", "-r", "-s", place, ldif=f"{computer}\n{name}\n")
        return f"CN=q,CN=msmq,{name},{place}"


@pytest.fixture(params=["openldap", pytest.param("samba", marks=pytest.mark.samba)])
def parts(request: pytest.FixtureRequest) -> Iterator[Parts]:
    kind = KINDS[request.param]
    server = request.getfixturevalue(f"{kind.name}_server")
    with kind.connect(server) as directory:
        yield Parts(kind, server, directory)


@pytest.fixture
def part(parts: Parts, request: pytest.FixtureRequest) -> Iterator[mqdssm.Directory]:
    server = request.getfixturevalue(f"{parts.kind.name}_server")
    with parts.kind.connect(server, naming_context=parts.inside) as directory:
        yield directory


def test_a_queue_comes_and_goes_with_its_computer(parts: Parts, part, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mqdssm.events.watching.watch.COMPARE_EVERY_S", 0.5)
    stays, queue = parts.queue(parts.inside), parts.queue(parts.outside)
    with watching(part, mqdssm.Queue) as told:
        inside = parts.move(queue, parts.inside)
        assert told.one("created", inside).changes["Label"] == (None, "moves")
        parts.move(inside, parts.outside)
        told.one("deleted", inside)
        assert told.count(stays) == 0


def test_who_ends_before_it_was_compared_compares_the_next_time(
    parts: Parts, part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    state, queue = tmp_path / "state", parts.queue(parts.inside)
    with watching(part, mqdssm.Queue, state=state) as told:
        parts.move(queue, parts.outside)
        marker = parts.queue(parts.inside)
        told.one("created", marker)  # by now it is known that the computer has moved
    before = place_in(state)
    monkeypatch.setattr("mqdssm.events.watching.watch.COMPARE_EVERY_S", 0.5)
    with watching(part, mqdssm.Queue, state=state) as told:
        told.one("deleted", queue)
        assert len(told.changes) == 1
        wait_until(lambda: told.watch._state.place != before, 10)
    assert place_in(state) != before
    with watching(part, mqdssm.Queue, state=state) as told:
        assert not told.changes


def place_in(state: Path) -> str | None:
    """Where the watcher of a state goes on."""
    file = StateFile(state)
    place = file.load().place
    file.close()
    return place
