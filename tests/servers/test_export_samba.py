"""Exports of a domain controller, and LDIF that it takes."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.directory.ldif_reader import comparable, read_ldif
from support.enterprises.queue_oracle import compare
from support.spark.exports import access_to, after_reading, contents
from support.spark.exports import export_here as export

import mqdssm
from mqdssm.pipeline.export.server_position import ChangeCounter, Marks
from mqdssm.pipeline.manifest import Manifest
from mqdssm.testing import SambaDomainController
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server

PART_NAMED = "1.2.840.113556.1.4.801=::MAMCAQc="
"""Owner, group and DACL of descriptors, as mqdssm asks for them (LDAP_SERVER_SD_FLAGS_OID, value 7)."""
RESTLESS = {"lastlogon", "lastlogontimestamp", "logoncount"}
"""What logging in changes."""


@pytest.fixture(scope="module")
def domain() -> Iterator[SambaDomainController]:
    with SambaDomainController() as server, connect(server) as directory:
        site = directory.create(mqdssm.Site(name="Berlin"))
        gates: list = []
        for n in range(2):
            server.add_computer(f"PC{n}")
            manager = mqdssm.QueueManager(
                computer_name=f"PC{n}", site_identifier_list=[site], out_routing_server_identifier_list=gates
            )
            gates.append(directory.create(manager))
        fill(directory, 40)
        yield server


def connect(server) -> mqdssm.Directory:
    return mqdssm.connect(server.ldaps_url, **access_to(server))


def fill(directory, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        queue = mqdssm.Queue(pathname=rf"PC{n % 2}\q{n}", label=f"Größe {n}", quota=n, journaling=n % 3 == 0)
        directory.create(queue)


def tool(server, name: str, *more: str, check: bool = True) -> bytes:
    """Run a tool of OpenLDAP's as the administrator."""
    password = Path(server.folder) / "password.bare"
    password.touch(mode=0o600)
    password.write_text(server.password)
    login = ["-x", "-H", server.ldaps_url, "-D", server.user, "-y", str(password)]
    environment = os.environ | {"LDAPTLS_CACERT": server.ca_file}
    done = subprocess.run([name, *login, *more], check=check, capture_output=True, env=environment)
    return done.stdout


def ldapsearch(server) -> dict[str, dict[str, list[bytes]]]:
    """The domain and its configuration, without the schema."""
    found = {}
    options = [
        "-LLL",
        "-o",
        "ldif_wrap=no",
        "-E",
        "pr=500/noprompt",
        "-E",
        "!" + PART_NAMED,
        "-E",
        "!domainScope",
    ]
    for base in (server.base_dn, f"CN=Configuration,{server.base_dn}"):
        text = tool(
            server, "ldapsearch", *options, "-b", base, "(objectClass=*)", "*", "nTSecurityDescriptor"
        )
        found |= comparable(read_ldif(text))
    return {dn: restful(entry) for dn, entry in found.items()}


def restful(entry: dict) -> dict:
    return {name: values for name, values in entry.items() if name not in RESTLESS}


def run(server, folder: Path, *types: str, **more) -> Manifest:
    return export(server.ldaps_url, types, folder, **(access_to(server) | more))


def rows(folder: Path, manifest: Manifest, name: str) -> list[dict]:
    tables = [pq.read_table(folder / part.path) for part in manifest.types[name].files]
    return pa.concat_tables(tables).to_pylist()


def check_equal(server, folder: Path, manifest: Manifest, queues: int) -> None:
    raw = rows(folder, manifest, "ldap")
    for row in raw:
        row["attributes"] = [
            (name, values) for name, values in row["attributes"] if name.lower() not in RESTLESS
        ]
    found = rows(folder, manifest, "queue")
    for row in found:
        row.pop("Security")  # the abstract model's rights, not those of the directory (decision M31)
    compare(raw, found, ldapsearch(server), queues)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("partitions", [1, 3])
def test_equal_to_ldapsearch(domain, tmp_path, partitions) -> None:
    manifest = run(domain, tmp_path / "out", "queue", "ldap", partitions=partitions, file_rows=100)
    check_equal(domain, tmp_path / "out", manifest, 40)
    assert manifest.profile == "activedirectory"
    assert Marks.model_validate_json(marks_of(domain)).counter is ChangeCounter.USN


@pytest.mark.parametrize("authentication", ["ntlm", "spnego"])
def test_other_ways_to_log_in(domain, tmp_path, authentication) -> None:
    access = access_to(domain) | {"authentication": authentication}
    manifest = export(domain.url, ["queue"], tmp_path / "out", **access)
    assert manifest.types["queue"].rows == 40


def marks_of(server) -> str:
    with connect(server) as directory:
        return Marks.read(directory.session).model_dump_json()


@pytest.mark.soak
def test_five_thousand_queues(tmp_path) -> None:
    with SambaDomainController() as server, connect(server) as directory:
        site = directory.create(mqdssm.Site(name="Berlin"))
        for n in range(2):
            server.add_computer(f"PC{n}")
            directory.create(mqdssm.QueueManager(computer_name=f"PC{n}", site_identifier_list=[site]))
        fill(directory, 5_000)
        manifest = run(server, tmp_path / "out", "queue", "ldap", file_rows=1_000)
        assert manifest.consistent
        check_equal(server, tmp_path / "out", manifest, 5_000)


def test_changes_meanwhile(domain, tmp_path, monkeypatch) -> None:
    def change() -> None:
        with connect(domain) as directory:
            doomed = directory.create(mqdssm.Queue(pathname=r"PC0\doomed"))  # made and gone: not seen at all
            directory.delete(directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", doomed)))
            directory.create(mqdssm.Queue(pathname=r"PC0\new"))
            changed = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"PC1\q1"))
            changed.label = uuid.uuid4().hex
            directory.write(changed)
            directory.delete(directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"PC0\q0")))

    after_reading(monkeypatch, change)
    manifest = run(domain, tmp_path / "out", "queue")
    try:
        assert manifest.consistent
        told = {(one.dn.partition(",")[0], one.what) for one in manifest.changed}
        assert told == {("CN=new", "added"), ("CN=q1", "modified"), ("CN=q0", "deleted")}
        shown = {dn for dn, entry in ldapsearch(domain).items() if b"mSMQQueue" in entry["objectclass"]}
        assert {row["FullPath"].lower() for row in rows(tmp_path / "out", manifest, "queue")} == shown
    finally:
        with connect(domain) as directory:
            directory.delete(directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"PC0\new")))
            fill(directory, 1)


def comparable_queues(server) -> dict[str, dict]:
    """What does not come from the controller itself, of queues and queue managers."""
    kept = {
        "cn",
        "objectclass",
        "msmqlabelex",
        "msmqqueuequota",
        "msmqjournal",
        "msmqoutroutingservers",
        "msmqsites",
    }
    return {
        dn: {name: values for name, values in entry.items() if name in kept}
        for dn, entry in ldapsearch(server).items()
        if {b"mSMQQueue", b"mSMQConfiguration"}.intersection(entry["objectclass"])
    }


def test_its_own_dialect_is_taken_back(domain, tmp_path) -> None:
    manifest = run(domain, tmp_path / "out", "queue-manager", "queue", format="ldif")
    assert manifest.dialect == "ad"
    before = comparable_queues(domain)
    assert len(before) == 42
    with connect(domain) as directory:
        for manager in list(directory.search(mqdssm.QueueManager)):
            directory.delete(manager, recursive=True)
    assert comparable_queues(domain) == {}
    assert {path.partition("/")[0] for path in manifest.load_order} == {"queue-manager", "queue", "parents"}
    load(domain, tmp_path / "out", manifest)
    assert comparable_queues(domain) == before


def load(server, folder: Path, manifest: Manifest) -> None:
    """Load LDIF as ``ldifde -i -k`` does: in order; what exists already is no error, and comes first."""
    for part in manifest.load_order:
        tool(server, "ldapadd", "-c", "-f", str(folder / part), check=False)


def test_a_directory_of_openldap_moves_here(domain, tmp_path) -> None:
    with OpenLdapServer(durable=False, base_dn=domain.base_dn.lower()) as source:
        with mqdssm.connect(source.url, **access_to(source)) as directory:
            source.add_computer("moved")
            site = directory.create(mqdssm.Site(name="Rome"))
            directory.create(mqdssm.QueueManager(computer_name="moved", site_identifier_list=[site]))
            directory.create(mqdssm.Queue(pathname=r"moved\orders", label="Größe"))
        manifest = export(source.url, ["ldap"], tmp_path, format="ldif", dialect="ad", **access_to(source))
    load(domain, tmp_path, manifest)
    with connect(domain) as directory:
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"moved\orders"))
        assert queue.label == "Größe"
        assert queue.security is not None
        manager = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", "moved"))
        directory.delete(manager, recursive=True)


def test_openldap_takes_what_its_schema_has(domain, tmp_path) -> None:
    manifest = run(domain, tmp_path / "out", "ldap", format="ldif", dialect="openldap")
    assert manifest.consistent
    with OpenLdapServer(tmp_path / "slapd", durable=False, base_dn=domain.base_dn.lower()) as target:
        target.stop()
        for path in (target.folder / "db").iterdir():
            path.unlink()
        for part in manifest.load_order:
            command = ["-q", "-f", target.folder / "conf" / "slapd.conf", "-b", target.base_dn]
            subprocess.run(["/usr/sbin/slapadd", *command, "-l", tmp_path / "out" / part], check=True)
        target.start()
        with mqdssm.connect(target.url, **access_to(target)) as there, connect(domain) as here:
            names = ["Identifier", "Pathname", "Label", "Quota", "Journaling", "Security"]
            queues = [
                sorted(map(str, (one.model_dump(include={*one.model_fields_set}) for one in found)))
                for found in (directory.search(mqdssm.Queue, attributes=names) for directory in (here, there))
            ]
            assert queues[0] == queues[1]
            assert len(queues[0]) >= 40
    assert len(contents(tmp_path / "out", manifest, "ldap")) > 100_000
