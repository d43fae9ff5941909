"""Write Directory: QueueManager and its mSMQSettings objects ([MS-MQDSSM] 3.1.6.7.1)."""

from uuid import UUID, uuid4

import pytest
from support.wire.certificates import registered

import mqdssm
from mqdssm.wire.dtyp import SecurityDescriptor

COPIES = {
    "mSMQServices": "mSMQServiceType",
    "mSMQRoutingService": "mSMQRoutingServices",
    "mSMQDsService": "mSMQDsServices",
    "mSMQDependentClientService": "mSMQDependentClientServices",
}


def by_guid(world, guid: UUID, attributes=None) -> mqdssm.QueueManager:
    return world.directory.read(
        mqdssm.QueueManager, mqdssm.Filter("Identifier", "==", guid), attributes=attributes
    )


def configuration(world, guid: UUID) -> dict[str, list[bytes]]:
    return world.ldap.entry(f"CN=msmq,{world.computer_dn(world.computer_of(guid))}")


def settings_sites(world) -> list[str]:
    """Names of the sites that have a settings object."""
    return sorted(
        dn.split(",")[3].split("=")[1] for dn in world.ldap.dns(world.root, "(objectClass=mSMQSettings)")
    )


def assert_settings_match(world, guid: UUID, *sites: UUID) -> None:
    """mSMQSettings exist in exactly these sites, and repeat the configuration ([MS-MQDSSM] 3.1.6.20.1)."""
    assert settings_sites(world) == sorted(world.site_name(site) for site in sites)
    entry = configuration(world, guid)
    for site in sites:
        settings = world.ldap.entry(world.settings_dn(world.site_name(site), world.computer_of(guid)))
        assert settings["mSMQQMID"] == [guid.bytes_le]
        assert {own: settings.get(own) for own in COPIES} == {
            own: entry.get(name) for own, name in COPIES.items()
        }


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.7")
@pytest.mark.parametrize("key", ["Identifier", "FullPath", "ComputerName"])
def test_every_writable_attribute(world, key) -> None:
    other, guid, site = world.queue_manager(), world.queue_manager(), world.site()
    untouched = configuration(world, other)
    descriptor = bytes(SecurityDescriptor.build(owner=mqdssm.Sid("S-1-5-18"), dacl=[]))
    value = getattr(by_guid(world, guid), mqdssm.QueueManager.field_name(key))
    manager = mqdssm.QueueManager(
        queue_manager_version="5.0.1",
        operating_system_type="Unknown",
        queue_manager_quota=5,
        journal_quota=0xFFFF_FFFF,
        foreign_system=True,
        site_identifier_list=[site],
        out_routing_server_identifier_list=[uuid4(), other],
        in_routing_server_identifier_list=[other],
        public_encryption_key_list=b"\x08\x00\x00\x00\x00\x00\x00\x00",
        security=descriptor,
        **{key: value},
    )
    world.directory.write(manager)
    entry = configuration(world, guid)
    for name in ("mSMQOutRoutingServers", "mSMQInRoutingServers"):
        (dn,) = entry[name]
        assert world.ldap.entry(dn.decode())["objectGUID"] == [other.bytes_le]
    expected = {
        "mSMQComputerTypeEx": [b"5.0.1"],
        "mSMQOSType": [b"0"],
        "mSMQQuota": [b"5"],
        "mSMQJournalQuota": [b"-1"],
        "mSMQForeign": [b"TRUE"],
        "mSMQSites": [site.bytes_le],
        "mSMQEncryptKey": [b"\x08\x00\x00\x00\x00\x00\x00\x00"],
        "nTSecurityDescriptor": [descriptor],
    }
    assert {name: entry.get(name) for name in expected} == expected
    assert configuration(world, other) == untouched


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.1")
def test_preconditions(world) -> None:
    manager = by_guid(world, world.queue_manager())
    manager.connected_network_identifier_list = [uuid4()]
    for attributes in (None, ["ConnectedNetworkIdentifierList"]):
        with pytest.raises(mqdssm.GenericDirectoryError, match="ConnectedNetworkIdentifierList"):
            world.directory.write(manager, attributes=attributes)
    with pytest.raises(mqdssm.GenericDirectoryError, match="which object"):
        world.directory.write(mqdssm.QueueManager(journal_quota=1))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
@pytest.mark.parametrize(
    ("written", "bits"),
    [
        ({"routing_server": False}, 0x14),
        ({"remote_access_server": False}, 0x05),
        ({"directory_server": False}, 0x11),
        ({"directory_server_type": "BackupSiteController"}, 0x13),
        ({"directory_server_type": "PrimaryEnterpriseController"}, 0x19),
        ({"directory_server_type": "Standalone"}, 0x11),
        ({"supporting_server": True}, 0x15),
        ({"journal_quota": 5}, 0x15),
    ],
)
def test_service_bits_that_are_not_written_are_kept(world, written, bits) -> None:
    """A write of one role must not clear the bits of the others."""
    guid = world.queue_manager(
        routing_server=True,
        remote_access_server=True,
        directory_server=True,
        directory_server_type="PrimarySiteController",
    )
    world.directory.write(mqdssm.QueueManager(identifier=guid, **written))
    assert configuration(world, guid)["mSMQServiceType"] == [str(bits).encode()]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.8")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.10")
def test_signing_keys_and_their_digests_are_written_together(world) -> None:
    guid = world.queue_manager()
    computer = world.computer_dn(world.computer_of(guid))
    for names in (("one", "two"), ("two", "three", "four"), ()):
        keys = registered(*names)
        world.directory.write(mqdssm.QueueManager(identifier=guid, public_signing_key_list=bytes(keys)))
        entry = world.ldap.entry(computer)
        assert entry.get("mSMQSignCertificates", [b"\0\0\0\0"]) == [bytes(keys)]
        assert sorted(entry.get("mSMQDigests", [])) == sorted(keys.digests())


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.10")
def test_signing_keys_that_are_none_change_nothing(world) -> None:
    guid = world.queue_manager(public_signing_key_list=bytes(registered("one")))
    computer = world.computer_dn(world.computer_of(guid))
    before = world.ldap.entry(computer), configuration(world, guid)
    with pytest.raises(ValueError, match="MS-MQMQ"):
        world.directory.write(
            mqdssm.QueueManager(identifier=guid, public_signing_key_list=b"\1\0\0\0x", journal_quota=9)
        )
    assert (world.ldap.entry(computer), configuration(world, guid)) == before


# -- mSMQSettings in the three cases of 3.1.6.7.1.9 ---------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
@pytest.mark.parametrize("role", ["routing_server", "directory_server", "supporting_server"])
def test_case_1_who_becomes_a_server_gets_settings(world, role) -> None:
    sites = [world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=[*sites, uuid4()], journal_quota=1)
    assert not settings_sites(world)
    world.directory.write(mqdssm.QueueManager(identifier=guid, **{role: True}))
    assert_settings_match(world, guid, *sites)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_case_2_who_is_no_server_any_more_loses_them(world) -> None:
    sites = [world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=sites, routing_server=True, supporting_server=True)
    world.directory.write(mqdssm.QueueManager(identifier=guid, routing_server=False))
    assert_settings_match(world, guid, *sites)
    world.directory.write(mqdssm.QueueManager(identifier=guid, supporting_server=False))
    assert_settings_match(world, guid)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
@pytest.mark.parametrize(
    "change",
    [
        {"routing_server": False, "supporting_server": True},
        {"directory_server": True, "directory_server_type": "PrimarySiteController"},
        {"remote_access_server": True},
    ],
)
def test_case_3_who_stays_a_server_has_them_updated(world, change) -> None:
    site = world.site()
    guid = world.queue_manager(site_identifier_list=[site], routing_server=True)
    dn = world.settings_dn(world.site_name(site), world.computer_of(guid))
    identity = world.ldap.entry(dn)["objectGUID"]
    world.directory.write(mqdssm.QueueManager(identifier=guid, **change))
    assert_settings_match(world, guid, site)
    assert world.ldap.entry(dn)["objectGUID"] == identity, "updated, not made anew"


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
@pytest.mark.parametrize("role", ["PrimarySiteController", "PrimaryEnterpriseController"])
def test_case_3_another_type_of_directory_server_alone(world, role) -> None:
    """No other role, and no other attribute, is written."""
    site = world.site()
    guid = world.queue_manager(
        site_identifier_list=[site], directory_server=True, directory_server_type="BackupSiteController"
    )
    dn = world.settings_dn(world.site_name(site), world.computer_of(guid))
    before = world.ldap.entry(dn)["mSMQServices"]
    world.directory.write(mqdssm.QueueManager(identifier=guid, directory_server_type=role))
    assert_settings_match(world, guid, site)
    assert world.ldap.entry(dn)["mSMQServices"] != before


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_a_changed_site_list_moves_them(world) -> None:
    """Decision M42."""
    old, stays, new = world.site(), world.site(), world.site()
    guid = world.queue_manager(site_identifier_list=[old, stays], directory_server=True)
    world.directory.write(mqdssm.QueueManager(identifier=guid, site_identifier_list=[stays, new]))
    assert_settings_match(world, guid, stays, new)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_settings_without_qmid_are_found_at_their_place(world) -> None:
    site = world.site()
    guid = world.queue_manager(site_identifier_list=[site], routing_server=True)
    dn = world.settings_dn(world.site_name(site), world.computer_of(guid))
    world.ldap.modify(dn, "delete: mSMQQMID")
    world.directory.write(mqdssm.QueueManager(identifier=guid, supporting_server=True))
    assert_settings_match(world, guid, site)
    world.ldap.modify(dn, "delete: mSMQQMID")
    world.directory.write(mqdssm.QueueManager(identifier=guid, supporting_server=False, routing_server=False))
    assert_settings_match(world, guid)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_writing_something_else_leaves_settings_alone(world) -> None:
    site = world.site()
    guid = world.queue_manager(site_identifier_list=[site], routing_server=True)
    dn = world.settings_dn(world.site_name(site), world.computer_of(guid))
    world.ldap.modify(dn, "replace: mSMQServices\nmSMQServices: 99")
    world.directory.write(mqdssm.QueueManager(identifier=guid, journal_quota=5))
    assert world.ldap.entry(dn)["mSMQServices"] == [b"99"]
