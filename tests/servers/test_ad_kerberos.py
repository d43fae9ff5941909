"""Logging in with Kerberos; needs the extra ``kerberos`` (gssapi), which is compiled for each system."""

import contextlib
import hashlib
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.directory.ber_reference import read_all
from support.servers.answers import encode_result
from support.servers.proxy import scripted_server
from support.servers.samba_tools import take_ticket

import mqdssm
from mqdssm.directory.ber import tlv
from mqdssm.directory.filters import TRUE
from mqdssm.directory.responses import BIND_RESPONSE
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController

gssapi = pytest.importorskip(
    "gssapi", reason="the extra 'kerberos' is not installed: pip install 'mqdssm[kerberos]'"
)


@pytest.fixture(scope="module")
def controller() -> Iterator[SambaDomainController]:
    with SambaDomainController(kerberos=True) as server:
        yield server


@pytest.fixture
def server(
    controller: SambaDomainController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SambaDomainController:
    monkeypatch.setenv("KRB5_CONFIG", controller.krb5_conf)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    return controller


def connect(server: SambaDomainController, **settings: Any) -> Directory:
    access: dict[str, Any] = {
        "authentication": "kerberos",
        "kerberos_host": server.dns_name,
        "ca_file": server.ca_file,
    }
    return mqdssm.connect(server.url, **(access | settings))


def export_keys(server: SambaDomainController, principal: str, keytab: Path) -> str:
    export = ["samba-tool", "domain", "exportkeytab", str(keytab), f"--principal={principal}"]
    subprocess.run([*export, "-s", server.settings_file], check=True, capture_output=True)
    return str(keytab)


class Acceptor:
    """A server of the domain that takes log-ins over its own TLS alone, and then hangs up."""

    def __init__(self, certificate: bytes) -> None:
        end_point = b"tls-server-end-point:" + hashlib.sha256(certificate).digest()
        self.bindings = gssapi.raw.ChannelBindings(application_data=end_point)
        self.accepted: list[bool] = []

    def __call__(self, connection: socket.socket) -> None:
        ((_, ((_, number), (_, bind))),) = read_all(connection.recv(65536))
        (_, (_, (_, token))) = bind[-1]
        context = gssapi.SecurityContext(usage="accept", channel_bindings=self.bindings)
        context.__DEFER_STEP_ERRORS__ = False  # nobody wants Kerberos' own error message
        try:
            answer = tlv(0x87, context.step(token) or b"")
        except gssapi.exceptions.BadChannelBindingsError:
            self.accepted.append(False)
            words = "80090346: LdapErr: DSID-0C090597, comment: AcceptSecurityContext error, data 80090346"
            connection.sendall(encode_result(int.from_bytes(number, "big"), BIND_RESPONSE, 49, text=words))
        else:
            self.accepted.append(context.complete)
            connection.sendall(encode_result(int.from_bytes(number, "big"), BIND_RESPONSE, more=answer))
        with contextlib.suppress(OSError):
            connection.recv(1)  # hanging up sooner could take the answer along


def is_administrator(directory: Directory) -> bool:
    session = directory.session
    assert len(list(session.find(session.naming.schema, TRUE, ["*"]))) > 1000  # several sealed buffers
    return (session.bound_sid() or "").endswith("-500")


@pytest.mark.parametrize("authentication", ["kerberos", "spnego"])
def test_password(server: SambaDomainController, authentication: str) -> None:
    settings = {"user": server.user, "password": server.password, "authentication": authentication}
    with connect(server, **settings) as directory:
        assert is_administrator(directory)


def test_ticket(server: SambaDomainController) -> None:
    with pytest.raises(mqdssm.DirectoryNotConnected, match="run kinit"):
        connect(server)
    take_ticket(server)
    with connect(server) as directory:
        assert is_administrator(directory)


def test_keytab(server: SambaDomainController, tmp_path: Path) -> None:
    keytab = export_keys(server, "Administrator", tmp_path / "keys")
    with connect(server, user=server.user, keytab=keytab) as directory:
        assert is_administrator(directory)
    with pytest.raises(mqdssm.DirectoryNotConnected, match="keytab cannot be used"):
        connect(server, user=server.user, keytab=str(tmp_path / "none"))


def test_what_goes_wrong_names_the_cure(server: SambaDomainController) -> None:
    with pytest.raises(mqdssm.DirectoryNotConnected, match="wrong password") as caught:
        connect(server, user=server.user, password="wrong")
    assert caught.value.ldap_code == 49
    with pytest.raises(mqdssm.DirectoryNotConnected, match="no such user"):
        connect(server, user=f"nobody@{server.realm}", password="x")
    with pytest.raises(mqdssm.DirectoryNotConnected, match="kerberos_host="):
        connect(server, user=server.user, password=server.password, kerberos_host=None)


def test_a_clock_that_is_wrong(server: SambaDomainController, tmp_path: Path) -> None:
    """The tickets say how far this machine's clock is from the domain's: an hour wrong is a wrong clock."""
    take_ticket(server)
    tickets = tmp_path / "tickets"
    data = bytearray(tickets.read_bytes())
    version, _, tag, length = struct.unpack(">HHHH", data[:8])
    assert (version, tag, length) == (0x0504, 1, 8)  # MIT's file, then the offset in seconds and microseconds
    data[8:12] = struct.pack(">i", 3600)
    tickets.write_bytes(data)
    with pytest.raises(mqdssm.DirectoryNotConnected, match="clocks differ too much") as caught:
        connect(server)
    assert "set this machine's clock by the domain's" in caught.value.hint


class TestOverTls:
    @pytest.fixture
    def lenient(
        self, server: SambaDomainController, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[SambaDomainController]:
        """One that takes SASL without a layer where there is TLS, as Windows does."""
        with SambaDomainController(kerberos=True, strong_auth="allow_sasl_over_tls") as other:
            monkeypatch.setenv("KRB5_CONFIG", other.krb5_conf)  # another address
            yield other

    @pytest.mark.parametrize("kind", ["ldaps", "starttls"])
    def test_nothing_is_sealed_twice(self, lenient: SambaDomainController, kind: str) -> None:
        urls = [lenient.ldaps_url if kind == "ldaps" else lenient.url]
        access = {"authentication": "kerberos", "kerberos_host": lenient.dns_name, "tls": kind}
        with mqdssm.connect(
            urls, user=lenient.user, password=lenient.password, ca_file=lenient.ca_file, **access
        ) as directory:
            assert is_administrator(directory)

    @pytest.mark.parametrize("same", [True, False], ids=["the same TLS", "another TLS"])
    def test_a_server_that_asks_for_channel_binding(
        self, server: SambaDomainController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
    ) -> None:
        """A server of the domain that knows its certificate; Samba does not look at bindings yet."""
        take_ticket(server)
        principal = f"ldap/{server.dns_name}"
        monkeypatch.setenv("KRB5_KTNAME", export_keys(server, principal, tmp_path / "keys"))
        tls = server.folder / "tls"
        own = ssl.PEM_cert_to_DER_cert((tls / "cert.pem").read_text())
        acceptor = Acceptor(own if same else b"of another server, and we are in between")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "cert.pem", tls / "key.pem")
        with (
            scripted_server(acceptor, context=context) as port,
            pytest.raises(mqdssm.DirectoryNotConnected) as caught,
        ):
            mqdssm.connect(
                f"ldaps://localhost:{port}",
                authentication="kerberos",
                kerberos_host=server.dns_name,
                ca_file=server.ca_file,
            )
        assert acceptor.accepted == [same]
        refused = "the channel binding was missing or wrong" in str(caught.value)
        assert refused is not same, str(caught.value)
