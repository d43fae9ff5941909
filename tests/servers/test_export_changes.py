"""What changes while an export runs: the files hold it as it is in the end, and the manifest lists it."""

import uuid
from collections import Counter as Counted
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.directory.ldif_reader import comparable, read_ldif
from support.spark.exports import access_to, after_reading, contents
from support.spark.exports import export_here as export

import mqdssm
from mqdssm.directory.filters import Equal
from mqdssm.errors import GenericDirectoryError
from mqdssm.pipeline.export import reconcile, server_position
from mqdssm.pipeline.export.objects import make_schema
from mqdssm.pipeline.export.server_position import ChangeCounter, Marks
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.manifest import Manifest
from mqdssm.pipeline.texts import read_csv, read_jsonl
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

READERS = {
    "parquet": lambda path, schema: pq.read_table(path, schema=schema),
    "csv": read_csv,
    "jsonl": read_jsonl,
}


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False) as made, mqdssm.connect(made.url, **access_to(made)) as directory:
        site = directory.create(mqdssm.Site(name="Berlin"))
        for n in range(3):
            made.add_computer(f"web{n}")
            directory.create(mqdssm.QueueManager(computer_name=f"web{n}", site_identifier_list=[site]))
            for m in range(9):
                directory.create(mqdssm.Queue(pathname=rf"web{n}\q{m}", label=f"L{m}"))
        yield made


def rows(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=lambda row: row.get("FullPath") or row["dn"])


def now(server, name: str) -> list[dict]:
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        return rows(
            pa.Table.from_batches(read_batches(directory, FRAME_TYPES[name]), schema=make_schema(name))
        )


def held(folder: Path, manifest: Manifest, name: str) -> list[dict]:
    read = READERS[manifest.format]
    tables = [read(folder / one.path, make_schema(name)) for one in manifest.types[name].files]
    assert [len(table) for table in tables] == [one.rows for one in manifest.types[name].files]
    manifest.check(folder)
    return rows(pa.concat_tables(tables))


def label(server, pathname: str, text: str) -> None:
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", pathname))
        queue.label = text
        directory.write(queue)


def everything(server) -> None:
    """A queue is changed, one made, one deleted, one renamed, and a machine with all below it moved."""
    label(server, r"web1\q1", uuid.uuid4().hex)
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        made = directory.create(mqdssm.Queue(pathname=rf"web0\new{uuid.uuid4().hex[:8]}"))
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", made))
        session = directory.session
        session.rename(queue.full_path, f"CN=renamed{uuid.uuid4().hex[:8]}")
        olds = [one for one in directory.search(mqdssm.Queue) if one.pathname.startswith("web0\\q")]
        directory.delete(olds[-1])
        users, computers = (session.naming.root.child("CN", one) for one in ("Users", "Computers"))
        (web2,) = session.find(session.naming.root, Equal("cn", b"web2"), ["cn"])
        away = web2.dn.lower().endswith(str(computers).lower())
        session.rename(web2.dn, "CN=web2", users if away else computers)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_the_files_hold_what_is_there_in_the_end(server, tmp_path, monkeypatch, kind) -> None:
    before = now(server, "queue")
    after_reading(monkeypatch, lambda: everything(server))
    manifest = export(
        server.url, ["queue", "site", "ldap"], tmp_path, format=kind, file_rows=5, **access_to(server)
    )
    assert manifest.consistent
    assert held(tmp_path, manifest, "queue") == now(server, "queue") != before
    assert held(tmp_path, manifest, "ldap") == now(server, "ldap")
    changed = [one for one in manifest.changed if one.type == "queue"]
    counted = {what: sum(one.what == what for one in changed) for what in ("added", "modified", "deleted")}
    moved = sum("cn=web2," in row["FullPath"] for row in before)
    assert counted == {"added": 1, "modified": 1 + moved, "deleted": 1}
    assert {one.guid for one in changed} >= {
        row["Identifier"] for row in before if "cn=web2," in row["FullPath"]
    }
    assert not [one for one in manifest.changed if one.type == "site"]
    assert manifest == Manifest.load(tmp_path)


def elsewhere(server) -> None:
    """A computer gets another name in DNS; a routing server is deleted and made anew under its name."""
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        session = directory.session
        (web1,) = session.find(session.naming.root, Equal("cn", b"web1"), ["cn"])
        session.modify(web1.dn, {"dNSHostName": [uuid.uuid4().hex.encode() + b".example.com"]})
        (gate,) = session.find(session.naming.root, Equal("cn", b"gate"), ["cn"])
        session.modify(f"CN=msmq,{gate.dn}", {"objectGUID": [uuid.uuid4().bytes]})


@pytest.fixture
def gated(server):
    """A queue manager with a routing server that has no queues."""
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        server.add_computer("gate")
        server.add_computer("sender")
        (site,) = directory.search(mqdssm.Site)
        gate = directory.create(
            mqdssm.QueueManager(computer_name="gate", site_identifier_list=[site.identifier])
        )
        sender = mqdssm.QueueManager(
            computer_name="sender",
            site_identifier_list=[site.identifier],
            out_routing_server_identifier_list=[gate],
        )
        directory.create(sender)
        yield server
        for name in ("gate", "sender"):
            directory.delete(
                directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", name)), recursive=True
            )
            directory.session.delete(f"CN={name},CN=Computers,{server.base_dn}")


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_rows_that_tell_of_what_changed_elsewhere_are_read_again(gated, tmp_path, monkeypatch, kind) -> None:
    after_reading(monkeypatch, lambda: elsewhere(gated))
    before = {name: now(gated, name) for name in ("queue", "queue-manager")}
    manifest = export(gated.url, [*before], tmp_path, format=kind, file_rows=5, **access_to(gated))
    assert manifest.consistent
    for name, rows_before in before.items():
        assert held(tmp_path, manifest, name) == now(gated, name) != rows_before
    told = {(one.type, one.dn.lower().partition(",cn=computers")[0], one.what) for one in manifest.changed}
    managers = {("queue-manager", f"cn=msmq,cn={name}", "modified") for name in ("web1", "sender")}
    gate = {("queue-manager", "cn=msmq,cn=gate", what) for what in ("added", "deleted")}  # its GUID is new
    dns = [row["FullPath"].lower().partition(",cn=computers")[0] for row in before["queue"]]
    queues = {("queue", dn, "modified") for dn in dns if dn.endswith(",cn=web1")}
    assert queues
    assert told == managers | gate | queues


def test_ldif_tells_nothing_of_others(gated, tmp_path, monkeypatch) -> None:
    after_reading(monkeypatch, lambda: elsewhere(gated))
    manifest = export(gated.url, ["queue", "queue-manager"], tmp_path, format="ldif", **access_to(gated))
    assert manifest.consistent
    told = {one.dn.lower().partition(",cn=computers")[0] for one in manifest.changed}
    assert told == {"cn=msmq,cn=gate"}


def test_what_changed_is_told_also_after_a_kill_while_it_is_read_again(server, tmp_path, monkeypatch) -> None:
    before = now(server, "queue")
    with monkeypatch.context() as patch:
        patch.setattr(
            reconcile, "_read_again", lambda *_: 1 / 0
        )  # what is to be read again is in no file now
        after_reading(patch, lambda: everything(server))
        with pytest.raises(ZeroDivisionError):
            export(server.url, ["queue"], tmp_path, file_rows=5, **access_to(server))
    manifest = export(server.url, ["queue"], tmp_path, resume=True, file_rows=5, **access_to(server))
    assert manifest.consistent
    assert held(tmp_path, manifest, "queue") == now(server, "queue") != before
    counted = Counted(one.what for one in manifest.changed)
    moved = sum("cn=web2," in row["FullPath"] for row in before)
    assert counted == {"added": 1, "modified": 1 + moved, "deleted": 1}
    assert manifest == Manifest.load(tmp_path)


def test_a_computer_that_never_rests(server, tmp_path, monkeypatch) -> None:
    real = reconcile._replace

    def rename() -> None:
        with mqdssm.connect(server.url, **access_to(server)) as directory:
            (web1,) = directory.session.find(directory.session.naming.root, Equal("cn", b"web1"), ["cn"])
            directory.session.modify(web1.dn, {"dNSHostName": [uuid.uuid4().hex.encode() + b".example.com"]})

    def restless(*args):
        try:
            return real(*args)
        finally:
            rename()

    monkeypatch.setattr(reconcile, "_replace", restless)
    after_reading(monkeypatch, rename)
    manifest = export(server.url, ["queue"], tmp_path, **access_to(server))
    assert not manifest.consistent
    assert manifest.changed
    assert all(",cn=web1," in one.dn.lower() for one in manifest.changed)


def test_ldif_too(server, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        after_reading(patch, lambda: everything(server))
        manifest = export(
            server.url, ["ldap"], tmp_path / "a", format="ldif", file_rows=5, **access_to(server)
        )
    again = export(server.url, ["ldap"], tmp_path / "b", format="ldif", **access_to(server))
    assert manifest.consistent
    assert manifest.changed
    assert again.changed == ()
    texts = [
        contents(folder, one, "ldap") for folder, one in ((tmp_path / "a", manifest), (tmp_path / "b", again))
    ]
    assert comparable(read_ldif(texts[0])) == comparable(read_ldif(texts[1]))
    order = [dn.lower() for dn, _ in read_ldif(texts[0])]
    assert all(dn.partition(",")[2] in order[:place] for place, dn in enumerate(order) if place)


def test_nothing_changed_costs_nothing(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reconcile.objects, "read_keys", lambda *_: pytest.fail("keys were read"))
    manifest = export(server.url, ["queue"], tmp_path, **access_to(server))
    assert manifest.consistent
    assert manifest.changed == ()


def test_what_changes_elsewhere_is_no_matter(server, tmp_path, monkeypatch) -> None:
    after_reading(monkeypatch, lambda: label(server, r"web0\q0", uuid.uuid4().hex))
    manifest = export(server.url, ["site"], tmp_path, **access_to(server))
    assert manifest.consistent
    assert manifest.changed == ()


def test_a_directory_that_never_rests(server, tmp_path, monkeypatch) -> None:
    real = reconcile._replace

    def restless(*args):
        try:
            return real(*args)
        finally:
            label(server, r"web1\q2", uuid.uuid4().hex)

    monkeypatch.setattr(reconcile, "_replace", restless)
    after_reading(monkeypatch, lambda: label(server, r"web1\q2", uuid.uuid4().hex))
    manifest = export(server.url, ["queue"], tmp_path, **access_to(server))
    assert not manifest.consistent
    assert [(one.dn.partition(",")[0].lower(), one.what) for one in manifest.changed] == [
        ("cn=q2", "modified")
    ]


def test_who_may_not_see_the_stamps_is_told_that_changes_are_not_seen(
    server, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(
        server_position, "STAMPS", {**server_position.STAMPS, ChangeCounter.CSN: ("noSuchStamp",)}
    )
    after_reading(monkeypatch, lambda: label(server, r"web1\q4", uuid.uuid4().hex))
    manifest = export(server.url, ["queue"], tmp_path, **access_to(server))
    assert manifest.changed == ()
    assert held(tmp_path, manifest, "queue") != now(server, "queue")
    assert not manifest.consistent
    assert "objects show this user no noSuchStamp" in caplog.text


def test_a_url_that_leads_to_several_controllers(server, tmp_path, monkeypatch) -> None:
    real = Marks.read.__func__
    first = {"server": "CN=NTDS Settings,CN=DC1"}
    monkeypatch.setattr(
        Marks, "read", classmethod(lambda cls, session: real(cls, session).model_copy(update=first))
    )
    with pytest.raises(
        GenericDirectoryError, match=r"led to \?, and before to .*CN=DC1, whose state"
    ) as told:
        export(server.url, ["queue"], tmp_path, **access_to(server))
    assert "name one domain controller in the URL" in str(told.value.hint)
    assert not (tmp_path / "manifest.json").exists()


def test_where_the_server_tells_no_marks_times_must_do(server, tmp_path, monkeypatch) -> None:
    real = Marks.read.__func__
    monkeypatch.setattr(
        Marks,
        "read",
        classmethod(
            lambda cls, session: real(cls, session).model_copy(
                update={"counter": ChangeCounter.TIME, "values": {}}
            )
        ),
    )
    after_reading(monkeypatch, lambda: label(server, r"web1\q3", uuid.uuid4().hex))
    manifest = export(server.url, ["queue"], tmp_path, **access_to(server))
    assert not manifest.consistent  # what was changed in the last minutes may have been changed again
    assert any("q3" in one.dn for one in manifest.changed)
    assert held(tmp_path, manifest, "queue") == now(server, "queue")
