"""What tests of Spark share: runners, and a filled directory."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.mqis.applied_plans import Entries, connect, everything

import mqdssm
from mqdssm.errors import DirectoryNotConnected
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.validate import worker
from mqdssm.spark.runner import SparkRunner
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory


@pytest.fixture(params=["local", "spark"])
def runner(request) -> Runner:
    """Each of the runners; the local one does several pieces one after the other, in this process."""
    if request.param == "spark":
        return SparkRunner(request.getfixturevalue("spark"))
    request.getfixturevalue("small_pieces")
    return LocalRunner(1)


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    """Let the local runner take little work for much."""
    monkeypatch.setattr(worker, "SMALL_WORK", 0)
    monkeypatch.setattr(worker, "TASK_WORK_MAX", 300)


@dataclass(frozen=True)
class Enterprise:
    """A directory with a few objects of every type, and defects only where a test plants them.

    Attributes:
        server: a slapd for a test at a time: what is exported is all that it holds.
        password_file: holds the administrator's password.
        access: how to log in, as `mqdssm.connect` and `export` take it.
    """

    server: OpenLdapServer
    password_file: Path
    access: dict[str, Any]

    def connect(self) -> "Directory":
        return mqdssm.connect(self.server.url, **self.access)

    def options(self, **changes: str) -> dict[str, str]:
        """Options of the data source."""
        return {
            "url": self.server.url,
            "user": self.server.user,
            "cafile": self.server.ca_file,
            "credentialsfile": str(self.password_file),
        } | changes


class FilledServer:
    """A server with the few objects; another one after a test that changed or stopped it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._server: OpenLdapServer | None = None
        self._entries: Entries = {}

    def server(self) -> OpenLdapServer:
        if self._server is None:
            # without the overlay that keeps objectGUID unique, so that a test can break it
            server = self._stack.enter_context(OpenLdapServer(durable=False, unique=False))
            with connect(server) as directory:
                fill(server, directory)
            self._server, self._entries = server, everything(server)
        return self._server

    def stop_if_changed(self) -> None:
        try:
            is_unchanged = self._server is not None and everything(self._server) == self._entries
        except DirectoryNotConnected:
            is_unchanged = False
        if not is_unchanged:
            self.stop()

    def stop(self) -> None:
        self._server = None
        self._stack.close()


@pytest.fixture(scope="session")
def filled_server() -> Iterator[FilledServer]:
    made = FilledServer()
    yield made
    made.stop()


@pytest.fixture
def enterprise(filled_server: FilledServer, tmp_path) -> Iterator[Enterprise]:
    server = filled_server.server()
    file = tmp_path / "password"
    file.write_text(server.password + "\n")
    access = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    yield Enterprise(server, file, access)
    filled_server.stop_if_changed()


def fill(server: OpenLdapServer, directory: "Directory") -> None:
    # the administrator has no SID: what he creates would have no owner (decision M41)
    owned = SecurityDescriptor.from_sddl("O:BAG:BAD:(A;;0x20024;;;WD)(A;;0xf003f;;;BA)")
    paris, oslo = (
        directory.create(mqdssm.Site(name=name, security=bytes(owned))) for name in ("Paris", "Oslo")
    )
    directory.create(mqdssm.RoutingLink(site1_identifier=paris, site2_identifier=oslo, actual_cost=7))
    server.add_user("ann")
    gates = []
    for name, sites in [("web01", [paris]), ("web02", [paris, oslo])]:
        server.add_computer(name)
        machine = mqdssm.QueueManager(
            computer_name=name,
            site_identifier_list=sites,
            out_routing_server_identifier_list=gates,
            operating_system_type=mqdssm.OperatingSystemType.WIN_SERVER,
            routing_server=not gates,
            security=bytes(owned),
        )
        gates.append(directory.create(machine))
    for n, level in enumerate(mqdssm.PrivacyLevel):
        directory.create(
            mqdssm.Queue(
                pathname=rf"web0{n % 2 + 1}\orders#{n}",
                label=f"Größe {n}",
                quota=2**32 - 1 - n,
                privacy_level=level,
                security=bytes(owned),
            )
        )
    (only,) = directory.search(mqdssm.Enterprise)
    if only.security is None:  # as the base tree has it on servers that make none (M41)
        only.security = next(directory.search(mqdssm.Queue)).security
        directory.write(only, attributes=["Security"])


@pytest.fixture
def login(enterprise: "Enterprise") -> dict[str, str]:
    """What the command line's environment says of the enterprise."""
    server = enterprise.server
    return {
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD_FILE": str(enterprise.password_file),
        "MQDSSM_CA_FILE": server.ca_file,
    }
