"""Making the folder of a further directory server, admitted by one that works."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from support.replication.live_servers import Enterprise, LiveServer, pec_with_site, section_of_pec
from support.replication.queue_managers import guid_of, key_of

from mqdssm.engines.replication.operations import ObjectOutcome, ReadObject
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, DirectoryNotConnected, GenericDirectoryError, OutcomeUnknown
from mqdssm.model.elements import Queue, Site
from mqdssm.model.hresults import Hresult, is_failure
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.server import control_protocol as protocol
from mqdssm.server.admission import Admission
from mqdssm.server.config import ServerConfig, TransportSection, encode_keys
from mqdssm.server.control_client import ControlClient
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.hosts import HostTable
from mqdssm.server.setup import add_server
from mqdssm.server.snapshot_reader import SnapshotReader

LISTEN = "127.0.0.1:1801"


class NoMachines:
    """A directory that names no machines."""

    def host_of(self, _identifier: object) -> None:
        return None


@pytest.fixture(scope="module")
def pec() -> Iterator[LiveServer]:
    """A PEC of Site0, at work for all tests of the module; it knows Site1, whose PSC1 never started."""
    made = Enterprise()
    pec_with_site(made)
    yield made.servers["PEC"]
    made.close()


@contextmanager
def serving(pec: LiveServer, folder: Path, listen: str = LISTEN) -> Iterator[Path]:
    """Control socket of the PEC, which listens on an address."""
    config = ServerConfig(
        server=section_of_pec(),
        transport=TransportSection(listen=listen),
    )
    hosts = HostTable(folder / "hosts.json", {}, {}, NoMachines())  # type: ignore[arg-type]
    admission = Admission(pec.server, config, key_of("PEC").public_keys(), hosts)
    reader = SnapshotReader(pec.server)
    service = ControlService(pec.server, reader.read, lambda: None, admission=admission, hosts=hosts)
    with ControlServer(folder / "control.sock", service):
        yield folder / "control.sock"


@pytest.fixture
def path(pec: LiveServer, tmp_path: Path) -> Iterator[Path]:
    """Control socket of the PEC."""
    with serving(pec, tmp_path) as socket_path:
        yield socket_path


def add(path: Path, folder: Path, **changes: str) -> Path:
    """Add a PSC through a control socket."""
    values = {"site": "Rome", "machine_name": "PSC2", "listen": "127.0.0.1:1802", **changes}
    with ControlClient(path, reply_s=5) as client:
        return add_server(folder, client, role=Role.PSC, **values)


def site_named(pec: LiveServer, name: str) -> dict[Propid, object] | None:
    """Properties of a site in the directory of the PEC, with its identifier."""
    read = pec.store.lookup(ReadObject(object_type=ObjectType.SITE, path_name=name))
    if is_failure(read.status):
        return None
    return {**dict(read.properties), Propid.S_SITEID: read.identifier}


@contextmanager
def scripted_server(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """A server that reads one request, sends some octets and closes the connection."""
    requests: list[bytes] = []

    def serve() -> None:
        with listening.accept()[0] as client:
            protocol.send_document(client, protocol.Hello(protocol=1, machine_name="PEC"), 1000)
            assert protocol.receive_document(client, 1000)
            requests.append(protocol.receive_document(client, 100_000) or b"")
            client.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = Thread(target=serve)
        thread.start()
        yield requests
        thread.join()


LOST = pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0", b"\0\0\0\x09{}", b"\0\0\0\x02{}"],
    ids=["closed", "cut length", "cut frame", "no reply"],
)


@LOST
def test_a_lost_reply_to_a_change_is_no_refusal(tmp_path, answer):
    queue = Queue(pathname=r"PEC\orders")
    with (
        scripted_server(tmp_path / "s", answer),
        ControlClient(tmp_path / "s") as client,
        pytest.raises(OutcomeUnknown, match="may have been made"),
    ):
        client.create(queue)


def test_a_state_that_was_not_sent_is_no_change(tmp_path):
    with scripted_server(tmp_path / "s", b""), ControlClient(tmp_path / "s") as client:
        with pytest.raises(DirectoryNotConnected) as lost:
            client.status()
        assert not isinstance(lost.value, OutcomeUnknown)


@LOST
def test_the_key_stays_after_a_lost_reply_and_the_same_command_goes_on(pec, path, tmp_path, answer, request):
    name, site = f"PSC-{request.node.callspec.id}".replace(" ", "-"), f"site {request.node.callspec.id}"
    folder, values = tmp_path / "psc", {"machine_name": name, "site": site}
    with scripted_server(tmp_path / "s", answer) as requests, pytest.raises(OutcomeUnknown, match="repeat"):
        add(tmp_path / "s", folder, **values)
    key = (folder / "key.pem").read_bytes()
    with pytest.raises(ConfigError, match="has another request"):
        add(path, folder, **values | {"site": "other"})
    config = ServerConfig.read(add(path, folder, **values))
    sent = protocol.REQUESTS.validate_json(requests[0])
    assert isinstance(sent, protocol.AdmissionRequest)
    assert (config.server.machine_id, config.server.site_id) == (sent.machine_id, sent.site_id)
    assert site_named(pec, site)[Propid.S_SITEID].uuid == sent.site_id
    assert (folder / "key.pem").read_bytes() == key
    assert {file.name for file in folder.iterdir()} == {"key.pem", "server.toml"}
    with pytest.raises(ConfigError, match="is not empty"):
        add(path, folder, **values)


def test_a_site_that_may_have_been_made_is_found_again(pec, path, tmp_path, monkeypatch):
    """The PEC's directory is slow: the site is made, and the answer comes too late."""
    change: Callable[..., ObjectOutcome] = pec.driver.change

    def late(**values: object) -> ObjectOutcome:
        assert not is_failure(change(**values).status)
        return ObjectOutcome(status=Hresult.MQDS_NO_RSP_FROM_OWNER)

    monkeypatch.setattr(pec.driver, "change", late)
    with pytest.raises(OutcomeUnknown, match="may have been made"):
        add(path, tmp_path / "psc")
    monkeypatch.undo()
    config = ServerConfig.read(add(path, tmp_path / "psc"))
    site = site_named(pec, "Rome")
    assert (site[Propid.S_PSC], site[Propid.S_SITEID].uuid) == ("PSC2", config.server.site_id)


def test_a_defect_behind_the_change_leaves_the_key(path, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("defect")

    monkeypatch.setattr(Admission, "admit", fail)
    with pytest.raises(OutcomeUnknown, match="a defect"):
        add(path, tmp_path / "psc", site="Oslo", machine_name="PSC3")
    assert (tmp_path / "psc" / "key.pem").exists()


def test_a_refused_request_leaves_no_folder_but_a_repeated_one_does(path, tmp_path):
    refused = {"site": "Site1", "machine_name": "PSC4"}
    with pytest.raises(GenericDirectoryError, match="exists already"):
        add(path, tmp_path / "psc", **refused)
    assert not (tmp_path / "psc").exists()
    with scripted_server(tmp_path / "s", b""), pytest.raises(OutcomeUnknown):
        add(tmp_path / "s", tmp_path / "psc", **refused)
    with pytest.raises(GenericDirectoryError, match="exists already"):
        add(path, tmp_path / "psc", **refused)
    assert (tmp_path / "psc" / "key.pem").exists(), "the first request may have been carried out"


@pytest.mark.parametrize(
    "changes",
    [
        {"listen": "psc2.example.com:1801"},
        {"listen": "0.0.0.0:1801"},
        {"listen": "127.0.0.1:0"},
        {"listen": "127.0.0.1:x"},
        {"listen": "psc2.example.com:1801", "address": "127.0.0.1:1801"},
        {"address": "0.0.0.0:1801"},
        {"address": "psc2:0"},
        {"machine_name": "a\\b"},
        {"machine_name": " "},
        {"site": "s" * 257},
        {"site": ""},
        {"site": "Be\nrn"},
    ],
    ids=lambda changes: next(iter(f"{name} {value[:25]}" for name, value in changes.items())),
)
def test_values_are_checked_before_anything_is_made(pec, path, tmp_path, changes):
    values = {"site": "Bern", "machine_name": "PSC5", **changes}
    with pytest.raises(ConfigError):
        add(path, tmp_path / "psc", **values)
    assert not (tmp_path / "psc").exists()
    assert site_named(pec, "Bern") is None


def test_a_server_is_reached_at_another_address_than_it_listens_on(path, tmp_path):
    """Behind a translation of addresses, and in a container."""
    elsewhere = {"listen": "0.0.0.0:1801", "address": "psc6.example.com:11801"}
    file = add(path, tmp_path / "psc", site="Oslo", machine_name="PSC6", **elsewhere)
    assert ServerConfig.read(file).transport.listen == "0.0.0.0:1801"
    assert json.loads((path.parent / "hosts.json").read_text())["psc6"]["address"] == elsewhere["address"]


@pytest.mark.parametrize(("listen", "hosts"), [(LISTEN, {"pec": LISTEN}), ("127.0.0.1:0", {})])
def test_a_port_that_the_system_chooses_is_told_to_nobody(pec, tmp_path, listen, hosts):
    site, machine = f"Port{len(hosts)}", f"PORT{len(hosts)}"
    with serving(pec, tmp_path, listen) as path:
        file = add(path, tmp_path / "psc", site=site, machine_name=machine)
    told = ServerConfig.read(file).transport.hosts
    assert {name: address for name, address in told.items() if name == "pec"} == hosts


def test_the_server_checks_them_too(pec, path):
    with ControlClient(path) as client:
        request = protocol.AdmissionRequest.model_construct(
            machine_name="a\\b",
            machine_id=guid_of("x").uuid,
            role=Role.PSC,
            site="Bern\x7f",
            site_id=guid_of("y").uuid,
            public_keys="",
            address="psc2:0",
        )
        with pytest.raises(ValueError, match=r"machine_name.*site.*address"):
            client.admit(request)
    assert site_named(pec, "Bern") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PSC1", "psc1", "pec"])
def test_the_name_of_a_server_that_never_started_is_not_given_again(pec, path, tmp_path, name):
    """Site1 names PSC1, whose machine object does not exist yet."""
    with pytest.raises(GenericDirectoryError, match="exists already"):
        add(path, tmp_path / "psc", site="Bern", machine_name=name)
    with ControlClient(path) as client, pytest.raises(GenericDirectoryError, match="exists already"):
        add_server(
            tmp_path / "bsc", client, role=Role.BSC, site="Site0", machine_name=name, listen="127.0.0.1:1803"
        )
    assert site_named(pec, "Bern") is None
    assert not (tmp_path / "hosts.json").exists(), "the address of the other machine is not replaced"


def test_a_repeated_request_has_the_same_identifier(path):
    """The machine of a BSC keeps its identifier: with another one the new server would not be found."""
    request = protocol.AdmissionRequest(
        machine_name="BSC9",
        machine_id=guid_of("BSC9").uuid,
        role=Role.BSC,
        site="Site0",
        site_id=guid_of("unused").uuid,
        public_keys=encode_keys(key_of("BSC9").public_keys()),
        address="127.0.0.1:1804",
    )
    with ControlClient(path) as client:
        assert client.admit(request) == client.admit(request)
        with pytest.raises(GenericDirectoryError, match="exists already"):
            client.admit(request.model_copy(update={"machine_id": guid_of("other").uuid}))


def test_a_site_without_a_psc_gets_the_one_that_is_admitted(pec, path, tmp_path):
    with ControlClient(path, reply_s=5) as client:
        client.add_site(Site(name="Lima", inter_site_replication_interval=7))
        with pytest.raises(GenericDirectoryError, match="exists already"):
            client.add_site(Site(name="Lima"))
        with pytest.raises(ValueError, match="cannot be changed"):
            client.add_site(Site(name="Quito", full_path="CN=Quito"))
    before = site_named(pec, "Lima")
    assert (before[Propid.S_PSC], before[Propid.S_INTERVAL2]) == ("", 7)
    lima = {"site": "Lima", "machine_name": "PSC7"}
    with scripted_server(tmp_path / "s", b"") as requests, pytest.raises(OutcomeUnknown):
        add(tmp_path / "s", tmp_path / "psc", **lima)
    sent = protocol.REQUESTS.validate_json(requests[0])
    with ControlClient(path, reply_s=5) as client:
        client.admit(sent)  # and its reply was lost
    config = ServerConfig.read(add(path, tmp_path / "psc", **lima))
    site = site_named(pec, "Lima")
    assert (site[Propid.S_PSC], site[Propid.S_INTERVAL2]) == ("PSC7", 7)
    assert site[Propid.S_SITEID] == before[Propid.S_SITEID]
    assert config.server.site_id == site[Propid.S_SITEID].uuid != sent.site_id
    with pytest.raises(GenericDirectoryError, match="exists already"):
        add(path, tmp_path / "other", site="Lima", machine_name="PSC8")


def test_what_is_off_by_default_stands_in_the_file_as_comments(path, tmp_path):
    """Without the comments' first signs the tables are settings."""
    file = add(path, tmp_path / "psc", site="Kyoto", machine_name="PSC17")
    text = file.read_text()
    assert ServerConfig.read(file).metrics.address is None
    for table in ("metrics", "discovery", "notification"):
        assert f"\n#[{table}]" in text
    file.write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    config = ServerConfig.read(file)
    assert config.metrics.address == "127.0.0.1:9464"
    assert config.discovery.listen
    assert (config.notification.send, config.notification.receive) == (True, True)
