"""Logging in by GSS-SPNEGO and what is sealed afterwards, without a server."""

import contextlib
import socket
import struct
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from mqdssm.directory import failures, sasl
from mqdssm.directory.ber import integer, octet_string, sequence, tlv
from mqdssm.directory.channel import Channel
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.sasl import (
    PLAIN_BYTES_MAX,
    SEALED_BYTES_MAX,
    SaslLogIn,
    SealedTransport,
    make_channel_binding,
)
from mqdssm.errors import ConfigError, DirectoryNotConnected

PASSWORD = "s3cr3t-words"
SIGNED_WITH_SHA1: Final = b64decode(
    "MIIBcTCCARigAwIBAgIUMQD2ZK2aTxPRwCTXCg56FyMlcNQwCQYHKoZIzj0EATAOMQwwCgYDVQQDDANvbGQwIBcNMjYxMTIx"
    "MDUzMTA3WhgPMjEyNjEwMjgwNTMxMDdaMA4xDDAKBgNVBAMMA29sZDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKaLJySR"
    "r+KbefdU1nt/kG0IE7reO9j3FdK37afDU6yF0jq29ui+NITNcRo1FlxuA61c56GKkJ9Tli2m56rq4j+jUzBRMB0GA1UdDgQW"
    "BBS4QA/QUGrrSaI5iqZVo0A9uez+cjAfBgNVHSMEGDAWgBS4QA/QUGrrSaI5iqZVo0A9uez+cjAPBgNVHRMBAf8EBTADAQH/"
    "MAkGByqGSM49BAEDSAAwRQIgPx0a1B5toYwHoBSRfhuaNuBfemZXPQoHTBH9qVc/VzkCIQDb1NahVRSJlLE8ICUNrEFwYsew"
    "7e5Z/FhccsSFS/DnWQ=="
)
"""A certificate as DER; today's libraries do not make such any more."""


class Reversing:
    """A layer that can be seen through."""

    def seal(self, data: bytes) -> bytes:
        return b"S" + data[::-1]

    def open(self, data: bytes) -> bytes:
        if not data.startswith(b"S"):
            raise OSError("changed on its way")
        return data[:0:-1]


def framed(data: bytes) -> bytes:
    sealed = Reversing().seal(data)
    return struct.pack(">I", len(sealed)) + sealed


@pytest.fixture
def pair() -> Iterator[tuple[SealedTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    transport = SealedTransport(ours, Reversing())
    transport.settimeout(5)
    with ours, theirs:
        yield transport, theirs


class TestSealedTransport:
    def test_each_buffer_has_its_length(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        transport.sendall(b"abc")
        assert theirs.recv(100) == b"\x00\x00\x00\x04Scba"

    def test_long_requests_become_several(self) -> None:
        class Sink(Server):
            def settimeout(self, seconds: float | None) -> None:
                pass

        sink = Sink()
        data = bytes(range(256)) * 600
        SealedTransport(sink, Reversing()).sendall(data)
        pieces = [data[start : start + PLAIN_BYTES_MAX] for start in range(0, len(data), PLAIN_BYTES_MAX)]
        assert sink.requests == [framed(piece) for piece in pieces]
        assert len(pieces) == 3

    def test_answers_in_any_pieces(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        stream = framed(b"one") + framed(b"") + framed(b"two")
        for cut in range(len(stream)):
            theirs.sendall(stream[:cut])
            theirs.sendall(stream[cut:])
            assert transport.recv(2) + transport.recv(100) == b"one"
            assert transport.recv(100) == b"two"

    def test_the_end(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        theirs.sendall(framed(b"last")[:-1])
        theirs.shutdown(socket.SHUT_WR)
        assert transport.recv(100) == b""

    def test_what_was_changed_breaks_the_connection(
        self, pair: tuple[SealedTransport, socket.socket]
    ) -> None:
        transport, theirs = pair
        theirs.sendall(struct.pack(">I", 3) + b"abc")
        with pytest.raises(OSError, match="changed"):
            transport.recv(10)

    def test_a_buffer_that_cannot_be(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        theirs.sendall(struct.pack(">I", SEALED_BYTES_MAX + 1))
        with pytest.raises(OSError, match="sealed buffer of"):
            transport.recv(10)

    def test_dripping_does_not_prolong_the_limit(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        transport.settimeout(0.2)
        theirs.sendall(framed(b"abc")[:3])
        since = time.monotonic()
        with pytest.raises(TimeoutError):
            transport.recv(10)
        with pytest.raises(TimeoutError):
            transport.recv(10)  # the same limit, which is over
        assert time.monotonic() - since < 2

    def test_a_buffer_that_comes_in_drops(self, pair: tuple[SealedTransport, socket.socket]) -> None:
        transport, theirs = pair
        buffer = framed(b"x" * 60)  # each drop comes well within the limit, all of them do not

        def drip() -> None:
            with contextlib.suppress(OSError):
                for octet in buffer:
                    theirs.sendall(bytes([octet]))
                    time.sleep(0.05)

        dripping = threading.Thread(target=drip)
        transport.settimeout(0.4)
        since = time.monotonic()
        dripping.start()
        with pytest.raises(TimeoutError):
            transport.recv(10)
        assert time.monotonic() - since < 1.5
        theirs.shutdown(socket.SHUT_RDWR)
        dripping.join()

    def test_an_idle_channel_is_looked_at_without_waiting(
        self, pair: tuple[SealedTransport, socket.socket]
    ) -> None:
        transport, theirs = pair
        channel = Channel(transport, "ldap://x", 1, OperationObserver())
        assert channel.is_usable()
        theirs.close()
        assert not channel.is_usable()
        channel.close()


def bind_answer(number: int, code: int, credentials: bytes | None = None, text: str = "") -> bytes:
    content = integer(code, 0x0A) + octet_string(b"") + octet_string(text.encode())
    if credentials is not None:
        content += tlv(0x87, credentials)
    return sequence(integer(number), tlv(0x61, content))


class Server:
    """The other end of a log-in: answers one after the other."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.requests.append(data)

    def recv(self, size: int) -> bytes:
        return self.answers.pop(0) if self.answers else b""


class Context:
    """A security context of two legs."""

    def __init__(self, attributes: Any = None) -> None:
        import spnego

        sealing = spnego.ContextReq.integrity | spnego.ContextReq.confidentiality
        self.context_attr = sealing if attributes is None else attributes
        self.complete = False
        self.tokens: list[bytes | None] = []

    def step(self, token: bytes | None = None) -> bytes | None:
        self.tokens.append(token)
        self.complete = len(self.tokens) > 1
        return b"token%d" % len(self.tokens)


def log_in(monkeypatch: pytest.MonkeyPatch, context: Any = None, **settings: Any) -> SaslLogIn:
    options = ConnectionOptions.of(
        "ldap://dc1.contoso.test",
        **({"user": "me@contoso.test", "password": PASSWORD, "authentication": "spnego"} | settings),
    )
    if context is not None:
        import spnego

        monkeypatch.setattr(spnego, "client", lambda *_, **__: context)
    return SaslLogIn(options, options.endpoints[0], None)


class TestLogIn:
    def test_two_legs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        context = Context()
        server = Server(bind_answer(5, 14, b"challenge"), bind_answer(6, 0, b"done"))
        assert log_in(monkeypatch, context).run(server, 5) is not None
        assert context.tokens == [None, b"challenge", b"done"]
        assert b"GSS-SPNEGO" in server.requests[0]
        assert b"token1" in server.requests[0]
        assert b"token2" in server.requests[1]

    def test_over_tls_nothing_is_sealed_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = log_in(monkeypatch, Context())
        asked: dict[str, Any] = {}
        import spnego

        def client(*_: Any, **more: Any) -> Context:
            asked.update(more)
            return Context()

        monkeypatch.setattr(spnego, "client", client)
        secured = SaslLogIn(made.options, made.endpoint, certificate(hashes.SHA256()))
        assert secured.run(Server(bind_answer(1, 0)), 1) is None
        assert asked["channel_bindings"].application_data.startswith(b"tls-server-end-point:")
        assert asked["context_req"] & spnego.ContextReq.no_integrity
        assert not asked["context_req"] & spnego.ContextReq.confidentiality

    def test_a_server_that_does_not_seal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import spnego

        context = Context(spnego.ContextReq.integrity)
        with pytest.raises(DirectoryNotConnected, match="without signing and sealing"):
            log_in(monkeypatch, context).run(Server(bind_answer(1, 14, b"x"), bind_answer(2, 0, b"y")), 1)

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"", "closed the connection"),
            (b"GET / HTTP/1.1\r\n", "broke the LDAP protocol"),
            (bind_answer(9, 0), "broke the LDAP protocol"),
            (sequence(integer(1), tlv(0x65, b"")), "0x65"),
            (bind_answer(1, 0) + bind_answer(1, 0), "broke the LDAP protocol"),
        ],
    )
    def test_odd_answers(self, monkeypatch: pytest.MonkeyPatch, answer: bytes, words: str) -> None:
        with pytest.raises(OSError, match=words):
            log_in(monkeypatch, Context()).run(Server(answer), 1)

    def test_a_log_in_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = [bind_answer(number, 14, b"again") for number in range(1, 100)]
        with pytest.raises(DirectoryNotConnected, match="come to an end"):
            log_in(monkeypatch, Context()).run(Server(*answers), 1)

    @pytest.mark.parametrize(
        ("text", "words", "cure"),
        [
            ("80090308: LdapErr: DSID-0C0903A9, comment: AcceptSecurityContext error, data 52e, v1db1",
             "unknown user or wrong password", "password"),
            ("80090308: LdapErr: DSID-0C090334, data 775, v1db0", "locked", "unlocked"),
            ("80090308: LdapErr: DSID-0C090334, data 533, v1db0", "disabled", "enable"),
            ("80090308: LdapErr: DSID-0C090334, data 532, v1db0", "password has expired", "new one"),
            ("80090308: LdapErr: DSID-0C090334, data 773, v1db0", "must be changed", "new one"),
            ("80090308: LdapErr: DSID-0C090334, data 701, v1db0", "account has expired", "prolong"),
            ("80090308: LdapErr: DSID-0C090334, data 57, v1db0", "no protection", "seal"),
            ("80090346: LdapErr: DSID-0C090597, data 80090346, v4563", "channel binding", "LDAPS"),
            ("Simple Bind Failed: NT_STATUS_LOGON_FAILURE", "unknown user or wrong password", "user"),
        ],
    )  # fmt: skip
    def test_refusals_name_the_cure(
        self, monkeypatch: pytest.MonkeyPatch, text: str, words: str, cure: str
    ) -> None:
        with pytest.raises(DirectoryNotConnected, match=words) as caught:
            log_in(monkeypatch, Context()).run(Server(bind_answer(1, 49, text=text)), 1)
        assert caught.value.ldap_code == 49
        assert caught.value.server_text == text
        assert cure in caught.value.hint

    @pytest.mark.parametrize(
        ("words", "meaning"),
        [
            ("Minor (2529638949): Clock skew too great", "clocks differ"),
            ("Minor: Server not found in Kerberos database", "does not know the server"),
            ("Cannot find KDC for realm CONTOSO.TEST", "no key distribution centre is known"),
            ("Client 'x@R' not found in Kerberos database", "no such user"),
            ("No Kerberos credentials available (default cache: FILE:/x)", "no ticket"),
            ("Ticket expired", "ticket has expired"),
            ("Preauthentication failed", "wrong password"),
            ("Client's credentials have been revoked", "locked, disabled"),
            ("Key table file '/x' not found", "no security context"),
            ("Keytab FILE:/x is nonexistent or empty", "keytab cannot be used"),
            ("something new", "no security context"),
        ],
    )
    def test_what_kerberos_says(self, monkeypatch: pytest.MonkeyPatch, words: str, meaning: str) -> None:
        class Refusing(Context):
            def step(self, token: bytes | None = None) -> bytes | None:
                raise RuntimeError(words)

        with pytest.raises(DirectoryNotConnected, match=meaning) as caught:
            log_in(monkeypatch, Refusing()).run(Server(), 1)
        assert caught.value.hint
        assert words in str(caught.value)
        wrong = "wrong password" in meaning
        assert caught.value.ldap_code == (failures.INVALID_CREDENTIALS if wrong else None)

    def test_missing_libraries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "spnego", None)
        with pytest.raises(ConfigError, match=r"mqdssm\[ad\]"):
            log_in(monkeypatch).run(Server(), 1)

    def test_missing_kerberos(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Missing(Context):
            def step(self, token: bytes | None = None) -> bytes | None:
                raise ImportError("No module named 'gssapi'")

        with pytest.raises(ConfigError, match=r"mqdssm\[kerberos\]"):
            log_in(monkeypatch, Missing()).run(Server(), 1)

    def test_the_password_is_in_no_frame_of_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Refusing(Context):
            def step(self, token: bytes | None = None) -> bytes | None:
                secret = PASSWORD
                raise RuntimeError(f"no {len(secret)}")

        with pytest.raises(DirectoryNotConnected) as caught:
            log_in(monkeypatch, Refusing()).run(Server(), 1)
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.__traceback__ is None


class TestLayer:
    def test_what_is_not_sealed_is_refused(self) -> None:
        class Unwrapped:
            data = b"plain"
            encrypted = False

        class Open(Context):
            def unwrap(self, data: bytes) -> Unwrapped:
                return Unwrapped()

            def wrap(self, data: bytes, encrypt: bool) -> None:
                raise RuntimeError("the ticket has ended")

        layer = sasl.SecurityLayer(Open())
        with pytest.raises(OSError, match="not sealed"):
            layer.open(b"x")
        with pytest.raises(OSError, match="cannot be sealed"):
            layer.seal(b"x")


def certificate(algorithm: Any) -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dc1")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, algorithm)
        .public_bytes(sasl_encoding())
    )


def sasl_encoding() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        (hashes.SHA256(), hashes.SHA256()),
        (hashes.SHA384(), hashes.SHA384()),
        (hashes.SHA512(), hashes.SHA512()),
    ],
    ids=lambda one: one.name,
)
def test_channel_binding(algorithm: Any, digest: Any) -> None:
    made = certificate(algorithm)
    expected = hashes.Hash(digest)
    expected.update(made)
    assert make_channel_binding(made).application_data == b"tls-server-end-point:" + expected.finalize()


def test_channel_binding_of_old_certificates() -> None:
    """[RFC5929] 4.1: SHA-256 takes the place of SHA-1."""
    expected = sha256(SIGNED_WITH_SHA1).digest()
    found = make_channel_binding(SIGNED_WITH_SHA1)
    assert found.application_data == b"tls-server-end-point:" + expected


class TestOptions:
    def of(self, *urls: str, **settings: Any) -> ConnectionOptions:
        return ConnectionOptions.of(urls or "ldap://dc1", **settings)

    def test_what_seals_itself_needs_no_tls(self) -> None:
        user = {"user": "me@contoso.test", "password": PASSWORD}
        assert self.of(authentication="spnego", **user).endpoints[0].tls == "none"
        assert self.of("ldaps://dc1", authentication="spnego", **user).endpoints[0].tls == "ldaps"
        assert self.of(authentication="spnego", tls="starttls", **user).endpoints[0].tls == "starttls"
        assert self.of(authentication="simple", **user).endpoints[0].tls == "starttls"
        with pytest.raises(ConfigError, match="clear text"):
            self.of("ldap://10.0.0.1", authentication="simple", tls="none", **user)
        self.of("ldap://10.0.0.1", authentication="ntlm", **user).refuse_clear_text(
            self.of("ldap://10.0.0.1", authentication="ntlm", **user).endpoints[0]
        )

    def test_tickets_instead_of_passwords(self) -> None:
        assert self.of(authentication="kerberos").user is None
        assert self.of(authentication="kerberos", user="me@R").password is None
        assert self.of(authentication="kerberos", user="me@R", keytab="/k").keytab == "/k"

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"authentication": "digest"}, "use one of"),
            ({"authentication": "simple"}, "needs a user"),
            ({"authentication": "ntlm"}, "needs a user"),
            ({"authentication": "ntlm", "user": "me"}, "needs a password"),
            ({"authentication": "external"}, "ldapi"),
            ({"authentication": "spnego", "user": "CN=me,DC=r", "password": "x"}, "not by DN"),
            ({"authentication": "kerberos", "keytab": "/k"}, "keytab"),
            ({"authentication": "simple", "user": "a", "password": "b", "keytab": "/k"}, "keytab"),
        ],
    )
    def test_what_does_not_go_together(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            self.of(**settings)

    def test_local_sockets(self) -> None:
        self.of("ldapi://%2Fx", authentication="external")
        with pytest.raises(ConfigError, match="not for ldapi"):
            self.of("ldapi://%2Fx", authentication="kerberos")
