"""The parts of applying a plan that need no server: journal, places, undo file, report."""

from collections import Counter
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from support.mqis.guid_map import read_guid_map

from mqdssm.directory.loading.items import Effect, Outcome
from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.pipeline.failures import SparkFailed
from mqdssm.pipeline.migrate.apply_journal import LATER, ApplyJournal, JournalLine
from mqdssm.pipeline.migrate.apply_work import ErrorCount, FileDone, convert_disk_errors
from mqdssm.pipeline.migrate.applying import ApplyOptions
from mqdssm.pipeline.migrate.places import (
    MapRow,
    ObjectPlace,
    ReferencedPlaces,
    write_guid_map,
)
from mqdssm.pipeline.migrate.plan_file import MigrationPlan, PlanOptions, PlanTarget, TableCounts
from mqdssm.pipeline.migrate.report import LostRow, MigrationReport, TargetRefusal, tables_of
from mqdssm.pipeline.migrate.undo import WHOLE_NAME, begin_undo, keep_what_was_done
from mqdssm.pipeline.migrate.verification import FileVerification
from mqdssm.tables import compute, places

ROOT = DN.parse("DC=example,DC=com")
SITE, MANAGER, NOWHERE = uuid4(), uuid4(), uuid4()
NOW = datetime(2026, 11, 21, tzinfo=UTC)
KNOWN = ReferencedPlaces(
    {
        SITE: ObjectPlace(str(places.site_dn(ROOT, "Here")), UUID(int=1)),
        MANAGER: ObjectPlace(str(places.queue_manager_dn(ROOT, "A, B")), UUID(int=2)),
    }
)


# -- journal


def recorded(row: int, effect: Effect = Effect.ADDED, **more) -> JournalLine:
    return JournalLine(row, effect, **more)


def test_a_journal_gives_back_what_was_written(tmp_path):
    (tmp_path / "journal").mkdir()
    journal = ApplyJournal(tmp_path, "operations/3-children/part-00005.parquet")
    assert journal.path.name == "3-children-part-00005.jsonl"
    lines = [
        recorded(1),
        recorded(2, Effect.REJECTED, code=21, text="add failed: …\n", attributes=("mSMQJournal",)),
        recorded(3, guid=SITE, dn="CN=ä"),
    ]
    with journal.open_for_writing() as writer:
        for line in lines:
            writer.add(line)
    assert list(journal.read().values()) == lines
    assert [one.is_done for one in lines] == [True, False, True]
    with journal.open_for_writing() as writer:
        writer.add(recorded(2))
    assert journal.read()[2].is_done  # the last line counts
    later = ApplyJournal(tmp_path, "operations/2-machines/part-00001.parquet", LATER)
    assert later.path.name == "later-2-machines-part-00001.jsonl"
    assert later.read() == {}


@pytest.mark.parametrize("cut", [b"{", b'{"row": 7, "effect": "add', b"\xff", b"null", b'{"row": 7}', b"[]"])
def test_a_line_that_was_cut_short_stands_for_none(tmp_path, cut):
    (tmp_path / "journal").mkdir()
    journal = ApplyJournal(tmp_path, "operations/1-top/part-00000.parquet")
    journal.path.write_bytes(recorded(1).format_line().encode() + b"\n" + cut)
    with journal.open_for_writing() as writer:
        writer.add(recorded(2))
    assert list(journal.read()) == [1, 2]


def test_a_line_says_what_the_plan_does_not():
    outcome = Outcome(row=1, dn="CN=b", effect=Effect.ADDED, guid=SITE, attributes=("x",))
    assert JournalLine.of(outcome, "CN=b", keeps_guid=True).format_line() == '{"row": 1, "effect": "added"}'
    assert JournalLine.of(outcome, "CN=a", keeps_guid=False) == recorded(1, dn="CN=b", guid=SITE)


# -- places


def test_references_are_written_in_the_form_of_each_attribute():
    values, missing = KNOWN.look_up_values(
        "mSMQConfiguration",
        {"mSMQSites": [str(SITE)], "mSMQOutRoutingServers": [str(MANAGER), str(NOWHERE)]},
    )
    assert values == {
        "mSMQSites": (UUID(int=1).bytes_le,),
        "mSMQOutRoutingServers": (b"CN=msmq,CN=A\\, B,CN=Computers,DC=example,DC=com",),
    }
    assert missing == {"mSMQOutRoutingServers": (str(NOWHERE),)}


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.2")
def test_links_are_named_by_the_guids_that_sites_have_now():
    old = str(places.link_dn(ROOT, compute.link_name(SITE, NOWHERE)))
    new = str(places.link_dn(ROOT, compute.link_name(UUID(int=1), NOWHERE)))
    assert KNOWN.name_of("mSMQSiteLink", old) == new
    assert KNOWN.name_of("mSMQQueue", old) == old
    assert ReferencedPlaces().name_of("mSMQSiteLink", old) == old
    assert KNOWN.name_of("mSMQSiteLink", "CN=by hand,DC=x") == "CN=by hand,DC=x"


def test_a_guid_map_is_read_back(tmp_path):
    rows = [MapRow("queue", SITE, MANAGER, 'CN=a\\, "b",DC=x'), MapRow("site", MANAGER, SITE, "CN=ä")]
    write_guid_map(tmp_path, rows)
    assert read_guid_map(tmp_path / "guid-map.csv") == rows


# -- undo file


def test_drafts_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / ".apply").mkdir()
    (tmp_path / WHOLE_NAME).write_text("version: 1\n\n")
    draft, other = tmp_path / "undo.ldif.new", tmp_path / ".undo.other"
    for path in (draft, other):
        path.write_text("half")
    begin_undo(tmp_path)
    assert (tmp_path / "undo.ldif").read_text() == "version: 1\n\n"
    assert not draft.exists()
    assert other.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".apply", ".undo.other", "undo.ldif"]


def test_what_was_not_done_is_not_undone(tmp_path):
    (tmp_path / ".apply").mkdir()
    records = {
        1: ["dn: CN=long", " name,DC=x", "changetype: delete"],
        2: ["dn: CN=b", "changetype: modify", "replace: mSMQLabelEx", "mSMQLabelEx:: w6Q=", "-"],
        3: ["dn: CN=c", "changetype: delete"],
        4: ["dn: CN=d", "changetype: modify", "replace: description", "-"],
    }
    text = "".join("\n".join([f"# row {row}", *lines, "", ""]) for row, lines in records.items())
    (tmp_path / WHOLE_NAME).write_text(f"version: 1\n# a comment\n\n{text}")
    begin_undo(tmp_path)
    assert (tmp_path / "undo.ldif").read_text() == (tmp_path / WHOLE_NAME).read_text()
    # 3 was refused: it is not there; 4 was refused, too, but some of its attributes may have been written
    assert keep_what_was_done(tmp_path, {1, 2}, {3, 4}, {1: "CN=other,DC=x"}) == 3
    left = (tmp_path / "undo.ldif").read_text()
    assert "dn: CN=other,DC=x\nchangetype: delete\n" in left
    assert "long" not in left
    assert "CN=c" not in left
    assert "mSMQLabelEx:: w6Q=\n-\n" in left
    assert (tmp_path / "undo.ldif").stat().st_mode & 0o777 == 0o600


# -- errors and report


def test_errors_of_all_workers_count(tmp_path):
    (tmp_path / ".apply" / "errors").mkdir(parents=True)
    one, other = ErrorCount(tmp_path, 2), ErrorCount(tmp_path, 2)
    for count in (one, other):
        count.add()
    assert not one.are_too_many
    other.add()
    assert one.are_too_many
    assert not ErrorCount(tmp_path, None).are_too_many


@pytest.mark.parametrize("options", [{"max_errors": -1}, {"allow_deletes": -1}, {"max_rate": 0}])
def test_numbers_that_cannot_be(options):
    with pytest.raises(ConfigError):
        ApplyOptions(**options)


def plan_of(**tables: TableCounts) -> MigrationPlan:
    target = PlanTarget(
        urls=("ldap://x",), profile="openldap", root="DC=x", configuration="CN=c", keeps_guids=True
    )
    return MigrationPlan(
        made=NOW,
        source="x",
        target=target,
        options=PlanOptions(),
        tables=tables,
        operations={},
        levels=(),
        equal=(),
    )


def refused(row: int, role: str = "object") -> TargetRefusal:
    return TargetRefusal(
        table="Queue", row=row, type="queue", role=role, dn="CN=q", attributes=("a",), code=50, reason="no"
    )


def lost(row: int, *, was_equal: bool = False) -> LostRow:
    return LostRow(
        table="Queue",
        row=row,
        type="queue",
        role="object",
        dn="CN=q",
        reason="gone",
        was_equal=was_equal,
    )


def test_rows_add_up_to_what_was_read():
    plan = plan_of(
        Queue=TableCounts(type="queue", read=20, add=10, modify=2, equal=4, skipped=1, rejected=3),
        Deleted=TableCounts(type=None, read=5),
    )
    done = FileDone("x", refused=[refused(1), refused(1, "settings")], dangling=[refused(2)])
    seen = FileVerification(lost=[lost(1), lost(3), lost(4, was_equal=True)])
    found = tables_of(plan, [done], [seen], {("Queue", 5), ("Queue", 1)})
    assert set(found) == {"Queue"}
    one = found["Queue"]
    assert one.model_dump() == {
        "read": 20,
        "written": 12 - 2 - 1 - 1,
        "equal": 3,
        "skipped": 1,
        "rejected": 3 + 2,
        "lost": 2,
        "left": 1,
    }
    assert sum(one.model_dump().values()) == 2 * one.read


def test_a_report_is_written_and_read(tmp_path):
    report = MigrationReport(
        source="x",
        server="ldap://x",
        started=NOW,
        ended=NOW,
        resumed=0,
        verified=True,
        tables=tables_of(plan_of(Queue=TableCounts(type="queue", read=1, add=1)), [], [], ()),
        operations=Counter({"object added": 1}),
        refused_count=0,
        refused=(),
        lost_count=0,
        lost=(),
    )
    assert report.is_fine
    assert report.last_line == "1 read, 1 written, 0 equal, 0 rejected, 0 lost"
    report.write(tmp_path)
    assert MigrationReport.load(tmp_path) == report
    bad = report.model_copy(
        update={
            "refused_count": 1,
            "refused": (refused(1),),
            "lost": (LostRow(table="Queue", row=1, type="queue", role="object", dn="CN=q", reason="gone"),),
        }
    )
    assert not bad.is_fine
    bad.write(tmp_path)
    assert MigrationReport.load(tmp_path).refused[0].attributes == ("a",)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(ConfigError, match="no report"):
        MigrationReport.load(tmp_path)


# -- what goes wrong


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            OSError(28, "No space left on device"),
            ConfigError,
            "cannot be written: No space left.* apply it again",
        ),
        (
            SparkFailed("Spark failed: no memory"),
            SparkFailed,
            "Spark failed: no memory; apply the plan again: it",
        ),
        (ConnectionRefusedError(111, "Connection refused"), ConnectionRefusedError, "Connection refused"),
    ],
    ids=["disk", "Spark", "Java"],
)
def test_only_the_disks_errors_are_told_as_such(tmp_path, error, kind, words):
    with pytest.raises(kind, match=words), convert_disk_errors(tmp_path):
        raise error
