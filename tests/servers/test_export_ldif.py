"""LDIF of a whole directory: what slapadd and ldapadd make of it is the same directory again."""

import os
import re
import shutil
import stat
import subprocess
import uuid
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.directory.ldif_reader import comparable, read_ldif
from support.spark.exports import access_to, contents
from support.spark.exports import export_here as export

import mqdssm
from mqdssm.pipeline.export import load_order
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.ldif import record
from mqdssm.pipeline.manifest import Manifest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

NASTY = {
    "blank at the end ": b" blank in front",
    "colon": b":x",
    "less": b"<file:///etc/passwd",
    "umlaut Größe €": "Größe €".encode(),
    'comma, plus+ and \\ quote"': b"line\nline\r\nline",
    "long" + "x" * 200: b"y" * 500,
}


def fill(server: OpenLdapServer) -> None:
    """Objects whose names and values LDIF has to encode, and parents that came after their children."""
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        site = directory.create(mqdssm.Site(name="Berlin"))
        gates = []
        for n in range(3):
            server.add_computer(f"web{n}")
            machine = mqdssm.QueueManager(
                computer_name=f"web{n}", site_identifier_list=[site], out_routing_server_identifier_list=gates
            )
            gates.append(directory.create(machine))
            for m in range(20):
                directory.create(
                    mqdssm.Queue(pathname=rf"web{n}\q{m}", label=f"Größe {m} ", quota=2**32 - 1 - m)
                )
        session = directory.session
        computers = session.naming.root.child("CN", "Computers")
        for name, value in NASTY.items():
            session.add(
                computers.child("CN", name),
                {
                    "objectClass": [b"container"],
                    "description": [value, b"\x01\x7f"],
                    "objectGUID": [uuid.uuid4().bytes],
                },
            )
        server.add_user("ann")
        session.add(computers.child("CN", "late"), {"objectClass": [b"container"]})
        session.rename(computers.child("CN", "colon"), "CN=colon", computers.child("CN", "late"))


@pytest.fixture(scope="module")
def source():
    with OpenLdapServer(durable=False) as server:
        fill(server)
        yield server


@pytest.fixture
def empty(tmp_path):
    """A server of the same root without a single entry; it does not run yet."""
    with OpenLdapServer(tmp_path / "empty", durable=False) as server:
        server.stop()
        for path in (server.folder / "db").iterdir():
            path.unlink()
        yield server


def ldapsearch(server: OpenLdapServer) -> dict:
    """All user attributes of all entries, as the tool of OpenLDAP shows them."""
    command = [
        "ldapsearch",
        "-LLL",
        "-x",
        "-H",
        server.url,
        "-D",
        server.user,
        "-y",
        server.folder / "password",
        "-b",
        server.base_dn,
        "-o",
        "ldif_wrap=no",
        "-E",
        "pr=1000/noprompt",
    ]
    return comparable(read_ldif(subprocess.run(command, check=True, capture_output=True).stdout))


def exported(server: OpenLdapServer, folder: Path, *types: str, **more) -> Manifest:
    return export(server.url, types or ["ldap"], folder, format="ldif", **access_to(server), **more)


def test_the_export_is_what_ldapsearch_shows(source, tmp_path) -> None:
    manifest = exported(source, tmp_path / "out")
    shown = ldapsearch(source)
    assert comparable(read_ldif(contents(tmp_path / "out", manifest, "ldap"))) == shown
    assert manifest.types["ldap"].rows == len(shown)
    assert (manifest.format, manifest.dialect, manifest.profile) == ("ldif", "openldap", "openldap")
    assert manifest.consistent
    modes = {oct(path.stat().st_mode) for path in (tmp_path / "out" / "ldap").iterdir()}
    assert modes == {"0o100600"}  # they hold hashes of passwords


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "ldif"])
@pytest.mark.parametrize("readable", [False, True])
def test_files_are_for_their_owner_alone_unless_told_otherwise(source, tmp_path, form, readable) -> None:
    before = os.umask(0o027)
    try:
        export(
            source.url,
            ["queue", "site"],
            tmp_path / "out",
            format=form,
            readable=readable,
            **access_to(source),
        )
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*.*")}
    wanted = 0o640 if readable else 0o600
    assert modes.pop("manifest.json") == wanted
    assert set(modes.values()) == {0o600 if form == "ldif" else wanted}


def slapadd(server: OpenLdapServer, folder: Path, manifest: Manifest) -> None:
    """Load the files into a server that does not run, as the documentation says, and start it."""
    program = shutil.which("slapadd", path="/usr/sbin:/usr/bin")
    conf = server.folder / "conf" / "slapd.conf"
    for part in manifest.load_order:
        command = [program, "-q", "-f", conf, "-b", server.base_dn, "-l", folder / part]
        subprocess.run(command, check=True)
    server.start()


def ldapadd(server: OpenLdapServer, folder: Path, manifest: Manifest) -> None:
    """Load the files into a server without entries, which is started before."""
    server.start()
    login = ["-x", "-H", server.url, "-D", server.user, "-y", server.folder / "password"]
    for part in manifest.load_order:
        subprocess.run(["ldapadd", *login, "-f", folder / part], check=True, capture_output=True)


@pytest.mark.parametrize("load", [slapadd, ldapadd])
def test_the_whole_directory_and_back(source, empty, tmp_path, load) -> None:
    manifest = exported(source, tmp_path / "out", file_rows=25)
    assert sorted(manifest.load_order) == sorted(one.path for one in manifest.types["ldap"].files)
    assert manifest.parents == ()
    load(empty, tmp_path / "out", manifest)
    assert ldapsearch(empty) == ldapsearch(source)
    again = exported(empty, tmp_path / "again")
    texts = [
        contents(folder, one, "ldap")
        for folder, one in ((tmp_path / "out", manifest), (tmp_path / "again", again))
    ]
    assert comparable(read_ldif(texts[0])) == comparable(read_ldif(texts[1]))


ELEMENTS = [name for name in FRAME_TYPES if name != "ldap"]


def above(dns: set[str]) -> set[str]:
    """The names of some entries and of all above them."""
    found: set[str] = set()
    for dn in dns:
        parts = re.split(r"(?<!\\),", dn)
        found |= {",".join(parts[place:]) for place in range(len(parts) - 1)}  # the root is dc=example,dc=com
    return found


@pytest.mark.parametrize("load", [slapadd, ldapadd])
@pytest.mark.parametrize(
    ("types", "folders"),
    [
        (["queue"], {"queue", "parents"}),
        (["queue", "computer"], {"queue", "computer", "parents"}),
        (ELEMENTS, {*ELEMENTS, "parents"}),
        (["queue", "ldap"], {"ldap"}),
    ],
)
def test_types_load_with_what_is_above_them(source, empty, tmp_path, load, types, folders) -> None:
    manifest = exported(source, tmp_path / "out", *types, file_rows=7)
    manifest.check(tmp_path / "out")
    assert manifest.consistent
    assert {path.partition("/")[0] for path in manifest.load_order} == folders
    load(empty, tmp_path / "out", manifest)
    shown, found = ldapsearch(source), ldapsearch(empty)
    of_types = {
        dn.lower() for name in types for dn, _ in read_ldif(contents(tmp_path / "out", manifest, name))
    }
    assert set(found) == above(of_types)
    assert found == {dn: shown[dn] for dn in found}
    if "ldap" not in types:
        private = {oct((tmp_path / "out" / one.path).stat().st_mode) for one in manifest.parents}
        assert private == {"0o100600"}  # computers have hashes of passwords
        assert len(found) == sum(one.rows for one in manifest.types.values()) + sum(
            one.rows for one in manifest.parents
        )


def test_what_is_above_may_change_last(source, tmp_path, monkeypatch) -> None:
    real = load_order.write_parents

    def late(directory, folder, plan, marks):
        with mqdssm.connect(source.url, **access_to(source)) as other:
            other.session.modify(f"CN=web0,CN=Computers,{source.base_dn}", {"description": [b"late"]})
        return real(directory, folder, plan, marks)

    monkeypatch.setattr(load_order, "write_parents", late)
    manifest = exported(source, tmp_path / "out", "queue")
    assert not manifest.consistent
    assert [(one.type, one.what, one.dn.partition(",")[0].lower()) for one in manifest.changed] == [
        ("parents", "modified", "cn=web0")
    ]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
# to slapd a value of blanks and of characters without meaning (a soft hyphen) is an empty one
TEXTS = st.tuples(ANY_TEXT, st.sampled_from("aé€"), ANY_TEXT).map("".join)


@settings(max_examples=60)
@example(text="\x0ca\x0b", octets=b"\x0c")
@given(text=TEXTS, octets=st.binary(min_size=1, max_size=400))
def test_any_value_that_ldapadd_reads_is_the_one_that_was_written(source, text, octets) -> None:
    dn = f"CN={uuid.uuid4()},CN=Users,{source.base_dn}"
    attributes = [
        ("objectClass", [b"container"]),
        ("adminDescription", [text.encode()]),
        ("nTSecurityDescriptor", [octets]),
    ]
    command = ["ldapadd", "-x", "-H", source.url, "-D", source.user, "-y", source.folder / "password"]
    subprocess.run(command, input=record(dn, attributes), check=True, capture_output=True)
    with mqdssm.connect(source.url, **access_to(source)) as directory:
        entry = directory.session.get(dn, ["adminDescription", "nTSecurityDescriptor"])
        directory.session.delete(dn)
    assert entry.all("adminDescription") == [text.encode()]
    assert entry.all("nTSecurityDescriptor") == [octets]


def test_one_type_as_it_is_stored(source, tmp_path) -> None:
    manifest = exported(source, tmp_path / "out", "queue", "queue-manager")
    shown = ldapsearch(source)
    for name, ldap_class, count in (("queue", b"mSMQQueue", 60), ("queue-manager", b"mSMQConfiguration", 3)):
        expected = {dn: entry for dn, entry in shown.items() if ldap_class in entry["objectclass"]}
        assert comparable(read_ldif(contents(tmp_path / "out", manifest, name))) == expected
        assert manifest.types[name].rows == len(expected) == count


def test_the_dialect_of_active_directory(source, tmp_path) -> None:
    manifest = exported(source, tmp_path / "out", dialect="ad")
    assert manifest.dialect == "ad"
    assert manifest.types["ldap"].rows == len(ldapsearch(source))
    text = contents(tmp_path / "out", manifest, "ldap")
    assert b"version:" not in text
    assert b"objectguid" not in text.lower()
    *_, last = manifest.types["ldap"].files
    assert last.rows == 0  # it completes objects of the others
    records = list(read_ldif((tmp_path / "out" / last.path).read_bytes()))
    assert {dn.lower() for dn, _ in records} == {
        f"cn=msmq,cn=web{n},cn=computers,dc=example,dc=com" for n in (1, 2)
    }
