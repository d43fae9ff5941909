"""``mqdssm diff`` of MQIS tables as a migration reads them: other names, code pages, databases, new SIDs."""

import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from support.mqis.postgresql import DRIVER, PASSWORD, postgresql, why_none
from support.project.source_tree import ROOT
from support.spark import SPARK_IN_SOAK
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.pipeline.migrate.sids import SidMap, SidRewriter
from mqdssm.samples import elements
from mqdssm.samples.forms import LoadingMode, SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.openldap_start import free_ports
from mqdssm.wire.sid import Sid

pytestmark = pytest.mark.timeout(600)

SAMPLE = EnterprisePlan(sites=2, machines=4, queues=30, users=3, seed=7)
LOGIN = {"MQDSSM_USER": "x", "MQDSSM_PASSWORD": "y"}
OLD_DOMAIN = "S-1-5-21-1-2-3"


def invoke(*args, code=0, **environment):
    result = CliRunner().invoke(app, ["diff", *map(str, args)], env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def environment_of(server) -> dict[str, str]:
    return {
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    generate(SAMPLE, folder / "mqis", SampleForm.MQIS, table_form=TableForm.JSONL)
    generate(SAMPLE, folder / "ldif", SampleForm.LDIF, loader=LoadingMode.SLAPADD)
    return folder


@pytest.fixture(scope="module")
def server(samples):
    with OpenLdapServer(durable=False, unique=False) as started:
        started.load(*(samples / "ldif" / name for name in ("base-tree.ldif", "objects.ldif")))
        yield started


def moved(source: Path, target: Path, sids: SidMap) -> None:
    """The same tables with other SIDs."""
    rewriter = SidRewriter(sids)
    target.mkdir()
    for file in source.iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            for name, value in row.items():
                if value is not None and name.endswith("_SECURITY"):
                    row[name] = b64encode(rewriter.rewrite_descriptor(b64decode(value), name)).decode()
                elif value is not None and name == "PROPID_U_SID":
                    sid = Sid.from_bytes(b64decode(value))
                    row[name] = b64encode(bytes(Sid.parse(rewriter.rewrite_sid(str(sid), name)))).decode()
        (target / file.name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@SPARK_IN_SOAK
def test_old_sids_are_those_of_the_new_domain(engine, samples, server, tmp_path):
    new = [str(SAMPLE.make_user_sid(number)) for number in range(SAMPLE.users)]
    domain = str(SAMPLE.domain_sid)
    moved(samples / "mqis", tmp_path / "old", SidMap(domains={domain: OLD_DOMAIN}))
    login = environment_of(server)
    types = ["--type", "user", "--type", "queue", "--engine", engine]
    told = invoke(tmp_path / "old", server.url, "-o", "json", *types, code=1, **login)
    summary = json.loads(told.stdout.splitlines()[-1])
    assert summary["different"] > 0  # owners of queues
    assert summary["missing"] == summary["extra"] == SAMPLE.users

    (tmp_path / "sids.toml").write_text(f'[domains]\n"{OLD_DOMAIN}" = "{domain}"\n')
    same = invoke(tmp_path / "old", server.url, "--sid-map", tmp_path / "sids.toml", *types, **login)
    assert same.stdout == "no differences\n"
    # names of accounts are those of the directory
    old = [sid.replace(domain, OLD_DOMAIN) for sid in new]
    names = [elements.make_user_name(SAMPLE, number) for number in range(SAMPLE.users)]
    lines = [f'"{sid}" = "{name}"\n' for sid, name in zip(old, names, strict=True)]
    (tmp_path / "names.toml").write_text("[sids]\n" + "".join(lines))
    by_name = ["--sid-map", tmp_path / "names.toml", "--type", "user", "--engine", engine]
    assert invoke(tmp_path / "old", server.url, *by_name, **login).stdout == "no differences\n"
    refused = invoke(tmp_path / "old", samples / "mqis", *by_name, code=6)
    assert "only a directory tells which SIDs they have" in refused.stderr


@pytest.mark.soak
def test_other_names_and_code_pages(engine, samples, server, tmp_path):
    folder = tmp_path / "renamed"
    folder.mkdir()
    for file in (samples / "mqis").iterdir():
        if file.name == "Queue.jsonl":
            text = file.read_text().replace('"PROPID_Q_LABEL"', '"Bezeichnung"')
            rows = [json.dumps(json.loads(line), ensure_ascii=False) for line in text.splitlines()]
            (folder / "Schlangen.jsonl").write_text("\n".join(rows) + "\n", encoding="gb18030")
        else:
            (folder / file.name).write_bytes(file.read_bytes())
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        'encoding = "gb18030"\n[tables.Queue]\ntable = "Schlangen"\n'
        'columns = { PROPID_Q_LABEL = "Bezeichnung" }\n'
    )
    login, on = environment_of(server), ("--engine", engine)
    assert invoke(folder, server.url, "--mapping", mapping, *on, **login).stdout == "no differences\n"
    told = invoke(folder, server.url, "--mapping", mapping, *on, "-o", "json", **login)
    summary = json.loads(told.stdout.splitlines()[-1])
    assert summary["a"]["objects"] == summary["b"]["objects"] > SAMPLE.queues
    with (folder / "Schlangen.jsonl").open("ab") as file:  # what cannot be read is told
        file.write(b'{"PROPID_Q_INSTANCE": "\xff"}\n')
    told = invoke(folder, server.url, "--mapping", mapping, *on, "-o", "json", code=1, **login)
    (line, _) = map(json.loads, told.stdout.splitlines())
    assert (line["what"], line["type"]) == ("missing", "queue")
    assert "no text of code page gb18030" in line["object"]["Unreadable"][0]


@pytest.mark.soak
def test_a_database_is_compared_as_its_files_are(samples, server, tmp_path):
    if reason := why_none():
        pytest.skip(reason)
    generate(SAMPLE, tmp_path / "mqis", SampleForm.MQIS)
    (tmp_path / "mapping.toml").write_text(
        f'[jdbc]\njars = ["{DRIVER}"]\nuser = "reader"\npassword_file = "database-password"\n'
        "[tables.Queue]\n"
        'columns = { PROPID_Q_LABEL = { column = "propid_q_label", code_page = "gb18030" } }\n'
        + "".join(f"[tables.{name}]\n" for name in ("Enterprise", "Site", "RoutingLink", "Machine", "User"))
    )
    (tmp_path / "database-password").write_text(PASSWORD + "\n")
    with postgresql(free_ports(1)[0]) as database:
        database.load(tmp_path / "mqis")
        command = [sys.executable, "-m", "mqdssm.cli.main", "diff", database.url, server.url]
        done = subprocess.run(
            [*command, "--mapping", str(tmp_path / "mapping.toml"), "-o", "json"],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment_of(server)},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    (summary,) = map(json.loads, done.stdout.splitlines())
    assert summary["a"]["name"] == database.url
    assert summary["a"]["objects"] == summary["b"]["objects"] > SAMPLE.queues


@pytest.mark.parametrize("option", ["--sid-map", "--mapping"])
def test_two_directories_have_no_tables(tmp_path, option):
    (tmp_path / "file").write_text("")
    refused = invoke("ldap://a", "ldap://b", option, tmp_path / "file", code=2, **LOGIN)
    assert f"{option} is for MQIS tables: none of the sides is any" in refused.stderr


def test_no_password_in_the_url_of_a_database():
    refused = invoke("jdbc:postgresql://db/mqis?password=geheim", "ldap://b", code=2, **LOGIN)
    assert "the JDBC URL may not hold a password" in refused.stderr
    assert "geheim" not in refused.stderr
