"""Migrations into a directory that has been lived in: what rows do not say stays, what is left over goes."""

import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest
from support.mqis.applied_plans import apply_here, everything, undo
from support.mqis.plans import (
    carry_out,
    lines_of,
    operations_of,
    plan_here,
    rejects_of,
    write_rows,
)
from support.spark.exports import access_to

import mqdssm
from mqdssm.events.settings import MADE_BY_US
from mqdssm.model.dn import normalize
from mqdssm.tables import places
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

PARIS = UUID("11111111-0000-4000-8000-000000000001")
OSLO = UUID("11111111-0000-4000-8000-000000000002")
WEB01 = UUID("22222222-0000-4000-8000-000000000001")
OTHER = UUID("22222222-0000-4000-8000-000000000002")
QUEUE = UUID("33333333-0000-4000-8000-000000000001")
ROUTING, DIRECTORY, DEPENDENT = "msmqroutingservices", "msmqdsservices", "msmqdependentclientservices"


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def connected(server: OpenLdapServer) -> mqdssm.Directory:
    return mqdssm.connect(server.url, **access_to(server))


def lived_in(server: OpenLdapServer, **roles: object) -> None:
    """Two sites, and a queue manager that serves both."""
    server.add_computer("web01")
    with connected(server) as directory:
        for guid, name in ((PARIS, "Paris"), (OSLO, "Oslo")):
            directory.create(mqdssm.Site(name=name, identifier=guid))
        manager = mqdssm.QueueManager(
            computer_name="web01", identifier=WEB01, site_identifier_list=[PARIS, OSLO], **roles
        )
        directory.create(manager)


def machine(folder: Path, **cells: object) -> Path:
    row = {"QM_MACHINE_ID": str(WEB01), "QM_PATHNAME": "web01", **cells}
    write_rows(folder / "mqis", "Machine", [row])
    return folder / "mqis"


def settings_of(server: OpenLdapServer) -> dict[str, dict[str, list[bytes]]]:
    """Name of the site -> attributes, of the settings objects of web01."""
    found = {}
    for dn, attributes in everything(server).items():
        if dn.startswith("cn=msmq settings,cn=web01,"):
            found[dn.split(",")[3].removeprefix("cn=")] = attributes
    return found


def manager_of(server: OpenLdapServer) -> dict[str, list[bytes]]:
    (found,) = (one for dn, one in everything(server).items() if dn.startswith("cn=msmq,cn=web01,"))
    return found


def test_a_sacl_that_the_directory_lacks_is_a_difference(server, tmp_path):
    lived_in(server)
    with connected(server) as directory:
        plain = SecurityDescriptor.from_sddl("O:BAG:BAD:(A;;0x24;;;WD)")
        directory.create(mqdssm.Queue(pathname="web01\\q", identifier=QUEUE, security=bytes(plain)))
    audited = SecurityDescriptor.from_sddl("O:BAG:BAD:(A;;0x24;;;WD)S:(AU;SAFA;0x24;;;WD)")
    text = json.loads(mqdssm.Queue(pathname="a\\b", security=bytes(audited)).to_json())["Security"]
    row = {"Q_INSTANCE": str(QUEUE), "Q_PATHNAME": "web01\\q", "Q_SECURITY": text}
    write_rows(tmp_path / "mqis", "Queue", [row])
    told = plan_here(server, tmp_path / "mqis", tmp_path / "told")
    assert (told.tables["Queue"].conflicts, told.refused is None) == (1, False)

    plan_here(server, tmp_path / "mqis", tmp_path / "plan", on_conflict="update")
    report = apply_here(server, tmp_path / "plan")
    assert (report.total["written"], report.lost_count) == (1, 0)
    with connected(server) as directory:
        (queue,) = directory.search(mqdssm.Queue, attributes=["Security"])
    assert SecurityDescriptor.from_bytes(queue.security).sacl == audited.sacl
    again = plan_here(server, tmp_path / "mqis", tmp_path / "again")
    assert again.tables["Queue"].equal == 1


def test_two_users_of_one_new_sid_are_rejected_by_the_plan(server, tmp_path):
    old = [f"S-1-5-21-1-2-3-{rid}" for rid in (1001, 1002, 1003, 1004)]
    names = ("ann", "bob", "cid")
    for name in names:
        server.add_user(name)
    with connected(server) as directory:
        new = {
            name: str(user.security_identifier)
            for user in directory.search(mqdssm.User)
            for name in names
            if normalize(user.full_path or "").startswith(f"cn={name},")
        }
    rows = [
        {
            "U_ID": str(UUID(int=number + 1)),
            "U_SID": b64encode(bytes(Sid.parse(sid))).decode(),
            "U_SIGN_CERT": None,
            "U_DIGEST": None,
        }
        for number, sid in enumerate([*old[:3], new["cid"]])
    ]
    write_rows(tmp_path / "mqis", "User", rows)
    (tmp_path / "sids.csv").write_text(f"{old[0]},ann\n{old[1]},Ann\n{old[2]},cid\n{old[3]},bob\n")
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "plan", sid_map=tmp_path / "sids.csv")
    assert (plan.tables["User"].read, plan.tables["User"].rejected, plan.levels) == (4, 4, ())
    reasons = {one["row"]: one["reason"] for one in rejects_of(tmp_path / "plan", "User")}
    assert sorted(reasons.values()) == [
        f"the same new SID (--sid-map) as User row {number}" for number in sorted(reasons)
    ]
    apart = tmp_path / "apart.csv"  # another map: nobody is in anybody's way
    apart.write_text(f"{old[0]},ann\n{old[1]},bob\n{old[2]},{old[2]}\n")
    plan = plan_here(server, tmp_path / "mqis", tmp_path / "other", sid_map=apart)
    assert {one["row"] for one in rejects_of(tmp_path / "other", "User")} == {sorted(reasons)[2]}


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
@pytest.mark.parametrize(
    ("cells", "bits"),
    [
        ({}, 0x15),
        ({"QM_QUOTA": 5}, 0x15),
        ({"QM_SERVICE_ROUTING": 1}, 0x15),
        ({"QM_SERVICE_ROUTING": 0}, 0x14),
        ({"QM_SERVICE_DEPCLIENTS": 1}, 0x15),
        ({"QM_SERVICE": 0x08}, 0x08),  # all bits are said
    ],
)
def test_roles_that_a_row_does_not_say_stay(server, tmp_path, cells, bits):
    lived_in(
        server,
        routing_server=True,
        remote_access_server=True,
        directory_server=True,
        directory_server_type=mqdssm.DirectoryServerType.PRIMARY_SITE_CONTROLLER,
    )
    before = manager_of(server)
    source = machine(tmp_path, **cells)
    plan_here(server, source, tmp_path / "plan", on_conflict="update")
    report = apply_here(server, tmp_path / "plan")
    assert (report.lost_count, report.refused_count) == (0, 0)
    after = manager_of(server)
    assert int(after["msmqservicetype"][0]) == bits
    flags = {"QM_SERVICE_ROUTING": ROUTING, "QM_SERVICE_DEPCLIENTS": DEPENDENT}
    changed = {flags[name] for name in cells if name in flags}
    if "QM_SERVICE" not in cells:
        for name in {ROUTING, DIRECTORY, DEPENDENT} - changed:
            assert after.get(name) == before.get(name)
    there = settings_of(server)
    assert set(there) == {"paris", "oslo"}  # it serves these still
    for one in there.values():  # the copies say the same
        assert one["msmqservices"] == after["msmqservicetype"]
        assert one.get("msmqdsservice") == after.get(DIRECTORY)
    assert plan_here(server, source, tmp_path / "again").total["equal"] == 1


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
class TestSettingsThatAreLeftOver:
    def test_go_with_the_site_that_is_no_longer_named(self, server, tmp_path):
        lived_in(server, routing_server=True)
        assert set(settings_of(server)) == {"paris", "oslo"}
        before = everything(server)
        source = machine(tmp_path, QM_SITE_IDS=[str(PARIS)])
        skipped = plan_here(server, source, tmp_path / "skip", on_conflict="skip")
        assert skipped.levels == ()
        plan = plan_here(server, source, tmp_path / "plan", on_conflict="update")
        assert plan.operations["settings delete"] == 1
        assert (plan.refused, plan.deletes) == (None, {})  # an update: nothing is missing in the source
        told = [one for one in lines_of(tmp_path / "plan" / "conflicts.jsonl") if not one["differs"]]
        assert [one["dn"].lower().split(",")[3] for one in told] == ["cn=oslo"]

        report = apply_here(server, tmp_path / "plan")
        assert (report.lost_count, report.refused_count, report.total["written"]) == (0, 0, 1)
        assert set(settings_of(server)) == {"paris"}
        assert not any("cn=web01,cn=servers,cn=oslo" in dn for dn in everything(server))  # we had made it
        with connected(server) as directory:
            (manager,) = directory.search(mqdssm.QueueManager)
        assert list(manager.site_identifier_list) == [PARIS]
        assert plan_here(server, source, tmp_path / "again").total["equal"] == 1
        undo(server, tmp_path / "plan")
        assert everything(server) == before

    def test_go_when_it_is_no_server_any_more(self, server, tmp_path):
        lived_in(server, routing_server=True)
        plan_here(server, machine(tmp_path, QM_SERVICE_ROUTING=0), tmp_path / "plan", on_conflict="update")
        assert apply_here(server, tmp_path / "plan").lost_count == 0
        assert settings_of(server) == {}

    @pytest.mark.parametrize("owner", [None, UUID(int=99)])
    def test_whose_owner_is_nowhere_go_from_where_they_were(self, server, tmp_path, owner):
        lived_in(server, routing_server=True)
        with connected(server) as directory:
            root = directory.session.naming.configuration.parent
            directory.session.modify(
                places.settings_dn(root, "Oslo", "web01"),
                {"mSMQQMID": () if owner is None else (owner.bytes_le,)},
            )
        source = machine(tmp_path, QM_SITE_IDS=[str(PARIS)])
        plan_here(server, source, tmp_path / "plan", on_conflict="update")
        apply_here(server, tmp_path / "plan")
        assert set(settings_of(server)) == {"paris"}

    def test_of_another_queue_manager_stay(self, server, tmp_path):
        lived_in(server, routing_server=True)
        server.add_computer("web02")
        with connected(server) as directory:
            directory.create(
                mqdssm.QueueManager(computer_name="web02", identifier=OTHER, site_identifier_list=[OSLO])
            )
            root = directory.session.naming.configuration.parent
            dn = places.settings_dn(root, "Oslo", "web01")
            directory.session.modify(dn, {"mSMQQMID": (OTHER.bytes_le,)})
        source = machine(tmp_path, QM_SITE_IDS=[str(PARIS)])
        plan = plan_here(server, source, tmp_path / "plan", on_conflict="update")
        assert "settings delete" not in plan.operations
        apply_here(server, tmp_path / "plan")
        assert settings_of(server)["oslo"]["msmqqmid"] == [OTHER.bytes_le]

    @pytest.mark.parametrize("why", ["somebody else's", "something is in it"])
    def test_a_server_object_stays_that_is(self, server, tmp_path, why):
        lived_in(server, routing_server=True)
        with connected(server) as directory:
            session = directory.session
            dn = places.server_dn(session.naming.configuration.parent, "Oslo", "web01")
            if why == "somebody else's":
                session.modify(dn, {"description": (b"a domain controller",)})
            else:
                assert session.get(dn, ["description"]).all("description") == [MADE_BY_US.encode()]
                session.add(dn.child("CN", "NTDS"), {"objectClass": (b"container",)})
        source = machine(tmp_path, QM_SITE_IDS=[str(PARIS)])
        plan = plan_here(server, source, tmp_path / "plan", on_conflict="update")
        assert "container delete" not in plan.operations
        assert apply_here(server, tmp_path / "plan").refused_count == 0
        assert dn.normalized in everything(server)
        assert set(settings_of(server)) == {"paris"}


def test_a_row_that_names_no_sites_leaves_the_settings_of_all(server, tmp_path):
    lived_in(server, routing_server=True)
    before = everything(server)
    plan = plan_here(server, machine(tmp_path), tmp_path / "plan", on_conflict="update")
    assert operations_of(plan, tmp_path / "plan") == []
    carry_out(server, plan, tmp_path / "plan")
    assert everything(server) == before
