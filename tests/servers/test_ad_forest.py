"""The whole forest through a global catalog (decisions M8, M73).

Samba has one domain, and catalogs that return everything; a proxy narrows them, and a unit plays a second
domain (`limits_forest`).
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.servers.ad_world import Domain
from support.servers.limits_proxy import LimitsProxy
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.directory.filters import Equal, Present
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import ConfigError
from mqdssm.events.facade import Directory
from mqdssm.tables import TABLES
from mqdssm.testing import OpenLdapServer, SambaDomainController

NOT_IN_CATALOG = ["JournalQuota", "OperatingSystemVersion", "QueueManagerQuota", "QueueManagerVersion"]


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def by_identifier(guid: UUID | None) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


def test_what_catalogs_hold() -> None:
    """Column GC of the schema: all of queues and users, not all of queue managers."""
    missing = {
        kind.element_name: sorted(row.adm for row in table.rows if not row.in_catalog)
        for kind, table in TABLES.items()
    }
    assert missing["QueueManager"] == NOT_IN_CATALOG
    assert missing["Queue"] == missing["User"] == []
    assert missing["Enterprise"]


@pytest.mark.parametrize("scheme", ["url", "ldaps_url"])
def test_on_the_ports_of_the_domain_controller(domain: Domain, scheme: str) -> None:
    """3268 with StartTLS, 3269 with LDAPS."""
    computer, manager = domain.queue_manager(queue_manager_quota=77)
    label = domain.name("L")
    queue = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", label=label))
    server = domain.server
    user, password = server.add_user(domain.name("u"))
    with mqdssm.connect(
        getattr(server, scheme), user=user, password=password, ca_file=server.ca_file, forest=True
    ) as directory:
        catalog = directory.session.catalog
        assert catalog is not None
        assert catalog.server_url == {"url": server.gc_url, "ldaps_url": server.gc_ldaps_url}[scheme]
        (found,) = directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", label))
        assert (found.identifier, found.pathname) == (queue, rf"{computer}\q".lower())
        by_name = mqdssm.Filter("ComputerName", "==", computer)
        assert directory.read(mqdssm.QueueManager, by_name).queue_manager_quota == 77
        by_quota = [mqdssm.Filter("QueueManagerQuota", "==", 77), by_identifier(manager)]
        (again,) = directory.search(mqdssm.QueueManager, by_quota)
        assert again.identifier == manager
        account = f"CN={user.partition('@')[0]},CN=Users,{domain.root}"
        (sid,) = (
            found.security_identifier
            for found in directory.search(mqdssm.User)
            if (found.full_path or "").lower() == account.lower()
        )
        by_sid = mqdssm.Filter("SecurityIdentifier", "==", sid)
        assert (directory.read(mqdssm.User, by_sid).full_path or "").lower() == account.lower()
        # what is in the configuration does not go to the catalog
        before = catalog.round_trips
        assert list(directory.search(mqdssm.Site))
        assert directory.read(mqdssm.Enterprise, ()).identifier
        assert catalog.round_trips == before


def test_changes_as_before(domain: Domain) -> None:
    server = domain.server
    computer, _ = domain.queue_manager()
    with domain.as_user(server.user, server.password, forest=True) as directory:
        guid = directory.create(mqdssm.Queue(pathname=rf"{computer}\made", label="one"))
        (found,) = directory.search(mqdssm.Queue, by_identifier(guid))
        found.label = "two"
        directory.write(found)
        assert directory.read(mqdssm.Queue, by_identifier(guid)).label == "two"
        directory.delete(mqdssm.Queue(identifier=guid))
        with pytest.raises(mqdssm.ObjectNotFound):
            directory.read(mqdssm.Queue, by_identifier(guid))


class TestNarrowCatalog:
    """One domain; the catalog holds a part of the attributes."""

    def test_the_proxy_holds_back_what_windows_does(self, domain: Domain, tmp_path: Path) -> None:
        _, guid = domain.queue_manager(queue_manager_quota=77, routing_server=True)
        wanted = ["mSMQQuota", "mSMQRoutingServices", "objectClass"]
        with domain.in_forest(tmp_path) as (directory, _, _):
            catalog = directory.session.catalog
            assert catalog is not None
            (entry,) = catalog.find("", Equal("objectGUID", guid.bytes_le), wanted)
            assert set(entry.attributes) == {"msmqroutingservices", "objectclass"}
            by_guid = Equal("objectGUID", guid.bytes_le)
            assert not list(catalog.find("", Equal("mSMQQuota", b"77"), []))
            assert not list(catalog.find(entry.dn, Present("mSMQQuota"), [], SearchScope.BASE))
            assert len(list(catalog.find(entry.dn, by_guid, [], SearchScope.BASE))) == 1
            assert directory.session.get(guid, wanted).first("mSMQQuota") == b"77"

    @pytest.mark.parametrize("page_size", [1, 2, 1000])
    def test_the_domain_controller_has_the_rest(self, domain: Domain, tmp_path: Path, page_size: int) -> None:
        made = {}
        for number in range(3):
            name, guid = domain.queue_manager(
                queue_manager_quota=70 + number, journal_quota=5, queue_manager_version=f"6.{number}"
            )
            made[guid] = (name, 70 + number, 5, f"6.{number}", "")
        with domain.in_forest(tmp_path, page_size=page_size) as (directory, controller, catalog):
            found = {
                one.identifier: (
                    one.computer_name,
                    one.queue_manager_quota,
                    one.journal_quota,
                    one.queue_manager_version,
                    one.operating_system_version,
                )
                for one in directory.search(mqdssm.QueueManager)
            }
            assert made.items() <= found.items()
            searches = [one for one in catalog.operations("search") if one.dn == "" and one.search]
            assert any(one.search and one.search.scope is SearchScope.SUBTREE for one in searches)
            for guid in made:
                ours = domain.directory.read(mqdssm.QueueManager, by_identifier(guid))
                theirs = directory.read(mqdssm.QueueManager, by_identifier(guid))
                assert theirs == ours
                assert theirs.populated == ours.populated
            assert not controller.trap.visits
            assert not catalog.trap.visits

    @pytest.mark.parametrize(
        ("operator", "value", "expected"),
        [("==", 71, {71}), ("!=", 71, {70, 72}), (">", 70, {71, 72}), ("<=", 71, {70, 71})],
    )
    def test_filters_that_the_catalog_cannot_judge(
        self, domain: Domain, tmp_path: Path, operator: Any, value: int, expected: set[int]
    ) -> None:
        site = domain.site()
        for quota in (70, 71, 72):
            domain.queue_manager(queue_manager_quota=quota, site_identifier_list=[site])
        there = [
            mqdssm.Filter("SiteIdentifierList", "==", site),
            mqdssm.Filter("QueueManagerQuota", operator, value),
        ]
        with domain.in_forest(tmp_path) as (directory, _, catalog):
            found = directory.search(mqdssm.QueueManager, there, attributes=["ComputerName"])
            assert [one.populated for one in found] == [{"ComputerName"}] * len(expected)
            found = directory.search(mqdssm.QueueManager, there)
            assert {one.queue_manager_quota for one in found} == expected
            sort = mqdssm.SortKey("QueueManagerQuota", 1, ascending=False)
            quotas = [
                one.queue_manager_quota for one in directory.search(mqdssm.QueueManager, there, sort=sort)
            ]
            assert quotas == sorted(expected, reverse=True)
            pushed = [repr(one.search.filter) for one in catalog.operations("search") if one.search]
            assert not any("mSMQQuota" in one for one in pushed)
            assert any("mSMQSites" in one for one in pushed)

    def test_a_queue_needs_no_second_look(self, domain: Domain, tmp_path: Path) -> None:
        computer, _ = domain.queue_manager()
        label = domain.name("L")
        for number in range(5):
            domain.directory.create(
                mqdssm.Queue(pathname=rf"{computer}\q{number}", label=label, quota=9, journaling=True)
            )
        by_label = mqdssm.Filter("Label", "==", label)
        ours = {one.identifier: one for one in domain.directory.search(mqdssm.Queue, by_label)}
        with domain.in_forest(tmp_path) as (directory, controller, _):
            before = len(controller.operations("search"))
            theirs = {one.identifier: one for one in directory.search(mqdssm.Queue, by_label)}
            assert len(controller.operations("search")) == before
        assert theirs == ours
        assert len(theirs) == 5

    def test_the_catalog_as_the_server_itself(
        self, domain: Domain, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What it does not hold is never taken for the default."""
        _, guid = domain.queue_manager(queue_manager_quota=77)
        server = domain.server
        with mqdssm.connect(
            server.gc_ldaps_url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as directory:
            read = directory.read(mqdssm.QueueManager, by_identifier(guid))
            assert not read.is_populated("QueueManagerQuota")
            assert "OperatingSystemVersion" in caplog.text
            with pytest.raises(mqdssm.GenericDirectoryError, match="global catalog does not hold"):
                directory.read(mqdssm.QueueManager, by_identifier(guid), attributes=["QueueManagerQuota"])
            with pytest.raises(mqdssm.GenericDirectoryError, match="nobody can tell"):
                list(directory.search(mqdssm.QueueManager, mqdssm.Filter("QueueManagerQuota", "==", 77)))


@dataclass
class TwoDomains:
    """A forest whose second domain is the unit ``OU=eu`` of the first."""

    domain: Domain
    directory: mqdssm.Directory
    controller: LimitsProxy
    catalog: LimitsProxy
    dn: str
    """Of the second domain."""
    computer: str
    """In the second domain, with MSMQ."""
    manager: UUID
    queue: UUID
    label: str
    """Of its queue, and of one in the first domain."""

    @property
    def path(self) -> str:
        return f"CN=msmq,CN={self.computer},{self.dn}"


@pytest.fixture
def two(domain: Domain, tmp_path: Path) -> Iterator[TwoDomains]:
    unit = domain.name("eu").lower()
    place, other = f"OU={unit},{domain.root}", f"{unit},{domain.root}"
    domain.tools.add(place, {"objectClass": "organizationalUnit"})
    computer, manager = domain.queue_manager(queue_manager_quota=77, queue_manager_version="6.3")
    at_home, _ = domain.queue_manager(queue_manager_quota=78)
    label = domain.name("L")
    queue = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\far", label=label, quota=9))
    domain.directory.create(mqdssm.Queue(pathname=rf"{at_home}\near", label=label))
    domain.directory.session.rename(f"CN={computer},CN=Computers,{domain.root}", f"CN={computer}", place)
    with domain.in_forest(tmp_path, other_domain=other) as (directory, controller, catalog):
        yield TwoDomains(
            domain, directory, controller, catalog, f"DC={other}", computer, manager, queue, label
        )


class TestOtherDomain:
    def test_found_by_every_search(self, two: TwoDomains) -> None:
        found = two.directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", two.label))
        paths = {one.pathname: (one.full_path, one.quota, one.qualified_pathname) for one in found}
        assert len(paths) == 2
        full_path, quota, qualified = paths[rf"{two.computer}\far".lower()]
        assert full_path == f"CN=far,{two.path}"
        assert quota == 9
        assert qualified == rf"{two.computer}.{two.domain.server.realm}\far".lower()
        without = two.domain.directory  # the domain controller itself, which knows of one domain
        assert len(list(without.search(mqdssm.Queue, mqdssm.Filter("Label", "==", two.label)))) == 2
        assert not two.controller.trap.visits

    @pytest.mark.parametrize("name", ["Identifier", "FullPath", "Pathname", "DirectoryPath"])
    def test_read_by_every_name(self, two: TwoDomains, name: str) -> None:
        values = {
            "Identifier": two.queue,
            "FullPath": f"CN=far,{two.path}",
            "Pathname": rf"{two.computer}\far",
            "DirectoryPath": f"LDAP://CN=far,{two.path}",
        }
        wanted = mqdssm.Filter(name, "==", values[name])
        found = two.directory.read(mqdssm.Queue, wanted)
        assert (found.identifier, found.quota, found.label) == (two.queue, 9, two.label)
        (again,) = two.directory.search(mqdssm.Queue, [wanted, mqdssm.Filter("Quota", "<", 10)])
        assert again == found

    def test_what_the_catalog_lacks_is_unknown_not_unset(
        self, two: TwoDomains, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING)
        found = {one.computer_name: one for one in two.directory.search(mqdssm.QueueManager)}
        there = found[two.computer]
        assert set(NOT_IN_CATALOG).isdisjoint(there.populated)
        assert there.identifier == two.manager
        assert there.qualified_computer_name
        assert any(one.queue_manager_quota == 78 for one in found.values())
        said = [one for one in caplog.messages if "a global catalog does not hold it" in one]
        assert len(said) == 1
        assert all(name in said[0] for name in NOT_IN_CATALOG)
        by_name = mqdssm.Filter("ComputerName", "==", two.computer)
        for wanted in (by_identifier(two.manager), by_name):
            read = two.directory.read(mqdssm.QueueManager, wanted)
            assert set(NOT_IN_CATALOG).isdisjoint(read.populated)
            with pytest.raises(
                mqdssm.GenericDirectoryError, match=r"JournalQuota cannot be read.*catalog"
            ) as error:
                two.directory.read(mqdssm.QueueManager, wanted, attributes=["JournalQuota"])
            assert "own domain" in error.value.hint

    def test_a_filter_that_nobody_can_judge_is_an_error(self, two: TwoDomains) -> None:
        """Never a short list."""
        by_quota = mqdssm.Filter("QueueManagerQuota", "==", 78)
        with pytest.raises(mqdssm.GenericDirectoryError, match="nobody can tell") as caught:
            list(two.directory.search(mqdssm.QueueManager, by_quota))
        assert (caught.value.dn or "").endswith(two.dn)
        # unless the others decide
        at_home = next(
            one.identifier
            for one in two.domain.directory.search(mqdssm.QueueManager, by_quota)
            if one.identifier != two.manager
        )
        both = [by_quota, by_identifier(at_home)]
        assert [one.identifier for one in two.directory.search(mqdssm.QueueManager, both)] == [at_home]

    def test_changes_are_refused_and_name_the_domain(self, two: TwoDomains) -> None:
        before = len(two.controller.operations("add", "modify", "delete"))
        queue = two.directory.read(mqdssm.Queue, by_identifier(two.queue))
        queue.label = "changed"
        manager = mqdssm.QueueManager(computer_name=two.computer, queue_manager_quota=1)
        for change in (
            lambda: two.directory.write(queue),
            lambda: two.directory.delete(mqdssm.Queue(identifier=two.queue)),
            lambda: two.directory.write(manager),
            lambda: two.directory.delete(manager, recursive=True),
            lambda: two.directory.create(mqdssm.Queue(pathname=rf"{two.computer}\new")),
        ):
            with pytest.raises(mqdssm.GenericDirectoryError, match="in another domain") as caught:
                change()
            assert two.dn.lower() in str(caught.value).lower()
        assert len(two.controller.operations("add", "modify", "delete")) == before

    def test_references_to_it_are_resolved(self, two: TwoDomains) -> None:
        """Routing servers may be anywhere, when read and when written."""
        name, guid = two.domain.queue_manager()
        manager = mqdssm.QueueManager(computer_name=name, out_routing_server_identifier_list=[two.manager])
        two.directory.write(manager)
        for found in (
            two.directory.read(mqdssm.QueueManager, by_identifier(guid)),
            *two.directory.search(mqdssm.QueueManager, by_identifier(guid)),
        ):
            assert found.out_routing_server_identifier_list == (two.manager,)

    def test_distribution_lists(self, two: TwoDomains) -> None:
        dn = f"CN={two.domain.name('DL')},CN=Users,{two.domain.root}"
        unit = two.dn.replace("DC=", "OU=", 1)
        member = f"CN=far,CN=msmq,CN={two.computer},{unit}"
        two.domain.tools.add(dn, {"objectClass": "group", "member": member})
        group = UUID(bytes_le=two.domain.directory.session.get(dn, ["objectGUID"]).first("objectGUID"))
        assert two.directory.resolve_distribution_list(f"DL={group}") == [f"PUBLIC={str(two.queue).upper()}"]


class TestSettings:
    def test_other_servers_have_no_catalog(self, openldap_server: OpenLdapServer) -> None:
        server = openldap_server
        with pytest.raises(ConfigError, match="OpenLDAP, which has no global catalog"):
            mqdssm.connect(
                server.url, user=server.user, password=server.password, ca_file=server.ca_file, forest=True
            )

    def test_no_catalog_answers(self, domain: Domain) -> None:
        """What needs none works."""
        server = domain.server
        with domain.as_user(
            server.user, server.password, forest=True, catalog="ldap://127.0.0.1:9", connect_timeout_s=2
        ) as directory:
            assert list(directory.search(mqdssm.Site))
            with pytest.raises(mqdssm.DirectoryNotConnected, match=r"127\.0\.0\.1:9"):
                next(directory.search(mqdssm.Queue))
