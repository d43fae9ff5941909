"""The call of ldap3: every option is written out, and says what it must."""

import inspect
import ssl
import time
from typing import Any

import ldap3
import pytest
from support.servers.proxy import scripted_server

from mqdssm.directory import connect
from mqdssm.directory.connect import Attempt, open_channel, trust
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions
from mqdssm.errors import DirectoryNotConnected


class _SeenError(Exception):
    pass


def seen_call(monkeypatch: pytest.MonkeyPatch, url: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """What `open_channel` hands to ldap3, without connecting."""
    calls: dict[str, dict[str, Any]] = {}
    server = ldap3.Server

    def spy_server(**options: Any) -> Any:
        calls["server"] = options
        return server(**options)

    def spy_connection(server: Any, **options: Any) -> Any:
        calls["connection"] = options
        raise _SeenError

    monkeypatch.setattr(connect.ldap3, "Server", spy_server)
    monkeypatch.setattr(connect.ldap3, "Connection", spy_connection)
    options = ConnectionOptions.of(url, **settings)
    attempt = Attempt(options, options.endpoints[0], trust(options), time.monotonic() + 7)
    with pytest.raises(_SeenError):
        open_channel(attempt, OperationObserver())
    return calls


SIMPLE = {"user": "cn=admin,dc=example,dc=com", "password": "s3cr3t"}


def test_no_option_is_left_to_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    connection_options = set(inspect.signature(ldap3.Connection).parameters) - {"server"}
    server_options = set(inspect.signature(ldap3.Server).parameters)
    calls = seen_call(monkeypatch, "ldap://127.0.0.1:1", **SIMPLE)
    assert set(calls["connection"]) == connection_options
    assert set(calls["server"]) == server_options


def test_simple_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = seen_call(monkeypatch, "ldap://127.0.0.1:1", **SIMPLE)
    server = calls["server"]
    tls = server.pop("tls")
    assert tls.validate == ssl.CERT_REQUIRED
    assert 6 < server.pop("connect_timeout") <= 7
    assert server == {
        "host": "127.0.0.1",
        "port": 1,
        "use_ssl": False,
        "allowed_referral_hosts": [],
        "get_info": ldap3.NONE,
        "formatter": None,
        "mode": ldap3.IP_SYSTEM_DEFAULT,
        "validator": None,
    }
    assert calls["connection"] == {
        "user": SIMPLE["user"],
        "password": SIMPLE["password"],
        "auto_bind": ldap3.AUTO_BIND_NONE,
        "version": 3,
        "authentication": ldap3.SIMPLE,
        "client_strategy": ldap3.SYNC,
        "auto_referrals": False,
        "auto_range": False,
        "sasl_mechanism": None,
        "sasl_credentials": None,
        "check_names": False,
        "collect_usage": False,
        "read_only": False,
        "lazy": False,
        "raise_exceptions": True,
        "pool_name": None,
        "pool_size": None,
        "pool_lifetime": None,
        "cred_store": None,
        "fast_decoder": True,
        "receive_timeout": None,
        "return_empty_attributes": False,
        "use_referral_cache": False,
        "auto_escape": False,
        "auto_encode": False,
        "pool_keepalive": None,
        "source_address": None,
        "source_port": None,
        "source_port_list": None,
    }


def test_other_ways_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    external = seen_call(monkeypatch, "ldapi://%2Ftmp%2Fa%25b%2Fldapi")
    assert external["server"]["host"] == "ldapi://%2Ftmp%2Fa%25b%2Fldapi"
    assert external["server"]["tls"] is None
    assert external["connection"]["authentication"] == ldap3.SASL
    assert external["connection"]["sasl_mechanism"] == ldap3.EXTERNAL
    with_password = seen_call(monkeypatch, "ldapi://%2Ftmp%2Fldapi", **SIMPLE)
    assert with_password["connection"]["authentication"] == ldap3.SIMPLE
    anonymous = seen_call(monkeypatch, "ldaps://127.0.0.1:1")
    assert anonymous["connection"]["authentication"] == ldap3.ANONYMOUS
    assert anonymous["server"]["use_ssl"] is True


def test_certificate_and_name_are_always_verified() -> None:
    context = trust(ConnectionOptions.of("ldap://host"))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is True
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_talkative_stranger_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "BIND_ANSWER_BYTES_MAX", 5000)

    def talk(connection: Any) -> None:
        connection.recv(100)
        connection.sendall(b"\x30\x84\x01\x00\x00\x00")  # a message of 16 MiB
        while True:
            connection.sendall(b"x" * 1000)

    with scripted_server(talk) as port:
        options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none")
        attempt = Attempt(options, options.endpoints[0], trust(options), time.monotonic() + 20)
        with pytest.raises(DirectoryNotConnected, match="more than 5000 bytes"):
            open_channel(attempt, OperationObserver())
