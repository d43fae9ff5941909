"""One Spark session for all tests of Spark: a JVM costs 15 seconds and a gigabyte."""

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
    from pyspark.sql import SparkSession

    from mqdssm.events.facade import Directory

MEMORY = "2g"
"""Of Java's heap: the widest plans take 0.4 GB at a time, and what hundreds of tests leave adds up."""


@pytest.fixture(scope="session")
def event_log(tmp_path_factory) -> Path:
    """The folder where Spark writes down every plan and option: where a secret would show."""
    return tmp_path_factory.mktemp("events")


class Shared:
    """The one session of all tests, and another one when its Java has died: that is the fault of one test."""

    def __init__(self, conf: dict[str, str]) -> None:
        self._conf = conf
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def session(self) -> "SparkSession":
        from mqdssm.spark.gateway import is_java_gone
        from mqdssm.spark.session import spark_session

        if self._session is None or self._session.sparkContext._jsc is None or is_java_gone():
            self.stop()
            self._session = self._stack.enter_context(
                spark_session("mqdssm tests", cores=2, memory=MEMORY, brief=True, conf=self._conf)
            )
        return self._session

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def shared_spark(event_log: Path) -> Iterator[Shared]:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log.as_uri(),
    }
    shared = Shared(settings)
    yield shared
    shared.stop()


@pytest.fixture
def spark(shared_spark: Shared) -> "SparkSession":
    """The session that `export` and `validate` join when a test calls them."""
    return shared_spark.session()


@pytest.fixture(params=["local", "spark"])
def engine(request) -> str:
    """Each of the engines, for ``--engine``."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


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
