"""A full disk below the folder of a directory server: what was acknowledged is kept, the rest is refused."""

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from support.replication.queue_managers import guid_of, wait_until
from support.servers.running_server import QUICK, RunningServer, free_port, get, init, running
from support.servers.small_disk import SmallDisk, small_disk

from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.tcp import message_numbers
from mqdssm.drivers.tcp.message_numbers import MessageNumbers
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, GenericDirectoryError, TransportError
from mqdssm.events.watching.state_file import StateFile
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.transport import DeliveryGuarantee, Message, MessageId
from mqdssm.server import notifications
from mqdssm.server.config import ServerConfig
from mqdssm.server.identity_file import write_identity
from mqdssm.server.join_token import JoinToken
from mqdssm.server.join_tokens import JoinTokens
from mqdssm.server.setup import add_server
from mqdssm.server.snapshot import Problem
from mqdssm.testing import OpenLdapServer

pytestmark = [pytest.mark.timeout(180)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def message(number: int) -> Message:
    return Message(
        body=b"x" * 5000,
        identifier=MessageId(guid_of("A"), number),
        destination=PrivateFormatName(guid_of("B").uuid, 1),
        delivery=DeliveryGuarantee.RECOVERABLE,
    )


def test_messages_that_were_acknowledged_survive_and_others_are_refused(disk: SmallDisk) -> None:
    file = disk.path / "messages.sqlite"
    accepted = []
    with MessageStore(file) as store:
        store.add_sent(message(0))
        accepted.append(0)
        disk.fill()
        refused = 0
        for number in range(1, 40):  # a few may find room in pages that the file has
            try:
                store.add_sent(message(number))
            except TransportError:
                refused += 1
            else:
                accepted.append(number)
        assert refused
        assert "full" in store.problem
        assert [sent.identifier.number for sent in store.read_sent()] == accepted
        disk.free()
        store.add_sent(message(100))
        accepted.append(100)
        assert store.problem == ""
    with MessageStore(file) as store:
        assert [sent.identifier.number for sent in store.read_sent()] == accepted


def test_message_numbers_are_never_given_twice(disk: SmallDisk) -> None:
    file = disk.path / "numbers.json"
    numbers = MessageNumbers(file)
    disk.fill()
    given = []
    given.extend(itertools.islice(_while_given(numbers), 20_000))
    assert 0 < len(given) < 20_000
    with pytest.raises(TransportError, match="no message can be sent"):
        next(numbers)
    assert "no message can be sent" in numbers.problem
    assert "No space left" in numbers.problem
    disk.free()
    given.append(next(numbers))
    assert numbers.problem == ""
    numbers.close()
    with MessageNumbers(file) as numbers:
        given.append(next(numbers))
    assert len(set(given)) == len(given)
    disk.fill()
    with pytest.raises(ConfigError):
        MessageNumbers(disk.path / "others.json")


def _while_given(numbers: MessageNumbers) -> Iterator[int]:
    with suppress(TransportError):
        yield from numbers


def test_a_key_that_cannot_be_written_leaves_no_server(disk: SmallDisk) -> None:
    (disk.path / "pec").mkdir(mode=0o700)
    disk.fill()
    with pytest.raises(ConfigError):
        init(disk.path / "pec")
    assert not (disk.path / "pec" / "server.toml").exists()
    disk.free()


def whole_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without what fills the disk; no draft of a file may stay."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "filler"}


def test_join_tokens_on_a_full_disk_stay_as_they_were(disk: SmallDisk) -> None:
    file = disk.path / "join-tokens.json"
    tokens = JoinTokens(file)
    first, second = join_token("PSC01"), join_token("PSC02")
    tokens.add(first)
    before = whole_files(disk.path)
    disk.fill()
    for attempt in (
        lambda: tokens.add(second),
        lambda: tokens.use(first.claims.token_id, "somebody"),
        lambda: tokens.count_request(first.claims.token_id),
        lambda: tokens.withdraw("PSC01"),
    ):
        with pytest.raises(ConfigError, match=r"join-tokens\.json cannot be written: No space left"):
            attempt()
    assert whole_files(disk.path) == before
    assert tokens.has("PSC01")
    assert not tokens.has("PSC02")
    disk.free()
    tokens.add(second)
    used = tokens.use(first.claims.token_id, "the new server")
    assert used is not None
    assert used.used_by == "the new server"
    assert JoinTokens(file).has("PSC02")


def test_a_role_that_cannot_be_written_leaves_the_configuration_as_it_was(disk: SmallDisk) -> None:
    folder = init(disk.path / "pec")
    config = folder / "server.toml"
    before, server = whole_files(folder), ServerConfig.read(config).server
    named = server.model_copy(update={"machine_name": "PEC02", "pec_name": "PEC02"})
    disk.fill()
    with pytest.raises(ConfigError, match=r"server\.toml cannot be written: No space left"):
        write_identity(config, named)
    assert whole_files(folder) == before
    disk.free()
    assert write_identity(config, named)
    assert ServerConfig.read(config).server == named


def join_token(machine_name: str) -> JoinToken:
    return JoinToken.new(
        expires=int(time.time()) + 600,
        role=Role.PSC,
        site="Paris",
        machine_name=machine_name,
        server_name="PEC01",
        server_id=UUID(int=1),
        address="127.0.0.1:11801",
        fingerprint="0" * 64,
    )


def test_a_server_that_cannot_number_messages_or_note_notifications_says_so(
    disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision T160; blocks of numbers are small here. All changes arrive when there is room."""
    monkeypatch.setattr(message_numbers, "BLOCK", 40)
    monkeypatch.setattr(message_numbers, "_AHEAD", 10)
    monkeypatch.setattr(notifications, "RETRY_S", 0.5)
    with OpenLdapServer(tmp_path / "slapd", replication=True, port=free_port()) as slapd:
        folder = with_directory(disk.path / "pec", slapd, tmp_path / "password")
        config = folder / "server.toml"
        config.write_text(f"{config.read_text()}\n[notification]\nsend = true\n")
        with running(folder) as pec:
            wait_until(lambda: pec.create(r"PEC01\first"), 20)
            with running(psc_of(pec, tmp_path / "psc")) as psc:
                wait_until(lambda: psc.create(r"PSC01\first"), 30)
                wait_until(lambda: not problems_of(pec), 30)
                disk.fill()
                wanted, numbers = {"message numbers", "notification of owners"}, itertools.count(2)
                wait_until(  # a few notes find room in the last page of the journal
                    lambda: pec.create(rf"PEC01\queue{next(numbers)}") and wanted <= problems_of(pec).keys(),
                    60,
                )
                found = problems_of(pec)
                assert found["message numbers"].severity == "error"
                assert "can be sent" in found["message numbers"].text
                assert "notified.state" in found["notification of owners"].text
                assert "No space left" in found["notification of owners"].text
                disk.free()
                wait_until(lambda: pec.create(r"PEC01\last"), 60)
                wait_until(lambda: not problems_of(pec), 60)
                wait_until(lambda: last_numbers(psc) == last_numbers(pec), 60)
        file = StateFile(folder / "notified.state")
        state = file.load()
        file.close()
        assert state.mirror.is_complete


def test_a_server_with_a_full_disk_says_so_and_recovers(disk: SmallDisk, tmp_path: Path) -> None:
    """The directory has room. Messages of the PSC are not accepted, and come again."""
    with OpenLdapServer(tmp_path / "slapd", replication=True, port=free_port()) as slapd:
        port, folder = free_port(), with_directory(disk.path / "pec", slapd, tmp_path / "password")
        config = folder / "server.toml"
        config.write_text(f'{config.read_text()}\n[metrics]\naddress = "{port}"\n')
        with running(folder) as pec:
            wait_until(lambda: pec.create(r"PEC01\first"), 20)
            with running(psc_of(pec, tmp_path / "psc")) as psc:
                wait_until(lambda: psc.create(r"PSC01\first"), 30)
                wait_until(lambda: _queues(slapd) == {"pec01\\first", "psc01\\first"}, 20)
                disk.fill()
                with pec.client() as client, pytest.raises(GenericDirectoryError):
                    client.add_host("PSC09", "127.0.0.1:9")
                wait_until(lambda: psc.create(r"PSC01\second"), 20)
                wait_until(lambda: get(port, "/health")[0] == 503, 30)
                problems = {
                    problem["subject"]: problem["text"]
                    for problem in json.loads(get(port, "/health")[1])["problems"]
                }
                assert "not accepted, and come again" in problems["folder"]
                assert "No space left" in problems["folder"]
                assert 'mqdssm_problems{severity="error"} 1.0' in get(port, "/metrics")[1]
                disk.free()
                wait_until(lambda: "psc01\\second" in _queues(slapd), 60)
                wait_until(lambda: get(port, "/health")[0] == 200, 30)


def with_directory(folder: Path, slapd: OpenLdapServer, password: Path) -> Path:
    """Make the folder of a PEC whose directory is on another disk."""
    password.write_text(slapd.password)
    password.chmod(0o600)
    return init(folder, url=slapd.url, user=slapd.user, password_file=password, ca_file=slapd.ca_file)


def psc_of(pec: RunningServer, folder: Path) -> Path:
    """Make the folder of a PSC that a PEC admits."""
    named = {"site": "Paris", "machine_name": "PSC01", "listen": f"127.0.0.1:{free_port()}"}
    with pec.client() as client:
        file = add_server(folder, client, role=Role.PSC, **named)
    file.write_text(file.read_text() + QUICK)
    return folder


def problems_of(server: RunningServer) -> dict[str, Problem]:
    return {problem.subject: problem for problem in server.snapshot().problems}


def last_numbers(server: RunningServer) -> dict[str, int]:
    return {partition.label: partition.last_number for partition in server.snapshot().partitions}


def _queues(slapd: OpenLdapServer) -> set[str]:
    import mqdssm

    with mqdssm.connect(slapd.ldapi_url, read_only=True) as directory:
        return {queue.pathname for queue in directory.search(mqdssm.Queue)}
