"""The status page of servers that run, in headless Chromium: one of two is stopped, and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from support.project.browser import Mark, needs_chromium, opened
from support.servers.crews import QUICK
from support.servers.enterprise import (
    FIVE,
    EnterpriseProcesses,
    Member,
    Place,
    free_port,
    on_loopback,
    wait_for,
)

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryError
from mqdssm.model.elements import Queue
from mqdssm.server.control_client import ControlClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), needs_chromium]

PEC: Final = FIVE[0]
BSC: Final = Place("BSC09", PEC.site, Role.BSC)
QUEUES: Final = 30
WAIT_S: Final = 60


class Watched:
    """Two servers; a browser opens the status page of one of them, while the other one is stopped.

    Args:
        servers: both.
        name: the server with the status page.
        url: of the page.
        folder: for the browser's files.
    """

    def __init__(self, servers: EnterpriseProcesses, name: str, url: str, folder: Path) -> None:
        self.servers, self.url, self.member = servers, url, servers.members[name]
        (self.other,) = [member for member in servers.members.values() if member.name != name]
        self._folder = folder

    @classmethod
    @contextmanager
    def made(cls, folder: Path, places: tuple[Place, Place], name: str) -> Iterator["Watched"]:
        port = free_port()
        own = {name: f'[metrics]\naddress = "{port}"'}
        with on_loopback(folder, places, settings=QUICK, own_settings=own) as servers:
            yield cls(servers, name, f"http://127.0.0.1:{port}/", folder)

    def open(self) -> tuple[dict[str, Mark], Mark, str]:
        """Open the page: the nodes of its picture by name, its one line, and its whole text."""
        page, console, _ = opened(self.url, self._folder)
        assert console == ""
        nodes, (line,) = page.picture()
        return {node.title.partition(",")[0]: node for node in nodes}, line, page.text

    def wait_fine(self) -> None:
        """Wait until both servers have the last numbers, and this one has no warning."""
        wait_for("equal replicas", WAIT_S, lambda: self.servers.lag() == 0)
        wait_for("no warning", WAIT_S, lambda: not has_warning(self.member))

    def create_queues(self, server: Member, owner: str, first: int) -> None:
        with ControlClient(server.socket) as client:
            for number in range(first, first + QUEUES):
                client.create(Queue(pathname=f"{owner}\\orders-{number}"))


def has_warning(member: Member) -> bool:
    return any(problem.severity == "warning" for problem in member.status().problems)


def test_a_stopped_psc_on_the_page_of_the_pec(tmp_path: Path) -> None:
    """The messages with changes that wait for it are named, too: the replication has none left to send."""
    with Watched.made(tmp_path, (PEC, FIVE[1]), "PEC01") as watched:
        watched.wait_fine()
        nodes, line, _ = watched.open()
        assert {name: node.severity for name, node in nodes.items()} == {"PEC01": "fine", "PSC01": "fine"}
        assert line.severity == "fine"
        watched.servers.end("PSC01")
        watched.create_queues(watched.member, "PEC01", 0)
        wait_for("unreachable", WAIT_S, lambda: has_warning(watched.member))
        wait_for("messages", WAIT_S, lambda: not watched.member.status().neighbors[0].waiting)
        nodes, line, text = watched.open()
        assert {name: node.severity for name, node in nodes.items()} == {"PEC01": "fine", "PSC01": "warning"}
        assert "!" in nodes["PSC01"].texts
        assert "Connect call failed" in nodes["PSC01"].title
        (behind,) = map(int, line.texts)
        assert (line.severity, behind > 0) == ("warning", True)
        assert f": {behind} messages wait for it" in line.title
        assert f"it cannot be reached, and {behind} messages wait for it: " in text
        watched.servers.start("PSC01")
        watched.wait_fine()
        wait_for("all is taken", WAIT_S, lambda: not watched.member.status().neighbors[0].queued)
        nodes, line, _ = watched.open()
        assert (nodes["PSC01"].severity, line.severity) == ("fine", "fine")
        assert int(line.texts[0]) < behind


@pytest.mark.soak
def test_a_stopped_psc_on_the_page_of_its_bsc(tmp_path: Path) -> None:
    with Watched.made(tmp_path, (PEC, BSC), "BSC09") as watched:
        watched.wait_fine()
        watched.create_queues(watched.other, "PEC01", 0)
        watched.wait_fine()
        nodes, line, _ = watched.open()
        assert {name: node.severity for name, node in nodes.items()} == {"BSC09": "fine", "PEC01": "fine"}
        assert line.severity == "fine"
        watched.servers.end("PEC01")
        with pytest.raises(DirectoryError):  # a BSC connects to its PSC only when it has a message for it
            watched.create_queues(watched.member, "PEC01", QUEUES)
        wait_for("unreachable", WAIT_S, lambda: has_warning(watched.member))
        nodes, line, text = watched.open()
        assert {name: node.severity for name, node in nodes.items()} == {"BSC09": "fine", "PEC01": "warning"}
        assert line.severity == "warning"
        assert "Connect call failed" in nodes["PEC01"].title
        assert "PSC cannot be reached, and " in text
        watched.servers.start("PEC01")
        watched.wait_fine()
        nodes, line, _ = watched.open()
        assert (nodes["PEC01"].severity, line.severity) == ("fine", "fine")
