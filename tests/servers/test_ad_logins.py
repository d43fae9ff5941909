"""Logging in to a domain controller: every way that it takes, and what is said where it does not."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.servers.ad_world import Domain
from support.servers.proxy import Proxy
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.directory.filters import TRUE
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController

SOME = 1000  # entries of the schema: several sealed buffers


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def connect(server: SambaDomainController, url: str | None = None, **settings: Any) -> Directory:
    access = {"user": server.user, "password": server.password, "ca_file": server.ca_file} | settings
    return mqdssm.connect(url or server.url, **access)


@pytest.mark.parametrize("authentication", ["spnego", "ntlm"])
def test_signed_and_sealed(samba_server: SambaDomainController, authentication: Any) -> None:
    with connect(samba_server, authentication=authentication) as directory:
        session = directory.session
        found = list(session.find(session.naming.schema, TRUE, ["*"]))
        assert len(found) > SOME
        assert session.bound_sid()
        # what is written comes back through the same layer
        name = f"S{uuid4().hex[:10]}"
        guid = directory.create(mqdssm.Site(name=name))
        assert directory.read(mqdssm.Site, mqdssm.Filter("Identifier", "==", guid)).name == name
        directory.delete(mqdssm.Site(identifier=guid))


def test_as_windows_writes_the_name(samba_server: SambaDomainController) -> None:
    user = f"{samba_server.domain}\\Administrator"
    with connect(samba_server, user=user, authentication="ntlm") as directory:
        assert (directory.session.bound_sid() or "").endswith("-500")


@pytest.mark.parametrize("kind", ["starttls", "ldaps"])
def test_simple_over_tls(samba_server: SambaDomainController, kind: str) -> None:
    url = samba_server.url if kind == "starttls" else samba_server.ldaps_url
    with connect(samba_server, url, authentication="simple") as directory:
        assert (directory.session.bound_sid() or "").endswith("-500")


def test_a_computer_logs_in(domain: Domain) -> None:
    name = domain.machine()
    password = domain.server.reset_password(f"CN={name},CN=Computers,{domain.root}")
    user = f"{name}$@{domain.server.realm}".lower()
    with connect(domain.server, user=user, password=password, authentication="spnego") as directory:
        session = directory.session
        entry = session.get(f"CN={name},CN=Computers,{domain.root}", ["objectSid"])
        assert bytes(mqdssm_sid(session.bound_sid())) == entry.first("objectSid")


def mqdssm_sid(text: str | None) -> Any:
    from mqdssm.wire.sid import Sid

    return Sid.parse(text or "")


class TestRefusals:
    @pytest.mark.parametrize("authentication", ["simple", "spnego", "ntlm"])
    def test_wrong_password(self, samba_server: SambaDomainController, authentication: Any) -> None:
        with pytest.raises(mqdssm.DirectoryNotConnected, match="unknown user or wrong password") as caught:
            connect(samba_server, password="wrong", authentication=authentication)
        assert caught.value.ldap_code == 49
        assert "wrong password" in str(caught.value)

    def test_clear_text(self, samba_server: SambaDomainController) -> None:
        with pytest.raises(mqdssm.DirectoryNotConnected, match="StartTLS or LDAPS") as caught:
            connect(samba_server, tls="none", authentication="simple")
        assert caught.value.ldap_code == 8
        assert "spnego" in caught.value.hint

    def test_a_name_without_domain(self, samba_server: SambaDomainController) -> None:
        with pytest.raises(mqdssm.DirectoryNotConnected, match="unknown user or wrong password") as caught:
            connect(samba_server, samba_server.ldaps_url, user="Nobody")
        assert "user@domain" in caught.value.hint

    def test_nobody(self, samba_server: SambaDomainController) -> None:
        with pytest.raises(mqdssm.DirectoryError, match="nobody who has not logged in") as caught:
            mqdssm.connect(samba_server.ldaps_url, ca_file=samba_server.ca_file)
        assert "user and password" in caught.value.hint

    def test_sealing_twice(self, samba_server: SambaDomainController) -> None:
        with pytest.raises(mqdssm.DirectoryNotConnected, match="tls='none'"):
            connect(samba_server, samba_server.ldaps_url, authentication="spnego")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"userAccountControl": [b"514"]}, "disabled"),
            ({"accountExpires": [b"116444736000000001"]}, "account has expired"),
            ({"userAccountControl": [b"512"], "pwdLastSet": [b"0"]}, "must be changed"),
        ],
        ids=["disabled", "expired", "change"],
    )
    def test_accounts_that_may_not(self, domain: Domain, change: dict[str, list[bytes]], words: str) -> None:
        name = domain.name("u")
        user, password = domain.server.add_user(name)
        domain.directory.session.modify(f"CN={name},CN=Users,{domain.root}", change)
        with pytest.raises(mqdssm.DirectoryNotConnected, match=words) as caught:
            connect(domain.server, domain.server.ldaps_url, user=user, password=password)
        assert caught.value.hint

    @pytest.mark.parametrize(("scheme", "port"), [("ldap", 389), ("ldaps", 636)])
    def test_a_certificate_for_another_name(
        self, samba_server: SambaDomainController, scheme: str, port: int
    ) -> None:
        with Proxy(samba_server.address, port, listen_on="127.255.255.253") as proxy:
            with pytest.raises(
                mqdssm.DirectoryNotConnected, match=r"is not for '127\.255\.255\.253'"
            ) as caught:
                connect(samba_server, f"{scheme}://{proxy.host}:{proxy.port}")
            assert "host name that stands in the certificate" in caught.value.hint
            seen = b"".join(bytes(one.up) for one in proxy.recordings)
            assert seen
            assert samba_server.password.encode() not in seen

    def test_names_without_address_and_unknown_authorities(self, samba_server: SambaDomainController) -> None:
        other = samba_server.ldaps_url.replace(samba_server.address, "127.0.0.1.nip.invalid")
        with pytest.raises(mqdssm.DirectoryNotConnected, match="no address"):
            connect(samba_server, other)
        with pytest.raises(mqdssm.DirectoryNotConnected, match="not trusted"):
            connect(samba_server, samba_server.ldaps_url, ca_file=None)

    def test_a_global_catalog_takes_no_changes(self, samba_server: SambaDomainController) -> None:
        with (
            connect(samba_server, samba_server.gc_ldaps_url) as directory,
            pytest.raises(mqdssm.GenericDirectoryError, match="389 or 636"),
        ):
            directory.create(mqdssm.Site(name=f"S{uuid4().hex[:10]}"))


class TestSeveralControllers:
    @pytest.fixture
    def second(self) -> Iterator[SambaDomainController]:
        with SambaDomainController() as server:
            yield server

    def test_an_operation_stays_on_its_server(
        self, samba_server: SambaDomainController, second: SambaDomainController, tmp_path: Path
    ) -> None:
        """Two controllers of one domain that do not know each other: as between two replications."""
        both = tmp_path / "both.pem"
        both.write_text(Path(second.ca_file).read_text() + Path(samba_server.ca_file).read_text())
        with mqdssm.connect(
            [second.ldaps_url, samba_server.ldaps_url],
            user=second.user,
            password=second.password,
            ca_file=str(both),
        ) as directory:
            session = directory.session
            with session.keep_one_server():
                name = f"S{uuid4().hex[:10]}"
                directory.create(mqdssm.Site(name=name))
                second.stop()
                with pytest.raises(mqdssm.DirectoryNotConnected, match="stopped in the middle") as caught:
                    directory.create(mqdssm.Site(name=f"{name}b"))
                assert second.ldaps_url in caught.value.hint
            # the next operation may go elsewhere
            guid = directory.create(mqdssm.Site(name=f"{name}c"))
            assert session.server_url == samba_server.ldaps_url
            directory.delete(mqdssm.Site(identifier=guid))

    def test_a_sealed_connection_survives_a_restart(self, second: SambaDomainController) -> None:
        with connect(second, authentication="spnego") as directory:
            before = directory.session.bound_sid()
            second.stop()
            second.start()
            assert directory.read(mqdssm.Enterprise, ()).name
            assert directory.session.bound_sid() == before

    def test_many_threads_over_sealed_connections(self, samba_server: SambaDomainController) -> None:
        with connect(samba_server, authentication="spnego") as directory:
            names = [f"T{uuid4().hex[:8]}" for _ in range(8)]
            wrong: list[object] = []

            def work(name: str) -> None:
                try:
                    guid = directory.create(mqdssm.Site(name=name))
                    for _ in range(10):
                        read = directory.read(mqdssm.Site, mqdssm.Filter("Identifier", "==", guid))
                        if read.name != name:
                            wrong.append((name, read.name))
                    directory.delete(mqdssm.Site(identifier=guid))
                except Exception as error:  # noqa: BLE001  the test tells it
                    wrong.append(error)

            threads = [threading.Thread(target=work, args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not wrong
