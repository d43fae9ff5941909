"""Objects that a PEC creates for itself at its first start, with a private slapd."""

from pathlib import Path
from threading import Event, Thread

import pytest

from mqdssm.directory.options import ConnectionOptions
from mqdssm.engines.replication.operations import ListObjects, LoadState, ReadObject
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server import first_objects
from mqdssm.server import process as server_process
from mqdssm.server.config import ServerConfig, StoreSection
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.private_directory import directory_of
from mqdssm.server.process import ServerProcess
from mqdssm.server.setup import make_pec
from mqdssm.store.ldap import LdapStore

WAIT_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> DirectoryServerFolder:
    path = tmp_path / "pec"
    make_pec(
        path,
        enterprise="Contoso",
        site="Berlin",
        machine_name="PEC01",
        listen="127.0.0.1:0",
        store=StoreSection(),
    )
    return DirectoryServerFolder(path)


def run_until_ready(folder: DirectoryServerFolder) -> None:
    """Start the server, stop it when it is ready, and raise what it raises."""
    ready = Event()
    process = ServerProcess(folder, ServerConfig.read(folder.config), on_ready=lambda _: ready.set())
    errors: list[BaseException] = []

    def run() -> None:
        try:
            process.run()
        except RuntimeError as error:
            errors.append(error)
        ready.set()

    thread = Thread(target=run)
    thread.start()
    assert ready.wait(WAIT_S)
    process.stop()
    thread.join(WAIT_S)
    for error in errors:
        raise error


@pytest.mark.slow
def test_they_are_created_once_and_before_the_server_is_ready_also_behind_a_crash(folder, monkeypatch):
    exists = first_objects._exists

    def crash_at_the_site(server, first):
        if first.object_type is ObjectType.SITE:
            raise RuntimeError("crash")
        return exists(server, first)

    monkeypatch.setattr(first_objects, "_exists", crash_at_the_site)
    with pytest.raises(RuntimeError, match="crash"):
        run_until_ready(folder)
    monkeypatch.undo()
    for _ in range(2):  # the second start finds all of them
        run_until_ready(folder)
        with directory_of(StoreSection(), folder) as options, LdapStore.open(options) as store:
            _check_objects(store, ServerConfig.read(folder.config))
            assert isinstance(options, ConnectionOptions)


def test_a_directory_that_goes_away_during_the_start_is_waited_for(folder, monkeypatch):
    """Behind the store come the comparison of the identity and the session for readers."""
    attempts = {"read_current_identity": 0, "open": 0}

    def away_at_first(name, function):
        def attempt(*given, **named):
            attempts[name] += 1
            if attempts[name] == 1:
                raise DirectoryNotConnected("away")
            return function(*given, **named)

        return attempt

    monkeypatch.setattr(server_process, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(
        server_process,
        "read_current_identity",
        away_at_first("read_current_identity", server_process.read_current_identity),
    )
    opened = away_at_first("open", server_process.Session.open)
    monkeypatch.setattr(server_process, "Session", type("Opened", (), {"open": staticmethod(opened)}))
    run_until_ready(folder)
    assert attempts == {"read_current_identity": 2, "open": 2}


def test_a_server_without_its_key_makes_no_other(folder):
    folder.key.unlink()
    with pytest.raises(ConfigError, match=r"key\.pem"):
        ServerProcess(folder, ServerConfig.read(folder.config)).run()
    assert not folder.key.exists()


def _check_objects(store: LdapStore, config: ServerConfig) -> None:
    numbers = {part.partition_id: int(part.last) for part in store.perform(LoadState()).partitions}
    assert sorted(numbers) == sorted([PEC_PARTITION_ID, Guid.of(config.server.site_id)])
    (enterprise,) = store.perform(
        ListObjects(object_type=ObjectType.ENTERPRISE, partition_id=PEC_PARTITION_ID)
    ).objects
    assert int(enterprise.seq_number) == 1
    assert dict(enterprise.properties)[Propid.E_PECNAME] == "PEC01"
    site, machine = (
        store.perform(ReadObject(object_type=kind, identifier=Guid.of(identifier)))
        for kind, identifier in (
            (ObjectType.SITE, config.server.site_id),
            (ObjectType.MACHINE, config.server.machine_id),
        )
    )
    assert (int(site.seq_number), int(machine.seq_number)) == (2, 1)
    names = dict(site.properties)[Propid.S_PATHNAME], dict(machine.properties)[Propid.QM_PATHNAME]
    assert [name.casefold() for name in names] == ["berlin", "pec01"]
    assert dict(site.properties)[Propid.S_PSC_SIGNPK] == dict(machine.properties)[Propid.QM_SIGN_PK]
