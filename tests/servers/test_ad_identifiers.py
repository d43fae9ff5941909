"""Identifiers on a domain controller: GUIDs that objects bring along, and lists of members (M37, M76)."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.directory.ber import integer, octet_string, sequence
from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.session import Session
from mqdssm.events.facade import Directory
from mqdssm.model.names import PublicFormatName
from mqdssm.testing import SambaDomainController


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def by_identifier(guid: UUID) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


class TestIdentifiers:
    def test_a_foreign_guid_is_remembered(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        old = uuid4()
        assert not domain.directory.session.keeps_guids
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=old))
        assert guid != old
        read = domain.directory.read(mqdssm.Queue, by_identifier(guid))
        assert (read.identifier, read.original_identifier) == (guid, old)
        assert domain.directory.read(mqdssm.Queue, by_identifier(old)) == read
        # every way of asking for it finds it
        both = (by_identifier(old), mqdssm.Filter("Label", "==", ""))
        assert domain.directory.read(mqdssm.Queue, both).identifier == guid
        for known in (old, guid):
            found = domain.directory.search(mqdssm.Queue, by_identifier(known))
            assert [queue.identifier for queue in found] == [guid]
            others = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Identifier", "!=", known))
            assert guid not in [queue.identifier for queue in others]
        others = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Identifier", "!=", uuid4()))
        assert guid in [queue.identifier for queue in others]
        domain.directory.delete(mqdssm.Queue(identifier=old))
        with pytest.raises(mqdssm.ObjectNotFound):
            domain.directory.read(mqdssm.Queue, by_identifier(guid))

    def test_it_belongs_to_one_object(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        old = uuid4()
        guid = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=old))
        place = rf"CN=q,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        site = domain.site()
        for taken in (old, guid, site):
            with pytest.raises(mqdssm.ObjectAlreadyExists, match=f"another object has, or had.*{taken}") as e:
                domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\r", identifier=taken))
            assert (place in str(e.value.hint)) is (taken != site)
            with pytest.raises(mqdssm.ObjectAlreadyExists, match=f"another object has, or had.*{taken}"):
                domain.directory.create(
                    mqdssm.QueueManager(
                        computer_name=domain.machine(), site_identifier_list=[site], identifier=taken
                    )
                )
        assert domain.directory.read(mqdssm.Queue, by_identifier(old)).identifier == guid
        found = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Pathname", "==", rf"{computer}\r"))
        assert not list(found)

    def test_a_queue_manager_that_exists_keeps_its_own(self, domain: Domain) -> None:
        old, site = uuid4(), domain.site()
        computer, guid = domain.queue_manager(site_identifier_list=[site], identifier=old)
        for brought in (old, guid):
            again = mqdssm.QueueManager(
                computer_name=computer, site_identifier_list=[site], identifier=brought
            )
            assert domain.directory.create(again) == guid
        assert domain.directory.read(mqdssm.QueueManager, by_identifier(old)).original_identifier == old

    def test_two_that_others_gave_the_same(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        old = uuid4()
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=old))
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\r"))
        place = f"CN=r,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        domain.directory.session.modify(place, {"mSMQOwnerID": [old.bytes_le]})
        with pytest.raises(mqdssm.GenericDirectoryError, match="2 objects are found by one GUID") as caught:
            domain.directory.delete(mqdssm.Queue(identifier=old))
        assert "clear mSMQOwnerID" in str(caught.value.hint)
        assert place in str(caught.value.hint)

    @pytest.mark.parametrize("element", [mqdssm.Queue, mqdssm.Site])
    def test_the_null_guid_is_none(self, domain: Domain, element: Any) -> None:
        computer, _ = domain.queue_manager()
        named = {"name": domain.name("S")} if element is mqdssm.Site else {"pathname": rf"{computer}\n"}
        with pytest.raises(ValueError, match="null GUID"):
            domain.directory.create(element(identifier=UUID(int=0), **named))
        assert UUID(int=0) not in [one.original_identifier for one in domain.directory.search(element)]

    def test_sites_have_no_room_for_it(self, domain: Domain, caplog: pytest.LogCaptureFixture) -> None:
        old = uuid4()
        guid = domain.directory.create(mqdssm.Site(name=domain.name("S"), identifier=old))
        (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert f"nothing will find it by {old}" in said
        assert domain.directory.read(mqdssm.Site, by_identifier(guid)).original_identifier is None
        with pytest.raises(mqdssm.ObjectNotFound):
            domain.directory.read(mqdssm.Site, by_identifier(old))

    @pytest.fixture
    def promises_guids(self, domain: Domain) -> Iterator[None]:
        """FSpecifyGUIDOnAdd: Samba takes the setting, and adds with objectGUID all the same not."""
        session = domain.directory.session
        place = f"CN=Directory Service,CN=Windows NT,CN=Services,{session.naming.configuration}"
        session.modify(place, {"dSHeuristics": [b"00000000011"]})
        yield
        session.modify(place, {"dSHeuristics": []})

    def test_a_promise_that_is_not_kept(self, domain: Domain, promises_guids: None) -> None:
        computer, _ = domain.queue_manager()
        old = uuid4()
        with domain.as_user(domain.server.user, domain.server.password) as directory:
            assert directory.session.keeps_guids
            guid = directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=old))
            assert guid != old
            assert not directory.session.keeps_guids  # it has been found out
            assert directory.read(mqdssm.Queue, by_identifier(guid)).original_identifier == old

    def test_where_guids_are_kept(self, domain: Domain, promises_guids: None, tmp_path: Path) -> None:
        computer, _ = domain.queue_manager()
        queue, site = uuid4(), uuid4()
        with domain.behind_limits(tmp_path, guid_on_add=True) as (directory, _):
            assert directory.create(mqdssm.Queue(pathname=rf"{computer}\q", identifier=queue)) == queue
            assert directory.create(mqdssm.Site(name=domain.name("S"), identifier=site)) == site
            assert directory.session.keeps_guids
        read = domain.directory.read(mqdssm.Queue, by_identifier(queue))
        assert (read.identifier, read.original_identifier) == (queue, None)


class TestDistributionLists:
    @pytest.fixture
    def group(self, domain: Domain) -> tuple[str, set[str]]:
        """A list of 120 queues, as the format name of the list and those of the queues."""
        computer, _ = domain.queue_manager()
        session, place = domain.directory.session, f"CN=msmq,CN={computer},CN=Computers,{domain.root}"
        dns = [f"CN=q{number},{place}" for number in range(120)]
        for dn in dns:
            session.add(dn, {"objectClass": [b"mSMQQueue"]})
        name = domain.name("g")
        group = f"CN={name},CN=Users,{domain.root}"
        members = [dn.encode() for dn in dns]
        session.add(group, {"objectClass": [b"group"], "sAMAccountName": [name.encode()], "member": members})
        guids = {dn: session.get(dn, ["objectGUID"]).first("objectGUID") or b"" for dn in [group, *dns]}
        queues = {str(PublicFormatName(UUID(bytes_le=guids[dn]))) for dn in dns}
        return f"DL={UUID(bytes_le=guids[group])}", queues

    def test_members_come_in_one_search(self, domain: Domain, group: tuple[str, set[str]]) -> None:
        session = domain.directory.session
        before = session.round_trips
        found = domain.directory.resolve_distribution_list(group[0])
        assert session.round_trips - before == 2  # the list, and its members
        assert (len(found), set(found)) == (120, group[1])

    def test_a_server_that_refuses_that(
        self, domain: Domain, group: tuple[str, set[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # it does refuse DirSync here: that is for the head of a naming context alone
        value = sequence(integer(0), integer(0), octet_string(b""))
        refused = (LdapControl("1.2.840.113556.1.4.841", critical=True, value=value),)
        monkeypatch.setattr(ActiveDirectory, "build_named_controls", lambda *_: refused)
        session = domain.directory.session
        before = session.round_trips
        assert set(domain.directory.resolve_distribution_list(group[0])) == group[1]
        assert session.round_trips - before == 2 + 2 * 2  # by name: two batches in two naming contexts

    def test_members_that_are_not_told(
        self, domain: Domain, group: tuple[str, set[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = domain.directory.session
        told = Session.find_named
        monkeypatch.setattr(Session, "find_named", lambda *of: islice(told(*of) or (), 7))
        before = session.round_trips
        assert set(domain.directory.resolve_distribution_list(group[0])) == group[1]
        assert session.round_trips - before == 2 + 2 * 2
