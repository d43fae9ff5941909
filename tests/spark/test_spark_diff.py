"""``mqdssm diff`` on the command line and against slapd, with the session that all tests of Spark share."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from functools import partial
from itertools import product
from uuid import UUID, uuid5

import pyarrow.parquet as pq
import pytest
from support.mqis.comparison import all_differences, compared_queues, queue_pair, rows_in
from support.servers.plain_ldap import PlainLdap
from support.spark import SPARK_IN_SOAK
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.model.dn import DN, escape_value
from mqdssm.pipeline.diff import recheck
from mqdssm.pipeline.diff.fields import ObjectDifferenceKind
from mqdssm.pipeline.diff.local_join import LocalJoin
from mqdssm.pipeline.diff.run import ComparisonRequest, compare_sources
from mqdssm.pipeline.diff.sides import GivenSide
from mqdssm.pipeline.export.run import EXPORTED, export
from mqdssm.pipeline.local import LocalRunner
from mqdssm.samples.forms import LoadingMode, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.spark.diff_join import SparkJoin
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor

pytestmark = pytest.mark.timeout(600)

PLAN = EnterprisePlan(sites=3, machines=12, queues=150, users=12, seed=5)
TYPES = [name for name in EXPORTED if name != "ldap"]
OTHER_OWNER = bytes(SecurityDescriptor.from_sddl("O:SYG:SYD:(A;;0x20024;;;WD)"))


@pytest.fixture(autouse=True, params=["local", "spark"])
def engine(request, monkeypatch):
    """Every test runs on both engines."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setattr(
        sys.modules[__name__], "compare_sources", partial(compare_sources, engine=request.param)
    )
    monkeypatch.setenv("TESTED_ENGINE", request.param)
    return request.param


def invoke(*args, code=0, **environment):
    words = ["diff", *map(str, args), "--engine", os.environ["TESTED_ENGINE"]]
    result = CliRunner().invoke(app, words, env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def login_to(server) -> dict[str, str]:
    return {"user": server.user, "password": server.password, "ca_file": server.ca_file}


def environment_of(server) -> dict[str, str]:
    return {
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }


def apply(server: OpenLdapServer, ldif: str) -> None:
    """What a person does with the LDIF."""
    command = ["ldapmodify", "-x", "-H", server.url, "-D", server.user, "-w", server.password]
    environment = {"LDAPTLS_CACERT": server.ca_file, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, input=ldif, capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The same enterprise as MQIS tables and as LDIF."""
    folder = tmp_path_factory.mktemp("samples")
    generate(PLAN, folder / "mqis", SampleForm.MQIS)
    generate(PLAN, folder / "ldif", SampleForm.LDIF, loader=LoadingMode.SLAPADD)
    return folder


@contextlib.contextmanager
def loaded(samples, *files: str):
    with OpenLdapServer(durable=False, unique=False) as server:
        server.load(*(samples / "ldif" / name for name in files or ("base-tree.ldif", "objects.ldif")))
        yield server


@pytest.fixture
def sample_server(samples):
    with loaded(samples) as server:
        yield server


def change(directory) -> None:
    """Something of everything."""
    queues = sorted(directory.search(mqdssm.Queue), key=lambda queue: queue.pathname)
    queues[0].label = "other"
    queues[0].quota = 7
    directory.write(queues[0])
    directory.delete(queues[1])
    queues[2].security = OTHER_OWNER
    directory.write(queues[2])
    computer = queues[2].pathname.partition("\\")[0]
    directory.create(mqdssm.Queue(pathname=rf"{computer}\new#queue=1", security=OTHER_OWNER))
    link = next(directory.search(mqdssm.RoutingLink))
    link.actual_cost = 999
    directory.write(link)


def test_differences_are_told_and_ldif_mends_them(enterprise, login, tmp_path):
    before = tmp_path / "before"
    export(enterprise.server.url, ["queue"], before, **enterprise.access)
    with enterprise.connect() as directory:
        as_it_was = stored(directory)
        change(directory)
        made = invoke(before, enterprise.server.url, "--type", "queue", "-o", "ldif", code=1, **login)
        changes = [line.split()[-1] for line in made.stdout.splitlines() if line.startswith("changetype")]
        assert sorted(changes) == ["add", "delete", "modify", "modify"]
        apply(enterprise.server, made.stdout)
        assert stored(directory) == as_it_was


def stored(directory) -> list[str]:
    """The queues, but for what the server says of them."""
    names = [
        name for name in mqdssm.Queue.adm_names() if name not in {"ModifyTime", "CreateTime", "DirectoryPath"}
    ]
    return sorted(queue.to_json() for queue in directory.search(mqdssm.Queue, attributes=names))


@pytest.mark.soak
def test_tables_and_a_directory_of_one_enterprise_are_equal(engine, samples, sample_server, tmp_path):
    export(sample_server.url, TYPES, tmp_path / "out", **login_to(sample_server))
    result = invoke(samples / "mqis", tmp_path / "out", "-o", "json")
    (summary,) = map(json.loads, result.stdout.splitlines())
    assert (summary["what"], summary["engine"]) == ("summary", engine)
    assert summary["a"]["objects"] == summary["b"]["objects"] > 150
    reasons = {(one["type"], one["column"]): one["reason"] for one in summary["not_compared"]}
    assert reasons["queue", "ModifyTime"] == "set by the server, or follows from other attributes"
    assert reasons["queue", "FullPath"] == "MQIS tables are no tree"
    assert reasons["computer", ""].startswith("A (")


@pytest.mark.soak
def test_output_for_people_and_programs(samples, sample_server, tmp_path):
    login = login_to(sample_server)
    export(sample_server.url, TYPES, tmp_path / "out", **login)
    with mqdssm.connect(sample_server.url, **login) as directory:
        change(directory)
    environment = {"MQDSSM_URL": "ldap://nowhere.invalid", **environment_of(sample_server)}
    told = invoke(tmp_path / "out", sample_server.url, "-o", "json", code=1, **environment)
    *lines, summary = map(json.loads, told.stdout.splitlines())
    assert Counter((line["what"], line["type"]) for line in lines) == {
        ("different", "queue"): 2,
        ("missing", "queue"): 1,
        ("extra", "queue"): 1,
        ("different", "routing-link"): 1,
    }
    assert (summary["missing"], summary["extra"], summary["different"]) == (1, 1, 3)
    (labelled,) = (line for line in lines if "Label" in line.get("attributes", {}))
    assert labelled["attributes"]["Label"]["b"] == "other"
    assert labelled["attributes"]["Quota"]["b"] == 7
    shown = invoke(tmp_path / "out", sample_server.url, code=1, **environment)
    assert "O:SYG:SYD:" in shown.stdout
    assert "not compared (set by the server, or follows from other attributes): " in shown.stderr
    ignored = ["--ignore", "Label", "--ignore", "queue.Quota", "--ignore", "Security", "--type", "queue"]
    told = invoke(tmp_path / "out", sample_server.url, *ignored, "-o", "json", code=1, **environment)
    assert [json.loads(line)["what"] for line in told.stdout.splitlines()] == ["extra", "missing", "summary"]


@pytest.mark.soak
@pytest.mark.parametrize("other", [None, EnterprisePlan(sites=2, machines=9, queues=60, users=5, seed=77)])
def test_ldif_makes_one_enterprise_of_another_one(sample_server, samples, tmp_path, other):
    """Out of a directory that holds the base tree alone, and of one of other sites, machines and queues."""
    export(sample_server.url, TYPES, tmp_path / "out", **login_to(sample_server))
    folder, files = samples / "ldif", ["base-tree.ldif"]
    if other is not None:
        folder, files = tmp_path / "ldif", [*files, "objects.ldif"]
        generate(other, folder, SampleForm.LDIF)
    with OpenLdapServer(durable=False, unique=False) as server:
        server.load(*(folder / name for name in files))
        made = invoke(tmp_path / "out", server.url, "-o", "ldif", code=1, **environment_of(server))
        apply(server, made.stdout)
        a, b = GivenSide(folder=tmp_path / "out"), GivenSide(urls=(server.url,), login=login_to(server))
        with compare_sources(a, b, ComparisonRequest()) as found:
            assert [(one.kind, one.type, one.name, one.attributes) for one in found.differences] == []
            assert found.objects[0] == found.objects[1] > 190


@pytest.mark.soak
def test_ldif_out_of_mqis_tables(samples, sample_server):
    login = login_to(sample_server)
    with mqdssm.connect(sample_server.url, **login) as directory:
        change(directory)
        manager = next(directory.search(mqdssm.QueueManager, attributes=["Identifier", "RoutingServer"]))
        manager.routing_server = not manager.routing_server
        directory.write(manager)
    a, b = GivenSide(folder=samples / "mqis"), GivenSide(urls=(sample_server.url,), login=login)
    environment = environment_of(sample_server)
    made = invoke(samples / "mqis", sample_server.url, "-o", "ldif", code=1, **environment)
    assert "\n# " not in made.stdout  # nothing that cannot be said
    apply(sample_server, made.stdout)
    with compare_sources(a, b, ComparisonRequest()) as found:
        assert [(one.kind, one.type, one.name, one.attributes) for one in found.differences] == []
    refused = invoke(sample_server.url, samples / "mqis", "-o", "ldif", code=6, **environment)
    assert "LDIF cannot change B" in refused.stderr


@pytest.mark.soak
def test_objects_that_were_moved_and_renamed(samples, sample_server, tmp_path):
    login = login_to(sample_server)
    export(sample_server.url, TYPES, tmp_path / "out", **login)
    with mqdssm.connect(sample_server.url, **login) as directory:
        session = directory.session
        managers = directory.search(mqdssm.QueueManager, attributes=["FullPath"])
        first, *_ = computers = [DN.parse(one.full_path).parent for one in managers]
        names = [DN.parse(one.full_path) for one in directory.search(mqdssm.Queue, attributes=["FullPath"])]
        queue = next(name for name in names if name.parent.parent == computers[-1])
        old = first.parent.parent.child("OU", "Old")
        session.add(old, {"objectClass": [b"top", b"organizationalUnit"], "ou": [b"Old"]})
        session.rename(first, f"CN={first.name}", old)
        session.rename(queue, "CN=renamed")
    environment = environment_of(sample_server)
    made = invoke(tmp_path / "out", sample_server.url, "-o", "ldif", code=1, **environment)
    # what is below the computer moves with it; others refer to its queue manager by its name
    changed = Counter(re.findall(r"^(?:changetype|replace): (.*)$", made.stdout, re.MULTILINE))
    assert changed["modrdn"] == 2
    assert set(changed) <= {
        "modrdn",
        "modify",
        "mSMQOutRoutingServers",
        "mSMQInRoutingServers",
        "mSMQSiteGates",
    }
    apply(sample_server, made.stdout)
    assert invoke(tmp_path / "out", sample_server.url, **environment).stdout == "no differences\n"


class OtherGuids(EnterprisePlan):
    """The same enterprise where every object has another GUID, as in a directory that makes them itself."""

    def guid(self, *words) -> UUID:
        return uuid5(super().guid(*words), "another one")


@pytest.mark.soak
def test_guids_that_were_not_kept(samples, sample_server, tmp_path):
    export(sample_server.url, TYPES, tmp_path / "kept", **login_to(sample_server))
    other = OtherGuids(**{field.name: getattr(PLAN, field.name) for field in fields(PLAN) if field.init})
    generate(other, tmp_path / "ldif", SampleForm.LDIF, loader=LoadingMode.SLAPADD)
    with OpenLdapServer(durable=False, unique=False) as server:
        server.load(*(tmp_path / "ldif" / name for name in ("base-tree.ldif", "objects.ldif")))
        export(server.url, TYPES, tmp_path / "made", **login_to(server))
    lines = ["type,old,new,dn"]
    for name in ("site", "queue-manager", "queue", "routing-link"):
        kept, made = (_guids(tmp_path / folder / name) for folder in ("kept", "made"))
        assert kept.keys() == made.keys()
        assert not set(kept.values()) & set(made.values())
        lines += [f"{name},{kept[one]},{made[one]}," for one in kept]
    (tmp_path / "guid-map.csv").write_text("\n".join(lines) + "\n")
    types = ["--type", "site", "--type", "queue-manager", "--type", "queue", "--type", "routing-link"]
    # types of service, and keys, are made of GUIDs, though they name no object
    made_of = ("queue.Type", "PublicEncryptionKeyList", "PublicSigningKeyList")
    ignored = [word for name in made_of for word in ("--ignore", name)]
    by_map = ["--guid-map", tmp_path / "guid-map.csv", *ignored, *types]
    assert invoke(samples / "mqis", tmp_path / "made", *by_map).stdout == "no differences\n"
    # and the other way round: the map says what is one, whichever side is older
    assert invoke(tmp_path / "made", samples / "mqis", *by_map).stdout == "no differences\n"
    told = invoke(samples / "mqis", tmp_path / "made", "-o", "json", *types, code=1)
    summary = json.loads(told.stdout.splitlines()[-1])
    assert summary["missing"] == summary["extra"] == summary["a"]["objects"]
    (tmp_path / "guid-map.csv").write_text("before,after\n")
    refused = invoke(samples / "mqis", tmp_path / "made", *by_map, code=6)
    assert "its first line must name the columns old and new" in refused.stderr


def _guids(folder) -> dict[str, str]:
    """GUID of each object, by what it is called; links are described by the names of their sites."""
    names = ("Pathname", "ComputerName", "Name", "Description")
    table = pq.read_table(folder).to_pylist()
    return {next(row[name] for name in names if row.get(name)).lower(): row["Identifier"] for row in table}


@pytest.mark.soak
def test_what_settled_meanwhile_is_no_difference(samples, sample_server, tmp_path, monkeypatch):
    login = login_to(sample_server)
    export(sample_server.url, ["queue"], tmp_path / "out", **login)
    with mqdssm.connect(sample_server.url, **login) as directory:
        queues = sorted(directory.search(mqdssm.Queue), key=lambda queue: queue.pathname)
        labels = [queue.label for queue in queues]
        for queue in queues[:3]:
            queue.label = "for a moment"
            directory.write(queue)
    real = recheck._recheck_once

    def mended_first(*args):
        with mqdssm.connect(sample_server.url, **login) as directory:
            for queue, label in zip(queues[:2], labels, strict=False):
                queue.label = label
                directory.write(queue)
        return real(*args)

    monkeypatch.setattr(recheck, "_recheck_once", mended_first)
    b = GivenSide(urls=(sample_server.url,), login=login)
    with compare_sources(GivenSide(folder=tmp_path / "out"), b, ComparisonRequest()) as found:
        assert [(one.kind, one.name) for one in found.differences] == [
            (ObjectDifferenceKind.DIFFERENT, queues[2].pathname)
        ]
        assert found.settled == 2


@SPARK_IN_SOAK
def test_a_name_with_line_breaks_is_no_record_of_ldif(tmp_path):
    """What an object is called stays in the comment that says why it is left."""
    name = "a\n\ndn: cn=payroll,cn=msmq,cn=web01,cn=computers,dc=example,dc=com\nchangetype: delete\n\n#"
    with OpenLdapServer(durable=False) as first, OpenLdapServer(durable=False) as second:
        for server in (first, second):
            server.add_computer("web01")
            with mqdssm.connect(server.url, **login_to(server)) as directory:
                site = directory.create(mqdssm.Site(name="Berlin"))
                directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
                guid = uuid5(UUID(int=0), "payroll")  # the same on both
                directory.create(mqdssm.Queue(pathname=r"web01\payroll", label="important", identifier=guid))
        attributes = {
            "objectClass": "mSMQQueue",
            "cn": name,
            "objectGUID": bytes(16),
            "mSMQLabelEx": "x" * 200,
        }
        parent = "cn=msmq,cn=web01,cn=Computers,dc=example,dc=com"
        PlainLdap(first).add(f"cn={escape_value(name)},{parent}", attributes)
        export(first.url, ["queue"], tmp_path / "first", **login_to(first))
        made = invoke(tmp_path / "first", second.url, "-o", "ldif", code=1, **environment_of(second))
        assert r"\ndn: cn=payroll" in "".join(
            line for line in made.stdout.splitlines() if line.startswith("# queue ")
        )
        assert "changetype: delete" not in made.stdout.splitlines()
        apply(second, made.stdout)
        with mqdssm.connect(second.url, **login_to(second)) as directory:
            assert [queue.label for queue in directory.search(mqdssm.Queue)] == ["important"]


LABELS = [
    None,
    "",
    "a",
    "A",
    "İ",
    "i",
    "ı",
    "I",
    "ß",
    "ss",
    "Σ",
    "ς",
    "σ",
    "K",
    "k",
    "É",
    "é",
    "x'\"`",
    "\\n",
]


def test_both_joins_find_what_a_look_at_every_object_finds(spark, engine, tmp_path):
    """All pairs of odd texts, as values and below the roots of both trees; keys that are there twice."""
    a, b = [], []
    for number, (one, other) in enumerate(product(LABELS, LABELS)):
        guid = {"Identifier": str(UUID(int=number // 8 * 8 if number % 8 < 3 else number))}
        names = [escape_value(text or "none") for text in (one, other)]
        a.append(guid | {"Label": one, "FullPath": f"CN={names[0]},DC=example,DC=com", "Quota": number % 3})
        b.append(guid | {"Label": other, "FullPath": f"cn={names[1]},dc=OTHER", "Quota": number % 3})
    pair, compared = queue_pair(tmp_path, a, b), compared_queues()
    join = SparkJoin(spark) if engine == "spark" else LocalJoin(LocalRunner(1))
    assert rows_in(join.find([compared], pair, tmp_path)) == all_differences(pair, compared)
