"""Rows that become objects: what a task of `df.write` does, and the end of a write, without Spark."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark.exports import access_to

import mqdssm
from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.manifest import MANIFEST_NAME
from mqdssm.spark.options import WriteOptions
from mqdssm.spark.writing.outcomes import WAITING
from mqdssm.spark.writing.task import Write, write
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor

pytestmark = pytest.mark.server

SECURITY = bytes(SecurityDescriptor.from_sddl("O:BAG:BAD:(A;;0x20024;;;WD)(A;;0xf003f;;;BA)"))


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False, unique=False) as made:
        for name in ("web01", "web02", "web03"):
            made.add_computer(name)
        yield made


@pytest.fixture
def directory(server):
    """The sites and the machine that rows refer to; what a test makes is gone afterwards."""
    with mqdssm.connect(server.url, **access_to(server)) as opened:
        site = opened.create(mqdssm.Site(name="Paris"))
        opened.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
        yield opened
        for element in (mqdssm.RoutingLink, mqdssm.Queue, mqdssm.QueueManager, mqdssm.Site):
            for found in list(opened.search(element)):
                opened.delete(found)


class Writer:
    """One write of some rows, as Spark would make it: tasks, then their end."""

    def __init__(self, server, folder: Path, element: str, **options: str) -> None:
        secret = folder / "password"
        secret.write_text(server.password)
        given = {
            "url": server.url,
            "user": server.user,
            "cafile": server.ca_file,
            "credentialsfile": str(secret),
            "object": element,
            **options,
        }
        self.options = WriteOptions.parse(given)
        self.folder = None if self.options.journal is None else Path(self.options.journal) / "write"
        self.element = element

    def task(self, rows: list[dict], partition: int = 0):
        frame = FRAME_TYPES[self.element]
        names = list(dict.fromkeys(name for row in rows for name in row))
        batch = pa.RecordBatch.from_pylist(rows, schema=make_arrow_schema(frame.select(names)))
        return write([batch.slice(0, 3), batch.slice(3)], self.options, self.folder, partition)

    def commit(self, *written) -> dict:
        Write(self.options, self.folder, datetime.now(UTC)).commit(written)
        return self.told()

    def told(self) -> dict:
        manifest = json.loads((self.folder / MANIFEST_NAME).read_text())
        rows = [
            row for file in manifest["files"] for row in pq.read_table(self.folder / file["path"]).to_pylist()
        ]
        assert Counter(row["effect"] for row in rows) == manifest["counts"]
        return manifest | {"rows": sorted(rows, key=lambda row: (row["partition"], row["row"]))}


@pytest.fixture
def writer(server, tmp_path):
    return lambda element, **options: Writer(
        server, tmp_path, element, **{"journal": str(tmp_path / "journal"), **options}
    )


def queue(number: int, **changes) -> dict:
    return {
        "Identifier": str(UUID(int=0xA0000 + number)),
        "Pathname": rf"web01\q{number}",
        "Label": f"L{number}",
        "Security": SECURITY,
        **changes,
    }


def queues(directory) -> dict[str, mqdssm.Queue]:
    return {one.pathname: one for one in directory.search(mqdssm.Queue)}


BAD_NAMES = ["bad name", "q;x", "tab\tq", "q+1", "gr\u00f6\u00dfe", "q" * 125, "private$\\q"]


def test_names_that_create_refuses_are_refused(directory, writer):
    """One set of rules: what is written may be created."""
    for name in BAD_NAMES:
        with pytest.raises((ValueError, mqdssm.GenericDirectoryError)):
            directory.create(mqdssm.Queue(pathname=rf"web01\{name}"))
    made = writer("queue", maxErrors="100")
    rows = [queue(number, Pathname=rf"web01\{name}") for number, name in enumerate(BAD_NAMES)]
    told = made.commit(made.task([*rows, queue(50)]))
    assert told["counts"] == {"added": 1, "rejected": len(BAD_NAMES)}
    assert all(row["text"] for row in told["rows"][:-1])
    assert set(queues(directory)) == {r"web01\q50"}


def test_an_odd_name_that_is_there_can_be_changed(directory, writer):
    """Other programs may have made it: nothing is created then."""
    root = directory.session.naming.root
    dn = root.child("CN", "Computers").child("CN", "web01").child("CN", "msmq").child("CN", "bad name")
    directory.session.add(dn, {"objectClass": [b"mSMQQueue"], "mSMQLabelEx": [b"old"]})
    made = writer("queue", onConflict="update")
    told = made.commit(made.task([queue(1, Pathname=r"web01\bad name", Label="new")]))
    assert told["counts"] == {"updated": 1}
    assert queues(directory)[r"web01\bad name"].label == "new"


def test_a_task_that_is_run_again_after_its_writes_changes_nothing(directory, writer):
    """As after an executor that was lost when all was written: three attempts, of which the last counts."""
    rows = [queue(n) for n in range(5)]
    write_of = writer("queue")
    attempts = [write_of.task(rows) for _ in range(3)]
    assert [dict(one.tally.counts) for one in attempts] == [{"added": 5}, {"equal": 5}, {"equal": 5}]
    before = {path: one.identifier for path, one in queues(directory).items()}
    told = write_of.commit(attempts[-1])
    assert (told["complete"], told["counts"], len(told["files"])) == (True, {"equal": 5}, 1)
    assert [row["guid"] for row in told["rows"]] == [row["Identifier"] for row in rows]
    assert before == {rf"web01\q{n}": UUID(int=0xA0000 + n) for n in range(5)}
    assert {one.label for one in queues(directory).values()} == {f"L{n}" for n in range(5)}


def test_a_task_that_runs_twice_at_a_time(directory, writer):
    """As Spark's speculation has it: each object is added by one of them, and is as it should be for both."""
    rows = [queue(n) for n in range(60)]
    write_of = writer("queue")
    with ThreadPoolExecutor(2) as pool:
        twins = list(pool.map(lambda _: write_of.task(rows), range(2)))
    assert all(one.tally.errors == 0 and one.tally.counts.total() == 60 for one in twins)
    assert sum(one.tally.counts["added"] for one in twins) == 60
    assert write_of.commit(twins[1])["counts"] == dict(sorted(twins[1].tally.counts.items()))
    assert {one.identifier for one in queues(directory).values()} == {
        UUID(int=0xA0000 + n) for n in range(60)
    }


@pytest.mark.parametrize(
    ("policy", "effect", "label", "fails"),
    [("fail", "conflict", "L1", True), ("skip", "skipped", "L1", False), ("update", "updated", "new", False)],
)
def test_an_object_that_is_there_and_differs(directory, writer, policy, effect, label, fails):
    writer("queue").task([queue(1)])
    write_of = writer("queue", onconflict=policy)
    written = write_of.task([queue(1, Label="new"), queue(2)])
    if fails:
        with pytest.raises(MqdssmError, match=r"1 of 2 rows were not written.*CN=q1,.*conflict"):
            write_of.commit(written)
    else:
        write_of.commit(written)
    first, second = write_of.told()["rows"]
    assert (first["effect"], second["effect"]) == (effect, "added")
    if policy != "skip":
        assert first["attributes"] == ["mSMQLabelEx"]
    assert queues(directory)[r"web01\q1"].label == label


def test_a_descriptor_that_the_rows_do_not_bring(directory, writer):
    without = {name: value for name, value in queue(1).items() if name != "Security"}
    writer("queue").task([without])
    made = queues(directory)[r"web01\q1"]
    assert made.security is not None  # as create makes it (decision M41)
    made.security = SECURITY
    directory.write(made)
    written = writer("queue", onconflict="update").task([without | {"Label": "new"}])
    assert dict(written.tally.counts) == {"updated": 1}
    found = queues(directory)[r"web01\q1"]
    assert (found.security, found.label) == (SECURITY, "new")


def test_rows_that_cannot_be_objects_do_not_stop_the_others(directory, writer):
    rows = [
        queue(0, Label="x" * 125),
        queue(1, Pathname=r"nowhere\q1"),
        queue(2, Pathname=r"web01\private$\q2"),
        queue(3, Pathname=None),
        queue(4),
        queue(5, Pathname=r"web02\q5"),
    ]
    write_of = writer("queue", maxerrors="5")
    told = write_of.commit(write_of.task(rows))
    assert told["counts"] == {"added": 1, "rejected": 5}
    texts = [row["text"] for row in told["rows"]]
    assert "Label is 125 UTF-16 code units long" in texts[0]
    assert "there is no queue manager nowhere" in texts[1]
    assert "private" in texts[2]
    assert texts[4] == ""
    assert "there is no queue manager web02" in texts[5]
    assert list(queues(directory)) == [r"web01\q4"]


def test_too_many_errors_end_a_task_and_the_write(directory, writer):
    rows = [queue(n, Label="x" * 125) for n in range(3)] + [queue(n) for n in range(3, 6)]
    write_of = writer("queue", maxerrors="2")
    written = write_of.task(rows)  # batches of three rows
    with pytest.raises(MqdssmError, match="6 of 6 rows were not written"):
        write_of.commit(written)
    assert write_of.told()["counts"] == {"rejected": 3, "not-tried": 3}
    assert queues(directory) == {}


def test_references_to_what_comes_later(directory, writer):
    site = next(directory.search(mqdssm.Site)).identifier
    first, second = (str(UUID(int=0xB0000 + n)) for n in range(2))
    rows = [
        {
            "Identifier": first,
            "ComputerName": "web02",
            "SiteIdentifierList": [str(site)],
            "OutRoutingServerIdentifierList": [second],
            "RoutingServer": False,
        },
        {
            "Identifier": second,
            "ComputerName": "web03",
            "SiteIdentifierList": [str(site)],
            "OutRoutingServerIdentifierList": None,
            "RoutingServer": True,
        },
    ]
    write_of = writer("queue-manager")
    written = [write_of.task([row], number) for number, row in enumerate(rows)]
    assert any(name.startswith(f"{WAITING}/") for name in written[0].files)
    told = write_of.commit(*written)
    assert told["counts"] == {"added": 2}
    managers = {one.computer_name: one for one in directory.search(mqdssm.QueueManager)}
    assert managers["web02"].out_routing_server_identifier_list == (UUID(second),)
    assert list((write_of.folder / WAITING).iterdir()) == []
    settings = [dn for dn in map(str, _dns(directory)) if dn.lower().startswith("cn=msmq settings,cn=web03,")]
    assert len(settings) == 1
    again = writer("queue-manager")
    assert again.commit(again.task(rows))["counts"] == {"equal": 2}


def test_references_to_what_is_nowhere_are_told(directory, writer):
    gone = str(UUID(int=0xDEAD))
    row = {
        "Identifier": str(UUID(int=0xB0002)),
        "ComputerName": "web02",
        "OutRoutingServerIdentifierList": [gone],
    }
    write_of = writer("queue-manager")
    with pytest.raises(MqdssmError, match=f"it is there, but what it refers to is not: {gone}"):
        write_of.commit(write_of.task([row]))
    without = writer("queue-manager", journal="")
    with pytest.raises(MqdssmError, match=r"option journal"):
        Write(without.options, None, datetime.now(UTC)).commit([without.task([row])])


def test_entries_as_they_are_children_before_their_parents(directory, writer):
    root = str(directory.session.naming.root)
    names = [f"CN=c,CN=b,CN=a,{root}", f"CN=b,CN=a,{root}", f"CN=a,{root}"]
    rows = [
        {"dn": dn, "objectClass": ["top", "container"], "attributes": [("description", [b"d"])]}
        for dn in names
    ]
    write_of = writer("ldap")
    # the last one is of another task, which is done later
    parts = [write_of.task(rows[:2], 0), write_of.task(rows[2:], 1)]
    assert [dict(part.tally.counts) for part in parts] == [{}, {"added": 1}]
    assert write_of.commit(*parts)["counts"] == {"added": 3}
    again = writer("ldap", journal="")
    assert dict(again.task(rows).tally.counts) == {"equal": 3}
    for dn in names:
        directory.session.delete(dn)
    turned = writer("ldap", journal="")
    assert dict(turned.task(rows).tally.counts) == {"added": 3}
    for dn in names:
        directory.session.delete(dn)
    lost = writer("ldap", journal="")
    assert dict(lost.task(rows[:1]).tally.counts) == {"missing-parent": 1}


def test_sites_links_users_and_the_enterprise(server, directory, writer):
    oslo, paris = str(UUID(int=0xC0000)), str(next(directory.search(mqdssm.Site)).identifier)
    site = writer("site")
    assert site.commit(site.task([{"Identifier": oslo, "Name": "Oslo", "Security": SECURITY}]))["counts"] == {
        "added": 1
    }
    link = writer("routing-link")
    row = {
        "Identifier": str(UUID(int=0xC0001)),
        "Site1Identifier": oslo,
        "Site2Identifier": paris,
        "ActualCost": 7,
    }
    assert dict(link.task([row]).tally.counts) == {"added": 1}
    assert dict(link.task([row | {"ActualCost": 8}]).tally.counts) == {"conflict": 1}
    server.add_user("zoe")
    sid = next(
        one for one in directory.search(mqdssm.User) if "zoe" in one.full_path.lower()
    ).security_identifier
    user = writer("user")
    digests = {"SecurityIdentifier": sid, "CertificateDigestList": [b"d" * 16]}
    unknown = {"SecurityIdentifier": "S-1-5-21-1-2-3-999999", "CertificateDigestList": [b"d" * 16]}
    assert dict(user.task([digests, unknown]).tally.counts) == {"updated": 1, "rejected": 1}
    assert dict(user.task([digests]).tally.counts) == {"equal": 1}
    enterprise = writer("enterprise", onconflict="update")
    assert dict(enterprise.task([{"DefaultTimeToLive": 1234}]).tally.counts) == {"updated": 1}
    assert next(directory.search(mqdssm.Enterprise)).default_time_to_live == 1234


def test_a_task_that_breaks_off_says_what_it_had_written(directory, writer, monkeypatch):
    write_of = writer("queue")
    whole = write_of.task([queue(9)], 1)
    real = mqdssm.spark.writing.task._Work.write_rows
    calls = []

    def break_off(self, rows) -> None:
        if calls:
            raise OSError("killed")
        calls.append(rows)
        real(self, rows)

    monkeypatch.setattr(mqdssm.spark.writing.task._Work, "write_rows", break_off)
    with pytest.raises(OSError, match="killed"):
        write_of.task([queue(n) for n in range(6)])
    Write(write_of.options, write_of.folder, datetime.now(UTC)).abort([whole, None])
    told = write_of.told()
    assert (told["complete"], told["counts"]) == (False, {"added": 1})
    (left,) = (path for path in (write_of.folder / "outcome").iterdir() if path.name.startswith("failed-"))
    assert pq.read_table(left).num_rows == 3
    assert not [path for path in (write_of.folder / "outcome").iterdir() if path.name.endswith(".new")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"object": "settings"}, "objects of type settings are not written for themselves"),
        ({"onconflict": "merge"}, "use one of fail, skip, update"),
        ({"maxrate": "0"}, "use a number from 1"),
        ({"columns": "Label"}, "option columns is for reading"),
        ({"password": "secret"}, "put the password into a file"),
        ({"journal": "/proc/nothing/here"}, "cannot be used"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(ConfigError, match=words):
        WriteOptions.parse({"url": "ldap://x", "object": "queue", **options})


def test_the_rate_is_shared_by_the_tasks():
    given = {"url": "ldap://x", "object": "queue", "maxrate": "100"}
    assert WriteOptions.parse({**given, "numpartitions": "4"}).max_rate == 25


def _dns(directory):
    everything = directory.session.find(
        directory.session.naming.configuration, mqdssm.directory.filters.TRUE, ["1.1"]
    )
    return [one.dn for one in everything]
