"""A watch of a directory that was restored from a copy and then changed; names that are taken again."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.servers.mortal_servers import SERVERS, kind
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import Kind
from support.watching.watchers import Told, watching

import mqdssm

__all__ = ["kind"]
pytestmark = [pytest.mark.server, pytest.mark.spec("MS-MQCN 3.2.3")]
_numbers = count(1)


@dataclass
class Kept:
    """A server in a folder of its own, of which copies can be made."""

    kind: Kind
    server: Any
    folder: Path

    @property
    def plain(self) -> PlainLdap:
        return self.kind.plain(self.server)

    def add_machine(self) -> str:
        name = f"R{uuid4().hex[:8]}".upper()
        self.kind.add_computer(self.server, name)
        dn = f"CN=msmq,CN={name},CN=Computers,{self.server.base_dn}"
        return self.plain.add(dn, {"objectClass": "mSMQConfiguration", **self._guid()})

    @cached_property
    def machine(self) -> str:
        """DN of the queue manager of the queues."""
        return self.add_machine()

    def _guid(self) -> dict[str, bytes]:
        return {"objectGUID": uuid4().bytes_le} if self.kind.keeps_guids else {}

    def queue(self, label: str, dn: str = "") -> str:
        dn = dn or f"CN=q{next(_numbers)},{self.machine}"
        return self.plain.add(dn, {"objectClass": "mSMQQueue", "mSMQLabelEx": label, **self._guid()})

    def label(self, dn: str, label: str) -> None:
        self.plain.modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {label}")

    def back_up(self, copy: Path) -> None:
        self.server.stop()
        _copy(self.folder, copy)
        self.server.start()

    def restore(self, copy: Path) -> None:
        """Put a copy in the place of the database; the CA file stays, which a watch reads to reconnect."""
        self.server.stop()
        for path in self.folder.iterdir():
            if path.name == "tls":
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        _copy(copy, self.folder)
        self.server.start()

    def restart(self) -> None:
        self.server.stop()
        self.server.start()


def _copy(source: Path, target: Path) -> None:
    """Copy the contents of a folder into another one, which is made where it does not exist."""
    subprocess.run(["cp", "-a", "--sparse=always", f"{source}/.", str(target)], check=True)


@pytest.fixture
def kept(kind: Kind) -> Iterator[Kept]:
    # Not below tmp_path, whose length depends on the machine: a controller's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="mqdssm-kept-") as parent:
        folder = Path(parent) / "server"
        with SERVERS[kind.name](folder) as server:
            yield Kept(kind, server, folder)


def test_what_was_undone_by_a_restored_copy_is_told(kept: Kept, tmp_path: Path):
    """It was changed afterwards, so that its last number is newer than the place of the watch."""
    state, copy = tmp_path / "state", tmp_path / "copy"
    reverted, deleted, other = (kept.queue(f"label {number}") for number in range(3))
    manager = kept.add_machine()
    computer = manager.partition(",")[2]
    kept.back_up(copy)
    with kept.kind.connect(kept.server) as directory, watching(directory, state=state) as told:
        kept.label(reverted, "after the copy")
        kept.plain.modify(computer, "replace: dNSHostName\ndNSHostName: after.example.com")
        kept.plain.delete(deleted)
        made = kept.queue("after the copy")
        told.one("changed", reverted)
        told.one("changed", manager)
        told.one("deleted", deleted)
        told.one("created", made)
    kept.restore(copy)
    for number in range(30):
        kept.label(other, f"after the restore {number}")
    with kept.kind.connect(kept.server) as directory, watching(directory, state=state) as told:
        assert told.one("changed", reverted).changes["Label"] == ("after the copy", "label 0")
        assert told.one("created", deleted).changes["Label"] == (None, "label 1")
        assert told.one("deleted", made).changes["Label"] == ("after the copy", None)
        assert told.one("changed", other).changes["Label"] == ("label 2", "after the restore 29")
        host = told.one("changed", manager).changes["QualifiedComputerName"]
        assert host.old == "after.example.com"
        assert len(told.changes) == 5
    with kept.kind.connect(kept.server) as directory, watching(directory, state=state) as told:
        assert not told.changes


def test_a_watch_that_goes_on_notices_a_restored_copy(kept: Kept, tmp_path: Path):
    copy = tmp_path / "copy"
    reverted, other = kept.queue("old"), kept.queue("old")
    kept.back_up(copy)
    with kept.kind.connect(kept.server) as directory, watching(directory, mqdssm.Queue) as told:
        kept.label(reverted, "after the copy")
        made = kept.queue("after the copy")
        told.one("created", made)
        kept.restore(copy)
        for number in range(30):
            kept.label(other, f"after the restore {number}")
        told.one("deleted", made)
        told.wait(lambda one: one.changes[-1].changes.get("Label", ("", ""))[1] == "after the restore 29", 60)
        found = [c.changes["Label"] for c in told.changes if c.dn.lower() == reverted.lower()]
        assert found == [("old", "after the copy"), ("after the copy", "old")]


def order(told: Told, names: list[str]) -> list[list[str]]:
    """What was told of each name, in order."""
    return [[c.event.value for c in told.changes if c.dn.lower() == name.lower()] for name in names]


@pytest.mark.parametrize("restart", [False, True])
def test_a_name_is_gone_before_it_is_taken_again(kept: Kept, tmp_path: Path, restart: bool):
    state, names = tmp_path / "state", [kept.queue("first") for _ in range(20)]
    with kept.kind.connect(kept.server) as directory, watching(directory, mqdssm.Queue, state=state):
        pass
    kept.plain.delete(*names)
    for name in names:
        kept.queue("second", name)
    if restart:  # slapd does not know any more what was deleted
        kept.restart()
    with kept.kind.connect(kept.server) as directory, watching(directory, mqdssm.Queue, state=state) as told:
        told.wait(lambda one: len(one.changes) >= 40)
        assert order(told, names) == [["deleted", "created"]] * 20
        kept.plain.delete(*names)
        for name in names:
            kept.queue("third", name)
        told.wait(lambda one: len(one.changes) >= 80)
        assert order(told, names) == [["deleted", "created"] * 2] * 20


def test_a_start_without_changes_reads_no_object(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ids and versions are compared, which is cheap: nothing differs."""
    state = tmp_path / "state"
    for number in range(5):
        kept.queue(str(number))
    with kept.kind.connect(kept.server) as directory:
        with watching(directory, state=state):
            pass
        read: list[str] = []
        for name in ("all", "read_some", "read_below", "read_referring"):
            monkeypatch.setattr(
                f"mqdssm.events.watching.reader.WatchedObjectReader.{name}", _noting(name, read)
            )
        with watching(directory, state=state) as told:
            assert told.watch.known >= 6
        assert not read


def _noting(name: str, read: list[str]) -> Any:
    def method(_reader: Any, *arguments: Any) -> Iterator[Any]:
        read.append(f"{name}{arguments}")
        yield from ()

    return method
