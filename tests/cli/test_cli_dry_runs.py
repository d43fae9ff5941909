"""``mqdssm enterprise … --dry-run``: the checks of a command, and no change of files or objects."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.replication.joining import Berlin

from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server.backup import back_up
from mqdssm.server.config import ServerConfig
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.private_directory import directory_of
from mqdssm.server.snapshot_reader import SnapshotReader

pytestmark = pytest.mark.slow  # waits for threads and sockets

LISTEN = ("--listen", "127.0.0.1:1802")
PSC = ("--role", "psc", "--site", "Rome", "--machine", "PSC2")


def tree(folder: Path) -> dict[str, object]:
    """Everything in a folder: names, modes, times and contents of files."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        is_read = path.is_file() and path.suffix != ".mdb"  # a sparse file of gigabytes
        content = hashlib.sha256(path.read_bytes()).hexdigest() if is_read else ""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return found


class World:
    """A PEC at work, whose folder and objects are compared before and after a command."""

    def __init__(self, alone, folder: Path, berlin: Berlin) -> None:
        self._alone, self.folder, self.berlin = alone, folder, berlin
        self.socket = str(folder / "control.sock")

    def state(self) -> tuple[object, object]:
        return tree(self.folder), self.berlin.pec.content(PEC_PARTITION_ID)

    def dry_run(self, *args: str) -> dict[str, Any]:
        """The plan of a command, which changes nothing."""
        before = self.state()
        plan: dict[str, Any] = self._alone.json("enterprise", *args, "--dry-run")
        assert self.state() == before
        assert plan["dry_run"] is True
        return plan

    def refused(self, *args: str, code: int) -> str:
        """The words of a dry run that finds a problem; the command itself has the same exit code."""
        before = self.state()
        words: str = self._alone.error("enterprise", *args, "--dry-run", code=code)
        assert self.state() == before
        self._alone.error("enterprise", *args, code=code)
        return words


@pytest.fixture
def world(alone, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        berlin = Berlin(tmp_path, stack)
        berlin.clock.now = 4_000_000_000.0
        read = SnapshotReader(berlin.pec.server).read
        service = ControlService(
            berlin.pec.server,
            read,
            lambda: None,
            admission=berlin.admission._admission,
            token_admission=berlin.admission,
            hosts=berlin.admission._admission.hosts,
        )
        stack.enter_context(ControlServer(tmp_path / "control.sock", service))
        yield World(alone, tmp_path, berlin)


def test_init(world: World) -> None:
    named = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    folder = world.folder / "new" / "pec"
    plan = world.dry_run("init", str(folder), *named)
    assert plan["steps"] == [f"make a key in {folder}", f"make {folder}/server.toml"]
    assert "is not empty" in world.refused("init", str(world.folder), *named, code=2)
    assert "is no address" in world.refused(
        "init", str(folder), *named, "--listen", "127.0.0.1:70000", code=2
    )
    file = world.folder / "file"
    file.touch()
    assert "cannot hold a directory server" in world.refused("init", str(file / "pec"), *named, code=2)
    empty = world.folder / "empty"
    empty.mkdir()
    world.dry_run("init", str(empty), *named)


def test_add_server(world: World) -> None:
    folder = world.folder / "psc"
    through = ("--through", world.socket)
    plan = world.dry_run("add-server", str(folder), *PSC, *LISTEN, *through)
    assert plan["steps"][1] == f"have {world.socket} admit PSC2 as a PSC of Rome"
    taken = ("--role", "psc", "--site", "Site0", "--machine", "PSC2")
    assert "exists already" in world.refused("add-server", str(folder), *taken, *LISTEN, *through, code=6)
    full = world.refused("add-server", str(world.folder), *PSC, *LISTEN, *through, code=2)
    assert "is not empty" in full


def test_join_tokens(world: World) -> None:
    server, token = ("--server", world.socket), world.folder / "token"
    plan = world.dry_run("make-token", *PSC, *server, "--to", str(token))
    assert plan["steps"] == ["make a join token for the psc PSC2 of Rome", f"write {token}"]
    assert "no join token for PSC2" in world.refused("withdraw-token", "--machine", "PSC2", *server, code=4)
    world._alone("enterprise", "make-token", *PSC, *server, "--to", str(token))
    world.dry_run("withdraw-token", "--machine", "PSC2", *server)
    add = ("add-server", str(world.folder / "psc"), *LISTEN, "--token", str(token))
    plan = world.dry_run(*add)
    assert plan["steps"][1] == "have the server that the token names admit PSC2 as a PSC of Rome"
    bsc = ("--role", "bsc", "--site", "Oslo", "--machine", "B", *server, "--to", str(world.folder / "t"))
    assert "the PSC of Oslo adds its BSCs" in world.refused("make-token", *bsc, code=2)


def test_add_host(world: World) -> None:
    through = ("--through", world.socket)
    plan = world.dry_run("add-host", "PSC2", "10.0.0.8:1801", *through)
    assert plan["steps"] == ["PEC remembers that PSC2 is at 10.0.0.8:1801"]
    assert "is no address" in world.refused("add-host", "PSC2", "10.0.0.8:70000", *through, code=2)


def test_add_site(world: World) -> None:
    server = ("--server", world.socket)
    plan = world.dry_run("add-site", "--site", "Rome", *server)
    assert plan["steps"] == ["the PEC creates the site Rome, and every server gets its partition"]
    assert "exists already" in world.refused("add-site", "--site", "Site0", *server, code=6)


@pytest.mark.slow  # starts slapd
def test_backup_and_restore(world: World) -> None:
    pec, file = world.folder / "pec", world.folder / "pec.backup"
    named = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    world._alone("enterprise", "init", str(pec), *named)
    folder = DirectoryServerFolder(pec)
    assert "start the server once" in world.refused("backup", str(pec), "--to", str(file), code=2)
    with directory_of(ServerConfig.read(folder.config).store, folder):
        pass
    plan = world.dry_run("backup", str(pec), "--to", str(file))
    assert plan["steps"] == [f"write {file} with the directory and the key of PEC01"]
    missing = str(world.folder / "missing" / "file")
    words = world._alone.error("enterprise", "backup", str(pec), "--to", missing, "--dry-run", code=2)
    assert "cannot be written" in words
    back_up(folder, file)
    assert world._alone("enterprise", "backup", str(pec), "--to", str(file), "--dry-run", code=2)
    plan = world.dry_run("restore", str(file), str(world.folder / "copy"))
    assert plan["steps"] == [f"make {world.folder / 'copy'}, the PEC PEC01"]
    assert "is not empty" in world.refused("restore", str(file), str(pec), code=2)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = world.folder / "damaged"
    damaged.write_bytes(data)
    words = world._alone.error(
        "enterprise", "restore", str(damaged), str(world.folder / "copy"), "--dry-run", code=2
    )
    assert "damaged" in words or "no whole backup" in words
    assert not (world.folder / "copy").exists()
