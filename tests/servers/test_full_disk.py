"""A full disk below the folder of a directory server: what was acknowledged is kept, the rest is refused."""

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.replication.queue_managers import guid_of, wait_until
from support.servers.running_server import QUICK, free_port, get, init, running
from support.servers.small_disk import SmallDisk, small_disk

from mqdssm.drivers.message_numbers import MessageNumbers
from mqdssm.drivers.message_store import MessageStore
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, GenericDirectoryError, TransportError
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.transport import DeliveryGuarantee, Message, MessageId
from mqdssm.server.setup import add_server
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
        assert [sent.identifier.number for sent in store.sent()] == accepted
        disk.free()
        store.add_sent(message(100))
        accepted.append(100)
        assert store.problem == ""
    with MessageStore(file) as store:
        assert [sent.identifier.number for sent in store.sent()] == accepted


def test_message_numbers_are_never_given_twice(disk: SmallDisk) -> None:
    file = disk.path / "numbers.json"
    numbers = MessageNumbers(file)
    disk.fill()
    given = []
    given.extend(itertools.islice(_while_given(numbers), 20_000))
    assert 0 < len(given) < 20_000
    with pytest.raises(TransportError, match="no message can be sent"):
        next(numbers)
    disk.free()
    given.append(next(numbers))
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


def test_a_server_with_a_full_disk_says_so_and_recovers(disk: SmallDisk, tmp_path: Path) -> None:
    """The directory has room. Messages of the PSC are not accepted, and come again."""
    with OpenLdapServer(tmp_path / "slapd", replication=True, port=free_port()) as slapd:
        password, port = tmp_path / "password", free_port()
        password.write_text(slapd.password)
        password.chmod(0o600)
        folder = init(
            disk.path / "pec", url=slapd.url, user=slapd.user, password_file=password, ca_file=slapd.ca_file
        )
        config = folder / "server.toml"
        config.write_text(f'{config.read_text()}\n[metrics]\naddress = "{port}"\n')
        with running(folder) as pec:
            wait_until(lambda: pec.create(r"PEC01\first"), 20)
            named = {"site": "Paris", "machine_name": "PSC01", "listen": f"127.0.0.1:{free_port()}"}
            with pec.client() as client:
                file = add_server(tmp_path / "psc", client, role=Role.PSC, **named)
            file.write_text(file.read_text() + QUICK)
            with running(tmp_path / "psc") as psc:
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


def _queues(slapd: OpenLdapServer) -> set[str]:
    import mqdssm

    with mqdssm.connect(slapd.ldapi_url, read_only=True) as directory:
        return {queue.pathname for queue in directory.search(mqdssm.Queue)}
