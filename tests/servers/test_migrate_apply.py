"""Plans applied to a real slapd: everything is there, nothing twice, and undone nothing is left."""

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.mqis.applied_plans import (
    access_for,
    apply_here,
    connect,
    everything,
    operations_in,
    sample_plan,
    undo,
)
from support.servers.bad_places import small_disk
from support.spark import LOCAL_ENGINE

from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.apply_journal import JournalLine
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.pipeline.runner import StopRequest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def test_a_sample_enterprise_is_migrated_verified_and_undone(server, tmp_path):
    _, folder = sample_plan(server, tmp_path)
    before = everything(server)
    told = []
    report = apply_here(server, folder, watch=told.append)
    counts = {
        now.activity: (now.done, now.total) for now in told if now.total is not None
    }  # the last of each
    assert list(counts)[:2] == ["level 1-top", "level 2-machines"]
    assert all(done == total > 0 for what, (done, total) in counts.items() if what.startswith("level "))
    assert "reading everything back" in counts
    assert report.is_fine, report.model_dump_json(indent=1)
    assert report.last_line == "81 read, 80 written, 1 equal, 0 rejected, 0 lost"
    assert report == MigrationReport.load(folder)
    assert report.operations["object added"] == 3 + 12 + 60 + 2
    after = everything(server)
    assert len(after) - len(before) == sum(
        count for name, count in report.operations.items() if name.endswith(" added")
    )
    undo(server, folder)
    assert everything(server) == before


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A server and a plan that tests may apply, undo and apply again."""
    folder = tmp_path_factory.mktemp("planned")
    with OpenLdapServer(durable=False) as started:
        _, plan = sample_plan(started, folder, sites=2, machines=5, queues=20, users=1)
        before = everything(started)
        yield started, plan, before


@pytest.fixture
def fresh(planned, tmp_path):
    """The same plan in a folder of its own, on the server as it was."""
    server, plan, before = planned
    shutil.copytree(plan, tmp_path / "plan")
    yield server, tmp_path / "plan"
    undo(server, tmp_path / "plan")
    assert everything(server) == before


@LOCAL_ENGINE
def test_a_run_that_breaks_off_goes_on(fresh):
    server, folder = fresh
    applied = []

    def until_it_breaks(work, count):
        done = []
        for number in range(count):
            done.append(work(number, StopRequest()))
            applied.append(number)
            if len(applied) == 4:
                raise KeyboardInterrupt
        return done

    with pytest.raises(KeyboardInterrupt):
        apply_here(server, folder, do=until_it_breaks)
    undo_of_first = (folder / "undo.ldif").read_bytes()
    report = apply_here(server, folder)
    assert report.is_fine
    assert report.resumed == 1
    assert b"changetype: delete" in undo_of_first
    assert not report.operations.get("object equal")  # what the journal knows is not looked at again


def test_what_the_journal_does_not_know_is_found_equal(fresh):
    server, folder = fresh
    first = apply_here(server, folder)
    for path in (folder / "journal").glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]) + lines[-1][:7])
    after = everything(server)
    again = apply_here(server, folder)
    assert again.is_fine
    assert again.last_line == first.last_line
    assert again.operations["object equal"] > 0
    assert everything(server) == after


@LOCAL_ENGINE
def test_tasks_that_are_done_three_times(fresh):
    """As Spark's retries and speculation do: every file is applied again after it was written."""
    server, folder = fresh
    report = apply_here(
        server,
        folder,
        do=lambda work, count: [
            [work(number, StopRequest()) for _ in range(3)][-1] for number in range(count)
        ],
    )
    assert report.is_fine


@LOCAL_ENGINE
def test_tasks_that_run_twice_at_the_same_time(fresh):
    """As Spark's speculation does: another attempt at the same file begins while the first one is at it."""
    server, folder = fresh

    def twice(work, count):
        with ThreadPoolExecutor(2) as pool:
            for number in range(count):
                attempts = [pool.submit(work, number, StopRequest()) for _ in range(2)]
                done = [attempt.result() for attempt in attempts]
                yield done[1]  # Spark takes the one that ends first, whichever that is

    report = apply_here(server, folder, do=lambda work, count: list(twice(work, count)))
    assert report.is_fine
    done = {name: count for name, count in report.operations.items() if not name.endswith(" equal")}
    assert sum(done.values()) >= len(operations_in(folder))  # nothing is told as found there
    assert twice_in_the_journal(folder) == []


def test_a_full_disk_stops_it_and_it_goes_on(server, tmp_path):
    """Wherever the room ends: at the undo file, in the journal, at the rejects or at the report."""
    _, made = sample_plan(server, tmp_path, sites=2, machines=5, queues=20, users=1)
    access, before = access_for(server, tmp_path), everything(server)
    taken = next(one for one in operations_in(made) if one.type == "queue" and one.action == "add")
    with small_disk(tmp_path / "small", "4m") as disk:
        folder = Path(shutil.copytree(made, disk / "plan"))
        filler, said, left = disk / "filler", [], []
        for room in range(0, 10**6, 4096):
            filler.write_bytes(bytes(max(shutil.disk_usage(disk).free - room, 0)))
            try:
                report = apply_here(server, folder, access)
                break
            except ConfigError as error:
                said.append(str(error))
                left.append({path.name for path in folder.rglob("*") if path.is_file()})
            finally:
                filler.unlink()
        words = f"the plan in {folder} cannot be written: No space left on device; "
        assert set(said) == {words + "when that is mended, apply it again: it goes on"}
        assert any("undo.ldif" not in names for names in left), "before the first change"
        assert any("undo.ldif" in names and "report.json" not in names for names in left), "and after it"
        assert report.is_fine, report.model_dump_json(indent=1)
        assert report.resumed
        assert twice_in_the_journal(folder) == []
        assert taken.dn.lower() in everything(server)
        undo(server, folder)
        assert everything(server) == before


def twice_in_the_journal(folder: Path) -> list[tuple[str, int]]:
    """Operations that were done again after they had been done."""
    found = []
    for path in (folder / "journal").glob("*.jsonl"):
        lines = map(JournalLine.parse, path.read_bytes().split(b"\n"))
        rows = Counter(one.row for one in lines if one is not None)
        found += [(path.name, row) for row, count in rows.items() if count > 1]
    return found


def test_applied_twice_nothing_is_left_to_do(fresh):
    server, folder = fresh
    first = apply_here(server, folder)
    after = everything(server)
    second = apply_here(server, folder)
    assert (second.last_line, second.resumed) == (first.last_line, 0)
    assert everything(server) == after


def test_what_somebody_else_changes_meanwhile_is_a_conflict(planned, fresh):
    server, folder = fresh
    with connect(server) as directory:
        session = directory.session
        operations = [one for one in operations_in(folder) if one.type == "user" and one.values]
        (user,) = operations
        was = session.get(user.dn, ["mSMQDigests"]).all("mSMQDigests")
        session.modify(user.dn, {"mSMQDigests": (b"x" * 16,)})
        (queue, *_) = [one for one in operations_in(folder) if one.type == "queue"]
        report = apply_here(server, folder)
        assert not report.is_fine
        assert report.total["rejected"] == 1
        (refused,) = report.refused
        assert (refused.dn, refused.attributes) == (user.dn, ("mSMQDigests",))
        assert "changed since" in refused.reason
        assert (folder / "rejects" / "applied.jsonl").read_text().count("\n") == 1
        session.modify(user.dn, {"mSMQDigests": tuple(was)})
        assert apply_here(server, folder).is_fine  # what was refused is tried again
        session.modify(queue.dn, {"mSMQLabelEx": (b"changed behind our back",)})
        lost = apply_here(server, folder)
        assert lost.last_line.endswith("0 rejected, 1 lost")
        assert lost.lost[0].differs["mSMQLabelEx"]["found"] == ["changed behind our back"]


def test_too_many_errors_stop_it(fresh):
    server, folder = fresh
    with connect(server) as directory:
        session = directory.session
        (machine, *_) = [one for one in operations_in(folder) if one.role == "computer"]
        session.add(machine.dn, {"objectClass": (b"container",)})
        report = apply_here(server, folder, max_errors=0)
        assert report.stopped == "more than 0 errors (--max-errors)"
        assert report.total["left"] > 0
        total = report.total
        assert total["read"] == sum(total.values()) - total["read"]
        session.delete(machine.dn)
    assert apply_here(server, folder).is_fine


@pytest.mark.parametrize(("most", "transactions"), [(0, 0), (0, 30), (20, 0), (40, 0)])
def test_errors_beyond_the_bound_are_those_that_were_under_way(server, tmp_path, most, transactions):
    _, folder = sample_plan(server, tmp_path, sites=2, machines=4, queues=150, users=0)
    queues = [one for one in operations_in(folder) if one.type == "queue"]

    def spoil(work):  # when the machines are there something takes the names of all queues
        if work.parts[0].startswith("operations/3-children/") and not work.stage:
            with connect(server) as directory:
                for one in queues:
                    directory.session.add(one.dn, {"objectClass": (b"container",)})

    report = apply_here(server, folder, before=spoil, max_errors=most, transactions=transactions)
    assert report.stopped == f"more than {most} errors (--max-errors)"
    one = report.tables["Queue"]
    assert most < one.rejected <= most + 2 * max(16, most)
    assert one.left == 150 - one.rejected
    assert report.total["read"] == sum(report.total.values()) - report.total["read"]
    told = [line for path in (folder / "journal").glob("3-*.jsonl") for line in path.read_text().splitlines()]
    assert sum("conflict" in line for line in told) == one.rejected
    with connect(server) as directory:
        for queue in queues:
            directory.session.delete(queue.dn)
    assert apply_here(server, folder).is_fine


@LOCAL_ENGINE
def test_a_plan_for_another_directory_or_with_other_files_is_refused(planned, fresh, tmp_path):
    server, folder = fresh
    with (
        OpenLdapServer(durable=False, base_dn="dc=other,dc=org") as other,
        pytest.raises(ConfigError, match=r"this is (?i:dc=other,dc=org)"),
    ):
        apply_here(other, folder, access_for(other, tmp_path))
    plan = MigrationPlan.load(folder)
    plan.model_copy(update={"refused": "3 objects exist and differ"}).write(folder)
    with pytest.raises(ConfigError, match="3 objects exist and differ"):
        apply_here(server, folder)
    plan.model_copy(update={"deletes": {"Queue": 2}}).write(folder)
    with pytest.raises(ConfigError, match="deletes 2 objects, 1 are allowed"):
        apply_here(server, folder, allow_deletes=1)
    plan.write(folder)
    path = folder / plan.levels[0].files[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ConfigError, match="is not what was planned"):
        apply_here(server, folder)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        apply_here(server, folder)
    path.write_bytes(whole)
    assert apply_here(server, folder).is_fine


@LOCAL_ENGINE
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_fifty_thousand_objects(server, tmp_path):
    _, folder = sample_plan(server, tmp_path, sites=5, machines=1_000, queues=50_000, users=20)
    before = everything(server)
    report = apply_here(server, folder)
    assert report.is_fine, report.model_dump_json(indent=1)[:3000]
    total = report.total
    assert total["read"] == total["written"] + total["equal"]
    undo(server, folder)
    assert everything(server) == before
