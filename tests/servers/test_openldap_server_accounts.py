"""Computers and users of the embedded OpenLDAP: complete as decision M26 says, and usable."""

import base64
import contextlib
import hashlib
import ssl
import subprocess
import threading

import ldap3
import pytest
from ldap3.core.exceptions import LDAPInvalidCredentialsResult

from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectAlreadyExists
from mqdssm.model.dn import DN
from mqdssm.testing import OpenLdapServer, accounts
from mqdssm.testing.containers import connect_over_tls
from mqdssm.wire.dtyp import Sid

ROOT = "dc=example,dc=com"
NASTY_NAMES = ["a,b", "#x", " lead", "trail ", 'q"u', "a=b", "a+b", "<a>;", "back\\slash", "é€😀", "*)(cn=*"]


@pytest.fixture(scope="module")
def own_server():
    """A server of this module's own: other tests count what is in the shared one."""
    with OpenLdapServer(durable=False) as server:
        yield server


@contextlib.contextmanager
def logged_in(server, dn, password):
    with accounts.bind(connect_over_tls(server.ldaps_url, dn, password, server.ca_file)) as connection:
        yield connection


def read(server, dn):
    """All attributes of one entry, as bytes, read by the administrator over ldapi."""
    with accounts.bind(accounts.connect_as_owner(server.ldapi_url)) as connection:
        connection.search(dn, "(objectClass=*)", ldap3.BASE, attributes=["*"])
        return connection.response[0]["raw_attributes"]


def test_a_computer_has_what_joining_a_domain_writes(own_server):
    dn = own_server.add_computer("Web01")
    assert dn == f"CN=Web01,CN=Computers,{ROOT}"
    found = read(own_server, dn)
    assert found["cn"] == [b"Web01"]
    assert found["objectClass"] == [b"top", b"user", b"computer"]
    assert found["sAMAccountName"] == [b"Web01$"]
    assert found["dNSHostName"] == [b"web01.example.com"]
    assert sorted(found["servicePrincipalName"]) == [b"HOST/Web01", b"HOST/web01.example.com"]
    assert found["userAccountControl"] == [b"4096"]
    assert [len(guid) for guid in found["objectGUID"]] == [16]
    assert str(Sid.from_bytes(found["objectSid"][0])).startswith("S-1-5-21-")


def test_a_user_can_log_in_and_the_password_is_stored_hashed(own_server):
    dn, password = own_server.add_user("alice")
    assert dn == f"CN=alice,CN=Users,{ROOT}"
    found = read(own_server, dn)
    assert found["objectClass"] == [b"top", b"user"]
    assert found["sAMAccountName"] == [b"alice"]
    assert found["userAccountControl"] == [b"512"]
    assert len(found["objectGUID"][0]) == 16
    [stored] = found["userPassword"]
    raw = base64.b64decode(stored.removeprefix(b"{SSHA}"))
    assert hashlib.sha1(password.encode() + raw[20:]).digest() == raw[:20]
    with logged_in(own_server, dn, password) as connection:
        assert connection.extend.standard.who_am_i().lower() == f"dn:{dn}".lower()
    with pytest.raises(LDAPInvalidCredentialsResult), logged_in(own_server, dn, password + "x"):
        pass


def test_passwords_differ(own_server):
    passwords = {own_server.add_user(f"p{number}")[1] for number in range(5)}
    assert len(passwords) == 5
    assert min(map(len, passwords)) >= 24


def test_sids_are_of_one_domain_and_all_different():
    with OpenLdapServer(durable=False) as server, OpenLdapServer(durable=False) as other:
        dns = [server.add_computer("c1"), server.add_user("u1")[0], server.add_computer("c2")]
        sids = [Sid.from_bytes(read(server, dn)["objectSid"][0]) for dn in dns]
        domain = str(Sid.from_bytes(read(server, ROOT)["objectSid"][0]))
        assert [str(sid) for sid in sids] == [f"{domain}-{rid}" for rid in (1103, 1104, 1105)]
        other.add_computer("c1")
        assert Sid.from_bytes(read(other, ROOT)["objectSid"][0]) != Sid.parse(domain)


def test_a_kept_directory_goes_on_counting(tmp_path):
    with OpenLdapServer(tmp_path) as server:
        server.add_computer("c1")
        last = read(server, server.add_computer("c2"))["objectSid"][0]
    with OpenLdapServer(tmp_path) as server:
        found = read(server, server.add_computer("c3"))["objectSid"][0]
    first_sid, second_sid = str(Sid.from_bytes(last)), str(Sid.from_bytes(found))
    assert second_sid.rpartition("-")[0] == first_sid.rpartition("-")[0]
    assert int(second_sid.rpartition("-")[2]) == int(first_sid.rpartition("-")[2]) + 1


@pytest.mark.parametrize("name", NASTY_NAMES)
def test_names_are_values_and_never_dn_fragments(own_server, name):
    dn, password = own_server.add_user(name)
    assert DN.parse(dn).parent == DN.parse(f"CN=Users,{ROOT}")
    found = read(own_server, dn)
    assert found["cn"] == [name.encode()]
    assert found["sAMAccountName"] == [name.encode()]
    with logged_in(own_server, dn, password) as connection:
        assert connection.bound


def test_plain_ldapsearch_sees_the_same(own_server):
    dn = own_server.add_computer("seen-by-ldapsearch")
    command = ["ldapsearch", "-LLL", "-Q", "-Y", "EXTERNAL", "-H", own_server.ldapi_url]
    ran = subprocess.run(
        [*command, "-b", dn, "-s", "base", "-o", "ldif-wrap=no", "dNSHostName", "sAMAccountName"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "dNSHostName: seen-by-ldapsearch.example.com\n" in ran.stdout
    assert "sAMAccountName: seen-by-ldapsearch$\n" in ran.stdout


def test_a_second_of_the_same_name_is_refused(own_server):
    own_server.add_computer("twice")
    with pytest.raises(ObjectAlreadyExists) as caught:
        own_server.add_computer("TWICE")
    assert caught.value.dn == f"CN=TWICE,CN=Computers,{ROOT}"
    assert caught.value.ldap_code == 68


def test_a_name_that_the_server_cannot_hold(own_server):
    with pytest.raises(GenericDirectoryError):
        own_server.add_computer("x" * 300)


def test_threads_get_different_sids():
    with OpenLdapServer(durable=False) as server:
        dns = []

        def add(thread):
            dns.extend(server.add_computer(f"t{thread}-{number}") for number in range(5))

        threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({read(server, dn)["objectSid"][0] for dn in dns}) == 40


def test_a_server_that_is_down():
    with OpenLdapServer(durable=False) as server:
        server.kill()
        with pytest.raises(DirectoryNotConnected):
            server.add_computer("late")
        server.start()
        assert server.add_computer("late")


def test_the_certificate_is_verified(own_server, tmp_path):
    from mqdssm.testing.certificates import make_certificates

    make_certificates(tmp_path)
    connection = connect_over_tls(
        own_server.ldaps_url, own_server.user, own_server.password, str(tmp_path / "ca.pem")
    )
    assert connection.server.tls.validate == ssl.CERT_REQUIRED
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"), accounts.bind(connection):
        pass
