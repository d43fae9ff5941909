"""How a session gets, keeps and loses its connections ([MS-MQDSSM] 3.1.3, 3.1.6.18, 3.1.6.21)."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from support.servers import answers
from support.servers.bad_places import bare_slapd
from support.servers.proxy import Proxy, scripted_server
from support.servers.sessions import clear_text, container, options_for, scratch

from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.requests import SearchScope, encode_unbind
from mqdssm.directory.session import Session
from mqdssm.errors import (
    ConfigError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectNotFound,
)
from mqdssm.model.dn import DN
from mqdssm.testing.openldap import OpenLdapServer


@pytest.fixture
def proxy(openldap_server: OpenLdapServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", openldap_server.port) as running:
        yield running


@pytest.fixture(scope="module")
def own_server() -> Iterator[OpenLdapServer]:
    """A server that these tests may stop."""
    with OpenLdapServer(durable=False, idle_timeout_s=1) as server:
        yield server


def wait_until(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


class TestInitialization:
    @pytest.mark.spec("MS-MQDSSM 3.1.3")
    @pytest.mark.spec("MS-MQDSSM 3.1.1.5")
    def test_configuration_naming_context_comes_from_the_server(
        self, openldap_server: OpenLdapServer
    ) -> None:
        with Session.open(options_for(openldap_server)) as session:
            assert session.naming.configuration == DN.parse(f"CN=Configuration,{openldap_server.base_dn}")
            assert session.naming.root == DN.parse(openldap_server.base_dn)
            assert session.root_dse.first("configurationNamingContext") is not None
            assert session.profile.name == "openldap"
            assert session.references == 0

    @pytest.mark.spec("MS-MQDSSM 3.1.3")
    def test_until_it_succeeds_every_operation_is_not_connected(self, own_server: OpenLdapServer) -> None:
        own_server.stop()
        session = Session(options_for(own_server))
        dn = f"CN=late,CN=Computers,{own_server.base_dn}"
        for call in (
            lambda: session.add(dn, container(uuid4())),
            lambda: session.delete(dn),
            lambda: session.modify(dn, {"description": [b"x"]}),
            lambda: session.get(dn, []),
            lambda: session.get(uuid4(), []),
            lambda: list(session.find(dn, TRUE, [])),
            lambda: session.naming,
            session.connect,
        ):
            with pytest.raises(DirectoryNotConnected, match="nobody listens"):
                call()
        own_server.start()
        with session:  # the object was not disabled for ever (decision M24)
            session.add(dn, container(uuid4()))
            session.delete(dn)

    def test_base_of_computers_and_users_can_be_another_one(self, openldap_server: OpenLdapServer) -> None:
        base = f"CN=Users,{openldap_server.base_dn}"
        with Session.open(options_for(openldap_server, naming_context=base)) as session:
            assert session.naming.root == DN.parse(base)
            assert session.naming.configuration == DN.parse(f"CN=Configuration,{openldap_server.base_dn}")
            assert session.naming.guid_bases == (DN.parse(openldap_server.base_dn),)
        with pytest.raises(ConfigError, match="naming_context"):
            Session.open(options_for(openldap_server, naming_context="no name"))

    def test_profile_by_name(self, openldap_server: OpenLdapServer) -> None:
        with Session.open(options_for(openldap_server, profile="OpenLDAP")) as session:
            assert session.profile.name == "openldap"
        with pytest.raises(ConfigError, match="'auto', 'openldap'"):
            Session.open(options_for(openldap_server, profile="x500"))


class TestReferenceCount:
    @pytest.mark.spec("MS-MQDSSM 3.1.1.6")
    @pytest.mark.spec("MS-MQDSSM 3.1.6.18")
    @pytest.mark.spec("MS-MQDSSM 3.1.6.21")
    def test_counts_operations_in_work(self, openldap_server: OpenLdapServer) -> None:
        with Session.open(options_for(openldap_server)) as session:
            assert session.references == 0
            one = session.find(openldap_server.base_dn, TRUE, [], page_size=2)
            next(one)
            assert session.references == 1
            other = session.find(openldap_server.base_dn, TRUE, [], page_size=2)
            next(other)
            assert session.references == 2
            session.get(openldap_server.base_dn, [])
            assert session.references == 2
            one.close()  # type: ignore[attr-defined]
            assert session.references == 1
            assert len(list(other)) > 2
            assert session.references == 0
            with pytest.raises(ObjectNotFound):
                session.get(f"CN=nobody,{openldap_server.base_dn}", [])
            assert session.references == 0

    @pytest.mark.spec("MS-MQDSSM 3.1.6.18")
    def test_the_connection_is_used_again(self, openldap_server: OpenLdapServer, proxy: Proxy) -> None:
        with Session.open(clear_text(openldap_server, proxy)) as session:
            for _ in range(5):
                session.get(openldap_server.base_dn, [])
                list(session.find(openldap_server.base_dn, TRUE, []))
            assert len(proxy.recordings) == 1

    @pytest.mark.spec("MS-MQDSSM 3.1.6.21")
    def test_closing_unbinds_every_connection(self, openldap_server: OpenLdapServer, proxy: Proxy) -> None:
        session = Session.open(clear_text(openldap_server, proxy))
        search = session.find(openldap_server.base_dn, TRUE, [], page_size=1)
        next(search)
        session.get(openldap_server.base_dn, [])
        assert len(proxy.recordings) == 2
        list(search)
        session.close()
        wait_until(lambda: all(bytes(one.up).endswith(b"\x42\x00") for one in proxy.recordings))
        assert encode_unbind(1).endswith(b"\x42\x00")
        with pytest.raises(DirectoryNotConnected, match="closed"):
            session.get(openldap_server.base_dn, [])

    @pytest.mark.spec("MS-MQDSSM 3.1.6.18")
    def test_a_failed_connection_leaves_no_reference(self, openldap_server: OpenLdapServer) -> None:
        session = Session(options_for(openldap_server, password="wrong"))
        with pytest.raises(DirectoryNotConnected, match="wrong password") as caught:
            session.connect()
        assert caught.value.ldap_code == 49
        assert session.references == 0
        assert session.server_url is None


class TestLostConnections:
    def test_idle_connection_closed_by_the_server_is_replaced(self, own_server: OpenLdapServer) -> None:
        """Noticed before use: the add is handed over once, not tried on the dead connection."""
        with (
            Proxy("127.0.0.1", own_server.port) as proxy,
            Session.open(clear_text(own_server, proxy)) as session,
            scratch(session) as place,
        ):
            time.sleep(2.2)  # slapd's idle time is up
            session.add(f"CN=once,{place}", container(uuid4()))
            assert len(proxy.recordings) == 2
            assert sum(bytes(one.up).count(b"CN=once") for one in proxy.recordings) == 1

    def test_restart_between_operations(self, own_server: OpenLdapServer) -> None:
        with Session.open(options_for(own_server)) as session, scratch(session) as place:
            for way in (own_server.kill, own_server.stop):
                way()
                with pytest.raises(DirectoryNotConnected, match="nobody listens"):
                    session.get(place, [])
                own_server.start()
                assert session.get(place, []).dn
                way()
                own_server.start()
                session.modify(place, {"description": [b"after a restart"]})

    def test_read_is_repeated_on_another_connection(
        self, openldap_server: OpenLdapServer, proxy: Proxy
    ) -> None:
        with Session.open(clear_text(openldap_server, proxy)) as session:
            for passed in (0, 1, 20):
                fault = proxy.arm(down=passed)
                assert session.get(openldap_server.base_dn, ["dc"]).first("dc")
                assert fault.struck.is_set()
            fault = proxy.arm(down=5)
            assert list(session.find(openldap_server.base_dn, TRUE, [], SearchScope.BASE))
            assert fault.struck.is_set()

    def test_change_that_did_not_leave_is_handed_over_again(
        self, openldap_server: OpenLdapServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from mqdssm.directory.channel import Channel

        with Session.open(clear_text(openldap_server, proxy)) as session, scratch(session) as place:
            # the look at the idle connection came a moment too early
            monkeypatch.setattr(Channel, "is_usable", lambda channel: not channel.broken)
            proxy.cut_all()
            time.sleep(0.1)
            session.read_back = ReadBack(settle_s=0.2)
            with pytest.raises(DirectoryNotConnected, match="was not carried out"):
                session.add(f"CN=a,{place}", container(uuid4()))  # it left, and was read back
            session._pool._idle[0][1]._transport.close()  # this one cannot even be written to
            session.add(f"CN=a,{place}", container(uuid4()))

    def test_forked_process_has_connections_of_its_own(self, openldap_server: OpenLdapServer) -> None:
        with Session.open(options_for(openldap_server)) as session:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    good = [session.get(openldap_server.base_dn, ["dc"]).first("dc") for _ in range(3)]
                    code = 0 if all(good) else 1
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert session.get(openldap_server.base_dn, ["dc"]).first("dc")
            assert session._pool.observer.value


class TestSeveralServers:
    @pytest.fixture
    def two(self, openldap_server: OpenLdapServer) -> Iterator[tuple[Proxy, Proxy]]:
        """Two doors to one directory."""
        with (
            Proxy("127.0.0.1", openldap_server.port) as one,
            Proxy("127.0.0.1", openldap_server.port) as other,
        ):
            yield one, other

    def options(self, server: OpenLdapServer, *proxies: Proxy, **settings: object) -> ConnectionOptions:
        return ConnectionOptions.of(
            [proxy.url for proxy in proxies],
            tls="none",
            **({"user": server.user, "password": server.password} | settings),  # type: ignore[arg-type]
        )

    def test_in_order_then_the_one_that_works(
        self, openldap_server: OpenLdapServer, two: tuple[Proxy, Proxy]
    ) -> None:
        one, other = two
        with Session.open(self.options(openldap_server, one, other)) as session:
            assert session.server_url == one.url
            one.refuse = True
            one.cut_all()
            assert session.get(openldap_server.base_dn, []).dn
            assert session.server_url == other.url
            one.refuse = False
            assert session.get(openldap_server.base_dn, []).dn
            assert session.server_url == other.url  # what works stays
            other.refuse = True
            other.cut_all()
            assert session.get(openldap_server.base_dn, []).dn
            assert session.server_url == one.url  # and what failed is tried again

    def test_silent_server_is_left_at_the_next_call(
        self, openldap_server: OpenLdapServer, two: tuple[Proxy, Proxy]
    ) -> None:
        one, other = two
        options = self.options(openldap_server, one, other, operation_timeout_s=0.3)
        with Session.open(options) as session:
            one.arm(down=0, stall=True)
            with pytest.raises(DirectoryNotConnected, match="in time"):
                session.get(openldap_server.base_dn, [])
            assert session.get(openldap_server.base_dn, []).dn
            assert session.server_url == other.url

    def test_change_is_read_back_on_another_server(
        self, openldap_server: OpenLdapServer, two: tuple[Proxy, Proxy]
    ) -> None:
        one, other = two
        with Session.open(self.options(openldap_server, one, other)) as session, scratch(session) as place:
            one.arm(down=0)
            one.refuse = True
            session.add(f"CN=a,{place}", container(uuid4()))
            assert session.server_url == other.url

    def test_none_of_them(self, openldap_server: OpenLdapServer, two: tuple[Proxy, Proxy]) -> None:
        one, other = two
        one.refuse = other.refuse = True
        with pytest.raises(DirectoryNotConnected) as caught:
            Session.open(self.options(openldap_server, one, other))
        assert one.url in str(caught.value)
        assert other.url in str(caught.value)

    def test_wrong_password_is_not_tried_on_the_next_server(
        self, openldap_server: OpenLdapServer, two: tuple[Proxy, Proxy]
    ) -> None:
        one, other = two
        with pytest.raises(DirectoryNotConnected) as caught:
            Session.open(self.options(openldap_server, one, other, password="wrong"))
        assert caught.value.ldap_code == 49
        assert "wrong" not in str(caught.value).replace("wrong password", "")
        assert other.recordings == []

    def test_servers_of_different_directories(self, openldap_server: OpenLdapServer, proxy: Proxy) -> None:
        elsewhere = OpenLdapServer(durable=False, base_dn="dc=other,dc=org")
        with elsewhere, Proxy("127.0.0.1", elsewhere.port) as stranger:
            # anonymous, since the administrators of the two have different passwords
            options = self.options(openldap_server, proxy, stranger, user=None, password=None)
            with Session.open(options) as session:
                proxy.refuse = True
                proxy.cut_all()
                with pytest.raises(GenericDirectoryError, match="another directory"):
                    session.get("", ["objectClass"])


class TestWhatServerIsThis:
    def test_directory_of_msmq(self, openldap_server: OpenLdapServer) -> None:
        with Session.open(options_for(openldap_server)) as session:
            session.check_msmq()

    def test_directory_without_the_enterprise_object(self, own_server: OpenLdapServer) -> None:
        with Session.open(options_for(own_server)) as session:
            services = session.naming.configuration.child("CN", "Services")
            session.rename(services.child("CN", "MsmqServices"), "CN=Hidden")
            try:
                with pytest.raises(GenericDirectoryError, match="no MSMQ directory") as caught:
                    session.check_msmq()
                assert caught.value.dn == str(services.child("CN", "MsmqServices"))
            finally:
                session.rename(services.child("CN", "Hidden"), "CN=MsmqServices")

    def test_server_without_the_schema(self, tmp_path: Path) -> None:
        with bare_slapd(tmp_path) as url, Session.open(ConnectionOptions.of(url)) as session:
            assert session.naming.root == DN.parse("dc=bare")
            with pytest.raises(GenericDirectoryError, match="schema is not loaded"):
                session.check_msmq()

    def test_server_of_an_unknown_kind(self) -> None:
        shown = {"vendorName": [b"Acme Directories"], "namingContexts": [b"o=acme"]}
        script = answers.conversation(
            answers.bind_done, lambda number: answers.entry(number, "", shown) + answers.search_done(number)
        )
        with scripted_server(script) as port:
            url = f"ldap://127.0.0.1:{port}"
            with pytest.raises(GenericDirectoryError, match="Acme Directories") as caught:
                Session.open(ConnectionOptions.of(url, tls="none"))
            assert "profile=" in str(caught.value)
            with Session.open(ConnectionOptions.of(url, tls="none", profile="openldap")) as session:
                assert session.naming.root == DN.parse("o=acme")

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [
            (answers.search_done, GenericDirectoryError),
            (lambda number: answers.search_done(number, 50), GenericDirectoryError),
            (
                lambda number: (
                    answers.entry(number, "", {"objectClass": [b"OpenLDAProotDSE"]})
                    + answers.search_done(number)
                ),
                GenericDirectoryError,
            ),
            (lambda _: b"HTTP/1.1 400\r\n", DirectoryNotConnected),
        ],
        ids=["hidden", "refused", "empty", "garbage"],
    )
    def test_root_dse_that_tells_nothing(self, reply: Callable[[int], bytes], kind: type[Exception]) -> None:
        with scripted_server(answers.conversation(answers.bind_done, reply)) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none")
            with pytest.raises(kind):
                Session.open(options)
