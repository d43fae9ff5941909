"""The events on a real domain controller: what is different there."""

import re
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.directory.filters import TRUE, Equal
from mqdssm.events.facade import Directory
from mqdssm.tables.access import AdRight
from mqdssm.testing import SambaDomainController
from mqdssm.wire.dtyp import SecurityDescriptor, Sid, allow
from mqdssm.wire.masks import WRITE_DAC, WRITE_OWNER, DescriptorControl, MachineAccess, QueueAccess

EVERYONE = Sid("S-1-1-0")


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def by_identifier(guid: UUID) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


class TestEveryElement:
    """Created, read, searched for, written, deleted."""

    def test_queue(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        queue = mqdssm.Queue(
            pathname=rf"{computer}\Orders", label="Ordres reçus", quota=0xFFFFFFFF, journaling=True
        )
        guid = domain.directory.create(queue)
        read = domain.directory.read(mqdssm.Queue, by_identifier(guid))
        assert (read.pathname, read.label, read.quota, read.journaling) == (
            rf"{computer}\orders".lower(),
            "Ordres reçus",
            0xFFFFFFFF,
            True,
        )
        assert read.create_time
        read.label, read.quota = "", 7
        domain.directory.write(read)
        (found,) = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Pathname", "==", read.pathname))
        assert (found.label, found.quota) == ("", 7)
        domain.directory.delete(mqdssm.Queue(identifier=guid))
        with pytest.raises(mqdssm.ObjectNotFound):
            domain.directory.read(mqdssm.Queue, by_identifier(guid))

    def test_queue_manager_with_settings_in_its_sites(self, domain: Domain) -> None:
        sites = [domain.site(), domain.site()]
        computer, guid = domain.queue_manager(site_identifier_list=sites, routing_server=True)
        read = domain.directory.read(mqdssm.QueueManager, by_identifier(guid))
        assert (read.computer_name, set(read.site_identifier_list)) == (computer, set(sites))
        assert read.qualified_computer_name == f"{computer}.{domain.server.realm}".lower()
        settings = Equal("mSMQQMID", guid.bytes_le)
        session = domain.directory.session
        assert len(list(session.find(session.naming.configuration, settings, ["1.1"]))) == 2
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q"))
        with pytest.raises(mqdssm.GenericDirectoryError, match="1 object is directly below"):
            domain.directory.delete(mqdssm.QueueManager(identifier=guid))
        domain.directory.delete(mqdssm.QueueManager(identifier=guid), recursive=True)
        assert not list(session.find(session.naming.configuration, settings, ["1.1"]))

    def test_site_link_and_enterprise(self, domain: Domain) -> None:
        one, two = domain.site(), domain.site()
        _, gate = domain.queue_manager(site_identifier_list=[one])
        link = mqdssm.RoutingLink(
            site1_identifier=one, site2_identifier=two, actual_cost=7, site_gate_identifier_list=[gate]
        )
        guid = domain.directory.create(link)
        for read in (
            domain.directory.read(mqdssm.RoutingLink, by_identifier(guid)),
            *domain.directory.search(mqdssm.RoutingLink, mqdssm.Filter("Site1Identifier", "==", one)),
        ):
            assert (read.site1_identifier, read.site2_identifier) == (one, two)
            assert read.site_gate_identifier_list == (gate,)
        site = domain.directory.read(mqdssm.Site, by_identifier(one))
        assert not site.migrated_from_msmq10  # mSMQNt4Stub is on no ordinary site
        site.intra_site_replication_interval = 77
        domain.directory.write(site)
        assert domain.directory.read(mqdssm.Site, by_identifier(one)).intra_site_replication_interval == 77
        enterprise = domain.directory.read(mqdssm.Enterprise, ())
        enterprise.default_time_to_live = 1234
        domain.directory.write(enterprise)
        assert domain.directory.read(mqdssm.Enterprise, ()).default_time_to_live == 1234

    @pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
    def test_users_are_people(self, domain: Domain) -> None:
        name, _ = domain.server.add_user(domain.name("u"))
        users = list(domain.directory.search(mqdssm.User, attributes=["SecurityIdentifier", "FullPath"]))
        assert any(name.split("@", maxsplit=1)[0] in (user.full_path or "") for user in users)
        assert not any("OU=Domain Controllers" in (user.full_path or "") for user in users)


class TestPlaces:
    def test_a_domain_controller_is_in_another_place(self, domain: Domain) -> None:
        # 2.2.1 would have it below CN=Computers (decision M16)
        host = domain.server.dns_name.split(".", maxsplit=1)[0]
        guid = domain.directory.create(
            mqdssm.QueueManager(computer_name=host, site_identifier_list=[domain.site()])
        )
        try:
            read = domain.directory.read(mqdssm.QueueManager, by_identifier(guid))
            assert "OU=Domain Controllers" in (read.full_path or "")
            assert (read.computer_name or "").lower() == host.lower()
        finally:
            domain.directory.delete(mqdssm.QueueManager(identifier=guid), recursive=True)

    def test_a_computer_that_moves(self, domain: Domain) -> None:
        computer, guid = domain.queue_manager()
        session = domain.directory.session
        unit = f"OU={domain.name('ou')},{domain.root}"
        session.add(unit, {"objectClass": [b"organizationalUnit"]})
        session.rename(f"CN={computer},CN=Computers,{domain.root}", f"CN={computer}", unit)
        queue = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q"))
        assert unit in (domain.directory.read(mqdssm.Queue, by_identifier(queue)).full_path or "")
        assert domain.directory.read(
            mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer)
        ).identifier == (guid)

    def computer_at(self, domain: Domain, dn: str, account: str) -> None:
        attributes = {"sAMAccountName": [account.encode()], "userAccountControl": [b"4096"]}
        domain.directory.session.add(dn, {"objectClass": [b"computer"], **attributes})

    def unit(self, domain: Domain) -> str:
        unit = f"OU={domain.name('ou')},{domain.root}"
        domain.directory.session.add(unit, {"objectClass": [b"organizationalUnit"]})
        return unit

    def manager_of(self, domain: Domain, computer: str) -> str:
        """Where the queue manager comes to be that is made for a computer."""
        guid = domain.directory.create(
            mqdssm.QueueManager(computer_name=computer, site_identifier_list=[domain.site()])
        )
        return domain.directory.read(mqdssm.QueueManager, by_identifier(guid)).full_path or ""

    def test_the_account_says_which_of_two_computers(self, domain: Domain) -> None:
        name, unit = domain.name("dup"), self.unit(domain)
        self.computer_at(domain, f"CN={name},CN=Computers,{domain.root}", domain.name("o") + "$")
        self.computer_at(domain, f"CN={name},{unit}", f"{name}$")
        assert self.manager_of(domain, name.upper()) == f"CN=msmq,CN={name},{unit}"

    def test_without_such_an_account_it_is_the_one_at_its_place(self, domain: Domain) -> None:
        name, unit = domain.name("dup"), self.unit(domain)
        self.computer_at(domain, f"CN={name},CN=Computers,{domain.root}", domain.name("o") + "$")
        self.computer_at(domain, f"CN={name},{unit}", domain.name("o") + "$")
        assert self.manager_of(domain, name) == f"CN=msmq,CN={name},CN=Computers,{domain.root}"

    def test_two_of_which_nothing_says_which(self, domain: Domain) -> None:
        name = domain.name("dup")
        for unit in (self.unit(domain), self.unit(domain)):
            self.computer_at(domain, f"CN={name},{unit}", domain.name("o") + "$")
        with pytest.raises(mqdssm.GenericDirectoryError, match="2 computers are named"):
            self.manager_of(domain, name)

    @pytest.mark.parametrize("at_its_place", [True, False])
    def test_a_name_that_is_longer_than_its_account(self, domain: Domain, at_its_place: bool) -> None:
        name = domain.name("L") + "averylongname"
        above = f"CN=Computers,{domain.root}" if at_its_place else self.unit(domain)
        self.computer_at(domain, f"CN={name},{above}", f"{name[:15]}$")
        assert self.manager_of(domain, name) == f"CN=msmq,CN={name},{above}"
        session = domain.directory.session
        with domain.as_user(domain.server.user, domain.server.password) as directory:
            before = directory.session.round_trips
            directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
            # the root DSE; the computer; a search where it is elsewhere; the queue; its GUID
            assert directory.session.round_trips - before == (3 if at_its_place else 4)
        assert session.get(f"CN=q,CN=msmq,CN={name},{above}", ["cn"])

    def test_names_that_no_windows_would_take(self, domain: Domain) -> None:
        with pytest.raises(ValueError, match="allows 64"):
            domain.directory.session.add(
                f"CN={'s' * 65},CN=Users,{domain.root}", {"objectClass": [b"container"]}
            )


class TestReferences:
    def test_what_is_deleted_leaves_a_name_behind(self, domain: Domain) -> None:
        one, two, three = domain.site(), domain.site(), domain.site()
        _, gate = domain.queue_manager(site_identifier_list=[one])
        _, other = domain.queue_manager(site_identifier_list=[one])
        link = domain.directory.create(
            mqdssm.RoutingLink(
                site1_identifier=one,
                site2_identifier=two,
                actual_cost=1,
                site_gate_identifier_list=[gate, other],
            )
        )
        lost = domain.directory.create(
            mqdssm.RoutingLink(site1_identifier=one, site2_identifier=three, actual_cost=1)
        )
        domain.directory.delete(mqdssm.QueueManager(identifier=gate), recursive=True)
        domain.directory.delete(mqdssm.Site(identifier=three), recursive=True)
        assert domain.directory.read(mqdssm.RoutingLink, by_identifier(link)).site_gate_identifier_list == (
            other,
        )
        found = {one.identifier: one for one in domain.directory.search(mqdssm.RoutingLink)}
        assert found[link].site_gate_identifier_list == (other,)
        assert not found[lost].is_populated("Site2Identifier")  # decision M40
        with pytest.raises(mqdssm.GenericDirectoryError, match="Site2Identifier"):
            domain.directory.read(mqdssm.RoutingLink, by_identifier(lost))

    def test_they_come_along_with_their_page(self, domain: Domain) -> None:
        one, two = domain.site(), domain.site()
        _, gate = domain.queue_manager(site_identifier_list=[one])
        domain.directory.create(
            mqdssm.RoutingLink(
                site1_identifier=one, site2_identifier=two, actual_cost=1, site_gate_identifier_list=[gate]
            )
        )
        session = domain.directory.session
        assert session.brings_references
        before = session.round_trips
        listed = list(domain.directory.search(mqdssm.RoutingLink, attributes=["SiteGateIdentifierList"]))
        assert session.round_trips == before + 1
        assert (gate,) in [link.site_gate_identifier_list for link in listed]


class TestSecurity:
    def granted(self, domain: Domain, guid: UUID) -> dict[Sid | None, int]:
        image = domain.directory.session.get(guid, ["nTSecurityDescriptor"]).first("nTSecurityDescriptor")
        descriptor = SecurityDescriptor.from_bytes(image or b"")
        assert any(ace.inherited for ace in descriptor.dacl.aces) if descriptor.dacl else False
        return {ace.sid: ace.mask for ace in descriptor.explicit_aces() if ace.object_type is None}

    @pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
    def test_a_queue_manager(self, domain: Domain) -> None:
        _, guid = domain.queue_manager()
        assert self.granted(domain, guid)[EVERYONE] == 0x20094  # read, list; never write (0x20)
        read = SecurityDescriptor.from_bytes(
            domain.directory.read(mqdssm.QueueManager, by_identifier(guid)).security
        )
        rights = {ace.sid: ace.mask for ace in read.explicit_aces()}
        assert rights.pop(EVERYONE) == MachineAccess.WORLD_RIGHTS
        assert set(rights.values()) == {int(MachineAccess.GENERIC_ALL)}
        assert Sid.parse(domain.directory.session.bound_sid() or "") in rights
        assert read.dacl
        assert not any(ace.inherited for ace in read.dacl.aces)

    def test_an_ordinary_user_may_not_change_what_everyone_may_read(self, domain: Domain) -> None:
        computer, manager = domain.queue_manager()
        everyone = SecurityDescriptor.build(dacl=[allow(EVERYONE, QueueAccess.GENERIC_READ)])
        guid = domain.directory.create(
            mqdssm.Queue(pathname=rf"{computer}\q", label="ours", security=bytes(everyone))
        )
        user, password = domain.server.add_user(domain.name("u"))
        with domain.as_user(user, password) as directory:
            queue = directory.read(mqdssm.Queue, by_identifier(guid))
            assert queue.label == "ours"
            granted = SecurityDescriptor.from_bytes(queue.security).explicit_aces()
            assert granted == (allow(EVERYONE, QueueAccess.GENERIC_READ),)
            for changed in (
                mqdssm.Queue(identifier=guid, label="theirs"),
                mqdssm.Queue(identifier=guid, security=queue.security),
                mqdssm.QueueManager(identifier=manager, queue_manager_version="theirs"),
            ):
                with pytest.raises(mqdssm.GenericDirectoryError, match="no right") as caught:
                    directory.write(changed)
                assert caught.value.ldap_code == 50
        assert domain.directory.read(mqdssm.Queue, by_identifier(guid)).label == "ours"

    def test_rights_are_given_and_taken(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        user, password = domain.server.add_user(domain.name("u"))
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", label="a"))
        with domain.as_user(user, password) as directory:
            sid = Sid.parse(directory.session.bound_sid() or "")
            rights = QueueAccess.SET_QUEUE_PROPERTIES | QueueAccess.GET_QUEUE_PROPERTIES
            given = SecurityDescriptor.build(dacl=[allow(sid, rights | QueueAccess.WRITE_MESSAGE)])
            domain.directory.write(mqdssm.Queue(identifier=guid, security=bytes(given)))
            directory.write(mqdssm.Queue(identifier=guid, label="b"))
            read = directory.read(mqdssm.Queue, by_identifier(guid), attributes=["Label"])
            assert read.label == "b"
        stored = SecurityDescriptor.from_bytes(
            domain.directory.read(mqdssm.Queue, by_identifier(guid)).security
        )
        assert stored.explicit_aces() == given.explicit_aces()
        # Samba's own tool sees the right to send as the extended right of the schema
        shown = domain.tools.sddl(f"CN=q,CN=msmq,CN={computer},CN=Computers,{domain.root}")
        assert re.search(rf"\(OA;;CR;06bd3202-df3e-11d1-9c86-006008764d0e;;{sid}\)", shown, re.IGNORECASE)

    def test_a_list_that_is_written_leaves_the_owner_alone(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q"))
        system = SecurityDescriptor.build(owner=Sid("S-1-5-18"))
        domain.directory.write(mqdssm.Queue(identifier=guid, security=bytes(system)))
        listed = SecurityDescriptor.build(dacl=[allow(EVERYONE, QueueAccess.GENERIC_ALL)])
        domain.directory.write(mqdssm.Queue(identifier=guid, security=bytes(listed)))
        read = SecurityDescriptor.from_bytes(
            domain.directory.read(mqdssm.Queue, by_identifier(guid)).security
        )
        assert read.owner == Sid("S-1-5-18")
        assert read.explicit_aces() == listed.explicit_aces()

    @pytest.mark.parametrize(
        ("rights", "allowed"), [(WRITE_DAC, "list"), (WRITE_OWNER, "owner")], ids=["list", "owner"]
    )
    def test_list_and_owner_need_a_right_each(self, domain: Domain, rights: int, allowed: str) -> None:
        computer, _ = domain.queue_manager()
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q"))
        dn = f"CN=q,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
            sid = Sid.parse(directory.session.bound_sid() or "")
            image = bytes(SecurityDescriptor.build(dacl=[allow(sid, rights | AdRight.GENERIC_READ)]))
            domain.directory.session.modify(dn, {"nTSecurityDescriptor": [image]})
            parts = {
                "list": SecurityDescriptor.build(dacl=[allow(sid, QueueAccess.GENERIC_READ)]),
                "owner": SecurityDescriptor.build(owner=sid),
            }
            own = mqdssm.Queue(identifier=guid, security=bytes(parts.pop(allowed)))
            (other,) = parts.values()
            with pytest.raises(mqdssm.GenericDirectoryError, match="no right") as caught:
                directory.write(mqdssm.Queue(identifier=guid, security=bytes(other)))
            assert caught.value.ldap_code == 50
            assert "RIGHT_WRITE_DAC (0x40000)" in caught.value.hint
            assert "RIGHT_WRITE_OWNER for its owner" in caught.value.hint
            directory.write(own)

    def test_a_null_list_counts_as_none(self, domain: Domain) -> None:
        """It lets nobody do everything, though it says so: the object gets the list of its class."""
        computer, _ = domain.queue_manager()
        null = SecurityDescriptor.build(control=DescriptorControl.DACL_PRESENT)
        assert null.dacl is None
        of_class = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\a"))
        made = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\b", security=bytes(null)))
        listed = bytes(SecurityDescriptor.build(dacl=[allow(EVERYONE, QueueAccess.GENERIC_ALL)]))
        written = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\c", security=listed))
        domain.directory.write(mqdssm.Queue(identifier=written, security=bytes(null)))
        expected = self.granted(domain, of_class)
        assert EVERYONE not in expected
        assert self.granted(domain, made) == self.granted(domain, written) == expected

    def test_what_is_read_can_be_written_back(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q"))
        session = domain.directory.session
        before = session.get(guid, ["nTSecurityDescriptor"]).first("nTSecurityDescriptor") or b""
        queue = domain.directory.read(mqdssm.Queue, by_identifier(guid))
        queue.security = queue.security  # assigned, therefore written
        domain.directory.write(queue)
        after = session.get(guid, ["nTSecurityDescriptor"]).first("nTSecurityDescriptor") or b""
        count = len(SecurityDescriptor.from_bytes(after).dacl.aces)  # type: ignore[union-attr]
        assert count == len(SecurityDescriptor.from_bytes(before).dacl.aces)  # type: ignore[union-attr]
        assert domain.directory.read(mqdssm.Queue, by_identifier(guid)).security == queue.security


def test_an_ordinary_search_warns_of_nothing(domain: Domain, caplog: pytest.LogCaptureFixture) -> None:
    list(domain.directory.search(mqdssm.Queue))
    list(domain.directory.search(mqdssm.Site))
    old, site = uuid4(), domain.site()
    computer, _ = domain.queue_manager(site_identifier_list=[site])
    domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=old))
    domain.directory.read(mqdssm.Queue, by_identifier(old))
    with pytest.raises(mqdssm.ObjectNotFound):
        domain.directory.read(mqdssm.Queue, by_identifier(uuid4()))
    assert not [record for record in caplog.records if "not followed" in record.message]


class TestLimitsOfWindows:
    def test_many_values(self, domain: Domain, tmp_path: Path) -> None:
        computer, _ = domain.queue_manager()
        session = domain.directory.session
        guids = [domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q{n}")) for n in range(23)]
        members = [
            f"CN=q{n},CN=msmq,CN={computer},CN=Computers,{domain.root}".encode() for n in range(len(guids))
        ]
        name = domain.name("g")
        group = f"CN={name},CN=Users,{domain.root}"
        session.add(group, {"objectClass": [b"group"], "sAMAccountName": [name.encode()], "member": members})
        identifier = UUID(bytes_le=session.get(group, ["objectGUID"]).all("objectGUID")[0])
        with domain.behind_limits(tmp_path, range_values=5, page_entries=7) as (directory, proxy):
            found = directory.resolve_distribution_list(f"DL={identifier}")
            assert {line.lower() for line in found} == {f"public={guid}" for guid in guids}
            (entry,) = directory.session.find(group, TRUE, ["member"])
            assert len(entry.all("member")) == len(members)
            (row,) = directory.session.rows(group, TRUE, ["cn", "member"], frozenset({"member"}))
            assert len(row[2]) == len(members)
            assert any(b";range=5-*" in bytes(str(one), "ascii") for one in proxy.requests)

    def test_pages_and_filters(self, domain: Domain, tmp_path: Path) -> None:
        computer, manager = domain.queue_manager()
        for number in range(12):
            domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\p{number}", label="paged"))
        with domain.behind_limits(tmp_path, page_entries=1000) as (directory, proxy):
            paged = mqdssm.Filter("Label", "==", "paged")
            found = [queue.pathname for queue in directory.search(mqdssm.Queue, paged)]
            assert len(found) == len(set(found)) == 12
            read = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer))
            assert read.identifier == manager
            assert directory.read(mqdssm.QueueManager, by_identifier(manager)) == read
            assert not proxy.refused
            assert not proxy.cut
            assert not proxy.trap.visits

    def test_referrals_are_not_followed(self, domain: Domain, tmp_path: Path) -> None:
        computer, manager = domain.queue_manager()
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\here"))
        queue = mqdssm.Queue(identifier=guid, label="elsewhere")
        with domain.behind_limits(tmp_path, references=True) as (directory, proxy):
            found = [one.identifier for one in directory.search(mqdssm.QueueManager)]
            assert manager in found
            for operation, act in (
                ("modify", lambda: directory.write(queue)),
                ("add", lambda: directory.create(mqdssm.Queue(pathname=rf"{computer}\there"))),
                ("delete", lambda: directory.delete(queue)),
            ):
                proxy.refer_next(operation)
                with pytest.raises(mqdssm.DirectoryError, match="belongs to another domain"):
                    act()
            assert [request.operation for request, _ in proxy.refused] == ["modify", "add", "delete"]
            assert not proxy.trap.visits
