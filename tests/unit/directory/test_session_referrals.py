"""Referrals are never followed: they would carry the password to whatever host an answer names."""

import socket
from collections.abc import Callable, Iterator

import pytest
from support.servers import answers
from support.servers.proxy import scripted_server

from mqdssm.directory.ber import octet_string, sequence, tlv
from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.responses import ADD_RESPONSE, BIND_RESPONSE, SEARCH_DONE, SEARCH_REFERENCE
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError


@pytest.fixture
def trap() -> Iterator[tuple[str, list[str]]]:
    """A listener that must never get a connection: its URL, and who fell into it."""
    caught: list[str] = []

    def catch(connection: socket.socket) -> None:
        caught.append(str(connection.getpeername()))

    with scripted_server(catch) as port:
        yield f"ldap://127.0.0.1:{port}/DC=x", caught


def referral(url: str, tag: int) -> Callable[[int], bytes]:
    field = sequence(octet_string(url), tag=0xA3)
    return lambda number: answers.encode_result(number, tag, 10, more=field)


def test_referred_operations_are_errors(trap: tuple[str, list[str]]) -> None:
    url, caught = trap
    script = answers.conversation(
        answers.bind_done,
        answers.openldap_root_dse,
        referral(url, SEARCH_DONE),
        referral(url, SEARCH_DONE),
        referral(url, ADD_RESPONSE),
    )
    with scripted_server(script) as port:
        options = ConnectionOptions.of(
            f"ldap://127.0.0.1:{port}",
            tls="none",
            user="CN=me",
            password="s3cr3t-words",
            allow_replicated=True,  # no search before the first change
        )
        with Session.open(options) as session:
            for call in (
                lambda: session.get("DC=x", []),
                lambda: list(session.find("DC=x", TRUE, [])),
                lambda: session.add("CN=a,DC=x", {"objectClass": [b"container"]}),
            ):
                with pytest.raises(GenericDirectoryError, match="referral") as error:
                    call()
                assert error.value.ldap_code == 10
    assert caught == []


def test_referred_bind_is_an_error(trap: tuple[str, list[str]]) -> None:
    url, caught = trap
    with scripted_server(answers.conversation(referral(url, BIND_RESPONSE))) as port:
        options = ConnectionOptions.of(
            f"ldap://127.0.0.1:{port}", tls="none", user="CN=me", password="s3cr3t-words"
        )
        with pytest.raises(DirectoryNotConnected, match="referring to another"):
            Session.open(options)
    assert caught == []


def test_references_of_a_search_are_passed_over_and_counted(
    trap: tuple[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    url, caught = trap

    def reply(number: int, cookie: bytes) -> bytes:
        reference = answers.encode_message(number, tlv(SEARCH_REFERENCE, octet_string(url)))
        return answers.entry(number, "CN=a,DC=x") + reference + answers.search_done(number, cookie=cookie)

    script = answers.conversation(
        answers.bind_done,
        answers.openldap_root_dse,
        lambda number: reply(number, b"more"),
        lambda number: reply(number, b""),
        lambda number: reply(number, b""),
        lambda number: answers.entry(number, "CN=b,DC=x") + answers.search_done(number, cookie=b""),
    )
    with scripted_server(script) as port:
        options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none")
        with Session.open(options) as session:
            assert [one.dn for one in session.find("DC=x", TRUE, [])] == ["CN=a,DC=x"] * 2
            (warning,) = caplog.messages  # one a search, not one a page
            assert warning.startswith("the search below DC=x")
            assert "2 references were not followed" in warning
            assert session.get("DC=y", []).dn == "CN=a,DC=x"
            assert "DC=y" in caplog.messages[1]
            assert list(session.find("DC=z", TRUE, []))
    assert len(caplog.messages) == 2
    assert caught == []
