"""Certificates are always verified, and the password never leaves before they are."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.servers import answers
from support.servers.proxy import Proxy, scripted_server
from support.servers.sessions import options_for
from support.servers.tls_material import ServerTls, server_tls

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.responses import EXTENDED_RESPONSE, MessageSplitter
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.testing.openldap import OpenLdapServer

PASSWORD = "s3cr3t-words"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> ServerTls:
    return server_tls(tmp_path_factory.mktemp("tls") / "good")


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> ServerTls:
    return server_tls(tmp_path_factory.mktemp("tls") / "expired", expired=True)


@pytest.fixture(scope="module")
def other_name(tmp_path_factory: pytest.TempPathFactory) -> ServerTls:
    return server_tls(tmp_path_factory.mktemp("tls") / "other", address="192.0.2.7")


class FakeServer:
    """Speaks StartTLS or LDAPS with any certificate, lets everybody in, and keeps what it was sent."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self.heard = b""

    def starttls(self, connection: object) -> None:
        splitter = MessageSplitter()
        _, (request,) = splitter.feed(connection.recv(4096))  # type: ignore[attr-defined]
        connection.sendall(answers.encode_result(request.id, EXTENDED_RESPONSE))  # type: ignore[attr-defined]
        with self._tls.context.wrap_socket(connection, server_side=True) as secured:  # type: ignore[arg-type]
            self.ldaps(secured)

    def ldaps(self, connection: object) -> None:
        talk = answers.conversation(answers.bind_done, answers.openldap_root_dse)
        receive = connection.recv  # type: ignore[attr-defined]

        def heard(size: int) -> bytes:
            data: bytes = receive(size)
            self.heard += data
            return data

        talk(SimpleNamespace(recv=heard, sendall=connection.sendall))  # type: ignore[attr-defined,arg-type]


def attempt(server_side: ServerTls, ca_file: str | None, kind: str) -> FakeServer:
    """Connect to a fake server; returns it when that worked."""
    server = FakeServer(server_side)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        script: Callable[..., None] = server.starttls if kind == "starttls" else server.ldaps
        context: ssl.SSLContext | None = None if kind == "starttls" else server_side.context
        with scripted_server(script, context=context) as port:
            scheme = "ldap" if kind == "starttls" else "ldaps"
            options = ConnectionOptions.of(
                f"{scheme}://127.0.0.1:{port}", user="cn=me", password=PASSWORD, ca_file=ca_file
            )
            try:
                Session.open(options).close()
            finally:
                assert (PASSWORD.encode() in server.heard) == (server.heard != b"")
    return server


@pytest.mark.parametrize("kind", ["starttls", "ldaps"])
class TestCertificates:
    def test_good_one(self, good: ServerTls, kind: str) -> None:
        assert PASSWORD.encode() in attempt(good, good.ca_file, kind).heard

    def test_unknown_authority(self, good: ServerTls, other_name: ServerTls, kind: str) -> None:
        for ca_file in (other_name.ca_file, None):
            with pytest.raises(DirectoryNotConnected, match="certificate is not trusted") as caught:
                attempt(good, ca_file, kind)
            assert "ca_file" in caught.value.hint
            assert "password was not sent" in caught.value.hint
            assert PASSWORD not in str(caught.value)

    def test_wrong_host_name(self, other_name: ServerTls, kind: str) -> None:
        with pytest.raises(DirectoryNotConnected, match=r"is not for '127\.0\.0\.1'"):
            attempt(other_name, other_name.ca_file, kind)

    def test_expired(self, expired: ServerTls, kind: str) -> None:
        with pytest.raises(DirectoryNotConnected, match="expired") as caught:
            attempt(expired, expired.ca_file, kind)
        assert "renew it on the server" in caught.value.hint
        assert "ca_file" not in caught.value.hint
        assert "password was not sent" in caught.value.hint

    @pytest.mark.parametrize("what", ["key", "authority"])
    def test_too_weak(self, tmp_path: Path, kind: str, what: str) -> None:
        weak = server_tls(tmp_path / "weak", **{f"{what}_bits": 1024})
        with pytest.raises(DirectoryNotConnected, match="is not trusted") as caught:
            attempt(weak, weak.ca_file, kind)
        assert "RSA of 2,048 bits" in caught.value.hint


class TestSlapd:
    @pytest.fixture
    def elsewhere(self, openldap_server: OpenLdapServer) -> Iterator[Proxy]:
        """Another address that leads to the server, and does not stand in its certificate."""
        with Proxy("127.0.0.1", openldap_server.port, listen_on="127.0.0.2") as proxy:
            yield proxy

    def test_every_way_in(self, openldap_server: OpenLdapServer) -> None:
        named = openldap_server.url.replace("127.0.0.1", "localhost")
        for url in (openldap_server.url, openldap_server.ldaps_url, named):
            with Session.open(options_for(openldap_server, url)) as session:
                assert session.bound_name() == openldap_server.user
        with Session.open(ConnectionOptions.of(openldap_server.ldapi_url)) as session:
            assert session.bound_name() == openldap_server.user  # SASL EXTERNAL

    def test_wrong_host_name(self, openldap_server: OpenLdapServer, elsewhere: Proxy) -> None:
        with pytest.raises(DirectoryNotConnected, match=r"is not for '127\.0\.0\.2'"):
            Session.open(options_for(openldap_server, elsewhere.url))
        seen = b"".join(bytes(one.up) for one in elsewhere.recordings)
        assert openldap_server.password.encode() not in seen

    def test_no_tls_where_tls_was_meant(self, openldap_server: OpenLdapServer) -> None:
        url = openldap_server.url.replace("ldap:", "ldaps:")
        with pytest.raises(DirectoryNotConnected, match="TLS could not be started"):
            Session.open(options_for(openldap_server, url))

    def test_server_without_starttls(self) -> None:
        refusal = answers.conversation(lambda number: answers.encode_result(number, EXTENDED_RESPONSE, 2))
        with scripted_server(refusal) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", user="cn=me", password=PASSWORD)
            with pytest.raises(DirectoryNotConnected, match="refuses StartTLS") as caught:
                Session.open(options)
        assert caught.value.ldap_code == 2

    def test_name_that_leads_to_another_machine_gets_no_clear_text(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether a name is this machine is known only when it is resolved."""
        import socket

        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 389))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        options = ConnectionOptions.of("ldap://nearby", tls="none", user="cn=me", password=PASSWORD)
        with pytest.raises(ConfigError, match="clear text"):
            Session.open(options)

    def test_name_without_address(self) -> None:
        with pytest.raises(DirectoryNotConnected, match="has no address"):
            Session.open(ConnectionOptions.of("ldap://nobody.invalid", connect_timeout_s=2))
