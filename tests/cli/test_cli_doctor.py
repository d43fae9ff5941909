"""doctor: healthy servers, sick ones, and the limits it keeps."""

import subprocess
import time
from pathlib import Path

import pytest
from support.servers.plain_ldap import PlainLdap
from support.servers.proxy import black_hole

from mqdssm.diagnostics.findings import CheckFinding, CheckState, make_ok, run_limited
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.openldap_snapshot import undo_changes

NAMES = [
    *("settings", "connection", "certificate", "profile", "naming contexts", "schema", "base tree"),
    *("enterprise", "rights", "limits", "controls", "indexes", "clock", "servers"),
]


def by_name(found: dict) -> dict[str, list[dict]]:
    names: dict[str, list[dict]] = {}
    for one in found["findings"]:
        assert set(one) == {"name", "state", "text", "advice", "seconds"}
        assert one["seconds"] <= 5.5
        names.setdefault(one["name"].partition(" ldap")[0], []).append(one)
    return names


def said(found: dict, name: str) -> str:
    return "\n".join(f"{one['state']}: {one['text']} / {one['advice']}" for one in by_name(found)[name])


def test_a_healthy_server(cli, openldap_server, machine, plain):
    before = plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+")
    found = cli.json("doctor", "--url", openldap_server.url)
    assert plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+") == before
    assert found["connected"] is True
    assert list(by_name(found)) == NAMES
    assert {one["state"] for one in found["findings"] if one["name"] != "enterprise"} == {"ok"}
    assert "StartTLS" in said(found, "connection")
    assert "TLSv1.3" in said(found, "certificate")
    assert "may change the enterprise" in said(found, "rights")
    assert "may change queue managers" in said(found, "rights")
    assert "no queues to be seen yet" in said(found, "rights")
    assert "paged results, dereference" in said(found, "controls")


def test_for_people(cli, openldap_server):
    fine = cli("doctor")
    assert fine.stderr == f"0 problem, 0 warning, {len(fine.stdout.splitlines()) - 1} ok\n"
    enterprise = "cn=MsmqServices,cn=Services,cn=Configuration,dc=example,dc=com"
    with undo_changes(openldap_server):
        PlainLdap(openldap_server).modify(enterprise, "delete: nTSecurityDescriptor")
        result = cli("doctor")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["state", "check", "what", "was", "found"]
    assert all(line.split(" ", 1)[0] in {"ok", "warning", ""} for line in lines[1:])
    assert any("→ mqdssm write enterprise" in line for line in lines)
    assert result.stderr == f"0 problem, 1 warning, {len(lines) - 3} ok\n"


def test_a_user_who_may_only_read(cli, openldap_server, machine):
    user, password = openldap_server.add_user(f"d{machine.name}")
    found = cli.json("doctor", MQDSSM_USER=user, MQDSSM_PASSWORD=password)
    assert f"logged in as {user}, SID S-1-5-21-".lower() in said(found, "rights").lower()
    assert "warning: may not change the enterprise" in said(found, "rights")
    assert "warning: may not change queue managers" in said(found, "rights")


def test_read_only_tries_nothing(cli, machine):
    found = cli.json("doctor", "--read-only")
    assert "ok: read only: nothing is ever written" in said(found, "rights")
    assert "may change" not in said(found, "rights")


def test_strangers_see_little(cli, openldap_server):
    nobody = {"MQDSSM_USER": None, "MQDSSM_PASSWORD": None}
    found = cli.json("doctor", "--url", openldap_server.url, code=1, **nobody)
    assert "warning: nobody logs in" in said(found, "settings")
    assert "problem: " in said(found, "enterprise")
    assert "problem: this user may not see dc=example,dc=com" in said(found, "limits")


def test_no_server_is_exit_code_3(cli, openldap_server):
    found = cli.json("doctor", "--url", "ldap://127.0.0.1:1", code=3)
    assert found["connected"] is False
    assert [one["name"] for one in found["findings"]] == [
        "settings",
        "connection ldap://127.0.0.1:1",
        "directory",
    ]
    assert "nobody listens there" in said(found, "connection")
    found = cli.json("doctor", code=3, MQDSSM_PASSWORD="wrong")
    assert "unknown user or wrong password" in said(found, "connection")
    found = cli.json("doctor", "--url", openldap_server.url, code=3, MQDSSM_CA_FILE=None)
    assert "certificate is not trusted" in said(found, "connection")
    assert "give the certification authority's PEM file" in said(found, "connection")


def test_one_of_two_servers_away(cli, openldap_server):
    found = cli.json("doctor", "--url", "ldap://127.0.0.1:1", "--url", openldap_server.ldapi_url, code=1)
    assert found["connected"] is True
    assert [one["state"] for one in by_name(found)["connection"]] == ["problem", "ok"]
    assert "one server: nothing to fall back to" in said(found, "servers")


def test_two_ways_to_one_server_are_the_same_directory(cli, openldap_server):
    found = cli.json("doctor", "--url", openldap_server.ldaps_url, "--url", openldap_server.ldapi_url)
    assert said(found, "servers").startswith("ok: 2 servers of the same directory, in the same state")
    assert "LDAPS" in said(found, "connection")
    assert "none needed on a local socket" in said(found, "certificate")


def test_a_server_that_does_not_answer_takes_five_seconds(cli):
    with black_hole() as port:
        started = time.monotonic()
        found = cli.json("doctor", "--url", f"ldap://127.0.0.1:{port}", "--tls", "none", code=3)
        assert time.monotonic() - started < 8
    assert "no answer within" in said(found, "connection")


def test_a_check_that_hangs_is_left_behind():
    def hangs():
        time.sleep(3)
        yield make_ok("x", "never")

    started = time.monotonic()
    (found,) = run_limited("x", hangs, limit_s=0.1)
    assert time.monotonic() - started < 2
    assert (found.state, found.text, found.seconds) == (CheckState.PROBLEM, "no answer within 0 s", 0.1)


def test_a_check_that_fails_is_a_finding():
    def fails():
        yield CheckFinding("x", CheckState.OK, "first")
        raise RuntimeError("boom")

    found = list(run_limited("x", fails))
    assert [one.state for one in found] == [CheckState.OK, CheckState.PROBLEM]
    assert "boom" in found[1].text


def test_a_careless_password_file(cli, openldap_server, tmp_path):
    file = tmp_path / "password"
    file.write_text(openldap_server.password + "\n")
    file.chmod(0o644)
    found = cli.json("doctor", "--password-file", str(file))
    assert f"warning: others may read the password file {file} (0644) / chmod 600 {file}" in said(
        found, "settings"
    )
    file.chmod(0o600)
    assert "chmod" not in said(cli.json("doctor", "--password-file", str(file)), "settings")


def test_clear_text_is_told(cli, openldap_server):
    found = cli.json("doctor", "--url", openldap_server.url, "--tls", "none", "--allow-clear-text")
    assert "warning: no TLS" in said(found, "certificate")
    assert "warning: the password may go in clear text" in said(found, "settings")


def test_a_size_limit_is_found(cli):
    with OpenLdapServer(durable=False, size_limit=5, deref=False, syncprov=False) as server:
        config = Path(server.folder, "conf", "slapd.conf")
        text = config.read_text()
        login = {"MQDSSM_URL": server.url, "MQDSSM_CA_FILE": server.ca_file}
        user, password = server.add_user("ann")
        who = {"MQDSSM_USER": user, "MQDSSM_PASSWORD": password}
        # what a server has that nobody configured for this
        server.stop()
        process = limited_slapd(server, text.replace("limits    users size.prtotal=unlimited\n", ""))
        try:
            found = cli.json("doctor", code=1, **login, **who)
        finally:
            process.terminate()
            process.wait(30)
    assert "the server cut a search after" in said(found, "limits")
    assert "set 'limits users size.prtotal=unlimited'" in said(found, "limits")
    assert "warning: paged results, but no dereference" in said(found, "controls")


def limited_slapd(server: OpenLdapServer, config: str) -> subprocess.Popen:
    """The same directory, served with another configuration."""
    from mqdssm.testing.openldap_start import is_answering

    file = Path(server.folder, "conf", "other.conf")
    file.write_text(config)
    socket = Path(server.folder, "run", "ldapi")
    urls = f"ldap://127.0.0.1:{server.port}/ {server.ldapi_url}/"
    process = subprocess.Popen(["/usr/sbin/slapd", "-d", "none", "-f", str(file), "-h", urls])
    deadline = time.monotonic() + 20
    while not is_answering(socket):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_server_without_the_schema(cli):
    with OpenLdapServer(durable=False) as server:
        text = Path(server.folder, "conf", "slapd.conf").read_text()
        login = {
            "MQDSSM_URL": server.ldapi_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
        }
        server.stop()
        empty = Path(server.folder, "empty")
        empty.mkdir()
        words = (
            "core.schema",
            "modulepath",
            " mdb",
            "back_mdb",
            "authz-regexp",
            "suffix ",
            "rootdn",
            "rootpw",
        )
        lines = [line for line in text.splitlines() if any(word in line for word in words)]
        process = limited_slapd(server, "\n".join([*lines, f'directory "{empty}"', ""]))
        try:
            found = cli.json("doctor", code=1, **login)
            checked = cli.json("schema", "check", code=1, **login)
            shown = cli("schema", "check", code=1, **login)
        finally:
            process.terminate()
            process.wait(30)
    assert "problem: attribute" in said(found, "schema")
    assert "load it: mqdssm schema ldif | ldapadd" in said(found, "schema")
    assert "the root DSE does not name them" in said(found, "naming contexts")
    serious = {one["subject"] for one in checked["differences"] if one["serious"]}
    assert {"attribute mSMQLabelEx", "class mSMQQueue"} <= serious
    assert "class mSMQQueue" in shown.stdout
    assert shown.stderr.endswith(
        "differences; load it: mqdssm schema ldif | ldapadd -Y EXTERNAL -H ldapi:///\n"
    )


def test_no_msmq_directory(cli):
    with OpenLdapServer(durable=False) as server:
        plain = PlainLdap(server)
        plain.delete("cn=MsmqServices,cn=Services,cn=Configuration,dc=example,dc=com")
        login = {
            "MQDSSM_URL": server.ldapi_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
        }
        found = cli.json("doctor", code=1, **login)
        message = cli.error("list", "queue", code=6, **login)
    assert "is missing: this is no MSMQ directory, or this user may not see it" in said(found, "enterprise")
    assert "--format base-tree --root dc=example,dc=com" in said(found, "enterprise")
    assert message.startswith("this is no MSMQ directory")


@pytest.mark.parametrize("kind", ["text", "mapping"])
def test_schema_show(alone, kind):
    if kind == "mapping":
        shown = alone.json("schema", "show")
        assert list(shown) == ["Queue", "QueueManager", "Enterprise", "Site", "RoutingLink", "User"]
        label = next(one for one in shown["Queue"]["attributes"] if one["attribute"] == "Label")
        assert label["ldap"] == ["mSMQLabelEx"]
        assert label["events"] == "RCWFS"
        assert label["propid"] == 108
        return
    lines = alone("schema", "show", "queue").stdout.splitlines()
    assert lines[0] == "Queue (queue), in entries of class mSMQQueue"
    assert lines[1].split() == ["attribute", "LDAP", "value", "unset", "events", "PROPID"]
    (quota,) = [line for line in lines if line.startswith("Quota ")]
    assert quota.split("  ")[-1].strip() == "105"
    assert "integer (KB)" in quota


def test_schema_ldif_is_the_generated_text(alone):
    from mqdssm.tables import ldif

    assert alone("schema", "ldif").stdout == ldif.format_openldap_config()
    assert alone("schema", "ldif", "--format", "schema").stdout == ldif.format_openldap_schema()
    for form, made in (("config", ldif.format_openldap_config), ("schema", ldif.format_openldap_schema)):
        assert alone("schema", "ldif", "--format", f"replication-{form}").stdout == made(ldif.REPLICATION)
    tree = alone("schema", "ldif", "--format", "base-tree", "--root", "DC=x,DC=y").stdout
    assert tree == ldif.format_base_tree("DC=x,DC=y")
    assert "DC=x,DC=y" in alone("schema", "ldif", "--format", "root-dse", "--root", "DC=x,DC=y").stdout
