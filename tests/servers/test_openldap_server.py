"""The embedded OpenLDAP: what it serves, how it starts, and that nothing of it is left behind."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import uuid
from pathlib import Path

import ldap3
import pytest
from ldap3.core.exceptions import (
    LDAPInsufficientAccessRightsResult,
    LDAPInvalidCredentialsResult,
    LDAPNoSuchObjectResult,
    LDAPSocketOpenError,
    LDAPStrongerAuthRequiredResult,
)
from support.servers.processes import GONE_WAIT_S, wait_until_gone

from mqdssm.errors import ConfigError
from mqdssm.testing import OpenLdapServer, accounts, start_sandbox
from mqdssm.testing import openldap_config as config
from mqdssm.testing.openldap_start import explain_failure, free_ports, is_answering

ROOT = "dc=example,dc=com"


@contextlib.contextmanager
def connect(server, user=None, password=None, *, url=None, ca_file=None, start_tls=False):
    """A bound ldap3 connection with every option stated; certificates verified."""
    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=ca_file or server.ca_file)
    connection = ldap3.Connection(
        ldap3.Server(url or server.url, get_info=ldap3.NONE, connect_timeout=10, tls=tls),
        user=user,
        password=password,
        check_names=False,
        raise_exceptions=True,
        auto_referrals=False,
        receive_timeout=20,
    )
    with accounts.bind(connection, start_tls=start_tls):
        yield connection


def as_admin(server):
    return connect(server, server.user, server.password)


def names_below(server, base=ROOT):
    with as_admin(server) as connection:
        connection.search(base, "(objectClass=*)", attributes=["1.1"])
        return {entry["dn"].lower() for entry in connection.response}


def add_queue_like(connection, name):
    connection.add(
        f"CN={name},CN=Computers,{ROOT}",
        attributes={"objectClass": ["computer"], "objectGUID": [uuid.uuid4().bytes_le]},
    )


@pytest.fixture(scope="module")
def own_server():
    """A server of this module's own: other tests count what is in the shared one."""
    with OpenLdapServer(durable=False) as server:
        yield server


class TestWhatItServes:
    def test_clear_text_tls_and_socket(self, own_server):
        s = own_server
        for way in (
            connect(s, s.user, s.password),
            connect(s, s.user, s.password, start_tls=True),
            connect(s, s.user, s.password, url=s.ldaps_url),
            connect(s, s.user, s.password, url=f"ldaps://localhost:{s.ldaps_port}"),
        ):
            with way as connection:
                assert connection.extend.standard.who_am_i() == f"dn:{s.user}"

    def test_the_owner_needs_no_password_on_the_socket(self, own_server):
        server = ldap3.Server(own_server.ldapi_url, get_info=ldap3.NONE)
        with ldap3.Connection(
            server, authentication=ldap3.SASL, sasl_mechanism="EXTERNAL", sasl_credentials=""
        ) as connection:
            assert connection.extend.standard.who_am_i() == f"dn:{own_server.user}"

    def test_another_authority_is_not_trusted(self, own_server, tmp_path):
        config.make_certificates(tmp_path)
        other = str(tmp_path / "ca.pem")
        with (
            pytest.raises(LDAPSocketOpenError, match="CERTIFICATE_VERIFY_FAILED"),
            connect(own_server, url=own_server.ldaps_url, ca_file=other),
        ):
            pass

    def test_wrong_password(self, own_server):
        with (
            pytest.raises(LDAPInvalidCredentialsResult),
            connect(own_server, own_server.user, "wrong"),
        ):
            pass

    def test_root_dse_names_the_contexts(self, own_server):
        with connect(own_server) as connection:
            connection.search("", "(objectClass=*)", ldap3.BASE, attributes=["*", "+"])
            found = connection.response[0]["attributes"]
        assert found["namingContexts"] == [ROOT]
        assert found["rootDomainNamingContext"] == [ROOT]
        assert found["defaultNamingContext"] == [ROOT]
        assert found["configurationNamingContext"] == [f"CN=Configuration,{ROOT}"]
        assert found["schemaNamingContext"] == [f"CN=Schema,CN=Configuration,{ROOT}"]
        assert "OpenLDAProotDSE" in found["objectClass"]
        assert {"1.3.6.1.4.1.4203.666.5.16", "1.3.6.1.4.1.4203.1.9.1.1"} <= set(found["supportedControl"])

    @pytest.mark.spec("MS-MQDSSM 2.2.1")
    def test_base_tree(self, own_server):
        assert {
            ROOT,
            f"cn=computers,{ROOT}",
            f"cn=users,{ROOT}",
            f"cn=sites,cn=configuration,{ROOT}",
            f"cn=msmqservices,cn=services,cn=configuration,{ROOT}",
        } <= names_below(own_server)

    def test_one_object_guid_once(self, own_server):
        with as_admin(own_server) as connection:
            guid = uuid.uuid4().bytes_le
            dn = f"CN=guid-1,CN=Computers,{ROOT}"
            connection.add(dn, attributes={"objectClass": "computer", "objectGUID": guid})
            with pytest.raises(ldap3.core.exceptions.LDAPConstraintViolationResult):
                connection.add(
                    f"CN=guid-2,CN=Computers,{ROOT}",
                    attributes={"objectClass": "computer", "objectGUID": guid},
                )
            connection.delete(dn)

    def test_users_read_members_of_the_group_write_nobody_reads_passwords(self, own_server):
        s = own_server
        dn, password = s.add_user("reader")
        admin_dn, admin_password = s.add_user("member of admins")
        with as_admin(s) as connection:
            group = f"CN=MSMQ Admins,CN=Users,{ROOT}"
            connection.add(group, attributes={"objectClass": "group", "member": admin_dn})
        with connect(s) as anonymous, pytest.raises(LDAPNoSuchObjectResult):
            anonymous.search(ROOT, "(objectClass=*)")
        with connect(s) as anonymous, pytest.raises(LDAPStrongerAuthRequiredResult):
            add_queue_like(anonymous, "by-anonymous")
        with connect(s, dn, password) as reader:
            reader.search(dn, "(objectClass=*)", ldap3.BASE, attributes=["*"])
            found = reader.response[0]["attributes"]
            assert "objectGUID" in found
            assert "userPassword" not in found
            with pytest.raises(LDAPInsufficientAccessRightsResult):
                add_queue_like(reader, "by-reader")
        with connect(s, admin_dn, admin_password) as writer:
            add_queue_like(writer, "by-member")

    def test_base_guids_are_its_own(self):
        def guids(server):
            with as_admin(server) as connection:
                connection.search(ROOT, "(objectGUID=*)", attributes=["objectGUID"])
                return {entry["raw_attributes"]["objectGUID"][0] for entry in connection.response}

        with OpenLdapServer(durable=False) as one, OpenLdapServer(durable=False) as other:
            first, second = guids(one), guids(other)
            assert one.url != other.url
        assert not first & second
        assert {len(guid) for guid in first} == {16}
        assert len(first) == 7


class TestOptions:
    def test_another_root(self):
        root = "dc=corp,dc=Example-2,dc=net"
        with OpenLdapServer(base_dn=root, durable=False) as server:
            assert server.user == f"cn=admin,{root}"
            assert f"cn=computers,{root.lower()}" in names_below(server, root)
            server.add_computer("web01")
            with as_admin(server) as connection:
                connection.search(root, "(cn=web01)", attributes=["dNSHostName"])
                assert connection.response[0]["attributes"]["dNSHostName"] == ["web01.corp.Example-2.net"]

    @pytest.mark.parametrize("root", ["o=example", "dc=a,ou=b", 'dc=a"b', "", "dc=$(id)"])
    def test_a_root_that_cannot_be(self, root):
        with pytest.raises((ConfigError, ValueError)):
            OpenLdapServer(base_dn=root).start()

    def test_durable_or_not(self):
        for durable in (True, False):
            with OpenLdapServer(durable=durable) as server:
                written = (server.folder / "conf" / "slapd.conf").read_text()
                assert ("nosync" in written) is not durable

    def test_accesslog_keeps_changes(self):
        with OpenLdapServer(accesslog=True, durable=False) as server:
            server.add_computer("logged")
            with as_admin(server) as connection:
                connection.search("cn=log", "(objectClass=auditAdd)", attributes=["reqDN"])
                logged = [entry["attributes"]["reqDN"] for entry in connection.response]
        assert [dn.lower() for [dn] in logged] == [f"cn=logged,cn=computers,{ROOT}"]

    def test_overlays_can_be_left_out(self):
        with (
            OpenLdapServer(unique=False, deref=False, syncprov=False, durable=False) as server,
            connect(server) as connection,
        ):
            connection.search("", "(objectClass=*)", ldap3.BASE, attributes=["supportedControl"])
            controls = connection.response[0]["attributes"]["supportedControl"]
        assert not {"1.3.6.1.4.1.4203.666.5.16", "1.3.6.1.4.1.4203.1.9.1.1"} & set(controls)

    def test_size_limit_holds_for_users_and_not_for_pages(self):
        with OpenLdapServer(size_limit=3, durable=False) as server:
            dn, password = server.add_user("u")
            with connect(server, dn, password) as connection:
                connection.search(ROOT, "(objectClass=*)")
                assert connection.result["description"] == "sizeLimitExceeded"
                assert len(connection.response) == 3
                paged = connection.extend.standard.paged_search(
                    ROOT, "(objectClass=*)", paged_size=2, generator=False
                )
                assert len(paged) > 3

    def test_idle_clients_are_cut_off(self):
        with (
            OpenLdapServer(idle_timeout_s=1, durable=False) as server,
            socket.create_connection(("127.0.0.1", server.port), timeout=20) as silent,
        ):
            assert silent.recv(1) == b""

    def test_ports_can_be_chosen(self):
        port, ldaps_port = free_ports(2)
        with OpenLdapServer(port=port, ldaps_port=ldaps_port, durable=False) as server:
            assert (server.url, server.ldaps_url) == (
                f"ldap://127.0.0.1:{port}",
                f"ldaps://127.0.0.1:{ldaps_port}",
            )

    def test_a_port_that_is_taken(self, own_server):
        other = OpenLdapServer(port=own_server.port, ldaps_port=free_ports(1)[0])
        with pytest.raises(ConfigError, match="port of the LDAP server is taken"):
            other.start()

    def test_free_ports_are_no_ports_of_outgoing_connections(self):
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        assert all(port < lowest for port in free_ports(20))


class TestStartAndStop:
    def test_ready_well_under_a_second(self):
        taken = []
        for _ in range(3):
            begin = time.monotonic()
            with OpenLdapServer():
                taken.append(time.monotonic() - begin)
        assert min(taken) < 1.0, taken

    def test_what_was_answered_survives_kill_and_stop(self):
        with OpenLdapServer() as server:
            before = (server.url, server.ldapi_url, server.ldaps_url, server.password)
            server.add_computer("one")
            server.kill()
            assert server.pid is None
            with pytest.raises(LDAPSocketOpenError), connect(server):
                pass
            server.start()
            server.add_computer("two")
            server.stop()
            assert not is_answering(config.ServerFolder(server.folder).socket)
            server.start()
            server.start()  # a second time is nothing
            assert (server.url, server.ldapi_url, server.ldaps_url, server.password) == before
            assert {f"cn=one,cn=computers,{ROOT}", f"cn=two,cn=computers,{ROOT}"} <= names_below(server)

    def test_a_temporary_folder_goes_with_the_server(self):
        with OpenLdapServer(durable=False) as server:
            folder, pid = server.folder, server.pid
            assert folder.is_dir()
        wait_until_gone(pid, folder)
        with pytest.raises(ConfigError, match="not been started"):
            _ = server.url

    def test_a_kept_folder_keeps_all(self, tmp_path):
        with OpenLdapServer(tmp_path / "kept") as server:
            server.add_computer("kept")
            password, authority = server.password, Path(server.ca_file).read_bytes()
        with OpenLdapServer(tmp_path / "kept") as server:
            assert server.password == password
            assert Path(server.ca_file).read_bytes() == authority
            assert f"cn=kept,cn=computers,{ROOT}" in names_below(server)

    def test_a_first_start_that_was_cut_short_begins_again(self, tmp_path):
        with OpenLdapServer(tmp_path) as server:
            server.add_computer("lost")
        (tmp_path / "base-tree.done").unlink()
        with OpenLdapServer(tmp_path) as server:
            assert f"cn=computers,{ROOT}" in names_below(server)
            assert f"cn=lost,cn=computers,{ROOT}" not in names_below(server)

    def test_secrets_are_their_owners_alone(self, tmp_path):
        with OpenLdapServer(tmp_path / "new") as server:
            modes = {
                path.relative_to(server.folder).as_posix(): path.stat().st_mode & 0o077
                for path in (
                    server.folder,
                    server.folder / "run",
                    server.folder / "password",
                    server.folder / "tls" / "key.pem",
                    server.folder / "conf" / "slapd.conf",
                )
            }
            everything = b"".join(
                path.read_bytes() for path in (server.folder / "conf").iterdir() if path.is_file()
            )
            assert server.password.encode() not in everything
        assert set(modes.values()) == {0}, modes

    def test_two_servers_never_share_a_folder(self, tmp_path):
        with OpenLdapServer(tmp_path), pytest.raises(ConfigError, match="in use by another LDAP server"):
            OpenLdapServer(tmp_path).start()

    def test_a_folder_with_a_long_name(self, tmp_path):
        folder = tmp_path / ("long name " * 12)
        with OpenLdapServer(folder) as server:
            sockets = config.ServerFolder(folder).socket_folder
            assert sockets.parent == Path("/tmp")
            assert sockets.stat().st_mode & 0o077 == 0
            assert server.add_computer("web01")
            config.ServerFolder(folder).remove()
        assert not sockets.exists()

    def test_somebody_elses_socket_folder_is_refused(self, tmp_path):
        folder = tmp_path / ("x" * 120)
        sockets = config.ServerFolder(folder).socket_folder
        sockets.mkdir(mode=0o755)
        sockets.chmod(0o755)
        try:
            with pytest.raises(ConfigError, match="mode 0700"):
                OpenLdapServer(folder).start()
        finally:
            sockets.rmdir()

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="cannot hold an LDAP server"):
            OpenLdapServer(tmp_path / "file").start()

    def test_slapds_own_words_are_in_the_error(self, tmp_path):
        with OpenLdapServer(tmp_path):
            pass
        (tmp_path / "db" / "data.mdb").write_bytes(b"no database" * 1000)
        with pytest.raises(ConfigError, match="slapd ended with status") as caught:
            OpenLdapServer(tmp_path).start()
        assert len(str(caught.value)) > 100

    def test_log_has_what_slapd_wrote(self):
        with OpenLdapServer(durable=False) as server:
            assert "slapd starting" in server.log

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
    def test_an_end_that_nobody_asked_for_is_mended_where_asked(self, number):
        """slapd ends with status 0 on SIGTERM, as of somebody who kills it by its name."""
        with OpenLdapServer(durable=False, restart=True) as server:
            crashed = server.pid
            os.kill(crashed, number)
            wait_until_gone(crashed)
            deadline = time.monotonic() + GONE_WAIT_S
            while not is_answering(config.ServerFolder(server.folder).socket):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert server.pid not in {None, crashed}
            server.kill()
            time.sleep(0.3)
            assert server.pid is None  # what was killed on purpose stays down

    def test_a_crash_is_not_mended_unless_asked(self):
        with OpenLdapServer(durable=False) as server:
            os.kill(server.pid, signal.SIGSEGV)
            time.sleep(0.3)
            assert server.pid is None

    def test_a_slapd_that_ended_before_anybody_looked_is_no_success(self, monkeypatch):
        server = OpenLdapServer(size_limit=-1)
        ask = server._ask

        def slowly(word):
            state = ask(word)
            while state["pid"] is not None:
                state = ask("status")
            return state

        monkeypatch.setattr(server, "_ask", slowly)
        with pytest.raises(ConfigError, match="MSMQ_LDAP_SIZE_LIMIT"):
            server.start()

    def test_exit_status_and_words_of_the_failure(self):
        assert "in use" in str(explain_failure(75, "", Path("/x")))
        assert "status 1: bad" in str(explain_failure(1, " bad\n", Path("/x")))


class TestMissingSoftware:
    @pytest.fixture
    def nothing_installed(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(config, "PLACES_OF_PROGRAMS", (str(tmp_path),))
        monkeypatch.setattr(config, "_PLACES_OF_SCHEMA", (str(tmp_path),))

    def test_the_message_says_what_to_install(self, nothing_installed):
        with pytest.raises(ConfigError) as caught:
            OpenLdapServer().start()
        text = str(caught.value)
        assert "slapd, slapadd, slappasswd, flock, core.schema not found" in text
        for words in ("apt-get install slapd ldap-utils", "dnf install", "brew install", "OpenLdapContainer"):
            assert words in text

    def test_before_anything_is_made(self, nothing_installed, tmp_path):
        with pytest.raises(ConfigError):
            OpenLdapServer(tmp_path / "new").start()
        assert not (tmp_path / "new").exists()


class TestOtherSystems:
    def test_windows_is_told_to_use_the_container(self, monkeypatch, tmp_path):
        monkeypatch.delattr(os, "getuid")
        for start in (OpenLdapServer(tmp_path / "new").start, lambda: start_sandbox(tmp_path / "new")):
            with pytest.raises(ConfigError, match=r"Unixes only; use mqdssm\.testing\.OpenLdapContainer"):
                start()
        monkeypatch.undo()
        assert not (tmp_path / "new").exists()

    def test_all_but_the_supervisor_can_be_imported_without_unix_modules(self):
        code = (
            "import sys\n"
            "sys.modules['fcntl'] = sys.modules['pwd'] = None\n"
            "import mqdssm.testing as t\n"
            "print([getattr(t, name) is not None for name in t.__all__])\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=Path(__file__).parents[2],
        )
        assert "False" not in ran.stdout
