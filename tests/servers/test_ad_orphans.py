"""Orphans on a domain controller: lost-and-found objects, settings and links, and what is hidden."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from support.mqis.applied_plans import undo
from support.orphans.planted_orphans import OrphanWorld
from support.servers.ad_world import Domain
from support.servers.samba_tools import RELAX, SambaTools

import mqdssm
from mqdssm.model.dn import normalize
from mqdssm.pipeline.migrate.undo import read_undo
from mqdssm.pipeline.orphans import search_orphans
from mqdssm.tables import places
from mqdssm.testing import SambaDomainController

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def world() -> Iterator[OrphanWorld]:
    with SambaDomainController() as server:
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(server.ldaps_url, **login) as directory:
            yield OrphanWorld.made(server, server.ldaps_url, directory)


@pytest.fixture
def tools(world: OrphanWorld) -> SambaTools:
    return SambaTools(world.server)


@pytest.fixture
def place(world: OrphanWorld) -> str:
    return f"CN=LostAndFound,{world.root}"


def read(world: OrphanWorld, dn: str) -> dict[str, list[bytes]]:
    return world.directory.session.get(dn, ["*"]).attributes


def lost(world: OrphanWorld, tools: SambaTools, place: str) -> dict[str, str]:
    """Objects in lost-and-found, as replication leaves them: the rules for parents do not hold for it."""
    config = places.lost_configuration_dn(world.configuration)
    manager = tools.add(f"CN=msmq,{place}", {"objectClass": "mSMQConfiguration", "mSMQQuota": "5"}, [RELAX])
    queue = tools.add(f"CN=orders,{manager}", {"objectClass": "mSMQQueue", "mSMQLabelEx": "Orders"})
    alone = tools.add(f"CN=paid,{place}", {"objectClass": "mSMQQueue", "mSMQQueueQuota": "9"}, [RELAX])
    renamed = tools.add(f"CN=msmq\\0ACNF:{uuid4()},{place}", {"objectClass": "mSMQConfiguration"}, [RELAX])
    tools.add(f"CN=web88,{config}", {"objectClass": "server"}, [RELAX])
    settings = tools.add(
        f"CN=MSMQ Settings,CN=web88,{config}",
        {"objectClass": "mSMQSettings", "mSMQQMID": world.managers[0].bytes_le},
    )
    rules = {
        manager: "queue-manager-without-computer",
        queue: "queue-of-orphan",
        alone: "queue-without-queue-manager",
        renamed: "queue-manager-without-computer",
        settings: "settings-without-site",
    }
    return {normalize(dn): rule for dn, rule in rules.items()}


def test_lost_and_found(world: OrphanWorld, tools: SambaTools, place: str, tmp_path: Path) -> None:
    assert world.listed() == {}
    planted = lost(world, tools, place)
    assert world.listed() == {dn: (rule, True) for dn, rule in planted.items()}
    assert not world.find(days=1).listing.removable
    before = world.entries()
    plan = world.find(tmp_path / "plan").plan
    assert plan is not None
    (note,) = plan.notes
    assert note.startswith("5 objects are below CN=LostAndFound or CN=LostAndFoundConfig")
    report = world.apply(tmp_path / "plan", 5)
    assert (report.is_fine, report.deleted) == (True, 5), report
    assert before.keys() - world.entries().keys() == planted.keys()
    assert world.listed() == {}
    records = [lines for _, lines in read_undo(tmp_path / "plan" / "undo.ldif")]
    assert len(records) == 5
    (paid,) = ("\n".join(lines) for lines in records if lines[0].startswith("dn: CN=paid,"))
    assert "changetype: add" in paid
    assert "mSMQQueueQuota: 9".lower() in paid.lower()


def test_a_computer_in_lost_and_found_is_alive(world: OrphanWorld, tools: SambaTools, place: str) -> None:
    """Its unit was deleted on another domain controller; the machine knows nothing of that."""
    computer = tools.add(f"CN=web66,{place}", {"objectClass": "computer"}, [RELAX])
    manager = tools.add(f"CN=msmq,{computer}", {"objectClass": "mSMQConfiguration"})
    queue = tools.add(f"CN=orders,{manager}", {"objectClass": "mSMQQueue"})
    try:
        assert world.listed() == {}
    finally:
        tools.delete(queue, manager, computer)


def server_of_its_own(world: OrphanWorld, name: str, site: str) -> tuple[str, UUID]:
    """A routing server in a site; returns the DN of its computer and the queue manager's GUID."""
    computer = world.server.add_computer(name)
    guid = next(one.identifier for one in world.directory.search(mqdssm.Site) if one.name == site)
    manager = mqdssm.QueueManager(computer_name=name, site_identifier_list=[guid], routing_server=True)
    return computer, world.directory.create(manager)


def test_settings_of_a_machine_that_is_gone(world: OrphanWorld, tools: SambaTools, tmp_path: Path) -> None:
    computer, _ = server_of_its_own(world, "web77", "Berlin")
    assert world.listed() == {}
    tools.delete(f"CN=msmq,{computer}")
    settings = normalize(str(world.settings_dn("Berlin", "web77")))
    assert world.listed() == {settings: ("settings-without-queue-manager", True)}

    user, password = world.server.add_user("anna")
    (orphan,) = world.find(user=user, password=password).listing.orphans
    assert orphan.obstacle == "objects may be hidden from this user, who is not in Administrators"
    assert world.find(tmp_path / "none", user=user, password=password).folder is None

    before = read(world, settings)
    assert world.find(tmp_path / "plan").plan is not None
    assert world.apply(tmp_path / "plan", 1).is_fine
    assert world.listed() == {}
    undo(world.server, tmp_path / "plan")
    after = read(world, settings)
    made = {"objectguid", "usncreated", "usnchanged", "whencreated", "whenchanged"}
    assert {name: after[name] for name in after if name not in made} == {
        name: before[name] for name in before if name not in made
    }
    assert after["objectguid"] != before["objectguid"]

    other = mqdssm.QueueManager(computer_name="web77", site_identifier_list=[world.sites[1]])
    world.directory.create(other)
    assert world.listed() == {settings: ("settings-of-former-queue-manager", False)}
    tools.delete(settings)
    assert world.listed() == {}


def test_links_of_a_site_that_is_gone(world: OrphanWorld, tools: SambaTools, tmp_path: Path) -> None:
    gone = world.directory.create(mqdssm.Site(name="Lyon"))
    link = mqdssm.RoutingLink(site1_identifier=world.sites[0], site2_identifier=gone, actual_cost=1)
    world.directory.create(link)
    dn = normalize(f"CN={world.sites[0].hex}{gone.hex},{world.enterprise}")
    assert world.listed() == {}
    tools._ldb("ldbdel", "--recursive", world.site_dn("Lyon"))
    assert world.listed() == {dn: ("link-without-site", True)}
    world.find(tmp_path / "plan")
    assert world.apply(tmp_path / "plan", 1).is_fine
    assert world.listed() == {}


def test_disabled_computers_are_only_counted(world: OrphanWorld, tools: SambaTools) -> None:
    computer = normalize(world.computers[0])
    (before,) = tools.entry(computer, "userAccountControl")["userAccountControl"]
    tools.modify(computer, f"replace: userAccountControl\nuserAccountControl: {int(before) | 2}")
    try:
        found = world.find().listing
        assert found.orphans == ()
        (note,) = found.notes
        assert note.startswith("1 queue managers belong to computers whose accounts are disabled")
    finally:
        tools.modify(computer, f"replace: userAccountControl\nuserAccountControl: {int(before)}")


def test_samba_finds_the_domain_sound(tools: SambaTools) -> None:
    """The test below adds a domain that does not exist."""
    tools.check_database()


def test_a_queue_manager_of_another_domain_counts(
    world: OrphanWorld, tools: SambaTools, tmp_path: Path
) -> None:
    """The second domain is a unit of the first, behind a proxy; the catalog has its objects."""
    domain = Domain(world.directory, world.server, tools)
    tools.add(f"OU=eu,{world.root}", {"objectClass": "organizationalUnit"})
    computer, _ = server_of_its_own(world, "web55", "Berlin")
    gone, _ = server_of_its_own(world, "web44", "Berlin")
    tools.delete(f"CN=msmq,{gone}")
    world.directory.session.rename(computer, "CN=web55", f"OU=eu,{world.root}")
    partition = f"CN=EU,CN=Partitions,{world.configuration}"
    tools.add(
        partition,
        {
            "objectClass": "crossRef",
            "nCName": f"DC=eu,{world.root}",
            "dnsRoot": "eu.example.com",
            "systemFlags": "3",
        },
        [RELAX],
    )
    settings = normalize(str(world.settings_dn("Berlin", "web44")))
    try:
        with domain.in_forest(tmp_path, other_domain=f"eu,{world.root}") as (directory, _, catalog):
            found = search_orphans(directory.session)
            assert {normalize(one.dn): one.obstacle for one in found.orphans} == {settings: ""}
            assert catalog.operations("search")
        user, password = world.server.add_user("olga")
        tools.tool("group", "addmembers", "Administrators", "olga", "-H", world.server.database)
        found = world.find(user=user, password=password).listing
        (orphan,) = [one for one in found.orphans if normalize(one.dn) == settings]
        assert orphan.obstacle == (
            "objects of other domains may be hidden from this user, who is no Enterprise Admin"
        )
    finally:
        tools.delete(partition, settings)
