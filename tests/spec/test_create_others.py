"""Create Directory Object: QueueManager, Site, RoutingLink ([MS-MQDSSM] 3.1.6.1.1, .3, .4)."""

from uuid import UUID, uuid4

import pytest
from support.wire.certificates import registered

import mqdssm
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import (
    MQSEC_MACHINE_GENERIC_ALL,
    MQSEC_MACHINE_GENERIC_WRITE,
    MQSEC_MACHINE_WORLD_RIGHTS,
    MQSEC_SITE_GENERIC_ALL,
    MQSEC_SITE_GENERIC_READ,
)

EVERYONE = mqdssm.Sid("S-1-1-0")
OWNER = mqdssm.Sid("S-1-5-21-1-2-3-1105")


def granted(raw: bytes) -> dict[mqdssm.Sid, int]:
    return {ace.sid: ace.mask for ace in SecurityDescriptor.from_bytes(raw).explicit_aces()}


def configuration(world, queue_manager: UUID) -> dict[str, list[bytes]]:
    return world.ldap.entry(f"CN=msmq,{world.computer_dn(world.computer_of(queue_manager))}")


# -- QueueManager -----------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.7")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.1")
def test_every_attribute_of_a_queue_manager(world) -> None:
    site, out_server, in_server = world.site(), world.queue_manager(), world.queue_manager()
    keys = b"\x08\x00\x00\x00\x00\x00\x00\x00"
    guid = world.queue_manager(
        site_identifier_list=[site],
        queue_manager_version="10.0.17763",
        operating_system_type="WinServer",
        queue_manager_quota=0xFFFF_FFFF,
        journal_quota=12,
        foreign_system=False,
        out_routing_server_identifier_list=[out_server, uuid4()],
        in_routing_server_identifier_list=[in_server],
        public_encryption_key_list=keys,
    )
    entry = configuration(world, guid)
    assert entry.pop("nTSecurityDescriptor")
    places = {
        name: [world.ldap.entry(value.decode())["objectGUID"] for value in entry.pop(name)]
        for name in ("mSMQOutRoutingServers", "mSMQInRoutingServers")
    }
    assert places == {
        "mSMQOutRoutingServers": [[out_server.bytes_le]],  # the GUID of nothing was skipped
        "mSMQInRoutingServers": [[in_server.bytes_le]],
    }
    assert entry == {
        "objectClass": [b"mSMQConfiguration"],
        "cn": [b"msmq"],
        "objectGUID": [guid.bytes_le],
        "mSMQComputerTypeEx": [b"10.0.17763"],
        "mSMQOSType": [b"1024"],
        "mSMQQuota": [b"-1"],
        "mSMQJournalQuota": [b"12"],
        "mSMQForeign": [b"FALSE"],
        "mSMQSites": [site.bytes_le],
        "mSMQEncryptKey": [keys],
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.1")
@pytest.mark.parametrize(
    ("values", "attributes"),
    [
        ({"computer_name": "pc"}, None),
        ({"site_identifier_list": [uuid4()]}, None),
        ({"computer_name": "pc", "site_identifier_list": [uuid4()]}, ["ComputerName"]),
        (
            {"computer_name": "pc", "site_identifier_list": [uuid4()]},
            ["SiteIdentifierList", "ConnectedNetworkIdentifierList"],
        ),
        (
            {
                "computer_name": "pc",
                "site_identifier_list": [uuid4()],
                "connected_network_identifier_list": [uuid4()],
            },
            None,
        ),
    ],
    ids=["no sites", "no computer", "sites not listed", "networks listed", "networks set"],
)
def test_preconditions_of_a_queue_manager(world, values, attributes) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:
        world.directory.create(mqdssm.QueueManager(**values), attributes=attributes)
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert not world.ldap.dns(world.root, "(objectClass=mSMQConfiguration)")


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.4")
@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("Other", b"0"),
        ("Unknown", b"0"),
        ("Foreign", b"256"),
        ("Windows 95", b"512"),
        ("Win95", b"512"),
        ("WinClient", b"768"),
        ("WinServer", b"1024"),
        ("WinEnt", b"1280"),
    ],
)
def test_operating_systems_in_both_spellings(world, name, stored) -> None:
    """Decision M25."""
    guid = world.queue_manager(operating_system_type=name)
    assert configuration(world, guid)["mSMQOSType"] == [stored]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.5")
@pytest.mark.parametrize(
    ("roles", "bits"),
    [
        ({"routing_server": True}, b"1"),
        ({"routing_server": False}, b"0"),
        ({"remote_access_server": True}, b"16"),
        ({"directory_server": True}, b"0"),
        ({"directory_server": True, "directory_server_type": "Standalone"}, b"0"),
        ({"directory_server": True, "directory_server_type": "BackupSiteController"}, b"2"),
        ({"directory_server": True, "directory_server_type": "PrimarySiteController"}, b"4"),
        ({"directory_server": True, "directory_server_type": "PrimaryEnterpriseController"}, b"8"),
        ({"directory_server": False, "directory_server_type": "PrimarySiteController"}, b"0"),
        (
            {
                "routing_server": True,
                "remote_access_server": True,
                "directory_server": True,
                "directory_server_type": "PrimarySiteController",
            },
            b"21",
        ),
    ],
)
def test_service_type_bits(world, roles, bits) -> None:
    assert configuration(world, world.queue_manager(**roles))["mSMQServiceType"] == [bits]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
def test_without_roles_no_service_type_is_written(world) -> None:
    assert "mSMQServiceType" not in configuration(world, world.queue_manager())


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.2")
def test_only_listed_attributes_are_stored(world) -> None:
    """Steps 1 and 2, also where the object has more."""
    one, two, name = world.site(), world.site(), world.name("listed")
    manager = mqdssm.QueueManager(
        computer_name=world.computer(), site_identifier_list=[one], journal_quota=5, queue_manager_quota=6
    )
    site = mqdssm.Site(name=name, foreign_site=True, intra_site_replication_interval=6)
    link = mqdssm.RoutingLink(site1_identifier=one, site2_identifier=two, actual_cost=6, description="text")
    cases = (
        (
            manager,
            ["ComputerName", "SiteIdentifierList", "QueueManagerQuota"],
            "mSMQQuota",
            "mSMQJournalQuota",
        ),
        (site, ["Name", "IntraSiteReplicationInterval"], "mSMQInterval1", "mSMQSiteForeign"),
        (link, ["Site1Identifier", "Site2Identifier", "ActualCost"], "mSMQCost", "description"),
    )
    for obj, names, stored, other in cases:
        guid = world.directory.create(obj, attributes=names)
        by_guid = mqdssm.Filter("Identifier", "==", guid)
        entry = world.ldap.entry(world.directory.read(type(obj), by_guid).full_path)
        assert entry[stored] == [b"6"]
        assert other not in entry


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
def test_an_existing_queue_manager_gives_its_own_guid(world) -> None:
    """Step 4 with decision M4: processing goes on, and settings say what the entry says."""
    site = world.site()
    computer = world.computer()
    first = world.queue_manager(computer, site_identifier_list=[site], routing_server=True)
    settings = world.settings_dn(world.site_name(site), computer)
    world.ldap.modify(settings, "replace: mSMQRoutingService\nmSMQRoutingService: FALSE")
    again = world.queue_manager(computer, site_identifier_list=[site], routing_server=True, journal_quota=5)
    assert again == first
    assert "mSMQJournalQuota" not in configuration(world, first)
    assert world.ldap.entry(settings)["mSMQRoutingService"] == [b"TRUE"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
@pytest.mark.parametrize("role", ["routing_server", "directory_server", "supporting_server"])
def test_servers_get_a_settings_object_in_each_site(world, role) -> None:
    sites = [world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=[*sites, uuid4()], **{role: True})
    entry = configuration(world, guid)
    for site in sites:
        settings = world.ldap.entry(world.settings_dn(world.site_name(site), world.computer_of(guid)))
        assert settings["objectClass"] == [b"mSMQSettings"]
        assert settings["mSMQQMID"] == [guid.bytes_le]
        for own, copied in (
            ("mSMQServices", "mSMQServiceType"),
            ("mSMQRoutingService", "mSMQRoutingServices"),
            ("mSMQDsService", "mSMQDsServices"),
            ("mSMQDependentClientService", "mSMQDependentClientServices"),
        ):
            assert settings.get(own) == entry.get(copied), own


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_who_is_no_server_gets_no_settings(world) -> None:
    world.queue_manager(routing_server=False)
    assert not world.ldap.dns(world.root, "(objectClass=mSMQSettings)")


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_server_objects_are_not_made_where_that_is_switched_off(world) -> None:
    """Decision M6: the extension can be switched off; then the missing parent is ObjectNotFound."""
    site, computer = world.site(), world.computer()
    manager = mqdssm.QueueManager(computer_name=computer, site_identifier_list=[site], routing_server=True)
    with (
        world.connect(create_server_objects=False) as literal,
        pytest.raises(mqdssm.ObjectNotFound),
    ):
        literal.create(manager)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.9")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_signing_keys_go_to_the_computer_with_their_digests(world) -> None:
    keys = registered("one", "two")
    guid = world.queue_manager(public_signing_key_list=bytes(keys))
    computer = world.ldap.entry(world.computer_dn(world.computer_of(guid)))
    assert computer["mSMQSignCertificates"] == [bytes(keys)]
    assert sorted(computer["mSMQDigests"]) == sorted(keys.digests())
    assert "mSMQDigestsMig" not in computer  # note <9>: Windows 2000 alone


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
@pytest.mark.parametrize(
    ("values", "world_access"),
    [
        ({}, MQSEC_MACHINE_WORLD_RIGHTS),
        ({"foreign_system": False}, MQSEC_MACHINE_WORLD_RIGHTS),
        ({"foreign_system": True}, MQSEC_MACHINE_GENERIC_WRITE),
    ],
)
def test_computed_descriptor_of_a_queue_manager(world, values, world_access) -> None:
    supplied = bytes(SecurityDescriptor.build(owner=OWNER))
    guid = world.queue_manager(security=supplied, **values)
    machine = world.ldap.entry(world.computer_dn(world.computer_of(guid)))["objectSid"][0]
    raw = configuration(world, guid)["nTSecurityDescriptor"][0]
    assert granted(raw) == {
        EVERYONE: world_access,
        mqdssm.Sid.from_bytes(machine): MQSEC_MACHINE_GENERIC_ALL,
        OWNER: MQSEC_MACHINE_GENERIC_ALL,
    }
    assert SecurityDescriptor.from_bytes(raw).owner == OWNER


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_a_bound_user_with_a_sid_gets_the_rights_of_the_creator(world) -> None:
    """Decision M22: the bound identity takes the place of the thread's user."""
    dn, password = world.user(world.name("maker"))
    site, computer = world.site(), world.computer()
    world.make_administrator(dn)
    server = world.server
    with mqdssm.connect(server.url, user=dn, password=password, ca_file=server.ca_file) as directory:
        directory.create(mqdssm.QueueManager(computer_name=computer, site_identifier_list=[site]))
    sid = mqdssm.Sid.from_bytes(world.ldap.entry(dn)["objectSid"][0])
    raw = world.ldap.entry(f"CN=msmq,{world.computer_dn(computer)}")["nTSecurityDescriptor"][0]
    assert granted(raw)[sid] == MQSEC_MACHINE_GENERIC_ALL
    assert SecurityDescriptor.from_bytes(raw).owner == sid


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_a_computer_without_sid_is_left_out_of_the_descriptor(world) -> None:
    computer = world.name("nosid")
    world.ldap.add(world.computer_dn(computer), {"objectClass": "computer", "objectGUID": uuid4().bytes_le})
    raw = configuration(world, world.queue_manager(computer))["nTSecurityDescriptor"][0]
    full = {world.creator: MQSEC_MACHINE_GENERIC_ALL}
    assert granted(raw) == {EVERYONE: MQSEC_MACHINE_WORLD_RIGHTS} | full


# -- Site -------------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.4")
def test_every_attribute_of_a_site(world) -> None:
    """Below CN=Sites (decision M2)."""
    name = world.name("site")
    guid = world.site(
        name,
        intra_site_replication_interval=3,
        inter_site_replication_interval=11,
        foreign_site=True,
        migrated_from_msmq10=True,
    )
    entry = world.ldap.entry(f"CN={name},{world.sites_dn}")
    assert entry.pop("nTSecurityDescriptor")
    assert entry == {
        "objectClass": [b"site"],
        "cn": [name.encode()],
        "objectGUID": [guid.bytes_le],
        "mSMQInterval1": [b"3"],
        "mSMQInterval2": [b"11"],
        "mSMQSiteForeign": [b"TRUE"],
        "mSMQNt4Stub": [b"1"],
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.1")
@pytest.mark.parametrize(
    ("values", "attributes"),
    [
        ({}, None),
        ({"name": "s"}, ["ForeignSite"]),
        ({"name": "s"}, ["Name", "PrimarySiteController"]),
        ({"name": "s"}, ["Name", "PublicSigningKeyList"]),
        ({"name": "s"}, ["Name", "PublicSigningKey"]),
        ({"name": "s", "primary_site_controller": "pc"}, None),
    ],
)
def test_preconditions_of_a_site(world, values, attributes) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError):
        world.directory.create(mqdssm.Site(**values), attributes=attributes)
    assert not world.ldap.exists(f"CN=s,{world.sites_dn}")


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_default_descriptor_of_a_site_never_gives_everyone_more_than_reading(world) -> None:
    """Decision M22: the text would make everybody the master where the creator is no domain user."""
    name = world.name("site")
    world.site(name)
    raw = world.ldap.entry(f"CN={name},{world.sites_dn}")["nTSecurityDescriptor"][0]
    assert granted(raw) == {EVERYONE: MQSEC_SITE_GENERIC_READ} | {world.creator: MQSEC_SITE_GENERIC_ALL}


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (OWNER, {EVERYONE: MQSEC_SITE_GENERIC_READ, OWNER: MQSEC_SITE_GENERIC_ALL}),
        (mqdssm.Sid("S-1-5-21-1-2-3-501"), {EVERYONE: MQSEC_SITE_GENERIC_READ}),  # guest
    ],
)
def test_descriptor_of_a_site_with_an_owner_but_no_dacl(world, owner, expected) -> None:
    name = world.name("site")
    world.site(name, security=bytes(SecurityDescriptor.build(owner=owner)))
    raw = world.ldap.entry(f"CN={name},{world.sites_dn}")["nTSecurityDescriptor"][0]
    assert granted(raw) == expected
    assert SecurityDescriptor.from_bytes(raw).owner == owner


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_a_supplied_dacl_of_a_site_is_kept(world) -> None:
    name = world.name("site")
    given = bytes(SecurityDescriptor.build(owner=OWNER, group=OWNER, dacl=[]))
    world.site(name, security=given)
    assert world.ldap.entry(f"CN={name},{world.sites_dn}")["nTSecurityDescriptor"] == [given]


# -- RoutingLink ------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.5")
def test_every_attribute_of_a_routing_link(world) -> None:
    one, two, gates = world.site(), world.site(), [world.queue_manager(), world.queue_manager()]
    guid = world.directory.create(
        mqdssm.RoutingLink(
            description="over the sea",
            actual_cost=999_999,
            site1_identifier=one,
            site2_identifier=two,
            site_gate_identifier_list=[gates[0], uuid4(), gates[1]],
        )
    )
    entry = world.ldap.entry(f"CN={one.hex}{two.hex},{world.services_dn}")
    ends = {
        name: {world.ldap.entry(value.decode())["objectGUID"][0] for value in entry.pop(name)}
        for name in ("mSMQSite1", "mSMQSite2", "mSMQSiteGates")
    }
    assert ends == {
        "mSMQSite1": {one.bytes_le},
        "mSMQSite2": {two.bytes_le},
        "mSMQSiteGates": {gate.bytes_le for gate in gates},  # the GUID of nothing was skipped
    }
    assert entry == {
        "objectClass": [b"mSMQSiteLink"],
        "cn": [f"{one.hex}{two.hex}".encode()],
        "objectGUID": [guid.bytes_le],
        "description": [b"over the sea"],
        "mSMQCost": [b"999999"],
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.1")
@pytest.mark.parametrize("missing", ["Site1Identifier", "Site2Identifier", "ActualCost"])
@pytest.mark.parametrize("how", ["not set", "not listed"])
def test_preconditions_of_a_routing_link(world, missing, how) -> None:
    link = mqdssm.RoutingLink(actual_cost=1, site1_identifier=world.site(), site2_identifier=world.site())
    listed = None
    if how == "not set":
        link.unset(missing)
    else:
        listed = [name for name in ("Site1Identifier", "Site2Identifier", "ActualCost") if name != missing]
    with pytest.raises(mqdssm.GenericDirectoryError, match=missing):
        world.directory.create(link, attributes=listed)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.5")
@pytest.mark.parametrize("end", ["site1_identifier", "site2_identifier"])
def test_a_link_to_a_site_that_is_not_there_is_refused(world, end) -> None:
    values = {"site1_identifier": world.site(), "site2_identifier": world.site()} | {end: uuid4()}
    with pytest.raises(mqdssm.GenericDirectoryError, match="no site") as failed:
        world.directory.create(mqdssm.RoutingLink(actual_cost=1, **values))
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert not world.ldap.dns(world.root, "(objectClass=mSMQSiteLink)")
