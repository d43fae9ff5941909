"""The octets that a session sends: pinned, so that nothing slips in unseen."""

import socket
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from support.servers import answers
from support.servers.proxy import scripted_server

from mqdssm.directory.ber import octet_string, sequence, tlv
from mqdssm.directory.filters import Equal
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.profile import ROOT_DSE_ATTRIBUTES
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    DELETE_RESPONSE,
    MODIFY_DN_RESPONSE,
    MODIFY_RESPONSE,
    MessageSplitter,
    split_messages,
)
from mqdssm.directory.session import Session

GUID = UUID("68f32679-6a34-437f-a30c-563cc7a5e002")
DN = "CN=q,DC=x"


class Recorder:
    """Takes every request for granted, and keeps the octets without their message ids."""

    REPLIES = {0x68: ADD_RESPONSE, 0x66: MODIFY_RESPONSE, 0x4A: DELETE_RESPONSE, 0x6C: MODIFY_DN_RESPONSE}  # noqa: RUF012

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._searches = 0

    def __call__(self, connection: socket.socket) -> None:
        splitter = MessageSplitter()
        while data := connection.recv(65536):
            buffer, messages = splitter.feed(data)
            start = 0
            for message in messages:
                whole = buffer[start : message.stop]
                start = message.stop
                self.requests.append(without_id(whole))
                connection.sendall(self.reply(message.id, message.tag))

    def reply(self, number: int, tag: int) -> bytes:
        if tag == 0x60:
            return answers.bind_done(number)
        if tag == 0x63:
            self._searches += 1
            if self._searches == 1:
                return answers.openldap_root_dse(number)
            return answers.entry(number, DN, {"cn": [b"q"]}) + answers.search_done(number, cookie=b"")
        return b"" if tag == 0x42 else answers.encode_result(number, self.REPLIES[tag])


def without_id(message: bytes) -> str:
    """Everything behind the message id, as hexadecimal digits."""
    ((_, tag, start, end, stop),), _ = split_messages(message)
    head = start - (2 if end - start < 0x80 else 3 if end - start < 0x100 else 4)
    assert message[head] == tag
    assert end <= stop
    return message[head:stop].hex()


def ber(text: str) -> str:
    """Hexadecimal digits with words in quotes standing for their letters."""
    digits = ""
    for number, piece in enumerate(text.split("'")):
        digits += piece.encode().hex() if number % 2 else piece.replace(" ", "")
    return digits


@pytest.fixture
def wire() -> Iterator[tuple[Session, Recorder]]:
    recorder = Recorder()
    with scripted_server(recorder) as port:
        options = ConnectionOptions.of(
            f"ldap://127.0.0.1:{port}",
            user="CN=me,DC=x",
            password="pässword",
            tls="none",
            allow_replicated=True,  # or the first change is preceded by a search (decision R106)
        )
        with Session.open(options) as session:
            yield session, recorder


def last(wire: tuple[Session, Recorder], call: Callable[[Session], object]) -> str:
    session, recorder = wire
    before = len(recorder.requests)
    call(session)
    assert len(recorder.requests) == before + 1, "exactly one request"
    return recorder.requests[-1]


def test_bind_is_ldap_v3_and_simple(wire: tuple[Session, Recorder]) -> None:
    password = "pässword".encode()
    assert wire[1].requests[0] == ber("60 1a 02 01 03 04 0a 'CN=me,DC=x' 80 09") + password.hex()


@pytest.mark.spec("MS-MQDSSM 3.1.3")
def test_initialization_reads_the_root_dse(wire: tuple[Session, Recorder]) -> None:
    """Base "", scope base, never an alias, no limits, values, (objectClass=*), no control."""
    assert len(wire[1].requests) == 2  # nothing else: no schema, no extensions
    request = bytes.fromhex(wire[1].requests[1])
    names = b"".join(octet_string(name) for name in ROOT_DSE_ATTRIBUTES)
    head = bytes.fromhex(ber("0400 0a0100 0a0100 020100 020100 010100 87 0b 'objectClass'"))
    assert "configurationNamingContext" in ROOT_DSE_ATTRIBUTES
    assert request == tlv(0x63, head + sequence(names))


def test_base_search(wire: tuple[Session, Recorder]) -> None:
    request = last(wire, lambda session: session.get(DN, ["cn"]))
    assert request == ber(
        "63 2d 04 09 'CN=q,DC=x' 0a0100 0a0100 020100 020100 010100 87 0b 'objectClass' 30 04 04 02 'cn'"
    )


def test_search_for_no_attribute(wire: tuple[Session, Recorder]) -> None:
    request = last(wire, lambda session: session.get(DN, []))
    assert request.endswith(ber("30 05 04 03 '1.1'"))


def test_search_by_guid(wire: tuple[Session, Recorder]) -> None:
    request = last(wire, lambda session: session.get(GUID, ["cn"]))
    assert request == ber(
        "63 48 04 11 'dc=example,dc=com' 0a0102 0a0100 020100 020100 010100"
        "a3 1e 04 0a 'objectGUID' 04 10 7926f368346a7f43a30c563cc7a5e002 30 04 04 02 'cn'"
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
def test_paged_search(wire: tuple[Session, Recorder]) -> None:
    wanted = Equal("cn", b"*)(\x00")
    request = last(wire, lambda session: list(session.find(DN, wanted, ["cn"], SearchScope.ONE_LEVEL, 500)))
    # timeLimit is 120, as asked for (decision M58); in all other searches 0
    control = "a0 27 30 25 04 16 '1.2.840.113556.1.4.319' 0101ff 04 08 30 06 02 02 01f4 0400"
    assert request == ber(
        "63 38 04 09 'CN=q,DC=x' 0a0101 0a0100 020100 020178 010100 a3 0a 04 02 'cn' 04 04 2a292800"
        f"30 10 04 02 'cn' 04 0a 'objectGUID' {control}"
    )


def test_rows_are_the_same_search(wire: tuple[Session, Recorder]) -> None:
    wanted = Equal("cn", b"x")
    request = last(wire, lambda session: list(session.find(DN, wanted, ["cn"])))
    assert last(wire, lambda session: list(session.rows(DN, wanted, ["cn"]))) == request


def test_add(wire: tuple[Session, Recorder]) -> None:
    attributes = {"objectClass": [b"mSMQQueue"], "objectGUID": [GUID.bytes_le]}
    request = last(wire, lambda session: session.add(DN, attributes))
    assert request == ber(
        "68 4b 04 09 'CN=q,DC=x' 30 3e"
        "30 1a 04 0b 'objectClass' 31 0b 04 09 'mSMQQueue'"
        "30 20 04 0a 'objectGUID' 31 12 04 10 7926f368346a7f43a30c563cc7a5e002"
    )


def test_modify(wire: tuple[Session, Recorder]) -> None:
    changes = {"mSMQLabelEx": [b"a", b"\x00"], "mSMQSites": []}
    request = last(wire, lambda session: session.modify(DN, changes))
    assert request == ber(
        "66 3d 04 09 'CN=q,DC=x' 30 30"
        "30 1a 0a 01 02 30 15 04 0b 'mSMQLabelEx' 31 06 04 01 61 04 01 00"
        "30 12 0a 01 02 30 0d 04 09 'mSMQSites' 31 00"
    )


def test_delete(wire: tuple[Session, Recorder]) -> None:
    assert last(wire, lambda session: session.delete(DN)) == ber("4a 09 'CN=q,DC=x'")


def test_rename(wire: tuple[Session, Recorder]) -> None:
    request = last(wire, lambda session: session.rename(DN, "CN=r"))
    assert request == ber("6c 14 04 09 'CN=q,DC=x' 04 04 'CN=r' 01 01 ff")
    request = last(wire, lambda session: session.rename(DN, "CN=r", "DC=y"))
    assert request == ber("6c 1a 04 09 'CN=q,DC=x' 04 04 'CN=r' 01 01 ff 80 04 'DC=y'")


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_the_enterprise_is_looked_for_at_its_place(wire: tuple[Session, Recorder]) -> None:
    request = last(wire, lambda session: session.check_msmq())
    place = "CN=MsmqServices,CN=Services,CN=Configuration,dc=example,dc=com"
    assert octet_string(place) in bytes.fromhex(request)
