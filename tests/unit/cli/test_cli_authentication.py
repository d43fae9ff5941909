"""Logging in to a domain from the command line: the options reach the connection."""

import pytest
from typer.testing import CliRunner

from mqdssm.cli.options import GivenOptions
from mqdssm.cli.run import CommandRun


def options_of(**given):
    return CommandRun(GivenOptions(url=["ldap://127.0.0.1"], **given)).connection_options()


def test_kerberos_needs_no_password(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("MQDSSM_PASSWORD", raising=False)
    keys = tmp_path / "svc.keytab"
    keys.write_bytes(b"\5\2")
    options = options_of(
        user="svc@EXAMPLE.COM",
        authentication="kerberos",
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


def test_export_logs_in_as_all_commands_do(monkeypatch, tmp_path) -> None:
    from mqdssm.cli.main import app
    from mqdssm.errors import ConfigError

    seen = {}

    def export(urls, types, to, **access) -> None:
        seen.update(access, urls=urls, types=types)
        raise ConfigError("as far as this test goes")

    keys = tmp_path / "keys"
    keys.touch()
    monkeypatch.setattr("mqdssm.spark.session.check_spark", lambda: None)
    monkeypatch.setattr("mqdssm.pipeline.export.run.export", export)
    words = ["export", "--to", str(tmp_path / "out"), "--url", "ldap://dc1", "--user", "ann@example.com"]
    more = ["--authentication", "kerberos", "--keytab", str(keys), "--kerberos-host", "dc1.example.com"]
    done = CliRunner().invoke(app, [*words, *more])
    assert (done.exit_code, done.stderr) == (6, "error: as far as this test goes\n")
    assert seen["authentication"] == "kerberos"
    assert seen["keytab"] == keys
    assert seen["kerberos_host"] == "dc1.example.com"
    assert "password" not in seen
    assert not seen["on"].is_cluster
    assert "ldap" not in seen["types"]
    assert {"queue", "settings", "computer"} < set(seen["types"])
