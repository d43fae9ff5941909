"""The proxy that makes Samba and slapd as narrow as a domain controller of Windows is."""

import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import ldap3
import pytest
from ldap3.protocol.rfc2696 import paged_search_control
from support.servers.limits_proxy import LimitsProxy
from support.servers.limits_rules import Limits, odd_value, windows_escapes
from support.servers.samba_tools import SambaTools
from support.servers.sessions import container

from mqdssm.directory.filters import Equal, parse_text
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session
from mqdssm.testing import OpenLdapServer, SambaDomainController
from mqdssm.testing.accounts import Connection, connect_over_tls
from mqdssm.testing.ldap.requests import LdapRequest

AnyServer = OpenLdapServer | SambaDomainController


@pytest.fixture(params=["samba", "openldap"])
def server(request: pytest.FixtureRequest) -> AnyServer:
    found: AnyServer = request.getfixturevalue(f"{request.param}_server")
    return found


@contextmanager
def proxy_for(server: AnyServer, folder: Path, **limits: Any) -> Iterator[LimitsProxy]:
    parts = urllib.parse.urlsplit(server.ldaps_url)
    assert parts.hostname
    privileged = None
    if isinstance(server, SambaDomainController):
        privileged = server.folder / "private" / "ldap_priv" / "ldapi"
    with LimitsProxy(
        parts.hostname,
        parts.port or 636,
        folder / "proxy",
        ca_file=server.ca_file,
        limits=Limits(**limits),
        system_socket=privileged,
    ) as proxy:
        yield proxy


@contextmanager
def connected(proxy: LimitsProxy, server: AnyServer, **more: Any) -> Iterator[Connection]:
    """A client that raises nothing: `result` tells."""
    connection = connect_over_tls(proxy.ldaps_url, server.user, server.password, proxy.ca_file)
    connection.raise_exceptions = False
    connection.auto_range = False
    connection.empty_attributes = False
    for name, value in more.items():
        setattr(connection, name, value)
    with connection:
        yield connection


@pytest.fixture
def folder_of_objects(server: AnyServer) -> Iterator[str]:
    """A container with 25 containers in it, on the server itself."""
    dn = f"CN=limits-{uuid4()},CN=Computers,{server.base_dn}"
    with connect_over_tls(server.ldaps_url, server.user, server.password, server.ca_file) as direct:
        _add_container(direct, server, dn)
        for number in range(25):
            _add_container(direct, server, f"CN=c{number:02},{dn}")
        yield dn
        for number in range(25):
            direct.delete(f"CN=c{number:02},{dn}")
        direct.delete(dn)


def _add_container(connection: Connection, server: AnyServer, dn: str) -> None:
    own = {"objectGUID": [uuid4().bytes_le]} if isinstance(server, OpenLdapServer) else {}
    connection.add(dn, ["top", "container"], own)


def found(connection: Connection) -> list[str]:
    return [one["dn"] for one in connection.response if one["type"] == "searchResEntry"]


def paged(
    connection: Connection, base: str, size: int, cookie: bytes = b"", **more: Any
) -> tuple[int, bytes]:
    connection.search(
        base,
        "(cn=c*)",
        attributes=["cn"],
        controls=[paged_search_control(True, size, cookie)],
        **more,
    )
    control = connection.result["controls"]["1.2.840.113556.1.4.319"]
    return len(found(connection)), control["value"]["cookie"]


def test_no_more_than_a_page_without_pages(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    with proxy_for(server, tmp_path, page_entries=25) as proxy, connected(proxy, server) as connection:
        connection.search(folder_of_objects, "(cn=c*)", attributes=["cn"])
        assert (len(found(connection)), connection.result["result"]) == (25, 0)
        proxy.limits.page_entries = 24
        connection.search(folder_of_objects, "(cn=c*)", attributes=["cn"])
        assert (len(found(connection)), connection.result["result"]) == (24, 4)
        connection.search(folder_of_objects, "(cn=c*)", attributes=["cn"], size_limit=10)
        assert (len(found(connection)), connection.result["result"]) == (10, 4)
        assert len(proxy.cut) >= 1


def test_pages_are_no_larger_than_allowed(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    with proxy_for(server, tmp_path, page_entries=10) as proxy, connected(proxy, server) as connection:
        count, cookie = paged(connection, folder_of_objects, 1000)
        assert (count, bool(cookie)) == (10, True)
        count, cookie = paged(connection, folder_of_objects, 1000, cookie)
        assert (count, bool(cookie)) == (10, True)
        count, cookie = paged(connection, folder_of_objects, 1000, cookie)
        assert (count, cookie) == (5, b"")
        count, cookie = paged(connection, folder_of_objects, 4)
        assert (count, bool(cookie)) == (4, True)


def test_values_come_in_ranges(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    group = f"CN=group,{folder_of_objects}"
    members = [f"CN=c{number:02},{folder_of_objects}" for number in range(25)]
    with connect_over_tls(server.ldaps_url, server.user, server.password, server.ca_file) as direct:
        own = {"objectGUID": [uuid4().bytes_le]} if isinstance(server, OpenLdapServer) else {}
        direct.add(group, ["top", "group"], {"member": members, **own})
    try:
        with proxy_for(server, tmp_path, range_values=10) as proxy, connected(proxy, server) as connection:

            def read(name: str) -> dict[str, list[bytes]]:
                connection.search(group, "(objectClass=*)", ldap3.BASE, attributes=[name])
                return {
                    key: value for key, value in connection.response[0]["raw_attributes"].items() if value
                }

            first = read("member")
            second = read("member;range=10-*")
            third = read("member;range=20-*")
            assert [*first, *second, *third] == [
                "member;range=0-9",
                "member;range=10-19",
                "member;range=20-*",
            ]
            collected = [
                value.decode() for part in (first, second, third) for value in next(iter(part.values()))
            ]
            assert sorted(map(str.lower, collected)) == sorted(map(str.lower, members))
            assert list(read("member;range=3-5")) == ["member;range=3-5"]
            assert read("member;range=25-*") == {}
            proxy.limits.range_values = 25
            assert list(read("member")) == ["member"]
    finally:
        with connect_over_tls(server.ldaps_url, server.user, server.password, server.ca_file) as direct:
            direct.delete(group)


def test_common_names_of_64_units(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    with proxy_for(server, tmp_path) as proxy, connected(proxy, server) as connection:
        for value, expected in (
            ("n" * 64, 0),
            ("n" * 65, 19),
            ("\U0001f600" * 32, 0),
            ("\U0001f600" * 33, 19),
        ):
            dn = f"CN={value},{folder_of_objects}"
            _add_container(connection, server, dn)
            assert connection.result["result"] == expected
            if expected == 0:
                connection.modify_dn(dn, f"CN={'r' * 65}")
                assert connection.result["result"] == 19
                connection.delete(dn)
                assert connection.result["result"] == 0
        assert "00002082: AtrErr" in proxy.refused[-1][1].text


@pytest.mark.parametrize(
    "search_filter",
    [
        "(objectGUID=68f32679-6a34-437f-a30c-563cc7a5e002)",
        "(objectGUID=68f326796a34437fa30c563cc7a5e002)",
        "(objectGUID=\\68*)",
        "(!(mSMQQueueType={68f32679-6a34-437f-a30c-563cc7a5e002}))",
        "(whenCreated>=20261120201610Z)",
        "(|(cn=x)(&(whenChanged<=1577836800)(cn=y)))",
        "(mSMQJournal=1)",
        "(mSMQTransactional=true)",
        "(mSMQQueueQuota=4294967295)",
        "(mSMQQueueQuota=010)",
        "(mSMQBasePriority>=0x10)",
    ],
)
def test_odd_filters_are_refused(
    samba_server: SambaDomainController, tmp_path: Path, search_filter: str
) -> None:
    with proxy_for(samba_server, tmp_path) as proxy, connected(proxy, samba_server) as connection:
        connection.search(samba_server.base_dn, search_filter)
        assert connection.result["result"] == 53
        assert connection.result["message"].startswith("odd filter: ")
        proxy.limits.odd_filters = False
        # one object: how many others there are, and whether a size limit is met, depends on other tests
        connection.search(samba_server.base_dn, search_filter, search_scope=ldap3.BASE)
        assert connection.result["result"] == 0


@pytest.mark.parametrize(
    "search_filter",
    [
        "(objectGUID=\\79\\26\\f3\\68\\34\\6a\\7f\\43\\a3\\0c\\56\\3c\\c7\\a5\\e0\\02)",
        "(whenCreated>=20261120201610.0Z)",
        "(mSMQJournal=TRUE)",
        "(mSMQQueueQuota=-1)",
        "(mSMQLabelEx=1577836800)",
        "(mSMQQueueType=*)",
        "(userAccountControl:1.2.840.113556.1.4.803:=4096)",
    ],
)
def test_what_windows_takes_is_left_alone(search_filter: str) -> None:
    assert odd_value(parse_text(search_filter)) == ""


def test_sorting_has_limits(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    def sort(*names: str, critical: bool) -> tuple[int, int]:
        keys = b"".join(b"\x30" + bytes((len(name) + 2, 4, len(name))) + name.encode() for name in names)
        control = ("1.2.840.113556.1.4.473", critical, b"\x30" + bytes((len(keys),)) + keys)
        connection.search(folder_of_objects, "(cn=c*)", attributes=["cn"], controls=[control])
        return len(found(connection)), connection.result["result"]

    with proxy_for(server, tmp_path) as proxy, connected(proxy, server) as connection:
        assert sort("cn", "objectGUID", critical=True) == (0, 12)
        assert sort("cn", "objectGUID", critical=False) == (25, 0)
        if isinstance(server, SambaDomainController):  # slapd sorts with an overlay only
            assert sort("cn", critical=True) == (25, 0)
            assert found(connection)[0].startswith("CN=c00,")
            proxy.limits.sort_entries = 24
            assert sort("cn", critical=True) == (0, 12)


def test_referrals_lead_to_the_trap(server: AnyServer, folder_of_objects: str, tmp_path: Path) -> None:
    with proxy_for(server, tmp_path, references=True) as proxy, connected(proxy, server) as connection:
        connection.auto_referrals = False
        connection.search(folder_of_objects, "(cn=c*)", attributes=["cn"])
        references = [one["uri"] for one in connection.response if one["type"] == "searchResRef"]
        assert references == [[f"{proxy.trap.url}/CN=Configuration,DC=elsewhere"]]
        proxy.refer_next("modify")
        connection.modify(folder_of_objects, {"description": [("MODIFY_REPLACE", ["x"])]})
        assert connection.result["result"] == 10
        assert connection.result["referrals"] == [f"{proxy.trap.url}/DC=elsewhere"]
        connection.modify(folder_of_objects, {"description": [("MODIFY_REPLACE", ["x"])]})
        assert connection.result["result"] == 0
        assert proxy.trap.visits == []


def test_the_trap_catches(samba_server: SambaDomainController, tmp_path: Path) -> None:
    with proxy_for(samba_server, tmp_path) as proxy:
        ldap3.Connection(ldap3.Server(proxy.trap.url, get_info=ldap3.NONE), receive_timeout=5)
        client = ldap3.Connection(
            ldap3.Server(proxy.trap.url, get_info=ldap3.NONE), "cn=me", "secret", receive_timeout=5
        )
        with pytest.raises(ldap3.core.exceptions.LDAPExceptionError):
            client.bind()
        if client.socket is not None:
            client.socket.close()
        assert len(proxy.trap.visits) == 1
        assert b"secret" in proxy.trap.visits[0]


def test_the_servers_own_references_lead_to_the_trap(
    samba_server: SambaDomainController, tmp_path: Path
) -> None:
    with proxy_for(samba_server, tmp_path) as proxy, connected(proxy, samba_server) as connection:
        connection.search(samba_server.base_dn, "(cn=nobody-at-all)")
        uris = [one["uri"][0] for one in connection.response if one["type"] == "searchResRef"]
        assert uris
        assert all(uri.startswith(proxy.trap.url) for uri in uris)


def test_names_are_escaped_as_windows_does(samba_server: SambaDomainController, tmp_path: Path) -> None:
    dn = f"CN=a\\3Db\\3Bc,CN=Computers,{samba_server.base_dn}"
    with proxy_for(samba_server, tmp_path) as proxy, connected(proxy, samba_server) as connection:
        _add_container(connection, samba_server, dn)
        connection.search(dn, "(objectClass=*)", ldap3.BASE, attributes=["distinguishedName"])
        written = f"CN=a\\=b\\;c,CN=Computers,{samba_server.base_dn}"
        assert found(connection) == [written]
        assert connection.response[0]["raw_attributes"]["distinguishedName"] == [written.encode()]
        connection.delete(written)
        assert connection.result["result"] == 0
    assert windows_escapes(b"CN=a\\\\3Db\\,c") == b"CN=a\\\\3Db\\,c"


def test_starttls_and_no_clear_text(server: AnyServer, tmp_path: Path) -> None:
    with proxy_for(server, tmp_path) as proxy:
        tls = ldap3.Tls(validate=2, ca_certs_file=proxy.ca_file)
        client = ldap3.Connection(
            ldap3.Server(proxy.url, get_info=ldap3.NONE, tls=tls), server.user, server.password
        )
        assert not client.bind()
        assert client.result["result"] == 8
        assert client.start_tls()
        assert client.bind()
        assert client.search(server.base_dn, "(objectClass=*)", ldap3.BASE)
        client.unbind()
        assert [one.operation for one in proxy.requests[:4]] == ["bind", "extended", "bind", "search"]


def test_a_guid_on_add(samba_server: SambaDomainController, tmp_path: Path) -> None:
    guid = uuid4()
    dn = f"CN=guided,CN=Computers,{samba_server.base_dn}"
    with proxy_for(samba_server, tmp_path) as proxy, connected(proxy, samba_server) as connection:
        connection.add(dn, ["top", "container"], {"objectGUID": [guid.bytes_le]})
        assert connection.result["result"] == 53
        proxy.limits.guid_on_add = True
        connection.add(dn, ["top", "container"], {"objectGUID": [guid.bytes_le]})
        assert connection.result["result"] == 0
        assert SambaTools(samba_server).entry(dn, "objectGUID")["objectGUID"] == [str(guid).encode()]
        connection.delete(dn)
        connection.add(dn, ["top", "container"], {"objectGUID": [guid.bytes_le]})
        assert connection.result["result"] != 0  # the tombstone owns it


def test_requests_are_kept(samba_server: SambaDomainController, tmp_path: Path) -> None:
    with proxy_for(samba_server, tmp_path) as proxy, connected(proxy, samba_server) as connection:
        connection.search(samba_server.base_dn, "(cn=x)", attributes=["cn", "member;range=0-*"], size_limit=7)
        (request,) = proxy.operations("search")
    assert isinstance(request, LdapRequest)
    assert request.search is not None
    assert request.search.filter == Equal("cn", b"x")
    assert request.search.attributes == ("cn", "member;range=0-*")
    assert (request.dn, request.search.size_limit) == (samba_server.base_dn, 7)


def test_our_session_pages_through_it(openldap_server: OpenLdapServer, tmp_path: Path) -> None:
    """1,001 objects, the limits of a default forest."""
    with proxy_for(openldap_server, tmp_path) as proxy:
        options = ConnectionOptions.of(
            proxy.ldaps_url,
            user=openldap_server.user,
            password=openldap_server.password,
            ca_file=proxy.ca_file,
            page_size=5000,
        )
        with Session.open(options) as session:
            base = f"CN=many-{uuid4()},CN=Computers,{session.naming.root}"
            session.add(base, container(uuid4()))
            expected = {uuid4() for _ in range(1001)}
            for guid in expected:
                session.add(f"CN={guid},{base}", container(guid))
            children = list(session.find(base, parse_text("(!(cn=many-*))"), ["objectGUID"]))
        assert {UUID(bytes_le=one.first("objectguid")) for one in children} == expected
        pages = [one for one in proxy.operations("search") if one.dn == base]
        assert len(pages) == 2
        assert proxy.refused == []
    with connected_directly(openldap_server) as direct:
        for guid in expected:
            direct.delete(f"CN={guid},{base}")
        direct.delete(base)


def test_what_is_no_ldap_is_told(samba_server: SambaDomainController, tmp_path: Path) -> None:
    parts = urllib.parse.urlsplit(samba_server.ldaps_url)
    proxy = LimitsProxy(str(parts.hostname), 636, tmp_path, ca_file=samba_server.ca_file)
    clear = urllib.parse.urlsplit(proxy.url)
    with socket.create_connection((clear.hostname, clear.port), timeout=5) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(100) == b""
    with pytest.raises(AssertionError, match="the proxy itself failed"):
        proxy.close()


@contextmanager
def connected_directly(server: AnyServer) -> Iterator[Connection]:
    with connect_over_tls(server.ldaps_url, server.user, server.password, server.ca_file) as connection:
        yield connection


def test_default_limits_are_those_of_a_default_forest() -> None:
    limits = Limits()
    assert (limits.page_entries, limits.range_values, limits.rdn_units) == (1000, 1500, 64)
