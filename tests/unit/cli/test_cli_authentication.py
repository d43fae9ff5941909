"""Logging in to a domain from the command line: the options reach the connection."""

import pytest
from typer.testing import CliRunner

from mqdssm.cli.options import Authentication, Given
from mqdssm.cli.run import Run


def options_of(**given):
    return Run(Given(url=["ldap://127.0.0.1"], **given)).connection_options()


def test_kerberos_needs_no_password(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("MQDSSM_PASSWORD", raising=False)
    keys = tmp_path / "svc.keytab"
    keys.write_bytes(b"\5\2")
    options = options_of(
        user="svc@EXAMPLE.COM",
        authentication=Authentication.KERBEROS,
        keytab=keys,
        kerberos_host="dc1.example.com",
    )
    assert options.authentication == "kerberos"
    assert options.keytab == str(keys)
    assert options.kerberos_host == "dc1.example.com"
    assert not options.password


@pytest.mark.parametrize("kind", ["spnego", "ntlm"])
def test_the_environment_may_say_it(monkeypatch, kind) -> None:
    monkeypatch.setenv("MQDSSM_AUTHENTICATION", kind)
    monkeypatch.setenv("MQDSSM_PASSWORD", "p")
    assert options_of(user="ann@example.com").authentication == kind


def test_export_says_that_it_binds_simply(monkeypatch, tmp_path) -> None:
    from mqdssm.cli.main import app

    monkeypatch.setenv("MQDSSM_PASSWORD", "p")
    monkeypatch.setattr("mqdssm.spark.session.check_spark", lambda: None)
    words = ["export", "--type", "queue", "--to", str(tmp_path / "out"), "--url", "ldap://127.0.0.1"]
    done = CliRunner().invoke(app, [*words, "--user", "ann@example.com", "--authentication", "ntlm"])
    assert done.exit_code == 2
    assert "simple bind" in done.stderr
