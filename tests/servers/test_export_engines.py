"""One export in this process, in worker processes, and with a password of each kind: equal files."""

from pathlib import Path

import pytest
from support.enterprises.many_objects import fill
from support.spark.exports import access_to, export_here

from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.pipeline import local
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.access import open_access as access_of
from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export import run as export_module
from mqdssm.pipeline.export.worker import WorkerConnection
from mqdssm.pipeline.manifest import Manifest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server

QUEUES = 400
TYPES = ("queue", "queue-manager", "computer", "ldap")


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False) as made:
        fill(made, QUEUES)
        yield made


@pytest.fixture
def processes(monkeypatch) -> list[int]:
    """Makes everything too much work for this process; the number of workers of each job."""
    monkeypatch.setattr(export_module, "SMALL_OBJECTS", 10)
    started: list[int] = []
    real = local._Pool.__init__

    def init(self, job, count, idle) -> None:
        started.append(count)
        real(self, job, count, idle)

    monkeypatch.setattr(local._Pool, "__init__", init)
    return started


def run(server, folder: Path, **more) -> Manifest:
    return export_here(server.url, TYPES, folder, file_rows=90, **(access_to(server) | more))


def files(folder: Path, manifest: Manifest) -> dict[str, str]:
    manifest.check(folder)
    return {file.path: file.sha256 for one in manifest.types.values() for file in one.files}


@pytest.mark.parametrize("kind", ["parquet", "csv", "ldif"])
def test_files_are_those_of_one_process(server, tmp_path, processes, kind, monkeypatch) -> None:
    many = run(server, tmp_path / "many", format=kind, workers=2, partitions=2)
    assert processes == [2]
    one = run(server, tmp_path / "one", format=kind, workers=1, partitions=2)
    monkeypatch.undo()
    few = run(server, tmp_path / "few", format=kind, workers=2, partitions=2)
    assert processes == [2]
    assert files(tmp_path / "many", many) == files(tmp_path / "one", one) == files(tmp_path / "few", few)
    assert many.types["queue"].rows == QUEUES
    assert {one.engine, few.engine, many.engine} == {"local"}
    assert Manifest.load(tmp_path / "many") == many


def test_a_password_of_the_environment_or_a_file(server, tmp_path, processes, monkeypatch) -> None:
    access = access_to(server)
    password = access.pop("password")
    (tmp_path / "password").write_text(password)
    monkeypatch.setenv("MQDSSM_PASSWORD", password)
    monkeypatch.setenv("THEIRS", password)
    for number, given in enumerate(
        (
            {"password_file": tmp_path / "password"},
            {"password_variable": "MQDSSM_PASSWORD"},
            {"password_variable": "THEIRS"},
        )
    ):
        manifest = export_here(server.url, TYPES, tmp_path / str(number), workers=2, **access, **given)
        assert manifest.types["queue"].rows == QUEUES
    assert processes == [2] * 3
    with pytest.raises(ConfigError, match="exclude each other"):
        export_here(server.url, TYPES, tmp_path / "x", password="x", password_variable="THEIRS", **access)
    with pytest.raises(ConfigError, match="NOBODYS, for the password, is not set"):
        export_here(server.url, TYPES, tmp_path / "x", password_variable="NOBODYS", **access)


def test_counting_ends_at_the_limit(server) -> None:
    with access_of(server.url, access_to(server)) as access, access.connect() as directory:
        assert objects.count(directory, "queue") == QUEUES
        assert objects.count(directory, "queue", limit=7) == 7
        assert not objects.are_fewer(directory, ["computer", "queue"], QUEUES)
        assert objects.are_fewer(directory, ["queue"], QUEUES + 1)


def test_a_server_that_is_not_there(tmp_path) -> None:
    with pytest.raises(DirectoryNotConnected):
        export_here("ldap://127.0.0.1:1", ["queue"], tmp_path / "out", workers=2)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_worker_connects_once_for_all_types(server, tmp_path, monkeypatch) -> None:
    made = []
    real = DirectoryAccess.connect

    def connect(self, **more):
        made.append(self)
        return real(self, **more)

    monkeypatch.setattr(DirectoryAccess, "connect", connect)
    run(server, tmp_path / "all")
    assert len(made) == 3  # plan, work items of four types, settling


def test_a_worker_connects_again_after_a_failure(server) -> None:
    login = access_to(server)
    with access_of(server.url, login) as access, WorkerConnection(access) as connection:
        with pytest.raises(ConfigError, match="no room"), connection.directory() as first:
            raise ConfigError("no room")
        with connection.directory() as second:
            assert second is not first
        with connection.directory() as third:
            assert third is second
