"""Every LDAP result code becomes one error of ours, with everything the server said."""

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from mqdssm.directory import failures
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.responses import LdapResult
from mqdssm.errors import (
    AttributeNotFound,
    DirectoryError,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)

NAMED = {32: ObjectNotFound, 16: AttributeNotFound, 68: ObjectAlreadyExists}
ENDPOINT = Endpoint.parse("ldap://server:389", None)
LOCAL = Endpoint.parse("ldapi://%2Frun%2Fldapi", None)
OPTIONS = ConnectionOptions.of("ldap://server:389", user="cn=me", password="s3cr3t-words")


@pytest.mark.spec("MS-MQDSSM 2.2.6")
@pytest.mark.parametrize("code", [*range(1, 124), 4096, 16673, 2**31 - 1])
def test_every_code_has_one_class(code: int) -> None:
    result = LdapResult(code, "cn=matched", "the server's words")
    error = failures.error_of(result, "modify", "cn=a,dc=x")
    assert type(error) is NAMED.get(code, GenericDirectoryError)
    assert error.ldap_code == code
    assert error.server_text == "the server's words"
    assert error.dn == "cn=a,dc=x"
    for part in ("modify failed", "cn=a,dc=x", f"LDAP result {code}", "the server's words"):
        assert part in str(error)


def test_missing_objects_say_what_there_is() -> None:
    error = failures.error_of(LdapResult(32, "cn=there"), "add", "cn=a,cn=gone,cn=there")
    assert "the deepest object there is: cn=there" in str(error)


@pytest.mark.parametrize(
    ("code", "words"),
    [(17, "mqdssm schema"), (4, "size.prtotal"), (50, "no right"), (66, "below it"), (13, "StartTLS")],
)
def test_hints_name_the_cure(code: int, words: str) -> None:
    assert words in failures.error_of(LdapResult(code), "search", None).hint


def refused(code: int, *, kind: str = "bindResponse", endpoint: Endpoint = ENDPOINT) -> DirectoryError:
    answer: Any = SimpleNamespace(result=code, message="words", type=kind)
    return failures.make_refusal(endpoint, OPTIONS, answer)


class TestConnecting:
    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (49, "wrong password"),
            (13, "StartTLS or LDAPS"),
            (8, "log-in"),
            (52, "unavailable"),
            (53, "kind of"),
        ],
    )
    def test_bind_is_refused(self, code: int, words: str) -> None:
        error = refused(code)
        assert words in str(error)
        assert error.ldap_code == code
        assert "cn=me" in str(error)
        assert "s3cr3t" not in str(error)

    def test_who_was_not_let_in(self) -> None:
        anonymous = ConnectionOptions.of("ldap://server:389")
        assert "anonymous" in str(failures.bind_refused(ENDPOINT, anonymous, 14, ""))
        assert "SASL EXTERNAL" in str(failures.bind_refused(LOCAL, anonymous, 0, ""))

    def test_starttls_is_refused(self) -> None:
        error = refused(2, kind="extendedResp")
        assert "refuses StartTLS" in str(error)
        assert "the password was not sent" in str(error)

    @pytest.mark.parametrize(
        ("endpoint", "problem", "words"),
        [
            (ENDPOINT, ConnectionRefusedError(111, "Connection refused"), "nobody listens"),
            (ENDPOINT, OSError("socket connection error: [Errno 111] Connection refused"), "nobody listens"),
            (ENDPOINT, TimeoutError("timed out"), "time limit"),
            (ENDPOINT, OSError("error: timed out"), "time limit"),
            (ENDPOINT, ssl.SSLError(1, "WRONG_VERSION_NUMBER"), "TLS could not be started"),
            (ENDPOINT, OSError("Network is unreachable"), "the connection failed: Network is unreachable"),
            (LOCAL, OSError("[Errno 2] No such file or directory"), "the socket cannot be opened"),
            (LOCAL, OSError("[Errno 13] Permission denied"), "the socket cannot be opened"),
        ],
    )
    def test_no_connection(self, endpoint: Endpoint, problem: Exception, words: str) -> None:
        error = failures.make_not_connected(endpoint, problem)
        assert words in str(error)
        assert endpoint.url in str(error)
        assert error.hint

    def test_name_without_address(self) -> None:
        assert "'server'" in str(failures.make_not_resolved(ENDPOINT, OSError("Name or service not known")))
