"""Plans of migrations on a real slapd: what they find, and that carrying them out leaves nothing to do."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from support.mqis.plans import (
    carry_out,
    lines_of,
    operations_of,
    plan_here,
    rejects_of,
    write_rows,
)
from support.servers.bad_places import small_disk
from support.spark.exports import access_to

import mqdssm
from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.ldif import write_ldif
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.samples import elements
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.tables.ldif import format_entry, list_base_tree_entries
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

PARIS = "11111111-0000-4000-8000-000000000001"
OSLO = "11111111-0000-4000-8000-000000000002"
WEB01 = "22222222-0000-4000-8000-000000000001"
QUEUE = "33333333-0000-4000-8000-000000000001"
NEW = {"add": 1, "modify": 0, "equal": 0, "rejected": 0}


def enterprise_of(server: OpenLdapServer) -> EnterprisePlan:
    return EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=1, root=server.base_dn)


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def some(counts, *names):
    return {name: getattr(counts, name) for name in names}


def test_a_sample_is_planned_made_and_equal_afterwards(server, tmp_path):
    sample = enterprise_of(server)
    generate(sample, tmp_path / "mqis", SampleForm.MQIS)
    sids = "".join(
        f"{sample.make_user_sid(number)},{elements.make_user_name(sample, number)}\n"
        for number in range(sample.users)
    )
    for number in range(sample.users):
        server.add_user(elements.make_user_name(sample, number))
    (tmp_path / "sids.csv").write_text(sids)
    asked = {"create_computers": True, "sid_map": tmp_path / "sids.csv"}

    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", **asked)
    assert plan.refused is None
    assert {name: (one.read, one.add, one.modify, one.rejected) for name, one in plan.tables.items()} == {
        "Enterprise": (1, 0, 1, 0),
        "Site": (3, 3, 0, 0),
        "RoutingLink": (2, 2, 0, 0),
        "ConnectedNetwork": (3, 0, 0, 0),
        "Machine": (12, 12, 0, 0),
        "Queue": (60, 60, 0, 0),
        "User": (3, 0, 2, 0),  # one has no certificates: there is nothing to write
        "Deleted": (2, 0, 0, 0),
    }
    assert plan == MigrationPlan.load(tmp_path / "plan")
    written = sum(level.rows for level in plan.levels) + sum(file.rows for file in plan.equal)
    assert written == sum(plan.operations.values())
    assert plan.operations["computer add"] == 12

    carry_out(server, plan, tmp_path / "plan")
    again = plan_here(server, tmp_path / "mqis", tmp_path / "again", **asked)
    assert again.total == Counter(read=81, equal=81, add=0, modify=0, skipped=0, conflicts=0, rejected=0)
    assert again.levels == ()
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        read = {queue.identifier: queue for queue in directory.search(mqdssm.Queue)}
        made = [queue for number in range(sample.machines) for queue in Queues(sample, number)]
        assert len(read) == len(made) == 60
        for queue in made:
            there = read[queue.identifier]
            wrong = [
                name
                for name in queue.populated - {"Security", "ModifyTime"}
                if getattr(queue, queue.field_name(name)) != getattr(there, there.field_name(name))
            ]
            assert wrong == []
        links = {link.identifier: link for link in directory.search(mqdssm.RoutingLink)}
        for ends in sample.list_links():  # MSMQ 1.0 keeps the gates with the sites
            made_link = elements.make_link(sample, *ends)
            assert set(links[made_link.identifier].site_gate_identifier_list) == set(
                made_link.site_gate_identifier_list
            )


def test_every_column_is_carried_or_counted(server, tmp_path):
    generate(enterprise_of(server), tmp_path / "mqis", SampleForm.MQIS, table_form=TableForm.CSV)
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", create_computers=True)
    assert plan.tables["Queue"].not_carried == dict.fromkeys(
        [f"PROPID_Q_{name}" for name in ("MODIFY_TIME", "PARTITIONID", "QMID", "SCOPE", "SEQNUM")], 60
    )
    assert set(plan.tables["Deleted"].not_carried) == {
        f"PROPID_D_{name}" for name in ("IDENTIFIER", "OBJTYPE", "PARTITIONID", "SCOPE", "SEQNUM")
    }
    side = pq.read_table(tmp_path / "plan" / "not-carried" / "Queue").to_pylist()
    assert len(side) == 300
    assert {row["value"] for row in side if row["column"] == "PROPID_Q_SCOPE"} == {"1"}


def test_defects_are_rejected_with_reasons_and_the_rest_goes_on(server, tmp_path):
    generate(enterprise_of(server), tmp_path / "mqis", SampleForm.MQIS, faults=True)
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", create_computers=True)
    reasons = {
        (one["table"], one["attribute"], one["reason"].partition("'")[0])
        for table in ("Queue", "Machine", "Site", "RoutingLink", "User")
        for one in rejects_of(tmp_path / "plan", table)
    }
    for expected in [
        ("Queue", "PROPID_Q_INSTANCE", "it is missing"),
        ("Queue", "PROPID_Q_QUOTA", "5000000000 does not fit VT_UI4: 0 to 4294967295"),
        ("Queue", "PROPID_Q_LABEL", "is 130 UTF-16 code units long: the limit is 124"),
        ("Queue", "PROPID_Q_PRIV_LEVEL", "7 is none of 0, 1, 2"),
        ("Machine", "PROPID_QM_PATHNAME", "it is missing"),
        ("RoutingLink", "PROPID_L_COST", "is 0: 1 to 999999 are allowed"),
        ("Site", "PROPID_S_PATHNAME", "it is missing"),
        ("User", "PROPID_U_SID", "it is missing"),
    ]:
        assert expected in reasons
    words = [one["reason"] for one in rejects_of(tmp_path / "plan", "Queue")]
    assert any("is no public queue: only these are stored in a directory" in one for one in words)
    assert any(one.startswith("there is no queue manager nomsmq-") for one in words)
    assert any(one.startswith("the same GUID as Queue row ") for one in words)
    assert any(one.startswith("the same path name as Queue row ") for one in words)
    for counts in plan.tables.values():
        if counts.type is not None:
            assert counts.read == counts.add + counts.modify + counts.equal + counts.rejected
    # all sound objects are there: the defects stand beside them
    made = {one.guid for one in operations_of(plan, tmp_path / "plan") if one.role == "object"}
    sample = enterprise_of(server)
    assert {sample.compute_guid("machine", number) for number in range(12)} <= made
    assert {queue.identifier for number in range(12) for queue in Queues(sample, number)} <= made


def base(folder: Path) -> None:
    """Two sites and a machine with one queue, as NT 4 spelt their names."""
    write_rows(folder, "Site", [{"S_SITEID": PARIS, "S_PATHNAME": "Paris", "S_GATES": [WEB01]}])
    write_rows(
        folder,
        "Machine",
        [{"QM_MACHINE_ID": WEB01, "QM_PATHNAME": "\\\\WEB01 ", "QM_SITE_ID": PARIS, "QM_QUOTA": -1}],
    )
    write_rows(folder, "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "\\\\WEB01\\Orders", "Q_LABEL": "a"}])


def test_names_of_nt4_and_signed_numbers(server, tmp_path):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    assert some(plan.tables["Queue"], *NEW) == NEW
    assert plan.operations == {"container add": 1, "object add": 3}
    carry_out(server, plan, tmp_path / "plan")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        (machine,) = directory.search(mqdssm.QueueManager)
        assert (str(machine.identifier), machine.queue_manager_quota) == (WEB01, 2**32 - 1)
        (queue,) = directory.search(mqdssm.Queue)
        assert (str(queue.identifier), queue.pathname) == (QUEUE, "web01\\orders")


@pytest.mark.parametrize("policy", ["fail", "skip", "update"])
def test_what_is_there_and_differs(server, tmp_path, policy):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    carry_out(server, plan_here(server, tmp_path / "mqis", tmp_path / "first"), tmp_path / "first")
    write_rows(
        tmp_path / "mqis",
        "Queue",
        [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "WEB01\\orders", "Q_LABEL": "b", "Q_JOURNAL": 0}],
    )
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", on_conflict=policy)
    assert plan.tables["Queue"].conflicts == 1
    assert plan.tables["Queue"].skipped == (policy == "skip")
    assert plan.tables["Queue"].modify == (policy == "update")
    assert (plan.refused is not None) == (policy == "fail")
    (conflict,) = lines_of(tmp_path / "plan" / "conflicts.jsonl")
    assert conflict["differs"] == {"mSMQLabelEx": {"here": ["b"], "there": ["a"]}}
    assert conflict["policy"] == policy
    changes = [one for one in operations_of(plan, tmp_path / "plan") if one.action == "modify"]
    if policy == "update":
        (change,) = changes
        assert change.values == {"mSMQLabelEx": (b"b",)}
        assert change.before == {"mSMQLabelEx": (b"a",)}
        assert "mSMQQueueJournalQuota" not in change.values
        assert "mSMQJournal" in change.same  # absent there, which means the same
    else:
        assert changes == []


@pytest.mark.parametrize(("policy", "rejected"), [("skip", 0), ("update", 1)])
def test_another_object_has_the_guid(server, tmp_path, policy, rejected):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    carry_out(server, plan_here(server, tmp_path / "mqis", tmp_path / "first"), tmp_path / "first")
    write_rows(tmp_path / "mqis", "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "WEB01\\other"}])
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", on_conflict=policy)
    assert (plan.tables["Queue"].rejected, plan.tables["Queue"].skipped) == (rejected, 1 - rejected)
    told = [*rejects_of(tmp_path / "plan", "Queue"), *lines_of(tmp_path / "plan" / "conflicts.jsonl")]
    assert told[0]["reason"].lower() == (
        f"the directory has an object with the guid {QUEUE} at cn=orders,cn=msmq,cn=web01,cn=computers,"
        f"{server.base_dn}"
    )


def test_an_object_of_the_name_has_another_guid(server, tmp_path):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        site = directory.create(mqdssm.Site(name="paris"))
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", on_conflict="update")
    (conflict,) = lines_of(tmp_path / "plan" / "conflicts.jsonl")
    assert conflict["differs"]["objectGUID"] == {
        "here": [UUID(PARIS).bytes_le.hex()],
        "there": [site.bytes_le.hex()],
    }
    changes = {one.type: one for one in operations_of(plan, tmp_path / "plan") if one.role == "object"}
    assert "objectGUID" not in changes["site"].values if "site" in changes else True
    # whoever refers to the site refers to the one that is there
    assert changes["queue-manager"].values["mSMQSites"] == (site.bytes_le,)


def test_computers_that_the_target_lacks(server, tmp_path):
    base(tmp_path / "mqis")
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    assert (plan.tables["Machine"].rejected, plan.tables["Queue"].rejected) == (1, 1)
    (machine,) = rejects_of(tmp_path / "plan", "Machine")
    assert machine["reason"] == (
        "there is no computer named WEB01 in the directory; "
        "--create-computers makes those of the table Machine"
    )
    assert machine["values"]["PROPID_QM_PATHNAME"] == "\\\\WEB01 "
    (queue,) = rejects_of(tmp_path / "plan", "Queue")
    assert queue["reason"] == (
        "there is no queue manager WEB01, neither in an accepted row of Machine nor in the directory"
    )
    server.add_user("ann")  # then the domain has a SID
    made = plan_here(server, tmp_path / "mqis", tmp_path / "made", create_computers=True)
    (computer,) = [one for one in operations_of(made, tmp_path / "made") if one.role == "computer"]
    assert computer.values["sAMAccountName"] == (b"WEB01$",)
    assert len(computer.values["objectSid"]) == 1  # decision M26


def test_a_queue_below_a_queue_manager_that_only_the_target_has(server, tmp_path):
    server.add_computer("web01")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        site = directory.create(mqdssm.Site(name="Oslo"))
        directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
    write_rows(tmp_path / "mqis", "Queue", [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q"}])
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    assert some(plan.tables["Queue"], *NEW) == NEW


def test_references_in_a_circle_and_to_nothing(server, tmp_path):
    other, ghost = WEB01.replace("01", "02"), WEB01.replace("01", "99")
    for name in ("web01", "web02"):
        server.add_computer(name)
    write_rows(tmp_path / "mqis", "Site", [{"S_SITEID": PARIS, "S_PATHNAME": "Paris"}])
    write_rows(
        tmp_path / "mqis",
        "Machine",
        [
            {
                "QM_MACHINE_ID": WEB01,
                "QM_PATHNAME": "web01",
                "QM_SITE_IDS": [PARIS, OSLO],
                "QM_OUTFRS": [other],
            },
            {
                "QM_MACHINE_ID": other,
                "QM_PATHNAME": "web02",
                "QM_SITE_IDS": [PARIS],
                "QM_OUTFRS": [WEB01, ghost],
            },
        ],
    )
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    assert plan.tables["Machine"].add == 2
    assert plan.tables["Machine"].not_carried == {"PROPID_QM_OUTFRS": 1, "PROPID_QM_SITE_IDS": 1}
    side = pq.read_table(tmp_path / "plan" / "not-carried" / "Machine").to_pylist()
    assert {(row["column"], row["value"]) for row in side} == {
        ("PROPID_QM_OUTFRS", ghost),
        ("PROPID_QM_SITE_IDS", OSLO),
    }
    carry_out(server, plan, tmp_path / "plan")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        routers = {
            str(one.identifier): [str(guid) for guid in one.out_routing_server_identifier_list]
            for one in directory.search(mqdssm.QueueManager)
        }
    assert routers == {WEB01: [other], other: [WEB01]}


def test_sids_are_replaced_everywhere(server, tmp_path):
    old, gone = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
    server.add_user("ann")
    base(tmp_path / "mqis")
    server.add_computer("web01")
    image = SecurityDescriptor.from_sddl(f"O:{old}G:{gone}D:(A;;0x3;;;{old})(A;;0x1;;;WD)(A;;0x2;;;{gone})")
    text = json.loads(mqdssm.Queue(pathname="a\\b", security=bytes(image)).to_json())["Security"]
    write_rows(
        tmp_path / "mqis",
        "Queue",
        [{"Q_INSTANCE": QUEUE, "Q_PATHNAME": "web01\\q", "Q_SECURITY": text}],
    )
    (tmp_path / "sids.toml").write_text(f'[sids]\n"{old}" = "Ann"\n')
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", sid_map=tmp_path / "sids.toml")
    (queue,) = [one for one in operations_of(plan, tmp_path / "plan") if one.type == "queue"]
    made = SecurityDescriptor.from_bytes(queue.values["nTSecurityDescriptor"][0])
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        (ann,) = [one.security_identifier for one in directory.search(mqdssm.User)]
    assert str(made.owner) == ann
    assert [str(ace.sid) for ace in made.dacl.aces] == [ann, "S-1-1-0", gone]
    assert json.loads((tmp_path / "plan" / "sids.json").read_text()) == [
        {"sid": gone, "count": 2, "where": {"Queue Security": 2}}
    ]
    assert plan.notes == (
        "1 SIDs of accounts are neither mapped nor known to the directory: sids.json lists them",
    )
    (tmp_path / "wrong.csv").write_text(f"{old},nobody\n")
    with pytest.raises(ConfigError, match="names accounts that the directory does not have: nobody"):
        plan_here(server, tmp_path / "mqis", tmp_path / "no", sid_map=tmp_path / "wrong.csv")


def test_deletes_are_counted_and_bounded(server, tmp_path):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    carry_out(server, plan_here(server, tmp_path / "mqis", tmp_path / "first"), tmp_path / "first")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        for number in range(3):
            directory.create(mqdssm.Queue(pathname=f"web01\\extra{number}"))
    none = plan_here(server, tmp_path / "mqis", tmp_path / "none")
    assert (none.deletes, none.levels) == ({}, ())
    few = plan_here(server, tmp_path / "mqis", tmp_path / "few", allow_deletes=2)
    assert few.refused == "3 objects would be deleted, 2 are allowed (--allow-deletes)"
    all_three = plan_here(server, tmp_path / "mqis", tmp_path / "all", allow_deletes=3)
    assert (all_three.deletes, all_three.refused) == ({"Queue": 3}, None)
    gone = operations_of(all_three, tmp_path / "all")
    assert {one.dn.partition(",")[0].lower() for one in gone} == {f"cn=extra{number}" for number in range(3)}
    assert all("objectclass" in {name.lower() for name in one.before} for one in gone)
    carry_out(server, all_three, tmp_path / "all")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        assert len(list(directory.search(mqdssm.Queue))) == 1


def test_an_empty_table_and_a_folder_that_is_not_empty(server, tmp_path):
    write_rows(tmp_path / "mqis", "Queue", [])
    (tmp_path / "mqis" / "Machine.csv").write_text("PROPID_QM_MACHINE_ID,PROPID_QM_PATHNAME\n")
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    assert {name: one.read for name, one in plan.tables.items()} == {"Machine": 0, "Queue": 0}
    with pytest.raises(ConfigError, match="holds a plan already"):
        plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    with pytest.raises(ConfigError, match="is not empty: a plan needs a folder of its own"):
        plan_here(server, tmp_path / "mqis", tmp_path / "mqis")


def test_ldif_of_a_plan_is_what_slapadd_and_ldapmodify_take(server, tmp_path):
    sample = enterprise_of(server)
    generate(sample, tmp_path / "mqis", SampleForm.MQIS)
    asked = {"create_computers": True}
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", **asked)
    records = write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert list(records) == [
        "1-top.ldif",
        "2-machines.ldif",
        "3-children.ldif",
        "4-settings.ldif",
        "8-changes.ldif",
    ]
    assert sum(records.values()) == sum(level.rows for level in plan.levels)
    tree = tmp_path / "base-tree.ldif"
    *places, services = list_base_tree_entries(server.base_dn)
    entries = [*places, [*services, ("mSMQVersion", "200")]]  # as the server had it
    tree.write_text("".join(format_entry(pairs) + "\n" for pairs in entries))
    adds = [tmp_path / "ldif" / name for name in records if name < "7"]
    server.load(tree, *adds)
    changes = tmp_path / "ldif" / "8-changes.ldif"
    command = ["ldapmodify", "-x", "-H", server.url, "-D", server.user, "-w", server.password, "-f", changes]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    again = plan_here(server, tmp_path / "mqis", tmp_path / "again", **asked)
    assert again.levels == ()
    assert again.total["equal"] == plan.total["add"] + plan.total["modify"]
    with pytest.raises(ConfigError, match="is not empty"):
        write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")


def test_nothing_is_planned_below_a_machine_that_is_skipped(server, tmp_path):
    sample = enterprise_of(server)
    generate(sample, tmp_path / "mqis", SampleForm.MQIS)
    name = sample.name_machine(0)
    dn = server.add_computer(name)
    keys = elements.make_machine(sample, 1).manager.public_signing_key_list
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        directory.session.modify(dn, {"mSMQSignCertificates": (keys,)})
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", create_computers=True, on_conflict="skip")
    (conflict,) = lines_of(tmp_path / "plan" / "conflicts.jsonl")
    assert set(conflict["differs"]) == {"mSMQDigests", "mSMQSignCertificates"}
    assert (plan.tables["Machine"].skipped, plan.tables["Machine"].add) == (1, 11)
    queues = rejects_of(tmp_path / "plan", "Queue")
    below = len(list(Queues(sample, 0)))
    assert len(queues) == below > 0
    assert {one["reason"].partition(",")[0].lower() for one in queues} == {
        f"there is no queue manager {name.lower()}"
    }
    made = {one.dn.lower() for one in operations_of(plan, tmp_path / "plan")}
    assert not any(name.lower() in one for one in made)


@pytest.mark.soak
def test_a_disk_that_is_full(server, tmp_path):
    generate(enterprise_of(server), tmp_path / "mqis", SampleForm.MQIS)
    with small_disk(tmp_path / "small", "64k") as small:
        with pytest.raises(ConfigError, match=r"cannot be written: .*No space left on device"):
            plan_here(server, tmp_path / "mqis", small / "plan", create_computers=True)
        assert not (small / "plan" / "plan.json").exists()


BREAKS = [
    {"Q_INSTANCE": "no GUID"},
    {"Q_INSTANCE": None},
    {"Q_PATHNAME": "nothing"},
    {"Q_PATHNAME": "web01\\private$\\q"},
    {"Q_PATHNAME": f"web01\\{'x' * 148}"},
    {"Q_CREATE_TIME": -62_167_219_200},
    {"Q_LABEL": "half \ud800"},
    {"Q_LABEL": "with \0"},
    {"Q_SECURITY": "AAAA"},
    {"Q_MULTICAST_ADDRESS": "10.0.0.1:1"},
    {"Q_INSTANCE": "00000000-0000-0000-0000-000000000000"},
]


def test_one_row_in_ten_is_broken(server, tmp_path):
    base(tmp_path / "mqis")
    server.add_computer("web01")
    rows = [
        {"Q_INSTANCE": str(UUID(int=number + 1)), "Q_PATHNAME": f"web01\\q{number}", "Q_LABEL": "fine"}
        for number in range(10 * len(BREAKS))
    ]
    for number, broken in enumerate(BREAKS):
        rows[10 * number + number % 10] |= broken
    write_rows(tmp_path / "mqis", "Queue", rows)
    with (tmp_path / "mqis" / "Queue.jsonl").open("a") as file:
        file.write('{"PROPID_Q_INSTANCE": \n')
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan")
    rejects = rejects_of(tmp_path / "plan", "Queue")
    assert {one["row"] for one in rejects} == {
        *(10 * number + number % 10 + 1 for number in range(len(BREAKS))),
        len(rows) + 1,
    }
    assert all(one["reason"] and one["values"] is not None for one in rejects)
    assert plan.tables["Queue"].add == len(rows) - len(BREAKS)
    carry_out(server, plan, tmp_path / "plan")
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        assert len(list(directory.search(mqdssm.Queue))) == len(rows) - len(BREAKS)
