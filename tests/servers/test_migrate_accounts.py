"""Every row of a migration ends in one count, whatever happens to it on the way."""

from uuid import UUID

import pytest
from support.mqis.applied_plans import apply_here, connect, everything
from support.mqis.plans import plan_here, rejects_of, write_rows

import mqdssm
from mqdssm.pipeline.migrate.verification import VerifyTask
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

PARIS = "11111111-0000-4000-8000-000000000001"
WEB01 = "22222222-0000-4000-8000-000000000001"
WEB02 = "22222222-0000-4000-8000-000000000002"
QUEUE = "33333333-0000-4000-8000-000000000001"
ROUTERS = "mSMQOutRoutingServers"


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        for name in ("web01", "web02"):
            started.add_computer(name)
        yield started


def machine(guid: str, name: str, **more: object) -> dict[str, object]:
    return {"QM_MACHINE_ID": guid, "QM_PATHNAME": name, "QM_SITE_IDS": [PARIS], **more}


@pytest.fixture
def source(tmp_path):
    """A site, two machines that refer to each other, and a queue."""
    folder = tmp_path / "mqis"
    write_rows(folder, "Site", [{"S_SITEID": PARIS, "S_PATHNAME": "Paris"}])
    rows = [machine(WEB01, "web01", QM_OUTFRS=[WEB02]), machine(WEB02, "web02", QM_OUTFRS=[WEB01])]
    write_rows(folder, "Machine", rows)
    write_rows(folder, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q"}])
    return folder


@pytest.mark.parametrize(
    ("journals", "words", "count"),
    [
        ("3-children-*", "nothing says what became of it", 1),
        ("later-*", f"{ROUTERS}: never set", 2),
    ],
)
def test_what_no_journal_tells_of_is_lost(server, source, tmp_path, journals, words, count):
    """As if a disk had forgotten it: all was tried, so each row has to be somewhere."""
    plan_here(server, source, tmp_path / "plan")

    def forget(work):
        if isinstance(work, VerifyTask):
            for path in (tmp_path / "plan" / "journal").glob(f"{journals}.jsonl"):
                path.unlink()

    report = apply_here(server, tmp_path / "plan", before=forget)
    assert [one.reason for one in report.lost] == [words] * count
    assert not report.is_fine
    assert report.last_line == f"4 read, {4 - count} written, 0 equal, 0 rejected, {count} lost"


def test_references_that_were_not_tried_any_more_are_left(server, source, tmp_path):
    rows = [machine(WEB01, "web01", QM_OUTFRS=[WEB02]), machine(WEB02, "web02", QM_SERVICE=8)]
    write_rows(source, "Machine", rows)  # settings come after queues: there it stops
    plan_here(server, source, tmp_path / "plan")
    in_the_way = next(dn for dn in everything(server) if dn.startswith("cn=web01,")).replace(
        "cn=web01,", "cn=q,cn=msmq,cn=web01,", 1
    )

    def at_last(work):
        if work.parts[0].startswith("operations/3-children/"):
            with connect(server) as directory:
                directory.session.add(in_the_way, {"objectClass": (b"container",)})

    report = apply_here(server, tmp_path / "plan", before=at_last, max_errors=0)
    assert report.stopped is not None
    assert (report.tables["Queue"].rejected, report.tables["Queue"].left) == (1, 0)
    # both are there, but one lacks what it refers to, the other its settings
    machines = report.tables["Machine"]
    assert (machines.written, machines.rejected, machines.left) == (0, 0, 2)
    assert report.total["read"] == 4 == 1 + 1 + machines.left
    with connect(server) as directory:
        directory.session.delete(in_the_way)
    again = apply_here(server, tmp_path / "plan")
    assert again.last_line == "4 read, 4 written, 0 equal, 0 rejected, 0 lost"
    with connect(server) as directory:
        found = {str(one.identifier): one for one in directory.search(mqdssm.QueueManager)}
    assert found[WEB01].out_routing_server_identifier_list == (UUID(WEB02),)


def test_nothing_is_planned_below_a_machine_that_is_elsewhere(server, source, tmp_path):
    """Its GUID has the queue manager of another computer: what is skipped there has no queues here."""
    with connect(server) as directory:
        site = directory.create(mqdssm.Site(name="Oslo"))
        directory.create(
            mqdssm.QueueManager(computer_name="web02", identifier=UUID(WEB01), site_identifier_list=[site])
        )
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    plan = plan_here(server, source, tmp_path / "plan", on_conflict="skip")
    assert (plan.tables["Machine"].skipped, plan.tables["Queue"].add) == (1, 0)
    (rejected,) = rejects_of(tmp_path / "plan", "Queue")
    assert rejected["reason"].startswith("there is no queue manager web01, ")
    assert apply_here(server, tmp_path / "plan").refused == ()


def test_an_object_of_a_row_is_never_deleted_whatever_it_is_called(server, source, tmp_path):
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    write_rows(source, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\renamed"}])
    plan = plan_here(server, source, tmp_path / "plan", on_conflict="skip", allow_deletes=5)
    assert (plan.deletes, plan.refused, plan.tables["Queue"].skipped) == ({}, None, 1)
    other = QUEUE.replace("01", "02")  # another one indeed is
    write_rows(source, "Queue", [{"Q_INSTANCE": other, "Q_PATHNAME": "web01\\renamed"}])
    plan = plan_here(server, source, tmp_path / "other", on_conflict="skip", allow_deletes=5)
    assert plan.deletes == {"Queue": 1}
