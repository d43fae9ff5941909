"""What a migration could lose without a word, on a real slapd: gates, references, objects."""

import json
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from support.mqis.applied_plans import apply_here, connect, everything, undo
from support.mqis.guid_map import read_guid_map
from support.mqis.plans import lines_of, operations_of, plan_here, rejects_of, write_rows

import mqdssm
from mqdssm.pipeline.migrate.ldif import write_ldif
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

PARIS = "11111111-0000-4000-8000-000000000001"
OSLO = "11111111-0000-4000-8000-000000000002"
ROME = "11111111-0000-4000-8000-000000000003"
WEB01 = "22222222-0000-4000-8000-000000000001"
WEB02 = "22222222-0000-4000-8000-000000000002"
GHOST = "22222222-0000-4000-8000-000000000099"
QUEUE = "33333333-0000-4000-8000-000000000001"
LINK = "44444444-0000-4000-8000-000000000001"
OTHER = "44444444-0000-4000-8000-000000000002"


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        for name in ("web01", "web02", "web03"):
            started.add_computer(name)
        yield started


def sites(folder, **gates):
    rows = [("Paris", PARIS), ("Oslo", OSLO), ("Rome", ROME)]
    write_rows(
        folder,
        "Site",
        [
            {"S_SITEID": guid, "S_PATHNAME": name} | ({"S_GATES": gates[name]} if name in gates else {})
            for name, guid in rows
        ],
    )


def link(guid=LINK, **more):
    return {"L_ID": guid, "L_NEIGHBOR1": PARIS, "L_NEIGHBOR2": OSLO, "L_COST": 1, **more}


def machine(guid, name, **more):
    return {"QM_MACHINE_ID": guid, "QM_PATHNAME": name, "QM_SITE_IDS": [PARIS], **more}


def test_gates_that_no_link_takes_are_not_carried(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source, Paris=[WEB01], Rome=[WEB01])
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    write_rows(source, "RoutingLink", [link(L_GATES=[])])
    plan = plan_here(server, source, tmp_path / "plan")
    assert plan.tables["Site"].not_carried == {"PROPID_S_GATES": 1}
    (lost,) = pq.read_table(tmp_path / "plan" / "not-carried" / "Site").to_pylist()
    assert (lost["guid"], json.loads(lost["value"])) == (ROME, [WEB01])
    (made,) = [one for one in operations_of(plan, tmp_path / "plan") if one.type == "routing-link"]
    assert len(made.values["mSMQSiteGates"]) == 1  # an empty list names none


def test_a_link_between_sites_that_are_nowhere_is_rejected(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "RoutingLink", [link(L_NEIGHBOR2=GHOST)])
    plan = plan_here(server, source, tmp_path / "plan")
    (rejected,) = rejects_of(tmp_path / "plan", "RoutingLink")
    assert GHOST in rejected["reason"]
    assert (plan.tables["RoutingLink"].rejected, plan.tables["RoutingLink"].add) == (1, 0)


def test_references_to_what_only_the_directory_has(server, tmp_path):
    """A reference waits for one machine; the other is in no table, but there."""
    with connect(server) as directory:
        site = directory.create(mqdssm.Site(name="Paris"))
        there = directory.create(mqdssm.QueueManager(computer_name="web03", site_identifier_list=[site]))
    source = tmp_path / "mqis"
    sites(source)
    routers = [WEB02, str(there)]
    write_rows(source, "Machine", [machine(WEB01, "web01", QM_OUTFRS=routers), machine(WEB02, "web02")])
    plan = plan_here(server, source, tmp_path / "plan", on_conflict="skip")
    write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    told = (tmp_path / "ldif" / "2-machines.ldif").read_text().replace("\n ", "").lower()
    waiting = lines_of(tmp_path / "ldif" / "waiting.jsonl")
    assert "cn=msmq,cn=web03" in told or str(there) in str(waiting)
    report = apply_here(server, tmp_path / "plan")
    assert report.refused == ()
    with connect(server) as directory:
        found = manager_of(directory, WEB01)
        assert {str(one) for one in found.out_routing_server_identifier_list} == set(routers)


def test_sites_that_are_there_under_other_guids_are_referred_to(server, tmp_path):
    """Though others are new, and keep theirs."""
    with connect(server) as directory:
        paris = directory.create(mqdssm.Site(name="Paris"))
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "Machine", [machine(WEB01, "web01") | {"QM_SITE_IDS": [OSLO, PARIS]}])
    write_rows(source, "RoutingLink", [link()])
    plan_here(server, source, tmp_path / "plan", on_conflict="update")
    report = apply_here(server, tmp_path / "plan")
    assert (report.refused, report.lost) == ((), ())
    with connect(server) as directory:
        (found,) = directory.search(mqdssm.QueueManager)
        assert set(found.site_identifier_list) == {UUID(OSLO), paris}
        (made,) = directory.search(mqdssm.RoutingLink)
        assert {made.site1_identifier, made.site2_identifier} == {UUID(OSLO), paris}


def test_references_that_cannot_be_set_are_told_each_time(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    rows = [machine(WEB01, "web01", QM_OUTFRS=[WEB02]), machine(WEB02, "web02")]
    write_rows(source, "Machine", rows)
    plan_here(server, source, tmp_path / "plan")
    with connect(server) as directory:  # in the way of the second
        dn = next(iter(directory.session.find(server.base_dn, cn_is("web02"), ["1.1"]))).dn
        directory.session.add(f"CN=msmq,{dn}", {"objectClass": (b"container",)})
        first = apply_here(server, tmp_path / "plan")
        again = apply_here(server, tmp_path / "plan")
        for report in (first, again):
            assert report.last_line == "5 read, 3 written, 0 equal, 2 rejected, 0 lost"
            assert {one.attributes for one in report.refused} == {
                ("mSMQOutRoutingServers",),
                ("objectGUID", "mSMQSites", "nTSecurityDescriptor"),
            }
        directory.session.delete(f"CN=msmq,{dn}")
        last = apply_here(server, tmp_path / "plan")
        assert last.last_line == "5 read, 5 written, 0 equal, 0 rejected, 0 lost"
        found = manager_of(directory, WEB01)
        assert found.out_routing_server_identifier_list == (UUID(WEB02),)


def manager_of(directory, guid):
    (found,) = [one for one in directory.search(mqdssm.QueueManager) if one.identifier == UUID(guid)]
    return found


def cn_is(name):
    from mqdssm.directory.filters import Equal

    return Equal("cn", name.encode())


@pytest.mark.parametrize("policy", ["skip", "update"])
def test_a_link_that_is_there_under_another_guid_is_never_deleted(server, tmp_path, policy):
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "RoutingLink", [link(L_COST=7)])
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    write_rows(source, "RoutingLink", [link(OTHER, L_COST=8)])
    plan = plan_here(server, source, tmp_path / "plan", on_conflict=policy, allow_deletes=5)
    assert plan.deletes == {}
    report = apply_here(server, tmp_path / "plan")
    assert report.refused == ()
    with connect(server) as directory:
        (there,) = directory.search(mqdssm.RoutingLink)
        assert there.actual_cost == (7 if policy == "skip" else 8)
    if policy == "update":  # the GUID was not kept, and the map says so
        assert report.guid_map == 1
        (row,) = read_guid_map(tmp_path / "plan" / "guid-map.csv")
        assert (row.type, str(row.old), str(row.new)) == ("routing-link", OTHER, LINK)


def test_nothing_is_deleted_for_a_table_with_rows_that_nobody_can_tell(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    write_rows(source, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q"}])
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    with (source / "Queue.jsonl").open("w") as file:
        file.write('{"PROPID_Q_INSTANCE": \n')
    plan = plan_here(server, source, tmp_path / "plan", allow_deletes=5)
    assert plan.refused is not None
    assert "Queue" in plan.refused


def test_deletes_are_counted_with_what_belongs_to_them(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    rows = [machine(WEB01, "web01"), machine(WEB02, "web02", QM_SERVICE=8)]
    write_rows(source, "Machine", rows)
    plan_here(server, source, tmp_path / "first")
    assert apply_here(server, tmp_path / "first").operations["settings added"] == 1
    before = everything(server)
    write_rows(source, "Machine", rows[:1])
    few = plan_here(server, source, tmp_path / "few", allow_deletes=1)
    assert few.refused is not None
    plan = plan_here(server, source, tmp_path / "plan", allow_deletes=2)
    assert (plan.refused, sum(plan.deletes.values())) == (None, 2)
    report = apply_here(server, tmp_path / "plan", allow_deletes=2)
    assert report.is_fine
    undo(server, tmp_path / "plan")
    assert everything(server) == before


def test_a_delete_that_is_refused_is_no_row(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    rows = [machine(WEB01, "web01"), machine(WEB02, "web02")]
    write_rows(source, "Machine", rows)
    write_rows(source, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web02\\q"}])
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    write_rows(source, "Machine", rows[:1])
    (source / "Queue.jsonl").unlink()
    plan_here(server, source, tmp_path / "plan", allow_deletes=2)
    report = apply_here(server, tmp_path / "plan")  # it has a queue
    total = report.total
    assert not report.is_fine
    assert report.refused_count == 1
    assert total["read"] == total["equal"] == 4
    assert report.last_line == "4 read, 0 written, 4 equal, 0 rejected, 0 lost, 1 not deleted"


def test_an_object_that_somebody_makes_meanwhile_is_not_overwritten(server, tmp_path):
    """The undo file would delete it."""
    source = tmp_path / "mqis"
    write_rows(source, "Site", [{"S_SITEID": ROME, "S_PATHNAME": "Rome", "S_INTERVAL1": 5}])
    plan_here(server, source, tmp_path / "plan", on_conflict="update")
    with connect(server) as directory:
        directory.create(mqdssm.Site(identifier=UUID(ROME), name="Rome", intra_site_replication_interval=77))
        before = everything(server)
        report = apply_here(server, tmp_path / "plan")
        assert report.total["rejected"] == 1
        undo(server, tmp_path / "plan")
        assert everything(server) == before


def test_undo_brings_back_blanks_wherever_lines_are_folded(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    label = "a " * 61 + "b"
    row = {"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q"}
    for number, text in enumerate((label, "a" + label[:-2] + "b")):
        write_rows(source, "Queue", [{**row, "Q_LABEL": text}])
        plan_here(server, source, tmp_path / f"first{number}", on_conflict="update")
        apply_here(server, tmp_path / f"first{number}")
        before = everything(server)
        write_rows(source, "Queue", [{**row, "Q_LABEL": "new"}])
        plan_here(server, source, tmp_path / f"plan{number}", on_conflict="update")
        assert apply_here(server, tmp_path / f"plan{number}").is_fine
        undo(server, tmp_path / f"plan{number}")
        assert everything(server) == before


def test_a_reference_to_nothing_is_not_carried_and_no_reject(server, tmp_path):
    """Beside one that waits."""
    source = tmp_path / "mqis"
    sites(source)
    rows = [machine(WEB01, "web01", QM_OUTFRS=[WEB02, GHOST]), machine(WEB02, "web02")]
    write_rows(source, "Machine", rows)
    plan = plan_here(server, source, tmp_path / "plan")
    assert plan.tables["Machine"].not_carried == {"PROPID_QM_OUTFRS": 1}
    report = apply_here(server, tmp_path / "plan")
    assert (report.last_line, report.refused) == ("5 read, 5 written, 0 equal, 0 rejected, 0 lost", ())


def test_rows_that_cannot_be_read_count_in_tables_that_no_directory_keeps(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    (source / "Deleted.jsonl").write_text('{"PROPID_D_IDENTIFIER": \n')
    plan = plan_here(server, source, tmp_path / "plan")
    assert plan.tables["Deleted"].not_carried == {"(row)": 1}


def test_what_mqis_does_not_know_is_named(server, tmp_path):
    """Files and columns that nobody reads."""
    source = tmp_path / "mqis"
    sites(source)
    (source / "faults.jsonl").write_text("{}\n")
    row = {"PROPID_QM_MACHINE_ID": WEB01, "PROPID_QM_PATHNAME": "web01", "Owner": "ann", "Rack": 7}
    (source / "Machine.jsonl").write_text(json.dumps(row | {"PROPID_QM_SITE_IDS": [PARIS]}) + "\n")
    plan = plan_here(server, source, tmp_path / "plan")
    assert plan.notes == (
        "not read, since they are no tables of MQIS: faults.jsonl",
        "columns of Machine that MQIS does not have are left out: Owner, Rack",
    )
    assert plan.total["add"] == 4


def test_what_was_equal_is_read_back_as_well(server, tmp_path):
    """And rows add up, whether anything else of them had to be changed or not."""
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    write_rows(source, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q", "Q_LABEL": "a"}])
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    with connect(server) as directory:
        session = directory.session
        (container,) = [dn for dn in everything(server) if dn.startswith("cn=servers,cn=paris,")]
        session.delete(container)  # the site is equal, its container has to be made
        plan = plan_here(server, source, tmp_path / "plan")
        assert (plan.total["modify"], plan.total["equal"]) == (1, 4)
        (queue,) = [dn for dn in everything(server) if dn.startswith("cn=q,")]
        (paris,) = [dn for dn in everything(server) if dn.startswith("cn=paris,")]
        session.modify(queue, {"mSMQLabelEx": (b"b",)})
        session.modify(paris, {"objectGUID": (UUID(GHOST).bytes_le,)})
    report = apply_here(server, tmp_path / "plan")
    assert report.last_line == "5 read, 0 written, 2 equal, 0 rejected, 3 lost"
    reasons = {one.type: one.reason for one in report.lost}
    assert (
        reasons["queue-manager"] == f"mSMQSites refers to {PARIS}, which is not there"
    )  # its site is another


def test_undo_brings_back_what_changes_take_away_or_set_last(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    rows = [machine(WEB01, "web01", QM_OUTFRS=[WEB01, WEB02]), machine(WEB02, "web02")]
    write_rows(source, "Machine", rows)
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    before = everything(server)
    rows[0] = machine(WEB01, "web01", QM_OUTFRS=[GHOST], QM_INFRS=[GHOST, WEB02])
    write_rows(source, "Machine", [*rows, machine(GHOST, "web03")])
    plan_here(server, source, tmp_path / "plan", on_conflict="update")
    assert apply_here(server, tmp_path / "plan").is_fine
    with connect(server) as directory:
        found = manager_of(directory, WEB01)
        assert found.out_routing_server_identifier_list == (UUID(GHOST),)
    undo(server, tmp_path / "plan")
    assert everything(server) == before


def test_what_was_changed_since_the_plan_is_not_deleted(server, tmp_path):
    source = tmp_path / "mqis"
    sites(source)
    write_rows(source, "Machine", [machine(WEB01, "web01")])
    row = {"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q"}
    write_rows(source, "Queue", [row, {"Q_INSTANCE": GHOST, "Q_PATHNAME": "web01\\r"}])
    plan_here(server, source, tmp_path / "first")
    apply_here(server, tmp_path / "first")
    write_rows(source, "Queue", [row])
    plan_here(server, source, tmp_path / "plan", allow_deletes=1)
    (queue,) = [dn for dn in everything(server) if dn.startswith("cn=r,")]
    with connect(server) as directory:
        directory.session.modify(queue, {"mSMQLabelEx": (b"in use again",)})
    report = apply_here(server, tmp_path / "plan")
    assert report.last_line == "5 read, 0 written, 5 equal, 0 rejected, 0 lost, 1 not deleted"
    assert "changed since" in report.refused[0].reason
    assert queue in everything(server)
