"""A server on another host joins with a token, over TCP: also with thieves, guessers and recordings."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import RootModel
from support.replication.joining import Berlin, Clock
from support.replication.queue_managers import guid_of, key_of, wait_until
from support.replication.tcp_machines import QUICK
from support.servers.proxy import Proxy

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import (
    ConfigError,
    DirectoryNotConnected,
    GenericDirectoryError,
    OutcomeUnknown,
    TransportError,
)
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.transport import Message
from mqdssm.server import token_client
from mqdssm.server.config import ServerConfig, encode_keys
from mqdssm.server.control_protocol import AdmissionRequest
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.join_token import JoinRequest, JoinToken, fingerprint_of, seal_request
from mqdssm.server.join_tokens import WRONG_MAX
from mqdssm.server.setup import add_server
from mqdssm.server.token_admission import ADMISSION
from mqdssm.server.token_client import TokenClient

pytestmark = pytest.mark.slow  # waits for threads and sockets

MISUSE = "uses it again with another key"


@pytest.fixture
def berlin(tmp_path: Path) -> Iterator[Berlin]:
    with ExitStack() as stack:
        yield Berlin(tmp_path, stack)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def join(folder: Path, token: JoinToken, clock: Clock, *, wait_s: float = 10, **changes: str) -> Path:
    """Make the folder of a new server with a token."""
    named = {"site": "Rome", "machine_name": "PSC2", "listen": free_address(), **changes}
    key_file = DirectoryServerFolder(folder).key
    client = TokenClient(token, key_file, listen=named["listen"], wait_s=wait_s, clock=clock)
    return add_server(folder, client, role=Role.PSC, **named)


def own_key(folder: Path) -> bytes:
    return bytes(PrivateKey.load(DirectoryServerFolder(folder).key).public_keys())


def asked(key: PrivateKey, address: str = "127.0.0.1:9", **changes: Any) -> AdmissionRequest:
    values = {
        "machine_name": "PSC2",
        "machine_id": uuid4(),
        "role": Role.PSC,
        "site": "Rome",
        "site_id": uuid4(),
        "public_keys": encode_keys(key.public_keys()),
        "address": address,
    }
    return AdmissionRequest(**{**values, **changes})


@contextmanager
def stranger(berlin: Berlin, folder: Path) -> Iterator[Any]:
    """A queue manager that nobody knows; its function sends a body to the admission queue."""
    resolver = NameResolver({guid_of("PEC"): berlin.address})
    network = TcpNetwork(None, folder / "stranger.json", resolver, settings=QUICK)
    with closing(network.add("STRANGER", Guid.of(uuid4()))) as manager:
        to = PrivateFormatName(guid_of("PEC").uuid, ADMISSION.number)
        yield lambda body: manager.send(Message(body=body), to)


def remove_site(berlin: Berlin, site_id: Guid) -> None:
    """Remove a site whose PSC never started."""
    site = {"object_type": ObjectType.SITE, "partition_id": PEC_PARTITION_ID, "identifier": site_id}
    nobody = ((Propid.S_PSC, ""), (Propid.S_PSC_SIGNPK, b""))
    for command, properties in ((Command.UPDATE, nobody), (Command.DELETE, ())):
        outcome = berlin.pec.driver.change(command=command, properties=properties, **site)
        assert outcome.status == Hresult.MQ_OK


def test_both_sides_know_each_other_afterwards(berlin, tmp_path):
    """Decision T136. The same folder gets its answer again; then the token is used up."""
    token, folder = berlin.token(), tmp_path / "psc"
    assert berlin.site("Rome") is None
    listen = free_address()
    file = join(folder, token, berlin.clock, listen=listen)
    config = ServerConfig.read(file)
    assert (config.server.role, config.server.pec_name, config.server.site) == (Role.PSC, "PEC", "Rome")
    assert config.transport.hosts["pec"] == str(berlin.address)
    (pinned,) = config.pinned
    assert pinned.public_keys == encode_keys(key_of("PEC").public_keys())
    assert not DirectoryServerFolder(folder).admission.exists()
    site = berlin.site("Rome")
    assert site is not None
    assert (site[Propid.S_PSC], site[Propid.S_PSC_SIGNPK]) == ("PSC2", own_key(folder))
    assert berlin.hosts.addresses()["psc2"] == listen
    (report,) = berlin.reports
    assert fingerprint_of(own_key(folder)) in report
    with pytest.raises(ValueError, match="was used already"):
        join(tmp_path / "thief", token, berlin.clock)
    assert not (tmp_path / "thief").exists()
    assert MISUSE in berlin.reports[-1]
    assert berlin.site("Rome") == site
    secret = token.secret.reveal()
    assert not [
        name for name in tmp_path.rglob("*.json") if name.name != "tokens.json" and secret in name.read_text()
    ]


def test_the_answer_goes_to_the_address_by_which_others_reach_it(berlin, tmp_path):
    """It is behind a translation of addresses."""
    listen = free_address()
    with Proxy("127.0.0.1", int(listen.rpartition(":")[2])) as proxy:
        address = f"{proxy.host}:{proxy.port}"
        file = join(tmp_path / "psc", berlin.token(), berlin.clock, listen=listen, address=address)
    assert ServerConfig.read(file).transport.listen == listen
    assert berlin.hosts.addresses()["psc2"] == address


def test_a_lost_answer_is_sent_again_and_a_recorded_request_restores_nothing(berlin, tmp_path):
    token, key = berlin.token(), PrivateKey.generate()
    request = asked(key)
    body = seal_request(token, key, JoinRequest(nonce="0" * 16, request=request))
    with stranger(berlin, tmp_path) as send:
        send(body)
        wait_until(lambda: berlin.counted("admitted") == 1)
        send(body)  # recorded by somebody in the middle, or the answer was lost
        wait_until(lambda: berlin.counted("admitted") == 2)
        assert len(berlin.reports) == 1
        remove_site(berlin, Guid.of(request.site_id))
        send(body)
        wait_until(lambda: berlin.counted("refused") == 1)
    assert berlin.site("Rome") is None


def test_an_expired_or_withdrawn_token_admits_nobody(berlin, tmp_path):
    token = berlin.token()
    early = Clock()
    berlin.clock.now += 3600
    with pytest.raises(ConfigError, match="has expired"):
        join(tmp_path / "psc", token, berlin.clock)
    with pytest.raises(ValueError, match="has expired"):  # its clock is behind
        join(tmp_path / "psc", token, early)
    token = berlin.token()
    assert berlin.admission.withdraw("PSC2")
    with pytest.raises(OutcomeUnknown, match="does not know the token any more"):
        join(tmp_path / "psc", token, berlin.clock, wait_s=0.5)
    assert berlin.site("Rome") is None


def test_a_token_is_for_one_role_site_and_machine(berlin, tmp_path):
    token = berlin.token()
    for name, changes in (("a", {"site": "Oslo"}), ("b", {"machine_name": "PSC3"})):
        with pytest.raises(ValueError, match="is for the PSC PSC2 of Rome"):
            join(tmp_path / name, token, berlin.clock, **changes)
    assert berlin.site("Oslo") is None
    join(tmp_path / "psc", token, berlin.clock)  # refusals have not used it up


def test_a_refused_admission_leaves_the_token(berlin, tmp_path):
    token = berlin.token()
    made = berlin.pec.create_site("Rome", "PSC9")
    assert made.status == Hresult.MQ_OK
    with pytest.raises(GenericDirectoryError, match="Rome exists already"):
        join(tmp_path / "psc", token, berlin.clock)
    assert not (tmp_path / "psc").exists()
    with pytest.raises(GenericDirectoryError, match="Rome exists already"):
        berlin.token()
    for changes in ({"site": "Oslo", "machine_name": "PSC1"}, {"site": "Oslo", "machine_name": "pec"}):
        with pytest.raises(GenericDirectoryError, match="exists already, for another server"):
            berlin.token(**changes)
    remove_site(berlin, made.identifier)
    join(tmp_path / "psc", token, berlin.clock)  # with another key than the first time
    with pytest.raises(ValueError, match="the PSC of Site1 adds its BSCs"):
        berlin.token(role=Role.BSC, site="Site1", machine_name="BSC1")
    with pytest.raises(ValueError, match="give the address"):
        berlin.token(site="Oslo", address="0.0.0.0:1801")


def test_a_newer_server_that_asks_for_something_unknown_is_told_so(berlin, tmp_path, monkeypatch):
    """Decision T152: nothing is made, and the token is not used."""
    token = berlin.token()

    def newer(made: JoinToken, key: PrivateKey, join: JoinRequest) -> bytes:
        content = join.model_dump(mode="json")
        content["request"]["quorum"] = 3
        return seal_request(made, key, RootModel(content))

    with monkeypatch.context() as patch:
        patch.setattr(token_client, "seal_request", newer)
        with pytest.raises(ValueError, match=r"request\.quorum: not known to mqdssm .* upgrade the server"):
            join(tmp_path / "newer", token, berlin.clock)
    assert berlin.site("Rome") is None
    join(tmp_path / "same", token, berlin.clock)
    assert berlin.site("Rome") is not None


def test_guesses_get_no_answer_and_end_the_token(berlin, tmp_path):
    token, other, key = berlin.token(), berlin.token(site="Oslo", machine_name="PSC3"), PrivateKey.generate()
    request = JoinRequest(nonce="0" * 16, request=asked(key))
    guess = JoinToken(token.claims, other.secret)
    dropped = "dropped: request of a stranger"
    with stranger(berlin, tmp_path) as send:
        strangers = [b"", b"{", b"\0" * 1000, b"x" * 200_000, seal_request(_unknown(token), key, request)]
        for body in strangers:
            send(body)
        wait_until(lambda: berlin.counted(dropped) == len(strangers))
        assert berlin.tokens.find(token.claims.token_id) == token
        for number in range(WRONG_MAX):
            send(seal_request(guess, key, request))
            wait_until(lambda number=number: berlin.counted(dropped) == len(strangers) + number + 1)
    assert berlin.tokens.find(token.claims.token_id) is None
    assert berlin.tokens.find(other.claims.token_id) == other
    (report,) = berlin.reports
    assert report.startswith("the join token for PSC2 is withdrawn after many requests with a wrong code")
    assert berlin.site("Rome") is None
    assert not [
        row for row in berlin.pec.queue_manager.queues() if row.is_outgoing and "psc2" in row.name.casefold()
    ]


def _unknown(token: JoinToken) -> JoinToken:
    return JoinToken(token.claims.model_copy(update={"token_id": uuid4()}), token.secret)


def test_a_thief_of_the_token_takes_no_address_of_another_machine(berlin, tmp_path):
    """The owner of a stolen token could have messages for another machine sent to himself."""
    token, key = berlin.token(), PrivateKey.generate()
    before = berlin.hosts.addresses()
    requests = [
        asked(key, machine_id=guid_of("PEC").uuid),
        asked(key).model_copy(update={"address": "127.0.0.1:0"}),
        asked(key, address="0.0.0.0:1801"),
        asked(key, public_keys=encode_keys(key_of("PEC").public_keys())),
    ]
    with stranger(berlin, tmp_path) as send:
        for number, request in enumerate(requests):
            send(seal_request(token, key, JoinRequest(nonce=f"{number:016}", request=request)))
        wait_until(lambda: berlin.counted("refused") == 1)
        wait_until(lambda: berlin.counted("dropped: request of a stranger") == 3)
    assert berlin.hosts.addresses() == before
    assert berlin.site("Rome") is None


def test_a_hostile_server_in_the_place_of_the_pec_is_not_believed(berlin, tmp_path):
    """It has the token, and another key."""
    token = berlin.token()
    with ExitStack() as stack:
        (tmp_path / "hostile").mkdir()
        hostile = Berlin(tmp_path / "hostile", stack)
        hostile.tokens.add(token)
        hostile.admission._key = key_of("LEFT")
        hostile.admission._public_keys = key_of("LEFT").public_keys()
        hostile.admission._changed.set()
        claims = token.claims.model_copy(update={"address": str(hostile.address)})
        with pytest.raises(OutcomeUnknown, match="has not answered"):
            join(tmp_path / "psc", JoinToken(claims, token.secret), berlin.clock, wait_s=2)
        assert hostile.counted("admitted") > 0
    config = join(tmp_path / "psc", token, berlin.clock, listen=_address_of(tmp_path / "psc"))
    assert ServerConfig.read(config).pinned[0].public_keys == encode_keys(key_of("PEC").public_keys())


def _address_of(folder: Path) -> str:
    """Address in the request that is repeated."""
    return AdmissionRequest.model_validate_json(DirectoryServerFolder(folder).admission.read_bytes()).address


def test_a_server_that_is_away_is_named_and_the_command_can_be_repeated(berlin, tmp_path):
    token = berlin.token()
    away = JoinToken(token.claims.model_copy(update={"address": free_address()}), token.secret)
    folder, listen = tmp_path / "psc", free_address()
    with pytest.raises(DirectoryNotConnected, match=r"cannot be reached.*repeat the command"):
        join(folder, away, berlin.clock, wait_s=0.5, listen=listen)
    key = own_key(folder)
    join(folder, token, berlin.clock, listen=listen)
    assert own_key(folder) == key
    with pytest.raises(TransportError, match="cannot listen"):
        join(tmp_path / "other", berlin.token(site="Oslo", machine_name="PSC3"), berlin.clock,
             site="Oslo", machine_name="PSC3", listen=str(berlin.address))  # fmt: skip
    assert not (tmp_path / "other").exists()


def test_the_queue_exists_while_there_are_tokens(berlin):
    def queues() -> set[str]:
        return {row.name for row in berlin.pec.queue_manager.queues() if not row.is_outgoing}

    assert ADMISSION.name not in queues()
    berlin.token()
    wait_until(lambda: ADMISSION.name in queues())
    assert berlin.admission.withdraw("psc2")
    wait_until(lambda: ADMISSION.name not in queues())
    assert not berlin.admission.withdraw("PSC2")
