"""Create ADM Element From LDAP Values: Enterprise, Site, RoutingLink, User ([MS-MQDSSM] 3.1.6.11.3-6)."""

import logging
from uuid import uuid4

import pytest
from support.enterprises.hand_made import DESCRIPTOR, HandMade

import mqdssm
from mqdssm import Enterprise, RoutingLink, Site, User
from mqdssm.model.dn import DN


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


@pytest.fixture(params=[True, False], ids=["brought along", "looked up"])
def references(request, monkeypatch, world) -> str:
    """Both ways to follow references: the server brings them with a page, or cannot."""
    if not request.param:
        profile = type(world.directory.session.profile)
        monkeypatch.setattr(profile, "build_references_control", lambda *_: ())
    return "brought along" if request.param else "looked up"


def by_guid(guid) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


def set_enterprise(world, **values: str | bytes | None) -> None:
    """Give the enterprise's entry some attributes, take the others away; the world restores it."""
    known = ("mSMQNameStyle", "mSMQCSPName", "mSMQLongLived", "mSMQVersion")
    always = () if world.kind.makes_descriptors else ("nTSecurityDescriptor",)
    lines = []
    for name in dict.fromkeys((*known, *always, *values)):
        lines.append(f"replace: {name}")
        value = values.get(name)
        if isinstance(value, bytes):
            from base64 import b64encode

            lines.append(f"{name}:: {b64encode(value).decode()}")
        elif value is not None:
            lines.append(f"{name}: {value}")
        lines.append("-")
    world.ldap.modify(world.services_dn, "\n".join(lines))


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3.1")
def test_every_attribute_of_the_enterprise(world) -> None:
    set_enterprise(
        world,
        mSMQNameStyle="TRUE",
        mSMQCSPName="N",
        mSMQLongLived="-1",
        mSMQVersion="200",
        nTSecurityDescriptor=DESCRIPTOR,
    )
    guid = world.ldap.entry(world.services_dn)["objectGUID"][0]
    for found in (world.directory.read(Enterprise, []), *world.directory.search(Enterprise)):
        values = world.values(found)
        assert DN.parse(values.pop("Name")) == DN.parse(world.root)
        assert values.pop("Identifier").bytes_le == guid
        assert values == {
            "WeakenedSecurity": True,
            "NonLDAPCapableQueueManagerNotification": False,
            "DefaultTimeToLive": 0xFFFF_FFFF,
            "OldDirectory": False,
            "Security": DESCRIPTOR,
        }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3")
def test_a_bare_enterprise_has_the_defaults(world) -> None:
    """Note <13>; decisions M38 and M41."""
    set_enterprise(world)
    found = world.directory.read(Enterprise, [])
    assert world.values(found) == {
        "Identifier": found.identifier,
        "Name": found.name,
        "WeakenedSecurity": False,
        "NonLDAPCapableQueueManagerNotification": True,
        "DefaultTimeToLive": 345_600,
        "OldDirectory": True,
    }
    for filters in () if world.kind.makes_descriptors else ([], by_guid(found.identifier)):
        with pytest.raises(mqdssm.GenericDirectoryError, match="Security"):
            world.directory.read(Enterprise, filters, attributes=["Security"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3.2")
@pytest.mark.parametrize(("stored", "expected"), [("FALSE", False), ("TRUE", True), (None, False)])
def test_weakened_security(world, stored, expected) -> None:
    """Note <14>; decision M10: the attribute is a Boolean, unset is the internal default."""
    set_enterprise(world, mSMQNameStyle=stored)
    found = world.directory.read(Enterprise, [], attributes=["WeakenedSecurity"])
    assert found.weakened_security is expected
    assert found.populated == {"WeakenedSecurity"}


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3.3")
@pytest.mark.parametrize(("stored", "expected"), [("Y", True), ("N", False), (None, True)])
def test_notification(world, stored, expected) -> None:
    set_enterprise(world, mSMQCSPName=stored)
    found = world.directory.read(Enterprise, [])
    assert found.non_ldap_capable_queue_manager_notification is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3")
@pytest.mark.parametrize(
    ("values", "attribute"),
    [
        ({"mSMQCSPName": "maybe"}, "NonLDAPCapableQueueManagerNotification"),
        ({"mSMQVersion": "4"}, "OldDirectory"),
    ],
)
def test_values_that_mean_nothing(world, values, attribute) -> None:
    set_enterprise(world, **values)
    with pytest.raises(mqdssm.GenericDirectoryError, match=attribute):
        world.directory.read(Enterprise, [])
    (found,) = world.directory.search(Enterprise)
    assert not found.is_populated(attribute)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3")
@pytest.mark.parametrize(("stored", "expected"), [("3", True), ("200", False)])
def test_old_directory(world, stored, expected) -> None:
    set_enterprise(world, mSMQVersion=stored)
    assert world.directory.read(Enterprise, []).old_directory is expected


@pytest.mark.spec("MS-MQDSSM 2.2.3")
def test_there_is_one_enterprise_and_no_event_makes_a_second(world) -> None:
    (found,) = world.directory.search(Enterprise)
    (entry,) = world.ldap.dns(world.root, "(objectClass=mSMQEnterpriseSettings)")
    assert entry.lower() == world.services_dn.lower()
    assert world.directory.read(Enterprise, by_guid(found.identifier)) == found
    for again in (Enterprise(), Enterprise(default_time_to_live=5), found):
        with pytest.raises(mqdssm.GenericDirectoryError):
            world.directory.create(again)
    with pytest.raises(mqdssm.GenericDirectoryError):
        world.directory.delete(found)
    assert world.ldap.dns(world.root, "(objectClass=mSMQEnterpriseSettings)") == [entry]


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.4")
def test_every_attribute_of_a_site_made_by_hand(world, made) -> None:
    site = made.site(
        "Z\\C3\\BCrich\\, West",
        {
            "mSMQInterval1": "3",
            "mSMQInterval2": "-3",
            "mSMQSiteForeign": "TRUE",
            "mSMQNt4Stub": "1",
            "nTSecurityDescriptor": DESCRIPTOR,
        },
    )
    for found in (
        world.directory.read(Site, by_guid(site.guid)),
        world.directory.read(Site, mqdssm.Filter("Name", "==", "ZÜRICH, West")),
        *world.search(Site),
    ):
        values = world.values(found)
        assert DN.parse(values.pop("FullPath")) == DN.parse(site.dn)
        assert values == {
            "Identifier": site.guid,
            "Name": "Zürich, West",
            "IntraSiteReplicationInterval": 3,
            "InterSiteReplicationInterval": 0xFFFF_FFFD,
            "ForeignSite": True,
            "MigratedFromMsmq10": True,
            "Security": DESCRIPTOR,
        }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.4")
def test_a_native_site_has_the_defaults(world, made) -> None:
    """Note <15>; decision M12: mSMQNt4Stub is never set on the sites of Active Directory itself."""
    site = made.site(world.name("native"), {"systemFlags": "1107296256"})
    found = world.values(world.directory.read(Site, by_guid(site.guid)))
    assert found.pop("FullPath")
    assert found.pop("Name").startswith("native")
    assert found == {
        "Identifier": site.guid,
        "IntraSiteReplicationInterval": 2,
        "InterSiteReplicationInterval": 10,
        "ForeignSite": False,
        "MigratedFromMsmq10": False,
    }
    if not world.kind.makes_descriptors:
        with pytest.raises(mqdssm.GenericDirectoryError, match="Security"):
            world.directory.read(Site, by_guid(site.guid), attributes=["Security"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.4")
def test_attributes_of_sites_that_may_have_several_values(world, made) -> None:
    """Decision M10: the schema allows several; contradictory ones mean nothing."""
    name = world.name("many")
    more = {"cn": [name, "Other"]} if world.kind.keeps_guids else {}  # Active Directory allows one
    site = made.site(name, {"mSMQNt4Stub": ["0", "1"], "mSMQSiteForeign": ["FALSE"], **more})
    with pytest.raises(mqdssm.GenericDirectoryError, match="MigratedFromMsmq10"):
        world.directory.read(Site, by_guid(site.guid))
    (found,) = world.search(Site)
    assert not found.is_populated("MigratedFromMsmq10")
    assert (found.name, found.foreign_site) == (name, False)
    for value in (True, False):
        assert not world.search(Site, mqdssm.Filter("MigratedFromMsmq10", "==", value))
    assert not list(world.directory.search(Site, mqdssm.Filter("Name", "==", "Other")))
    assert len(world.search(Site, mqdssm.Filter("Name", "!=", "Other"))) == 1


@pytest.fixture
def linked(world, made):
    """Two sites, a gate, and a link with everything between them."""
    sites = [made.site(world.name("s")) for _ in range(2)]
    gates = [made.queue_manager(world.name("gate")) for _ in range(2)]
    link = made.link(
        sites[0].dn,
        sites[1].dn.upper(),
        {"mSMQCost": "999999", "description": "Überland", "mSMQSiteGates": [gate.dn for gate in gates]},
    )
    return sites, gates, link


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.5")
def test_every_attribute_of_a_link_made_by_hand(world, linked) -> None:
    sites, gates, link = linked
    for found in (
        world.directory.read(RoutingLink, by_guid(link.guid)),
        *world.directory.search(RoutingLink),
    ):
        values = world.values(found)
        assert DN.parse(values.pop("FullPath")) == DN.parse(link.dn)
        assert set(values.pop("SiteGateIdentifierList")) == {gate.guid for gate in gates}
        assert values == {
            "Identifier": link.guid,
            "Description": "Überland",
            "ActualCost": 999_999,
            "Site1Identifier": sites[0].guid,
            "Site2Identifier": sites[1].guid,
        }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5")
def test_a_bare_link_has_the_defaults(world, made) -> None:
    """Note <16>."""
    site = made.site(world.name("s"))
    link = made.link(site.dn, site.dn)
    found = world.directory.read(RoutingLink, by_guid(link.guid))
    assert (found.description, found.site_gate_identifier_list, found.actual_cost) == ("", (), 1)
    assert {"Description", "SiteGateIdentifierList"} <= found.populated


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5")
def test_a_link_without_guid_is_an_error_of_a_read_and_a_gap_in_a_list(world, made, caplog) -> None:
    site = made.site(world.name("s"))
    dn = made.link(site.dn, site.dn, {"objectGUID": None}).dn
    with pytest.raises(mqdssm.GenericDirectoryError, match="Identifier"):
        world.directory.read(RoutingLink, mqdssm.Filter("FullPath", "==", dn))
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        (found,) = world.directory.search(RoutingLink)
    assert "Identifier" not in found.populated
    assert found.site1_identifier == site.guid
    assert dn.lower() in caplog.text.lower()


def check_missing_site(world, linked, which: int, caplog) -> None:
    sites, _, link = linked
    attribute = f"Site{which + 1}Identifier"
    other = f"Site{2 - which}Identifier"
    world.ldap.delete(sites[which].dn)
    for filters in (by_guid(link.guid), mqdssm.Filter("Description", "==", "überland")):
        with pytest.raises(mqdssm.GenericDirectoryError, match=attribute) as failed:
            world.directory.read(RoutingLink, filters)
        assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
        assert world.directory.read(RoutingLink, filters, attributes=[other]).populated == {other}
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        (found,) = world.directory.search(RoutingLink)
    assert not found.is_populated(attribute)
    assert getattr(found, RoutingLink.field_name(other)) == sites[1 - which].guid
    assert attribute in caplog.text


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
def test_a_link_whose_first_site_is_gone(world, linked, caplog) -> None:
    """Decision M40."""
    check_missing_site(world, linked, 0, caplog)


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.2")
def test_a_link_whose_second_site_is_gone(world, linked, caplog) -> None:
    check_missing_site(world, linked, 1, caplog)


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.2")
def test_an_end_that_is_no_site_is_no_site(world, made) -> None:
    site = made.site(world.name("s"))
    for site1, site2, attribute in (
        (world.sites_dn, site.dn, "Site1Identifier"),
        (site.dn, world.sites_dn, "Site2Identifier"),
    ):
        link = made.link(site1, site2)
        with pytest.raises(mqdssm.GenericDirectoryError, match=attribute):
            world.directory.read(RoutingLink, by_guid(link.guid))


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.3")
def test_gates_that_are_gone_or_none_are_skipped(world, made, linked, caplog) -> None:
    """Decision M40, where the text would make the whole link unreadable."""
    sites, gates, link = linked
    dangling = f"mSMQSiteGates: CN=msmq\\0ADEL:{uuid4()},CN=Deleted Objects,{world.root}"
    if not world.kind.takes_dangling_names:
        dangling = ""  # the gate that is deleted below leaves such a name
    world.ldap.modify(
        link.dn,
        f"add: mSMQSiteGates\nmSMQSiteGates: {sites[0].dn}\n{dangling}",
    )
    world.ldap.delete(gates[1].dn)
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        found = world.directory.read(RoutingLink, by_guid(link.guid))
    assert found.site_gate_identifier_list == (gates[0].guid,)
    assert world.kind.left_behind(gates[1].dn, gates[1].guid).lower() in caplog.text.lower()
    assert [each.site_gate_identifier_list for each in world.directory.search(RoutingLink)] == [
        (gates[0].guid,)
    ]


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5")
def test_links_are_listed_in_a_handful_of_requests(world, made, references) -> None:
    sites = [made.site(world.name("s")) for _ in range(8)]
    gate = made.queue_manager(world.name("gate"))
    made.add_many(
        (
            f"CN={uuid4().hex},{world.services_dn}",
            "mSMQSiteLink",
            {"mSMQSite1": one.dn, "mSMQSite2": other.dn, "mSMQCost": "1", "mSMQSiteGates": gate.dn},
        )
        for one in sites
        for other in sites
        if one is not other
    )
    before = world.directory.session.round_trips
    found = list(world.directory.search(RoutingLink))
    # the links; if need be their sites, their gates
    limit = {"brought along": 1, "looked up": 3}[references]
    assert world.directory.session.round_trips - before <= limit
    assert {(link.site1_identifier, link.site2_identifier) for link in found} == {
        (one.guid, other.guid) for one in sites for other in sites if one is not other
    }


SID = bytes.fromhex("010500000000000515000000010000000200000003000000e9030000")


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.6")
@pytest.mark.spec("MS-MQDSSM 3.1.1.4")
def test_every_attribute_of_a_user_made_by_hand(world, made) -> None:
    digests = [bytes(range(16)), bytes(range(16, 32))]
    user = made.user(
        world.name("ann"),
        {"objectSid": SID, "mSMQDigests": digests, "mSMQSignCertificates": b"\x00image\xff"},
    )
    sid = str(mqdssm.Sid.from_bytes(world.ldap.entry(user.dn)["objectSid"][0]))
    (listed,) = (one for one in world.directory.search(User) if one.identifier == user.guid)
    for found in (
        world.directory.read(User, by_guid(user.guid)),
        world.directory.read(User, mqdssm.Filter("SecurityIdentifier", "==", sid)),
        listed,
    ):
        values = world.values(found)
        assert DN.parse(values.pop("FullPath")) == DN.parse(user.dn)
        assert sorted(values.pop("CertificateDigestList")) == digests
        assert values == {
            "Identifier": user.guid,
            "SecurityIdentifier": sid,
            "Certificates": b"\x00image\xff",
        }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.6")
def test_a_bare_user_has_the_defaults(world, made) -> None:
    """Note <17>."""
    user = made.user(world.name("bare"), {"objectSid": SID})
    found = world.directory.read(User, by_guid(user.guid))
    assert (found.certificates, found.certificate_digest_list) == (b"", ())
    assert {"Certificates", "CertificateDigestList"} <= found.populated


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.6")
def test_a_user_without_sid_and_computers(world, made) -> None:
    """An unset objectSid is an error of a read; a computer is no user, though its class says so (M32)."""
    user = made.user(world.name("nosid"))
    computer = made.computer(world.name("pc"), objectSid=SID)
    with pytest.raises(mqdssm.GenericDirectoryError, match="SecurityIdentifier"):
        world.directory.read(User, by_guid(user.guid))
    (found,) = world.directory.search(User)
    assert (found.identifier, found.is_populated("SecurityIdentifier")) == (user.guid, False)
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.read(User, by_guid(computer.guid))
    assert not list(
        world.directory.search(User, mqdssm.Filter("SecurityIdentifier", "==", "S-1-5-21-1-2-3-1001"))
    )
