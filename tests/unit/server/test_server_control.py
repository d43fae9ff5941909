"""Control socket of a directory server: protocol, changes, refusals and hostile clients."""

import json
import resource
import socket
import stat
import threading
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.replication.live_servers import Enterprise, pec_with_site, site_of
from support.replication.queue_managers import wait_until

from mqdssm.engines.replication.operations import ReadObject
from mqdssm.errors import (
    ConfigError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.elements import Enterprise as EnterpriseElement
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.model.enums import PrivacyLevel
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server import control_protocol as protocol
from mqdssm.server.control_client import ControlClient
from mqdssm.server.control_server import CLIENTS_MAX, ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.snapshot_reader import SnapshotReader


@pytest.fixture(scope="module")
def pec() -> Iterator[Enterprise]:
    """A PEC of Site0, at work for all tests of the module."""
    made = Enterprise()
    pec_with_site(made)
    yield made
    made.close()


@pytest.fixture
def stopped():
    return threading.Event()


@pytest.fixture
def path(pec, tmp_path, stopped):
    server = pec.servers["PEC"].server
    service = ControlService(server, SnapshotReader(server).read, stopped.set)
    with ControlServer(tmp_path / "control.sock", service):
        yield tmp_path / "control.sock"


@pytest.fixture
def client(path):
    with ControlClient(path) as connected:
        yield connected


def values_of(pec, object_type, identifier):
    """Properties of an object in the directory of the PEC."""
    operation = ReadObject(object_type=object_type, identifier=Guid.of(identifier))
    read = pec.servers["PEC"].server.store.lookup(operation)
    return dict(read.properties)


def test_status_of_a_server(client):
    snapshot = client.status()
    assert (client.machine_name, snapshot.machine_name) == ("PEC", "PEC")
    assert {part.label for part in snapshot.partitions} >= {"enterprise", "Site0"}


def test_a_queue_is_created_written_and_deleted(pec, client):
    queue = Queue(
        pathname=r"PEC\orders",
        label="Orders",
        quota=1000,
        transactional=True,
        privacy_level=PrivacyLevel.BODY,
        type=UUID(int=7),
    )
    identifier = client.create(queue)
    values = values_of(pec, ObjectType.QUEUE, identifier)
    assert values[Propid.Q_PATHNAME] == r"PEC\orders"
    assert (values[Propid.Q_LABEL], values[Propid.Q_QUOTA], values[Propid.Q_TRANSACTION]) == (
        "Orders",
        1000,
        1,
    )
    assert (values[Propid.Q_PRIV_LEVEL], values[Propid.Q_TYPE].uuid) == (int(PrivacyLevel.BODY), UUID(int=7))
    with pytest.raises(ObjectAlreadyExists, match="MQ_ERROR_QUEUE_EXISTS"):
        client.create(queue)
    client.write(Queue(pathname=r"PEC\orders", label="Paid"))
    after = values_of(pec, ObjectType.QUEUE, identifier)
    assert (after[Propid.Q_LABEL], after[Propid.Q_QUOTA]) == ("Paid", 1000)
    client.delete(Queue(identifier=identifier))
    with pytest.raises(ObjectNotFound):
        client.delete(Queue(identifier=identifier))


def test_a_queue_manager_a_link_and_the_enterprise(pec, client):
    site = site_of("Site0").uuid
    machine = client.create(QueueManager(computer_name="web07", site_identifier_list=[site]))
    values = values_of(pec, ObjectType.MACHINE, machine)
    assert (values[Propid.QM_PATHNAME], values[Propid.QM_SITE_ID].uuid) == ("web07", site)
    client.create(Queue(pathname=r"web07\in"))
    link = client.create(
        RoutingLink(site1_identifier=site, site2_identifier=site_of("Site1").uuid, actual_cost=9)
    )
    assert values_of(pec, ObjectType.ROUTING_LINK, link)[Propid.L_COST] == 9
    client.write(EnterpriseElement(default_time_to_live=86_400))
    client.write(Site(name="Site1", inter_site_replication_interval=11))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda client: client.create(Queue(label="Orders")), "a Queue needs Pathname"),
        (lambda client: client.create(Site(name="Rome")), "mqdssm enterprise"),
        (lambda client: client.create(QueueManager(computer_name="a")), "SiteIdentifierList"),
        (
            lambda client: client.create(QueueManager(computer_name="a", site_identifier_list=[])),
            "SiteIdentifierList",
        ),
        (
            lambda client: client.create(Queue(pathname="PEC\\a", multicast_address="1.2.3.4:5")),
            "MulticastAddress",
        ),
        (lambda client: client.write(Queue(label="Orders")), "which Queue"),
        (lambda client: client.write(Queue(pathname="PEC\\a")), "nothing to write|no such"),
        (lambda client: client.delete(Queue(full_path="CN=a,DC=b")), "does not find objects by FullPath"),
    ],
)
def test_changes_that_cannot_be_made(client, change, problem):
    with pytest.raises((ValueError, ObjectNotFound, GenericDirectoryError), match=problem):
        change(client)
    assert client.status().is_working, "the connection and the server go on"


def test_a_queue_of_an_unknown_machine(client):
    with pytest.raises(ObjectNotFound, match="no queue manager 'nowhere'"):
        client.create(Queue(pathname=r"nowhere\orders"))


def test_operators_of_partitions(client):
    with pytest.raises(GenericDirectoryError, match="ILLEGAL_OPERATION"):
        client.resynchronize(PEC_PARTITION_ID.uuid)
    with pytest.raises((GenericDirectoryError, ObjectNotFound)):
        client.take_over(uuid4())
    with pytest.raises(GenericDirectoryError):
        client.name_authority(uuid4(), "NOBODY")


def test_a_server_is_stopped_after_the_reply(client, stopped):
    client.stop()
    assert stopped.wait(5)


def test_only_its_owner_may_use_the_socket(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_server(tmp_path):
    with pytest.raises(DirectoryNotConnected, match="start it with mqdssm serve"):
        ControlClient(tmp_path / "none.sock")


@pytest.mark.parametrize("missing", ["AF_UNIX", "SO_PEERCRED"])
def test_a_system_without_control_sockets(pec, tmp_path, monkeypatch, missing):
    monkeypatch.delattr(socket, missing)
    server = pec.servers["PEC"].server
    service = ControlService(server, SnapshotReader(server).read, lambda: None)
    with pytest.raises(ConfigError, match="directory servers run on Linux"):
        ControlServer(tmp_path / "control.sock", service)
    assert not (tmp_path / "control.sock").exists()


def test_a_client_on_a_system_without_unix_sockets(tmp_path, monkeypatch):
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(ConfigError, match="run this on the computer of the server"):
        ControlClient(tmp_path / "control.sock")


def test_a_second_server_and_a_crashed_one(pec, path, tmp_path):
    server = pec.servers["PEC"].server
    service = ControlService(server, SnapshotReader(server).read, lambda: None)
    with pytest.raises(ConfigError, match="another directory server listens"):
        ControlServer(path, service)
    stale = tmp_path / "stale.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(stale))
    left.close()
    with ControlServer(stale, service), ControlClient(stale) as client:
        assert client.status().machine_name == "PEC"
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ConfigError, match="is no socket"):
        ControlServer(tmp_path / "file", service)
    assert (tmp_path / "file").read_text() == "precious"
    with pytest.raises(ConfigError, match="longer than 107 octets"):
        ControlServer(tmp_path / ("x" * 120), service)


def raw(path):
    """A connection whose first document is read, and answered."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(str(path))
    assert protocol.receive_document(connection, 1000) is not None
    return connection


@pytest.mark.parametrize(
    "octets",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x02{}",
        b"\0\0\0\x04true",
        b"\0\0\0\x05abc",
    ],
    ids=["4 GiB", "empty", "no protocol", "no object", "no JSON"],
)
def test_wrong_first_frames_end_the_connection(path, octets):
    with raw(path) as connection:
        connection.sendall(octets)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    with ControlClient(path) as client:
        assert client.status().is_working


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"request": "format"},
        {"request": "change", "command": "create", "element": "Queue"},
        {"request": "status", "x": 1},
    ],
)
def test_wrong_requests_are_refused_and_the_connection_goes_on(path, document):
    with raw(path) as connection:
        protocol.send_document(connection, protocol.Hello(protocol=1), 1000)
        data = json.dumps(document).encode()
        for _ in range(2):
            connection.sendall(len(data).to_bytes(4, "big") + data)
            reply = protocol.REPLIES.validate_json(protocol.receive_document(connection, 10_000))
            assert isinstance(reply, protocol.RefusedReply)
            assert reply.kind == "usage"


def test_too_many_clients_are_refused(path):
    clients = [ControlClient(path) for _ in range(CLIENTS_MAX)]
    with pytest.raises(DirectoryNotConnected, match="too many clients"):
        ControlClient(path)
    for client in clients:
        client.close()


def test_the_socket_outlives_a_lack_of_files_and_threads(pec, tmp_path, caplog, monkeypatch):
    server = pec.servers["PEC"].server
    service = ControlService(server, SnapshotReader(server).read, lambda: None)
    with ControlServer(tmp_path / "s", service) as control, socket.socket(socket.AF_UNIX) as first:
        first.settimeout(5)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            first.connect(str(tmp_path / "s"))
            wait_until(lambda: "Too many open files" in caplog.text, 5)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert protocol.receive_document(first, 1000) is not None
        with monkeypatch.context() as patched:
            patched.setattr(control._pool, "submit", no_thread)
            for _ in range(CLIENTS_MAX + 1):  # each one leaves its place to the next
                with pytest.raises(DirectoryNotConnected):
                    ControlClient(tmp_path / "s")
        assert "can't start new thread" in caplog.text
        with ControlClient(tmp_path / "s") as client:
            assert client.status().is_working
        assert control.is_alive
    assert not control.is_alive


def no_thread(*_):
    raise RuntimeError("can't start new thread")


def test_a_server_that_falls_silent(tmp_path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "deaf.sock"))
    listening.listen()
    with pytest.raises(DirectoryNotConnected, match="does not answer"):
        ControlClient(tmp_path / "deaf.sock", reply_s=0.05)
    listening.close()


@given(st.binary(max_size=64))
def test_octets_of_strangers_raise_nothing_else(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.close()
        try:
            received = protocol.receive_document(ours, 1 << 10)
        except ConfigError:
            return
        assert received is None or data[4:].startswith(received)
