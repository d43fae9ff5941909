"""The private domain controller of mqdssm.testing: its life, its addresses, what it is like."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ldap3
import pytest
from ldap3.core.exceptions import LDAPStrongerAuthRequiredResult
from support.servers.samba_tools import SambaTools

from mqdssm.errors import ConfigError, ObjectAlreadyExists
from mqdssm.testing import SambaDomainController
from mqdssm.testing.accounts import Connection, connect_over_tls
from mqdssm.testing.openldap_start import AddressTakenError, explain_failure
from mqdssm.testing.samba_config import (
    FOLDER_PATH_BYTES_MAX,
    SambaOptions,
    find_cache_folder,
    find_taken_port,
    free_address,
    make_temporary_folder,
    prepare_template,
    require_software,
)

START_S_MAX = 5.0  # 0.2 s on an idle machine


def administrator(server: SambaDomainController, url: str | None = None) -> Connection:
    return connect_over_tls(url or server.ldaps_url, server.user, server.password, server.ca_file)


def root_dse(connection: Connection, *names: str) -> dict[str, list[str]]:
    connection.search("", "(objectClass=*)", ldap3.BASE, attributes=list(names))
    return {name: list(values) for name, values in connection.response[0]["attributes"].items()}


def test_attributes_lead_to_the_domain(samba_server: SambaDomainController) -> None:
    assert samba_server.base_dn == "DC=contoso,DC=test"
    assert (samba_server.realm, samba_server.domain) == ("CONTOSO.TEST", "CONTOSO")
    assert samba_server.url == f"ldap://{samba_server.address}"
    with administrator(samba_server) as connection:
        shown = root_dse(connection, "defaultNamingContext", "dnsHostName")
    assert shown["defaultNamingContext"] == [samba_server.base_dn]
    assert [name.lower() for name in shown["dnsHostName"]] == [samba_server.dns_name]


def test_certificates_verify_by_address_and_by_name(samba_server: SambaDomainController) -> None:
    for host in (samba_server.address, samba_server.dns_name):
        done = subprocess.run(
            [
                *("openssl", "s_client", "-connect", f"{samba_server.address}:636", "-verify_return_error"),
                *("-CAfile", samba_server.ca_file),
                *("-verify_ip" if host == samba_server.address else "-verify_hostname", host),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert "Verify return code: 0 (ok)" in done.stdout


def test_starttls_and_the_global_catalog(samba_server: SambaDomainController) -> None:
    tls = ldap3.Tls(validate=2, ca_certs_file=samba_server.ca_file)
    for url in (samba_server.url, samba_server.gc_url):
        connection = ldap3.Connection(
            ldap3.Server(url, get_info=ldap3.NONE, tls=tls),
            samba_server.user_dn,
            samba_server.password,
            auto_bind=ldap3.AUTO_BIND_TLS_BEFORE_BIND,
        )
        assert connection.bound
        connection.unbind()
    with administrator(samba_server, samba_server.gc_ldaps_url) as connection:
        connection.search("", "(sAMAccountName=Administrator)", attributes=["cn"])
        assert [found["dn"] for found in connection.response] == [samba_server.user_dn]


def test_a_simple_bind_in_clear_text_is_refused(samba_server: SambaDomainController) -> None:
    server = ldap3.Server(samba_server.url, get_info=ldap3.NONE)
    connection = ldap3.Connection(server, samba_server.user, samba_server.password, raise_exceptions=True)
    with pytest.raises(LDAPStrongerAuthRequiredResult):
        connection.bind()
    connection.unbind()


def test_accounts_log_in(samba_server: SambaDomainController) -> None:
    user, password = samba_server.add_user("server-joe")
    computer = samba_server.add_computer("SRVSTART")
    of_computer = samba_server.reset_password(computer)
    for name, secret in ((user, password), ("SRVSTART$@contoso.test", of_computer)):
        with connect_over_tls(samba_server.ldaps_url, name, secret, samba_server.ca_file) as connection:
            connection.search(samba_server.base_dn, "(sAMAccountName=SRVSTART$)", attributes=["dNSHostName"])
            found = [one for one in connection.response if one["type"] == "searchResEntry"]
            assert found[0]["raw_attributes"]["dNSHostName"] == [b"srvstart.contoso.test"]
    with pytest.raises(ObjectAlreadyExists):
        samba_server.add_user("server-joe")


def test_the_privileged_socket_is_the_system(samba_server: SambaDomainController) -> None:
    connection = ldap3.Connection(ldap3.Server(samba_server.ldapi_url, get_info=ldap3.NONE))
    connection.open()
    assert root_dse(connection, "tokenGroups")["tokenGroups"]  # S-1-5-18 has no name to bind with
    connection.unbind()


def test_two_side_by_side_are_apart(samba_server: SambaDomainController) -> None:
    began = time.monotonic()
    with SambaDomainController() as other:
        assert time.monotonic() - began < START_S_MAX
        assert other.address != samba_server.address
        dn = other.add_computer("ONLYTHERE")
        assert SambaTools(other).entry(dn, "cn")["cn"] == [b"ONLYTHERE"]
        assert SambaTools(samba_server).search("(sAMAccountName=ONLYTHERE$)") == {}
        folder, address = other.folder, other.address
    assert not folder.exists()
    assert find_taken_port(address) == 0


@pytest.mark.parametrize("end", [SambaDomainController.stop, SambaDomainController.kill])
def test_start_again_on_the_same_address_with_the_same_data(
    end: Callable[[SambaDomainController], None],
) -> None:
    with SambaDomainController() as server:
        dn = server.add_computer("KEPT")
        address, pid, url = server.address, server.pid, server.url
        end(server)
        assert server.pid is None
        with pytest.raises(OSError):
            socket.create_connection((address, 389), timeout=5)
        server.start()
        assert (server.address, server.url) == (address, url)
        assert server.pid != pid
        with administrator(server) as connection:
            assert connection.search(dn, "(objectClass=*)", ldap3.BASE)
        assert "samba version" in server.log


def test_a_kept_folder_keeps_the_domain(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"dc-{os.getpid()}"
    try:
        with SambaDomainController(folder) as server:
            dn, password = server.add_computer("STAYS"), server.password
            with pytest.raises(ConfigError, match="in use by another"):
                SambaDomainController(folder).start()
        with SambaDomainController(folder) as server:
            assert server.password == password
            assert SambaTools(server).entry(dn, "cn")
            kept = server.folder
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
    assert kept == folder


def test_killed_parent_leaves_nothing_behind() -> None:
    program = (
        "import sys, time\n"
        "from mqdssm.testing import SambaDomainController\n"
        "server = SambaDomainController()\n"
        "server.start()\n"
        "print(server.pid, server.address, server.folder, flush=True)\n"
        "time.sleep(100)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid, address, folder = parent.stdout.readline().split()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while Path("/proc", pid).exists() or Path(folder).exists():
        assert time.monotonic() < deadline, "samba or its folder outlived the process that made them"
        time.sleep(0.02)
    assert find_taken_port(address) == 0


@pytest.mark.soak  # a domain is provisioned for it alone
def test_a_realm_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with SambaDomainController(realm="corp.example.org", domain="CORP", host="NORTH") as server:
        assert server.base_dn == "DC=corp,DC=example,DC=org"
        user, password = server.add_user("ann")
        assert user == "ann@corp.example.org"
        with connect_over_tls(server.ldaps_url, user, password, server.ca_file) as connection:
            assert root_dse(connection, "rootDomainNamingContext") == {
                "rootDomainNamingContext": [server.base_dn]
            }


def test_tickets_are_given_where_wanted() -> None:
    with SambaDomainController(kerberos=True) as server:
        settings = os.environ | {
            "KRB5_CONFIG": server.krb5_conf,
            "KRB5CCNAME": f"FILE:{server.folder}/tickets",
        }
        user = f"Administrator@{server.realm}"
        subprocess.run(
            ["kinit", user], input=server.password, env=settings, text=True, check=True, capture_output=True
        )
        target = f"ldap/{server.dns_name}"
        done = subprocess.run(["kvno", target], env=settings, text=True, check=True, capture_output=True)
        assert f"{target}@{server.realm}: kvno =" in done.stdout


def test_the_domain_is_made_once(
    samba_server: SambaDomainController, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = prepare_template(samba_server.options)
    assert place.is_relative_to(find_cache_folder())
    assert (place / "private" / "sam.ldb").exists()
    assert place.stat().st_mode & 0o077 == 0
    made = (place / "private").stat().st_mtime_ns
    assert prepare_template(SambaOptions()) == place
    assert (place / "private").stat().st_mtime_ns == made
    assert prepare_template(SambaOptions(kerberos=True, strong_auth="no")) == place
    monkeypatch.setenv("MQDSSM_CACHE", "/nonexistent/cache")
    assert find_cache_folder() == Path("/nonexistent/cache")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as change:
        change.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(ConfigError, match="needs root"):
            SambaDomainController().start()
    monkeypatch.setattr("mqdssm.testing.samba_config._search_path", lambda: "/nonexistent")
    with pytest.raises(ConfigError, match=r"samba, samba-tool, flock not found.*install .*samba-ad-dc"):
        require_software()


def test_a_domain_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sh"
    broken.write_text("echo no room left >&2; exit 70\n")
    monkeypatch.setattr("mqdssm.testing.samba_config.START_SCRIPT", broken)
    monkeypatch.setenv("MQDSSM_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"no domain was made in .*status 70\): no room left"):
        SambaDomainController().start()


def test_domains_unused_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "make.sh"
    script.write_text('mkdir -p "$MSMQ_SAMBA_TEMPLATE"; : >"$MSMQ_SAMBA_TEMPLATE/done"\n')
    monkeypatch.setattr("mqdssm.testing.samba_config.START_SCRIPT", script)
    monkeypatch.setenv("MQDSSM_CACHE", str(tmp_path))
    old, young = tmp_path / "samba" / "4.0-old", tmp_path / "samba" / "4.0-young"
    for folder, days in ((old, 90), (young, 10)):
        folder.mkdir(parents=True)
        (folder / "done").touch()
        os.utime(folder / "done", (time.time() - days * 86400,) * 2)
    made = prepare_template(SambaOptions())
    assert {path.name for path in (tmp_path / "samba").iterdir()} == {"4.0-young", made.name}


@pytest.mark.parametrize(
    "wrong",
    [
        {"realm": "nodots"},
        {"realm": "CONTOSO.TEST\nmore = yes"},
        {"domain": "TOO-LONG-A-NAME-1"},
        {"host": "A B"},
        {"strong_auth": "perhaps"},
        {"services": ()},
        {"services": ("ldap\nx",)},
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SambaDomainController(**wrong)  # type: ignore[arg-type]


def test_not_started() -> None:
    server = SambaDomainController()
    for name in ("url", "folder", "pid", "log", "password", "ca_file", "ldapi_url"):
        with pytest.raises(ConfigError, match=r"not been started|not running"):
            getattr(server, name)
    server.close()


def test_folders_with_long_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{FOLDER_PATH_BYTES_MAX} bytes"):
        SambaDomainController(tmp_path / ("x" * 100)).start()


def test_taken_addresses() -> None:
    address = free_address()
    with socket.create_server((address, 3269)):
        assert find_taken_port(address) == 3269
        with pytest.raises(ConfigError, match=r"port 3269 of .* is taken"):
            SambaDomainController(address=address).start()
    log = "stream_setup_socket: Failed to listen on 127.0.0.78:389 - NT_STATUS_ADDRESS_ALREADY_ASSOCIATED"
    assert isinstance(explain_failure(1, log, Path("/x")), AddressTakenError)
    assert "ended with status 1: broken" in str(explain_failure(1, "broken\n", Path("/x"), "samba"))


def test_temporary_folders_fall_back_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqdssm.testing.samba_config.MEMORY_FOLDER", Path("/nonexistent"))
    folder = make_temporary_folder()
    assert folder.path.stat().st_mode & 0o077 == 0
    assert not folder.path.is_relative_to("/dev/shm")
    folder.remove()


def test_taken_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqdssm.testing.samba_config.find_taken_port", lambda _address: 389)
    with pytest.raises(ConfigError, match="port 389 is taken on every loopback address"):
        free_address()
