"""Orphans on OpenLDAP: what is one, what is none, the plan, its application and its undo."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from support.enterprises.planted import tables_of
from support.enterprises.rules_world import found, source
from support.mqis.applied_plans import undo
from support.orphans.planted_orphans import OrphanWorld, Planted, plant
from support.servers.edited_slapd import edited_slapd

import mqdssm
from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.plan_file import (
    MigrationPlan,
    OperationsFile,
    PlanOperation,
    read_operations,
)
from mqdssm.pipeline.orphans.rules import ORPHAN_RULES
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server


@pytest.fixture
def world() -> Iterator[OrphanWorld]:
    with OpenLdapServer(durable=False) as server:
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(server.ldapi_url, **login) as directory:
            yield OrphanWorld.made(server, server.ldapi_url, directory)


@pytest.fixture
def planted(world: OrphanWorld) -> Planted:
    return plant(world)


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_an_enterprise_in_use_has_no_orphans(world: OrphanWorld, tmp_path: Path) -> None:
    result = world.find(tmp_path / "plan")
    assert (result.listing.orphans, result.listing.notes) == ((), ())
    assert (result.plan, result.folder) == (None, None)
    assert not (tmp_path / "plan").exists()


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_each_kind_is_found(world: OrphanWorld, planted: Planted) -> None:
    assert world.listed() == planted.everything


def test_what_depends_on_them_is_named(world: OrphanWorld, planted: Planted) -> None:
    (manager,) = (one for one in world.find().listing.orphans if one.type_name == "queue-manager")
    assert [dn.lower() for dn in manager.dependents] == [f"cn=orders,cn=msmq,cn=web99,{world.root}".lower()]
    live = DN.parse(world.computers[0]).child("CN", "msmq")
    world.directory.session.modify(live, {"mSMQOutRoutingServers": [manager.dn.encode()]})
    (manager,) = (one for one in world.find().listing.orphans if one.type_name == "queue-manager")
    assert len(manager.dependents) == 2
    assert manager.dependents[1].lower() == str(live).lower()


@pytest.mark.usefixtures("engine")
def test_a_plan_removes_them_and_undo_brings_them_back(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    before = world.entries()
    result = world.find(tmp_path / "plan")
    assert result.plan is not None
    count = len(planted.removable)
    assert sum(result.plan.deletes.values()) == count
    with pytest.raises(
        ConfigError, match=rf"deletes {count} objects: allow them with --allow-deletes {count}"
    ):
        world.apply(tmp_path / "plan")
    with pytest.raises(ConfigError, match=rf"deletes {count} objects, {count - 1} are allowed"):
        world.apply(tmp_path / "plan", count - 1)
    assert world.entries() == before
    report = world.apply(tmp_path / "plan", count)
    assert report.is_fine, report
    assert (report.deleted, report.last_line) == (count, f"{count} deleted")
    after = world.entries()
    assert before.keys() - after.keys() == set(planted.removable)
    assert {dn: after[dn] for dn in after} == {dn: before[dn] for dn in after}
    assert world.listed() == {dn: (rule, False) for dn, rule in planted.listed.items()}
    again = world.apply(tmp_path / "plan", count)  # a second time nothing is left to do
    assert again.is_fine
    undo(world.server, tmp_path / "plan")
    assert world.entries() == before


def test_a_link_stays_if_neither_end_is_gone_by_name_and_guid(world: OrphanWorld) -> None:
    """One site was renamed, the other one was made again with another GUID."""
    ends = (world.site_dn("Renamed"), world.site_dn("Paris"))
    link = world.link(world.sites[0], UUID(int=1), *ends)
    assert world.listed() == {link: ("stale-reference", False)}


def test_undo_brings_back_what_other_classes_allow(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    (stray,) = (dn for dn in planted.removable if "cn=stray" in dn)
    more = {"objectClass": [b"mSMQQueue", b"extensibleObject"], "l": [b"Berlin"], "description": [b"x"]}
    world.directory.session.modify(stray, more)
    before = world.entries()
    world.find(tmp_path / "plan")
    assert world.apply(tmp_path / "plan", len(planted.removable)).is_fine
    assert stray not in world.entries()
    undo(world.server, tmp_path / "plan")
    assert world.entries() == before


def test_what_was_changed_lately_has_to_wait(world: OrphanWorld, planted: Planted) -> None:
    assert not world.find(days=10**12).listing.removable
    found = world.find(days=1).listing
    assert not found.removable
    assert len(found.undecided) == len(planted.removable)
    assert {one.obstacle for one in found.undecided if "less than 1 days ago" not in one.obstacle} <= {
        "its queue manager stays"
    }


@pytest.mark.usefixtures("engine")
def test_what_was_changed_since_is_refused_alone(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    """The object is still an orphan, but it is not as the people saw it who allowed its deletion."""
    world.find(tmp_path / "plan")
    (changed,) = (dn for dn in planted.removable if "web98" in dn)
    world.directory.session.modify(changed, {"mSMQServices": [b"3"]})
    report = world.apply(tmp_path / "plan", len(planted.removable))
    (refusal,) = report.refused
    assert (refusal.dn.lower(), refusal.attributes) == (changed, ("msmqservices",))
    assert report.last_line == f"{len(planted.removable) - 1} deleted, 1 not deleted"
    assert [dn for dn, (_, removable) in world.listed().items() if removable] == [changed]


def test_a_machine_that_is_back_refuses_the_plan(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    world.find(tmp_path / "plan")
    (owned,) = (dn for dn in planted.removable if "web98" in dn)
    owner = UUID(bytes_le=world.entries()[owned]["msmqqmid"][0])
    computer = world.server.add_computer("web96")  # it was renamed as well: the GUID counts
    world.add(f"CN=msmq,{computer}", "mSMQConfiguration", owner)
    before = world.entries()
    with pytest.raises(ConfigError, match=r"what is no orphan now: .*web98.*: it is in use; plan again"):
        world.apply(tmp_path / "plan", len(planted.removable))
    assert world.entries() == before


def test_another_object_of_that_name_refuses_the_plan(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    world.find(tmp_path / "plan")
    (stray,) = (dn for dn in planted.removable if "cn=stray" in dn)
    world.directory.session.delete(stray)
    world.add(stray, "mSMQQueue")
    before = world.entries()
    with pytest.raises(ConfigError, match=r"cn=stray.*: another object has its name now; plan again"):
        world.apply(tmp_path / "plan", len(planted.removable))
    assert world.entries() == before


def test_what_others_deleted_is_done(world: OrphanWorld, planted: Planted, tmp_path: Path) -> None:
    world.find(tmp_path / "plan")
    (stray,) = (dn for dn in planted.removable if "cn=stray" in dn)
    world.directory.session.delete(stray)
    assert world.apply(tmp_path / "plan", len(planted.removable)).is_fine
    assert not world.find().listing.removable


def altered(folder: Path, change: Callable[[PlanOperation], PlanOperation]) -> None:
    """Alter the operations of a plan, and its digests as somebody would who knows the form."""
    plan = MigrationPlan.load(folder)
    levels = []
    for level in plan.levels:
        files = []
        for file in level.files:
            operations = [change(one) for one in read_operations(folder / file.path)]
            written = OperationsFile(folder / file.path, operations[0].row_id)
            for one in operations:
                written.write(one)
            written.close()
            files.append(file.model_copy(update={"sha256": hash_file(folder / file.path)}))
        levels.append(level.model_copy(update={"files": tuple(files)}))
    plan.model_copy(update={"levels": tuple(levels)}).write(folder)


def test_an_altered_plan_deletes_nothing_that_is_in_use(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    """OpenLDAP has no places of orphans: the second search is what protects."""
    world.find(tmp_path / "plan")
    session = world.directory.session
    queue = f"CN=orders,CN=msmq,{world.computers[0]}"
    user, _ = world.server.add_user("anna")
    settings = str(world.settings_dn("Berlin", "web01"))
    link = f"CN={world.sites[0].hex}{world.sites[1].hex},{world.enterprise}"
    for ldap_class, dn in (
        ("mSMQQueue", queue),
        ("mSMQQueue", user),
        ("mSMQConfiguration", f"CN=msmq,{world.computers[0]}"),
        ("mSMQSettings", settings),
        ("mSMQSiteLink", link),
    ):
        folder = tmp_path / ldap_class / dn[3:8]
        shutil.copytree(tmp_path / "plan", folder)
        guid = guid_of(session.get(dn, ["objectGUID"]).attributes)
        begun: list[str] = []

        def change(one: PlanOperation, ldap_class=ldap_class, dn=dn, guid=guid, begun=begun) -> PlanOperation:
            if one.ldap_class != ldap_class or begun:
                return one
            begun.append(one.dn)
            return replace(one, dn=dn, guid=guid, before={})

        altered(folder, change)
        assert begun
        before = world.entries()
        with pytest.raises(ConfigError, match=r"what is no orphan now: .*: it is in use; plan again"):
            world.apply(folder, len(planted.removable))
        assert world.entries() == before


def test_an_orphan_that_somebody_else_added_is_not_deleted_under_another_name(
    world: OrphanWorld, planted: Planted, tmp_path: Path
) -> None:
    """Two orphans that exchange their names in the plan: the GUID tells."""
    world.find(tmp_path / "plan")
    first, second = [dn for dn, rule in planted.removable.items() if rule == "queue-without-queue-manager"]

    def change(one: PlanOperation) -> PlanOperation:
        return replace(one, dn=second, before={}) if normalize(one.dn) == first else one

    altered(tmp_path / "plan", change)
    before = world.entries()
    with pytest.raises(ConfigError, match="another object has its name now"):
        world.apply(tmp_path / "plan", len(planted.removable))
    assert world.entries() == before


def test_other_objects_below_keep_a_queue_manager(world: OrphanWorld, planted: Planted) -> None:
    manager = next(dn for dn, rule in planted.removable.items() if rule == "queue-manager-without-computer")
    world.add(DN.parse(manager).child("CN", "notes"), "container")
    found = {normalize(one.dn): one for one in world.find().listing.orphans}
    assert found[manager].obstacle.lower() == f"cn=notes,{manager} is below it, which is no queue"
    group = [dn for dn in planted.removable if "web99" in dn and "cn=lost" not in dn and dn != manager]
    assert {found[dn].obstacle for dn in group} == {"its queue manager stays"}
    assert len(group) == 2


def test_a_directory_of_a_replicating_server_is_only_listed(
    world: OrphanWorld, planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "mqdssm.directory.write_operations.WriteOperations._find_replicating_server"
    monkeypatch.setattr(name, lambda _: "psc1")
    assert world.listed() == planted.everything
    with pytest.raises(mqdssm.GenericDirectoryError, match="the directory of the replicating server"):
        world.find(tmp_path / "plan")
    assert not (tmp_path / "plan").exists()


def test_folders_that_cannot_be_used(world: OrphanWorld, planted: Planted, tmp_path: Path) -> None:
    world.find(tmp_path / "plan")
    with pytest.raises(ConfigError, match="holds a plan already"):
        world.find(tmp_path / "plan")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        world.find(tmp_path / "full")
    with pytest.raises(ConfigError, match="min_age_days -1"):
        world.find(days=-1)


ACCESS = "access to * by group"
"""Beginning of the last access rule of a private slapd."""


@contextmanager
def as_user(folder: Path, *, rule: str) -> Iterator[tuple[OrphanWorld, Planted]]:
    """The world for a user, on a server with one more access rule; orphans are planted."""
    with OpenLdapServer(folder, durable=False) as server:
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(server.ldapi_url, **login) as directory:
            planted = plant(OrphanWorld.made(server, server.ldapi_url, directory))
        user, password = server.add_user("anna")
        server.stop()
        with (
            edited_slapd(folder, ACCESS, add=rule.format(root=server.base_dn)) as url,
            mqdssm.connect(url, user=user, password=password) as directory,
        ):
            yield OrphanWorld(server, url, directory, account=(user, password)), planted


ABSENT = {"settings-without-queue-manager", "link-without-site"}
"""Kinds that need proof that another object does not exist."""


def test_without_a_statement_nothing_is_proven_to_be_absent(world: OrphanWorld, planted: Planted) -> None:
    found = {normalize(one.dn): one for one in world.find(reads_everything=False).listing.orphans}
    kept = {dn: rule for dn, rule in planted.removable.items() if not found[dn].is_removable}
    named = next(dn for dn in planted.removable if dn.startswith("cn=msmq settings,cn=web99"))
    assert set(kept) == {dn for dn, rule in planted.removable.items() if rule in ABSENT} - {named}
    assert {found[dn].obstacle for dn in kept} == {
        "OpenLDAP does not tell whether its access rules hide objects from this user"
    }


def test_a_part_on_another_server_proves_nothing(world: OrphanWorld, planted: Planted) -> None:
    """Searches leave it out: the queue managers that are missing may be there."""
    far = world.root.child("OU", "far")
    url = b"ldap://other.example/OU=far,DC=example,DC=com"
    classes = [b"referral", b"extensibleObject"]
    world.directory.session.add(far, {"objectClass": classes, "ou": [b"far"], "ref": [url]})
    found = {normalize(one.dn): one for one in world.find().listing.orphans}
    kept = {dn for dn in planted.removable if not found[dn].is_removable}
    named = next(dn for dn in planted.removable if dn.startswith("cn=msmq settings,cn=web99"))
    assert kept == {dn for dn, rule in planted.removable.items() if rule in ABSENT} - {named}
    (obstacle,) = {found[dn].obstacle for dn in kept}
    assert obstacle.lower() == f"what is below {far} is on another server, and was not searched".lower()


@pytest.mark.slow
def test_hidden_parents_prove_nothing(tmp_path: Path) -> None:
    """What is below them is not listed, and nothing counts as absent, whatever the user states."""
    rule = 'access to dn.base="CN=web99,{root}" by * none\n'
    with as_user(tmp_path / "slapd", rule=rule) as (world, planted):
        listing = world.find().listing
        assert listing.notes == ("2 objects have parents that this user may not read",)
        found = {normalize(one.dn): one for one in listing.orphans}
        hidden = {dn for dn in planted.removable if "cn=web99,dc=" in dn}
        assert len(hidden) == 3
        assert not hidden & found.keys()
        kept = {dn for dn, rule in planted.removable.items() if rule in ABSENT} & found.keys()
        assert len(kept) == 2
        assert {found[dn].obstacle for dn in kept} == {
            "2 objects have parents that this user may not read: more may be hidden"
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('access to dn.subtree="CN=Sites,CN=Configuration,{root}" filter=(objectClass=site) by * none\n', ""),
        ('access to dn.subtree="CN=Computers,{root}" attrs=objectGUID by * none\n', "objectGUID of"),
        ("access to filter=(objectClass=computer) by * none\n", "parents that this user may not read"),
        ("access to filter=(objectClass=container) attrs=objectClass by * none\n", "parents that this user"),
    ],
)
def test_what_is_in_use_is_never_removable_by_hiding(tmp_path: Path, rule: str, words: str) -> None:
    """Each of these rules makes objects in use look like orphans."""
    with as_user(tmp_path / "slapd", rule=rule) as (world, planted):
        listing = world.find().listing
        removable = {normalize(one.dn) for one in listing.removable}
        assert removable <= planted.removable.keys()
        if words:
            assert any(words in one.obstacle for one in listing.orphans)


@pytest.mark.usefixtures("engine")
def test_an_interrupted_plan_goes_on(world: OrphanWorld, planted: Planted, tmp_path: Path) -> None:
    """It is stopped by an object that was changed; what is left is searched again."""
    world.find(tmp_path / "plan")
    (changed,) = (dn for dn, rule in planted.removable.items() if rule == "link-without-site")
    world.directory.session.modify(changed, {"mSMQCost": [b"4"]})
    count = len(planted.removable)
    report = world.apply(tmp_path / "plan", count, max_errors=0)
    assert report.stopped is not None
    left = {normalize(one.dn) for one in world.find().listing.removable}
    assert changed in left
    assert 1 < len(left) < count
    report = world.apply(tmp_path / "plan", count)
    assert (report.stopped, report.refused_count) == (None, 1)
    assert [normalize(one.dn) for one in world.find().listing.removable] == [changed]
    undo(world.server, tmp_path / "plan")
    assert {normalize(one.dn) for one in world.find().listing.removable} == planted.removable.keys()


def test_validation_reports_them_too(world: OrphanWorld, tmp_path: Path) -> None:
    """Each kind names the rule of validation that finds such objects in an export."""
    planted = plant(world)
    validation = {rule.id: rule.validation for rule in ORPHAN_RULES}
    guids = {normalize(one.dn): str(one.guid) for one in world.find().listing.orphans}
    reported = {
        (rule, guid) for rule, _, guid, _ in found(source(tmp_path, tables_of(world.directory))) if guid
    }
    missing = {
        dn
        for dn, rule in planted.removable.items()
        if validation[rule] and (validation[rule], guids[dn]) not in reported
    }
    # of an orphaned queue manager the rule reports the queue manager, and another one its settings
    owned = {"queue-of-orphan", "settings-without-queue-manager"}
    assert missing == {dn for dn, rule in planted.removable.items() if "web99" in dn and rule in owned}
