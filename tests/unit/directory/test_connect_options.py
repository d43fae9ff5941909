"""Connection settings are checked against each other before anything is sent."""

import pickle
import traceback
from typing import Any

import pytest

import mqdssm
from mqdssm.directory.connect import trust
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.secret import Secret
from mqdssm.errors import ConfigError

USER = {"user": "cn=admin,dc=example,dc=com", "password": "s3cr3t-words"}


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "tls", "expected"),
        [
            ("ldap://host", None, ("starttls", "host", 389, None)),
            ("ldap://host:3890", "starttls", ("starttls", "host", 3890, None)),
            ("LDAP://Host:3890/", "none", ("none", "host", 3890, None)),
            ("ldap://host", "ldaps", ("ldaps", "host", 636, None)),
            ("ldaps://host", None, ("ldaps", "host", 636, None)),
            ("ldaps://[::1]:1636", "ldaps", ("ldaps", "::1", 1636, None)),
            ("ldapi://%2Frun%2Fa%20b%2Fldapi", None, ("none", None, 0, "/run/a b/ldapi")),
            ("ldapi://%2Fsock", "none", ("none", None, 0, "/sock")),
        ],
    )
    def test_default_of_tls_comes_from_the_url(self, url: str, tls: Any, expected: tuple[Any, ...]) -> None:
        endpoint = Endpoint.parse(url, tls)
        assert (endpoint.tls, endpoint.host, endpoint.port, endpoint.path) == expected
        assert endpoint.url == url

    @pytest.mark.parametrize(
        ("url", "tls"),
        [
            ("ldaps://host", "starttls"),
            ("ldaps://host", "none"),
            ("ldapi://%2Fsock", "starttls"),
            ("ldapi://sock", None),
            ("ldapi://", None),
            ("ldap://", None),
            ("http://host", None),
            ("host", None),
            ("ldap://host:port", None),
            ("ldap://host:99999", None),
            ("ldap://host/dc=example,dc=com??sub", None),
            ("ldap://host/dc=example", None),
        ],
    )
    def test_what_is_no_url_for_us(self, url: str, tls: Any) -> None:
        with pytest.raises(ConfigError):
            Endpoint.parse(url, tls)

    def test_no_password_in_a_url_and_none_in_its_error(self) -> None:
        with pytest.raises(ConfigError) as caught:
            Endpoint.parse("ldap://me:s3cr3t-words@host", None)
        assert "s3cr3t" not in str(caught.value)

    def test_a_list_keeps_its_order(self) -> None:
        options = ConnectionOptions.of(["ldap://a", "ldaps://b"], **USER)
        assert [(one.host, one.tls) for one in options.endpoints] == [("a", "starttls"), ("b", "ldaps")]
        with pytest.raises(ConfigError):
            ConnectionOptions.of([])


class TestClearText:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "[::1]", "localhost", "LOCALHOST."])
    def test_loopback_is_allowed(self, host: str) -> None:
        assert ConnectionOptions.of(f"ldap://{host}", tls="none", **USER).endpoints

    @pytest.mark.parametrize("host", ["10.0.0.1", "192.0.2.1", "[2001:db8::1]", "[fe80::1]"])
    def test_another_machine_is_refused_unless_asked_for_by_name(self, host: str) -> None:
        with pytest.raises(ConfigError, match="clear text") as caught:
            ConnectionOptions.of(f"ldap://{host}", tls="none", **USER)
        assert USER["password"] not in str(caught.value)
        assert ConnectionOptions.of(f"ldap://{host}", tls="none", allow_clear_text=True, **USER).endpoints
        assert ConnectionOptions.of(f"ldap://{host}", tls="none").endpoints  # anonymous: no password
        assert ConnectionOptions.of(f"ldap://{host}", **USER).endpoints[0].tls == "starttls"

    def test_one_bad_server_of_a_list_is_enough(self) -> None:
        with pytest.raises(ConfigError, match="clear text"):
            ConnectionOptions.of(["ldap://127.0.0.1", "ldap://192.0.2.1"], tls="none", **USER)


class TestOtherSettings:
    @pytest.mark.parametrize(
        "settings",
        [
            {"tls": "yes"},
            {"user": "cn=a"},
            {"user": "cn=a", "password": ""},
            {"password": "x"},
            {"connect_timeout_s": 0},
            {"operation_timeout_s": -1},
            {"page_size": 0},
            {"page_size": 10_000_000},
        ],
    )
    def test_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            ConnectionOptions.of("ldap://host", **settings)

    def test_ca_file_must_be_one(self, tmp_path: Any) -> None:
        empty = tmp_path / "empty.pem"
        empty.write_text("nothing")
        for path in (tmp_path / "missing.pem", empty):
            with pytest.raises(ConfigError, match=path.name):
                trust(ConnectionOptions.of("ldap://host", ca_file=str(path)))


class TestSecret:
    def test_shows_itself_to_nobody(self) -> None:
        secret = Secret("s3cr3t-words")
        options = ConnectionOptions.of("ldap://host", **USER)
        for text in (str(secret), repr(secret), f"{secret}", f"{secret!r}", repr(options), str(options)):
            assert "s3cr3t" not in text
        assert secret.reveal() == "s3cr3t-words"
        assert options.password == secret

    @pytest.mark.parametrize("call", [ConnectionOptions.of, mqdssm.connect], ids=["options", "connect"])
    @pytest.mark.parametrize(
        "settings",
        [{"tls": "yes"}, {"page_size": 0}, {"tls": "none"}],
        ids=["tls", "page size", "clear text"],
    )
    def test_no_variable_of_ours_shows_the_password(self, call: Any, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigError) as refused:
            call("ldap://192.0.2.1", **USER, **settings)
        shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
        ours = [frame for frame in shown.stack if "test_connect_options" not in frame.filename]
        assert any("password" in (frame.locals or {}) for frame in ours)
        assert not [frame.name for frame in ours if USER["password"] in str(frame.locals)]

    def test_is_a_value(self) -> None:
        assert Secret("a") == Secret("a") != Secret("b")
        assert Secret("a") != "a"
        assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
        assert Secret("a")
        assert not Secret("")
        assert pickle.loads(pickle.dumps(Secret("é"))).reveal() == "é"
