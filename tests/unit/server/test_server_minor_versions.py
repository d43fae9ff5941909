"""Control socket between programs of two versions (decision T151): what is read, and what is refused."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel, RootModel, TypeAdapter
from support.project.source_tree import ROOT
from support.replication.snapshots import snapshot_of
from support.versions.minor_versions import grown

import mqdssm
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.session.timers import SessionState
from mqdssm.errors import ConfigError, GenericDirectoryError, ObjectNotFound, OutcomeUnknown
from mqdssm.server import control_protocol as protocol
from mqdssm.server.config import LIMITS, TIMERS, ServerConfig
from mqdssm.server.control_client import ControlClient, error_of_refusal
from mqdssm.server.control_server import ControlServer
from mqdssm.server.folder import FORMAT, DirectoryServerFolder
from mqdssm.server.snapshot import ServerSnapshot

VECTORS = ROOT / "tests" / "vectors"
RECORDED = json.loads((VECTORS / "control-0.1.json").read_text())
PARTITION = "5f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4"


class Service:
    """Service whose replies the test gives; without one, it parses the request."""

    machine_name = "PEC01"

    def __init__(self) -> None:
        self.reply: BaseModel | None = None
        self.requests: list[dict[str, Any]] = []
        self.stop = Event().set

    def perform(self, data: bytes) -> BaseModel:
        self.requests.append(json.loads(data))
        return self.reply or protocol.reply_of(lambda: self._done(protocol.REQUESTS.validate_json(data)))

    def _done(self, request: protocol.Request) -> protocol.Reply:
        return protocol.OutcomeReply(status=0)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def path(tmp_path: Path, service: Service) -> Iterator[Path]:
    server: Any = service
    with ControlServer(tmp_path / "control.sock", server):
        yield tmp_path / "control.sock"


@pytest.fixture
def client(path: Path) -> Iterator[ControlClient]:
    with ControlClient(path) as connected:
        yield connected


def content_of(document: BaseModel) -> Any:
    return json.loads(document.model_dump_json())


# --- what version 0.1 has sent


@pytest.mark.parametrize("document", RECORDED["requests"], ids=lambda document: document["request"])
def test_requests_of_version_0_1_mean_what_they_did(document):
    """Names, types and defaults are as they were: the same request is written again."""
    assert content_of(protocol.REQUESTS.validate_python(document)) == document


def keeps(now: Any, before: Any) -> bool:
    """True if a JSON value has all that an older one has; objects may have further members."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            name in now and keeps(now[name], before[name]) for name in before
        )
    if isinstance(before, list):
        return len(now) == len(before) and all(map(keeps, now, before))
    return bool(now == before)


@pytest.mark.parametrize("document", RECORDED["replies"], ids=lambda document: document["reply"])
def test_replies_keep_the_fields_of_version_0_1(document):
    """An older client finds all its fields, and a newer one reads a server without newer fields."""
    assert keeps(content_of(protocol.REPLIES.validate_python(document)), document)


def test_the_first_document_keeps_the_fields_of_version_0_1():
    hello = protocol.HELLOS.validate_python(RECORDED["hello"])
    assert keeps(content_of(hello), RECORDED["hello"])
    assert not hello.problem()


def test_all_documents_are_recorded():
    """A new one is recorded when its version is released (docs/releasing.md)."""
    for kind, documents, name in (
        ("requests", protocol.REQUESTS, "request"),
        ("replies", protocol.REPLIES, "reply"),
    ):
        tags = set(documents.json_schema()["discriminator"]["mapping"])
        assert {document[name] for document in RECORDED[kind]} == tags


def test_the_configuration_of_version_0_1_is_read():
    file = VECTORS / "server-0.1.toml"
    config = ServerConfig.read(file)
    assert config.settings().role is Role.BSC
    assert config.tcp_settings().sessions.window_size == 64
    assert (set(config.timers), set(config.limits)) == (TIMERS, LIMITS)


# --- versions of the protocol


@pytest.mark.parametrize(
    ("newest", "oldest", "can_speak"),
    [
        (1, None, True),
        (1, 1, True),
        (2, 1, True),
        (5, 0, True),
        (2, None, False),
        (3, 2, False),
        (0, None, False),
    ],
)
def test_versions_that_overlap(newest, oldest, can_speak):
    hello = protocol.Hello(protocol=newest, oldest=oldest, mqdssm="0.9.0")
    assert bool(hello.problem()) is not can_speak


def test_a_client_refuses_a_server_that_is_too_new(path, monkeypatch):
    """It names both versions, and what to do."""
    newer = protocol.Hello(protocol=4, oldest=3, mqdssm="0.9.0", machine_name="PEC01")
    monkeypatch.setattr(protocol.Hello, "own", lambda *_: newer)
    with pytest.raises(ConfigError) as refused:
        ControlClient(path)
    assert str(refused.value) == (
        f"the server at {path} cannot be asked: it is mqdssm 0.9.0 with versions 3 to 4 of the control "
        f"protocol, this is mqdssm {mqdssm.__version__} with version 1; they may be one minor version apart: "
        "use the mqdssm of the server"
    )


def exchange(path: Path, hello: dict[str, Any]) -> Any:
    """Send a first document and a request for the state; return the next document of the server."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        first = protocol.receive_document(connection, 1000)
        assert first is not None
        assert json.loads(first) == {
            "protocol": 1,
            "oldest": 1,
            "mqdssm": mqdssm.__version__,
            "machine_name": "PEC01",
        }
        protocol.send_document(connection, RootModel(hello), 1000)
        if "stop" not in hello:
            protocol.send_document(connection, protocol.ServerStopRequest(), 1000)
        reply = protocol.receive_document(connection, 10_000)
        assert reply is not None
        return json.loads(reply)


def test_a_server_tells_a_client_that_is_too_new(path, service):
    reply = exchange(path, {"protocol": 4, "oldest": 3, "mqdssm": "0.9.0", "stop": True})
    assert (reply["reply"], reply["kind"]) == ("refused", "usage")
    assert "it is mqdssm 0.9.0 with versions 3 to 4" in reply["problem"]
    assert not service.requests


def test_a_client_of_the_next_version_is_served(path):
    reply = exchange(path, {"protocol": 2, "oldest": 1, "mqdssm": "0.2.0", "machine_name": "", "x": 1})
    assert reply["reply"] == "outcome"


# --- replies of other versions


def test_a_state_of_the_next_version_is_read(client, service):
    """Unknown fields are left out, and unknown states are kept as texts."""
    known = snapshot_of()
    service.reply = RootModel(grown(content_of(protocol.StatusReply(snapshot=known))))
    read = client.status()
    assert {session.state for session in read.sessions} == {"RESUMING"}
    assert read.model_copy(update={"sessions": known.sessions}) == known
    assert all(isinstance(session.state, SessionState) for session in reread(known).sessions)


def reread(snapshot: ServerSnapshot, **changes: Any) -> ServerSnapshot:
    content = snapshot.model_dump(mode="json") | changes
    return ServerSnapshot.model_validate_json(json.dumps(content), extra="ignore")


def test_values_of_the_next_version():
    known = snapshot_of().model_dump(mode="json")
    counts = [{**known["messages"][0], "outcome": "postponed"}]
    events = [{**known["events"][0], "part": "clock"}]
    read = reread(snapshot_of(), messages=counts, events=events)
    assert (read.messages[0].outcome, read.events[0].part) == ("postponed", "clock")
    problem = {"severity": "critical", "subject": "PEC", "text": "a problem of the next version"}
    read = reread(snapshot_of(), problems=[problem])
    assert not read.is_healthy, "nobody takes a problem that is not understood for a small one"
    with pytest.raises(ValueError, match="is_working"):
        reread(snapshot_of(), is_working="perhaps")


def test_a_state_of_the_previous_version_is_read(client, service):
    content = content_of(protocol.StatusReply(snapshot=snapshot_of()))
    del content["snapshot"]["own_objects"]
    service.reply = RootModel(content)
    assert client.status() == snapshot_of(own_objects=None)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("usage", ValueError),
        ("not found", ObjectNotFound),
        ("failure", GenericDirectoryError),
        ("unknown", OutcomeUnknown),
        ("of the next version", OutcomeUnknown),
    ],
)
def test_kinds_of_refusals(kind, error):
    refusal = protocol.RefusedReply.model_validate({"problem": "no", "kind": kind})
    assert type(error_of_refusal(refusal, "PEC01")) is error


def test_a_reply_of_another_kind_leaves_the_outcome_unknown(client, service):
    service.reply = RootModel({"reply": "postponed", "until": 7})
    with pytest.raises(OutcomeUnknown, match="'postponed' is not known to mqdssm"):
        client.stop()


# --- requests of other versions


class NewerTakeOver(protocol.TakeOverRequest):
    """Request of the next version, which has an option more."""

    quorum: int = 0


def test_an_option_with_its_default_is_not_sent(client, service):
    request: Any = NewerTakeOver(partition=PARTITION)
    assert client._perform(request, "take over") is None
    assert service.requests == [{"request": "take-over", "partition": PARTITION}]


def test_an_option_that_would_have_no_effect_is_refused_by_name(client, service):
    request: Any = NewerTakeOver(partition=PARTITION, quorum=2, dry_run=True)
    with pytest.raises(ValueError, match=r"^take-over.quorum: not known to mqdssm \d.*upgrade the server"):
        client._perform(request, "take over")
    assert service.requests[-1]["quorum"] == 2


def test_a_request_of_the_next_version_is_refused_by_name(client, path):
    class Pause(protocol.ServerStopRequest):
        request: Any = "pause"

    with pytest.raises(ValueError, match=r"^'pause' is not known to mqdssm \d.*upgrade the server"):
        client._perform(Pause(), "pause")
    client.stop()


def test_requests_are_written_whole_where_they_are_kept():
    """A request of `add-server` is read again from its file: defaults are not lost."""
    for document in RECORDED["requests"]:
        request = protocol.REQUESTS.validate_python(document)
        adapter: TypeAdapter[Any] = TypeAdapter(type(request))
        assert adapter.validate_json(request.model_dump_json()) == request


# --- formats of folders (decision T153)


def test_a_folder_gets_its_format_from_the_server_alone(tmp_path):
    """Commands that only look leave a folder to the older version."""
    folder = DirectoryServerFolder(tmp_path / "pec")
    folder.make()
    with folder.lock():
        assert not folder.format.exists()
        folder.record_format()
        assert json.loads(folder.format.read_text()) == {"format": FORMAT, "mqdssm": mqdssm.__version__}
        assert folder.check_format() == FORMAT
    folder.format.write_text(json.dumps({"format": FORMAT + 1, "mqdssm": "9.9.0"}))
    with pytest.raises(ConfigError, match=r"use mqdssm 9\.9\.0 or a later one"), folder.lock():
        pass


@pytest.mark.parametrize("text", ["[", "[]", "7", '{"format": null}', '{"format": "new"}'])
def test_a_damaged_format(tmp_path, text):
    folder = DirectoryServerFolder(tmp_path)
    folder.format.write_text(text)
    with pytest.raises(ConfigError, match=r"format\.json is damaged"):
        folder.record_format()
    assert folder.format.read_text() == text
