"""Logging in with Kerberos; needs the extra ``kerberos`` (gssapi), which is compiled for each system."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqdssm
from mqdssm.directory.filters import TRUE
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController

pytest.importorskip("gssapi", reason="the extra 'kerberos' is not installed: pip install 'mqdssm[kerberos]'")


@pytest.fixture(scope="module")
def controller() -> Iterator[SambaDomainController]:
    with SambaDomainController(kerberos=True) as server:
        yield server


@pytest.fixture
def server(
    controller: SambaDomainController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SambaDomainController:
    monkeypatch.setenv("KRB5_CONFIG", controller.krb5_conf)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    return controller


def connect(server: SambaDomainController, **settings: Any) -> Directory:
    access: dict[str, Any] = {
        "authentication": "kerberos",
        "kerberos_host": server.dns_name,
        "ca_file": server.ca_file,
    }
    return mqdssm.connect(server.url, **(access | settings))


def is_administrator(directory: Directory) -> bool:
    session = directory.session
    assert len(list(session.find(session.naming.schema, TRUE, ["*"]))) > 1000  # several sealed buffers
    return (session.bound_sid() or "").endswith("-500")


@pytest.mark.parametrize("authentication", ["kerberos", "spnego"])
def test_password(server: SambaDomainController, authentication: str) -> None:
    settings = {"user": server.user, "password": server.password, "authentication": authentication}
    with connect(server, **settings) as directory:
        assert is_administrator(directory)


def test_ticket(server: SambaDomainController) -> None:
    with pytest.raises(mqdssm.DirectoryNotConnected, match="run kinit"):
        connect(server)
    name = f"Administrator@{server.realm}"
    subprocess.run(["kinit", name], input=f"{server.password}\n".encode(), check=True, capture_output=True)
    with connect(server) as directory:
        assert is_administrator(directory)


def test_keytab(server: SambaDomainController, tmp_path: Path) -> None:
    keytab = tmp_path / "keys"
    export = ["samba-tool", "domain", "exportkeytab", str(keytab), "--principal=Administrator"]
    subprocess.run([*export, "-s", server.settings_file], check=True, capture_output=True)
    with connect(server, user=server.user, keytab=str(keytab)) as directory:
        assert is_administrator(directory)
    with pytest.raises(mqdssm.DirectoryNotConnected, match="keytab cannot be used"):
        connect(server, user=server.user, keytab=str(tmp_path / "none"))


def test_what_goes_wrong_names_the_cure(server: SambaDomainController) -> None:
    with pytest.raises(mqdssm.DirectoryNotConnected, match="wrong password") as caught:
        connect(server, user=server.user, password="wrong")
    assert caught.value.ldap_code == 49
    with pytest.raises(mqdssm.DirectoryNotConnected, match="no such user"):
        connect(server, user=f"nobody@{server.realm}", password="x")
    with pytest.raises(mqdssm.DirectoryNotConnected, match="kerberos_host="):
        connect(server, user=server.user, password=server.password, kerberos_host=None)
